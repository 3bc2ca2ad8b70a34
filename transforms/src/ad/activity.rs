//! Activity: the values that need a tangent.
//!
//! A value is *varied* if it depends on an active parameter through values that have tangents, and *useful* if
//! a result with a tangent depends on it in the same way. Only values that are both need a tangent. So a
//! primitive without a derivative is an error only where its derivative is needed; an index computed with
//! `floor`, say, is fine.
//!
//! Source: Hascoët, Naumann, Pascual, "To be recorded analysis in reverse-mode automatic
//! differentiation" (2005), on varied and useful variables.

use cranelift_entity::SecondaryMap;
use tapeloom_ir::{Function, ValueId};

/// The activity of every value of a function.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Per value: whether it depends on an active parameter through values that all have tangents.
    pub varied: SecondaryMap<ValueId, bool>,
    /// Per value: whether a result with a tangent depends on it through values that have tangents.
    pub useful: SecondaryMap<ValueId, bool>,
}

impl Activity {
    /// Returns whether value `v` needs a tangent: whether it is both varied and useful.
    pub fn is_active(&self, v: ValueId) -> bool {
        self.varied[v] && self.useful[v]
    }
}

/// Computes the activity of the values of `f` with respect to the `active` parameters.
pub fn activity(f: &Function, active: &[bool]) -> Activity {
    let mut varied: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    let mut useful: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    for (p, on) in f.all_params().zip(active) {
        varied[p] = *on && f.types[p].has_tangent();
    }
    for e in &f.equations {
        let depends = e.operands.iter().any(|a| a.value().is_some_and(|v| varied[v]));
        for o in &e.outputs {
            varied[*o] = depends && f.types[*o].has_tangent();
        }
    }
    for v in f.results.iter().filter_map(|a| a.value()) {
        useful[v] = f.types[v].has_tangent();
    }
    for e in f.equations.iter().rev() {
        if e.outputs.iter().any(|o| useful[*o]) {
            for v in e.operands.iter().filter_map(|a| a.value()) {
                useful[v] |= f.types[v].has_tangent();
            }
        }
    }
    Activity { varied, useful }
}
