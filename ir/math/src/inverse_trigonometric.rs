//! The inverses of sine, cosine and tangent, and `atan2`.
//!
//! The arctangent is a polynomial in `t²` for `|t| ≤ 1`, and `atan x = ±π/2 - atan(1/x)` beyond. The arcsine
//! and arccosine are a polynomial for `|x| ≤ ½`, and `acos x = 2 asin √((1 - x)/2)`, the formula for half the
//! angle, beyond. The polynomials are fitted with the weight that their error has in the result.

use super::number::{Coefficients, Constant, Format, Number, series};
use super::vector_math::{Parted, PartedPair};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// The constant π/2, rounded, and its rounding error.
const HALF_PI: [Constant; 2] = [
    Constant(FRAC_PI_2, std::f32::consts::FRAC_PI_2),
    Constant(6.123_233_995_736_766e-17, -4.371_139e-8),
];
/// The coefficients of the polynomial for `(atan t / t - 1) / t²` in `t²`, for t² ≤ 1.
const ATAN: Coefficients = Coefficients(
    &[
        -0.333_333_333_333_330_7,
        0.199_999_999_999_518_45,
        -0.142_857_142_825_898_62,
        0.111_111_110_073_112_07,
        -0.090_909_070_063_589_23,
        0.076_922_798_663_306_84,
        -0.066_664_042_146_188,
        0.058_805_284_997_643_29,
        -0.052_535_208_488_594_366,
        0.047_223_282_005_847_36,
        -0.042_191_911_543_953_25,
        0.036_642_105_558_898_81,
        -0.029_904_100_536_875_713,
        0.021_985_085_624_888_736,
        -0.013_900_729_157_092_532,
        0.007_196_593_906_060_796,
        -0.002_884_952_691_449_236,
        0.000_831_330_214_200_056_2,
        -0.000_152_161_987_192_782_65,
        1.322_512_813_635_115_7e-5,
    ],
    &[
        -0.333_333,
        0.199_985_34,
        -0.142_641_13,
        0.109_516_09,
        -0.084_019_78,
        0.057_935_09,
        -0.031_157_508,
        0.010_904_571,
        -0.001_791_537_7,
    ],
);
/// The coefficients of the polynomial for `(asin t / t - 1) / t²` in `t²`, for t² ≤ 1/4.
const ASIN: Coefficients = Coefficients(
    &[
        0.166_666_666_666_667_6,
        0.074_999_999_999_709_72,
        0.044_642_857_174_515_56,
        0.030_381_942_710_525_165,
        0.022_372_214_939_438_046,
        0.017_351_612_594_100_802,
        0.013_980_815_503_988_778,
        0.011_398_944_441_370_356,
        0.010_780_102_433_274_13,
        0.003_706_907_348_585_78,
        0.021_706_336_197_849_077,
        -0.020_997_575_525_929_207,
        0.032_627_722_557_985_996,
    ],
    &[0.166_667_54, 0.074_952_7, 0.045_472_946, 0.024_168_987, 0.042_181_39],
);

/// Returns a polynomial at `x` by Horner's rule over all powers. Where the signs of the coefficients alternate,
/// separate sums of the even and the odd powers would be larger than their total, and would have larger errors.
#[inline(always)]
fn one_by_one<N: Number>(of: Coefficients, x: N) -> N {
    let c = N::Float::coefficients(of);
    let (last, rest) = (c[c.len() - 1], &c[..c.len() - 1]);
    rest.iter().rev().fold(N::of(last), |sum, c| sum.fma(x, N::of(*c)))
}

/// The implementation of [`atan`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Atan;

impl Parted for Atan {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let one = N::of(N::Float::ONE);
        let a = x.abs();
        let far = a.gt(one);
        let t = N::pick(far, -(one / a), a);
        let square = t * t;
        let rest = (t * square) * one_by_one(ATAN, square);
        let zero = N::of(N::Float::ZERO);
        let [first, second] = HALF_PI.map(|c| N::pick(far, N::constant(c), zero));
        // The sum `first + t` is exact near |x| = 1, where its terms cancel partly.
        ((first + t) + (rest + second)).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the angle between -π/2 and π/2 whose tangent is `x`, within 1.5 ulp.
///
/// Domain: all reals, odd. `atan(±0) = ±0`, `atan(±∞) = ±π/2`, NaN for NaN.
#[must_use]
pub fn atan(x: f64) -> f64 {
    Atan::here(x)
}

/// The implementation of [`atan2`], which evaluates one pair of arguments, or lists its operations for the code
/// generator.
pub struct Atan2;

impl PartedPair for Atan2 {
    #[inline(always)]
    fn inside<N: Number>(y: N, x: N) -> N::Mask {
        let largest = N::of(N::Float::LARGEST);
        y.abs().le(largest) & x.abs().le(largest)
    }

