//! The incomplete gamma functions `P(a, x) = 1/Γ(a) ∫₀ˣ tᵃ⁻¹ e⁻ᵗ dt` and `Q = 1 - P`, and derivatives in a.
//!
//! A derivative in a is an integral of the density `p(t) = tᵃ⁻¹ e⁻ᵗ / Γ(a)` times a polynomial in its score
//! `u = ∂ ln p / ∂a = ln t - ψ(a)`:
//!
//! ```text
//! ∂P/∂a = ∫₀ˣ p u dt = -∫ₓ^∞ p u dt       ∂²P/∂a² = ∫₀ˣ p (u² - ψ'(a)) dt      and so on.
//! ```
//!
//! The score is negative below `exp ψ(a)` and positive above. So the integrand has one sign on the side of `exp ψ(a)`
//! that contains x, and the first derivative and the value are relatively accurate everywhere. For x ≤ 1, a power
//! series in x, a Taylor polynomial in a, replaces the integral.
//!
//! The factor `xᵃ e⁻ˣ` is taken out of the integral, and the remaining integrand is written in terms that do
//! not cancel (`excess`), so that large a are no less accurate than small ones.
//!
//! | x | value |
//! |---|---|
//! | up to 1 | series |
//! | below `exp ψ(a)` | `t = x e⁻ˢ`, s from 0 to infinity |
//! | above | `t = x (1 + w)`, w from 0 to infinity |
//!
//! Source of the density's form: Temme, "The asymptotic expansion of the incomplete gamma functions" (1979).

use super::excess::{exp_excess, log_excess};
use super::gamma::{ln_minus_digamma, polygamma, stirling};
use super::half_line::half_line;
use super::{exp, expm1, log, log1p, pow};
use std::f64::consts::TAU;

/// The highest order of the derivatives of `gammainc` in a.
pub const GAMMAINC_ORDERS: u32 = 4;
/// The number of orders of derivatives: 0 to [`GAMMAINC_ORDERS`].
const ORDERS: usize = GAMMAINC_ORDERS as usize + 1;

/// Returns the n-th derivative of `P(a, x)` in a, for `n ≤ GAMMAINC_ORDERS`; NaN beyond.
///
/// Domain: `a ≥ 0`, `x ≥ 0`, not both 0 or infinite; NaN elsewhere. `P(0, x) = 1`, where derivatives are NaN;
/// `P(a, 0) = P(∞, x) = 0` and `P(a, ∞) = 1`, where derivatives are 0.
#[must_use]
pub fn gammainc(n: u32, a: f64, x: f64) -> f64 {
    if let Some(edge) = edge(n, a, x) {
        return edge;
    }
    if x <= 1.0 {
        return near_zero(n, a, x);
    }
    let score = Score::of_density(n, a, x);
    if score.is_below(n, a, x) {
        below(n, a, x, score)
    } else if n == 0 {
        1.0 - above(n, a, x, score)
    } else {
        -above(n, a, x, score)
    }
}

/// Returns `Q(a, x) = 1 - P(a, x)`, without the cancellation of this difference.
///
/// Domain and edges: as for [`gammainc`], with 0 and 1 exchanged.
#[must_use]
pub fn gammaincc(a: f64, x: f64) -> f64 {
    if let Some(edge) = edge(0, a, x) {
        return 1.0 - edge;
    }
    if x <= 1.0 {
        return complement_near_zero(a, x);
    }
    let score = Score::of_density(0, a, x);
    if score.is_below(0, a, x) { 1.0 - below(0, a, x, score) } else { above(0, a, x, score) }
}

/// Products below this bound may have lost digits by underflow.
pub(super) const UNDERFLOW: f64 = 1e-290;

/// Returns the density `xᵃ⁻¹ e⁻ˣ / Γ(a)`, the derivative of `P(a, x)` in x.
///
/// Domain: `a ≥ 0`, `x ≥ 0`. At x = 0 it is inf for a < 1, 1 for a = 1 and 0 beyond; 0 for a = 0 and at inf.
#[must_use]
pub fn gamma_density(a: f64, x: f64) -> f64 {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return f64::NAN;
    }
    if a == 0.0 || a == f64::INFINITY || x == f64::INFINITY {
        return 0.0;
    }
    if x == 0.0 {
        return match a.total_cmp(&1.0) {
            std::cmp::Ordering::Less => f64::INFINITY,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        };
    }
    let front = gamma_front(a, x, x - a);
    if front < UNDERFLOW && x < 1.0 {
        // xᵃ leaves the range of floats before xᵃ⁻¹ does, so compute the power a - 1 directly.
        return match a >= 1.0 {
            true => power_over_gamma(a - 1.0, x, x - (a - 1.0)),
            false => pow(x, a - 1.0) * exp(-x) / libm::tgamma(a),
        };
    }
    front / x
}

