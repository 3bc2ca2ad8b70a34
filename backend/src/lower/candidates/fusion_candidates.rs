//! Collects the fusion candidates of a graph: for each computed node its loop axes and its reads.

use super::access_maps::Reader;
use super::axis_order::order;
use super::iteration_domain::{
    Axis, AxisRole, CandidateAxes, CandidatePart, FusionCandidate, Read,
};
use super::view_boxes::{CopiedView, PieceBox, copied_view, fill_of, joined_pieces};
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::operands::contraction::{uncontracted, unreduced};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::AxisMap;

/// Returns the fusion candidates of a graph (computed nodes, or parts of them) in topological order.
pub(crate) fn candidates(graph: &Graph) -> Vec<FusionCandidate> {
    let mut all = Vec::new();
    for (id, node) in graph.nodes.iter() {
        let passive = matches!(node.kind, NodeKind::Input(_)) || node.first_result().is_some();
        if node.kind.is_movement() || passive {
            continue;
        }
        match copied_view(graph, id) {
            Some(copied) => {
                let fills = copied.filled.iter().map(|found| fill(graph, id, found));
                // If several operands of a view provide the same output element, the first of these operands counts, so
                // its piece is written last.
                let some = |p: &usize| copied.boxes[*p].iter().all(|(extent, ..)| *extent > 0);
                let pieces = (0..copied.pieces.len()).rev().filter(some);
                let pieces = pieces.map(|p| piece(graph, id, p, &copied));
                if copied.ordered {
                    all.extend(fills.chain(pieces));
                } else {
                    // Fusion puts candidates into loops in this order. Pieces come first, so that they share loops with
                    // their operands; the fill does not depend on any loop.
                    all.extend(pieces.chain(fills));
                }
            }
            None => all.push(whole(graph, id)),
        }
    }
    loop_over_functions(graph, &mut all);
    all
}

/// Prevents the unrolling of an elementwise fusion candidate if some candidate with the same number of elements applies
/// a library function in vectors. In a loop, one call of a vector function is cheaper than a call for each element. And
/// if only one of the two candidates were a loop, values would have to pass between them through memory.
fn loop_over_functions(graph: &Graph, candidates: &mut [FusionCandidate]) {
    let elementwise = |c: &FusionCandidate| {
        let kind = &graph.nodes[c.node].kind;
        c.part == CandidatePart::Whole && matches!(kind, NodeKind::Map(_) | NodeKind::Copy)
    };
    let in_vectors = |c: &&FusionCandidate| {
        let node = &graph.nodes[c.node];
        let NodeKind::Map(code) = &node.kind else { return false };
        elementwise(c) && graph.machine.calls_in_vectors(code, node.ty.dtype, c.rest(0))
    };
    let sizes = candidates.iter().filter(in_vectors).map(|c| c.rest(0));
    let sizes: OrderedSet<usize> =
        sizes.filter(|n| *n <= graph.machine.unrolled_elements).collect();
    for c in candidates.iter_mut().filter(|c| elementwise(c) && sizes.contains(&c.rest(0))) {
        c.unrolled_from = c.axes.len();
    }
}

/// Returns the loop axes that visit the elements of a box of a node's output, and for each axis of the output the
/// corresponding loop axis.
fn box_axes(
    graph: &Graph,
    id: NodeId,
    found: &PieceBox,
) -> (SmallVec<[Axis; 4]>, SmallVec<[Option<usize>; 4]>) {
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut loops = SmallVec::new();
    for (o, (extent, start, step)) in found.iter().enumerate() {
        let only = *extent == 1 && graph.nodes[id].ty.shape[o] == 1;
        loops.push((!only).then_some(axes.len()));
        if !only {
            axes.push(Axis { extent: *extent, runs: AxisRole::Out(o), start: *start, step: *step });
        }
    }
    (axes, loops)
}

fn piece(graph: &Graph, id: NodeId, p: usize, copied: &CopiedView<'_>) -> FusionCandidate {
    let (piece, found) = (&copied.pieces[p], &copied.boxes[p]);
    let (axes, loops) = box_axes(graph, id, found);
    let mut walk = Reader::new(graph);
    if let Some(view) = graph.nodes[id].operands[0].node() {
        // The index into the operand equals the loop's index if the box begins at the operand's first element and both
        // have the same step.
        let index = |map: &AxisMap| match map.terms[..] {
            [(axis, 1)] => {
                let (_, start, step) = found[axis];
                loops[axis].filter(|_| start + map.offset == 0 && step == map.divisor)
            }
            _ => None,
        };
        let at: CandidateAxes = piece.axes.iter().map(index).collect();
        walk.visit(graph.nodes[view].operands[piece.operand], &at);
    }
    // Overlapping parts must be written in order, so each part counts as a reader of the parts written before it.
    if copied.ordered {
        let whole = |o: usize| found[o] == (graph.nodes[id].ty.shape[o], 0, 1);
        let at = loops.iter().enumerate().map(|(o, axis)| axis.filter(|_| whole(o))).collect();
        walk.reads.push(Read { node: id, at });
    }
    finish(graph, id, CandidatePart::Piece(p), axes, walk.reads)
}

