//! Special functions of probability and information theory, element by element, composed from the primitives.
//!
//! Where a formula would overflow, cancel or divide by zero, another formula is used. The argument of each formula
//! is replaced by a harmless number where the formula is not used, so that derivatives are right everywhere.

use super::composite::{number, of_floats};
use super::select;
use crate::Var;
use crate::var::{IntoVar, caller};
use std::f64::consts::{LOG2_E, PI};
use tapeloom_ir::Dtype;

/// Special functions.
impl Var {
    /// Returns sin(πx) / (πx), and 1 at 0. Derivatives of every order are right, also at 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let curvature = run(grad(grad(|x: Var| x.sinc())), 0.0)?.item::<f64>()?;
    /// let pi = std::f64::consts::PI;
    /// assert!((curvature + pi * pi / 3.0).abs() < 1e-14);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn sinc(self) -> Var {
        of_floats("sinc", [self], caller(), |[x]| {
            let u = x * PI;
            let near = u.abs().lt(1.0);
            // With u = π x: near 0, use the series Σ (-1)ᵏ u²ᵏ / (2k + 1)! of sin u / u, whose derivatives do not
            // cancel.
            let mut series = vec![1.0];
            for k in 1..13 {
                let k = f64::from(k);
                series.push(-series[series.len() - 1] / ((2.0 * k) * (2.0 * k + 1.0)));
            }
            series.reverse();
            let inside = horner(select(near, u, 0.0).square(), &series);
            let outside = select(near, 1.0, u);
            select(near, inside, outside.sin() / outside)
        })
    }

    /// Returns x ln y. For x = 0 the result is 0 for every y.
    ///
    /// The derivative with respect to x is ln y. For x = 0, the derivative with respect to y is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.xlogy(x), [0.0, 1.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn xlogy(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("xlogy", [self, y], at, |[x, y]| times_log(x, y, 1.0, Var::ln))
    }

    /// Returns x ln(1 + y), accurate for small y. For x = 0 the result is 0 for every y.
    ///
    /// The derivative with respect to x is ln(1 + y). For x = 0, the derivative with respect to y is 0.
    #[track_caller]
    pub fn xlog1py(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("xlog1py", [self, y], at, |[x, y]| times_log(x, y, 0.0, Var::ln_1p))
    }

    /// Returns -x ln x, one term of an entropy: 0 at 0 (where its derivative is inf), -inf for x < 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let h = run(|p: Var| p.entr().sum(), [0.5, 0.5, 0.0])?;
    /// assert_eq!(h.item::<f64>()?, 2f64.ln());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn entr(self) -> Var {
        of_floats("entr", [self], caller(), |[x]| {
            let (below, end) = (x.lt(0.0), x.eq(f64::INFINITY));
            let inside = select(below | end, 1.0, x);
            let inside = 0.0 - times_log(inside, inside, 1.0, Var::ln);
            // At x = inf, the derivative of the product contains inf · 0. Use -x² instead, whose value and derivative
            // at inf are those of -x ln x.
            let inside = select(end, -x.square(), inside);
            select(below, f64::NEG_INFINITY, inside)
        })
    }

    /// Returns (xᵖ - 1) / p, the Box-Cox transformation, and ln x for p = 0, without cancellation for small p. For
    /// negative x, the value and the derivatives are nan.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, p): (Var, Var)| x.boxcox(p);
    /// assert_eq!(run(f, ([4.0, 4.0], [0.5, 0.0]))?.to_vec::<f64>()?, [2.0, 4f64.ln()]);
    /// check_grads(f, ([4.0, 0.3, 2.0], [0.5, 0.0, -1.5]), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn boxcox(self, p: impl IntoVar) -> Var {
        let at = caller();
        let p = p.beside(self, at);
        of_floats("boxcox", [self, p], at, |[x, p]| {
            // With u = p ln x the value is ln x (eᵘ - 1) / u; near 0 use the series Σ uᵏ / (k + 1)!.
            let ends = x.eq(0.0) | x.eq(f64::INFINITY);
            let end = ends & p.eq(0.0);
            let near = (p * x.ln()).stop_gradient().abs().lt(0.5) | end;
            let log = select(near, x, 1.0).ln();
            let u = select(end, 0.0, select(near, p, 0.0)) * select(end, 0.0, log);
            let mut series = vec![1.0];
            for k in 2..16 {
                series.push(series[series.len() - 1] / f64::from(k));
            }
            series.reverse();
            // At ln x = ±∞ and p = 0, the derivative with respect to p, (ln x)² / 2, is infinite. Add √p, which has the
            // value 0 and an infinite derivative there.
            let slope = select(end, select(end, p, 1.0).sqrt(), 0.0);
            let close = log * horner(u, &series) + slope;
            let (x, p, negative) = (select(near, 4.0, x), select(near, 1.0, p), x.lt(0.0));
            let power = (select(negative, 1.0, x).pow(p) - 1.0) / p;
            // Where x is negative, multiply by nan, so that the derivatives with respect to x and p are nan as well.
            let [x, p] = [x, p].map(|x| select(negative, x, 0.0));
            let outside = x * p * select(negative, number(x, f64::NAN), 0.0);
            select(near, close, select(negative, outside, power))
        })
    }

    /// Returns ln(x / (1 - x)), the inverse of [`sigmoid`](Var::sigmoid), without cancellation near 1/2: -inf at 0,
    /// inf at 1, nan outside [0, 1].
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.sigmoid().logit(), [0.0, 1e-9])?;
    /// assert!((y.to_vec::<f64>()?[1] - 1e-9).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn logit(self) -> Var {
        of_floats("logit", [self], caller(), |[x]| {
            let off = x - 0.5;
            let middle = off.abs().lt(0.25);
            let inside = 2.0 * (2.0 * select(middle, off, 0.0)).atanh();
            let outside = select(middle, 0.25, x);
            select(middle, inside, outside.ln() - (-outside).ln_1p())
        })
    }

    /// Returns ln Φ(x). The result is right even where Φ underflows.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let slope = run(grad(|x: Var| x.log_ndtr()), -1e4)?.item::<f64>()?;
    /// assert!((slope - 1e4 - 1e-4).abs() < 1e-10);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn log_ndtr(self) -> Var {
        let at = caller();
        of_floats("log_ndtr", [self], at, |[x]| {
            // The largest x for which the series of the lower tail is used, and the number of its terms. At this x the
            // series has all digits of the dtype, and 1/Φ² in the derivative of ln Φ does not overflow yet.
            let (far, terms) = if x.ty(at).dtype == Dtype::F32 { (-8.5, 8) } else { (-12.0, 13) };
            let (right, left) = (x.gt(-1.0), x.lt(far));
            // Φ(-x) on the right, and Φ(x) between the tail and -1.
            let value = select(right, -x, select(left, -1.0, x)).ndtr();
            let upper = (-select(right, value, 0.0)).ln_1p();
            // In the lower tail, use the asymptotic series Φ(x) = φ(x) / -x · Σ (-1)ᵏ (2k - 1)!! / x²ᵏ, where φ is the
            // normal density.
            let tail = select(left, x, far);
            let by = tail.recip();
            let mut series = vec![1.0];
            for k in 1..terms {
                series.push(-series[series.len() - 1] * f64::from(2 * k - 1));
            }
            series.reverse();
            let ratio = -by * horner(by.square(), &series);
            let density = -0.5 * tail.square() - 0.5 * (2.0 * PI).ln();
            let lower = select(right, 1.0, select(left, ratio, value)).ln();
            select(right, upper, lower + select(left, density, 0.0))
        })
    }

    /// Returns Φ⁻¹(p), the quantile function of the normal distribution: -inf at 0, inf at 1, nan outside [0, 1].
    ///
    /// It uses the rational approximations of the Cephes library, with a relative error of 1e-15 except near p = 1/2.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let x = run(|p: Var| p.ndtri(), [0.5, 0.975])?.to_vec::<f64>()?;
    /// assert!(x[0] == 0.0 && (x[1] - 1.959963984540054).abs() < 1e-14);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "norm.ppf")]
    #[track_caller]
    pub fn ndtri(self) -> Var {
        of_floats("ndtri", [self], caller(), |[p]| {
            // The upper tail is the mirror image of the lower one, so map p to 1 - p.
            let upper = p.gt(1.0 - MIDDLE);
            let q = select(upper, 1.0 - p, p);
            let (tail, edge) = (q.le(MIDDLE), q.le(0.0));
            let w = select(tail, 0.0, q - 0.5);
            let ratio = horner(w.square(), &quantile::P0) / horner(w.square(), &quantile::Q0);
            let middle = (2.0 * PI).sqrt() * (w + w * w.square() * ratio);
            let z = (-2.0 * select(tail & !edge, q, MIDDLE).ln()).sqrt();
            let far = z.ge(8.0);
            let near =
                |p: &[f64], q: &[f64], z: Var| horner(z.recip(), p) / horner(z.recip(), q) / z;
            let ratio = select(
                far,
                near(&quantile::P2, &quantile::Q2, select(far, z, 8.0)),
                near(&quantile::P1, &quantile::Q1, select(far, 8.0, z)),
            );
            let tails = ratio - (z - z.ln() / z);
            let end = select(q.eq(0.0), f64::NEG_INFINITY, number(q, f64::NAN));
            let left = select(edge, end, select(tail, tails, middle));
            select(upper, -left, left)
        })
    }

    /// Returns ln |B(x, y)| = ln |Γ(x) Γ(y) / Γ(x + y)|. Values and derivatives have no cancellation for large
    /// operands or a small one. The result is ∞ if an operand is 0, even if the other one is ∞, and -∞ for x > 0
    /// and y = ∞.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.betaln(3.0), 2.0)?.item::<f64>()?;
    /// assert!((y - (1.0f64 / 12.0).ln()).abs() < 1e-14);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn betaln(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("betaln", [self, y], at, |[x, y]| log_beta(x, y))
    }

    /// Returns B(x, y) = Γ(x) Γ(y) / Γ(x + y).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.beta(3.0), 2.0)?.item::<f64>()?;
    /// assert!((y - 1.0 / 12.0).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn beta(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("beta", [self, y], at, |[x, y]| {
            // Γ is negative in every second interval between its poles, beginning with (-1, 0).
            let negative = |x: Var| x.lt(0.0) & x.floor().rem(2.0).ne(0.0);
            let minus = negative(x).ne(negative(y)).ne(negative(x + y));
            let size = log_beta(x, y).exp();
            select(minus, -size, size)
        })
    }

    /// Returns ln Γ_d(x), the logarithm of the multivariate gamma function: d (d - 1)/4 ln π + Σ ln Γ(x - k/2) over k <
    /// d, for x > (d - 1)/2; nan elsewhere.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (y, slope) = run(value_and_grad(|x: Var| x.multigammaln(2)), 1.5)?;
    /// let want = 0.5 * std::f64::consts::PI.ln() + 0.5 * (std::f64::consts::PI / 4.0).ln();
    /// assert!((y.item::<f64>()? - want).abs() < 1e-15 && slope.item::<f64>()? < 0.0);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "mvlgamma", alias = "multivariate_gamma")]
    #[track_caller]
    pub fn multigammaln(self, d: u32) -> Var {
        of_floats("multigammaln", [self], caller(), |[x]| {
            let d = f64::from(d);
            let sound = x.gt(0.5 * (d - 1.0));
            let inside = select(sound, x, d);
            let constant = 0.25 * d * (d - 1.0) * PI.ln();
            let mut sum = x.zeros_like();
            let mut k = 0.0;
            while k < d {
                sum += (inside - 0.5 * k).lgamma();
                k += 1.0;
            }
            select(sound, sum + constant, number(x, f64::NAN))
        })
    }

    /// Returns log₂(2ˣ + 2ʸ), without overflow.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.logaddexp2(x), [3.0, 1e300])?;
    /// assert_eq!(y.to_vec::<f64>()?, [4.0, 1e300]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2(self, y: impl IntoVar) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        of_floats("logaddexp2", [self, y], at, |[x, y]| {
            // The result is the larger operand plus the contribution of the smaller one. With either order of the
            // operands this is the same analytic function, so derivatives are right for equal operands, too.
            let above = x.ge(y);
            let (large, small) = (select(above, x, y), select(above, y, x));
            // If both operands are the same infinity, set their difference, which would be nan, to 0.
            let meet = x.eq(y) & !x.is_finite();
            let off = select(meet, 0.0, small - large);
            large + off.exp2().ln_1p() * LOG2_E
        })
    }
}

