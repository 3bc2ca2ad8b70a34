//! Library products write their result in the order of axes in which it is read.
//!
//! The result of a contraction has the batch axes, then the free axes of the left operand, then those of the right
//! operand. If all readers read the result through one permutation of its axes, such as the permutation to the layout
//! of images, the permutation would cost a copy, or reads at large strides. The library writes a matrix at any strides,
//! so the contraction's node gets the permuted order of axes instead.
//!
//! ```text
//! %2: f32[4,28,28,128] = dot ..
//! %3: f32[4,128,28,28] = permute{[0,3,1,2]} %2     ->     n2: f32[4,128,28,28] = dot ..
//! ```

use crate::lower::graph::{Graph, Movement, NodeId, NodeKind, Source};
use crate::lower::operands::blas_select;
use crate::lower::operands::contraction::contract_outputs;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Shape;
use tapeloom_ir::fault::{Fault, planted};

/// If the permutation separates the rows (or the columns) of a product into groups, so that not all are adjacent, the
/// largest group must have at least this number of elements.
const TOGETHER: usize = 64;

/// The smallest number of rows and of columns for a permuted result. With fewer columns, a row of the unpermuted result
/// fits into one vector: the library writes it row by row and reads the left operand in place, instead of packing this
/// operand as with more columns. The same holds for few rows.
const LEAST: usize = 16;

/// The readers of a node.
#[derive(Clone, Default)]
enum Readers {
    #[default]
    Nothing,
    Views(Vec<NodeId>),
    Others,
}

/// If a contraction for the library is read only through one permutation, permutes the axes of its result. The readers
/// then read the contraction directly.
pub(super) fn write_in_order(graph: &mut Graph, results: &mut [Source]) {
    let mut readers: SecondaryMap<NodeId, Readers> = SecondaryMap::new();
    for (id, node) in graph.nodes.iter() {
        for operand in node.operands.iter().filter_map(|s| s.node()) {
            if !matches!(graph.nodes[operand].kind, NodeKind::Contract { .. }) {
                continue;
            }
            let seen = &mut readers[operand];
            match (permutation(graph, id).is_some(), &mut *seen) {
                (true, Readers::Views(views)) => views.push(id),
                (true, Readers::Nothing) => *seen = Readers::Views(vec![id]),
                _ => *seen = Readers::Others,
            }
        }
    }
    for result in results.iter().filter_map(|s| s.node()) {
        readers[result] = Readers::Others;
    }
    let chosen: Vec<(NodeId, Vec<usize>, Vec<NodeId>)> = graph
        .nodes
        .keys()
        .filter_map(|id| {
            let Readers::Views(views) = &readers[id] else { return None };
            let axes = permutation(graph, *views.first()?)?;
            let same = views.iter().all(|view| permutation(graph, *view).as_ref() == Some(&axes));
            let same = same || planted(Fault::TwoOrders);
            let free = graph.nodes[id].kept.is_empty() && blas_select::selected(graph, id);
            (same && free && stays_together(graph, id, &axes)).then(|| (id, axes, views.clone()))
        })
        .collect();
    let mut written: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
    for (id, axes, views) in chosen {
        let node = &mut graph.nodes[id];
        if let NodeKind::Contract { order, .. } = &mut node.kind {
            *order = axes.iter().map(|axis| order[*axis]).collect();
            node.ty.shape = axes.iter().map(|axis| node.ty.shape[*axis]).collect::<Shape>();
            views.into_iter().for_each(|view| written[view] = Some(id));
        }
    }
    let rename = |s: &mut Source| {
        if let Source::Node(n) = s {
            *n = written[*n].unwrap_or(*n);
        }
    };
    for node in graph.nodes.values_mut() {
        node.operands.iter_mut().for_each(rename);
    }
    results.iter_mut().for_each(rename);
}

/// If a view permutes the axes of its operand, returns the permutation: axis i of the view is axis `permutation[i]` of
/// the operand.
fn permutation(graph: &Graph, id: NodeId) -> Option<Vec<usize>> {
    let node = &graph.nodes[id];
    let NodeKind::Movement(Movement::View { pieces, fill: None }) = &node.kind else { return None };
    let ([piece], [operand]) = (&pieces[..], &node.operands[..]) else { return None };
    if !node.kept.is_empty() || piece.axes.len() != node.ty.shape.len() {
        return None;
    }
    let extents = graph.shape(*operand);
    let mut axes = vec![None; piece.axes.len()];
    for (from, map) in piece.axes.iter().enumerate() {
        let [(to, 1)] = map.terms[..] else { return None };
        let whole = map.offset == 0 && map.divisor == 1 && extents[from] == node.ty.shape[to];
        if !whole || axes[to].replace(from).is_some() {
            return None;
        }
    }
    axes.into_iter().collect()
}

/// Returns whether a product remains efficient with its result in the order `axes`. For each operand, the free axes
/// must have `LEAST` elements or more. In the permuted result, all free axes, or a group of them with `TOGETHER`
/// elements or more, must be adjacent and in their old order.
fn stays_together(graph: &Graph, id: NodeId, axes: &[usize]) -> bool {
    let node = &graph.nodes[id];
    let NodeKind::Contract { batch, contract, order } = &node.kind else { return false };
    let rank = |n: usize| graph.shape(node.operands[n]).len();
    let outputs = contract_outputs(batch, contract, order, rank(0), rank(1));
    [false, true].into_iter().all(|right| {
        let is_free = |o: usize| matches!(outputs[o].1[..], [(side, _)] if side == right);
        let (mut longest, mut group, mut all) = (1, 1, 1);
        let mut before = None;
        for o in axes.iter().copied() {
            let extent = node.ty.shape[o];
            if !is_free(o) {
                before = None;
                continue;
            }
            let follows = before.is_some_and(|last| o == last + 1);
            group = if follows { group * extent } else { extent };
            (longest, all, before) = (longest.max(group), all * extent, Some(o));
        }
        all >= LEAST && (longest == all || longest >= TOGETHER)
    })
}