/// Returns the value at the edges of the domain and NaN outside it; `None` if the value must be computed.
fn edge(n: u32, a: f64, x: f64) -> Option<f64> {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 || n > GAMMAINC_ORDERS {
        return Some(f64::NAN);
    }
    let low = x == 0.0 || a == f64::INFINITY;
    let high = x == f64::INFINITY || a == 0.0;
    match (low, high) {
        (false, false) => None,
        (true, true) => Some(f64::NAN),
        _ if n > 0 => Some(if a == 0.0 { f64::NAN } else { 0.0 }),
        (_, high) => Some(if high { 1.0 } else { 0.0 }),
    }
}

/// The score at x (the derivative of ln p in a, for the density p), and the derivatives of the score in a, which do
/// not depend on the integration variable.
///
/// For a < 1 they belong to `r = tᵃ⁻¹ e⁻ᵗ / Γ(a + 1)`. The density is `a r`, so its derivatives are
/// `a r⁽ⁿ⁾ + n r⁽ⁿ⁻¹⁾`. With the score of the density itself, `1/a` and its powers would cancel in the
/// polynomial.
#[derive(Clone, Copy)]
struct Score {
    /// The parameter a if it is below 1, otherwise `None`.
    small: Option<f64>,
    u: f64,
    slopes: [f64; ORDERS - 2],
}

impl Score {
    /// Returns the score of `tᵃ⁻¹ e⁻ᵗ / Γ(a)` at x, with the derivatives that order n needs.
    fn of_density(n: u32, a: f64, x: f64) -> Score {
        if n == 0 {
            return Score { small: None, u: 0.0, slopes: [0.0; ORDERS - 2] };
        }
        if a < 1.0 {
            return Score::after(Some(a), n, a + 1.0, x);
        }
        // `u` is ln x - ψ(a). Compute it as ln(x/a) + (ln a - ψ(a)), because ln x and ψ(a) would cancel for large a.
        let z = (x - a) / a;
        let log = if z.abs() < 0.5 { log1p(z) } else { log(x) - log(a) };
        Score { small: None, u: log + ln_minus_digamma(a), slopes: Score::slopes(n, a) }
    }

    /// Returns the score of `tᵃ⁻¹ e⁻ᵗ / Γ(b)` at x, where b is a or a + 1.
    fn after(small: Option<f64>, n: u32, b: f64, x: f64) -> Score {
        Score { small, u: log(x) - polygamma(0, b), slopes: Score::slopes(n, b) }
    }

    /// Returns the derivatives of the score in a, `-ψ'(a), -ψ''(a), …`, as far as order n needs them.
    fn slopes(n: u32, a: f64) -> [f64; ORDERS - 2] {
        let mut slopes = [0.0; ORDERS - 2];
        for (k, slope) in (1..n).zip(&mut slopes) {
            *slope = -polygamma(k, a);
        }
        slopes
    }

    /// Returns whether the integral from 0 to x is computed, not the one from x to infinity, for x > 1; always
    /// false for small a with n > 0.
    fn is_below(self, n: u32, a: f64, x: f64) -> bool {
        if n == 0 { x < a - 0.5 } else { self.small.is_none() && self.u < 0.0 }
    }

    /// Returns `p⁽ⁿ⁾ / p` where the score is u: the n-th derivative in a of the density p, divided by p. For small a,
    /// returns `p⁽ⁿ⁾ / r`, with the function r of [`Score`].
    fn weight(self, n: u32, u: f64) -> f64 {
        match self.small {
            Some(a) => a * self.bell(n, u) + f64::from(n) * self.bell(n - 1, u),
            None => self.bell(n, u),
        }
    }

