//! What is cheaper to compute again than to keep in memory.

use super::access_maps::equal_axes;
use super::fusion_state::FusionState;
use super::graph::{Movement, NodeId, NodeKind};
use smallvec::SmallVec;
use tapeloom_ir::ArrayType;

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
    /// What has been counted: each value is computed once.
    seen: SmallVec<[NodeId; 16]>,
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
}

impl FusionState<'_> {
    /// Whether a node is a few cheap operations away from memory that exists anyway.
    pub(crate) fn recomputed(&self, id: NodeId) -> bool {
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
            ..few
        };
        self.cheap(id, &mut few)
            || elements > machine.cached_elements && self.cheap(id, &mut uncached)
    }

    fn cheap(&self, id: NodeId, budget: &mut Budget) -> bool {
        if budget.seen.contains(&id) {
            return true;
        }
        budget.seen.push(id);
        let node = &self.graph.nodes[id];
        let mut operands =
            node.operands.iter().filter_map(|s| s.node()).collect::<SmallVec<[NodeId; 3]>>();
        match &node.kind {
            _ if self.overwritten[id] => return false,
            _ if node.is_held() => return budget.load(&node.ty, false),
            NodeKind::Input(_) => return budget.load(&node.ty, false),
            _ if self.needs[id] => return budget.load(&node.ty, true),
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
        operands.iter().all(|n| self.cheap(*n, budget))
    }
}
