//! The logarithm, and functions computed from it.
//!
//! `x = 2ᵏ(1 + f)` with `√½ ≤ 1 + f < √2`, and `ln x = k ln 2 + ln(1 + f)`. In f64, `ln(1 + f)` is the series of
//! `2 artanh s`, `s = f / (2 + f)`, in `z = s²`. Ten terms suffice, since `|s| < 0.172`. Its large terms are exact:
//!
//! ```text
//! ln(1 + f) = 2s + s R(z) = f - s f + s R(z) = f - (f²/2 - s (f²/2 + R(z)))
//! ```
//!
//! In f32, `ln(1 + f) = f - (f²/2 - f³ P(f))` with a polynomial P that interpolates at Chebyshev's points.

use super::exponential::{Exp, LN2_HIGH, LN2_LOW};
use super::number::{Coefficients, Constant, Format, Number, fast_two_sum, series};
use super::vector_math::{Parted, PartedPair};

/// √½, rounded to a few bits of the fraction.
const ROOT: Constant = Constant(f64::from_bits(0x3fe6_a09e_0000_0000), f32::from_bits(0x3f35_0000));
/// 2 to the number of fraction bits (2⁵² in f64) plus the exponent bias.
pub(super) const WHOLE_AND_BIAS: Constant =
    Constant(f64::WHOLE + f64::BIAS as f64, f32::WHOLE + f32::BIAS as f32);
/// The coefficients of the series for ln(1 + f). For f64 these are `2/3, 2/5, 2/7, …` in powers of s², for f32 the
/// fitted coefficients of P in powers of f.
const LOG: Coefficients = Coefficients(
    &{
        let (mut c, mut i) = ([0.0; 10], 0);
        while i < 10 {
            c[i] = 2.0 / (2 * i + 3) as f64;
            i += 1;
        }
        c
    },
    &[
        0.333_333_3,
        -0.250_003_07,
        0.200_010_48,
        -0.166_412_47,
        0.142_143_56,
        -0.129_984_9,
        0.126_237_39,
        -0.079_036_44,
    ],
);
/// The constant 1 / ln 2, rounded, and its rounding error.
const LOG2_E_PIECES: [Constant; 2] = [
    Constant(f64::from_bits(0x3ff7_1547_652b_82fe), f32::from_bits(0x3fb8_aa3b)),
    Constant(f64::from_bits(0x3c77_77d0_ffda_0d24), f32::from_bits(0x32a5_7060)),
];
/// The constant 1 / ln 10, rounded, and its rounding error.
const LOG10_E_PIECES: [Constant; 2] = [
    Constant(f64::from_bits(0x3fdb_cb7b_1526_e50e), f32::from_bits(0x3ede_5bd9)),
    Constant(f64::from_bits(0x3c69_5355_baaa_fad3), f32::from_bits(0xb22d_91af)),
];
/// The constant log₁₀ 2 in two pieces: a high piece with few bits, so that its products with `k` are exact, and
/// the rest.
const LOG10_2_PIECES: [Constant; 2] = [
    Constant(f64::from_bits(0x3fd3_4413_509f_6000), f32::from_bits(0x3e9a_2000)),
    Constant(f64::from_bits(0x3d59_fef3_11f1_2b36), f32::from_bits(0x369a_84fc)),
];

/// The parts of `ln x = k ln 2 + f - (half - small)` for a normal number x = 2ᵏ(1 + f), where `half` is f²/2. `small`
/// includes the low part of `k ln 2` if the caller adds it.
struct Parts<N> {
    k: N,
    f: N,
    half: N,
    small: N,
}

/// Returns `k` and `m` with `x = 2ᵏ m` and `start ≤ m < 2 start`, for a normal number x and a start between ½ and 1.
#[inline(always)]
fn split<N: Number>(x: N, start: Constant) -> [N; 2] {
    let bits = N::Float::FRACTION;
    // `steps` has the exponent bits of x, counted from `start` instead of from 1. Shifted down and put into the
    // fraction bits of 2⁵², these bits become a float.
    let above = Constant(
        f64::from_bits(1f64.to_bits() - start.0.to_bits()),
        f32::from_bits(1f32.to_bits() - start.1.to_bits()),
    );
    let steps = x.plus_bits(N::constant(above));
    let whole = steps.shift_right(bits).or_bits(N::of(N::Float::WHOLE));
    let fraction = steps.and_bits(N::of_bits((1 << bits) - 1));
    [whole - N::constant(WHOLE_AND_BIAS), fraction.plus_bits(N::constant(start))]
}

