//! What is cheaper to compute again than to keep in memory.

use super::access_maps::equal_axes;
use super::fusion_state::FusionState;
use super::graph::{Movement, NodeId, NodeKind, Source};
use smallvec::SmallVec;

/// What recomputation may cost.
struct Budget {
    operations: usize,
    loads: usize,
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

    fn load(&mut self, elements: usize) -> bool {
        if elements <= self.free {
            return true;
        }
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
        let loads = machine.recomputed_loads;
        let elements = self.elements(id);
        let (operations, free) = match elements > machine.cached_elements {
            true => {
                let operations = machine.recomputed_operations_uncached;
                (operations, elements / operations.max(1))
            }
            false => (machine.recomputed_operations, 0),
        };
        self.cheap(id, &mut Budget { operations, loads, free, seen: SmallVec::new() })
    }

    fn elements(&self, id: NodeId) -> usize {
        self.graph.shape(Source::Node(id)).iter().product()
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
            _ if node.is_held() => return budget.load(self.elements(id)),
            NodeKind::Input(_) => return budget.load(self.elements(id)),
            _ if self.needs[id] => return budget.load(self.elements(id)),
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
