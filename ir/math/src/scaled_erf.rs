//! `erfcx`, the scaled complementary error function `eˣ² erfc x`, and `dawsn`, Dawson's integral `e⁻ˣ² ∫₀ˣ eˢ² ds`, with
//! their derivatives.
//!
//! Both solve an equation `f' = c ± 2 x f` whose right side cancels for large x. So derivatives have their own
//! formulas:
//!
//! ```text
//! erfcx⁽ⁿ⁾(x) = (-1)ⁿ 2ⁿ⁺¹/√π ∫₀^∞ tⁿ exp(-t² - 2 x t) dt      (DLMF 7.7.1 and 7.18.2), for x > 0
//! dawsn⁽ⁿ⁾(x) = (-1)ⁿ Σₖ (2k - 1)!! (2k + 1) … (2k + n) / (2ᵏ⁺¹ x²ᵏ⁺¹⁺ⁿ)     (DLMF 7.12.1), for large x
//! ```
//!
//! Elsewhere a derivative follows from the derivatives of lower order by the equation.

use super::erf::erfc;
use super::exp;
use super::half_line::half_line;
use std::f64::consts::FRAC_2_SQRT_PI;

/// The highest order of the derivatives of `erfcx` and `dawsn`.
pub const SCALED_ERF_ORDERS: u32 = 8;

/// Returns `exp(x²)` or `exp(-x²)`, by the sign of `sign`, corrected for the rounding error of the square.
fn exp_square(x: f64, sign: f64) -> f64 {
    let square = x * x;
    if square > 1e4 {
        return exp(sign * square);
    }
    let lost = x.mul_add(x, -square);
    exp(sign * square) * (1.0 + sign * lost)
}

/// Returns the n-th derivative of `eˣ² erfc x`, for `n ≤ SCALED_ERF_ORDERS`; NaN beyond. The value is within 4
/// ulp.
///
/// Domain: all reals. The value is inf from -26.63 downwards, and 0 at inf, as its derivatives are.
#[must_use]
pub fn erfcx(n: u32, x: f64) -> f64 {
    if x.is_nan() || n > SCALED_ERF_ORDERS {
        return f64::NAN;
    }
    if n == 0 {
        return scaled_erfc(x);
    }
    if x <= 0.0 {
        // The derivatives of y = erfcx satisfy y⁽ᵏ⁺¹⁾ = 2 x y⁽ᵏ⁾ + 2 k y⁽ᵏ⁻¹⁾, whose terms have one sign here.
        let value = scaled_erfc(x);
        if value == f64::INFINITY {
            return if n.is_multiple_of(2) { value } else { -value };
        }
        return by_equation(n, value, 2.0 * x * value - FRAC_2_SQRT_PI, 2.0 * x, 2.0);
    }
    if x == f64::INFINITY {
        return if n.is_multiple_of(2) { 0.0 } else { -0.0 };
    }
    let integrand = |t: f64| t.powi(n as i32) * exp(-t * (t + 2.0 * x));
    let size = FRAC_2_SQRT_PI * 2f64.powi(n as i32) * half_line(1.0 / (1.0 + x), integrand);
    if n.is_multiple_of(2) { size } else { -size }
}

/// Returns `eˣ² erfc x`.
fn scaled_erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 * exp_square(x, 1.0) - scaled_erfc(-x);
    }
    if x < 12.0 {
        return exp_square(x, 1.0) * erfc(x);
    }
    // The asymptotic series of DLMF 7.12.1, in powers of 1/(2x²).
    let (z, mut term, mut sum) = (1.0 / (2.0 * x * x), 1.0, 1.0);
    for k in 1..14 {
        term *= -f64::from(2 * k - 1) * z;
        sum += term;
    }
    0.5 * FRAC_2_SQRT_PI / x * sum
}

/// Returns the n-th derivative of a function with value `y` and first derivative `slope`, by the recurrence
/// `y⁽ᵏ⁺¹⁾ = a y⁽ᵏ⁾ + k b y⁽ᵏ⁻¹⁾`.
fn by_equation(n: u32, y: f64, slope: f64, a: f64, b: f64) -> f64 {
    let (mut before, mut now) = (y, slope);
    for k in 1..n {
        (before, now) = (now, a * now + f64::from(k) * b * before);
    }
    now
}

/// The |x| above which the asymptotic series of Dawson's integral has full f64 precision.
const FAR: f64 = 6.0;

/// Returns the n-th derivative of Dawson's integral, for `n ≤ SCALED_ERF_ORDERS`; NaN beyond. The value is within 4
/// ulp. For |x| < 6 a derivative loses as many digits as `(2 x)ⁿ` has, and for larger |x| none.
///
/// Domain: all reals, odd; 0 at infinities.
#[must_use]
pub fn dawsn(n: u32, x: f64) -> f64 {
    if x.is_nan() || n > SCALED_ERF_ORDERS {
        return f64::NAN;
    }
    let a = x.abs();
    let y = if a < FAR { near(n, a) } else { far(n, a) };
    if n.is_multiple_of(2) && x.is_sign_negative() { -y } else { y }
}

fn near(n: u32, x: f64) -> f64 {
    let value = if x < 2.0 { exp_square(x, -1.0) * growing(x) } else { sampled(x) };
    match n {
        0 => value,
        _ => by_equation(n, value, 1.0 - 2.0 * x * value, -2.0 * x, -2.0),
    }
}

/// Returns `∫₀ˣ eˢ² ds = Σ x²ᵏ⁺¹ / (k! (2k + 1))`; all terms have one sign.
fn growing(x: f64) -> f64 {
    let (square, mut power, mut sum) = (x * x, x, x);
    for k in 1..60 {
        power *= square / f64::from(k);
        let term = power / f64::from(2 * k + 1);
        sum += term;
        if term <= sum * (f64::EPSILON / 8.0) {
            break;
        }
    }
    sum
}

/// Returns Dawson's integral as a sum over odd k with the spacing h = `STEP`, `1/√π Σ exp(-(x - k h)²) / k`, with
/// an error of `exp(-(π/2h)²)` (Rybicki, *Dawson's integral and the sampling theorem*, 1989).
fn sampled(x: f64) -> f64 {
    const STEP: f64 = 0.25;
    let middle = 2.0 * ((x / STEP - 1.0) / 2.0).round() + 1.0;
    let mut sum = 0.0;
    for i in -13..=13 {
        let k = middle + 2.0 * f64::from(i);
        let off = x - k * STEP;
        sum += exp(-off * off) / k;
    }
    0.5 * FRAC_2_SQRT_PI * sum
}

fn far(n: u32, x: f64) -> f64 {
    if x == f64::INFINITY {
        return if n.is_multiple_of(2) { 0.0 } else { -0.0 };
    }
    let z = 1.0 / (2.0 * x * x);
    let mut term = 0.5 / x;
    for k in 1..=n {
        term *= -f64::from(k) / x;
    }
    let mut sum = 0.0;
    for k in 0..60 {
        sum += term;
        let i = f64::from(2 * k);
        let n = f64::from(n);
        let next = term * (i + 1.0) * z * ((i + n + 1.0) * (i + n + 2.0) / ((i + 1.0) * (i + 2.0)));
        if next.abs() <= sum.abs() * (f64::EPSILON / 8.0) || next.abs() >= term.abs() {
            break;
        }
        term = next;
    }
    sum
}
