//! Distributions with a location and a scale.

use super::stirling::{entropy_of_gamma, log_hypotenuse, log_pi};
use super::{checked, density};
use crate::Var;
use crate::dtype::epsilon;
use crate::ops::{of_floats, select};
use crate::transform::jvp;
use crate::var::{IntoVar, caller};
use std::f64::consts::{LN_2, PI, TAU};

/// The constant of Euler and Mascheroni.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Returns the log density of the normal distribution with mean `loc` and standard deviation `scale`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| stats::normal_logpdf(x, 1.0, 2.0);
/// let (y, slope) = run(value_and_grad(f), 3.0)?;
/// let constant = (2.0 * (2.0 * std::f64::consts::PI).sqrt()).ln();
/// assert!((y.item::<f64>()? + 0.5 + constant).abs() < 1e-15);
/// assert_eq!(slope.item::<f64>()?, -0.5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "norm.logpdf", alias = "norm.pdf", alias = "gaussian")]
#[track_caller]
pub fn normal_logpdf(x: impl IntoVar, loc: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("normal_logpdf", operands!(at, x, loc, scale), at, |[x, loc, scale]| {
        let z = (x - loc) / scale;
        -0.5 * z.square() - scale.ln() - 0.5 * TAU.ln()
    })
}

/// Returns the entropy of the normal distribution, ½ ln(2πe) + ln `scale`.
#[track_caller]
pub fn normal_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("normal_entropy", operands!(at, scale), at, |[scale]| entropy_of_normal(scale))
}

fn entropy_of_normal(scale: Var) -> Var {
    scale.ln() + 0.5 * (1.0 + TAU.ln())
}

/// Returns the divergence KL(p ‖ q) of two normal distributions, each given as (loc, scale), without cancellation for
/// close distributions.
///
/// ```
/// use tapeloom::prelude::*;
/// let kl = |(m, s): (Var, Var)| stats::normal_kl((m, s), (0.0, 1.0));
/// assert_eq!(run(kl, (3.0, 1.0))?.item::<f64>()?, 4.5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn normal_kl(
    (loc, scale): (impl IntoVar, impl IntoVar),
    (other_loc, other_scale): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, loc, scale, other_loc, other_scale);
    of_floats("normal_kl", operands, at, |[m, s, n, t]| {
        // With r = s / t for the standard deviations s and t: ln(t / s) + s² / 2t² - 1/2 = r - 1 - ln r + (r - 1)² / 2.
        // A form with r² would underflow for small r.
        let ratio = s / t;
        let shift = (m - n) / t;
        let scales = ratio.ones_like().kl_div(ratio) + 0.5 * (ratio - 1.0).square();
        let kl = scales + 0.5 * shift.square();
        checked(kl, s.ge(0.0) & t.gt(0.0))
    })
}

/// Returns the log density of the uniform distribution between `low` and `high`, both included.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| stats::uniform_logpdf(x, 0.0, 2.0), [0.0, 1.0, 2.5])?;
/// assert_eq!(y.to_vec::<f64>()?, [-2f64.ln(), -2f64.ln(), f64::NEG_INFINITY]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "uniform.logpdf")]
#[track_caller]
pub fn uniform_logpdf(x: impl IntoVar, low: impl IntoVar, high: impl IntoVar) -> Var {
    let at = caller();
    of_floats("uniform_logpdf", operands!(at, x, low, high), at, |[x, low, high]| {
        let log = select(x.is_nan(), x, -(high - low).ln());
        density(log, x.lt(low) | x.gt(high), low.lt(high))
    })
}

/// Returns the entropy of the uniform distribution, ln(`high` - `low`).
#[track_caller]
pub fn uniform_entropy(low: impl IntoVar, high: impl IntoVar) -> Var {
    let at = caller();
    of_floats("uniform_entropy", operands!(at, low, high), at, |[low, high]| (high - low).ln())
}

