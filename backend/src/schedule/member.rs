//! Members: what is placed in loops, with the axes it loops over and what it reads.
//!
//! A member is a computed node, or one part of a node that is written in parts (a concatenation is
//! written piece by piece). Its axes are those of its output and those it folds, outermost first:
//!
//! ```text
//! reduce_sum{axes=[0]} of f64[1000,8]   axes: fold 1000, out 8
//! ```
//!
//! The order is chosen here, once: the axes follow the memory order of the largest array involved,
//! very short axes go last (they will be unrolled), and axes of extent 1 are no axes at all.
//!
//! What a member reads is found by following views symbolically: for each axis of the array read,
//! whether its index *is* the index along one axis of the member. This is what decides whether two
//! members can share a loop.

use super::graph::{Graph, Kind, NodeId, Source};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::HashSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Piece;

/// What runs along an axis of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// An axis of the output.
    Out(usize),
    /// A folded axis: an axis of the operand of a reduction, a contracted pair.
    Fold(usize),
}

/// A loop that a member needs. The index along the output's axis is `start + step * loop index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) role: Role,
    pub(crate) start: i64,
    pub(crate) step: i64,
}

impl Axis {
    fn whole(extent: usize, role: Role) -> Axis {
        Axis { extent, role, start: 0, step: 1 }
    }
}

/// Which elements of its node a member computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// Of a view: the fill everywhere, before the pieces are written over it.
    Fill,
    /// Of a view: that piece.
    Piece(usize),
}

/// For each axis of an array, the position among the member's axes whose index it is.
pub(crate) type Along = SmallVec<[Option<usize>; 4]>;

/// An array read by a member.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) node: NodeId,
    /// Where.
    pub(crate) at: Along,
}

/// Something to place.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) node: NodeId,
    pub(crate) part: Part,
    /// Outermost first.
    pub(crate) axes: SmallVec<[Axis; 4]>,
    /// Axes from here on are unrolled.
    pub(crate) unrolled_from: usize,
    pub(crate) reads: Vec<Read>,
}

impl Member {
    /// The position of the first folded axis.
    pub(crate) fn first_fold(&self) -> Option<usize> {
        self.axes.iter().position(|a| matches!(a.role, Role::Fold(_)))
    }

    /// The number of elements visited from that axis on.
    pub(crate) fn rest(&self, from: usize) -> usize {
        self.axes[from.min(self.axes.len())..].iter().map(|a| a.extent).product()
    }

    /// Whether results accumulate in memory: there is a loop over outputs inside one over terms.
    pub(crate) fn accumulates_in_memory(&self) -> bool {
        let Some(fold) = self.first_fold() else { return false };
        let looped = self.axes.iter().enumerate().take(self.unrolled_from).skip(fold);
        looped.into_iter().any(|(_, a)| matches!(a.role, Role::Out(_)))
    }
}

/// Axes of at most this extent go last.
const TINY: usize = 4;
/// Concatenations with at most this many elements in each item of a batch are made in registers.
const SMALL: usize = 64;
/// Trailing axes that together have at most this many elements are unrolled.
const UNROLLED: usize = 9;

/// The members of a graph, in an order in which what is read comes first.
pub(crate) fn members(graph: &Graph) -> Vec<Member> {
    let mut all = Vec::new();
    for (id, node) in graph.nodes.iter() {
        if node.kind.is_movement() || matches!(node.kind, Kind::Input(_)) {
            continue;
        }
        match copied_view(graph, id) {
            Some((pieces, fill, boxes)) => {
                if fill {
                    all.push(whole(graph, id, Part::Fill));
                }
                // The first piece wins where pieces overlap, so it is written last.
                let some = |b: &Extents| b.iter().all(|(extent, ..)| *extent > 0);
                for p in (0..pieces.len()).rev().filter(|p| some(&boxes[*p])) {
                    all.push(piece(graph, id, p, &pieces[p], &boxes[p]));
                }
            }
            None => all.push(whole(graph, id, Part::Whole)),
        }
    }
    all
}

/// The box that a piece fills: extent, start and step along each axis of the output.
type Extents = SmallVec<[(usize, i64, i64); 4]>;

