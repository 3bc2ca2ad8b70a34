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
pub fn half_line(scale: f64, f: impl Fn(f64) -> f64) -> f64 {
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