fn fill(graph: &Graph, id: NodeId, found: &PieceBox) -> FusionCandidate {
    let mut walk = Reader::new(graph);
    if let Some((view, f)) = fill_of(graph, id) {
        walk.visit(graph.nodes[view].operands[f], &[]);
    }
    finish(graph, id, CandidatePart::Fill, box_axes(graph, id, found).0, walk.reads)
}

fn whole(graph: &Graph, id: NodeId) -> FusionCandidate {
    let node = &graph.nodes[id];
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    let mut out: CandidateAxes = SmallVec::new();
    if !node.kind.is_update() && node.kind.region().is_none() {
        for (o, extent) in node.ty.shape.iter().enumerate() {
            out.push((*extent != 1).then_some(axes.len()));
            if *extent != 1 {
                axes.push(Axis::whole(*extent, AxisRole::Out(o)));
            }
        }
    }
    let mut walk = Reader::new(graph);
    let shape = |n: usize| graph.shape(node.operands[n]);
    let fold = |axes: &mut SmallVec<[Axis; 4]>, extent: usize, n: usize| {
        (extent != 1).then(|| {
            axes.push(Axis::whole(extent, AxisRole::Fold(n)));
            axes.len() - 1
        })
    };
    match &node.kind {
        NodeKind::Map(_) | NodeKind::Copy => {
            node.operands.iter().for_each(|o| walk.visit(*o, &out));
        }
        NodeKind::Reduce { axes: folded, .. } => {
            let syms = unreduced(&out, folded, |a| fold(&mut axes, shape(0)[a], a));
            walk.visit(node.operands[0], &syms);
        }
        NodeKind::ArgReduce { axis, .. } => {
            let at = fold(&mut axes, shape(0)[*axis], *axis);
            let mut syms = out.clone();
            syms.insert(*axis, at);
            walk.visit(node.operands[0], &syms);
        }
        NodeKind::Contract { batch, contract, order } => {
            let ranks = [0, 1].map(|n| shape(n).len());
            let term = |n: usize| fold(&mut axes, shape(0)[contract[n].0], n);
            let [left, right] = uncontracted(&out, batch, contract, order, ranks, term);
            walk.visit(node.operands[0], &left);
            walk.visit(node.operands[1], &right);
        }
        NodeKind::Update(_) | NodeKind::Result { .. } => {
            for o in &node.operands {
                let unknown: CandidateAxes = SmallVec::from_elem(None, graph.shape(*o).len());
                walk.visit(*o, &unknown);
            }
        }
        NodeKind::Input(_) | NodeKind::Movement(_) => {}
    }
    finish(graph, id, CandidatePart::Whole, axes, walk.reads)
}

/// Orders the axes of a fusion candidate and decides which of them are unrolled.
fn finish(
    graph: &Graph,
    node: NodeId,
    part: CandidatePart,
    axes: SmallVec<[Axis; 4]>,
    mut reads: Vec<Read>,
) -> FusionCandidate {
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
    let axes: SmallVec<[Axis; 4]> = order.iter().map(|i| axes[*i]).collect();
    // Unroll a small concatenation completely, because in a loop each element would have to select the operand that it
    // reads.
    let pieces = joined_pieces(graph, node).min(graph.machine.register_elements);
    let most = graph.machine.unrolled_elements.max(pieces);
    let mut candidate = FusionCandidate { node, part, unrolled_from: axes.len(), axes, reads };
    while candidate.unrolled_from > 0 && candidate.rest(candidate.unrolled_from - 1) <= most {
        candidate.unrolled_from -= 1;
    }
    candidate
}

/// Returns, for every node, the position in `candidates` of the last fusion candidate that reads the node. An update
/// counts as a reader of its base (the array that it overwrites); only the last reader may take over the base's memory.
pub(crate) fn last_readers(
    graph: &Graph,
    candidates: &[FusionCandidate],
) -> SecondaryMap<NodeId, usize> {
    let mut last: SecondaryMap<NodeId, usize> = SecondaryMap::with_capacity(graph.nodes.len());
    for (position, m) in candidates.iter().enumerate() {
        let base = graph.base(m.node).and_then(|(of, slot)| graph.nodes[of].operands[slot].node());
        let written = |n: NodeId| planted(Fault::UpdateTakesOver) && base == Some(n);
        // A fusion candidate that writes a part of a node (its fill or a piece) does not count as a reader of this
        // node.
        for r in m.reads.iter().filter(|r| r.node != m.node && !written(r.node)) {
            last[r.node] = position;
        }
    }
    last
}
