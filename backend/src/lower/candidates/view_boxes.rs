//! Splits the copy of a view (such as a concatenation) into boxes of the output, one for each operand of the view.
//!
//! ```text
//! copy of concatenate{axis=0} x, y       x fills 0..n, y fills n..n+m: two loops without a choice
//! copy of pad{low=[1], high=[2]} x, 0.0  x fills 1..n+1, 0.0 fills 0..1 and n+1..n+3
//! copy of pad{interior=[1]} x, 0.0       first 0.0 everywhere, then x fills 0, 2, 4, ..
//! ```
//!
//! If the boxes are disjoint, they may be written in any order. So the loop that computes an operand can write the
//! operand's elements directly to the output.

use crate::lower::graph::{Graph, Movement, Node, NodeId, NodeKind};
use smallvec::SmallVec;
use tapeloom_ir::prim::Piece;

/// The largest number of boxes in which the fill value around a piece is written: two for each of three axes.
const MOST_BORDERS: usize = 6;

/// The box of output elements that a view reads from one operand: extent, start and step along each axis of the output.
pub(crate) type PieceBox = SmallVec<[(usize, i64, i64); 4]>;

/// The boxes of the output by which the copy of a view is written.
pub(crate) struct CopiedView<'a> {
    /// The pieces of the view, one for each operand that is read.
    pub(crate) pieces: &'a [Piece],
    /// The box of each piece.
    pub(crate) boxes: Vec<PieceBox>,
    /// The boxes to which the fill value is written: before all pieces, if boxes overlap.
    pub(crate) filled: Vec<PieceBox>,
    /// Whether boxes overlap, so that they must be written in order: first the fill, then the pieces from last to first.
    pub(crate) ordered: bool,
}

/// Returns the boxes by which the copy of a view is written; `None` if it is not written box by box.
pub(crate) fn copied_view(graph: &Graph, id: NodeId) -> Option<CopiedView<'_>> {
    let (view, pieces, fill) = copied(graph, id)?;
    if pieces.len() < 2 && fill.is_none() {
        return None;
    }
    let shape = &view.ty.shape;
    let mut boxes = Vec::new();
    let mut filled = 0usize;
    for p in pieces {
        let b = piece_box(p, graph.shape(view.operands[p.operand]), shape)?;
        filled = filled.saturating_add(b.iter().map(|(n, _, _)| n).product());
        boxes.push(b);
    }
    // A small array in a batch is computed element by element in registers, and not box by box.
    let batched =
        |b: &PieceBox| b.first().is_some_and(|(n, start, _)| *n == shape[0] && *start == 0);
    let small = |n: usize| shape.elements() / n.max(1) <= graph.machine.register_elements;
    if shape.len() > 1 && small(shape[0]) && boxes.iter().all(batched) {
        return None;
    }
    // If the boxes cover the whole output, no fill is needed.
    let fills = fill.is_some() && filled < shape.elements();
    let around = boxes.first().filter(|_| fills && boxes.len() == 1);
    let around = around.and_then(|inner| border(inner, shape));
    let ordered = (fills && around.is_none()) || !are_disjoint(&boxes);
    let whole = || vec![shape.iter().map(|n| (*n, 0, 1)).collect()];
    let filled = if fills { around.unwrap_or_else(whole) } else { Vec::new() };
    Some(CopiedView { pieces, boxes, filled, ordered })
}

/// Returns disjoint boxes that together contain all elements of the array outside of the box `inner`. Returns `None` if
/// one loop over the whole array costs less, because there would be many boxes or they would be most of the array.
fn border(inner: &PieceBox, shape: &[usize]) -> Option<Vec<PieceBox>> {
    let elements: usize = shape.iter().product();
    let inside: usize = inner.iter().map(|(n, ..)| n).product();
    if inner.iter().any(|(_, _, step)| *step != 1) || 2 * (elements - inside) > elements {
        return None;
    }
    let mut boxes = Vec::new();
    for (axis, (n, start, _)) in inner.iter().enumerate() {
        let end = start + *n as i64;
        for (from, to) in [(0, *start), (end, shape[axis] as i64)] {
            if from < to {
                // A slab on one side of `inner`: its extent along the axes before `axis` is that of `inner`, and along
                // the axes after `axis` that of the whole array.
                let whole = shape[axis + 1..].iter().map(|n| (*n, 0, 1));
                let slab = inner[..axis].iter().copied().chain([((to - from) as usize, from, 1)]);
                boxes.push(slab.chain(whole).collect());
            }
        }
    }
    (boxes.len() <= MOST_BORDERS).then_some(boxes)
}