/// Returns x · log(y), and 0 for x = 0. The function `log` is 0 at `one`.
///
/// If x = 0 and the logarithm is infinite, the product rule gives nan. There the product is replaced by √x times
/// the sign of the logarithm, which is 0 and has the right infinite derivative.
fn times_log(x: Var, y: Var, one: f64, log: fn(Var) -> Var) -> Var {
    let zero = x.eq(0.0) & !log(y).is_finite();
    let rising = log(y).gt(0.0);
    let root = select(zero, x, 1.0).sqrt();
    let root = select(rising, root, 0.0 - root);
    let nowhere = zero & log(y).is_nan();
    let product = select(zero, 0.0, x) * log(select(zero, one, y));
    select(nowhere, 0.0, select(zero, root, product))
}

/// Returns `ln |Γ(a)| + ln |Γ(b) / Γ(a + b)|` for the smaller operand a and the larger one b.
///
/// The second term loses all digits for small a if it is a difference of two logarithms, and so do its derivatives in
/// b, which are multiples of a. So it is computed from terms that are multiples of a, by Stirling's series for b ≥ 10,
/// and otherwise after ten steps of the recurrence Γ(b) = Γ(b + 1) / b. Source: Didonato and Morris, *Algorithm 708:
/// significant digit computation of the incomplete beta function ratios* (1992).
fn log_beta(x: Var, y: Var) -> Var {
    let ordered = x.le(y);
    let (small, large) = (select(ordered, x, y), select(ordered, y, x));
    // If the larger operand is 0, the pole of Γ at 0 is not cancelled by another factor.
    let pole = large.eq(0.0);
    let end = large.eq(f64::INFINITY) & small.gt(f64::NEG_INFINITY);
    // If one operand is negative and the other one is large, a difference of logarithms loses digits, so use Stirling's
    // series.
    let negative = large.ge(1e3) & (small + large).ge(10.0);
    let far = (small.ge(0.0) & large.ge(10.0) | negative) & !end;
    let low = small.ge(0.0) & large.lt(10.0) & !pole;
    let both = far & small.ge(10.0);
    let stirling = far | low;

    let (a, b) = (select(stirling, small, 1.0), select(stirling, large, 10.0));
    // Ten steps of the recurrence multiply the quotient by (a + b)/b · (a + b + 1)/(b + 1) · ..; compute this product
    // minus 1, in terms of a / (b + i).
    let moved = select(low, a, 0.0);
    let steps = (0..10).map(|i| moved / (b + f64::from(i)));
    let grown = steps.reduce(|product, step| product + step + product * step);
    let recurrence = grown.map_or(moved, Var::ln_1p);
    let b = b + select(low, 10.0, b.zeros_like());
    // Stirling's series is ln Γ(z) = (z - 1/2) ln z - z + ln √2π + r(z). Its large terms cancel analytically: ln (Γ(b)
    // / Γ(a + b)) = a - a ln(a + b) - (b - 1/2) ln(1 + a/b) + r(b) - r(a + b). a + b may overflow, so ln(a + b) is
    // computed as ln b + ln(1 + a/b).
    let more = (a / b).ln_1p();
    let lost = (b - 0.5) * more;
    let rests = rest_of_quotient(a, b);
    let half = recurrence + (a - a * (b.ln() + more) - lost + rests);
    let own = select(both | pole, 1.0, select(small.eq(f64::INFINITY), 1.0, small)).lgamma();
    let a = select(both, small, 10.0);
    let ratio = -(b / a).ln_1p();
    let rest = horner(a.square().recip(), &STIRLING) / a;
    let two_far = a * ratio - 0.5 * a.ln() - lost + rest + rests + 0.5 * (2.0 * PI).ln();

    let elsewhere = stirling | end | pole;
    let (a, b) = (select(elsewhere, 1.0, small), select(elsewhere, 1.0, large));
    let plain = b.lgamma() - (a + b).lgamma();
    // For b = ∞, the limit of Γ(b) / Γ(a + b) is that of b⁻ᵃ.
    let limit = select(end & small.ne(0.0), small, 1.0) * select(end, large, 1.0).ln();
    let limit = select(small.eq(0.0), 0.0, -limit);
    let near = select(pole, f64::INFINITY, own + select(end, limit, plain));
    select(both, two_far, select(stirling, own + half, near))
}

