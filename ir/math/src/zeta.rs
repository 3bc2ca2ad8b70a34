//! Hurwitz's zeta function `ζ(s, q) = Σₖ (q + k)⁻ˢ` and its derivatives in s.
//!
//! The first N terms are summed directly, and the others by the Euler–Maclaurin formula (DLMF 25.11.28) at `a = q + N`,
//! with Bernoulli numbers B:
//!
//! ```text
//! Σ (a + k)⁻ˢ = a⁻ˢ (a / (s - 1) + 1/2 + Σⱼ B₂ⱼ/(2j)! · s (s + 1) … (s + 2j - 2) / a²ʲ⁻¹).
//! ```
//!
//! The whole formula is computed on Taylor polynomials in s, whose last coefficient gives the derivative
//! (Johansson, "Rigorous high-precision computation of the Hurwitz zeta function and its derivatives", 2015).

use super::gamma::{EULER_MACLAURIN, polygamma};
use super::{log, pow};

/// The highest order of the derivatives of `zeta` in s.
pub const ZETA_ORDERS: u32 = 4;
/// The number of orders of derivatives: 0 to [`ZETA_ORDERS`].
const ORDERS: usize = ZETA_ORDERS as usize + 1;

/// The Taylor coefficients in s of a term at the point s, from order 0 on.
type Jet = [f64; ORDERS];

/// Returns the n-th derivative of `ζ(s, q)` in s, for `n ≤ ZETA_ORDERS`; NaN beyond.
///
/// Domain: `s > 1` and `q > 0`. At s = 1, inf for n = 0 and NaN beyond; at the poles q = 0, -1, …, inf for n = 0 and
/// NaN beyond; at other negative q the value for integer s, and NaN for other s and for derivatives.
/// NaN for s < 1.
#[must_use]
pub fn zeta(n: u32, s: f64, q: f64) -> f64 {
    if s.is_nan() || q.is_nan() || s < 1.0 || n > ZETA_ORDERS {
        return f64::NAN;
    }
    if s == 1.0 || (q <= 0.0 && q == q.floor()) {
        return if n == 0 { f64::INFINITY } else { f64::NAN };
    }
    if q < 0.0 {
        return if n == 0 { reflected(s, q) } else { f64::NAN };
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    if s == f64::INFINITY {
        return if n == 0 { pow(q, -s) } else { 0.0 };
    }
    let order = n as usize;
    if q > HUGE {
        // For such a large q, only the first term `a¹⁻ˢ / (s - 1)` of the formula matters. Return it directly, because
        // a⁻ˢ may underflow to 0 although the term does not.
        return times(&power(order, s - 1.0, q), &poles(order, s, 1.0))[order] * factorial(n);
    }
    // If q + k is above this threshold, the Euler–Maclaurin formula gains about a decimal digit per term.
    let threshold = 10.0 + 0.5 * s;
    let (mut sum, mut at) = (0.0, q);
    while at < threshold {
        let term = power(order, s, at);
        sum += term[order];
        // The remaining terms sum to less than ∫ t⁻ˢ (ln t)ⁿ dt from `at` on, which is little more than the last
        // term times at / (s - 1). Stop if that is negligible.
        let size = term[0] * log(at).abs().max(1.0).powi(n as i32) * (1.0 + at / (s - 1.0));
        if at > 1.0 && size <= sum.abs() * (f64::EPSILON / 64.0) {
            return sum * factorial(n);
        }
        at += 1.0;
    }
    (sum + times(&power(order, s, at), &tail(order, s, at))[order]) * factorial(n)
}

/// Above this parameter q of the Hurwitz zeta function, all terms of the Euler–Maclaurin formula but the first are
/// below the rounding error.
const HUGE: f64 = 1e20;

/// Returns the Taylor polynomial of `a / (s - 1)` in s, up to the power `order`.
fn poles(order: usize, s: f64, a: f64) -> Jet {
    let pole = 1.0 / (s - 1.0);
    let mut jet = [0.0; ORDERS];
    let mut term = a * pole;
    for slot in jet.iter_mut().take(order + 1) {
        *slot = term;
        term *= -pole;
    }
    jet
}

/// Returns the factorial `1 · 2 · … · n`.
fn factorial(n: u32) -> f64 {
    (1..=n).map(f64::from).product()
}

/// Returns the Taylor polynomial of `a⁻ˢ` in s, up to the power `order`.
fn power(order: usize, s: f64, a: f64) -> Jet {
    let mut jet = [pow(a, -s); ORDERS];
    let log = log(a);
    for i in 1..=order {
        jet[i] = -jet[i - 1] * log / i as f64;
    }
    jet
}

/// In the Euler–Maclaurin formula of the Hurwitz zeta function, all terms after the finite sum have the factor `a⁻ˢ`.
/// Returns these terms divided by `a⁻ˢ`, as a Taylor polynomial in s.
fn tail(order: usize, s: f64, a: f64) -> Jet {
    let mut sum = poles(order, s, a);
    sum[0] += 0.5;
    // Start with s / a; each iteration adds two factors of the rising product over a².
    let mut rising = times_shifted(&[1.0 / a, 0.0, 0.0, 0.0, 0.0], s, 1.0);
    let mut next = s + 1.0;
    for coefficient in EULER_MACLAURIN {
        let mut vanishes = true;
        for i in 0..=order {
            let term = coefficient * rising[i];
            sum[i] += term;
            vanishes &= term.abs() <= sum[i].abs() * (f64::EPSILON / 64.0);
        }
        if vanishes {
            break;
        }
        rising = times_shifted(&times_shifted(&rising, next, a), next + 1.0, a);
        next += 2.0;
    }
    sum
}

/// Returns the product of the Taylor polynomial `jet` and `(x + δ) / a`, where δ is the variable of the polynomial (the
/// change of s).
fn times_shifted(jet: &Jet, x: f64, a: f64) -> Jet {
    let mut product = [0.0; ORDERS];
    for i in 0..ORDERS {
        let lower = if i == 0 { 0.0 } else { jet[i - 1] };
        product[i] = (jet[i] * x + lower) / a;
    }
    product
}

fn times(x: &Jet, y: &Jet) -> Jet {
    let mut product = [0.0; ORDERS];
    for i in 0..ORDERS {
        product[i] = (0..=i).map(|j| x[j] * y[i - j]).sum();
    }
    product
}

/// Returns `ζ(s, q)` for negative q and an integer s, by the reflection of [`polygamma`], which equals
/// `(-1)ˢ (s - 1)! ζ(s, q)`.
fn reflected(s: f64, q: f64) -> f64 {
    if s != s.floor() {
        return f64::NAN;
    }
    if s > 170.0 {
        // Only the two terms of the sum next to 0 matter: the others are smaller than the larger of these by a
        // factor of 2¹⁷⁰ or more.
        let above = q - q.floor();
        let below = 1.0 - above;
        let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
        return pow(above, -s) + sign * pow(below, -s);
    }
    let n = s as u32 - 1;
    let size = polygamma(n, q) / factorial(n);
    if n.is_multiple_of(2) { -size } else { size }
}
