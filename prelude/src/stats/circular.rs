//! The von Mises distribution of angles.

use super::checked;
use crate::Var;
use crate::distributions::scaled_bessel;
use crate::ops::{of_floats, scaled_bessel_slope, select};
use crate::var::{IntoVar, caller};
use std::f64::consts::TAU;

/// Returns the log density of the angle `x` with the von Mises distribution around the angle `loc`,
/// κ cos(x - loc) - ln(2π I₀(κ)) with κ = `concentration`. It is periodic, and a density on any interval of length 2π.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |k: Var| stats::von_mises_logpdf(0.5, 0.5, k);
/// // Without concentration all angles are equally likely; with much of it, the distribution is nearly normal.
/// let y = run(f, [0.0, 1e10])?.to_vec::<f64>()?;
/// let tau = std::f64::consts::TAU;
/// assert!((y[0] + tau.ln()).abs() < 1e-15);
/// assert!((y[1] - 0.5 * (1e10 / tau).ln()).abs() < 1e-10);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "vonmises.logpdf", alias = "VonMises")]
#[track_caller]
pub fn von_mises_logpdf(x: impl IntoVar, loc: impl IntoVar, concentration: impl IntoVar) -> Var {
    let at = caller();
    let operands = operands!(at, x, loc, concentration);
    of_floats("von_mises_logpdf", operands, at, |[x, loc, k]| {
        // Compute cos t - 1 as -2 sin²(t / 2), which does not cancel.
        let half = (0.5 * (x - loc)).sin();
        checked(-2.0 * k * half.square() - (TAU * scaled_bessel(k)).ln(), k.ge(0.0))
    })
}

/// Returns the entropy of the von Mises distribution, ln(2π I₀(κ)) - κ I₁(κ) / I₀(κ) with κ = `concentration`.
#[track_caller]
pub fn von_mises_entropy(concentration: impl IntoVar) -> Var {
    let at = caller();
    of_floats("von_mises_entropy", operands!(at, concentration), at, |[k]| {
        checked((TAU * scaled_bessel(k)).ln() + k * shortfall(k), k.ge(0.0))
    })
}

/// Returns the divergence KL(p ‖ q) of two von Mises distributions, each given as (loc, concentration).
#[track_caller]
pub fn von_mises_kl(
    (loc, concentration): (impl IntoVar, impl IntoVar),
    (other_loc, other_concentration): (impl IntoVar, impl IntoVar),
) -> Var {
    let at = caller();
    let operands = operands!(at, loc, concentration, other_loc, other_concentration);
    of_floats("von_mises_kl", operands, at, |[m, k, n, l]| {
        let short = shortfall(k);
        let turned = 2.0 * (0.5 * (m - n)).sin().square();
        let kl = (l - k) * short
            + l * (1.0 - short) * turned
            + (scaled_bessel(l) / scaled_bessel(k)).ln();
        checked(kl, k.ge(0.0) & l.ge(0.0))
    })
}

/// Above this concentration, [`shortfall`] is computed by a series, because the scaled Bessel functions underflow for
/// large concentrations.
const FAR: f64 = 1e5;

/// Returns 1 - I₁(κ) / I₀(κ), the distance of the mean of cos x from 1, without cancellation for large κ.
///
/// Source of the series: Mardia and Jupp, *Directional Statistics* (2000), (A.4).
fn shortfall(k: Var) -> Var {
    let far = k.gt(FAR);
    // Below 1, use the unscaled functions: the scaled ones have a kink at 0. Above, the derivative of i0e is e⁻ᵏ (I₁ - I₀).
    let near = k.lt(1.0);
    let (low, middle) = (select(near, k, 0.0), select(near | far, 1.0, k));
    let fall = -scaled_bessel_slope(middle, caller());
    let exact = select(near, 1.0 - low.i1() / low.i0(), fall / middle.i0e());
    let u = select(far, k, FAR).recip();
    let series = u * (0.5 + u * (0.125 + u * (0.125 + u * (25.0 / 128.0))));
    select(far, series, exact)
}
