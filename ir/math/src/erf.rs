//! The error function `erf(x) = 2/√π ∫₀ˣ exp(-t²) dt`, its complement
//! `erfc = 1 - erf`, and their inverses.
//!
//! For `x ≥ 0`, `erf x = 1 - e^-xQ(x)`, where `Q(x) = -ln(erfc x) / x` is smooth and is approximated by a
//! polynomial, fitted with the weight of its error in the result. `erfc` comes from the `libm` crate, a port of
//! Sun's fdlibm (1993), with a rational approximation for each of five ranges of `|x|`.
//!
//! `erf_inv` starts from Winitzki's closed form ("A handy approximation for the error function and its
//! inverse", 2008), which is good to two digits everywhere, and refines it with Halley's iteration, which
//! triples the number of correct digits per step. Its accuracy is therefore limited by `erf` and `erfc`, not by
//! a table of coefficients.

use super::exponential::Expm1;
use super::number::{Coefficients, Constant, Number, series};
use super::vector_math::Parted;
use super::{exp, log, log1p};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// From this |x| on, erf rounds to ±1.
const ERF_IS_ONE: Constant = Constant(6.0, 4.0);
/// The constant Q(0) = 2/√π, rounded, and its rounding error.
const ERF_SLOPE: [Constant; 2] = [
    Constant(FRAC_2_SQRT_PI, std::f32::consts::FRAC_2_SQRT_PI),
    Constant(1.533_545_961_316_588e-17, -5.863_538e-8),
];
/// The coefficients of `(Q(x) - Q(0)) / x` in powers of x, where `erf x = 1 - e^-xQ(x)`.
const ERF: Coefficients = Coefficients(
    &[
        0.636_619_772_367_582_8,
        0.102_772_603_301_821_42,
        -0.019_128_447_005_657_124,
        -0.000_209_194_688_900_038_4,
        0.001_696_206_347_503_165_8,
        -0.000_590_125_384_558_463_1,
        2.587_807_179_710_873e-5,
        6.449_311_428_109_883e-5,
        -2.972_629_854_049_878_3e-5,
        3.410_414_184_422_483_7e-6,
        2.831_668_073_443_694_5e-6,
        -1.738_496_966_703_655_4e-6,
        3.342_151_378_204_514_4e-7,
        1.384_014_232_908_209_8e-7,
        -1.423_192_482_196_782_2e-7,
        6.593_830_972_092_275e-8,
        -2.102_285_705_900_725e-8,
        5.011_723_236_683_504e-9,
        -9.107_699_026_627_634e-10,
        1.251_938_210_116_143_8e-10,
        -1.264_692_689_841_286_5e-11,
        8.870_885_926_724_484e-13,
        -3.861_532_058_090_866_4e-14,
        7.856_407_424_434_349e-16,
    ],
    &[
        0.636_619_5,
        0.102_776_7,
        -0.019_149_162,
        -0.000_167_192_34,
        0.001_673_428_9,
        -0.000_636_121_43,
        0.000_118_500_73,
        -9.345_754e-6,
    ],
);

/// The implementation of [`erf()`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Erf;

impl Parted for Erf {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let most = N::constant(ERF_IS_ONE);
        // Clamp |x| to the bound where erf is 1. The comparison is false for NaN, so NaN is not clamped.
        let a = N::pick(x.abs().gt(most), most, x.abs());
        let [slope, lacks] = ERF_SLOPE.map(N::constant);
        let y = a.fma(slope, a * a.fma(series(ERF, a), lacks));
        Expm1::straight(-y).copysign(x)
    }

    fn beyond(x: f64) -> f64 {
        Self::straight(x)
    }
}

/// Returns the error function, odd and increasing from -1 to 1; within 1.7 ulp.
///
/// Domain: all reals. `erf(±0) = ±0`, `erf(±∞) = ±1`, NaN for NaN.
#[must_use]
pub fn erf(x: f64) -> f64 {
    Erf::here(x)
}

/// Returns the complementary error function `1 - erf(x)`, without the cancellation that
/// this difference would suffer for large `x`; within 3 ulp.
///
/// Domain: all reals, decreasing from 2 to 0; underflows gradually to 0 from
/// `x ≈ 26.5` on. `erfc(-∞) = 2`, `erfc(+∞) = 0`, NaN for NaN.
#[must_use]
pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// Returns the distribution function of the normal distribution, `Φ(x) = erfc(-x/√2) / 2`; within 4 ulp.
///
/// Domain: all reals, increasing from 0 to 1; underflows gradually below -37.5.
/// `ndtr(-∞) = 0`, `ndtr(+∞) = 1`, NaN for NaN.
#[must_use]
pub fn ndtr(x: f64) -> f64 {
    /// The rounding error of the constant: √½ minus `FRAC_1_SQRT_2`.
    const FRAC_1_SQRT_2_LOW: f64 = -4.833_646_656_726_457e-17;
    let z = -x * FRAC_1_SQRT_2;
    let tail = 0.5 * erfc(z);
    if z < 1.0 || tail == 0.0 {
        return tail;
    }
    // A relative error δ of z becomes a relative error 2z²δ of the result: 1,400 ulp just before underflow. So
    // the rounding error of z is computed and corrected for, to first order, with the derivative of erfc.
    let rest = (-x).mul_add(FRAC_1_SQRT_2, -z) - x * FRAC_1_SQRT_2_LOW;
    tail - 0.5 * FRAC_2_SQRT_PI * exp(-z * z) * rest
}

