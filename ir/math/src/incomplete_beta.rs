//! The incomplete beta function `I(a, b, x) = 1/B(a, b) ∫₀ˣ tᵃ⁻¹ (1 - t)ᵇ⁻¹ dt` and its derivatives in a and b.
//!
//! As for the incomplete gamma function ([`super::incomplete_gamma`]), a derivative is an integral of the density p
//! times a polynomial in its scores u and v. The integral is over the side of x where the score has one sign. The
//! integral over the other side is the same function of `(b, a, 1 - x)`. The scores are
//!
//! ```text
//! u = ∂ ln p / ∂a = ln t - ψ(a) + ψ(a + b)       v = ∂ ln p / ∂b = ln(1 - t) - ψ(b) + ψ(a + b).
//! ```
//!
//! With `t = x e⁻ˢ`, s runs from 0 to infinity, `1 - t = y (1 + z)` for `y = 1 - x` and `z = (1 - e⁻ˢ) x / y`, and the
//! integrand is `exp(-a s) (1 + z)ᵇ⁻¹`.
//!
//! With `c = a + b` and `d = x b - y a`, the factor `xᵃ yᵇ / B(a, b)` of the integral is
//! `f(a, a + d) f(b, b - d) / f(c, c)`, where `f(a, x) = xᵃ e⁻ˣ / Γ(a)` is the factor of the incomplete gamma
//! function. The logarithms of the first two have their maximum at d = 0, so nothing cancels, however large a
//! and b are.

use super::excess::{exp_excess, log_excess};
use super::gamma::{lgamma, polygamma, polygamma_rise};
use super::half_line::half_line;
use super::incomplete_gamma::{UNDERFLOW, gamma_front};
use super::{exp, expm1, log, log1p};

/// The highest total order m + n of the derivatives in a and b.
pub const BETAINC_ORDERS: u32 = 4;
/// The number of orders of derivatives: 0 to [`BETAINC_ORDERS`].
const ORDERS: usize = BETAINC_ORDERS as usize + 1;

/// Returns the derivative of `I(a, b, x)` of order m in a and n in b, for `m + n ≤ BETAINC_ORDERS`; NaN beyond.
///
/// Domain: `a, b ≥ 0`, not both 0 or infinite, and `0 ≤ x ≤ 1`; NaN elsewhere. 0 at x = 0 and 1 at x = 1, where
/// derivatives are 0; between, 1 for a = 0 or infinite b, and 0 for b = 0 or infinite a, where derivatives are NaN.
#[must_use]
pub fn betainc(m: u32, n: u32, a: f64, b: f64, x: f64) -> f64 {
    let outside = a.is_nan() || b.is_nan() || a < 0.0 || b < 0.0 || !(0.0..=1.0).contains(&x);
    if outside || m + n > BETAINC_ORDERS {
        return f64::NAN;
    }
    let high = a == 0.0 || b == f64::INFINITY;
    let low = b == 0.0 || a == f64::INFINITY;
    if high && low {
        return f64::NAN;
    }
    let value = m + n == 0;
    if x == 0.0 || x == 1.0 {
        return if value { x } else { 0.0 };
    }
    if high || low {
        return if value { f64::from(u8::from(high)) } else { f64::NAN };
    }
    let y = 1.0 - x;
    if x * (1.0 + b) < 1e-17 {
        return power(m, n, a, b, x);
    }
    let scores = Scores::at(m, n, a, b, x, y);
    let from_below = match (m, n) {
        // For tiny a and b the distribution has nearly all of its weight at the ends of [0, 1]; the end 0 has the
        // fraction b / (a + b).
        (0, 0) if a.max(b) < SLOW => b <= a,
        (0, 0) => difference(a, b, x, y) <= 0.0,
        _ if m >= n => scores.u + scores.shifts[0] < 0.0,
        _ => scores.v + scores.shifts[1] > 0.0,
    };
    if from_below {
        below(m, n, a, b, x, y, &scores)
    } else {
        let rest = below(n, m, b, a, y, x, &scores.mirrored());
        if value { 1.0 - rest } else { -rest }
    }
}