/// Returns the divergence KL(p ‖ q) of two uniform distributions, each given as (low, high). It is inf unless the
/// interval of q includes that of p.
#[track_caller]
pub fn uniform_kl(
    (low, high): (impl IntoVar, impl IntoVar),
    (other_low, other_high): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, low, high, other_low, other_high);
    of_floats("uniform_kl", operands, at, |[a, b, c, d]| {
        let inside = c.le(a) & b.le(d);
        let kl = select(inside, (d - c).ln() - (b - a).ln(), f64::INFINITY);
        checked(kl, a.lt(b) & c.lt(d))
    })
}

/// Returns the log density of the Laplace distribution, -|x - loc| / scale - ln(2 scale). At the kink x = loc, the
/// derivative is that to the right, as for [`abs`](Var::abs).
#[doc(alias = "laplace.logpdf")]
#[track_caller]
pub fn laplace_logpdf(x: impl IntoVar, loc: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("laplace_logpdf", operands!(at, x, loc, scale), at, |[x, loc, scale]| {
        -(x - loc).abs() / scale - scale.ln() - LN_2
    })
}

/// Returns the entropy of the Laplace distribution, 1 + ln(2 `scale`).
#[track_caller]
pub fn laplace_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("laplace_entropy", operands!(at, scale), at, |[scale]| scale.ln() + (1.0 + LN_2))
}

/// Returns the divergence KL(p ‖ q) of two Laplace distributions, each given as (loc, scale).
#[track_caller]
pub fn laplace_kl(
    (loc, scale): (impl IntoVar, impl IntoVar),
    (other_loc, other_scale): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, loc, scale, other_loc, other_scale);
    of_floats("laplace_kl", operands, at, |[m, s, n, t]| {
        let ratio = s / t;
        let shift = (m - n).abs() / s;
        let kl = ratio.ones_like().kl_div(ratio) + ratio * (shift + (-shift).exp_m1());
        checked(kl, s.gt(0.0) & t.gt(0.0))
    })
}

/// Returns the log density of the logistic distribution, whose distribution function is
/// [`sigmoid`](Var::sigmoid)((x - loc) / scale).
#[doc(alias = "logistic.logpdf")]
#[track_caller]
pub fn logistic_logpdf(x: impl IntoVar, loc: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("logistic_logpdf", operands!(at, x, loc, scale), at, |[x, loc, scale]| {
        let half = 0.5 * ((x - loc) / scale);
        -2.0 * half.logaddexp(-half) - scale.ln()
    })
}

/// Returns the entropy of the logistic distribution, 2 + ln `scale`.
#[track_caller]
pub fn logistic_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("logistic_entropy", operands!(at, scale), at, |[scale]| scale.ln() + 2.0)
}

/// Returns the log density of the Gumbel distribution, -z - e⁻ᶻ - ln scale with z = (x - loc) / scale.
#[doc(alias = "gumbel_r.logpdf")]
#[track_caller]
pub fn gumbel_logpdf(x: impl IntoVar, loc: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("gumbel_logpdf", operands!(at, x, loc, scale), at, |[x, loc, scale]| {
        let z = (x - loc) / scale;
        let end = z.eq(f64::NEG_INFINITY);
        let z = select(end, 0.0, z);
        density(-z - (-z).exp() - scale.ln(), end, scale.gt(0.0))
    })
}

/// Returns the entropy of the Gumbel distribution, ln `scale` + γ + 1.
#[track_caller]
pub fn gumbel_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("gumbel_entropy", operands!(at, scale), at, |[scale]| scale.ln() + (1.0 + EULER))
}

/// Returns the divergence KL(p ‖ q) of two Gumbel distributions, each given as (loc, scale).
#[track_caller]
pub fn gumbel_kl(
    (loc, scale): (impl IntoVar, impl IntoVar),
    (other_loc, other_scale): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, loc, scale, other_loc, other_scale);
    of_floats("gumbel_kl", operands, at, |[m, s, n, t]| {
        let ratio = s / t;
        let shift = (m - n) / t;
        let tail = ((ratio + 1.0).lgamma() - shift).exp();
        let kl = -ratio.ln() + shift + EULER * ratio + tail - (1.0 + EULER);
        checked(kl, s.gt(0.0) & t.gt(0.0))
    })
}

