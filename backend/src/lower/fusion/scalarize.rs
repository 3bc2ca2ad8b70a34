//! Unrolls short axes completely, so that every element is a scalar.

use super::step_order::{Item, STRAIGHT, Space};
use crate::lower::candidates::iteration_domain::{AxisRole, CandidatePart, FusionCandidate, Read};
use crate::lower::candidates::view_boxes::is_pieced;
use crate::lower::elements::fusion_state::FusionState;
use crate::lower::graph::{NodeId, NodeKind};
use crate::lower::trees::affine::{Affine, Index};
use smallvec::SmallVec;
use tapeloom_ir::OrderedMap;

/// The largest number of elements that scalarising unrolls into straight-line code outside of loops, which is later cut
/// into portions of machine code.
const SCALARISED_STRAIGHT: usize = 20_000;

/// The largest number of elements that scalarising unrolls into the body of a loop, which cannot be cut into portions:
/// Cranelift's register allocator takes three seconds for six thousand elements, and 0.4 for two thousand (in a
/// development build).
const SCALARISED_IN_LOOP: usize = STRAIGHT;

impl FusionState<'_> {
    /// Unrolls the inner axes of fusion candidates of at most `register_elements` elements that read elements of each
    /// other at other indices. For example, a slice of three elements of a small vector is then three scalars that are
    /// already defined.
    pub(crate) fn scalarise(&mut self, members: &[usize], depth: usize) {
        let small = |m: &FusionCandidate| m.rest(depth) <= self.graph.machine.register_elements;
        let mut inside: OrderedMap<NodeId, usize> = OrderedMap::default();
        let candidates: Vec<usize> =
            members.iter().copied().filter(|m| small(&self.candidates[*m])).collect();
        let mut total = 0usize;
        for &m in &candidates {
            inside.insert(self.candidates[m].node, m);
            total = total.saturating_add(self.candidates[m].rest(depth));
        }
        let most = if depth == 0 { SCALARISED_STRAIGHT } else { SCALARISED_IN_LOOP };
        if total > most {
            return;
        }
        let crosses = |m: &usize| {
            let candidate = &self.candidates[*m];
            // A view of several pieces, such as a concatenation, reads an operand at a different offset in each piece,
            // so elements are read at other indices than their own.
            if candidate.part == CandidatePart::Whole && is_pieced(self.graph, candidate.node) {
                return true;
            }
            candidate.reads.iter().any(|r| {
                let Some(from) = inside.get(&r.node) else { return false };
                let axes = self.candidates[*from].axes.iter().skip(depth);
                // Returns true if the reader's index along an axis is not one of its loop indices, because the array is
                // sliced, reversed or shifted along that axis.
                axes.into_iter().any(|a| match a.runs {
                    AxisRole::Out(o) => r.at[o].is_none(),
                    AxisRole::Fold(_) => false,
                })
            })
        };
        if !candidates.iter().any(crosses) {
            return;
        }
        for m in candidates {
            let from = self.candidates[m].unrolled_from;
            self.candidates[m].unrolled_from = from.min(depth);
        }
    }

    /// Prevents unrolling if all fusion candidates visit arrays of one shape, element by element: their loops become
    /// one loop over contiguous memory, so short rows cause no overhead.
    pub(crate) fn loop_over_whole_arrays(&mut self, item: &Item) {
        let [first, ..] = item.members.as_slice() else { return };
        let shape = self.graph.nodes[self.candidates[*first].node].ty.shape.clone();
        let whole = |m: &usize| {
            let candidate = &self.candidates[*m];
            let node = &self.graph.nodes[candidate.node];
            let elementwise = matches!(node.kind, NodeKind::Map(_) | NodeKind::Copy);
            // The axes of the candidate must be all axes of its array, in order. Axes of extent 1 do not count, because
            // candidates have no such axes.
            let in_order = candidate.axes.iter().map(|a| match a.runs {
                AxisRole::Out(o) if a.start == 0 && a.step == 1 => Some(o),
                AxisRole::Out(_) | AxisRole::Fold(_) => None,
            });
            let long = (0..shape.len()).filter(|o| shape[*o] != 1).map(Some);
            let same = |r: &Read| {
                let from = &self.graph.nodes[r.node].ty.shape;
                *from == shape && r.at.iter().flatten().copied().eq(0..candidate.axes.len())
            };
            elementwise
                && candidate.part == CandidatePart::Whole
                && node.ty.shape == shape
                && in_order.eq(long)
                && candidate.reads.iter().all(same)
        };
        if matches!(item.space, Space::Loop(_)) && item.members.iter().all(whole) {
            for m in &item.members {
                let candidate = &mut self.candidates[*m];
                candidate.unrolled_from = candidate.axes.len();
            }
        }
    }

    /// Returns all combinations of index values of the unrolled axes from axis `depth` on, in row-major order. Folded
    /// axes are included if `folds` is set.
    pub(crate) fn unrolled(&self, m: usize, depth: usize, folds: bool) -> Vec<Index> {
        let axes = &self.candidates[m].axes;
        let mut all = vec![Index::new()];
        for (position, a) in axes.iter().enumerate().skip(depth) {
            let skip = position < self.candidates[m].unrolled_from
                || (!folds && matches!(a.runs, AxisRole::Fold(_)));
            let extent = if skip { 1 } else { a.extent as i64 };
            let mut next = Vec::with_capacity(all.len() * extent as usize);
            for prefix in &all {
                for i in 0..extent {
                    let mut index = prefix.clone();
                    index.push(Affine::constant(a.start + a.step * i));
                    next.push(index);
                }
            }
            all = next;
        }
        all
    }

    /// Returns the number of the accumulator for an index of fusion candidate `m` (a computed node): accumulators are
    /// numbered like the unrolled output elements, in row-major order.
    pub(crate) fn slot(&self, m: usize, index: &[Affine]) -> usize {
        let candidate = &self.candidates[m];
        let mut slot = 0;
        for (position, a) in candidate.axes.iter().enumerate().skip(candidate.unrolled_from) {
            if matches!(a.runs, AxisRole::Out(_)) {
                let i = (index[position].offset() - a.start) / a.step;
                slot = slot * a.extent + i as usize;
            }
        }
        slot
    }

    /// Splits the indices along a fusion candidate's axes: returns the index of the output element, and for each folded
    /// axis the pair of the axis and the index along it.
    pub(crate) fn indices_of(
        &self,
        m: usize,
        along: &[Affine],
    ) -> (Index, SmallVec<[(usize, Affine); 2]>) {
        let candidate = &self.candidates[m];
        let rank = self.graph.nodes[candidate.node].ty.shape.len();
        let mut out: Index = SmallVec::from_elem(Affine::default(), rank);
        let mut fold = SmallVec::new();
        for (a, i) in candidate.axes.iter().zip(along) {
            match a.runs {
                AxisRole::Out(o) => out[o] = i.clone(),
                AxisRole::Fold(f) => fold.push((f, i.clone())),
            }
        }
        (out, fold)
    }
}
