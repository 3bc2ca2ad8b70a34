//! Special functions: the logistic, the error function and the gamma function with relatives.
//!
//! Functions with an integer attribute have their own files ([`super::special_function`]).

use super::{EDGES, POSITIVE, REAL, Row, Scalar, Signature, UNIT, binary, ternary, unary};
use crate::math;
use crate::prim::Code;
use crate::prim::Family;
use crate::prim::elementwise::{Linear, Partial};
use crate::prim::rules::expr::Expr;
use crate::prim::{Gammainc, Polygamma, StableHlo};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// The section of the page of primitives that lists the functions of this file.
pub(super) const FAMILY: Family = Family::Special;

/// The logistic function `1 / (1 + e⁻ˣ)`.
pub(super) const LOGISTIC: Row = Row {
    code: unary!(
        "logistic", 20, Continuous, Plus, StableHlo::Operation("stablehlo.logistic"), parted math::Logistic
    ),
    math: "1 / (1 + e⁻ˣ)",
    signature: Signature::Float,
    // The partial is not `f (1 - f)` with the value f, because that is 0 where f rounds to 1, although the derivative
    // is still 1e-16.
    partials: &[Partial::Of(|t, x, _| t * x[0].logistic_density())],
    linear: Linear::No,
    edges: "0 at -inf, 1 at inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// The derivative of the logistic function, `e⁻ˣ / (1 + e⁻ˣ)²`.
pub(super) const LOGISTIC_DENSITY: Row = Row {
    code: unary!("logistic_density", 22, Continuous, Plus, StableHlo::Formula(|x| {
        let e = (-x[0].abs()).exp();
        let sum = e + 1.0;
        e / (sum * sum)
    }), parted math::LogisticDensity),
    math: "e⁻ˣ / (1 + e⁻ˣ)²",
    signature: Signature::Float,
    partials: &[Partial::Minus(|t, x, y| t * (y * (0.5 * x[0]).tanh()))],
    linear: Linear::No,
    edges: "0 at ±inf; overflows nowhere",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// The error function `2/√π ∫₀ˣ exp(-s²) ds`.
pub(super) const ERF: Row = Row {
    code: unary!(
        "erf", 32, Continuous, Operand, StableHlo::Operation("chlo.erf"), parted math::Erf
    ),
    math: "2/√π ∫₀ˣ exp(-s²) ds",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (FRAC_2_SQRT_PI * (-(x[0] * x[0])).exp()))],
    linear: Linear::No,
    edges: "±1 at ±inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// The complementary error function `1 - erf x`.
pub(super) const ERFC: Row = Row {
    code: unary!(
        "erfc", 40, Continuous, Plus, StableHlo::Operation("chlo.erfc"), parted math::Erfc
    ),
    math: "1 - erf x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (-FRAC_2_SQRT_PI * (-(x[0] * x[0])).exp()))],
    linear: Linear::No,
    edges: "without cancellation for large x; 2 at -inf, 0 at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// The inverse of the error function, `erf⁻¹ x`.
pub(super) const ERF_INV: Row = Row {
    code: unary!(
        "erf_inv", 48, Continuous, Operand, StableHlo::Operation("chlo.erf_inv"), parted math::ErfInv
    ),
    math: "erf⁻¹ x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (1.0 / FRAC_2_SQRT_PI * (y * y).exp()))],
    linear: Linear::No,
    edges: "±inf at ±1, nan outside",
    smooth: UNIT,
    edge: EDGES,
    rewrites: &[],
};

/// The inverse of the complementary error function, `erfc⁻¹ x`.
pub(super) const ERFC_INV: Row = Row {
    code: unary!(
        "erfc_inv",
        60,
        Continuous,
        Unknown,
        StableHlo::Formula(inverse_of_erfc),
        math::erfc_inv
    ),
    math: "erfc⁻¹ x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, _, y| t * (-1.0 / FRAC_2_SQRT_PI * (y * y).exp()))],
    linear: Linear::No,
    edges: "inf at 0, -inf at 2, nan outside",
    smooth: &[&[0.05], &[0.9], &[1.5]],
    edge: EDGES,
    rewrites: &[],
};

/// The normal distribution function: `∫ φ from -∞ to x`, with the normal density φ.
pub(super) const NDTR: Row = Row {
    code: unary!(
        "ndtr", 44, Continuous, Plus,
        StableHlo::Formula(|x| 0.5 * (x[0] * -FRAC_1_SQRT_2).erfc()),
        parted math::Ndtr
    ),
    math: "1/√(2π) ∫₋∞ˣ exp(-s²/2) ds",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (FRAC_1_SQRT_TAU * (-0.5 * x[0] * x[0]).exp()))],
    linear: Linear::No,
    edges: "without cancellation on the left; 0 at -inf, 1 at inf",
    smooth: REAL,
    edge: EDGES,
    rewrites: &[],
};