#[inline(always)]
fn parts<N: Number>(x: N, low: impl FnOnce(N) -> N) -> Parts<N> {
    let [k, m] = split(x, ROOT);
    let f = m - N::of(N::Float::ONE);
    let half = N::of(N::Float::HALF) * f * f;
    let low = low(k);
    let small = if N::Float::IS_F64 {
        let s = f / (N::of(N::Float::TWO) + f);
        let z = s * s;
        s.fma(z.fma(series(LOG, z), half), low)
    } else {
        (f * f * f).fma(series(LOG, f), low)
    };
    Parts { k, f, half, small }
}

/// Returns `ln x + c` for a normal number x and a correction c that is small compared with `ln x`.
#[inline(always)]
pub(super) fn log_with_correction<N: Number>(x: N, c: N) -> N {
    let Parts { k, f, half, small } = parts(x, |k| k.fma(N::constant(LN2_LOW), c));
    k.fma(N::constant(LN2_HIGH), f - (half - small))
}

/// Returns `ln x + n + c` for a normal number x, a small integer n, and a correction c. The error is one of the result, which
/// may be smaller than `ln x`, because `k ln 2 + n` is exact up to the low part of ln 2.
#[inline(always)]
pub(super) fn log_with_integer<N: Number>(x: N, n: N, c: N) -> N {
    let Parts { k, f, half, small } = parts(x, |k| k.fma(N::constant(LN2_LOW), c));
    k.fma(N::constant(LN2_HIGH), n) + (f - (half - small))
}

/// Returns the logarithm of `x = 2ᵏ(1 + f)` to another base, `k c + d ln(1 + f)`, where `c` is the logarithm of 2 and
/// `d` the logarithm of e to this base. Each constant comes in two pieces; the first piece of `c` has few bits, so that
/// its product with k is exact.
#[inline(always)]
fn to_base<N: Number>(x: N, c: [Constant; 2], d: [Constant; 2]) -> N {
    let Parts { k, f, half, small } = parts(x, |_| N::of(N::Float::ZERO));
    let ([c, c_low], [d, d_low]) = (c.map(N::constant), d.map(N::constant));
    // ln(1 + f) = high + low, exactly up to the rounding of low.
    let high = f - half;
    let low = ((f - high) - half) + small;
    let product = high * d;
    let rest = high.fma(d, -product) + high.fma(d_low, low * d);
    let first = k * c;
    let sum = first + product;
    sum + (((first - sum) + product) + k.fma(c_low, rest))
}

/// The coefficients after 2/3 of the series in [`log_pair`]. For f64 it is `ln(1 + f) = 2s + s z (2/3 + 2/5 z + …)`, for
/// f32 `ln(1 + f) = f - f²/2 + f³/2 (2/3 + c₁f + c₂f² + …)` with coefficients fitted for |f| < 0.136.
const AFTER_TWO_THIRDS: Coefficients = Coefficients(
    &{
        let (mut c, mut i) = ([0.0; 11], 0);
        while i < 11 {
            c[i] = 2.0 / (2 * i + 5) as f64;
            i += 1;
        }
        c
    },
    &[-0.500_000_3, 0.399_995_3, -0.333_246_95, 0.285_994, -0.257_498_23, 0.221_522_67],
);
/// The constant 2/3, rounded, and its rounding error.
const TWO_THIRDS: [Constant; 2] =
    [Constant(2.0 / 3.0, 2.0 / 3.0), Constant(3.700_743_415_417_188e-17, -1.986_821_5e-8)];

