//! The error function `erf(x) = 2/√π ∫₀ˣ exp(-t²) dt`, its complement
//! `erfc = 1 - erf`, and their inverses.
//!
//! In f64, `erf x = 1 - e^-xQ(x)` for `x ≥ 0`, where `Q(x) = -ln(erfc x) / x` is smooth and is approximated by a
//! polynomial. In f32, `erf x = G - 4/27 G³`, where `G(x) = 3 sin(asin(erf x) / 3)` is odd and is approximated by a
//! polynomial. The nearer erf is to ±1, the less an error of G counts in the result, so a low degree suffices, without an
//! exponential or a quotient. Both polynomials are fitted with the weight of their error in the result. `erfc` is `e^-x²`
//! times a polynomial in `(x - k) / (x + k)`, over `1 + 2x` (the variable of Schonfelder, *Chebyshev expansions for the
//! error and related functions*, 1978); where it is subnormal, it comes from the `libm` crate.
//!
//! `erf_inv` is a quotient of polynomials, in `x²` up to `|x| = 0.85` and in `√(-ln(1 - |x|))` beyond: the variables
//! of Wichura's algorithm AS 241 (1988), with coefficients fitted here.
//!
//! `erfc_inv` starts from Winitzki's closed form ("A handy approximation for the error function and its inverse",
//! 2008), which is good to two digits everywhere, and refines it with Newton's iteration on the logarithm.

use super::exponential::{Exp, Expm1, exp_times};
use super::logarithm::Log;
use super::number::{
    Coefficients, Constant, Format, Number, fast_two_sum, quotient, series, two_sum,
};
use super::vector_math::Parted;
use super::{exp, log, log1p};
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// An |x| above which erf rounds to ±1. The polynomials are fitted up to it.
const ERF_IS_ONE: Constant = Constant(6.0, 3.95);
/// The constant 2/√π, the slope of erf at 0, rounded, and its rounding error. In f32 it is rounded down: with a positive
/// error, the sum of both products with -0 is -0.
const ERF_SLOPE: [Constant; 2] = [
    Constant(FRAC_2_SQRT_PI, f32::from_bits(0x3f90_6eba)),
    Constant(1.533_545_961_316_588e-17, 6.057_39e-8),
];
/// In f64, the coefficients of `(Q(x) - Q(0)) / x` in powers of x, where `erf x = 1 - e^-xQ(x)`. In f32, the coefficients
/// of `(G(x) / x - 2/√π) / x²` in powers of x², where `erf x = G - 4/27 G³`.
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
        -0.163_282_29,
        0.020_438_526,
        -0.001_928_796_9,
        0.000_139_387_79,
        -7.838_285e-6,
        3.439_848_8e-7,
        -1.141_477_2e-8,
        2.561_682_5e-10,
        -2.851_161_4e-12,
    ],
);
/// The coefficient of G³ in `erf x = G - 4/27 G³`.
const CUBIC: Constant = Constant(-4.0 / 27.0, -4.0 / 27.0);

/// The implementation of [`erf()`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Erf;