/// The constant `1/√(2π)`, the normal density at 0.
const FRAC_1_SQRT_TAU: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// The logarithm of the gamma function, `ln |Γ(x)|`.
pub(super) const LGAMMA: Row = Row {
    code: unary!(
        "lgamma", 32, Continuous, Unknown,
        StableHlo::Operation("chlo.lgamma"),
        branching math::Lgamma
    ),
    math: "ln |Γ(x)|",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].digamma())],
    linear: Linear::No,
    edges: "inf at the poles 0, -1, -2, … and at ±inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// The digamma function `ψ(x) = Γ'(x) / Γ(x)`.
pub(super) const DIGAMMA: Row = Row {
    code: unary!(
        "digamma", 32, Continuous, Unknown,
        StableHlo::Operation("chlo.digamma"),
        branching math::Digamma
    ),
    math: "ψ(x) = Γ'(x) / Γ(x)",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * x[0].unary(Polygamma { n: 1 }))],
    linear: Linear::No,
    edges: "nan at the poles 0, -1, -2, … and at -inf",
    smooth: POSITIVE,
    edge: EDGES,
    rewrites: &[],
};

/// The exponential integral `Ei(x) = ∫ eˢ/s ds from -∞ to x`.
pub(super) const EXPI: Row = Row {
    code: unary!("expi", 100, Continuous, Unknown, StableHlo::CustomCall, math::expi),
    math: "Ei(x) = ∫ eˢ/s ds from -∞ to x",
    signature: Signature::Float,
    partials: &[Partial::Of(|t, x, _| t * (x[0].exp() / x[0]))],
    linear: Linear::No,
    edges: "-inf at 0, -0 at -inf, inf from 716.4 on",
    smooth: &[&[-3.0], &[-0.5], &[0.3], &[2.5]],
    edge: EDGES,
    rewrites: &[],
};

/// The regularised upper incomplete gamma function `Q(x, y) = 1 - P(x, y)`.
pub(super) const GAMMAINCC: Row = Row {
    code: binary!("gammaincc", 800, Continuous, Unknown, StableHlo::CustomCall, math::gammaincc),
    math: "Q(x, y) = 1/Γ(x) ∫ sˣ⁻¹ e⁻ˢ ds from y to ∞",
    signature: Signature::Float,
    partials: &[
        Partial::Minus(|t, x, _| t * x[0].binary(Gammainc { n: 1 }, x[1])),
        Partial::Minus(|t, x, _| t * x[0].gamma_density(x[1])),
    ],
    linear: Linear::No,
    edges: "nan for negative operands; at x = 0 and y = inf 0, at y = 0 and x = inf 1, nan where both meet",
    smooth: &[&[0.3, 0.2], &[1.0, 1.5], &[2.5, 0.7], &[2.5, 6.0], &[40.0, 35.0]],
    edge: POSITIVE_PAIRS,
    rewrites: &[],
};

/// The density of the gamma distribution with shape x at y: `∂P(x, y)/∂y`.
pub(super) const GAMMA_DENSITY: Row = Row {
    code: binary!(
        "gamma_density",
        80,
        Continuous,
        Unknown,
        StableHlo::CustomCall,
        math::gamma_density
    ),
    math: "yˣ⁻¹ e⁻ʸ / Γ(x)",
    signature: Signature::Float,
    partials: &[
        Partial::Of(|t, x, f| t * (f * (inside(f, x[1], 1.0).log() - x[0].digamma()))),
        Partial::Of(|t, x, f| t * gamma_density_slope(x[0], x[1], f)),
    ],
    linear: Linear::No,
    edges: "nan for negative operands; at y = 0 inf for x < 1, 1 for x = 1 and 0 beyond; 0 at infinities and for x = 0",
    smooth: &[&[0.3, 0.2], &[1.0, 1.5], &[2.5, 0.7], &[2.5, 6.0], &[40.0, 35.0]],
    edge: POSITIVE_PAIRS,
    rewrites: &[],
};

