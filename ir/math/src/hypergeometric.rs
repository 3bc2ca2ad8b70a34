//! Kummer's function, the confluent hypergeometric function `₁F₁(a; b; x) = Σₖ (a)ₖ xᵏ / ((b)ₖ k!)`.
//!
//! No formula is accurate for all parameters. Each sum is computed together with its loss of digits, and the sum with
//! the least loss is returned:
//!
//! ```text
//! ₁F₁(a; b; x)                          the series itself
//! eˣ ₁F₁(b - a; b; -x)                  Kummer's transformation (DLMF 13.2.39)
//! Γ(b)/Γ(a) eˣ xᵃ⁻ᵇ Σₖ (b - a)ₖ (1 - a)ₖ / (k! xᵏ)      for large x (DLMF 13.7.1), and by the transformation for large -x
//! ```
//!
//! If each of them loses more than half of the digits, the value is NaN.

use super::gamma::lgamma;
use super::{exp, pow};

/// The value of a sum, and a measure of the digits lost by cancellation: the ratio of the largest term to the value.
/// The ratio is infinite if the formula is not applicable.
struct Sum {
    value: f64,
    loss: f64,
}

impl Sum {
    const NONE: Sum = Sum { value: f64::NAN, loss: f64::INFINITY };
}

/// The largest number of terms of a series that is summed.
const TERMS: u32 = 5000;
/// The largest ratio of a term to the sum (10⁸) at which half of the digits remain.
const MOST_LOSS: f64 = 1e8;
/// The largest argument for which the exponential itself is computed here: e⁷⁰⁰ does not overflow.
const LARGE: f64 = 700.0;

/// Returns Kummer's function `₁F₁(a; b; x)`.
///
/// Domain: all reals but the poles b = 0, -1, -2, …, where the value is NaN. Also NaN where every formula here
/// loses more than half of the digits: for negative a or b - a with large x, unless one of the two is an
/// integer, so that the series terminates. At x = inf the value is inf for positive a and b; at x = -inf it is
/// 0 for b > a > 0.
#[must_use]
pub fn hyp1f1(a: f64, b: f64, x: f64) -> f64 {
    if a.is_nan() || !b.is_finite() || x.is_nan() || a.is_infinite() || is_pole(b) {
        return f64::NAN;
    }
    if x == 0.0 || a == 0.0 {
        return 1.0;
    }
    if a == b {
        return exp(x);
    }
    if x.is_infinite() {
        let (grows, falls) = (x > 0.0 && a > 0.0 && b > 0.0, x < 0.0 && b > a && a > 0.0);
        return if grows {
            f64::INFINITY
        } else if falls {
            0.0
        } else {
            f64::NAN
        };
    }
    let found = best(a, b, x);
    if found.loss < MOST_LOSS { found.value } else { f64::NAN }
}

/// Returns whether b is a pole of the gamma function: 0 or a negative integer.
fn is_pole(b: f64) -> bool {
    b <= 0.0 && b == b.floor()
}

fn best(a: f64, b: f64, x: f64) -> Sum {
    let direct = || series(a, b, x);
    let transformed = || {
        let Sum { value, loss } = series(b - a, b, -x);
        if x.abs() <= LARGE {
            return Sum { value: value * exp(x), loss };
        }
        // Multiply by e^(x/2) twice, so that no intermediate value overflows before the result does.
        let half = exp(0.5 * x);
        Sum { value: half * value * half, loss }
    };
    if x.abs() > LARGE {
        // A terminating series is a polynomial, valid for every x.
        return match (is_pole(a), is_pole(b - a)) {
            (true, _) => direct(),
            (_, true) => transformed(),
            (false, false) => far(a, b, x),
        };
    }
    // Try the formula whose terms are all positive first, since it loses no digits.
    let first = if x > 0.0 { direct() } else { transformed() };
    if first.loss < 2.0 {
        return first;
    }
    let second = if x > 0.0 { transformed() } else { direct() };
    let better = if second.loss < first.loss { second } else { first };
    if better.loss < 100.0 || x.abs() < 30.0 {
        return better;
    }
    let far = far(a, b, x);
    if far.loss < better.loss { far } else { better }
}

fn series(a: f64, b: f64, x: f64) -> Sum {
    let (mut term, mut value, mut size) = (1.0, 1.0, 1.0f64);
    for k in 0..TERMS {
        let k = f64::from(k);
        term *= (a + k) / (b + k) * (x / (k + 1.0));
        value += term;
        size += term.abs();
        if term == 0.0 || (term.abs() <= value.abs() * (f64::EPSILON / 8.0) && k > -b && k > -a) {
            let loss = size / value.abs();
            return if loss.is_finite() { Sum { value, loss } } else { Sum::NONE };
        }
    }
    Sum::NONE
}

/// Returns the asymptotic series for large |x|, if its terms fall below the rounding error.
fn far(a: f64, b: f64, x: f64) -> Sum {
    // The value is this series times eˣ xᵃ⁻ᵇ Γ(b)/Γ(a) for x > 0, and times (-x)⁻ᵃ Γ(b)/Γ(b - a) for x < 0.
    let (c, d, own) = if x > 0.0 { (b - a, 1.0 - a, a) } else { (a, a - b + 1.0, b - a) };
    if is_pole(own) {
        return Sum::NONE;
    }
    let (mut term, mut sum) = (1.0, 1.0f64);
    for k in 0..200 {
        let k = f64::from(k);
        let next = term * ((c + k) * (d + k)) / ((k + 1.0) * x.abs());
        if next == 0.0 || next.abs() <= sum.abs() * (f64::EPSILON / 8.0) {
            let sign = sign_of_gamma(b) * sign_of_gamma(own);
            // Multiply by `half`, the square root of the factor of the series, twice, so that no intermediate value
            // overflows or underflows before the result does.
            let (grown, power) = if x > 0.0 { (exp(0.5 * x), a - b) } else { (1.0, -a) };
            let half = exp(0.5 * (lgamma(b) - lgamma(own))) * pow(x.abs(), 0.5 * power) * grown;
            return Sum { value: half * (sign * sum) * half, loss: 1.0 };
        }
        if next.abs() > term.abs() && k > c.abs() + d.abs() {
            break;
        }
        term = next;
        sum += term;
    }
    Sum::NONE
}

/// Returns the sign of Γ(a), which for a < 0 is negative if `floor(a)` is odd.
fn sign_of_gamma(a: f64) -> f64 {
    if a < 0.0 && a.floor() % 2.0 != 0.0 { -1.0 } else { 1.0 }
}