/// Returns the density `xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b)`, the derivative of `I(a, b, x)` in x.
///
/// Domain: `a, b ≥ 0` and `0 ≤ x ≤ 1`; NaN elsewhere. At x = 0 it is inf for a < 1, b for a = 1 and 0 beyond, and
/// likewise at x = 1; between, 0 where a or b is 0 or infinite.
#[must_use]
pub fn beta_density(a: f64, b: f64, x: f64) -> f64 {
    if a.is_nan() || b.is_nan() || a < 0.0 || b < 0.0 || !(0.0..=1.0).contains(&x) {
        return f64::NAN;
    }
    if [a, b].iter().any(|a| *a == 0.0 || *a == f64::INFINITY) {
        return 0.0;
    }
    let end = |a: f64, b: f64| match a.total_cmp(&1.0) {
        std::cmp::Ordering::Less => f64::INFINITY,
        std::cmp::Ordering::Equal => b,
        std::cmp::Ordering::Greater => 0.0,
    };
    let y = 1.0 - x;
    if x == 0.0 {
        end(a, b)
    } else if y == 0.0 {
        end(b, a)
    } else {
        let product = front(a, b, x, y);
        // xᵃ leaves the range of floats before xᵃ⁻¹ does, so use xᵃ⁻¹ / B(a, b) = xᵃ⁻¹ / B(a - 1, b) · (a + b -
        // 1) / (a - 1).
        let lower = |a: f64, b: f64, x: f64, y: f64| {
            front(a - 1.0, b, x, y) * ((a - 1.0 + b) / (a - 1.0)) / y
        };
        match product < UNDERFLOW {
            true if x < y && a > 1.0 => lower(a, b, x, y),
            true if y < x && b > 1.0 => lower(b, a, y, x),
            _ => product / x / y,
        }
    }
}

/// Returns the difference `x b - y a` for `y = 1 - x`, which is `(a + b) (x - a / (a + b))`.
fn difference(a: f64, b: f64, x: f64, y: f64) -> f64 {
    x.mul_add(b, -(y * a))
}

/// Returns `xᵃ yᵇ / (a B(a, b))` for `y = 1 - x`, with the beta function B.
fn front_over_a(a: f64, b: f64, x: f64, y: f64) -> f64 {
    match small_front(a, b, x, y) {
        Some(front) => b / (a + b) * front,
        None => front(a, b, x, y) / a,
    }
}

/// Returns `xᵃ yᵇ Γ(1 + a + b) / (Γ(1 + a) Γ(1 + b))`, which is `xᵃ yᵇ (a + b) / (a b B(a, b))`, for `y = 1 - x`;
/// `None` unless a and b are small.
fn small_front(a: f64, b: f64, x: f64, y: f64) -> Option<f64> {
    let (ln_x, ln_y) = logarithms(x, y);
    let ln_gamma = |a: f64| lgamma(1.0 + a);
    let ratio = || ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    (a.max(b) < SLOW).then(|| exp(a * ln_x + b * ln_y + ratio()))
}

/// Returns `ln x` and `ln y`, where `x + y = 1`, each from the smaller of x and y.
fn logarithms(x: f64, y: f64) -> (f64, f64) {
    let ln_x = if x < 0.5 { log(x) } else { log1p(-y) };
    let ln_y = if y < 0.5 { log(y) } else { log1p(-x) };
    (ln_x, ln_y)
}

/// Returns `xᵃ yᵇ / B(a, b)` for `y = 1 - x`, with the beta function B.
fn front(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if let Some(front) = small_front(a, b, x, y) {
        return a * (b / (a + b)) * front;
    }
    let (c, d) = (a + b, difference(a, b, x, y));
    gamma_front(a, x * c, d) * (gamma_front(b, y * c, -d) / gamma_front(c, c, 0.0))
}

/// The scores at x (the derivatives of ln p in a and b, for the density p), and the derivatives of the scores in a and
/// b, which do not depend on the integration variable.
///
/// For a < 1 they are the scores of the density divided by a, and likewise for b, because `1/a` and its powers
/// would cancel in the polynomial.
struct Scores {
    /// The first number is `1/a` if a < 1, otherwise 0. The second number is `1/b` if b < 1, otherwise 0.
    shifts: [f64; 2],
    u: f64,
    v: f64,
    /// `slopes[m][n]` is `∂ᵐ⁺ⁿ ln p / ∂aᵐ∂bⁿ` of the density p, for `m + n ≥ 2`.
    slopes: [[f64; ORDERS]; ORDERS],
}