/// The density of the beta distribution with shapes x and y at z: `∂I(x, y, z)/∂z`.
pub(super) const BETA_DENSITY: Row = Row {
    code: ternary!(
        "beta_density",
        200,
        Continuous,
        Unknown,
        StableHlo::CustomCall,
        math::beta_density
    ),
    math: "zˣ⁻¹ (1 - z)ʸ⁻¹ / B(x, y)",
    signature: Signature::Float,
    partials: &[
        Partial::Of(|t, x, f| {
            let log = inside(f, x[2], 0.5).log();
            t * (f * (log - (x[0].digamma() - (x[0] + x[1]).digamma())))
        }),
        Partial::Of(|t, x, f| {
            let log = (-inside(f, x[2], 0.5)).log1p();
            t * (f * (log - (x[1].digamma() - (x[0] + x[1]).digamma())))
        }),
        Partial::Of(|t, x, f| t * beta_density_slope(x[0], x[1], x[2], f)),
    ],
    linear: Linear::No,
    edges: "nan for negative x or y and for z outside [0, 1]; at z = 0 inf for x < 1, y for x = 1 and 0 beyond, and likewise at 1",
    smooth: &[&[0.3, 0.6, 0.2], &[1.0, 1.5, 0.7], &[2.5, 4.0, 0.5], &[40.0, 35.0, 0.6]],
    edge: &[
        &[0.0, 1.0, 0.5],
        &[1.0, 2.0, 0.0],
        &[2.0, 1.0, 1.0],
        &[0.5, 0.5, 0.0],
        &[0.5, 0.5, 1.0],
        &[3.0, 3.0, 1.0],
        &[-1.0, 1.0, 0.5],
        &[1.0, 1.0, 1.5],
        &[f64::INFINITY, 1.0, 0.5],
        &[f64::NAN, 1.0, 0.5],
        &[1.0, 1.0, f64::NAN],
        &[1e300, 1e300, 0.5],
    ],
    rewrites: &[],
};

/// Kummer's confluent hypergeometric function `₁F₁(x; y; z)`.
pub(super) const HYP1F1: Row = Row {
    code: ternary!("hyp1f1", 400, Continuous, Unknown, StableHlo::CustomCall, math::hyp1f1),
    math: "₁F₁(x; y; z) = Σₖ (x)ₖ zᵏ / ((y)ₖ k!)",
    signature: Signature::Float,
    partials: &[
        Partial::Missing(NO_PARAMETER),
        Partial::Missing(NO_PARAMETER),
        Partial::Of(|t, x, _| {
            // For x = 0 the function is constant, so the derivative is 0 even if the other factor overflows.
            let constant = x[0].eq(x[0].number(0.0));
            let next = (x[0] + 1.0).ternary(Scalar::Hyp1f1, x[1] + 1.0, x[2]);
            t * (x[0] / x[1] * constant.select(x[2].number(0.0), next))
        }),
    ],
    linear: Linear::No,
    edges: "nan at the poles y = 0, -1, -2, …, and where every formula loses half of the digits (negative x or y - x beside large z, unless one of them is an integer)",
    smooth: &[],
    edge: &[
        &[1.0, 2.0, 0.5],
        &[0.5, 1.5, -3.0],
        &[2.5, 0.5, 20.0],
        &[1.0, 2.0, -900.0],
        &[-2.0, 0.5, 1.5],
        &[0.0, 1.0, 2.0],
        &[1.0, -1.0, 2.0],
        &[1.0, 2.0, 0.0],
        &[1.0, 2.0, f64::INFINITY],
        &[1.0, 2.0, f64::NEG_INFINITY],
        &[f64::NAN, 1.0, 1.0],
    ],
    rewrites: &[],
};

/// The reason in the error about a derivative in a parameter that does not exist.
const NO_PARAMETER: &str = "derivatives in the parameters are not implemented";

/// Returns `x`, or `other` where the density f is 0. There f is 0 for neighbouring parameters too, and a
/// logarithm at `x` may be infinite.
fn inside<'b, 'm>(f: Expr<'b, 'm>, x: Expr<'b, 'm>, other: f64) -> Expr<'b, 'm> {
    f.eq(f.number(0.0)).select(x.number(other), x)
}

