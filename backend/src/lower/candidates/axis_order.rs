//! Chooses the order of the loops of a fusion candidate (a computed node, or one part of it).
//!
//! The order is chosen before fusion and not changed afterwards. The axes of a reduction follow the memory order of the
//! largest array that the reduction reads or writes. The axes of a transposed copy follow the axes of the node that is
//! copied. All other nodes follow the row-major order of their output. Very short axes (`inner_extent` iterations or
//! fewer) go innermost if they are unrolled there.

use super::iteration_domain::{Axis, AxisRole, Read};
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::operands::strided_layout::strided;
use smallvec::SmallVec;

/// Returns the order of loops of a fusion candidate: positions in `axes`, from the outermost to the innermost loop.
pub(crate) fn order(
    graph: &Graph,
    node: NodeId,
    axes: &[Axis],
    reads: &[Read],
) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..axes.len()).collect();
    let folds = axes.iter().any(|a| matches!(a.runs, AxisRole::Fold(_)));
    if matches!(graph.nodes[node].kind, NodeKind::ArgReduce { .. }) {
        return order;
    }
    if folds {
        by_memory(graph, node, axes, reads, &mut order);
    } else if let (NodeKind::Copy, [read]) = (&graph.nodes[node].kind, reads)
        && matches!(graph.nodes[read.node].kind, NodeKind::Map(_))
    {
        as_computed(read, &mut order);
    }
    if folds {
        order.sort_by_key(|i| axes[*i].extent <= graph.machine.inner_extent);
    } else {
        short_inside(graph, axes, &mut order);
    }
    order
}

/// Moves short axes inside, starting with the last axis. An axis moves only if its loop and the loops moved before it
/// can all be unrolled together. A short loop that is not unrolled would be the innermost loop, and would keep the loop
/// over adjacent elements from having vector lanes. For example, 4 images of 3 colours have short loops over the batch
/// and over the channels.
fn short_inside(graph: &Graph, axes: &[Axis], order: &mut SmallVec<[usize; 4]>) {
    let mut unrolled = 1;
    let mut inside: SmallVec<[usize; 4]> = SmallVec::new();
    for axis in order.iter().rev() {
        let extent = axes[*axis].extent;
        if extent <= graph.machine.inner_extent
            && unrolled * extent <= graph.machine.unrolled_elements
        {
            unrolled *= extent;
            inside.push(*axis);
        }
    }
    order.sort_by_key(|axis| inside.contains(axis));
}

/// The smallest number of adjacent terms of a window for which the loop over the terms is the inner one.
const LONG_WINDOW: usize = 32;

/// If a node folds over windows of an array, returns the number of elements of this array, and its stride along each
/// axis of the fusion candidate. Returns `None` for other nodes, and if the loop over adjacent results is the better
/// inner loop: the window is too large to be unrolled, and fewer than `LONG_WINDOW` of its terms are adjacent. The
/// strides are computed from the view, because a read through windows has no entry in `Read::at` for the axes along
/// which it moves.
fn under_windows(
    graph: &Graph,
    node: NodeId,
    axes: &[Axis],
    reads: &[Read],
) -> Option<(usize, Strides)> {
    let node = &graph.nodes[node];
    let NodeKind::Reduce { axes: folded, .. } = &node.kind else { return None };
    let x = strided(graph, node.operands[0])?;
    let under = &graph.nodes[x.node].ty.shape;
    let is_window = |r: &Read| {
        r.node == x.node && r.at.iter().zip(under.iter()).any(|(at, n)| at.is_none() && *n != 1)
    };
    if !reads.iter().any(is_window) {
        return None;
    }
    let kept: Vec<usize> = (0..x.shape.len()).filter(|axis| !folded.contains(axis)).collect();
    let stride = |axis: &Axis| match axis.runs {
        AxisRole::Out(o) => x.strides[kept[o]],
        AxisRole::Fold(axis) => x.strides[axis],
    };
    let mut terms: Vec<(i64, usize)> = axes
        .iter()
        .filter(|axis| matches!(axis.runs, AxisRole::Fold(_)))
        .map(|axis| (stride(axis), axis.extent))
        .collect();
    terms.sort_unstable();
    let unrolled = terms.iter().all(|(_, extent)| *extent <= graph.machine.inner_extent);
    let adjacent = terms.into_iter().fold(
        1,
        |run, (stride, extent)| {
            if stride == run as i64 { run * extent } else { run }
        },
    );
    let strides = axes.iter().map(|axis| Some(stride(axis))).collect();
    (unrolled || adjacent >= LONG_WINDOW).then(|| (under.elements(), strides))
}

/// Orders the axes of a transposed copy like the axes of the elementwise node that it copies. Both nodes then share
/// their loops, and the elementwise node needs no memory.
fn as_computed(read: &Read, order: &mut [usize]) {
    let place = |axis: &usize| read.at.iter().position(|at| *at == Some(*axis));
    if order.iter().all(|axis| place(axis).is_some()) {
        order.sort_by_key(place);
    }
}

/// The stride in elements of an array along each axis of a fusion candidate; `None` if the array does not
/// have the axis.
type Strides = SmallVec<[Option<i64>; 4]>;

/// Orders the axes of a reduction by decreasing stride in the largest array that the reduction reads or writes. Axes
/// without a stride in this array go innermost if another array has unit stride along them, and otherwise outermost.
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
        if let AxisRole::Out(o) = a.runs {
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
    arrays.extend(under_windows(graph, node, axes, reads));
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
    // The innermost axis decides the memory access pattern. Unit stride is best, above all in the output, which counts
    // twice because accumulation reads and writes it. If an array's address does not change along the axis, this is
    // better than a stride above 1.
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
    // The outermost axis stays outermost, because this nest shares the outermost loop with other nests.
    let best = (1..order.len()).rev().max_by_key(|p| (score(order[*p]), *p));
    if let Some(best) = best
        && order.last().is_some_and(|last| score(order[best]) > score(*last))
    {
        let axis = order.remove(best);
        order.push(axis);
    }
}
