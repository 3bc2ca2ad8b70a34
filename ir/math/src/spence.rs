//! Spence's function, the dilogarithm: `∫ ln t / (1 - t) dt from 1 to x`, which is `Li₂(1 - x)`, and its derivatives.
//!
//! * The functional equations (DLMF 25.12.3 and 25.12.4, Landen's) reduce the value to `Li₂(z)` with
//!   `|z| ≤ 1/2`, which is summed in powers of `-ln(1 - z)` with Bernoulli numbers.
//! * The first derivative is `-ln(1 + y) / y` with `y = x - 1`, whose only singularity, at `y = 0`, is
//!   removable. A power series in y is used for it up to `|y| = 1/2` and for higher derivatives up to 1/10. Far
//!   from 0, Leibniz's rule for `y · (ln(1 + y) / y) = ln(1 + y)` gives each derivative from the one before. In
//!   between, where the terms of that rule would cancel, a derivative is `(-1)ⁿ n! ∫₀^∞ (eˢ + y)⁻ⁿ⁻¹ ds`.

use super::half_line::half_line;
use super::{expm1, log, log1p, pow};
use std::f64::consts::PI;

/// The highest order of the derivatives of `spence`.
pub const SPENCE_ORDERS: u32 = 8;

/// Returns the n-th derivative of `Li₂(1 - x)`, for `n ≤ SPENCE_ORDERS`; NaN beyond.
///
/// Domain: `x ≥ 0`; NaN elsewhere. `π²/6` at 0, where derivatives are infinite; 0 at 1; -inf at inf, where derivatives are 0.
#[must_use]
pub fn spence(n: u32, x: f64) -> f64 {
    if x.is_nan() || x < 0.0 || n > SPENCE_ORDERS {
        return f64::NAN;
    }
    if n > 0 {
        return -log_quotient(n - 1, x);
    }
    const END: f64 = PI * PI / 6.0;
    let square = |x: f64| x * x;
    if x == 0.0 {
        END
    } else if x == f64::INFINITY {
        f64::NEG_INFINITY
    } else if x <= 0.5 {
        END - log(x) * log1p(-x) - dilogarithm(x)
    } else if x <= 1.5 {
        dilogarithm(1.0 - x)
    } else if x <= 2.0 {
        -dilogarithm((x - 1.0) / x) - 0.5 * square(log(x))
    } else {
        let r = 1.0 / x;
        dilogarithm(r) - END - log(x) * log1p(-r) - 0.5 * square(log(x))
    }
}

/// Returns `Li₂(z)` for `|z| ≤ 1/2`, by the series `u - u²/4 + Σₖ B₂ₖ u²ᵏ⁺¹ / (2k + 1)!` with `u = -ln(1 - z)`
/// and Bernoulli numbers B.
fn dilogarithm(z: f64) -> f64 {
    const TERMS: [f64; 10] = [
        0.027_777_777_777_777_776,
        -2.777_777_777_777_778e-4,
        4.724_111_866_969_01e-6,
        -9.185_773_074_661_964e-8,
        1.897_886_998_897_1e-9,
        -4.064_761_645_144_225_6e-11,
        8.921_691_020_456_452e-13,
        -1.993_929_586_072_107_4e-14,
        4.518_980_029_619_918e-16,
        -1.035_651_761_218_124_7e-17,
    ];
    let u = -log1p(-z);
    let square = u * u;
    let sum = TERMS.iter().rev().fold(0.0, |sum, c| sum * square + c);
    u * (1.0 - 0.25 * u + square * sum)
}

/// Returns the n-th derivative of `ln(x) / (x - 1)`.
fn log_quotient(n: u32, x: f64) -> f64 {
    let y = x - 1.0;
    if x == f64::INFINITY {
        return 0.0;
    }
    if y.abs() < if n == 0 { 0.5 } else { 0.1 } {
        // Near x = 1, sum the power series of the derivative in y = x - 1: Σⱼ (-1)ʲ⁺ⁿ (j + 1) … (j + n) / (j + n + 1)
        // yʲ.
        let sign = if n.is_multiple_of(2) { 1.0 } else { -1.0 };
        let (mut sum, mut power) = (0.0, sign);
        for j in 0..120 {
            let rising: f64 = (1..=n).map(|i| f64::from(j + i)).product();
            let term = power * rising / f64::from(j + n + 1);
            sum += term;
            if term.abs() < sum.abs() * (f64::EPSILON / 64.0) {
                break;
            }
            power *= -y;
        }
        return sum;
    }
    if n > 0 && 0.1 < x && x < 3.0 {
        let size: f64 = (1..=n).map(f64::from).product();
        let power = -f64::from(n + 1);
        let integral = half_line(x.min(1.0) / f64::from(n + 1), |s| pow(expm1(s) + x, power));
        return if n.is_multiple_of(2) { size * integral } else { -size * integral };
    }
    let mut value = log(x) / y;
    // `log` holds the k-th derivative of ln x: (ln x)⁽ᵏ⁾ = (-1)ᵏ⁻¹ (k - 1)! / xᵏ.
    let mut log = 1.0 / x;
    for k in 1..=n {
        let k = f64::from(k);
        value = (log - k * value) / y;
        log *= -k / x;
    }
    value
}
