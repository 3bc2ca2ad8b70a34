//! Contractions that the matrix library does.
//!
//! A contraction is for the library when its matrices are large enough to pay for the call and each
//! operand is a matrix in memory: an array, or a view of one whose elements are at constant strides,
//! so that permuted, sliced and broadcast operands need no copy. Free axes that do not merge into
//! one row or column become loops around the call. Everything else is a loop nest like any other,
//! which fuses with what is around it.
//!
//! ```text
//! y[b,i,j] = Σ_k x[k,b,i] w[b,k,j]      for b: y[b] = (x[:,b,:])ᵀ @ w[b]
//! ```

use super::contraction::{Extents, contract_outputs};
use super::graph::{Graph, Movement, NodeId, NodeKind};
use super::loop_tree::{NodeMatrix, Product};
use super::strided_layout::strided;
use crate::machine::MachineModel;
use std::collections::BTreeSet;

/// The library call for a node, if it is one for the library.
pub(crate) fn plan(graph: &Graph, id: NodeId) -> Option<Product> {
    let node = &graph.nodes[id];
    Extents::of(graph, id).filter(|e| worthwhile(e, graph.machine))?;
    let NodeKind::Contract { batch, contract } = &node.kind else { return None };
    let (lhs, rhs) = (strided(graph, node.operands[0])?, strided(graph, node.operands[1])?);
    let (l, r) = (&lhs.shape, &rhs.shape);
    let out = node.ty.shape.strides();

    let mut around: Vec<(usize, i64, i64, i64)> = Vec::new();
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for (o, axes) in contract_outputs(batch, contract, l.len(), r.len()) {
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
    let m = merge(rows, &mut around);
    let n = merge(columns, &mut around);
    let mut terms: Vec<(usize, i64, i64, i64)> = contract
        .iter()
        .map(|(a, b)| (l[*a], lhs.strides[*a], rhs.strides[*b], 0))
        .filter(|(extent, ..)| *extent != 1)
        .collect();
    terms.sort_by_key(|(_, s, _, _)| -s);
    let mut left = Vec::new();
    let k = merge(terms, &mut left);
    if !left.is_empty() {
        return None;
    }
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

/// Whether matrices are large enough for a call.
fn worthwhile(extents: &Extents, machine: MachineModel) -> bool {
    let Extents { m, n, k } = *extents;
    let work = m.saturating_mul(n).saturating_mul(k);
    m.min(n).min(k) >= machine.library_extent && work >= machine.library_products
}

/// The operands of large contractions that are to be copied first, as they are no matrices in memory:
/// nodes and which of their operands.
///
/// Each element of the left operand is read once for every column of the right one, and the other way
/// iteration: `n` and `m` times. The extent that is summed does not count.
pub(crate) fn copied(graph: &Graph) -> BTreeSet<(NodeId, usize)> {
    let mut slots = BTreeSet::new();
    for (id, node) in graph.nodes.iter() {
        let Some(extents) = Extents::of(graph, id).filter(|e| worthwhile(e, graph.machine)) else {
            continue;
        };
        for (slot, read) in [extents.n, extents.m].into_iter().enumerate() {
            if read < graph.machine.library_copy_reads
                || strided(graph, node.operands[slot]).is_some()
            {
                continue;
            }
            // A copy beneath a reshape is as good, and its loops need not divide.
            slots.insert(match node.operands[slot].node() {
                Some(n) if matches!(graph.nodes[n].kind, NodeKind::Movement(Movement::Reshape)) => {
                    (n, 0)
                }
                _ => (id, slot),
            });
        }
    }
    slots
}

/// A merged group of axes: extent and the strides in lhs, rhs and out. Axes that do not merge become
/// loops around the call.
fn merge(
    mut axes: Vec<(usize, i64, i64, i64)>,
    around: &mut Vec<(usize, i64, i64, i64)>,
) -> (usize, i64, i64, i64) {
    let Some(mut group) = axes.pop() else { return (1, 1, 1, 1) };
    while let Some(next) = axes.pop() {
        let n = group.0 as i64;
        if (next.1, next.2, next.3) != (group.1 * n, group.2 * n, group.3 * n) {
            around.push(next);
            around.extend(axes);
            break;
        }
        group.0 *= next.0;
    }
    group
}
