//! What is cheaper to compute again than to keep in memory.

use super::access_maps::equal_axes;
use super::fusion_state::FusionState;
use super::graph::{Movement, NodeId, NodeKind};
use smallvec::SmallVec;

/// What recomputation may cost.
struct Budget {
    operations: usize,
    loads: usize,
}

impl Budget {
    fn operation(&mut self) -> bool {
        let left = self.operations > 0;
        self.operations = self.operations.saturating_sub(1);
        left
    }

    fn load(&mut self) -> bool {
        let left = self.loads > 0;
        self.loads = self.loads.saturating_sub(1);
        left
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
        let (operations, loads) = (machine.recomputed_operations, machine.recomputed_loads);
        self.cheap(id, &mut Budget { operations, loads })
    }

    fn cheap(&self, id: NodeId, budget: &mut Budget) -> bool {
        let node = &self.graph.nodes[id];
        let mut operands =
            node.operands.iter().filter_map(|s| s.node()).collect::<SmallVec<[NodeId; 3]>>();
        match &node.kind {
            _ if self.overwritten[id] => return false,
            _ if node.is_held() => return budget.load(),
            NodeKind::Input(_) => return budget.load(),
            _ if self.needs[id] => return budget.load(),
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