/// Returns whether no two boxes have a common element. A box with a step above 1 counts as the whole interval from its
/// first to its last element.
fn are_disjoint(boxes: &[PieceBox]) -> bool {
    let range = |(n, start, step): (usize, i64, i64)| {
        let last = start + (n as i64 - 1) * step;
        (start.min(last), start.max(last))
    };
    let apart = |a: &PieceBox, b: &PieceBox| {
        a.iter().zip(b).any(|(a, b)| {
            let ((from, to), (other, end)) = (range(*a), range(*b));
            a.0 == 0 || b.0 == 0 || to < other || end < from
        })
    };
    boxes.iter().enumerate().all(|(k, a)| boxes[..k].iter().all(|b| apart(a, b)))
}

/// Returns the output elements that a piece of a view reads from its operand, as a box; `None` if they do not form a
/// box.
fn piece_box(piece: &Piece, operand: &[usize], shape: &[usize]) -> Option<PieceBox> {
    let mut found: PieceBox = shape.iter().map(|n| (*n, 0, 1)).collect();
    let mut used: SmallVec<[bool; 4]> = SmallVec::from_elem(false, shape.len());
    for (map, extent) in piece.axes.iter().zip(operand) {
        let extent = *extent as i64;
        let (axis, scale) = match map.terms[..] {
            [term] => term,
            // If the index into the operand depends on two axes of the output, the elements do not form a box.
            [_, _, ..] => return None,
            [] => {
                let inside = map.offset.rem_euclid(map.divisor) == 0
                    && (0..extent).contains(&map.offset.div_euclid(map.divisor));
                if inside {
                    continue;
                }
                return None;
            }
        };
        if std::mem::replace(&mut used[axis], true) {
            return None;
        }
        let out = shape[axis] as i64;
        if map.divisor == 1 {
            // The output indices o with 0 <= o * scale + offset < extent.
            let (mut lo, mut hi) = (0, out);
            if scale > 0 {
                lo = lo.max(
                    (-map.offset).div_euclid(scale)
                        + i64::from((-map.offset).rem_euclid(scale) != 0),
                );
                hi = hi.min((extent - 1 - map.offset).div_euclid(scale) + 1);
            } else {
                let s = -scale;
                let above = map.offset - (extent - 1);
                lo = lo.max(above.div_euclid(s) + i64::from(above.rem_euclid(s) != 0));
                hi = hi.min(map.offset.div_euclid(s) + 1);
            }
            found[axis] = ((hi - lo).max(0) as usize, lo, 1);
        } else if scale.abs() == 1 {
            // The output indices o = ±(k * divisor - offset) for operand indices k in 0..extent, as far as o
            // is in range.
            let (low, high) = match scale {
                1 => (map.offset, out + map.offset - 1),
                _ => (map.offset - out + 1, map.offset),
            };
            let above = low.div_euclid(map.divisor) + i64::from(low.rem_euclid(map.divisor) != 0);
            let (first, last) = (above.max(0), high.div_euclid(map.divisor).min(extent - 1));
            let start = (first * map.divisor - map.offset) * scale;
            let count = (last - first + 1).max(0) as usize;
            found[axis] = (count, start, map.divisor * scale);
        } else {
            return None;
        }
    }
    Some(found)
}

/// Returns whether a node copies a view that reads several operands or has a fill value.
pub(crate) fn is_pieced(graph: &Graph, id: NodeId) -> bool {
    copied(graph, id).is_some_and(|(_, pieces, fill)| pieces.len() > 1 || fill.is_some())
}

/// Returns the number of pieces of the view that a node copies (a piece is the part read from one operand); 0 if the
/// node copies no view.
pub(crate) fn joined_pieces(graph: &Graph, id: NodeId) -> usize {
    copied(graph, id).map_or(0, |(_, pieces, _)| pieces.len())
}

/// Returns the view that a node copies, the pieces of the view (a piece is the part read from one operand), and the
/// number of the operand whose value fills all other elements. Returns `None` if the node copies no view.
fn copied(graph: &Graph, id: NodeId) -> Option<(&Node, &[Piece], Option<usize>)> {
    let NodeKind::Copy = graph.nodes[id].kind else { return None };
    let view = &graph.nodes[graph.nodes[id].operands[0].node()?];
    match &view.kind {
        NodeKind::Movement(Movement::View { pieces, fill }) => Some((view, pieces, *fill)),
        _ => None,
    }
}

/// Returns the view that a node copies, and the number of the view's operand that is its fill value.
pub(crate) fn fill_of(graph: &Graph, id: NodeId) -> Option<(NodeId, usize)> {
    let view = graph.nodes[id].operands[0].node()?;
    match &graph.nodes[view].kind {
        NodeKind::Movement(Movement::View { fill: Some(f), .. }) => Some((view, *f)),
        _ => None,
    }
}
