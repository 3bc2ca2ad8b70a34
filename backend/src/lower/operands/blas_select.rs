//! Selects the contractions that the matrix library computes.
//!
//! A contraction is computed by the library if its matrices are large enough to pay for the call and each operand is
//! a matrix in memory: an array, or a view of an array with constant strides, so that permuted, sliced and broadcast
//! operands need no copy. Free axes that do not merge into one row or column axis become loops around the call.
//! Contracted axes that do not merge into one axis of terms become loops, too, whose calls accumulate into one
//! result. All other contractions are ordinary loop nests, which fuse with their neighbours.
//!
//! ```text
//! y[b,i,j] = Σ_k x[k,b,i] w[b,k,j]      for b: y[b] = (x[:,b,:])ᵀ @ w[b]
//! y[o,j] = Σ_t,k x[o+t,k] w[t,k,j]      for t: y += x[t:t+O,:] @ w[t], a convolution, from the array itself
//! ```

use super::contraction::{Extents, contract_outputs};
use super::strided_layout::{Strided, strided, strided_within};
use crate::lower::graph::{Graph, Movement, NodeId, NodeKind};
use crate::lower::trees::loop_tree::{NodeMatrix, Product};
use crate::machine::MachineModel;
use std::collections::BTreeSet;

/// Returns the library call that computes node `id`. Returns `None` if the node is no contraction of floats, is too
/// small for a call, or has an operand that is not a matrix in memory.
pub(crate) fn plan(graph: &Graph, id: NodeId) -> Option<Product> {
    Extents::of(graph, id).filter(|e| worthwhile(e, graph.machine))?;
    let node = &graph.nodes[id];
    let (lhs, rhs) = (strided(graph, node.operands[0])?, strided(graph, node.operands[1])?);
    product(graph, id, [&lhs, &rhs])
}

/// Returns the library call for contraction `id`, given the layouts of its operands; `None` if no call is possible or
/// worth its cost.
pub(crate) fn product(graph: &Graph, id: NodeId, [lhs, rhs]: [&Strided; 2]) -> Option<Product> {
    let node = &graph.nodes[id];
    let NodeKind::Contract { batch, contract, order } = &node.kind else { return None };
    let (l, r) = (&lhs.shape, &rhs.shape);
    let out = node.ty.shape.strides();

    let mut around: Vec<(usize, i64, i64, i64)> = Vec::new();
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for (o, axes) in contract_outputs(batch, contract, order, l.len(), r.len()) {
        let (extent, step) = (node.ty.shape[o], out[o] as i64);
        if extent == 1 {
            continue;
        }
        match axes.as_slice() {
            [(false, a), (true, b)] => {
                around.push((extent, lhs.strides[*a], rhs.strides[*b], step));
            }
            [(false, a)] => rows.push((extent, lhs.strides[*a], 0, step)),
            [(true, b)] => columns.push((extent, 0, rhs.strides[*b], step)),
            _ => return None,
        }
    }
    // From the rows, the columns and the terms (contracted axes), the longest group of axes that merge into one axis
    // becomes an axis of the call. The other contracted axes become loops, whose calls add to one result.
    let (m, n) = (longest(rows, &mut around), longest(columns, &mut around));
    let mut terms: Vec<(usize, i64, i64, i64)> = contract
        .iter()
        .map(|(a, b)| (l[*a], lhs.strides[*a], rhs.strides[*b], 0))
        .filter(|(extent, ..)| *extent != 1)
        .collect();
    terms.sort_by_key(|(_, s, _, _)| -s);
    let mut added = Vec::new();
    let k = longest(terms, &mut added);
    // With several groups of terms, the alternative to library calls is a loop nest that accumulates in memory instead
    // of registers. So library calls are worth their cost already from a quarter of `library_products` on.
    let machine = graph.machine;
    let least = MachineModel { library_products: machine.library_products / 4, ..machine };
    if !added.is_empty() && !pays([m.0, n.0, k.0], least) {
        return None;
    }
    around.extend(added);
    Some(Product {
        dtype: node.ty.dtype,
        m: m.0,
        n: n.0,
        k: k.0,
        lhs: NodeMatrix { node: lhs.node, offset: lhs.offset, row: m.1, column: k.1 },
        rhs: NodeMatrix { node: rhs.node, offset: rhs.offset, row: k.2, column: n.2 },
        out: NodeMatrix { node: id, offset: 0, row: m.3, column: n.3 },
        batch: around,
    })
}

/// Returns whether the merged extents m, n and k are large enough for a library call (see `pays`).
pub(crate) fn worthwhile(extents: &Extents, machine: MachineModel) -> bool {
    let Extents { m, n, k } = *extents;
    pays([m, n, k], machine)
}

fn pays([m, n, k]: [usize; 3], machine: MachineModel) -> bool {
    let work = m.saturating_mul(n).saturating_mul(k);
    m.min(n).min(k) >= machine.library_extent && work >= machine.library_products
}

