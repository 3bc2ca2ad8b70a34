//! Trigonometric and hyperbolic functions and their inverses.

use super::{EDGES, REAL, Row, Signature, UNIT, binary, exact, unary};
use crate::fault::{Fault, planted};
use crate::math;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rules::expr::Expr;
use crate::prim::rules::rewrite::When;
use crate::prim::{Code, Family, StableHlo};

/// The section of the page of primitives that lists the functions of this file.
pub(super) const FAMILY: Family = Family::Trigonometric;

/// `sin x`
pub(super) const SIN: Row = Row {
    code: unary!(
        "sin", 16, Continuous, Zero, StableHlo::Operation("stablehlo.sine"), parted math::Sin
    ),
    math: "sin x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].cos())],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `cos x`
pub(super) const COS: Row = Row {
    code: unary!(
        "cos", 16, Continuous, NeverMinusZero, StableHlo::Operation("stablehlo.cosine"), parted math::Cos
    ),
    math: "cos x",
    signature: Signature::Float,
    partials: &[Partial::Minus(|t, x, _| t * x[0].sin())],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[exact("cos-neg", "(cos (neg ?x))", "(cos ?x)", When::Always, "an even function")],
};

/// `tan x`
pub(super) const TAN: Row = Row {
    code: unary!(
        "tan", 28, Continuous, Zero, StableHlo::Operation("stablehlo.tan"), parted math::Tan
    ),
    math: "tan x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (y * y + 1.0))],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: &[&[-1.2], &[0.1], &[0.9]],
    edge: EDGES,
    rewrites: &[],
};

/// `arcsin x`
pub(super) const ASIN: Row = Row {
    code: unary!(
        "asin", 32, Continuous, Operand, StableHlo::Operation("chlo.asin"), parted math::Asin
    ),
    math: "arcsin x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * ((1.0 - x[0]) * (1.0 + x[0])).rsqrt())],
    linear: Linear::No,
    edges: "nan outside [-1, 1]; the derivative at ±1 is inf",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// `arccos x`
pub(super) const ACOS: Row = Row {
    code: unary!(
        "acos", 32, Continuous, Plus, StableHlo::Operation("chlo.acos"), parted math::Acos
    ),
    math: "arccos x",
    signature: Signature::Float,
    partials: &[Partial::Minus(|t, x, _| t * ((1.0 - x[0]) * (1.0 + x[0])).rsqrt())],
    linear: Linear::No,
    edges: "nan outside [-1, 1]; the derivative at ±1 is -inf",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// `arctan x`
pub(super) const ATAN: Row = Row {
    code: unary!(
        "atan", 32, Continuous, Operand, StableHlo::Operation("chlo.atan"), parted math::Atan
    ),
    math: "arctan x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t / (x[0] * x[0] + 1.0))],
    linear: Linear::No,
    edges: "±π/2 at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `atan2(x, y)`
pub(super) const ATAN2: Row = Row {
    code: binary!(
        "atan2", 40, Jumps, Positive, StableHlo::Operation("stablehlo.atan2"), parted math::Atan2
    ),
    math: "the angle of the point (y, x)",
    signature: Signature::Float,
    partials: &[
        // The partial y / (x² + y²) is computed without these squares, which would overflow for coordinates near 1e300
        // and underflow near 1e-300.
        Partial::Of(|t, x, _| t * over_square(x[1], x)),
        Partial::Minus(|t, x, _| {
            let t = if planted(Fault::Partial) { -t } else { t };
            t * over_square(x[0], x)
        }),
    ],
    linear: Linear::No,
    edges: "the first operand is the ordinate; in [-π, π], with the signs of zeros as in C; the derivative at the origin is nan",
    smooth: &[&[1.0, 2.0], &[-0.5, 1.5], &[2.0, -1.0], &[-1.0, -3.0]],
    edge: &[
        &[0.0, 0.0],
        &[0.0, -0.0],
        &[-0.0, -1.0],
        &[1.0, f64::INFINITY],
        &[f64::INFINITY, f64::NEG_INFINITY],
        &[f64::NAN, 1.0],
    ],
    rewrites: &[],
};

/// Emits `z / (x² + y²)` for a coordinate `z` of the point `(x, y)`, as `(z / h) / h` with the distance `h` of
/// the point from the origin.
fn over_square<'b, 'm>(z: Expr<'b, 'm>, x: &[Expr<'b, 'm>]) -> Expr<'b, 'm> {
    let h = x[0].hypot(x[1]);
    z / h / h
}

/// `sinh x`
pub(super) const SINH: Row = Row {
    code: unary!(
        "sinh", 28, Continuous, Operand, StableHlo::Operation("chlo.sinh"), parted math::Sinh
    ),
    math: "sinh x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].cosh())],
    linear: Linear::No,
    edges: "±inf at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `cosh x`
pub(super) const COSH: Row = Row {
    code: unary!(
        "cosh", 28, Continuous, Plus, StableHlo::Operation("chlo.cosh"), parted math::Cosh
    ),
    math: "cosh x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].sinh())],
    linear: Linear::No,
    edges: "inf at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[exact(
        "cosh-neg",
        "(cosh (neg ?x))",
        "(cosh ?x)",
        When::Always,
        "an even function",
    )],
};

/// `tanh x`
pub(super) const TANH: Row = Row {
    code: unary!(
        "tanh", 28, Continuous, Operand, StableHlo::Operation("stablehlo.tanh"), parted math::Tanh
    ),
    math: "tanh x",
    signature: Signature::Float,
    // The partial is not `1 - f²` with the value f, because that is 0 where f rounds to 1, although the derivative is
    // still 1e-16.
    partials: &[Partial::Of(|t, x, _| t * x[0].sech_square())],
    linear: Linear::No,
    edges: "±1 at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `1 / cosh x`
pub(super) const SECH: Row = Row {
    code: unary!("sech", 24, Continuous, Plus, StableHlo::Formula(|x| {
        let e = (-x[0].abs()).exp();
        2.0 * e / (e * e + 1.0)
    }), parted math::Sech),
    math: "1 / cosh x",
    signature: Signature::Float,
    partials: &[Partial::Minus(|t, x, y| t * (y * x[0].tanh()))],
    linear: Linear::No,
    edges: "0 at ±inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[exact(
        "sech-neg",
        "(sech (neg ?x))",
        "(sech ?x)",
        When::Always,
        "an even function",
    )],
};

/// `1 / cosh² x`
pub(super) const SECH_SQUARE: Row = Row {
    code: unary!("sech_square", 20, Continuous, Plus, StableHlo::Formula(|x| {
        let e = (x[0].abs() * -2.0).exp();
        let sum = e + 1.0;
        4.0 * e / (sum * sum)
    }), parted math::SechSquare),
    math: "1 / cosh² x",
    signature: Signature::Float,
    partials: &[Partial::Minus(|t, x, y| t * (2.0 * (y * x[0].tanh())))],
    linear: Linear::No,
    edges: "0 at ±inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `arsinh x`
pub(super) const ASINH: Row = Row {
    code: unary!(
        "asinh", 32, Continuous, Operand, StableHlo::Operation("chlo.asinh"), parted math::Asinh
    ),
    math: "arsinh x",
    signature: Signature::Float,
    // The partial is not computed as rsqrt(x² + 1), because that is 0 where the square of x overflows.
    partials: &[Partial::Of(|t, x, _| t / x[0].hypot(x[0].number(1.0)))],
    linear: Linear::No,
    edges: "±inf at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `arcosh x`
pub(super) const ACOSH: Row = Row {
    code: unary!(
        "acosh", 32, Continuous, Plus, StableHlo::Operation("chlo.acosh"), parted math::Acosh
    ),
    math: "arcosh x",
    signature: Signature::Float,
    // The partial 1 / √(x² - 1) is computed from two roots, since the product of the factors would overflow. It is
    // taken at |x|: below -1 acosh has no value, but the formula at x would have one.
    partials: &[Partial::Of(|t, x, _| {
        let a = x[0].abs();
        t * ((a - 1.0).rsqrt() * (a + 1.0).rsqrt())
    })],
    linear: Linear::No,
    edges: "nan below 1; the derivative at 1 is inf",
    smooth: &[&[1.1], &[1.7], &[3.0]],
    edge: EDGES,
    rewrites: &[],
};

/// `artanh x`
pub(super) const ATANH: Row = Row {
    code: unary!(
        "atanh", 32, Continuous, Operand, StableHlo::Operation("chlo.atanh"), parted math::Atanh
    ),
    math: "artanh x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t / ((1.0 - x[0]) * (1.0 + x[0])))],
    linear: Linear::No,
    edges: "±inf at ±1, nan outside",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};