/// The pieces of the view that a node copies, if it is to be written in parts: whether a fill is
/// needed and the boxes.
fn copied_view(graph: &Graph, id: NodeId) -> Option<(&[Piece], bool, Vec<Extents>)> {
    if !matches!(graph.nodes[id].kind, Kind::Copy) {
        return None;
    }
    let view = &graph.nodes[graph.nodes[id].operands[0].node()?];
    let Kind::View { pieces, fill } = &view.kind else { return None };
    if pieces.len() < 2 && fill.is_none() {
        return None;
    }
    let shape = &view.ty.shape;
    let mut boxes = Vec::new();
    let mut filled = 0usize;
    for p in pieces {
        let operand: SmallVec<[usize; 4]> = match view.operands[p.operand] {
            Source::Node(n) => SmallVec::from_slice(&graph.nodes[n].ty.shape),
            Source::Literal(_) => SmallVec::new(),
        };
        let b = piece_box(p, &operand, shape)?;
        filled = filled.saturating_add(b.iter().map(|(n, _, _)| n).product());
        boxes.push(b);
    }
    // A small array in a batch is made element by element, in registers.
    let batched =
        |b: &Extents| b.first().is_some_and(|(n, start, _)| *n == shape[0] && *start == 0);
    if shape.len() > 1 && shape.elements() / shape[0].max(1) <= SMALL && boxes.iter().all(batched) {
        return None;
    }
    // Pieces that do not overlap and fill everything need nothing beneath them.
    Some((pieces, fill.is_some() && filled < shape.elements(), boxes))
}

