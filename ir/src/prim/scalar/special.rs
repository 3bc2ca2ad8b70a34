//! Special functions: the logistic, the error function and the gamma function with relatives.

use super::{EDGES, POSITIVE, REAL, Row, Signature, UNIT, unary};
use crate::math;
use crate::prim::Code;
use crate::prim::Family;
use crate::prim::Polygamma;
use crate::prim::elementwise::{Linear, Partial};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Where these rows stand on the page of primitives.
pub(super) const FAMILY: Family = Family::Special;

/// `1 / (1 + e⁻ˣ)`
pub(super) const LOGISTIC: Row = Row {
    code: unary!("logistic", 20, Continuous, Plus, parted math::Logistic),
    math: "1 / (1 + e⁻ˣ)",
    signature: Signature::Float,
    // Not `f (1 - f)`, which is 0 where f rounds to 1 and the derivative is still 1e-16.
    partials: &[Partial::Of(|t, x, _| t * (0.5 * (0.5 * x[0]).sech()).powi(2))],
    linear: Linear::No,
    edges: "0 at -inf, 1 at inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `2/√π ∫₀ˣ exp(-s²) ds`
pub(super) const ERF: Row = Row {
    code: unary!("erf", 32, Continuous, Operand, math::erf),
    math: "2/√π ∫₀ˣ exp(-s²) ds",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (FRAC_2_SQRT_PI * (-(x[0] * x[0])).exp()))],
    linear: Linear::No,
    edges: "±1 at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `1 - erf x`
pub(super) const ERFC: Row = Row {
    code: unary!("erfc", 32, Continuous, Plus, math::erfc),
    math: "1 - erf x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (-FRAC_2_SQRT_PI * (-(x[0] * x[0])).exp()))],
    linear: Linear::No,
    edges: "without cancellation for large x; 2 at -inf, 0 at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `erf⁻¹ x`
pub(super) const ERF_INV: Row = Row {
    code: unary!("erf_inv", 32, Continuous, Operand, math::erf_inv),
    math: "erf⁻¹ x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (1.0 / FRAC_2_SQRT_PI * (y * y).exp()))],
    linear: Linear::No,
    edges: "±inf at ±1, nan outside",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// `∫ φ from -∞ to x`
pub(super) const NDTR: Row = Row {
    code: unary!("ndtr", 40, Continuous, Plus, math::ndtr),
    math: "1/√(2π) ∫₋∞ˣ exp(-s²/2) ds",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (FRAC_1_SQRT_TAU * (-0.5 * x[0] * x[0]).exp()))],
    linear: Linear::No,
    edges: "without cancellation on the left; 0 at -inf, 1 at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `1/√(2π)`
const FRAC_1_SQRT_TAU: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// `ln |Γ(x)|`
pub(super) const LGAMMA: Row = Row {
    code: unary!("lgamma", 32, Continuous, Unknown, math::lgamma),
    math: "ln |Γ(x)|",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].digamma())],
    linear: Linear::No,
    edges: "inf at the poles 0, -1, -2, … and at ±inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `ψ(x) = Γ'(x) / Γ(x)`
pub(super) const DIGAMMA: Row = Row {
    code: unary!("digamma", 32, Continuous, Unknown, math::digamma),
    math: "ψ(x) = Γ'(x) / Γ(x)",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].unary(Polygamma { n: 1 }))],
    linear: Linear::No,
    edges: "nan at the poles 0, -1, -2, … and at -inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};