impl Parted for Erf {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let most = N::constant(ERF_IS_ONE);
        let [slope, lacks] = ERF_SLOPE.map(N::constant);
        // Clamp x to the bounds where erf is ±1. The comparisons are false for NaN, so NaN is not clamped.
        if N::Float::IS_F64 {
            let a = N::pick(most.lt(x.abs()), most, x.abs());
            let y = a.fma(slope, a * a.fma(series(ERF, a), lacks));
            Expm1::straight(-y).copysign(x)
        } else {
            let x = N::pick(most.lt(x), most, x);
            let x = N::pick(x.lt(-most), -most, x);
            let square = x * x;
            let g = x.fma(slope, x * square.fma(series(ERF, square), lacks));
            // A positive number is added to the factor -4/27 G², and counts only where G is -0, whose sign a sum with +0
            // would lose.
            let factor = (g * g).fma(N::constant(CUBIC), N::of(N::Float::LEAST));
            g.fma(factor, g)
        }
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// The constant k, where `(a - k) / (a + k)` is the variable of the polynomial [`SCALED`], for an argument a ≥ 0.
const SCALED_CENTER: Constant = Constant(4.0, 2.0);
/// The coefficients of `(1 + 2a) e^a² erfc a - 1` in powers of `(a - k) / (a + k)`, for 0 ≤ a ≤ 26.7 (f32: 10.1).
const SCALED: Coefficients = Coefficients(
    &[
        0.232_995_118_625_552_56,
        -0.139_621_116_840_562_72,
        0.015_379_652_102_606_8,
        0.068_097_054_254_718_25,
        -0.101_039_066_035_609_03,
        0.093_732_834_997_494_53,
        -0.066_330_365_826_903_96,
        0.037_167_515_549_245_196,
        -0.016_197_733_897_471_256,
        0.005_031_969_900_644_867_6,
        -0.000_757_774_315_552_460_9,
        -0.000_199_256_467_047_743_2,
        0.000_150_625_785_551_549_8,
        -2.439_921_554_100_946_4e-05,
        -1.123_255_623_522_736_4e-05,
        5.707_738_909_694_51e-06,
        3.109_257_962_008_492e-07,
        -8.194_108_827_129_077e-07,
        5.778_963_088_854_872e-08,
        1.018_350_001_122_473e-07,
        -9.008_386_153_577_899e-09,
        -8.752_998_641_150_689e-09,
    ],
    &[
        0.276_978_37,
        -0.092_763_95,
        -0.166_030_42,
        0.164_055_06,
        -0.054_214_075,
        -0.008_061_45,
        0.008_663_137,
        0.001_328_291_7,
        -0.001_262_377_2,
        -0.000_423_322_26,
    ],
);
/// The argument up to which `erfc` and `ndtr` are computed from erf by the polynomial [`ERF_SMALL`].
const SMALL: Constant = Constant(0.47, 0.47);
/// The coefficients of `erf(x) / x` in powers of x², for |x| ≤ 0.67.
const ERF_SMALL: Coefficients = Coefficients(
    &[
        FRAC_2_SQRT_PI,
        -0.376_126_389_031_834,
        0.112_837_916_709_290_64,
        -0.026_866_170_637_704_637,
        0.005_223_977_517_860_68,
        -0.000_854_831_805_949_876_2,
        0.000_120_548_772_884_689_31,
        -1.491_125_902_286_181_4e-05,
        1.618_542_474_295_825_8e-06,
        -1.336_666_281_661_871_3e-07,
    ],
    &[std::f32::consts::FRAC_2_SQRT_PI, -0.376_123_46, 0.112_785_47, -0.026_534_958, 0.004_354_453],
);
/// A bound below which `erfc` is a normal number.
const ERFC_IS_NORMAL: Constant = Constant(26.0, 9.1);
/// √½.
const FRAC_1_SQRT_2: Constant =
    Constant(std::f64::consts::FRAC_1_SQRT_2, std::f32::consts::FRAC_1_SQRT_2);
/// For arguments above the negative of this bound, `ndtr` is a normal number (not 0 or subnormal).
const NDTR_IS_NORMAL: Constant = Constant(37.0, 12.9);

/// Returns `erfc a` for 0 ≤ a, given `a²` as the sum of a rounded square and its rounding error.
///
/// A relative error δ of `a²` is an absolute error `a²δ` of the exponent, so the result is corrected for the error of
/// the square.
#[inline(always)]
fn upper_tail<N: Number>(a: N, [square, lacks]: [N; 2]) -> N {
    let power = Exp::straight(-square);
    scaled_tail(a) * (-power).fma(lacks, power)
}

/// Returns `e^a² erfc a` for 0 ≤ a.
#[inline(always)]
fn scaled_tail<N: Number>(a: N) -> N {
    let (one, k) = (N::of(N::Float::ONE), N::constant(SCALED_CENTER));
    let rest = series(SCALED, (a - k) / (a + k));
    quotient(fast_two_sum(one, rest), two_sum(one, a + a).into())
}

/// A number so large that `erfc` of it and `ndtr` of its negative are 0.
const LEAST_TAIL: f64 = 40.0;

/// Returns the product of `by` and `erfc a` where it is not a normal number, given `a²` as for [`upper_tail`]. The
/// result underflows gradually, to subnormal numbers.
#[inline(always)]
fn least_upper_tail<N: Number<Float = f64>>(a: N, [square, lacks]: [N; 2], by: N) -> N {
    let scaled = by * scaled_tail(a);
    exp_times(-square, (-scaled).fma(lacks, scaled))
}

/// Returns the rounded square `x²` and the rounding error of the square.
#[inline(always)]
fn square_with_error<N: Number>(x: N) -> [N; 2] {
    let square = x * x;
    [square, x.fma(x, -square)]
}

/// The implementation of [`erfc()`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Erfc;

impl Parted for Erfc {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.lt(N::constant(ERFC_IS_NORMAL))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let most = N::constant(ERFC_IS_NORMAL);
        let a = N::pick(x.abs().lt(most), x.abs(), most);
        let tail = upper_tail(a, square_with_error(a));
        let sides = N::pick(x.lt(N::of(N::Float::ZERO)), N::of(N::Float::TWO) - tail, tail);
        let middle = (-x).fma(series(ERF_SMALL, x * x), N::of(N::Float::ONE));
        N::pick(a.lt(N::constant(SMALL)), middle, sides)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let a = N::pick(x.gt(N::of(LEAST_TAIL)), N::of(LEAST_TAIL), x);
        least_upper_tail(a, square_with_error(a), N::of(f64::ONE))
    }
}

