//! Rewrite rows: equalities that the e-graph and the peephole pass may use.
//!
//! A row stands with the primitive it is about. Each is tested by evaluating both sides.

use super::Op;
use crate::types::Type;

/// Whether both sides are equal bit by bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exactness {
    /// Equal in every bit, except that zeros may differ in sign and nans in payload.
    Exact,
    /// Equal in real arithmetic only; used in the relaxed mode.
    Reassociates,
}

/// A condition on the values a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// None.
    Always,
    /// The matched value is a float array.
    Float,
    /// The matched value is an integer array.
    Integer,
    /// The matched value is a bool array.
    Bool,
}

/// What is equal to what.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// Patterns in prefix form, over primitives without attributes: `(add ?x 0)` and `?x`. A bare
    /// number stands for the literal of the dtype at hand.
    Pattern {
        /// What is looked for.
        lhs: &'static str,
        /// What it equals.
        rhs: &'static str,
    },
    /// `outer(inner(x))` for two primitives of one operand: the primitives that, applied to `x` in
    /// order, give the same (an empty list is `x` itself), or `None` where the rule does not apply.
    /// The type is that of `x`.
    Compose(fn(outer: &Op, inner: &Op, x: &Type) -> Option<Vec<Op>>),
    /// `op(x)` for a primitive of one operand that is `x` itself, given the type of `x`.
    Identity(fn(op: &Op, x: &Type) -> bool),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// Unique name, shown by `explain`.
    pub name: &'static str,
    /// The equality.
    pub rule: Rule,
    /// When it holds.
    pub when: When,
    /// How exactly.
    pub exactness: Exactness,
    /// Why it helps.
    pub why: &'static str,
}