impl Scores {
    /// Computes the scores at x, and their derivatives up to the orders that the derivative of order (m, n)
    /// needs.
    fn at(m: u32, n: u32, a: f64, b: f64, x: f64, y: f64) -> Scores {
        let mut slopes = [[0.0; ORDERS]; ORDERS];
        if m + n == 0 {
            return Scores { shifts: [0.0; 2], u: 0.0, v: 0.0, slopes };
        }
        // Returns ψ⁽ᵏ⁾(a + b) - ψ⁽ᵏ⁾(a), with ψ⁽ᵏ⁾(a + 1) in place of ψ⁽ᵏ⁾(a) if a < 1.
        let rise = |k: u32, a: f64, b: f64| {
            if a < 1.0 {
                polygamma(k, a + b) - polygamma(k, a + 1.0)
            } else {
                polygamma_rise(k, a, b)
            }
        };
        let order = (m + n) as usize;
        for i in 2..=order {
            let k = i as u32 - 1;
            slopes[i][0] = rise(k, a, b);
            slopes[0][i] = rise(k, b, a);
            let mixed = polygamma(k, a + b);
            (1..i).for_each(|j| slopes[i - j][j] = mixed);
        }
        let (ln_x, ln_y) = logarithms(x, y);
        let shifts = [a, b].map(|a| if a < 1.0 { 1.0 / a } else { 0.0 });
        Scores { shifts, u: ln_x + rise(0, a, b), v: ln_y + rise(0, b, a), slopes }
    }

    /// Returns the scores of the function with a and b exchanged.
    fn mirrored(self) -> Scores {
        let mut slopes = [[0.0; ORDERS]; ORDERS];
        for (i, row) in slopes.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(j, slope)| *slope = self.slopes[j][i]);
        }
        let [a, b] = self.shifts;
        Scores { shifts: [b, a], u: self.v, v: self.u, slopes }
    }

    /// Returns the derivative of order (m, n) of the density, divided by the density, where the scores are u and v. Let
    /// W(i, j) be the derivative of order i in a and j in b of the density divided by the product `a b`. By the product
    /// rule, the derivative of order (m, n) of the density itself is `a b` times
    /// `W(m, n) + m/a W(m - 1, n) + n/b W(m, n - 1) + m n / (a b) W(m - 1, n - 1)`.
    fn weight(&self, m: u32, n: u32, u: f64, v: f64) -> f64 {
        let [a, b] = self.shifts;
        match (m, n) {
            (0, 0) => return 1.0,
            (1, 0) => return u + a,
            (0, 1) => return v + b,
            _ => {}
        }
        let w = self.bell(m as usize, n as usize, u, v);
        let (i, j) = (m as usize, n as usize);
        let mut sum = w[i][j];
        if m > 0 && a > 0.0 {
            sum += f64::from(m) * a * w[i - 1][j];
        }
        if n > 0 && b > 0.0 {
            sum += f64::from(n) * b * w[i][j - 1];
        }
        if m > 0 && n > 0 && a > 0.0 && b > 0.0 {
            sum += f64::from(m * n) * (a * b) * w[i - 1][j - 1];
        }
        sum
    }

    /// Returns the complete Bell polynomials W up to order (m, n) at the scores u and v, by
    /// `W(i + 1, j) = Σ binom(i, k) binom(j, l) W(i - k, j - l) slope(k + 1, l)`, where the slope of order (i, j) is
    /// the derivative of ln p, i times in a and j times in b.
    fn bell(&self, m: usize, n: usize, u: f64, v: f64) -> [[f64; ORDERS]; ORDERS] {
        let slope = |i: usize, j: usize| match (i, j) {
            (1, 0) => u,
            (0, 1) => v,
            _ => self.slopes[i][j],
        };
        let mut w = [[0.0; ORDERS]; ORDERS];
        w[0][0] = 1.0;
        for i in 0..=m {
            for j in 0..=n {
                w[i][j] = match (i, j) {
                    (0, 0) => 1.0,
                    (0, _) => {
                        (0..j).map(|l| BINOMIAL[j - 1][l] * w[0][j - 1 - l] * slope(0, l + 1)).sum()
                    }
                    _ => {
                        let mut sum = 0.0;
                        for k in 0..i {
                            for l in 0..=j {
                                sum += BINOMIAL[i - 1][k]
                                    * BINOMIAL[j][l]
                                    * w[i - 1 - k][j - l]
                                    * slope(k + 1, l);
                            }
                        }
                        sum
                    }
                };
            }
        }
        w
    }
}

