//! Exponentials, logarithms, roots and powers.

use super::{EDGES, POSITIVE, REAL, Row, Scalar, Signature, binary, exact, relaxed, unary};
use crate::lang::types::Dtype;
use crate::math;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rules::expr::Expr;
use crate::prim::rules::rewrite::When;
use crate::prim::{Code, Family, StableHlo};
use std::f64::consts::{LN_2, LN_10, LOG2_E, LOG10_E};

/// The section of the page of primitives that lists the functions of this file.
pub(super) const FAMILY: Family = Family::Exponential;

/// `eˣ`
pub(super) const EXP: Row = Row {
    code: unary!(
        "exp", 16, Continuous, Plus, StableHlo::Operation("stablehlo.exponential"), parted math::Exp
    ),
    math: "eˣ",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * y)],
    linear: Linear::No,
    edges: "0 at -inf, inf at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `2ˣ`
pub(super) const EXP2: Row = Row {
    code: unary!(
        "exp2", 16, Continuous, Plus, StableHlo::Formula(|x| x[0].number(2.0).pow(x[0])), parted math::Exp2
    ),
    math: "2ˣ",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (y * LN_2))],
    linear: Linear::No,
    edges: "exact at integers; 0 at -inf, inf at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `eˣ - 1`
pub(super) const EXPM1: Row = Row {
    code: unary!(
        "expm1", 16, Continuous, Operand,
        StableHlo::Operation("stablehlo.exponential_minus_one"),
        parted math::Expm1
    ),
    math: "eˣ - 1",
    signature: Signature::Float,
    // The partial is not `f + 1` with the value f, because that is 0 where f rounds to -1.
    partials: &[Partial::Of(|t, x, _| t * x[0].exp())],
    linear: Linear::No,
    edges: "accurate near 0; -1 at -inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `ln x`
pub(super) const LOG: Row = Row {
    code: unary!(
        "log", 20, Continuous, NeverMinusZero, StableHlo::Operation("stablehlo.log"), parted math::Log
    ),
    math: "ln x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t / x[0])],
    linear: Linear::No,
    edges: "-inf at 0, nan below; the derivative is 1/x also where the value is nan",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[
        relaxed("log-exp", "(log (exp ?x))", "?x", When::Float, "undone"),
        relaxed(
            "log-one-plus",
            "(log (add 1 ?x))",
            "(log1p ?x)",
            When::Float,
            "accurate near zero",
        ),
    ],
};

/// `log₂ x`
pub(super) const LOG2: Row = Row {
    code: unary!(
        "log2", 20, Continuous, NeverMinusZero, StableHlo::Formula(|x| x[0].log() / LN_2), parted math::Log2
    ),
    math: "log₂ x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (LOG2_E / x[0]))],
    linear: Linear::No,
    edges: "exact at powers of 2; -inf at 0, nan below",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `log₁₀ x`
pub(super) const LOG10: Row = Row {
    code: unary!(
        "log10", 20, Continuous, NeverMinusZero,
        StableHlo::Formula(|x| x[0].log() / LN_10),
        parted math::Log10
    ),
    math: "log₁₀ x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (LOG10_E / x[0]))],
    linear: Linear::No,
    edges: "exact at powers of 10; -inf at 0, nan below",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `ln(1 + x)`
pub(super) const LOG1P: Row = Row {
    code: unary!(
        "log1p", 20, Continuous, Operand, StableHlo::Operation("stablehlo.log_plus_one"), parted math::Log1p
    ),
    math: "ln(1 + x)",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t / (x[0] + 1.0))],
    linear: Linear::No,
    edges: "accurate near 0; -inf at -1, nan below",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[relaxed("log1p-expm1", "(log1p (expm1 ?x))", "?x", When::Float, "undone")],
};

/// `√x`
pub(super) const SQRT: Row = Row {
    code: Code::Sqrt,
    math: "√x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (0.5 / y))],
    linear: Linear::No,
    edges: "nan below 0; the derivative at 0 is inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `1 / √x`
pub(super) const RSQRT: Row = Row {
    code: unary!(
        "rsqrt", 8, Continuous, NeverMinusZero, StableHlo::Operation("stablehlo.rsqrt"), parted math::Rsqrt
    ),
    math: "1 / √x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, y| t * (-0.5 * (y / x[0])))],
    linear: Linear::No,
    edges: "inf at 0 with its sign, nan below",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `∛x`
pub(super) const CBRT: Row = Row {
    code: unary!(
        "cbrt", 32, Continuous, Operand, StableHlo::Operation("stablehlo.cbrt"), parted math::Cbrt
    ),
    math: "∛x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (1.0 / 3.0 / (y * y)))],
    linear: Linear::No,
    edges: "odd; the derivative at 0 is inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// `√(x² + y²)`
pub(super) const HYPOT: Row = Row {
    code: binary!(
        "hypot", 16, Continuous, Plus, StableHlo::Formula(scaled_hypot), parted math::Hypot
    ),
    math: "√(x² + y²)",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, h| step(t, x, 0, h)), Partial::Of(|t, x, h| step(t, x, 1, h))],
    linear: Linear::No,
    edges: "squares neither overflow nor underflow; inf if either is infinite, even beside nan; derivatives are right where only the result overflows; at the origin both are 0, second ones nan",
    smooth: &[&[3.0, 4.0], &[-0.5, 1.5], &[2.0, -1.0]],
    edge: &[
        &[0.0, 0.0],
        &[-0.0, 0.0],
        &[1e300, 1e300],
        &[1.5e308, 1.5e308],
        &[1e-300, 1e-300],
        &[f64::INFINITY, f64::NAN],
        &[f64::NAN, 1.0],
    ],
    rewrites: &[exact(
        "hypot-neg",
        "(hypot (neg ?x) ?y)",
        "(hypot ?x ?y)",
        When::Float,
        "an even function",
    )],
};

/// `t · xᵢ / h`: the change of the distance `h` for a step `t` of the coordinate `xᵢ`. At the origin, where the
/// distance has no derivative, the divisor is replaced and the result is 0. There is no second derivative there;
/// the root in the divisor makes it NaN. If the distance of finite coordinates overflows, both are scaled down first:
/// `xᵢ / inf` would be a wrong 0.
fn step<'b, 'm>(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], i: usize, h: Expr<'b, 'm>) -> Expr<'b, 'm> {
    // If the distance overflows, the larger coordinate is at least half of the largest float, and its scaled square is
    // finite.
    let scale = if h.b.dtype_of(h.atom) == Dtype::F32 { 2f64.powi(-80) } else { 2f64.powi(-600) };
    let beyond = h.eq(h.number(f64::INFINITY));
    let scaled = [x[0] * scale, x[1] * scale];
    // If the distance does not overflow, 1 replaces the square, so that the root of this unselected value has finite
    // derivatives.
    let square = scaled[0] * scaled[0] + scaled[1] * scaled[1];
    let distance = beyond.select(square, h.number(1.0)).sqrt();
    let usual = h.eq(h.number(0.0)).select(1.0 + h.sqrt(), h);
    t * (beyond.select(scaled[i], x[i]) / beyond.select(distance, usual))
}

/// `ln(1 + eˣ)`
pub(super) const SOFTPLUS: Row = Row {
    code: unary!(
        "softplus", 36, Continuous, Plus,
        StableHlo::Formula(|x| x[0].max(x[0].number(0.0)) + (-x[0].abs()).exp().log1p()),
        parted math::Softplus
    ),
    math: "ln(1 + eˣ)",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].logistic())],
    linear: Linear::No,
    edges: "0 at -inf, inf at inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// `ln(eˣ + eʸ)`