/// Returns the log density of the Cauchy distribution, -ln(π scale (1 + z²)) with z = (x - loc) / scale.
///
/// ```
/// use tapeloom::prelude::*;
/// // z² overflows, the logarithm does not.
/// let (y, slope) = run(value_and_grad(|x: Var| stats::cauchy_logpdf(x, 0.0, 1.0)), 1e200)?;
/// assert!((y.item::<f64>()? + 922.18).abs() < 0.01);
/// assert!((slope.item::<f64>()? * 1e200 + 2.0).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "cauchy.logpdf")]
#[track_caller]
pub fn cauchy_logpdf(x: impl IntoVar, loc: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("cauchy_logpdf", operands!(at, x, loc, scale), at, |[x, loc, scale]| {
        -2.0 * log_hypotenuse((x - loc) / scale) - log_pi(scale)
    })
}

/// Returns the entropy of the Cauchy distribution, ln(4π `scale`).
#[track_caller]
pub fn cauchy_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("cauchy_entropy", operands!(at, scale), at, |[scale]| log_pi(scale) + 2.0 * LN_2)
}

/// Returns the divergence KL(p ‖ q) of two Cauchy distributions, each given as (loc, scale). It is symmetric.
///
/// Source: Chyzak and Nielsen, *A closed-form formula for the Kullback-Leibler divergence between Cauchy
/// distributions* (2019).
#[track_caller]
pub fn cauchy_kl(
    (loc, scale): (impl IntoVar, impl IntoVar),
    (other_loc, other_scale): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, loc, scale, other_loc, other_scale);
    of_floats("cauchy_kl", operands, at, |[m, s, n, t]| {
        let sound = s.gt(0.0) & t.gt(0.0);
        // For the locations m, n and the scales s, t, the divergence is ln(((s + t)² + (m - n)²) / 4st). If it is
        // small, it is computed as ln(1 + u) with u = ((s - t)² + (m - n)²) / 4st.
        let excess = |[m, s, n, t]: [Var; 4]| {
            let [width, shift] = [s - t, m - n].map(|d| (d / s) * (d / t));
            0.25 * (width + shift)
        };
        // A large u may overflow. Then compute the divergence as the sum of the logarithms of its factors, which is
        // accurate because it does not cancel.
        let far = !excess([m, s, n, t]).lt(1e30);
        let part = |is_used: Var| {
            let harmless = [0.0, 1.0, 0.0, 1.0];
            [(m, 0), (s, 1), (n, 2), (t, 3)].map(|(x, i)| select(is_used, x, harmless[i]))
        };
        let near = excess(part(!far)).ln_1p();
        let [m, s, n, t] = part(far);
        let apart = 2.0 * (0.5 * s + 0.5 * t).hypot(0.5 * m - 0.5 * n).ln() - s.ln() - t.ln();
        checked(select(far, apart, near), sound)
    })
}

