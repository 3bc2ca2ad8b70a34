//! Trigonometric and hyperbolic functions and their inverses.

use super::{EDGES, REAL, Row, Signature, UNIT, binary, exact, unary};
use crate::fault::{Fault, planted};
use crate::math;
use crate::prim::Code;
use crate::prim::Family;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rewrite::When;

/// Where these rows stand on the page of primitives.
pub(super) const FAMILY: Family = Family::Trigonometric;

/// `sin x`
pub(super) const SIN: Row = Row {
    name: "sin",
    math: "sin x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("sin", 16, Zero, f64::sin),
    partials: &[Partial::Of(|t, x, _| t * x[0].cos())],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `cos x`
pub(super) const COS: Row = Row {
    name: "cos",
    math: "cos x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("cos", 16, NeverMinusZero, f64::cos),
    partials: &[Partial::Minus(|t, x, _| t * x[0].sin())],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[exact("cos-neg", "(cos (neg ?x))", "(cos ?x)", When::Always, "an even function")],
};

/// `tan x`
pub(super) const TAN: Row = Row {
    name: "tan",
    math: "tan x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("tan", 28, Zero, f64::tan),
    partials: &[Partial::Of(|t, _, y| t * (y * y + 1.0))],
    linear: Linear::No,
    edges: "nan at infinities",
    smooth: &[&[-1.2], &[0.1], &[0.9]],
    edge: EDGES,
    rewrites: &[],
};

/// `arcsin x`
pub(super) const ASIN: Row = Row {
    name: "asin",
    math: "arcsin x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("asin", 32, Operand, f64::asin),
    partials: &[Partial::Of(|t, x, _| t * ((1.0 - x[0]) * (1.0 + x[0])).rsqrt())],
    linear: Linear::No,
    edges: "nan outside [-1, 1]; the derivative at ±1 is inf",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// `arccos x`
pub(super) const ACOS: Row = Row {
    name: "acos",
    math: "arccos x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("acos", 32, Plus, f64::acos),
    partials: &[Partial::Minus(|t, x, _| t * ((1.0 - x[0]) * (1.0 + x[0])).rsqrt())],
    linear: Linear::No,
    edges: "nan outside [-1, 1]; the derivative at ±1 is -inf",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// `arctan x`
pub(super) const ATAN: Row = Row {
    name: "atan",
    math: "arctan x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("atan", 32, Operand, f64::atan),
    partials: &[Partial::Of(|t, x, _| t / (x[0] * x[0] + 1.0))],
    linear: Linear::No,
    edges: "±π/2 at infinities",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `atan2(x, y)`
pub(super) const ATAN2: Row = Row {
    name: "atan2",
    math: "the angle of the point (y, x)",
    arity: 2,
    signature: Signature::Float,
    code: binary!("atan2", 32, Positive, f64::atan2),
    partials: &[
        Partial::Of(|t, x, _| t * (x[1] / (x[0] * x[0] + x[1] * x[1]))),
        Partial::Minus(|t, x, _| {
            let t = if planted(Fault::Partial) { -t } else { t };
            t * (x[0] / (x[0] * x[0] + x[1] * x[1]))
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

/// `sinh x`
pub(super) const SINH: Row = Row {
    name: "sinh",
    math: "sinh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("sinh", 28, Operand, f64::sinh),
    partials: &[Partial::Of(|t, x, _| t * x[0].cosh())],
    linear: Linear::No,
    edges: "±inf at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `cosh x`
pub(super) const COSH: Row = Row {
    name: "cosh",
    math: "cosh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("cosh", 28, Plus, f64::cosh),
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
    name: "tanh",
    math: "tanh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("tanh", 28, Operand, f64::tanh),
    // Not `1 - f²`, which is 0 where f rounds to 1 and the derivative is still 1e-16.
    partials: &[Partial::Of(|t, x, _| t * x[0].sech().powi(2))],
    linear: Linear::No,
    edges: "±1 at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `1 / cosh x`
pub(super) const SECH: Row = Row {
    name: "sech",
    math: "1 / cosh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("sech", 24, Plus, math::sech),
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

/// `arsinh x`
pub(super) const ASINH: Row = Row {
    name: "asinh",
    math: "arsinh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("asinh", 32, Operand, math::asinh),
    partials: &[Partial::Of(|t, x, _| t * (x[0] * x[0] + 1.0).rsqrt())],
    linear: Linear::No,
    edges: "±inf at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `arcosh x`
pub(super) const ACOSH: Row = Row {
    name: "acosh",
    math: "arcosh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("acosh", 32, Plus, math::acosh),
    partials: &[Partial::Of(|t, x, _| t * ((x[0] - 1.0) * (x[0] + 1.0)).rsqrt())],
    linear: Linear::No,
    edges: "nan below 1; the derivative at 1 is inf",
    smooth: &[&[1.1], &[1.7], &[3.0]],
    edge: EDGES,
    rewrites: &[],
};

/// `artanh x`
pub(super) const ATANH: Row = Row {
    name: "atanh",
    math: "artanh x",
    arity: 1,
    signature: Signature::Float,
    code: unary!("atanh", 32, Operand, math::atanh),
    partials: &[Partial::Of(|t, x, _| t / ((1.0 - x[0]) * (1.0 + x[0])))],
    linear: Linear::No,
    edges: "±inf at ±1, nan outside",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};