/// The derivative `∂f/∂y` of the gamma density f with shape a: `f (a - 1 - y) / y`. At y = 0 this is 0/0 or 0 · inf for
/// `a ≥ 1`. There the derivative is the difference of the densities with the shapes a - 1 and a.
fn gamma_density_slope<'b, 'm>(a: Expr<'b, 'm>, y: Expr<'b, 'm>, f: Expr<'b, 'm>) -> Expr<'b, 'm> {
    let end = y.eq(y.number(0.0)).and(a.ge(a.number(1.0)));
    let below = end.select(a - 1.0, a.number(2.0)).gamma_density(end.select(y, y.number(1.0)));
    let y = end.select(y.number(1.0), inside(f, y, 1.0));
    end.select(below - f, f * ((a - 1.0 - y) / y))
}

/// The derivative `∂f/∂z` of the beta density f with shapes a and b: `f ((a - 1) / z - (b - 1) / (1 - z))`. At an
/// end of the interval, a term that is 0/0 or 0 · inf is replaced by the density with the next lower shape, times
/// `a + b - 1`.
fn beta_density_slope<'b, 'm>(
    a: Expr<'b, 'm>,
    b: Expr<'b, 'm>,
    z: Expr<'b, 'm>,
    f: Expr<'b, 'm>,
) -> Expr<'b, 'm> {
    let (zero, one) = (z.number(0.0), z.number(1.0));
    let first = z.eq(zero).and(a.ge(one));
    let last = z.eq(one).and(b.ge(one));
    let lower = |end: Expr<'b, 'm>, a: Expr<'b, 'm>| end.select(a - 1.0, a.number(2.0));
    let below =
        |a: Expr<'b, 'm>, b: Expr<'b, 'm>, z: Expr<'b, 'm>| a.ternary(Scalar::BetaDensity, b, z);
    let sum = a + b - 1.0;
    // The formulas `left` (for z = 0), `right` (for z = 1) and `between` are all evaluated, and one is selected. In a
    // formula that is not selected, replace z by 1/2, so that no divisor is 0.
    let half = z.number(0.5);
    let at = first.select(half, last.select(half, inside(f, z, 0.5)));
    let (start, stop) = (first.select(z, half), last.select(z, half));
    let left = sum * below(lower(first, a), b, start) - f * ((b - 1.0) / (1.0 - start));
    let right = f * ((a - 1.0) / stop) - sum * below(a, lower(last, b), stop);
    let between = f * ((a - 1.0) / at - (b - 1.0) / (1.0 - at));
    first.select(left, last.select(right, between))
}

/// Edge points for functions of two non-negative operands.
const POSITIVE_PAIRS: &[&[f64]] = &[
    &[0.0, 1.0],
    &[0.0, 0.0],
    &[1.0, 0.0],
    &[0.5, 0.0],
    &[2.0, 0.0],
    &[-1.0, 1.0],
    &[1.0, -1.0],
    &[2.0, f64::INFINITY],
    &[f64::INFINITY, 2.0],
    &[f64::INFINITY, f64::INFINITY],
    &[f64::NAN, 1.0],
    &[1.0, f64::NAN],
    &[1e-300, 1e-300],
    &[1e300, 1e300],
];

/// Returns the y with `erfc(y) = x`: an estimate with an error below 5e-4, and three steps of Halley's method.
///
/// Source of the estimate: Abramowitz and Stegun, *Handbook of Mathematical Functions*, 26.2.23, for normal quantiles.
fn inverse_of_erfc<'b, 'm>(x: &[Expr<'b, 'm>]) -> Expr<'b, 'm> {
    let x = x[0];
    let (zero, infinity) = (x.number(0.0), x.number(f64::INFINITY));
    // erfc(-y) = 2 - erfc(y), so it is enough to invert on (0, 1].
    let above = x.gt(x.number(1.0));
    let p = above.select(2.0 - x, x);
    let t = ((0.5 * p).log() * -2.0).sqrt();
    let numerator = (t * 0.010328 + 0.802853) * t + 2.515517;
    let denominator = ((t * 0.001308 + 0.189269) * t + 1.432788) * t + 1.0;
    let mut y = (t - numerator / denominator) * FRAC_1_SQRT_2;
    for _ in 0..3 {
        // Halley's step from the estimate y: with e = erfc(y) - p and erfc'(y) = -2/√π exp(-y²), it is e / (erfc'(y) +
        // y e).
        let error = y.erfc() - p;
        let slope = (-(y * y)).exp() * -FRAC_2_SQRT_PI;
        y = y - error / (slope + y * error);
    }
    let y = p.eq(zero).select(infinity, y);
    above.select(-y, y)
}
