//! Decides which values are recomputed in each reader because recomputing them is cheaper than storing and loading
//! them.

use super::fusion_state::FusionState;
use crate::lower::candidates::access_maps::equal_axes;
use crate::lower::graph::{Movement, NodeId, NodeKind};
use crate::lower::trees::affine::Index;
use smallvec::SmallVec;
use tapeloom_ir::ArrayType;
use tapeloom_ir::fault::{Fault, planted};

/// The remaining budget for the recomputation of one element: how many operations and loads it may still have.
struct Budget {
    operations: usize,
    loads: usize,
    /// The allowed number of loads of intermediate arrays (arrays that the program computes). Each load prolongs the
    /// lifetime of its array.
    intermediates: usize,
    /// The maximal size in bytes of an intermediate array.
    bytes: usize,
    /// An array of at most this number of elements stays in the cache, so loads of it do not count.
    free: usize,
    /// The values counted so far, each with the chain of views through which it is read (a position in `views`). A
    /// value that is read through two chains is computed twice, so it counts twice.
    seen: SmallVec<[(NodeId, usize); 16]>,
    /// The chains of views through which values are read. An entry is (position of the chain that it extends, view).
    /// Position 0 is the empty chain, and entry n has position n + 1.
    views: SmallVec<[(usize, NodeId); 8]>,
}

impl Budget {
    fn operation(&mut self) -> bool {
        let left = self.operations > 0;
        self.operations = self.operations.saturating_sub(1);
        left
    }

    fn load(&mut self, ty: &ArrayType, intermediate: bool) -> bool {
        if ty.shape.elements() <= self.free {
            return true;
        }
        if self.loads == 0 || intermediate && (self.intermediates == 0 || ty.bytes() > self.bytes) {
            return false;
        }
        self.loads -= 1;
        self.intermediates -= usize::from(intermediate);
        true
    }

    /// Returns the position of the chain that extends the chain at `place` by `view`. Adds the chain if it is new.
    fn behind(&mut self, place: usize, view: NodeId) -> usize {
        let known = self.views.iter().position(|v| *v == (place, view));
        1 + known.unwrap_or_else(|| {
            self.views.push((place, view));
            self.views.len() - 1
        })
    }
}

impl FusionState<'_> {
    /// Returns whether to recompute the element of a node at an index, because a few cheap operations compute it from
    /// memory that is needed in any case.
    pub(crate) fn recomputed(&self, id: NodeId, index: &Index) -> bool {
        // A residual is saved, never recomputed: other values are recomputed from it.
        if self.graph.nodes[id].is_held() {
            return false;
        }
        let machine = self.graph.machine;
        let loads = machine.recomputed_loads;
        let mut few = Budget {
            operations: machine.recomputed_operations,
            loads,
            intermediates: loads,
            bytes: usize::MAX,
            free: 0,
            seen: SmallVec::new(),
            views: SmallVec::new(),
        };
        let ty = &self.graph.nodes[id].ty;
        let elements = ty.shape.elements();
        // Recomputation makes intermediate arrays live longer. They must be no larger than the memory that the node
        // itself would need.
        let mut uncached = Budget {
            operations: machine.recomputed_operations_uncached,
            intermediates: loads.min(1),
            bytes: ty.bytes(),
            free: elements / machine.recomputed_operations_uncached.max(1),
            seen: SmallVec::new(),
            views: SmallVec::new(),
            ..few
        };
        // If loops read each element more than twice, load it: the loads come from the cache, while every read would
        // recompute the element.
        let large = elements > machine.cached_elements && self.iterations(index) / 2 <= elements;
        self.cheap(id, 0, &mut few) || large && self.cheap(id, 0, &mut uncached)
    }

    /// Returns how many elements are read at this index in total: the product of the trip counts of the open loops,
    /// down to the innermost loop on which the index depends.
    fn iterations(&self, index: &Index) -> usize {
        let blocks = self.blocks.iter().take(self.level_of(index) + 1);
        blocks.fold(1, |n, block| n.saturating_mul(block.extent.unwrap_or(1)))
    }

    fn cheap(&self, id: NodeId, place: usize, budget: &mut Budget) -> bool {
        if budget.seen.contains(&(id, place)) {
            return true;
        }
        let intermediate = budget.seen.iter().all(|(known, _)| *known != id);
        budget.seen.push((id, place));
        let node = &self.graph.nodes[id];
        let mut operands =
            node.operands.iter().filter_map(|s| s.node()).collect::<SmallVec<[NodeId; 3]>>();
        match &node.kind {
            _ if self.overwritten[id] && !planted(Fault::AgainFromWritten) => return false,
            _ if node.is_held() => return budget.load(&node.ty, false),
            NodeKind::Input(_) => return budget.load(&node.ty, false),
            // The node has memory, whose lifetime gets longer if it is read here. Count this once, even if several
            // views read the node.
            _ if self.needs[id] => return budget.load(&node.ty, intermediate),
            NodeKind::Map(code)
                if code.row().flops as usize <= self.graph.machine.recomputed_flops
                    && budget.operation() => {}
            NodeKind::Movement(Movement::Iota { .. }) => return true,
            NodeKind::Movement(Movement::View { pieces, .. }) if pieces.len() == 1 => {}
            NodeKind::Movement(Movement::Reshape) => {
                let from = self.graph.shape(node.operands[0]);
                if equal_axes(from, &node.ty.shape)
                    .iter()
                    .zip(from)
                    .any(|(same, extent)| same.is_none() && *extent != 1)
                {
                    return false;
                }
            }
            NodeKind::Map(_)
            | NodeKind::Reduce { .. }
            | NodeKind::ArgReduce { .. }
            | NodeKind::Contract { .. }
            | NodeKind::Update(_)
            | NodeKind::Result { .. }
            | NodeKind::Copy
            | NodeKind::Movement(_) => return false,
        }
        operands.dedup();
        let place = if node.kind.is_movement() { budget.behind(place, id) } else { place };
        operands.iter().all(|n| self.cheap(*n, place, budget))
    }
}