/// The implementation of [`ndtr()`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Ndtr;

impl Parted for Ndtr {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        (-N::constant(NDTR_IS_NORMAL)).lt(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (most, half) = (N::constant(NDTR_IS_NORMAL), N::of(N::Float::HALF));
        let a = N::pick(x.abs().lt(most), x.abs(), most);
        // Compute the exponent x²/2 from the square of |x|. The square of the rounded number `z` would be less accurate.
        let square = square_with_error(a).map(|part| half * part);
        let z = a * N::constant(FRAC_1_SQRT_2);
        let tail = half * upper_tail(z, square);
        let sides = N::pick(x.lt(N::of(N::Float::ZERO)), tail, N::of(N::Float::ONE) - tail);
        let middle = (half * z).copysign(x).fma(series(ERF_SMALL, z * z), half);
        N::pick(z.lt(N::constant(SMALL)), middle, sides)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let (a, half, most) = (x.abs(), N::of(f64::HALF), N::of(LEAST_TAIL));
        let a = N::pick(a.gt(most), most, a);
        let square = square_with_error(a).map(|part| half * part);
        least_upper_tail(a * N::constant(FRAC_1_SQRT_2), square, half)
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
    Erfc::here(x)
}

/// Returns the distribution function of the normal distribution, `Φ(x) = erfc(-x/√2) / 2`; within 4 ulp.
///
/// Domain: all reals, increasing from 0 to 1; underflows gradually below -37.5.
/// `ndtr(-∞) = 0`, `ndtr(+∞) = 1`, NaN for NaN.
#[must_use]
pub fn ndtr(x: f64) -> f64 {
    Ndtr::here(x)
}

/// The square of the |x| up to which `erf_inv` uses [`MIDDLE`].
const MIDDLE_END: Constant = Constant(0.7225, 0.7225);
/// √π / 2, the slope of `erf_inv` at zero.
const FRAC_SQRT_PI_2: Constant = Constant(0.886_226_925_452_758, 0.886_226_9);
/// Numerator and denominator of `(erf_inv(x) / x - √π / 2) / x²` in powers of `MIDDLE_END - x²`, for |x| ≤ 0.85. In this
/// variable all powers have positive coefficients, so the sums have no cancellation.
const MIDDLE: [Coefficients; 2] = [
    Coefficients(
        &[
            0.430_872_506_732_641_16,
            3.906_684_338_733_644_5,
            13.010_717_376_569_37,
            19.596_789_573_813_88,
            13.274_626_080_414_443,
            3.478_346_034_436_666,
            0.227_017_013_089_398,
        ],
        &[0.430_872_5, 1.540_836, 1.091_932_7, 0.035_808_004],
    ),
    Coefficients(
        &[
            1.0,
            10.572_994_326_527_011,
            42.901_216_262_320_12,
            84.127_023_388_399_83,
            82.635_376_971_862_39,
            38.236_122_786_137_31,
            6.976_755_568_231_077,
            0.316_781_923_939_952_4,
        ],
        &[1.0, 5.082_156_7, 6.969_923, 2.280_405_8],
    ),
];
/// The number that is subtracted from r in the powers of [`TAILS`].
const TAILS_CENTER: Constant = Constant(1.375, 1.375);
/// Numerator and denominator of `r - erf_inv(x)` in powers of `r - TAILS_CENTER`, where `r = √(-ln(1 - x))`, for
/// x > 0.85.
const TAILS: [Coefficients; 2] = [
    Coefficients(
        &[
            0.359_532_725_570_184_06,
            0.805_860_312_120_194_7,
            0.717_965_141_737_207_7,
            0.316_594_973_663_130_44,
            0.068_251_731_143_273_58,
            0.006_346_785_858_859_696,
            0.000_207_405_111_639_264_78,
            1.480_585_012_395_995_4e-06,
        ],
        &[0.359_532_7, 0.373_129_3, 0.081_201_19, 0.000_811_955_95],
    ),
    Coefficients(
        &[
            1.0,
            2.330_038_005_451_884_8,
            2.308_089_738_914_621,
            1.213_536_533_005_909_1,
            0.350_811_589_230_847_15,
            0.052_330_648_286_534_234,
            0.003_520_078_003_224_147_8,
            8.456_392_414_805_841e-05,
            4.149_183_064_654_837_4e-07,
        ],
        &[1.0, 1.126_442_3, 0.430_364_73, 0.042_696_442],
    ),
];

/// The implementation of [`erf_inv()`], which evaluates one argument or a vector of eight, or lists its operations for
/// the code generator.
pub struct ErfInv;

impl Parted for ErfInv {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().lt(N::of(N::Float::ONE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let t = (-x).fma(x, N::constant(MIDDLE_END));
        let middle = N::of(N::Float::ZERO).le(t);
        // In the tails, where |x| > 0.85, the difference 1 - |x| is exact.
        let r = (-Log::straight(N::of(N::Float::ONE) - x.abs())).sqrt();
        let [n, d] = MIDDLE.map(|c| series(c, t));
        let [tail_n, tail_d] = TAILS.map(|c| series(c, r - N::constant(TAILS_CENTER)));
        // The quotients are less than a third of the result, so their relative errors count less than a third in the
        // result.
        let q = N::pick(middle, n, tail_n) / N::pick(middle, d, tail_d);
        N::pick(middle, x.fma(N::constant(FRAC_SQRT_PI_2), x * x * x * q), (r - q).copysign(x))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        infinite_at_one(x)
    }
}

/// Returns ±∞ at ±1, and NaN elsewhere: the value of an odd function with these poles outside of its domain.
#[inline(always)]
pub(super) fn infinite_at_one<N: Number<Float = f64>>(x: N) -> N {
    let end = x.abs().same(N::of(f64::ONE));
    N::pick(end, N::of(f64::INFINITY).copysign(x), N::of(f64::NAN))
}

/// Returns the inverse of the error function: the `w` with `erf(w) = x`; within 2.5 ulp.
///
/// Domain: `[-1, 1]`. `erf_inv(±0) = ±0`, `erf_inv(±1) = ±∞`, NaN outside and
/// for NaN. No double below 1 reaches beyond `w ≈ 5.87`.
#[must_use]
pub fn erf_inv(x: f64) -> f64 {
    ErfInv::here(x)
}

/// Returns Winitzki's approximation, given `l = ln(1 - x²)`.
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
        // For this x, the subtraction `1 - x` is exact, so the inverse of erf loses nothing.
        return erf_inv(1.0 - x);
    }
    if x == 0.0 {
        return f64::INFINITY;
    }
    let mut w = winitzki(log(x * (2.0 - x)));
    // Find the root w by Newton steps on ln(erfc(w) / x), which is nearly a parabola in w.
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
