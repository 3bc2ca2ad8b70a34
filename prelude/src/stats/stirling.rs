//! Sums of logarithms of Γ, combined so that large terms do not cancel.
//!
//! For z ≥ 10, Stirling's series is ln Γ(z) = (z - 1/2) ln z - z + ln √2π + r(z) with a small remainder r. Its large
//! terms are combined with the large terms of the density before they are evaluated, as in Loader, *Fast and accurate
//! computation of binomial probabilities* (2000). Below 10, the plain formula loses no digits.

use crate::Var;
use crate::ops::{STIRLING, horner, select};
use std::f64::consts::{PI, TAU};

/// The smallest argument for which Stirling's series is used.
pub(super) const FAR: f64 = 10.0;

/// Returns `k ln m - m - ln Γ(a)` for a = k + 1, the logarithm of a gamma density at m, or of the Poisson probability
/// of k.
pub(super) fn log_gamma_density(a: Var, k: Var, m: Var) -> Var {
    let far = k.ge(FAR) & m.gt(0.0) & m.is_finite();
    let (l, n) = (select(far, k, FAR), select(far, m, FAR));
    let large = -l.kl_div(n) - 0.5 * (TAU * l).ln() - remainder(l);
    let end = m.eq(f64::INFINITY);
    let near = far | end;
    let (a, k, n) = (select(near, 2.0, a), select(near, 1.0, k), select(near, 1.0, m));
    let small = k.xlogy(n) - n - a.lgamma();
    select(far, large, select(end, -m, small))
}

/// Returns `k ln x + l ln(1 - x) - ln B(a, b)` for a = k + 1 and b = l + 1, the logarithm of a beta density at x.
pub(super) fn log_beta_density([a, k]: [Var; 2], [b, l]: [Var; 2], x: Var) -> Var {
    let far = k.ge(FAR) & l.ge(FAR) & x.gt(0.0) & x.lt(1.0);
    let (i, j, y) = (select(far, k, FAR), select(far, l, FAR), select(far, x, 0.5));
    let n = i + j;
    let constant = 0.5 * (n / (TAU * i * j)).ln() + n.ln_1p();
    let rest = remainder(n) - remainder(i) - remainder(j);
    let large = constant + rest - i.kl_div(n * y) - j.kl_div(n * (1.0 - y));
    let [a, b] = [a, b].map(|a| select(far, 2.0, a));
    let [k, l] = [k, l].map(|k| select(far, 1.0, k));
    let y = select(far, 0.5, x);
    let small = k.xlogy(y) + l.xlog1py(-y) - a.betaln(b);
    select(far, large, small)
}

/// Returns `a + ln Γ(a) + (1 - a) ψ(a)`, the entropy of the gamma distribution. This function grows only as ½ ln a. So
/// entropies of the beta, Dirichlet and t distributions are written as sums of its values, in which no large terms
/// cancel.
pub(super) fn entropy_of_gamma(a: Var) -> Var {
    let far = a.ge(FAR);
    let b = select(far, a, FAR);
    // The contribution of the remainder with coefficients cₖ is Σ cₖ (2k / a²ᵏ⁻¹ - (2k - 1) / a²ᵏ).
    let u = b.recip();
    let rest = u * horner(u.square(), &weighted(|k| 2.0 * k))
        - u.square() * horner(u.square(), &weighted(|k| 2.0 * k - 1.0));
    let large = 0.5 * (TAU * b).ln() + 0.5 - 0.5 * u + rest;
    let b = select(far, 1.0, a);
    select(far, large, b + b.lgamma() + (1.0 - b) * b.digamma())
}

/// Returns `ln Γ(b) - ln Γ(a) - (b - a) ψ(a)`, the distance at b of ln Γ from its tangent at a. It is never negative.
/// Divergences of the gamma, beta and Dirichlet distributions are sums of these distances.
pub(super) fn above_tangent(b: Var, a: Var) -> Var {
    let far = a.ge(FAR) & b.ge(FAR);
    let (c, d) = (select(far, b, FAR), select(far, a, FAR));
    // `slope` is minus the derivative of the remainder at a: Σ (2k - 1) cₖ / a²ᵏ.
    let u = d.square().recip();
    let slope = u * horner(u, &weighted(|k| 2.0 * k - 1.0));
    let rest = remainder(c) - remainder(d) + (c - d) * slope;
    let large = c.kl_div(d) + 0.5 * d.kl_div(c) / d + rest;
    let (c, d) = (select(far, 1.0, b), select(far, 1.0, a));
    let small = c.lgamma() - d.lgamma() - (c - d) * d.digamma();
    select(far, large, small)
}

/// Returns ½ ln(1 + t²). The result is right even if t² overflows.
pub(super) fn log_hypotenuse(t: Var) -> Var {
    let near = t.abs().lt(1.0);
    let inside = 0.5 * select(near, t, 0.0).square().ln_1p();
    select(near, inside, select(near, 1.0, t).hypot(1.0).ln())
}

/// Returns `ln(π · scale)` for a positive `scale`.
pub(super) fn log_pi(scale: Var) -> Var {
    PI.ln() + scale.ln()
}

/// Returns the remainder r(z) = ln Γ(z) - (z - 1/2) ln z + z - ln √2π for z ≥ 10.
fn remainder(z: Var) -> Var {
    horner(z.square().recip(), &STIRLING) / z
}

/// Returns the coefficients cₖ of the remainder, each multiplied by `factor(k)`, beginning with the highest k.
fn weighted(factor: impl Fn(f64) -> f64) -> Vec<f64> {
    let numbers = (1..=STIRLING.len()).rev().map(|k| k as f64);
    STIRLING.iter().zip(numbers).map(|(c, k)| c * factor(k)).collect()
}