/// The outputs that a piece gives, if they are a box.
fn piece_box(piece: &Piece, operand: &[usize], shape: &[usize]) -> Option<Extents> {
    let mut found: Extents = shape.iter().map(|n| (*n, 0, 1)).collect();
    let mut used: SmallVec<[bool; 4]> = SmallVec::from_elem(false, shape.len());
    for (map, extent) in piece.axes.iter().zip(operand) {
        let extent = *extent as i64;
        let axis = match map.axis {
            Some(axis) if map.scale != 0 => axis,
            _ => {
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
            // 0 <= o * scale + offset < extent
            let (mut lo, mut hi) = (0, out);
            if map.scale > 0 {
                lo = lo.max(
                    (-map.offset).div_euclid(map.scale)
                        + i64::from((-map.offset).rem_euclid(map.scale) != 0),
                );
                hi = hi.min((extent - 1 - map.offset).div_euclid(map.scale) + 1);
            } else {
                let s = -map.scale;
                let above = map.offset - (extent - 1);
                lo = lo.max(above.div_euclid(s) + i64::from(above.rem_euclid(s) != 0));
                hi = hi.min(map.offset.div_euclid(s) + 1);
            }
            found[axis] = ((hi - lo).max(0) as usize, lo, 1);
        } else if map.scale.abs() == 1 {
            // o = ±(k * divisor - offset) for k in 0..extent, as far as it is inside.
            let (low, high) = match map.scale {
                1 => (map.offset, out + map.offset - 1),
                _ => (map.offset - out + 1, map.offset),
            };
            let above = low.div_euclid(map.divisor) + i64::from(low.rem_euclid(map.divisor) != 0);
            let (first, last) = (above.max(0), high.div_euclid(map.divisor).min(extent - 1));
            let start = (first * map.divisor - map.offset) * map.scale;
            let count = (last - first + 1).max(0) as usize;
            found[axis] = (count, start, map.divisor * map.scale);
        } else {
            return None;
        }
    }
    Some(found)
}

fn piece(graph: &Graph, id: NodeId, p: usize, piece: &Piece, found: &Extents) -> Member {
    let view = graph.nodes[id].operands[0];
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut syms: Along = SmallVec::new();
    for (o, (extent, start, step)) in found.iter().enumerate() {
        let full = *extent == graph.nodes[id].ty.shape[o];
        if *extent == 1 && full {
            syms.push(None);
            continue;
        }
        syms.push((full && *start == 0 && *step == 1).then_some(axes.len()));
        axes.push(Axis { extent: *extent, role: Role::Out(o), start: *start, step: *step });
    }
    let mut walk = Walk::new(graph);
    if let Some(view) = view.node() {
        let node = &graph.nodes[view];
        walk.piece(&node.operands, piece, &syms);
    }
    // Parts of one node are written in order.
    walk.reads.push(Read { node: id, at: syms });
    finish(graph, id, Part::Piece(p), axes, walk.reads)
}

fn whole(graph: &Graph, id: NodeId, part: Part) -> Member {
    let node = &graph.nodes[id];
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut out: Along = SmallVec::new();
    if !node.kind.is_update() {
        for (o, extent) in node.ty.shape.iter().enumerate() {
            out.push((*extent != 1).then_some(axes.len()));
            if *extent != 1 {
                axes.push(Axis::whole(*extent, Role::Out(o)));
            }
        }
    }
    let mut walk = Walk::new(graph);
    let shape = |s: Source| match s {
        Source::Node(n) => SmallVec::<[usize; 4]>::from_slice(&graph.nodes[n].ty.shape),
        Source::Literal(_) => SmallVec::new(),
    };
    let fold = |axes: &mut SmallVec<[Axis; 4]>, extent: usize, n: usize| {
        (extent != 1).then(|| {
            axes.push(Axis::whole(extent, Role::Fold(n)));
            axes.len() - 1
        })
    };
    match &node.kind {
        Kind::Map(_) | Kind::Copy => {
            for o in &node.operands {
                match part {
                    Part::Fill => {
                        if let Some((view, f)) = fill_of(graph, id) {
                            walk.visit(graph.nodes[view].operands[f], &[]);
                        }
                    }
                    Part::Whole | Part::Piece(_) => walk.visit(*o, &out),
                }
            }
        }
        Kind::Reduce { axes: folded, .. } => {
            let mut kept = out.iter();
            let mut syms: Along = SmallVec::new();
            for (a, extent) in shape(node.operands[0]).iter().enumerate() {
                syms.push(if folded.contains(&a) {
                    fold(&mut axes, *extent, a)
                } else {
                    kept.next().copied().flatten()
                });
            }
            walk.visit(node.operands[0], &syms);
        }
        Kind::ArgReduce { axis, .. } => {
            let extents = shape(node.operands[0]);
            let at = fold(&mut axes, extents[*axis], *axis);
            let mut syms = out.clone();
            syms.insert(*axis, at);
            walk.visit(node.operands[0], &syms);
        }
        Kind::Contract { batch, contract } => {
            let (l, r) = (shape(node.operands[0]), shape(node.operands[1]));
            let mut left: Along = SmallVec::from_elem(None, l.len());
            let mut right: Along = SmallVec::from_elem(None, r.len());
            for (n, (a, b)) in contract.iter().enumerate() {
                let at = fold(&mut axes, l[*a], n);
                (left[*a], right[*b]) = (at, at);
            }
            for (o, target) in contract_outputs(batch, contract, l.len(), r.len()) {
                for (side, a) in target {
                    if side { right[a] = out[o] } else { left[a] = out[o] }
                }
            }
            walk.visit(node.operands[0], &left);
            walk.visit(node.operands[1], &right);
        }
        Kind::Update | Kind::Scatter { .. } => {
            for o in &node.operands {
                let unknown: Along = SmallVec::from_elem(None, shape(*o).len());
                walk.visit(*o, &unknown);
            }
        }
        Kind::Input(_)
        | Kind::Empty
        | Kind::View { .. }
        | Kind::Reshape
        | Kind::Iota { .. }
        | Kind::Slice
        | Kind::Gather { .. } => {}
    }
    finish(graph, id, part, axes, walk.reads)
}

/// Whether a node copies a view of several pieces.
pub(crate) fn is_pieced(graph: &Graph, id: NodeId) -> bool {
    let node = &graph.nodes[id];
    let view = node.operands.first().and_then(|s| s.node()).map(|n| &graph.nodes[n].kind);
    matches!(node.kind, Kind::Copy)
        && matches!(view, Some(Kind::View { pieces, fill }) if pieces.len() > 1 || fill.is_some())
}

/// The view that a node copies and the operand that fills it.
pub(crate) fn fill_of(graph: &Graph, id: NodeId) -> Option<(NodeId, usize)> {
    let view = graph.nodes[id].operands[0].node()?;
    match &graph.nodes[view].kind {
        Kind::View { fill: Some(f), .. } => Some((view, *f)),
        _ => None,
    }
}

/// The axes of a contraction's operands that run along an axis of its output: (is right, axis).
pub(crate) type Target = SmallVec<[(bool, usize); 2]>;

/// For each axis of a contraction's output, the operand axes that run along it.
pub(crate) fn contract_outputs(
    batch: &[(usize, usize)],
    contract: &[(usize, usize)],
    left: usize,
    right: usize,
) -> Vec<(usize, Target)> {
    let mut outputs = Vec::new();
    for (a, b) in batch {
        outputs.push(SmallVec::from_slice(&[(false, *a), (true, *b)]));
    }
    let free_left = (0..left).filter(|a| !batch.iter().chain(contract).any(|(l, _)| l == a));
    outputs.extend(free_left.map(|a| SmallVec::from_slice(&[(false, a)])));
    let free_right = (0..right).filter(|b| !batch.iter().chain(contract).any(|(_, r)| r == b));
    outputs.extend(free_right.map(|b| SmallVec::from_slice(&[(true, b)])));
    outputs.into_iter().enumerate().collect()
}

/// Orders the axes and decides which are unrolled.
fn finish(
    graph: &Graph,
    node: NodeId,
    part: Part,
    axes: SmallVec<[Axis; 4]>,
    mut reads: Vec<Read>,
) -> Member {
    let order = order(graph, node, &axes, &reads);
    let mut position: SmallVec<[usize; 4]> = SmallVec::from_elem(0, axes.len());
    for (new, old) in order.iter().enumerate() {
        position[*old] = new;
    }
    for r in &mut reads {
        for at in r.at.iter_mut().flatten() {
            *at = position[*at];
        }
    }
    reads.retain(|r| !matches!(graph.nodes[r.node].kind, Kind::Input(_)));
    let axes: SmallVec<[Axis; 4]> = order.iter().map(|i| axes[*i]).collect();
    let mut member = Member { node, part, unrolled_from: axes.len(), axes, reads };
    while member.unrolled_from > 0 && member.rest(member.unrolled_from - 1) <= UNROLLED {
        member.unrolled_from -= 1;
    }
    member
}

/// Which axis comes first, second, ...
fn order(graph: &Graph, node: NodeId, axes: &[Axis], reads: &[Read]) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..axes.len()).collect();
    let folds = axes.iter().any(|a| matches!(a.role, Role::Fold(_)));
    if matches!(graph.nodes[node].kind, Kind::ArgReduce { .. }) {
        return order;
    }
    if folds {
        by_memory(graph, node, axes, reads, &mut order);
    }
    order.sort_by_key(|i| axes[*i].extent <= TINY);
    order
}

