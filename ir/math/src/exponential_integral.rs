//! The exponential integrals `Eₙ(x) = ∫₁^∞ e⁻ˣᵗ / tⁿ dt` and `Ei(x) = ∫ eᵗ/t dt from -∞ to x`.
//!
//! * `Eₙ`: the power series for x ≤ 1 (DLMF 8.19.8), the continued fraction for larger x (DLMF 8.19.17).
//! * `Ei`: the power series for x ≤ 40 (DLMF 6.6.2), expanded about the root of Ei if x is near it, and the
//!   asymptotic series for larger x (DLMF 6.12.2).

use super::gamma::digamma;
use super::{exp, log, log1p};

/// Euler's constant γ.
const EULER: f64 = 0.577_215_664_901_532_9;

/// Returns the exponential integral `Eₙ(x)`, whose derivative is `-Eₙ₋₁(x)`.
///
/// Domain: `x ≥ 0`; NaN elsewhere. At 0, `1/(n - 1)` for n ≥ 2 and inf for n < 2. `E₀(x) = e⁻ˣ / x`.
#[must_use]
pub fn expn(n: u32, x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if n == 0 {
        return exp(-x) / x;
    }
    let order = f64::from(n);
    if x == 0.0 {
        return 1.0 / (order - 1.0);
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    if x <= 1.0 {
        return expn_series(order, x);
    }
    // The continued fraction Eₙ = e⁻ˣ / (x + n - 1·n / (x + n + 2 - 2 (n + 1) / (x + n + 4 - …))), evaluated from
    // the innermost term outwards.
    let mut k = (10.0 + 90.0 / x).floor();
    let mut fraction = x + order + 2.0 * k;
    while k > 0.0 {
        fraction = x + order + 2.0 * (k - 1.0) - k * (order + k - 1.0) / fraction;
        k -= 1.0;
    }
    exp(-x) / fraction
}

/// Returns `Eₙ(x)` by its series `(-x)ⁿ⁻¹/(n - 1)! (ψ(n) - ln x) - Σ (-x)ᵏ / (k! (k - n + 1))`, where the sum
/// skips k = n - 1.
fn expn_series(n: f64, x: f64) -> f64 {
    let (mut sum, mut power, mut k) = (0.0, 1.0, 0.0);
    loop {
        let term =
            if k == n - 1.0 { power * (digamma(n) - log(x)) } else { -power / (k - n + 1.0) };
        sum += term;
        k += 1.0;
        power *= -x / k;
        if power.abs() <= f64::EPSILON / 64.0 * sum.abs() && k > 1.0 {
            return sum;
        }
    }
}

/// Returns the exponential integral `Ei(x)`, a principal value for positive x.
///
/// Domain: all reals. -inf at 0, -0 at -inf, inf at inf and from 716.4 on; NaN for NaN. Relatively accurate
/// also near the root 0.3725….
#[must_use]
pub fn expi(x: f64) -> f64 {
    /// The root of Ei as an unevaluated sum of two doubles, found with 40 digits.
    const ROOT: (f64, f64) = (0.372_507_410_781_366_6, 1.314_018_341_438_602_8e-17);
    if x < 0.0 {
        return -expn(1, -x);
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY || x.is_nan() {
        return x;
    }
    if (x - ROOT.0).abs() < 0.125 {
        // The expansion Ei(x) = ln(x / root) + Σ (xᵏ - rootᵏ) / (k k!), all of whose terms are proportional to x
        // - root.
        let h = (x - ROOT.0) - ROOT.1;
        let (mut sum, mut quotient, mut power, mut factorial) = (0.0, 1.0, 1.0, 1.0);
        for k in 1..20 {
            let k = f64::from(k);
            factorial *= k;
            sum += quotient / (k * factorial);
            power *= ROOT.0;
            quotient = x * quotient + power;
        }
        return log1p(h / ROOT.0) + h * sum;
    }
    if x <= 40.0 {
        let (mut sum, mut power, mut k) = (0.0, 1.0, 0.0);
        loop {
            k += 1.0;
            power *= x / k;
            let term = power / k;
            sum += term;
            if term <= sum * (f64::EPSILON / 64.0) {
                return EULER + log(x) + sum;
            }
        }
    }
    let (mut sum, mut term, mut k) = (1.0, 1.0, 0.0);
    while term > f64::EPSILON / 64.0 && k < x {
        k += 1.0;
        term *= k / x;
        sum += term;
    }
    // For x of 700 and more, multiply by e^(x/2) twice: eˣ overflows before eˣ/x does.
    if x < 700.0 { exp(x) / x * sum } else { exp(0.5 * x) / x * sum * exp(0.5 * x) }
}
