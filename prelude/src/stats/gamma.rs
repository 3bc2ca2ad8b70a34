//! The exponential, gamma, χ², beta and Dirichlet distributions.

use super::stirling::{FAR, above_tangent, entropy_of_gamma, log_beta_density, log_gamma_density};
use super::{checked, density, of_rows};
use crate::Var;
use crate::ops::{number, of_floats, select};
use crate::var::{IntoVar, caller};

/// Returns the log density of the exponential distribution with mean `scale` (1 / rate), for x ≥ 0.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| stats::exponential_logpdf(x, 2.0), [0.0, 3.0, -1.0])?;
/// assert_eq!(y.to_vec::<f64>()?, [-2f64.ln(), -1.5 - 2f64.ln(), f64::NEG_INFINITY]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "expon.logpdf")]
#[track_caller]
pub fn exponential_logpdf(x: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("exponential_logpdf", operands!(at, x, scale), at, |[x, scale]| {
        let outside = x.lt(0.0);
        let log = -select(outside, 0.0, x) / scale - scale.ln();
        density(log, outside, scale.gt(0.0))
    })
}

/// Returns the entropy of the exponential distribution, 1 + ln `scale`.
#[track_caller]
pub fn exponential_entropy(scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("exponential_entropy", operands!(at, scale), at, |[scale]| scale.ln() + 1.0)
}

/// Returns the divergence KL(p ‖ q) of two exponential distributions, given by their scales.
#[track_caller]
pub fn exponential_kl(scale: impl IntoVar, other: impl IntoVar) -> Var {
    let at = caller();
    of_floats("exponential_kl", operands!(at, scale, other), at, |[s, t]| {
        let ratio = s / t;
        checked(ratio.ones_like().kl_div(ratio), s.gt(0.0) & t.gt(0.0))
    })
}

/// Returns the log density of the gamma distribution with shape `a` and the given `scale` (1 / rate), for x ≥ 0.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(x, a): (Var, Var)| stats::gamma_logpdf(x, a, 1.0);
/// // x eˣ⁻ˣ at 0: the derivative in x is one-sided.
/// assert_eq!(run(f, (0.0, 1.0))?.item::<f64>()?, 0.0);
/// assert_eq!(run(grad(f), (0.0, 1.0))?.0.item::<f64>()?, -1.0);
/// // Terms of 10¹¹ do not cancel.
/// let y = run(f, (1e10, 1e10))?.item::<f64>()?;
/// assert!((y + 0.5 * (2e10 * std::f64::consts::PI).ln()).abs() < 1e-9);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "gamma.logpdf")]
#[track_caller]
pub fn gamma_logpdf(x: impl IntoVar, a: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("gamma_logpdf", operands!(at, x, a, scale), at, |[x, a, scale]| {
        log_density_of_gamma(x, a, scale)
    })
}

fn log_density_of_gamma(x: Var, a: Var, scale: Var) -> Var {
    let outside = x.lt(0.0);
    let y = select(outside, 1.0, x) / scale;
    density(log_gamma_density(a, a - 1.0, y) - scale.ln(), outside, a.gt(0.0) & scale.gt(0.0))
}

/// Returns the entropy of the gamma distribution with shape `a` and the given `scale`.
#[track_caller]
pub fn gamma_entropy(a: impl IntoVar, scale: impl IntoVar) -> Var {
    let at = caller();
    of_floats("gamma_entropy", operands!(at, a, scale), at, |[a, scale]| {
        checked(entropy_of_gamma(a) + scale.ln(), a.gt(0.0))
    })
}

/// Returns the divergence KL(p ‖ q) of two gamma distributions, each given as (a, scale).
///
/// ```
/// use tapeloom::prelude::*;
/// let kl = |a: Var| stats::gamma_kl((a, 2.0), (3.0, 2.0));
/// let (y, slope) = run(value_and_grad(kl), 3.0)?;
/// assert_eq!((y.item::<f64>()?, slope.item::<f64>()?), (0.0, 0.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn gamma_kl(
    (a, scale): (impl IntoVar, impl IntoVar),
    (other_a, other_scale): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, a, scale, other_a, other_scale);
    of_floats("gamma_kl", operands, at, |[a, s, b, t]| {
        let ratio = s / t;
        let scales = b * ratio.ones_like().kl_div(ratio) + (a - b) * (ratio - 1.0);
        let sound = a.gt(0.0) & b.gt(0.0) & s.gt(0.0) & t.gt(0.0);
        checked(above_tangent(b, a) + scales, sound)
    })
}

/// Returns the log density of the χ² distribution with `freedom` degrees of freedom, for x ≥ 0: that of the gamma
/// distribution with shape `freedom` / 2 and scale 2.
#[doc(alias = "chi2.logpdf")]
#[track_caller]
pub fn chisquare_logpdf(x: impl IntoVar, freedom: impl IntoVar) -> Var {
    let at = caller();
    of_floats("chisquare_logpdf", operands!(at, x, freedom), at, |[x, freedom]| {
        log_density_of_gamma(x, 0.5 * freedom, number(x, 2.0))
    })
}