/// Returns the log density of Student's t distribution with `freedom` degrees of freedom; for infinite `freedom`, that
/// of the normal distribution.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| stats::student_t_logpdf(x, f64::INFINITY, 0.0, 1.0);
/// let g = |x: Var| stats::normal_logpdf(x, 0.0, 1.0);
/// assert_eq!(run(f, 1.5)?, run(g, 1.5)?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "t.logpdf")]
#[track_caller]
pub fn student_t_logpdf(
    x: impl IntoVar,
    freedom: impl IntoVar,
    loc: impl IntoVar,
    scale: impl IntoVar,
) -> Var {
    let at = caller();
    let operands = operands!(at, x, freedom, loc, scale);
    of_floats("student_t_logpdf", operands, at, |[x, freedom, loc, scale]| {
        let z = (x - loc) / scale;
        let infinite = freedom.eq(f64::INFINITY);
        let v = select(infinite, 1.0, freedom);
        // Γ((v + 1) / 2) / Γ(v / 2) = √π / B(v / 2, 1/2), whose logarithm does not cancel for large v.
        let constant = (0.5 * v).betaln(0.5) + 0.5 * v.ln();
        let t = constant + (v + 1.0) * log_hypotenuse(select(infinite, 0.0, z) / v.sqrt());
        let normal = 0.5 * select(infinite, z, 0.0).square() + 0.5 * TAU.ln();
        checked(-select(infinite, normal, t) - scale.ln(), freedom.gt(0.0))
    })
}

/// Returns the entropy of Student's t distribution with `freedom` degrees of freedom.
#[track_caller]
pub fn student_t_entropy(freedom: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("student_t_entropy", operands!(at, freedom, scale), at, |[freedom, scale]| {
        let infinite = freedom.eq(f64::INFINITY);
        let half = 0.5 * select(infinite, 1.0, freedom);
        let more = half + 0.5;
        // With h = v / 2, the entropy is (h + ½)(ψ(h + ½) - ψ(h)) + ln B(h, ½) + ½ ln 2h. Write it as a sum of terms
        // that grow only as logarithms, so that large terms do not cancel.
        let sum =
            entropy_of_gamma(half) - entropy_of_gamma(more) + more.digamma() - 1.5 * half.digamma();
        let t = sum + 0.5 * half.ln() + 0.5 * (1.0 + LN_2 + PI.ln());
        let normal = 0.5 * (1.0 + TAU.ln());
        checked(select(infinite, normal, t) + scale.ln(), freedom.gt(0.0))
    })
}

/// Returns the log density of the normal distribution truncated to `lower` ≤ (x - loc) / scale ≤ `upper`. As in
/// [`random::truncated_normal`](crate::random::truncated_normal) and SciPy's `truncnorm`, the bounds are those of the
/// standard normal distribution. They may be infinite, and both may be far in one tail.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| stats::truncated_normal_logpdf(x, 40.0, f64::INFINITY, 0.0, 1.0);
/// let y = run(f, [40.0, 39.0])?.to_vec::<f64>()?;
/// assert!((y[0] - 40.025f64.ln()).abs() < 1e-6 && y[1] == f64::NEG_INFINITY);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "truncnorm.logpdf")]
#[track_caller]
pub fn truncated_normal_logpdf(
    x: impl IntoVar,
    lower: impl IntoVar,
    upper: impl IntoVar,
    loc: impl IntoVar,
    scale: impl IntoVar,
) -> Var {
    let at = caller();
    let operands = operands!(at, x, lower, upper, loc, scale);
    of_floats("truncated_normal_logpdf", operands, at, |[x, lower, upper, loc, scale]| {
        let z = (x - loc) / scale;
        let outside = z.lt(lower) | z.gt(upper);
        let z = select(outside, 0.0, z);
        let (near, mass) = log_mass(lower, upper);
        let log = -0.5 * (z - near) * (z + near) - 0.5 * TAU.ln() - scale.ln() - mass;
        density(log, outside, lower.lt(upper) & scale.gt(0.0))
    })
}

/// Returns the entropy of the normal distribution truncated to bounds of the standard normal distribution, for the
/// given `scale`.
///
/// If both bounds are in one tail, at a distance n from 0 and w apart, the absolute error consists of the effect of
/// rounding the bounds and of some rounding errors of the size 1 / nw.
#[track_caller]
pub fn truncated_normal_entropy(
    lower: impl IntoVar,
    upper: impl IntoVar,
    scale: impl IntoVar,
) -> Var {
    let at = caller();
    let operands = operands!(at, lower, upper, scale);
    of_floats("truncated_normal_entropy", operands, at, |[lower, upper, scale]| {
        let (near, mass) = log_mass(lower, upper);
        // The entropy is ln scale + ½ ln(2πe) + mass + ½ (lower d(lower) - upper d(upper) - near²), where d is the
        // truncated density, and `near` and `mass` are those of [`log_mass`].
        let edges = at_edges(lower, upper, (near, mass));
        checked(entropy_of_normal(scale) + mass + 0.5 * edges, lower.lt(upper))
    })
}