pub(super) const LOGADDEXP: Row = Row {
    code: binary!("logaddexp", 50, Continuous, Unknown, StableHlo::Formula(|x| {
        // For equal operands, use the operand itself: the difference of equal infinities would be nan.
        let sum = x[0].max(x[1]) + (-(x[0] - x[1]).abs()).exp().log1p();
        x[0].eq(x[1]).select(x[0] + LN_2, sum)
    }), parted math::LogAddExp),
    math: "ln(eˣ + eʸ)",
    signature: Signature::Float,
    partials: &[
        Partial::Of(|t, x, _| t * share(x[0], x[1])),
        Partial::Of(|t, x, _| t * share(x[1], x[0])),
    ],
    linear: Linear::No,
    edges: "overflows nowhere; inf if either is inf and the other not nan; at equal infinities both derivatives are 1/2",
    smooth: &[&[1.0, 2.0], &[0.5, 0.5], &[-3.0, 1.25]],
    edge: &[
        &[0.0, 0.0],
        &[1.0, f64::NEG_INFINITY],
        &[1.0, -1e17],
        &[f64::NEG_INFINITY, f64::NEG_INFINITY],
        &[f64::INFINITY, f64::INFINITY],
        &[f64::INFINITY, f64::NEG_INFINITY],
        &[f64::NAN, f64::INFINITY],
        &[1e308, -1e308],
    ],
    rewrites: &[],
};

/// The partial of logaddexp with respect to x: `eˣ / (eˣ + eʸ)`, a function of the difference x - y. The difference of
/// equal infinities is NaN and is replaced by 0. So each operand gets half, as for any two equal numbers.
fn share<'b, 'm>(x: Expr<'b, 'm>, y: Expr<'b, 'm>) -> Expr<'b, 'm> {
    let finite = x.unary(Scalar::IsFinite);
    let infinite_tie = x.eq(y).and(!finite);
    infinite_tie.select(x.number(0.0), x - y).logistic()
}