/// Returns `r(b) - r(a + b)` for the remainder r of Stirling's series and b ≥ 10. It is
/// `(u - v) Σ cₖ (u²ᵏ⁻¹ - v²ᵏ⁻¹) / (u - v)` with u = 1/b and v = 1/(a + b), where u - v = a u v and the quotients h
/// satisfy `h(m + 2) = u² h(m) + vᵐ (u + v)`.
fn rest_of_quotient(a: Var, b: Var) -> Var {
    let (u, v) = (b.recip(), (a + b).recip());
    let (u2, v2, sum) = (u.square(), v.square(), u + v);
    let (mut quotient, mut power) = (u.ones_like(), v);
    let mut total = u.zeros_like();
    for c in STIRLING.iter().rev() {
        total += quotient * *c;
        quotient = u2 * quotient + power * sum;
        power *= v2;
    }
    a * u * v * total
}

/// The coefficients of Stirling's series in 1/z², highest first: B₂ₖ / (2k (2k - 1)).
pub(crate) const STIRLING: [f64; 8] = [
    -3617.0 / 122_400.0,
    1.0 / 156.0,
    -691.0 / 360_360.0,
    1.0 / 1188.0,
    -1.0 / 1680.0,
    1.0 / 1260.0,
    -1.0 / 360.0,
    1.0 / 12.0,
];