/// Returns the operands to copy so that large contractions can be library calls, as (node, operand number). These are
/// the operands that are not matrices in memory, if each element is read at least `library_copy_reads` times.
pub(crate) fn copied(graph: &Graph) -> BTreeSet<(NodeId, usize)> {
    let large =
        |id: &NodeId| Extents::of(graph, *id).is_some_and(|e| worthwhile(&e, graph.machine));
    let operands = graph.nodes.keys().filter(large).flat_map(|id| [(id, 0), (id, 1)]);
    let no_matrix =
        |(id, slot): &(NodeId, usize)| strided(graph, graph.nodes[*id].operands[*slot]).is_none();
    operands.filter(no_matrix).filter_map(|(id, slot)| worth_copying(graph, id, slot)).collect()
}

/// Returns whether a contraction is large enough for the matrix library, and whether each operand is a matrix in memory
/// or will be copied into a matrix.
pub(crate) fn selected(graph: &Graph, id: NodeId) -> bool {
    let is_matrix = |slot: usize| {
        strided(graph, graph.nodes[id].operands[slot]).is_some()
            || worth_copying(graph, id, slot).is_some()
    };
    let large = Extents::of(graph, id).is_some_and(|e| worthwhile(&e, graph.machine));
    large && is_matrix(0) && is_matrix(1)
}

/// Returns the operand to copy, as (node, operand number), so that operand `slot` of contraction `id` becomes a matrix
/// in memory. Returns `None` if elements are read too rarely for a copy.
///
/// Each element of the left operand is read once for every column of the right operand (`n` times), and each element of
/// the right operand once for every row of the left one (`m` times). An element of an array under overlapping windows
/// is read by every window that contains it.
fn worth_copying(graph: &Graph, id: NodeId, slot: usize) -> Option<(NodeId, usize)> {
    let extents = Extents::of(graph, id)?;
    let read = if slot == 0 { extents.n } else { extents.m };
    let (place, least) = to_copy(graph, id, slot);
    let operand = graph.nodes[id].operands[slot].node();
    let whole = operand.map_or(0, |n| graph.nodes[n].ty.shape.elements());
    let windows = whole.checked_div(least).unwrap_or(1).max(1);
    (read.saturating_mul(windows) >= graph.machine.library_copy_reads).then_some(place)
}

/// Returns the smallest array whose copy makes operand `slot` of contraction `id` a matrix in memory, as (node, operand
/// number), and the number of elements of the copy. Copying the operand of a reshape is as good as copying its result,
/// and needs no division in the loops. Copying the operand of overlapping windows copies each element once.
fn to_copy(graph: &Graph, id: NodeId, slot: usize) -> ((NodeId, usize), usize) {
    let whole = graph.nodes[id].operands[slot];
    let size = |n: NodeId| graph.nodes[n].ty.shape.elements();
    let (mut best, mut least) = ((id, slot), whole.node().map_or(0, size));
    let mut at = whole.node();
    while let Some(n) = at {
        let operand = match &graph.nodes[n].kind {
            NodeKind::Movement(Movement::Reshape) => 0,
            NodeKind::Movement(Movement::View { pieces, .. }) if pieces.len() == 1 => {
                pieces[0].operand
            }
            _ => break,
        };
        at = graph.nodes[n].operands[operand].node();
        let Some(below) = at else { break };
        let reshaped = matches!(graph.nodes[n].kind, NodeKind::Movement(Movement::Reshape));
        let no_larger =
            size(below) < least || (reshaped && best == (id, slot) && size(below) == least);
        if no_larger && strided_within(graph, whole, Some(below)).is_some() {
            (best, least) = ((n, operand), size(below));
        }
    }
    (best, least)
}

/// Axes of a contraction, each as (extent, stride in lhs, stride in rhs, stride in out); strides in elements.
type Axes = Vec<(usize, i64, i64, i64)>;

/// Merges neighbouring axes that lie contiguously in all three arrays, and returns the longest merged axis
/// (of equal lengths the last). The other groups are added to `around`: they become loops around the call.
fn longest(axes: Axes, around: &mut Axes) -> (usize, i64, i64, i64) {
    let mut groups = Axes::new();
    for next in axes.into_iter().rev() {
        let n = groups.last().map_or(0, |g| g.0 as i64);
        match groups.last_mut() {
            Some(g) if (next.1, next.2, next.3) == (g.1 * n, g.2 * n, g.3 * n) => g.0 *= next.0,
            _ => groups.push(next),
        }
    }
    groups.reverse();
    match (0..groups.len()).max_by_key(|i| groups[*i].0) {
        None => (1, 1, 1, 1),
        Some(i) => {
            let group = groups.remove(i);
            around.extend(groups);
            group
        }
    }
}