    /// Computes the arctangent t of the smaller coordinate over the larger one. The angle of the point (|x|, |y|) is t
    /// or π/2 - t. The angle of the point (x, |y|) is the same angle for positive x, and π minus that angle for
    /// negative x.
    #[inline(always)]
    fn straight<N: Number>(y: N, x: N) -> N {
        let [zero, one] = [N::Float::ZERO, N::Float::ONE].map(N::of);
        let (a, b) = (y.abs(), x.abs());
        let (steep, left) = (b.lt(a), one.copysign(x).lt(zero));
        let (short, long) = (N::pick(steep, b, a), N::pick(steep, a, b));
        let t = N::pick(long.same(zero), zero, short / long);
        let minus = (steep & !left) | (left & !steep);
        let t = N::pick(minus, -t, t);
        let square = t * t;
        let rest = (t * square) * one_by_one(ATAN, square);
        let [first, second] = HALF_PI.map(|half| {
            let half = N::constant(half);
            N::pick(steep, half, N::pick(left, half + half, zero))
        });
        ((first + t) + (rest + second)).copysign(y)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(y: N, x: N) -> N {
        let [zero, one, infinity] = [f64::ZERO, f64::ONE, f64::INFINITY].map(N::of);
        let [far_y, far_x] = [y, x].map(|c| c.abs().same(infinity));
        let side = N::pick(far_y, N::of(FRAC_PI_2), zero);
        let angle = N::pick(far_y & far_x, N::of(FRAC_PI_4), side);
        let left = far_x & one.copysign(x).lt(zero);
        let angle = N::pick(left, N::of(PI) - angle, angle).copysign(y);
        N::pick(x.same(x) & y.same(y), angle, N::of(f64::NAN))
    }
}

/// Returns the angle of the point `(x, y)`, between -π and π, within 2.5 ulp.
///
/// Domain: the plane, with the signs of zeros as in C; NaN if either is NaN.
#[must_use]
pub fn atan2(y: f64, x: f64) -> f64 {
    Atan2::here(y, x)
}

/// Returns three values: whether `|x|` is above ½, so that the half-angle formula is used, the reduced argument, at
/// most ½, and the arcsine of the reduced argument minus the argument.
#[inline(always)]
fn halved<N: Number>(x: N) -> (N::Mask, N, N) {
    let (half, a) = (N::of(N::Float::HALF), x.abs());
    let far = a.gt(half);
    let square = N::pick(far, half * (N::of(N::Float::ONE) - a), a * a);
    let t = N::pick(far, square.sqrt(), a);
    (far, t, (t * square) * series(ASIN, square))
}

/// The implementation of [`asin`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Asin;

impl Parted for Asin {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (far, t, rest) = halved(x);
        let two = N::of(N::Float::TWO);
        let [half_pi, lacks] = HALF_PI.map(N::constant);
        // The difference `half_pi - two * t` is exact near |x| = ½, where its terms cancel partly.
        let by_half = (half_pi - two * t) - (two * rest - lacks);
        N::pick(far, by_half, t + rest).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the angle between -π/2 and π/2 whose sine is `x`, within 2.1 ulp.
///
/// Domain: `[-1, 1]`, odd. `asin(±0) = ±0`, NaN outside and for NaN.
#[must_use]
pub fn asin(x: f64) -> f64 {
    Asin::here(x)
}

/// The implementation of [`acos`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Acos;

impl Parted for Acos {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let two = N::of(N::Float::TWO);
        let (far, t, rest) = halved(x);
        let y = t + rest;
        let [half_pi, lacks] = HALF_PI.map(N::constant);
        // For negative x the result is π minus the angle of |x|.
        let negative = two * (half_pi - (y - lacks));
        let by_half = N::pick(x.lt(N::of(N::Float::ZERO)), negative, two * y);
        N::pick(far, by_half, half_pi - (y.copysign(x) - lacks))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the angle between 0 and π whose cosine is `x`, within 1.2 ulp.
///
/// Domain: `[-1, 1]`. `acos(1) = 0`, `acos(-1) = π`, NaN outside and for NaN.
#[must_use]
pub fn acos(x: f64) -> f64 {
    Acos::here(x)
}