/// Evaluates a polynomial at x. The coefficients begin with that of the highest power.
pub(crate) fn horner(x: Var, coefficients: &[f64]) -> Var {
    let mut rest = coefficients.iter();
    let mut sum = x.full_like(rest.next().copied().unwrap_or(0.0));
    for c in rest {
        sum = sum * x + *c;
    }
    sum
}

/// e⁻². For p between this number and 1 - e⁻², the quantile is approximated around p = 1/2.
const MIDDLE: f64 = 0.135_335_283_236_612_7;

/// Rational approximations of the normal quantile, highest power first.
///
/// Source: Cephes mathematical library, `ndtri.c` (S. L. Moshier).
mod quantile {
    /// The numerator of the approximation of (x/√2π - w) / w³ as a function of w², where x is the quantile of p and w =
    /// p - 1/2.
    pub(super) const P0: [f64; 5] = [
        -59.963_350_101_410_79,
        98.001_075_418_599_97,
        -56.676_285_746_907_03,
        13.931_260_938_727_968,
        -1.239_165_838_673_812_5,
    ];
    pub(super) const Q0: [f64; 9] = [
        1.0,
        1.954_488_583_381_417_6,
        4.676_279_128_988_815,
        86.360_242_139_089_05,
        -225.462_687_854_119_37,
        200.260_212_380_060_66,
        -82.037_225_616_833_34,
        15.905_622_512_621_17,
        -1.183_316_211_213_3,
    ];
    /// The numerator of the approximation of z - ln z / z - |x| as a function of 1/z, where x is the quantile of p and
    /// z = √(-2 ln p) is below 8.
    pub(super) const P1: [f64; 9] = [
        4.055_448_923_059_624_5,
        31.525_109_459_989_388,
        57.162_819_224_642_13,
        44.080_507_389_320_08,
        14.684_956_192_885_803,
        2.186_633_068_507_902_5,
        -0.140_256_079_171_354_5,
        -0.035_042_462_682_784_82,
        -8.574_567_851_546_854e-4,
    ];
    pub(super) const Q1: [f64; 9] = [
        1.0,
        15.779_988_325_646_675,
        45.390_763_512_887_92,
        41.317_203_825_467_2,
        15.042_538_569_290_75,
        2.504_649_462_083_094,
        -0.142_182_922_854_787_79,
        -0.038_080_640_769_157_83,
        -9.332_594_808_954_574e-4,
    ];
    /// The numerator of the approximation of z - ln z / z - |x| as a function of 1/z, where x is the quantile of p and
    /// z = √(-2 ln p) is 8 or more.
    pub(super) const P2: [f64; 9] = [
        3.237_748_917_769_460_3,
        6.915_228_890_689_842,
        3.938_810_252_924_744_4,
        1.333_034_608_158_075_5,
        0.201_485_389_549_179_08,
        0.012_371_663_481_782_003,
        3.015_815_535_082_354_3e-04,
        2.658_069_746_867_375_5e-6,
        6.239_745_391_849_833e-9,
    ];
    pub(super) const Q2: [f64; 9] = [
        1.0,
        6.024_270_393_647_42,
        3.679_835_638_561_608_7,
        1.377_020_994_890_813_2,
        0.216_236_993_594_496_63,
        0.013_420_400_608_854_318,
        3.280_144_646_821_277_4e-04,
        2.892_478_647_453_806_8e-6,
        6.790_194_080_099_813e-9,
    ];
}
