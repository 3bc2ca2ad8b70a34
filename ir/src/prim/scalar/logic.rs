//! Comparisons, bits and tests.

use super::{Row, Signature};
use crate::prim::Code;
use crate::prim::elementwise::{Linear, Partial};

const BOOL: Partial = Partial::Zero("a bool has no tangent");

/// `x == y`
pub(super) const EQ: Row = Row {
    name: "eq",
    math: "x = y",
    arity: 2,
    signature: Signature::Compare,
    code: Code::Eq,
    partials: &[BOOL, BOOL],
    linear: Linear::No,
    edges: "nan equals nothing; -0 = 0",
    smooth: &[],
    edge: &[&[1.0, 1.0], &[1.0, 2.0], &[f64::NAN, f64::NAN], &[0.0, -0.0]],
    rewrites: &[],
};