/// Returns the log density of the beta distribution, (a - 1) ln x + (b - 1) ln(1 - x) - ln B(a, b), for 0 ≤ x ≤ 1.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| stats::beta_logpdf(x, 1.0, 3.0);
/// let y = run(f, [0.0, 1.0, 1.5])?.to_vec::<f64>()?;
/// assert!((y[0] - 3f64.ln()).abs() < 1e-15);
/// assert_eq!(y[1..], [f64::NEG_INFINITY, f64::NEG_INFINITY]);
/// assert_eq!(run(grad(f), 0.0)?.item::<f64>()?, -2.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "beta.logpdf")]
#[track_caller]
pub fn beta_logpdf(x: impl IntoVar, a: impl IntoVar, b: impl IntoVar) -> Var {
    let at = caller();
    of_floats("beta_logpdf", operands!(at, x, a, b), at, |[x, a, b]| {
        let outside = x.lt(0.0) | x.gt(1.0);
        let inside = select(outside, 0.5, x);
        let log = log_beta_density([a, a - 1.0], [b, b - 1.0], inside);
        density(log, outside, a.gt(0.0) & b.gt(0.0) & !x.is_nan())
    })
}

/// Returns the entropy of the beta distribution.
#[track_caller]
pub fn beta_entropy(a: impl IntoVar, b: impl IntoVar) -> Var {
    let at = caller();
    of_floats("beta_entropy", operands!(at, a, b), at, |[a, b]| {
        let sum = a + b;
        let parts = entropy_of_gamma(a) + entropy_of_gamma(b);
        let entropy = parts - entropy_of_gamma(sum) - sum.digamma();
        checked(entropy, a.gt(0.0) & b.gt(0.0))
    })
}

/// Returns the divergence KL(p ‖ q) of two beta distributions, each given as (a, b).
#[track_caller]
pub fn beta_kl(
    (a, b): (impl IntoVar, impl IntoVar),
    (other_a, other_b): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, a, b, other_a, other_b);
    of_floats("beta_kl", operands, at, |[a, b, c, d]| {
        let kl = above_tangent(c, a) + above_tangent(d, b) - above_tangent(c + d, a + b);
        checked(kl, a.gt(0.0) & b.gt(0.0) & c.gt(0.0) & d.gt(0.0))
    })
}

/// Returns the log density of the Dirichlet distribution at vectors `x`, which sum to 1 along the last axis. The last
/// axis of `alpha` has the same extent. This axis is removed.
///
/// The density is -inf where an x is negative, or a sum differs from 1 by more than √ε (1.5e-8 in f64, 3.5e-4 in
/// f32). Derivatives in x are those of the formula Σ (αᵢ - 1) ln xᵢ, so make x by [`softmax`](Var::softmax), or
/// project them.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| stats::dirichlet_logpdf(x, constant([1.0, 1.0, 1.0]));
/// let y = run(f, [[0.2, 0.3, 0.5], [0.0, 0.0, 1.0], [0.2, 0.2, 0.2]])?;
/// let y = y.to_vec::<f64>()?;
/// assert!(y[..2].iter().all(|log_density| (log_density - 2f64.ln()).abs() < 1e-15));
/// assert_eq!(y[2], f64::NEG_INFINITY);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "dirichlet.logpdf")]
#[track_caller]
pub fn dirichlet_logpdf(x: impl IntoVar, alpha: impl IntoVar) -> Var {
    let at = caller();
    of_rows("dirichlet_logpdf", operands!(at, x, alpha), at, |[x, alpha]| {
        let tolerance = crate::dtype::epsilon(x.dtype()).sqrt();
        let whole = (x.stop_gradient().sum_axis(-1) - 1.0).abs().le(tolerance);
        let negative = x.lt(0.0);
        let outside = negative.any_axis(-1) | !whole;
        let x = select(negative, 1.0, x);
        let sum = alpha.sum_axis(-1);
        let terms = (alpha - 1.0).xlogy(x) - alpha.lgamma();
        let small = terms.sum_axis(-1) + sum.lgamma();
        // For a large sum of `alpha`, compute the density as the joint density of independent gamma variables, divided
        // by the density of their sum. Large terms cancel inside `log_gamma_density`, without a loss of digits.
        let parts = log_gamma_density(alpha, alpha - 1.0, sum.expand_dims(-1) * x).sum_axis(-1);
        let others = alpha.shape().last().map_or(0.0, |n| *n as f64 - 1.0);
        let whole = others * sum.ln() + sum * (x.sum_axis(-1) - 1.0);
        let large = parts - log_gamma_density(sum, sum - 1.0, sum) + whole;
        let log = select(sum.ge(FAR), large, small);
        density(log, outside, (alpha.gt(0.0) & !x.is_nan()).all_axis(-1))
    })
}

/// Returns the entropy of the Dirichlet distribution; the last axis of `alpha` is removed.
#[track_caller]
pub fn dirichlet_entropy(alpha: impl IntoVar) -> Var {
    let at = caller();
    of_rows("dirichlet_entropy", operands!(at, alpha), at, |[alpha]| {
        let n = alpha.shape().last().copied().unwrap_or(1) as f64;
        let sum = alpha.sum_axis(-1);
        let entropy = entropy_of_gamma(alpha).sum_axis(-1) - entropy_of_gamma(sum);
        checked(entropy - (n - 1.0) * sum.digamma(), alpha.gt(0.0).all_axis(-1))
    })
}

/// Returns the divergence KL(p ‖ q) of two Dirichlet distributions, given by their parameters alpha along the last
/// axis, which is removed.
#[track_caller]
pub fn dirichlet_kl(alpha: impl IntoVar, other: impl IntoVar) -> Var {
    let at = caller();
    of_rows("dirichlet_kl", operands!(at, alpha, other), at, |[a, b]| {
        let whole = above_tangent(b.sum_axis(-1), a.sum_axis(-1));
        let sound = (a.gt(0.0) & b.gt(0.0)).all_axis(-1);
        checked(above_tangent(b, a).sum_axis(-1) - whole, sound)
    })
}
