//! Decides which nodes take over the memory of another node.
//!
//! The *base* of an update is the array that it overwrites. A region's result has a base, too, if an operand is its
//! initial value. A node takes over the memory of its base if three conditions hold: the base is not a result of the
//! function, no later fusion candidate (computed node) reads the base, and no other operand of the node reads the base.
//! A result may take over the memory of an argument that the caller donates, if a chain of nodes that take over memory
//! leads from the argument to the result:
//!
//! ```text
//! func @step(%0: f64[100], %1: i64[], ..) -> (f64[100], ..) {
//!   %3: f64[100] = dynamic_update_slice %0, %2, %1          in the memory of %0
//!   %4: f64[100] = scatter_add{..} %3, ..                   in the memory of %3
//!   return %4, ..
//! }
//! ```
//!
//! The kernel declares the memory of such a result as [`crate::loop_ir::Place::Donated`]. If an operand of a call has
//! no later readers, the caller donates the operand itself; otherwise it donates a copy. A loop always donates its
//! carries. A result that is computed element by element may then take over the memory of a carry, too
//! (`buffer_liveness`).

use crate::lower::candidates::iteration_domain::FusionCandidate;
use crate::lower::elements::fusion_state::FusionState;
use crate::lower::graph::units::Donation;
use crate::lower::graph::{Graph, NodeId, NodeKind};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};

/// Returns, for the node of each argument of the function, whether a result takes over the argument's memory.
pub(crate) fn donated(
    graph: &Graph,
    donation: &Donation,
    candidates: &[FusionCandidate],
    last_reader: &SecondaryMap<NodeId, usize>,
) -> SecondaryMap<NodeId, bool> {
    let mut donated = SecondaryMap::new();
    if *donation == Donation::None {
        return donated;
    }
    let mut member: SecondaryMap<NodeId, Option<usize>> = SecondaryMap::new();
    for (m, of) in candidates.iter().enumerate() {
        member[of.node] = Some(m);
    }
    for (result, root) in graph.results.iter().enumerate() {
        let mut node = *root;
        while let Some((of, slot)) = graph.base(node)
            && let Some(base) = graph.nodes[of].operands[slot].node()
            && (planted(Fault::GivenUp) || member[of].is_some_and(|m| last_reader[base] == m))
            && !graph.reads_beside(of, slot, base)
            && !graph.results.contains(&base)
        {
            node = base;
            if let NodeKind::Input(p) = graph.nodes[base].kind {
                donated[base] = donation.allows(p, result);
                break;
            }
        }
    }
    donated
}

impl FusionState<'_> {
    /// If node `id` may take over the memory of its base, notes that it does and returns the base; otherwise returns
    /// `None`. `m` is the fusion candidate of `id`.
    pub(crate) fn take_over(&mut self, m: usize, id: NodeId) -> Option<NodeId> {
        let (of, slot) = self.graph.base(id)?;
        let base = self.graph.nodes[of].operands[slot].node()?;
        let owned = match &self.graph.nodes[base].kind {
            NodeKind::Input(_) => self.donated[base],
            kind => !kind.is_movement(),
        };
        let donated = planted(Fault::GivenUp) && self.donated[base];
        let last = self.last_reader[base] == m
            || donated
            || planted(Fault::UpdateTakesOver) && self.last_reader[base] < m;
        let free = owned
            && last
            && !self.graph.reads_beside(of, slot, base)
            && !self.overwritten[base]
            && !self.is_result[base];
        if !free {
            return None;
        }
        self.needs[base] = true;
        self.overwritten[base] = true;
        self.takes_over[id] = Some(base);
        Some(base)
    }
}
