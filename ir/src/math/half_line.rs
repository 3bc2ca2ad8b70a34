//! Integrals from 0 to infinity, by the double-exponential rule.
//!
//! The substitution `s = exp(u - exp(-u))` makes an integrand that decays like `e⁻ˢ` fall off
//! double-exponentially at one end of the line and exponentially in `s` at the other, and then the sum over
//! equally spaced `u` converges faster than any power of the spacing: here, to the last digit with some
//! eighty points. What is algebraic in `s` over many magnitudes only needs more points to the right,
//! which the sum takes until its terms vanish.
//!
//! Source: Takahasi and Mori, "Double exponential formulas for numerical integration" (1974).

use super::exp;
use std::sync::LazyLock;

/// `∫₀^∞ f(s) ds` for an analytic `f` that decays on the scale `scale`, or is algebraic from there on.
pub(super) fn half_line(scale: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut sum, mut size, mut vanishing) = (0.0, 0.0, 0);
    for &(s, weight) in RULE.iter() {
        let term = weight * f(scale * s);
        sum += term;
        size += term.abs();
        // One term may be at a root of the integrand; three in a row are its end.
        let negligible = s > 1.0 && term.abs() <= size * 1e-19;
        vanishing = if negligible { vanishing + 1 } else { 0 };
        if vanishing == 3 {
            break;
        }
    }
    scale * sum
}

/// Points and weights: `s` and `ds`.
static RULE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
    const STEP: f64 = 0.1;
    // From where s is e⁻⁴⁰ to where it is e⁷⁰⁰.
    (-36..7000)
        .map(|i| {
            let u = STEP * f64::from(i);
            let s = exp(u - exp(-u));
            (s, STEP * (1.0 + exp(-u)) * s)
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::half_line;

    #[test]
    fn integrals_that_are_known() {
        let close =
            |found: f64, want: f64| assert!((found / want - 1.0).abs() < 1e-15, "{found} {want}");
        close(half_line(1.0, |s| (-s).exp()), 1.0);
        close(half_line(0.02, |s| (-50.0 * s).exp() * s * s), 2.0 / 50f64.powi(3));
        close(half_line(1.0, |s| (-s * s).exp()), 0.5 * std::f64::consts::PI.sqrt());
        // 1/s from 1e-8 to 1: E₁(1e-8).
        close(half_line(1e-8, |s| (-s - 1e-8).exp() / (s + 1e-8)), 17.843_465_089_050_83);
    }
}
