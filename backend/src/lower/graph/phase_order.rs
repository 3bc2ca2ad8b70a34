//! The order of forward and reverse passes: nodes of the reverse pass must not run during the forward pass.
//!
//! A loop over 1000 elements that recomputes residuals for the reverse pass could be fused with a loop of the forward
//! pass. The recomputed residuals would then occupy memory from the forward pass on. If the tape has a byte budget,
//! marks in the program forbid this fusion ([`Mark::AfterForward`]):
//!
//! ```text
//! %1: f64[1000] = exp %0                     for i in 1000 { %1 }
//! .. loop .. %1 ..                           loop { .. %1 .. }
//! %5: f64[1000] = barrier{mark=after_forward, id=0} %0
//! %6: f64[1000] = exp %5                     for i in 1000 { %6 }       not in the loop of %1
//! .. loop .. %6 ..                           loop { .. %6 .. }
//! ```
//!
//! Nodes after the same number of `after_forward` barriers belong to one pass. The pass runs after all passes with
//! fewer barriers. Nodes of the forward pass that use a gradient computed within the forward pass are not delayed.

use super::{Graph, NodeId, NodeKind};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tapeloom_ir::Phase;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Mark, Op};

/// Returns the number of passes that must have ended before an equation's results are read; `operands` is this number
/// for its operands. The forward and reverse passes of nested derivatives run one after the other.
pub(crate) fn passes_before_results(op: &Op, phase: Phase, operands: u8) -> u8 {
    match op.mark() {
        Some(Mark::AfterForward) => operands.saturating_add(1),
        None if phase == Phase::FORWARD => 0,
        Some(_) | None => operands,
    }
}

/// Returns, for every node, the number of forward and reverse passes that must end before it runs. A copy has the
/// number of its operand, but a copy of an argument has the smallest number among its readers.
pub(crate) fn required_passes(graph: &Graph) -> SecondaryMap<NodeId, u8> {
    let mut least: SecondaryMap<NodeId, Option<u8>> = SecondaryMap::new();
    let mut required_passes = SecondaryMap::with_capacity(graph.nodes.len());
    for (id, node) in graph.nodes.iter().rev() {
        let copied = node.operands.first().and_then(|s| s.node()).map(|n| &graph.nodes[n]);
        let own = match (&node.kind, copied) {
            (NodeKind::Copy, Some(of)) if !matches!(of.kind, NodeKind::Input(_)) => {
                of.required_passes
            }
            (NodeKind::Copy, _) => least[id].unwrap_or(node.required_passes),
            _ => node.required_passes,
        };
        required_passes[id] = own;
        for operand in node.operands.iter().filter_map(|s| s.node()) {
            least[operand] = Some(least[operand].map_or(own, |least| least.min(own)));
        }
    }
    required_passes
}

/// For each pass of a block, the time of its last item so far (a time is a position in a `Timeline`, the order of
/// items). A pass is identified by the number of `after_forward` barriers before its nodes.
#[derive(Default)]
pub(crate) struct Passes {
    last: BTreeMap<u8, u64>,
}

impl Passes {
    /// Returns the earliest time for a fusion candidate (a computed node) that must run after `required_passes` forward
    /// and reverse passes have ended.
    pub(crate) fn end(&self, required_passes: u8) -> u64 {
        let waiting = required_passes > 0 && !planted(Fault::PassesMixed);
        let others = self.last.iter().filter(|(pass, _)| waiting && **pass != required_passes);
        others.map(|(_, time)| time + 1).max().unwrap_or(0)
    }

    /// Notes that a fusion candidate (a computed node) runs at `time`, in the pass with `required_passes` barriers
    /// before it.
    pub(crate) fn placed(&mut self, required_passes: u8, time: u64) {
        let last = self.last.entry(required_passes).or_insert(time);
        *last = (*last).max(time);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::lower::loop_trees;
    use tapeloom_ir::parse_module;

    /// Two called functions that differ only in the phase (forward or reverse pass) of their equations must not be
    /// merged: the loop trees must be the same, whichever of the two the module lists first.
    #[test]
    fn no_function_has_the_phases_of_another() {
        let body = "  %y: f64[1000] = mul %x, 2.0\n  return %y\n}\n";
        let of = |name: &str, phase: &str| {
            format!("func @{name}(%x: f64[1000]) -> (f64[1000]) {{\n{phase}{body}")
        };
        let (early, late) = (of("early", ""), of("late", "reverse transposed:\n"));
        let f = "func @f(%x: f64[1000]) -> (f64[1000], f64[1000]) {
            %s: f64[1000] = sin %x
            %kept: f64[1000] = barrier{mark=residual, id=0} %s
            %y: f64[1000] = call{function=@early, outline=false} %kept
            reverse transposed:
            %z: f64[1000] = call{function=@late, outline=false} %kept
            return %y, %z
        }";
        let [first, second] = [[&early, &late], [&late, &early]].map(|[a, b]| {
            let module = parse_module(&format!("{a}{b}{f}")).unwrap();
            loop_trees(&module, module.iter().last().unwrap().0).unwrap()
        });
        assert_eq!(first, second);
        // One loop computes the residual and the forward equations; the reverse pass has a loop of its own.
        assert_eq!(first.matches("for ").count(), 2, "{first}");
    }
}