/// Returns `a d(a) - b d(b) - near²` for the truncated density d between a and b, and `(near, mass)` from [`log_mass`].
///
/// If both bounds are in one tail, these terms cancel. Then let n be the bound nearest to 0, f the other bound, and w
/// their distance. The result is `n m - w d(f)`, where m is the mean distance of numbers from n. It follows from Mills'
/// ratio R(t) and its slope:
///
/// ```text
/// m = (h(n) - q (h(f) + w)) / (1 - q)        h = -R'/R        q = exp(-n w - w²/2) R(f) / R(n)
/// ```
fn at_edges(a: Var, b: Var, mass: (Var, Var)) -> Var {
    let tail = mass.0.gt(0.0);
    let right = a.gt(0.0);
    let far = select(right, b, -a);
    let open = !far.is_finite();
    let near = select(tail, mass.0, 1.0);
    let width = select(tail & !open, far, near + 1.0) - near;
    // Mills' ratio R(t) is a multiple of erfcx(t / √2), so h = -R'/R is computed from erfcx and its derivative.
    let mills = |t: Var| {
        let t = t * 0.5f64.sqrt();
        let (r, slope) = jvp(Var::erfcx)((t, t.ones_like()));
        ((0.5 * r).ln(), -0.5f64.sqrt() * slope / r)
    };
    let ((log_near, at_near), (log_far, at_far)) = (mills(near), mills(near + width));
    let log = log_far - log_near - width * (near + 0.5 * width);
    let q = select(open, 0.0, log.exp());
    let whole = select(open, 1.0, -log.exp_m1());
    let mean = (at_near - q * (at_far + width)) / whole;
    let end = density_at(select(right, b, a), mass);
    let in_tail = near * mean - select(open, 0.0, width * end);
    let term = |t: Var| select(t.is_finite(), t, 0.0) * density_at(t, mass);
    select(tail, in_tail, term(a) - term(b))
}