/// The stride of an array along each axis of a member; `None` where it has none.
type Strides = SmallVec<[Option<i64>; 4]>;

/// Orders axes as they lie in the largest array read or written; axes that it does not have go
/// innermost where another array has them at unit stride, and outermost otherwise.
fn by_memory(
    graph: &Graph,
    node: NodeId,
    axes: &[Axis],
    reads: &[Read],
    order: &mut SmallVec<[usize; 4]>,
) {
    let out = &graph.nodes[node].ty.shape;
    let mut arrays: Vec<(usize, Strides)> = Vec::new();
    let mut strides: Strides = SmallVec::from_elem(None, axes.len());
    for (i, a) in axes.iter().enumerate() {
        if let Role::Out(o) = a.role {
            strides[i] = Some(out.strides()[o] as i64);
        }
    }
    arrays.push((out.elements(), strides));
    for r in reads {
        let shape = &graph.nodes[r.node].ty.shape;
        let mut strides: Strides = SmallVec::from_elem(None, axes.len());
        for (axis, at) in r.at.iter().enumerate() {
            if let Some(at) = at {
                strides[*at] = Some(shape.strides()[axis] as i64);
            }
        }
        arrays.push((shape.elements(), strides));
    }
    let Some((_, largest)) = arrays.iter().max_by_key(|(n, s)| (*n, s.iter().flatten().count()))
    else {
        return;
    };
    let key = |i: &usize| match largest[*i] {
        Some(stride) => -stride,
        None if arrays.iter().any(|(_, s)| s[*i] == Some(1)) => 0,
        None => i64::MIN,
    };
    order.sort_by_key(key);
    // The innermost axis decides how memory is met: unit stride is best, above all in the output,
    // which is read and written; not at all is better than strided.
    let score = |i: usize| -> i32 {
        let of = |n: usize| {
            let weight = if n == 0 { 2 } else { 1 };
            weight
                * match arrays[n].1[i] {
                    Some(1) => 2,
                    Some(_) => 0,
                    None => 1,
                }
        };
        (0..arrays.len()).map(of).sum()
    };
    // The outermost axis stays: it is what this nest has in common with others.
    let best = (1..order.len()).rev().max_by_key(|p| (score(order[*p]), *p));
    if let Some(best) = best
        && order.last().is_some_and(|last| score(order[best]) > score(*last))
    {
        let axis = order.remove(best);
        order.push(axis);
    }
}

