//! The axes of contractions: which axes of the operands run along which axis of the output, and their extents.

use crate::lower::graph::{Graph, NodeId, NodeKind, Source};
use smallvec::SmallVec;
use tapeloom_ir::{Dtype, Shape};

/// The axes of a contraction's operands that run along one axis of its output. Each is a pair: whether the operand is
/// the right one, and the axis of that operand.
type Target = SmallVec<[(bool, usize); 2]>;

/// Returns, for each axis of a contraction's output, the operand axes that run along it. The unpermuted output has the
/// batch axes, then the free axes of the left operand, then the free axes of the right operand. Axis i of the output is
/// axis `order[i]` of the unpermuted one.
pub(crate) fn contract_outputs(
    batch: &[(usize, usize)],
    contract: &[(usize, usize)],
    order: &[usize],
    left: usize,
    right: usize,
) -> Vec<(usize, Target)> {
    let mut outputs: Vec<Target> = Vec::new();
    for (a, b) in batch {
        outputs.push(SmallVec::from_slice(&[(false, *a), (true, *b)]));
    }
    let free_left = (0..left).filter(|a| !batch.iter().chain(contract).any(|(l, _)| l == a));
    outputs.extend(free_left.map(|a| SmallVec::from_slice(&[(false, a)])));
    let free_right = (0..right).filter(|b| !batch.iter().chain(contract).any(|(_, r)| r == b));
    outputs.extend(free_right.map(|b| SmallVec::from_slice(&[(true, b)])));
    order.iter().map(|i| std::mem::take(&mut outputs[*i])).enumerate().collect()
}

/// Maps one value per output axis (`out`) of a contraction to one value per axis of its left and of its right operand;
/// `folded` has the value of each contracted pair of axes.
pub(crate) fn uncontracted<T: Clone + Default>(
    out: &[T],
    batch: &[(usize, usize)],
    contract: &[(usize, usize)],
    order: &[usize],
    ranks: [usize; 2],
    mut folded: impl FnMut(usize) -> T,
) -> [SmallVec<[T; 4]>; 2] {
    let [mut left, mut right]: [SmallVec<[T; 4]>; 2] =
        ranks.map(|rank| SmallVec::from_elem(T::default(), rank));
    for (n, (a, b)) in contract.iter().enumerate() {
        left[*a] = folded(n);
        right[*b] = left[*a].clone();
    }
    for (o, target) in contract_outputs(batch, contract, order, ranks[0], ranks[1]) {
        for (is_right, a) in target {
            (if is_right { &mut right } else { &mut left })[a] = out[o].clone();
        }
    }
    [left, right]
}

/// Maps one value per output axis (`out`) of a reduction to one value per axis of its operand; `folded` has the values
/// of the reduced axes.
pub(crate) fn unreduced<T: Clone + Default>(
    out: &[T],
    axes: &[usize],
    mut folded: impl FnMut(usize) -> T,
) -> SmallVec<[T; 4]> {
    let mut kept = out.iter();
    let mut of = |a| match axes.contains(&a) {
        true => folded(a),
        false => kept.next().cloned().unwrap_or_default(),
    };
    (0..out.len() + axes.len()).map(&mut of).collect()
}

/// The extents of a contraction as a matrix product, with axes merged: for each member of the batch, the result
/// `y[m, n]` is `Σ_k x0[m, k] x1[k, n]`.
pub(crate) struct Extents {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Extents {
    /// Returns the extents of a node, if it is a contraction of f64 or f32.
    pub(crate) fn of(graph: &Graph, id: NodeId) -> Option<Extents> {
        let node = &graph.nodes[id];
        let NodeKind::Contract { batch, contract, .. } = &node.kind else { return None };
        if !matches!(node.ty.dtype, Dtype::F64 | Dtype::F32) {
            return None;
        }
        let shape =
            |s: Source| s.node().map_or(Shape::scalar(), |n| graph.nodes[n].ty.shape.clone());
        let (l, r) = (shape(node.operands[0]), shape(node.operands[1]));
        let extent = |pairs: &[(usize, usize)]| -> usize {
            pairs.iter().map(|(a, _)| l[*a]).fold(1, usize::saturating_mul)
        };
        let (b, k) = (extent(batch), extent(contract));
        let shared = b.saturating_mul(k).max(1);
        Some(Extents { m: l.elements() / shared, n: r.elements() / shared, k })
    }
}