/// Returns the divergence KL(p ‖ q) of two truncated normal distributions, each given as (lower, upper, loc, scale)
/// with bounds of the standard normal distribution. It is inf unless the interval of q includes that of p, up to
/// rounding errors of the bounds.
///
/// Far in a tail the result loses digits, because terms of the size of the squared bounds cancel.
///
/// ```
/// use tapeloom::prelude::*;
/// // Both are the same distribution on [0, 1], up to the part that q leaves to other numbers.
/// let kl = |upper: Var| {
///     stats::truncated_normal_kl((0.0, 1.0, 0.0, 1.0), (0.0, upper, 0.0, 1.0))
/// };
/// let y = run(kl, [1.0, f64::INFINITY, 0.5])?.to_vec::<f64>()?;
/// assert!(y[0].abs() < 1e-15 && (y[1] - 0.381715).abs() < 1e-6 && y[2] == f64::INFINITY);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn truncated_normal_kl(
    (lower, upper, loc, scale): (impl IntoVar, impl IntoVar, impl IntoVar, impl IntoVar),
    (other_lower, other_upper, other_loc, other_scale): (
        impl IntoVar,
        impl IntoVar,
        impl IntoVar,
        impl IntoVar,
    ),
) -> Var {
    let at = caller();
    let operands =
        operands!(at, lower, upper, loc, scale, other_lower, other_upper, other_loc, other_scale);
    of_floats("truncated_normal_kl", operands, at, |[a, b, m, s, c, d, n, t]| {
        let inner = log_mass(a, b);
        let finite = |x: Var| select(x.is_finite(), x, 0.0);
        // `mean` and `square` are the means of z and z² under the first distribution p, where z = (x - m) / s; `other`
        // is the mean of ((x - n) / t)².
        let (at_a, at_b) = (density_at(a, inner), density_at(b, inner));
        let mean = at_a - at_b;
        let square = 1.0 + finite(a) * at_a - finite(b) * at_b;
        let (ratio, shift) = (s / t, (m - n) / t);
        let other = ratio.square() * square + 2.0 * ratio * mean * shift + shift.square();
        let outer = log_mass(c, d);
        let masses = outer.1 - inner.1 + 0.5 * (inner.0 - outer.0) * (inner.0 + outer.0);
        let kl = masses - ratio.ln() + 0.5 * (other - square);
        let size = |x: Var, loc: Var, scale: Var| loc.abs() + (scale * finite(x)).abs();
        let within = |x: Var, y: Var| {
            let rounding = (size(x, m, s) + size(y, n, t)) * (4.0 * epsilon(x.dtype()));
            let (x, y) = (m + s * x, n + t * y);
            (x.ge(y), (x - y).abs().le(rounding))
        };
        let (above, near_low) = within(a, c);
        let (over, near_high) = within(b, d);
        let inside = (above | near_low) & (!over | near_high | (m + s * b).eq(n + t * d));
        let sound = a.lt(b) & c.lt(d) & s.gt(0.0) & t.gt(0.0);
        checked(select(inside, kl, f64::INFINITY), sound)
    })
}

/// Returns the truncated density at a bound: the standard normal density divided by the mass between the bounds, which
/// [`log_mass`] returns. At an infinite bound the result is 0.
fn density_at(bound: Var, (near, mass): (Var, Var)) -> Var {
    let finite = bound.is_finite();
    // Replace an infinite bound by `near`, not by 0: at 0 the quotient overflows if the bounds are far in a tail.
    let place = select(finite, bound, near);
    let log = -0.5 * (place - near) * (place + near) - 0.5 * TAU.ln() - mass;
    select(finite, log.exp(), 0.0)
}

/// For a < b, returns the distance n of 0 from the interval between a and b, and m = ln(Φ(b) - Φ(a)) + n²/2. They are
/// separate numbers because far in a tail n²/2 is much larger than m, and the density does not depend on it.
fn log_mass(a: Var, b: Var) -> (Var, Var) {
    // The upper tail is the mirror image of the lower one, so map it to the lower one.
    let right = a.gt(0.0);
    let (a, b) = (select(right, -b, a), select(right, -a, b));
    let tail = b.lt(0.0);
    // If the interval is in the lower tail, the logarithm is ln Φ(b) + ln(1 - Φ(a) / Φ(b)), where Φ(-t) = exp(-t²/2)
    // erfcx(t / √2) / 2.
    let open = a.eq(f64::NEG_INFINITY);
    let near = select(tail, -b, 1.0);
    let far = select(tail & !open, -a, (near + 1.0).stop_gradient());
    let scaled = |t: Var| (0.5 * (t * 0.5f64.sqrt()).erfcx()).ln();
    let ratio = scaled(far) - scaled(near) - 0.5 * (far - near) * (far + near);
    let outer = scaled(near) + select(open, 0.0, (-ratio.exp_m1()).ln());
    // If the interval contains 0, the values of erf at both bounds add without cancellation. At an infinite bound, all
    // derivatives of erf are set to 0.
    let error = |t: Var| {
        let finite = t.is_finite();
        let end = select(t.gt(0.0), t.ones_like(), -1.0);
        select(finite, (select(finite, t, 0.0) * 0.5f64.sqrt()).erf(), end)
    };
    let inner = 0.5 * (error(select(tail, 1.0, b)) - error(select(tail, -1.0, a)));
    (select(tail, near, 0.0), select(tail, outer, inner.ln()))
}