/// Returns `ln x` for a normal number x, and its rounding error: together within 2⁻⁶³ of the value (f32: 2⁻³¹).
#[inline(always)]
pub(super) fn log_pair<N: Number>(x: N) -> [N; 2] {
    if N::Float::IS_F64 { log_pair_by_quotient(x) } else { log_pair_by_factor(x) }
}

/// Computes [`log_pair`] in f32. For `x = 2ᵏ m`, the number m is multiplied by 5/4, 1 or 13/16, so that |f| < 0.136 in
/// the product `1 + f`. These factors have so few bits that f is exact. The series in f is short and needs no quotient.
#[inline(always)]
fn log_pair_by_factor<N: Number>(x: N) -> [N; 2] {
    let of = |x: f32| N::of(N::Float::either(0.0, x));
    let [k, m] = split(x, Constant(0.0, 0.691_406_25));
    // Between these bounds, where the factor is 1 and the logarithm is small, |f³/3| is less than 2⁻¹¹, and its
    // rounding error is too small to matter.
    let (small, large) = (m.lt(of(0.89)), of(1.1).lt(m));
    let among = |a: f32, b: f32, c: f32| N::pick(small, of(a), N::pick(large, of(b), of(c)));
    let f = m.fma(among(1.25, 0.8125, 1.0), -N::of(N::Float::ONE));
    // The logarithm of 2ᵏ minus the logarithm of the factor. High parts are multiples of 2⁻¹⁵, so their sum is exact.
    let scale = k.fma(N::constant(LN2_HIGH), among(-0.223_144_53, 0.207_641_6, 0.0));
    let scale_low = k.fma(N::constant(LN2_LOW), among(9.799_357e-7, -2.236_784_2e-6, 0.0));
    // The difference f - f²/2 is `high + low`.
    let half = of(0.5) * f;
    let square = half * f;
    let square_low = half.fma(f, -square);
    let high = f - square;
    let low = ((f - high) - square) - square_low;
    // The power f³/2, with its rounding error.
    let cube = f * square;
    let cube_low = f.fma(square_low, f.fma(square, -cube));
    let [y, y_low] = fast_two_sum(scale, high);
    let two_thirds = N::constant(TWO_THIRDS[0]);
    let low = two_thirds.fma(cube_low, low + (y_low + scale_low));
    let low = (f * cube).fma(series(AFTER_TWO_THIRDS, f), low);
    fast_two_sum(y, cube.fma(two_thirds, low))
}

/// Computes [`log_pair`] in f64, by a quotient.
#[inline(always)]
fn log_pair_by_quotient<N: Number>(x: N) -> [N; 2] {
    let (zero, two) = (N::of(N::Float::ZERO), N::of(N::Float::TWO));
    let Parts { k, f, .. } = parts(x, |_| zero);
    // The variable of the series for ln(1 + f) is s = f / (2 + f), here with its rounding error `s_low`.
    let [d, d_low] = fast_two_sum(two, f);
    let by = N::of(N::Float::ONE) / d;
    let s = f * by;
    let s_low = ((-s).fma(d, f) - s * d_low) * by;
    // The variable z = s² of the series, with its rounding error `z_low`.
    let z = s * s;
    let z_low = s.fma(s, -z) + (s + s) * s_low;
    // The sum `2/3 + 2/5 z + 2/7 z² + …` in the series for ln(1 + f), as a rounded number and its rounding error.
    let [third, third_low] = TWO_THIRDS.map(N::constant);
    let [c, c_low] = fast_two_sum(third, z * series(AFTER_TWO_THIRDS, z));
    let c_low = c_low + third_low;
    // The power s z = s³, and its product with the sum `2/3 + 2/5 z + …`, each with its rounding error.
    let cube = s * z;
    let cube_low = s.fma(z, -cube) + s.fma(z_low, s_low * z);
    let term = cube * c;
    let term_low = cube.fma(c, -term) + cube.fma(c_low, cube_low * c);
    let [sum, sum_low] = fast_two_sum(s + s, term);
    let rest = sum_low + (s_low + s_low + term_low);
    let [y, y_low] = fast_two_sum(k * N::constant(LN2_HIGH), sum);
    fast_two_sum(y, y_low + k.fma(N::constant(LN2_LOW), rest))
}