/// Follows movement nodes to what is read.
struct Walk<'a> {
    graph: &'a Graph,
    reads: Vec<Read>,
    seen: HashSet<(NodeId, Along)>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph) -> Walk<'a> {
        Walk { graph, reads: Vec::new(), seen: HashSet::new() }
    }

    /// Recursion is as deep as the chain of movement nodes, which the graph bounds.
    fn visit(&mut self, source: Source, at: &[Option<usize>]) {
        let Some(id) = source.node() else { return };
        let node = &self.graph.nodes[id];
        if !node.kind.is_movement() {
            let read = Read { node: id, at: SmallVec::from_slice(at) };
            if !self.reads.iter().take(8).any(|r| r.node == id && r.at == read.at) {
                self.reads.push(read);
            }
            return;
        }
        if !self.seen.insert((id, SmallVec::from_slice(at))) {
            return;
        }
        let shape = |s: Source| match s {
            Source::Node(n) => &*self.graph.nodes[n].ty.shape,
            Source::Literal(_) => &[],
        };
        match &node.kind {
            Kind::View { pieces, fill } => {
                for p in pieces {
                    self.piece(&node.operands, p, at);
                }
                if let Some(f) = fill {
                    self.visit(node.operands[*f], &[]);
                }
            }
            Kind::Reshape => {
                let from = shape(node.operands[0]);
                let same = equal_axes(from, &node.ty.shape);
                let at: Along = same.iter().map(|s| s.and_then(|axis| at[axis])).collect();
                self.visit(node.operands[0], &at);
            }
            Kind::Slice => {
                let from = shape(node.operands[0]);
                let at: Along = from
                    .iter()
                    .zip(node.ty.shape.iter())
                    .zip(at)
                    .map(|((whole, part), at)| if whole == part { *at } else { None })
                    .collect();
                self.visit(node.operands[0], &at);
                for start in &node.operands[1..] {
                    self.visit(*start, &[]);
                }
            }
            Kind::Gather { batch, axes, .. } => {
                let (from, indices) = (shape(node.operands[0]), shape(node.operands[1]));
                let lead = indices.len() - 1;
                let mut rest = at[lead..].iter();
                let mut array: Along = SmallVec::new();
                for axis in 0..from.len() {
                    let shared = at.get(axis).copied().flatten();
                    array.push(if axis < *batch {
                        shared
                    } else if axes.contains(&axis) {
                        None
                    } else {
                        rest.next().copied().flatten()
                    });
                }
                let mut at: Along = SmallVec::from_slice(&at[..lead]);
                at.push(None);
                self.visit(node.operands[0], &array);
                self.visit(node.operands[1], &at);
            }
            Kind::Iota { .. }
            | Kind::Input(_)
            | Kind::Empty
            | Kind::Map(_)
            | Kind::Reduce { .. }
            | Kind::ArgReduce { .. }
            | Kind::Contract { .. }
            | Kind::Update
            | Kind::Scatter { .. }
            | Kind::Copy => {}
        }
    }

    fn piece(&mut self, operands: &[Source], piece: &Piece, at: &[Option<usize>]) {
        let at: Along = piece
            .axes
            .iter()
            .map(|m| match m.axis {
                Some(axis) if m.scale == 1 && m.offset == 0 && m.divisor == 1 => at[axis],
                _ => None,
            })
            .collect();
        self.visit(operands[piece.operand], &at);
    }
}

/// For each axis of `from`, the axis of `to` that it is under a reshape, if it is one.
pub(crate) fn equal_axes(from: &[usize], to: &[usize]) -> Along {
    let mut same: Along = SmallVec::from_elem(None, from.len());
    let (mut i, mut j) = (0, 0);
    loop {
        // Axes of extent 1 mean nothing.
        while i < from.len() && from[i] == 1 {
            i += 1;
        }
        while j < to.len() && to[j] == 1 {
            j += 1;
        }
        if i >= from.len() || j >= to.len() {
            return same;
        }
        if from[i] == to[j] {
            same[i] = Some(j);
            (i, j) = (i + 1, j + 1);
            continue;
        }
        // A group that is split or merged: skip it whole.
        let (mut a, mut b) = (from[i], to[j]);
        (i, j) = (i + 1, j + 1);
        while a != b {
            if a < b {
                if i >= from.len() {
                    return same;
                }
                a = a.saturating_mul(from[i]);
                i += 1;
            } else {
                if j >= to.len() {
                    return same;
                }
                b = b.saturating_mul(to[j]);
                j += 1;
            }
        }
    }
}

/// For every node, the last member (by position) that reads it. To read a value as the base of an
/// update is to read it: whoever does so last may take its memory over, nobody before.
pub(crate) fn last_readers(graph: &Graph, members: &[Member]) -> SecondaryMap<NodeId, usize> {
    let mut last: SecondaryMap<NodeId, usize> = SecondaryMap::with_capacity(graph.nodes.len());
    for (position, m) in members.iter().enumerate() {
        let node = &graph.nodes[m.node];
        let base = node.kind.is_update().then(|| node.operands[0].node()).flatten();
        let written = |n: NodeId| planted(Fault::UpdateTakesOver) && base == Some(n);
        // A part of a node "reads" the parts before it.
        for r in m.reads.iter().filter(|r| r.node != m.node && !written(r.node)) {
            last[r.node] = position;
        }
    }
    last
}