    /// Returns the complete Bell polynomial of order n in the score u and its derivatives.
    fn bell(self, n: u32, u: f64) -> f64 {
        let [s, t, v] = self.slopes;
        match n {
            0 => 1.0,
            1 => u,
            2 => u * u + s,
            3 => u * (u * u + 3.0 * s) + t,
            _ => u * (u * (u * u + 6.0 * s) + 4.0 * t) + (3.0 * s * s + v),
        }
    }
}

/// Returns `∫₀ˣ p⁽ⁿ⁾ dt` for `x < exp ψ(a)`, with the n-th derivative p⁽ⁿ⁾ of the density in a. With `t = x e⁻ˢ` the
/// integrand for n = 0 is, up to a factor, `exp(-a s + x (1 - e⁻ˢ)) = exp(-(a - x) s - x (e⁻ˢ - 1 + s))`.
fn below(n: u32, a: f64, x: f64, score: Score) -> f64 {
    let rate = a - x;
    let integrand = |s: f64| exp(-rate * s - x * exp_excess(s)) * score.weight(n, score.u - s);
    gamma_front(a, x, x - a) * half_line(1.0 / rate.max(x.sqrt()), integrand)
}

/// Returns `∫ₓ^∞ p⁽ⁿ⁾ dt` for `x > exp ψ(a)` and `x > 1`, with the n-th derivative p⁽ⁿ⁾ of the density in a. With
/// `t = x (1 + w)` the integrand for n = 0 is, up to a factor,
/// `(1 + w)ᵃ⁻¹ e⁻ˣʷ = exp(-(x - a + 1) w - (a - 1) (w - ln(1 + w)))`.
fn above(n: u32, a: f64, x: f64, score: Score) -> f64 {
    let rate = x - a + 1.0;
    let integrand = |w: f64| {
        let weight = if n == 0 { 1.0 } else { score.weight(n, score.u + log1p(w)) };
        exp(-rate * w - (a - 1.0) * log_excess(w)) * weight
    };
    let front = power_over_gamma(a, x, x - a) * if score.small.is_some() { 1.0 } else { a };
    front * half_line(1.0 / rate.max(x.sqrt()), integrand)
}

/// Returns `∂ⁿP/∂aⁿ` for `x ≤ 1` by the series `P = xᵃ e⁻ˣ / Γ(a + 1) · Σₖ xᵏ / ((a + 1) … (a + k))`, with both
/// factors as Taylor polynomials in a.
fn near_zero(n: u32, a: f64, x: f64) -> f64 {
    let n = n as usize;
    let mut term = [1.0, 0.0, 0.0, 0.0, 0.0];
    let mut sum: [f64; ORDERS] = term;
    for k in 1..60 {
        // `factor` is x / (a + k) as a Taylor polynomial in a.
        let reciprocal = 1.0 / (a + f64::from(k));
        let mut factor = [x * reciprocal; ORDERS];
        for i in 1..=n {
            factor[i] = -factor[i - 1] * reciprocal;
        }
        term = times(n, &term, &factor);
        (0..=n).for_each(|i| sum[i] += term[i]);
        if (0..=n).all(|i| term[i].abs() <= sum[i].abs() * (f64::EPSILON / 64.0)) {
            break;
        }
    }
    let mut front = [1.0, 0.0, 0.0, 0.0, 0.0];
    if n > 0 {
        let score = Score::after(None, n as u32, a + 1.0, x);
        let mut factorial = 1.0;
        for (i, slot) in (1..=n as u32).zip(&mut front[1..]) {
            factorial *= f64::from(i);
            *slot = score.weight(i, score.u) / factorial;
        }
    }
    let factorial: f64 = (1..=n).map(|i| i as f64).product();
    factorial * power_over_gamma(a, x, x - a) * times(n, &front, &sum)[n]
}

/// Returns the product of two Taylor polynomials, truncated after the power n.
fn times(n: usize, x: &[f64; ORDERS], y: &[f64; ORDERS]) -> [f64; ORDERS] {
    let mut product = [0.0; ORDERS];
    for i in 0..=n {
        product[i] = (0..=i).map(|j| x[j] * y[i - j]).sum();
    }
    product
}