/// Pascal's triangle: `BINOMIAL[n][k]` is `binom(n, k)`.
const BINOMIAL: [[f64; ORDERS]; ORDERS] = [
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 0.0, 0.0, 0.0],
    [1.0, 2.0, 1.0, 0.0, 0.0],
    [1.0, 3.0, 3.0, 1.0, 0.0],
    [1.0, 4.0, 6.0, 4.0, 1.0],
];

/// Returns the integral from 0 to x of the derivative `∂ᵐ⁺ⁿp/∂aᵐ∂bⁿ` of the density p, for an x on the left of
/// most of the density's weight.
fn below(m: u32, n: u32, a: f64, b: f64, x: f64, y: f64, scores: &Scores) -> f64 {
    if m + n == 0 && a < SLOW {
        // In the variable s with t = x e⁻ˢ, the integrand for small a decreases on the scale 1/a, but because of b it
        // may rise on the scale y. Use the recurrence `I(a, b) = xᵃ yᵇ / (a B(a, b)) + I(a + 1, b)` instead.
        return front_over_a(a, b, x, y) + below(m, n, a + 1.0, b, x, y, scores);
    }
    let odds = x / y;
    // In the variable s with t = x e⁻ˢ, the logarithm of the integrand decreases at this rate at s = 0, and faster and
    // faster for b > 1.
    let rate = (x - difference(a, b, x, y)) / y;
    let curvature = (b - 1.0).max(0.0) * x / y / y;
    // The integrand has a singularity where 1 - t = 0. There s = ln x, which is negative and so not on the path from 0
    // to infinity.
    let singular = if x < 0.5 { log(x) } else { log1p(-y) };
    let scale = (1.0 / rate.max(curvature.sqrt())).min(-singular);
    let integrand = |s: f64| {
        let z = -expm1(-s) * odds;
        let log = log1p(z);
        let power = if b < 1.0 {
            -a * s + (b - 1.0) * log
        } else {
            -rate * s - (b - 1.0) * (odds * exp_excess(s) + log_excess(z))
        };
        exp(power) * scores.weight(m, n, scores.u - s, scores.v + log)
    };
    front(a, b, x, y) / y * half_line(scale, integrand)
}

/// For a parameter `a` below this number, the function `I(a, b, x)` itself is not integrated numerically: its integrand
/// varies on two scales, and the quadrature is fitted to one scale.
const SLOW: f64 = 0.05;

/// Returns the derivative, of order m in a and n in b, of the incomplete beta function `I(a, b, x)` for small x. The
/// factor `(1 - t)ᵇ⁻¹` of its integrand must round to 1 for all t up to x. The function is then
/// `xᵃ Γ(a + b) / (Γ(a + 1) Γ(b))`.
fn power(m: u32, n: u32, a: f64, b: f64, x: f64) -> f64 {
    let mut scores = Scores::at(m, n, a, b, x, 1.0);
    // `Scores` describes a density with the factor Γ(a). This formula has the factor Γ(a + 1) instead, so the score in
    // a is that for a + 1, and its correction, `shifts[0]`, is 0.
    if m > 0 {
        scores.shifts[0] = 0.0;
        scores.u = log(x) + polygamma(0, a + b) - polygamma(0, a + 1.0);
        for i in 2..=m as usize {
            let k = i as u32 - 1;
            scores.slopes[i][0] = polygamma(k, a + b) - polygamma(k, a + 1.0);
        }
    }
    front_over_a(a, b, x, 1.0) * scores.weight(m, n, scores.u, scores.v)
}