/// The implementation of [`log`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Log;

/// Returns whether x is a positive normal number.
#[inline(always)]
fn is_normal<N: Number>(x: N) -> N::Mask {
    N::of(N::Float::LEAST).le(x) & x.le(N::of(N::Float::LARGEST))
}

impl Parted for Log {
    /// Returns whether the straight-line part is valid for x: for normal numbers, and for 0, which is frequent in
    /// counts and probabilities.
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x) | x.same(N::of(N::Float::ZERO))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let zero = N::of(N::Float::ZERO);
        N::pick(x.same(zero), -N::of(N::Float::INFINITY), log_with_correction(x, zero))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let scaled = log_with_correction(x * N::of(SCALE.0), N::of(-SCALE.1 * LN2_LOW.0));
        beyond(x, scaled - N::of(SCALE.1 * LN2_HIGH.0))
    }
}

/// Returns the natural logarithm `ln x`, within 1 ulp.
///
/// Domain: `[0, +∞]`. -∞ at ±0, +∞ at +∞, NaN below zero and for NaN.
#[must_use]
pub fn log(x: f64) -> f64 {
    Log::here(x)
}

/// The factor 2⁵⁴, which makes every subnormal number normal, and its binary exponent 54.
const SCALE: (f64, f64) = ((1u64 << 54) as f64, 54.0);

/// Returns the logarithm of an x that is not a positive normal number; `scaled` is the result for a subnormal x.
#[inline(always)]
fn beyond<N: Number<Float = f64>>(x: N, scaled: N) -> N {
    let [zero, infinity, nan] = [0.0, f64::INFINITY, f64::NAN].map(N::of);
    let positive = N::pick(x.lt(infinity), scaled, x);
    N::pick(x.same(zero), -infinity, N::pick(zero.lt(x), positive, nan))
}

/// Returns `ln 2x` for an x of at least 1e150, also where 2x is no float.
#[inline(always)]
pub(super) fn log_of_double<N: Number<Float = f64>>(x: N) -> N {
    // The logarithm of x / 2⁵⁴ lacks 55 ln 2, of which the low part is added first.
    let steps = SCALE.1 + 1.0;
    let scaled = log_with_correction(x * N::of(1.0 / SCALE.0), N::of(steps * LN2_LOW.0))
        + N::of(steps * LN2_HIGH.0);
    N::pick(x.le(N::of(f64::LARGEST)), scaled, x)
}

/// Returns `ln x` and its rounding error as [`log_pair`] does, also for a subnormal x.
#[inline(always)]
pub(super) fn log_pair_of_positive<N: Number<Float = f64>>(x: N) -> [N; 2] {
    let subnormal = x.lt(N::of(f64::LEAST));
    let [y, y_low] = log_pair(N::pick(subnormal, x * N::of(SCALE.0), x));
    let zero = N::of(f64::ZERO);
    let [less, less_low] =
        [LN2_HIGH.0, LN2_LOW.0].map(|c| N::pick(subnormal, N::of(SCALE.1 * c), zero));
    let [y, lost] = fast_two_sum(y, -less);
    fast_two_sum(y, lost + (y_low - less_low))
}

/// The implementation of [`log2`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Log2;

impl Parted for Log2 {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        to_base(x, [Constant(1.0, 1.0), Constant(0.0, 0.0)], LOG2_E_PIECES)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let scaled = Self::straight(x * N::of(SCALE.0)) - N::of(SCALE.1);
        beyond(x, scaled)
    }
}

/// Returns the binary logarithm `log₂ x`, within 1 ulp; exact for powers of two.
///
/// Domain: `[0, +∞]`. -∞ at ±0, +∞ at +∞, NaN below zero and for NaN.
#[must_use]
pub fn log2(x: f64) -> f64 {
    Log2::here(x)
}

/// The implementation of [`log10`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Log10;

impl Parted for Log10 {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        to_base(x, LOG10_2_PIECES, LOG10_E_PIECES)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let [high, low] = LOG10_2_PIECES.map(|c| N::of(SCALE.1 * c.0));
        beyond(x, (Self::straight(x * N::of(SCALE.0)) - high) - low)
    }
}