/// Returns the inverse of the error function: the `w` with `erf(w) = x`; within 2 ulp.
///
/// Domain: `[-1, 1]`. `erf_inv(±0) = ±0`, `erf_inv(±1) = ±∞`, NaN outside and
/// for NaN. No double below 1 reaches beyond `w ≈ 5.87`.
#[must_use]
pub fn erf_inv(x: f64) -> f64 {
    let target = x.abs();
    if target.is_nan() || target > 1.0 {
        return f64::NAN;
    }
    if target == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    // The series starts √π/2 (x + π/12 x³); below this bound its second term is
    // under a quarter of an ulp, and an iteration would lose digits of subnormal numbers.
    if target < 1e-8 {
        return x * FRAC_SQRT_PI_2;
    }

    let mut w = erf_inv_guess(target);
    // Three iterations suffice for the worst initial guess; most arguments need two.
    for _ in 0..3 {
        // In the upper half `1 - target` is exact and `erf(w)` is close to
        // 1, so the complement resolves `w` better.
        let residual = if target < 0.5 { erf(w) - target } else { (1.0 - target) - erfc(w) };
        // Halley's step for `f = erf - target`, where `f''/f' = -2w`.
        let newton = residual / (FRAC_2_SQRT_PI * exp(-w * w));
        let step = newton / (1.0 + w * newton);
        w -= step;
        // Convergence is cubic, so the remaining error is far below one ulp.
        if step.abs() < 1e-7 * w {
            break;
        }
    }
    w.copysign(x)
}

/// The constant √π / 2, the slope of `erf_inv` at zero.
const FRAC_SQRT_PI_2: f64 = 0.886_226_925_452_758;

/// Returns Winitzki's approximation of `erf_inv(x)` for x in `(0, 1)`, with a relative error below 0.2 %: the
/// initial guess.
///
/// The formula solves `1 - x² = exp(-w² (4/π + a w²) / (1 + a w²))` for `w`. The code multiplies by the
/// conjugate of `√(t² - l/a) - t`, because this difference would cancel for small `x`.
#[doc(hidden)]
pub fn erf_inv_guess(x: f64) -> f64 {
    winitzki(log1p(-x * x))
}

/// Returns Winitzki's approximation of the inverse error function at x, given `l = ln(1 - x²)`.
fn winitzki(l: f64) -> f64 {
    const A: f64 = 0.147;
    let t = 2.0 / (PI * A) + 0.5 * l;
    let q = -l / A;
    (q / ((t * t + q).sqrt() + t)).sqrt()
}

/// Returns the inverse of the complementary error function: the `w` with `erfc(w) = x`; within 4 ulp.
///
/// Domain: `[0, 2]`. `erfc_inv(0) = ∞`, `erfc_inv(1) = 0`, `erfc_inv(2) = -∞`, NaN outside and for NaN.
/// Accurate also for small x, where `1 - x` rounds to 1.
#[must_use]
pub fn erfc_inv(x: f64) -> f64 {
    if x.is_nan() || !(0.0..=2.0).contains(&x) {
        return f64::NAN;
    }
    if x >= 0.5 {
        // Here x is at least 1/2, so the subtraction `1 - x` is exact.
        return erf_inv(1.0 - x);
    }
    if x == 0.0 {
        return f64::INFINITY;
    }
    let mut w = winitzki(log(x * (2.0 - x)));
    // Newton's iteration on ln(erfc(w) / x), which is nearly a parabola in w.
    for _ in 0..6 {
        let (log, slope) = if w > 20.0 {
            far_log_erfc(w, x)
        } else {
            let tail = erfc(w);
            (log1p((tail - x) / x), FRAC_2_SQRT_PI * exp(-w * w) / tail)
        };
        let step = log / slope;
        w += step;
        if step.abs() < 1e-15 * w {
            break;
        }
    }
    w
}

/// Returns `ln(erfc(w) / x)` and the negative of its slope for `w > 20`, where erfc itself may underflow. Uses
/// the asymptotic series (DLMF 7.12.1) `erfc(w) = e⁻ʷ²/(w√π) Σ (-1)ᵏ (2k - 1)!! / (2w²)ᵏ`.
fn far_log_erfc(w: f64, x: f64) -> (f64, f64) {
    let (square, mut term, mut rest) = (w * w, 1.0, 0.0);
    for k in 1..8 {
        term *= -f64::from(2 * k - 1) / (2.0 * square);
        rest += term;
    }
    let log = log1p(rest) - square - log(w * (x * PI.sqrt()));
    (log, 2.0 * w / (1.0 + rest))
}
