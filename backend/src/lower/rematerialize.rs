//! What is cheaper to compute again than to keep in memory.

use super::access_maps::equal_axes;
use super::affine::Index;
use super::fusion_state::FusionState;
use super::graph::{Movement, NodeId, NodeKind};
use smallvec::SmallVec;
use tapeloom_ir::ArrayType;
use tapeloom_ir::fault::{Fault, planted};

/// What recomputation may cost.
struct Budget {
    operations: usize,
    loads: usize,
    /// Loads of what has memory as long as somebody reads it, and not for the whole call.
    intermediates: usize,
    /// An intermediate array is no larger than this.
    bytes: usize,
    /// Arrays of at most so many elements are loaded at no cost.
    free: usize,
    /// What has been counted: a value is computed once for all that read it through the same views, and again through
    /// others.
    seen: SmallVec<[(NodeId, usize); 16]>,
    /// Views, each behind those at a place of this list; what no view leads to is behind place 0, which is no view.
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

    /// The place behind one more view.
    fn behind(&mut self, place: usize, view: NodeId) -> usize {
        let known = self.views.iter().position(|v| *v == (place, view));
        1 + known.unwrap_or_else(|| {
            self.views.push((place, view));
            self.views.len() - 1
        })
    }
}

impl FusionState<'_> {
    /// Whether a node, of which the element at an index is read, is a few cheap operations away from memory that exists
    /// anyway.
    pub(crate) fn recomputed(&self, id: NodeId, index: &Index) -> bool {
        // What is held has memory, from which others are computed again.
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
        // What is kept longer for it takes no more memory than it would.
        let mut uncached = Budget {
            operations: machine.recomputed_operations_uncached,
            intermediates: loads.min(1),
            bytes: ty.bytes(),
            free: elements / machine.recomputed_operations_uncached.max(1),
            seen: SmallVec::new(),
            views: SmallVec::new(),
            ..few
        };
        // Loops that read each element many times have it in the cache after the first, and would compute it as often.
        let large = elements > machine.cached_elements && self.iterations(index) / 2 <= elements;
        self.cheap(id, 0, &mut few) || large && self.cheap(id, 0, &mut uncached)
    }

    /// How often the open loops read an element at this index, whichever it is.
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
            // It lives longer once.
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