/// Returns the decimal logarithm `log₁₀ x`, within 1 ulp; exact for powers of ten that are floats.
///
/// Domain: `[0, +∞]`. -∞ at ±0, +∞ at +∞, NaN below zero and for NaN.
#[must_use]
pub fn log10(x: f64) -> f64 {
    Log10::here(x)
}

/// Returns `ln(1 + x + x_low)` for a number `x > -1`, where `x_low` is the rounding error of `x`.
#[inline(always)]
pub(super) fn log1p_of_sum<N: Number>(x: N, x_low: N) -> N {
    // ln(1 + x) = ln u + ln(1 + lost/u), where u = 1 + x, rounded, and `lost` is its rounding error.
    let (one, two) = (N::of(N::Float::ONE), N::of(N::Float::TWO));
    let u = one + x;
    let lost = N::pick(u.gt(two), one - (u - x), x - (u - one));
    log_with_correction(u, (lost + x_low) / u)
}

/// The implementation of [`log1p`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Log1p;

impl Parted for Log1p {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        (-N::of(N::Float::ONE)).lt(x) & x.lt(N::of(N::Float::LARGEST))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        log1p_of_sum(x, N::of(N::Float::ZERO)).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Log::whole(N::of(f64::ONE) + x)
    }
}

/// Returns `ln(1 + x)`, within 1 ulp, near 0 as well.
///
/// Domain: `[-1, +∞]`. `log1p(±0) = ±0`, -∞ at -1, +∞ at +∞, NaN below -1 and for NaN.
#[must_use]
pub fn log1p(x: f64) -> f64 {
    Log1p::here(x)
}

/// The implementation of [`softplus`], which evaluates one argument or a vector of eight, or lists its operations for
/// the code generator.
pub struct Softplus;

impl Parted for Softplus {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Exp::inside(-x.abs())
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let zero = N::of(N::Float::ZERO);
        N::pick(x.gt(zero), x, zero) + Log1p::straight(Exp::straight(-x.abs()))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        LogAddExp::whole(x, N::of(f64::ZERO))
    }
}

/// Returns the softplus function `ln(1 + eˣ)`, within 2 ulp.
///
/// Domain: all reals. 0 at -∞, +∞ at +∞, NaN for NaN.
#[must_use]
pub fn softplus(x: f64) -> f64 {
    Softplus::here(x)
}

/// Above this difference of the operands, the smaller operand does not change the result.
const APART: Constant = Constant(746.0, 104.0);

/// The implementation of [`logaddexp`], which evaluates one pair of arguments, or lists its operations for the code
/// generator.
pub struct LogAddExp;

impl PartedPair for LogAddExp {
    #[inline(always)]
    fn inside<N: Number>(x: N, y: N) -> N::Mask {
        let off = (x - y).abs();
        Exp::inside(-off) | off.gt(N::constant(APART))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N, y: N) -> N {
        let off = (x - y).abs();
        let most = N::pick(x.lt(y), y, x);
        let less = Log1p::straight(Exp::straight(-off));
        most + N::pick(off.gt(N::constant(APART)), N::of(N::Float::ZERO), less)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N, y: N) -> N {
        let off = (x - y).abs();
        let most = N::pick(off.same(off), N::pick(x.lt(y), y, x), off);
        let sum = most + Log1p::whole(Exp::whole(-off));
        N::pick(x.same(y), x + N::of(std::f64::consts::LN_2), sum)
    }
}

/// Returns `ln(eˣ + eʸ)`, computed as the larger operand plus a correction for the smaller one.
///
/// Domain: all pairs of reals; +∞ if one is +∞, the other operand if one is -∞, NaN if one is NaN.
/// Within 2 ulp where the result has the sign of the larger operand. Where the result passes through 0 the
/// terms cancel, and the error is a few ulp of the terms.
#[must_use]
pub fn logaddexp(x: f64, y: f64) -> f64 {
    LogAddExp::here(x, y)
}