/// `x ** y`
pub(super) const POW: Row = Row {
    code: binary!(
        "pow", 70, Continuous, Positive, StableHlo::Operation("stablehlo.power"), parted math::Pow
    ),
    math: "xʸ",
    signature: Signature::Float,
    partials: &[Partial::Of(pow_x), Partial::Of(pow_y)],
    linear: Linear::No,
    edges: "x⁰ = 1ʸ = 1 even for nan; nan for negative x unless y is integral; x⁰ has derivative 0 in x, whatever x is",
    smooth: &[&[1.5, 2.0], &[0.7, -1.3], &[2.0, 0.5]],
    edge: &[
        &[0.0, 0.0],
        &[0.0, 2.0],
        &[0.0, -1.0],
        &[5e-324, 0.0],
        &[-2.0, 3.0],
        &[-2.0, 0.5],
        &[f64::NAN, 0.0],
        &[1.0, f64::NAN],
        &[f64::INFINITY, -1.0],
    ],
    rewrites: &[
        exact("pow-zero", "(pow ?x 0)", "1", When::Float, "derivatives lower exponents"),
        exact("pow-one", "(pow ?x 1)", "?x", When::Float, "derivatives lower exponents"),
        relaxed("pow-two", "(pow ?x 2)", "(mul ?x ?x)", When::Float, "a product instead of a call"),
        relaxed(
            "pow-three",
            "(pow ?x 3)",
            "(mul ?x (mul ?x ?x))",
            When::Float,
            "products instead of a call",
        ),
        relaxed(
            "pow-three-halves",
            "(pow ?x 1.5)",
            "(mul ?x (sqrt ?x))",
            When::Float,
            "instructions instead of a call",
        ),
        relaxed(
            "pow-half",
            "(pow ?x 0.5)",
            "(sqrt ?x)",
            When::Float,
            "an instruction instead of a call",
        ),
        relaxed(
            "pow-minus-half",
            "(pow ?x -0.5)",
            "(rsqrt ?x)",
            When::Float,
            "instructions instead of a call",
        ),
        relaxed(
            "pow-minus-one",
            "(pow ?x -1)",
            "(div 1 ?x)",
            When::Float,
            "an instruction instead of a call",
        ),
        relaxed(
            "pow-exp",
            "(pow (exp ?x) ?y)",
            "(exp (mul ?x ?y))",
            When::Float,
            "a product instead of a call",
        ),
    ],
};

/// The partial of a power with respect to x: `t · y xʸ⁻¹`. If y is 0, the factor `x⁻¹` would turn the zero into NaN or
/// infinity for x = 0 and for x so small that `x⁻¹` overflows. There the formula is `(y / x) xʸ`. Where a branch is not
/// selected, its operand is replaced instead of its result, so that derivatives of the formula are right too.
fn pow_x<'b, 'm>(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], power: Expr<'b, 'm>) -> Expr<'b, 'm> {
    let (x, y) = (x[0], x[1]);
    if let Some(p) = y.atom.literal().filter(|y| !y.is_zero()) {
        return t * (y * x.power(p.to_f64() - 1.0));
    }
    let none = y.eq(y.number(0.0));
    let one = x.number(1.0);
    let small = none.and(x.abs().gt(x.number(0.0))).select(x, one);
    let usual = none.select(one, x);
    t * none.select(y / small * power, y * usual.pow(y - 1.0))
}

/// The partial of a power with respect to y: `t · xʸ ln x`, with ln 0 replaced by 0, since 0ʸ is constant for y >
/// 0.
fn pow_y<'b, 'm>(t: Expr<'b, 'm>, x: &[Expr<'b, 'm>], power: Expr<'b, 'm>) -> Expr<'b, 'm> {
    let x = x[0];
    t * (x.eq(x.number(0.0)).select(x.number(1.0), x).log() * power)
}

/// Returns `√(x² + y²)`, scaled by the longer leg, so that no square overflows.
fn scaled_hypot<'b, 'm>(x: &[Expr<'b, 'm>]) -> Expr<'b, 'm> {
    let (a, b) = (x[0].abs(), x[1].abs());
    let (zero, infinity) = (a.number(0.0), a.number(f64::INFINITY));
    let (long, short) = (a.max(b), a.min(b));
    let ratio = long.eq(zero).select(zero, short / long);
    let scaled = long * (ratio * ratio + 1.0).sqrt();
    // If a leg is infinite, the result is infinite even if the other leg is nan.
    let is_infinite = a.eq(infinity).or(b.eq(infinity));
    is_infinite.select(infinity, scaled)
}