/// Returns `1 - P(a, x)` for `x ≤ 1`. With `P = F S` and `F = xᵃ / Γ(a + 1)`, the result is
/// `(1 - F) - F (S - 1)`, where `S - 1 = Σₖ (-x)ᵏ / k! · a / (a + k)`. For small a both terms are proportional
/// to a.
fn complement_near_zero(a: f64, x: f64) -> f64 {
    let p = near_zero(0, a, x);
    if p < 0.5 {
        return 1.0 - p;
    }
    let log = a * log(x) - lgamma_1p(a);
    let (mut power, mut sum) = (1.0, 0.0);
    for k in 1..30 {
        let k = f64::from(k);
        power *= -x / k;
        let term = power * (a / (a + k));
        sum += term;
        if term.abs() <= sum.abs() * (f64::EPSILON / 64.0) {
            break;
        }
    }
    -expm1(log) - exp(log) * sum
}

/// Returns `ln Γ(1 + a)` for `a ≥ 0`, with relative accuracy for small a.
fn lgamma_1p(a: f64) -> f64 {
    /// The coefficient of a, `1 - γ`, with Euler's constant γ.
    const FIRST: f64 = 0.422_784_335_098_467_13;
    /// The numbers `ζ(k) - 1` for k = 2, 3, …
    const ZETA_MINUS_ONE: [f64; 26] = [
        0.644_934_066_848_226_4,
        0.202_056_903_159_594_3,
        0.082_323_233_711_138_19,
        0.036_927_755_143_369_93,
        0.017_343_061_984_449_14,
        0.008_349_277_381_922_827,
        0.004_077_356_197_944_34,
        0.002_008_392_826_082_214_3,
        9.945_751_278_180_853e-4,
        4.941_886_041_194_645e-4,
        2.460_865_533_080_483e-4,
        1.227_133_475_784_891_5e-4,
        6.124_813_505_870_483e-5,
        3.058_823_630_702_049e-5,
        1.528_225_940_865_187e-5,
        7.637_197_637_899_763e-6,
        3.817_293_264_999_84e-6,
        1.908_212_716_553_939e-6,
        9.539_620_338_727_962e-7,
        4.769_329_867_878_064e-7,
        2.384_505_027_277_33e-7,
        1.192_199_259_653_110_6e-7,
        5.960_818_905_125_948e-8,
        2.980_350_351_465_228e-8,
        1.490_155_482_836_504_3e-8,
        7.450_711_789_835_43e-9,
    ];
    if a > 0.5 {
        return super::gamma::lgamma(1.0 + a);
    }
    // The series ln Γ(1 + a) = -ln(1 + a) + (1 - γ) a + Σₖ (ζ(k) - 1) (-a)ᵏ / k.
    let mut sum = 0.0;
    for (i, c) in ZETA_MINUS_ONE.iter().enumerate().rev() {
        sum = c / (i + 2) as f64 - a * sum;
    }
    a * (FIRST + a * sum) - log1p(a)
}

/// Returns `xᵃ e⁻ˣ / Γ(a)` for positive a and x, given `d = x - a`.
pub(super) fn gamma_front(a: f64, x: f64, d: f64) -> f64 {
    a * power_over_gamma(a, x, d)
}

/// Returns `xᵃ e⁻ˣ / Γ(a + 1)` for positive a and x, given `d = x - a`.
fn power_over_gamma(a: f64, x: f64, d: f64) -> f64 {
    if a >= 10.0 {
        // By Stirling's formula the result is about (x/a)ᵃ eᵃ⁻ˣ / √(2πa).
        let scale = exp(-stirling(a)) / (TAU * a).sqrt();
        let z = d / a;
        if z.abs() < 0.4 {
            // The logarithm of (x/a)ᵃ eᵃ⁻ˣ is a ln(x/a) - d, written so that nothing cancels.
            return scale * exp(-a * log_excess(z));
        }
        let half = pow(x, 0.5 * a);
        if a < 250.0 && d.abs() < 700.0 && half.is_finite() {
            // Compute the square root of the result first: it is a normal number, although eᵃ⁻ˣ or xᵃ may not be.
            let root = half / pow(a, 0.5 * a) * exp(-0.5 * d);
            return scale * root * root;
        }
        return scale * exp(a * log(x / a) - d);
    }
    let gamma = libm::tgamma(a + 1.0);
    if x < 700.0 {
        return pow(x, a) * exp(-x) / gamma;
    }
    if x > 1e4 {
        return 0.0;
    }
    let root = pow(x, 0.5 * a) * exp(-0.5 * x);
    root * (root / gamma)
}
