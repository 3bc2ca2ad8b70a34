//! The exponential function, and functions computed from it.
//!
//! `x = k ln 2 + r` with `|r| ≤ ln 2 / 2`, and `eˣ = 2ᵏ eʳ`. `eʳ` is computed as a polynomial, for f64 the first 14
//! terms of the Taylor series, for f32 the polynomial of degree 7 that interpolates it at Chebyshev's points. Adding
//! `1.5·2⁵²` rounds a number to an integer and leaves that integer, `k`, in the lowest bits; the power of two is then
//! assembled from its exponent bits.
//!
//! Source of the two pieces of ln 2: Cody and Waite, *Software Manual for the Elementary Functions* (1980).

use super::number::{Coefficients, Constant, Format, Number, series, two_sum};
use super::series::over_factorials;
use super::vector_math::Parted;

/// The high part of ln 2, a float with few bits, so that its products with `k` are exact.
pub(super) const LN2_HIGH: Constant =
    Constant(f64::from_bits(0x3fe6_2e42_fee0_0000), f32::from_bits(0x3f31_7200));
/// The low part of ln 2: the difference of ln 2 and [`LN2_HIGH`], rounded.
pub(super) const LN2_LOW: Constant =
    Constant(f64::from_bits(0x3dea_39ef_3579_3c76), 1.428_606_8e-6);
/// The constant 1 / ln 2.
const LOG2_E: Constant = Constant(std::f64::consts::LOG2_E, std::f32::consts::LOG2_E);
/// The coefficients of `(eʳ - 1 - r) / r²` in powers of r.
pub(super) const EXP: Coefficients = Coefficients(
    &over_factorials::<12>(2, 1, 1.0),
    &[0.5, 0.166_666_67, 0.041_666_467, 0.008_333_310_5, 0.001_393_365, 0.000_198_909_9],
);
/// The largest |x| for which `eˣ` and `e⁻ˣ` are certain to be normal numbers.
pub(super) const NORMAL: Constant = Constant(708.0, 87.0);
/// The negative x up to which `eˣ` rounds to 0.
const ZERO_UP_TO: Constant = Constant(-746.0, -104.0);
/// The constant ln 2.
const LN2: Constant = Constant(std::f64::consts::LN_2, std::f32::consts::LN_2);
/// The coefficients of `(2ʳ - 1 - r ln 2) / r²` in powers of r.
const EXP2: Coefficients = Coefficients(
    &[
        0.240_226_506_959_100_72,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_48,
        0.001_333_355_814_642_844_8,
        0.000_154_035_303_933_707_32,
        1.525_273_380_404_754_4e-5,
        1.321_548_680_870_626e-6,
        1.017_808_602_446_311_6e-7,
        7.054_897_303_836_577e-9,
        4.445_528_998_049_223e-10,
        2.572_932_468_764_404_4e-11,
        1.371_886_938_203_545_8e-12,
    ],
    &[0.240_226_5, 0.055_504_11, 0.009_618_083, 0.001_333_348_3, 0.000_154_531_65, 1.530_34e-5],
);
/// The largest |x| for which `2ˣ` and `2⁻ˣ` are both normal numbers.
const NORMAL_OF_TWO: Constant = Constant(1022.0, 126.0);

/// A reduced argument: `x = k ln 2 + r + c`, with an integer k.
pub(super) struct Reduced<N> {
    /// The integer `k`, held in the lowest bits of the float.
    pub(super) k: N,
    pub(super) r: N,
    /// The rounding error of `r`; with it, `k ln 2 + r + c` is closer to `x` than `k ln 2 + r` is.
    pub(super) c: N,
}

#[inline(always)]
pub(super) fn reduce<N: Number>(x: N) -> Reduced<N> {
    let round = N::of(N::Float::ROUND);
    let k = x.fma(N::constant(LOG2_E), round);
    let whole = k - round;
    // The product of `whole` with the high part of ln 2 is exact, since that part has few bits; the product with the
    // low part is rounded.
    let high = whole.fma(-N::constant(LN2_HIGH), x);
    let low = whole * N::constant(LN2_LOW);
    let r = high - low;
    Reduced { k, r, c: (high - r) - low }
}

/// Returns the rest `eʳ⁺ᶜ - 1 - r`, where `c` is the rounding error of `r`.
#[inline(always)]
fn rest<N: Number>(r: N, c: N) -> N {
    (r * r).fma(series(EXP, r), r.fma(c, c))
}

/// Returns, for `x = k ln 2 + r`, the integer `k` in the lowest bits, and `eʳ - 1`. The rounding error of `r` is
/// dropped: it is smaller than that of the result.
#[inline(always)]
pub(super) fn parts<N: Number>(x: N) -> (N, N) {
    let [k, r] = reduce_briefly(x);
    (k, (r * r).fma(series(EXP, r), r))
}

/// Returns the integer `k` in the lowest bits and `r` of `x = k ln 2 + r`, without the rounding error of `r`.
#[inline(always)]
fn reduce_briefly<N: Number>(x: N) -> [N; 2] {
    let round = N::of(N::Float::ROUND);
    let k = x.fma(N::constant(LOG2_E), round);
    let whole = k - round;
    let high = whole.fma(-N::constant(LN2_HIGH), x);
    [k, whole.fma(-N::constant(LN2_LOW), high)]
}

/// Returns `2ᵏ y` for `k` in the lowest bits, also where the result or 2ᵏ is not a normal number. The function multiplies by
/// two powers of two one after the other; only the second product rounds.
#[inline(always)]
fn scaled<N: Number<Float = f64>>(k: N, y: N) -> N {
    let round = N::of(f64::ROUND);
    let whole = k - round;
    let half = whole.fma(N::of(f64::HALF), round);
    let rest = (whole - (half - round)) + round;
    y * power_of_two(half) * power_of_two(rest)
}

/// Returns `x`, bounded by `least` and `most`; NaN for NaN.
#[inline(always)]
fn clamped<N: Number<Float = f64>>(x: N, least: f64, most: f64) -> N {
    let [least, most] = [least, most].map(N::of);
    N::pick(x.lt(least), least, N::pick(x.gt(most), most, x))
}

/// The x below which `y eˣ` is 0 in [`exp_times`].
const LEAST_EXPONENT: f64 = -750.0;
/// The x above which `y eˣ` is infinite in [`exp_times`].
const GREATEST_EXPONENT: f64 = 712.0;

/// Returns `y eˣ` for a `y` between 2⁻¹⁰ and 4. Also correct if eˣ or the result is not a normal number.
#[inline(always)]
pub(super) fn exp_times<N: Number<Float = f64>>(x: N, y: N) -> N {
    let (k, p) = parts(clamped(x, LEAST_EXPONENT, GREATEST_EXPONENT));
    scaled(k, y * (N::of(f64::ONE) + p))
}

/// Returns `2ᵏ` for an integer `k` in the lowest bits of the float; `2ᵏ` must be a normal number.
#[inline(always)]
pub(super) fn power_of_two<N: Number>(k: N) -> N {
    N::of(N::Float::ONE).plus_bits(k.shift_left(N::Float::FRACTION))
}

/// The implementation of [`exp`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Exp;

/// Returns whether `eˣ` and `e⁻ˣ` are certain to be normal numbers.
#[inline(always)]
fn is_normal<N: Number>(x: N) -> N::Mask {
    x.abs().le(N::constant(NORMAL))
}

/// Returns `eˣ`, for an x at which it is a normal number.
#[inline(always)]
fn normal<N: Number>(x: N) -> N {
    let (k, p) = parts(x);
    (N::of(N::Float::ONE) + p).plus_bits(k.shift_left(N::Float::FRACTION))
}

/// Returns the parts of `eˣ⁺ᶜ = 2ᵏ y` for a small rounding error `c` of `x`: the integer k in the lowest bits, and y.
#[inline(always)]
fn parts_of_sum<N: Number>(x: N, c: N) -> (N, N) {
    let round = N::of(N::Float::ROUND);
    let k = x.fma(N::constant(LOG2_E), round);
    let whole = k - round;
    let high = whole.fma(-N::constant(LN2_HIGH), x);
    let low = whole.fma(-N::constant(LN2_LOW), c);
    // The reduced argument is `r + lost`; the factor eʳ of the small term is 1 + r to the needed accuracy.
    let r = high + low;
    let lost = (high - r) + low;
    let rest = (r * r).fma(series(EXP, r), lost.fma(r, lost));
    (k, N::of(N::Float::ONE) + (r + rest))
}

/// Returns `eˣ⁺ᶜ` for a small rounding error `c` of `x`, for an x that `Exp::inside` accepts, so that `Exp::straight`
/// is valid.
#[inline(always)]
pub(super) fn exp_of_sum<N: Number>(x: N, c: N) -> N {
    let (k, y) = parts_of_sum(x, c);
    let zero = N::of(N::Float::ZERO);
    N::pick(x.le(N::constant(ZERO_UP_TO)), zero, y.plus_bits(k.shift_left(N::Float::FRACTION)))
}

/// Returns `eˣ⁺ᶜ` for a small rounding error `c` of `x`, also where the result is not a normal number. NaN for NaN.
#[inline(always)]
pub(super) fn exp_of_any_sum<N: Number<Float = f64>>(x: N, c: N) -> N {
    let [least, greatest] = [LEAST_EXPONENT, GREATEST_EXPONENT].map(N::of);
    // If x is infinite, its rounding error c may be NaN, so c is not used there.
    let finite = least.lt(x) & x.lt(greatest);
    let (k, y) = parts_of_sum(clamped(x, LEAST_EXPONENT, GREATEST_EXPONENT), c);
    let ends = N::pick(x.gt(N::of(f64::ZERO)), N::of(f64::INFINITY), N::of(f64::ZERO));
    N::pick(finite, scaled(k, y), N::pick(x.same(x), ends, x))
}

/// Returns `e^-|x|` and its rounding error, for an `x` that `Exp::inside` accepts, so that `Exp::straight` is valid.
#[inline(always)]
pub(super) fn exp_of_negative<N: Number>(x: N) -> [N; 2] {
    let (zero, one) = (N::of(N::Float::ZERO), N::of(N::Float::ONE));
    let x = -x.abs();
    let is_zero = x.le(N::constant(ZERO_UP_TO));
    let (k, p) = parts(x);
    let y = one + p;
    let power = power_of_two(k);
    [power * y, power * ((one - y) + p)].map(|y| N::pick(is_zero, zero, y))
}

impl Parted for Exp {
    /// Returns whether the straight-line part is valid for x: where `eˣ` is normal, and at very negative numbers,
    /// which are frequent in attention masks.
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x) | x.le(N::constant(ZERO_UP_TO))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let zero = N::of(N::Float::ZERO);
        N::pick(x.le(N::constant(ZERO_UP_TO)), zero, normal(x))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        exp_times(x, N::of(f64::ONE))
    }
}

/// Returns the exponential `eˣ`, within 1 ulp.
///
/// Domain: all reals. 0 at -∞, +∞ at +∞ and from 709.8 on; underflows gradually below -708.
#[must_use]
pub fn exp(x: f64) -> f64 {
    Exp::here(x)
}

/// The implementation of [`exp2`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Exp2;

/// Splits `x = k + r` exactly, with an integer k; returns `k` in the lowest bits, and `2ʳ`.
#[inline(always)]
fn parts_of_two<N: Number>(x: N) -> (N, N) {
    let round = N::of(N::Float::ROUND);
    let k = x + round;
    let r = x - (k - round);
    let rest = (r * r) * series(EXP2, r);
    (k, N::of(N::Float::ONE) + r.fma(N::constant(LN2), rest))
}

impl Parted for Exp2 {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NORMAL_OF_TWO))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (k, y) = parts_of_two(x);
        y.plus_bits(k.shift_left(N::Float::FRACTION))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let (k, y) = parts_of_two(clamped(x, -1080.0, 1025.0));
        scaled(k, y)
    }
}

/// Returns the power of two `2ˣ`, within 1 ulp; exact for whole numbers.
///
/// Domain: all reals. 0 at -∞, +∞ at +∞ and from 1024 on; underflows gradually below -1022.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    Exp2::here(x)
}

/// The implementation of [`expm1`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Expm1;

impl Parted for Expm1 {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let Reduced { k, r, c } = reduce(x);
        // The result is 2ᵏ (eʳ - 1) + 2ᵏ - 1; `two_sum` adds the two large parts without rounding error.
        let scale = power_of_two(k);
        let (sum, lost) = two_sum(scale - N::of(N::Float::ONE), scale * r);
        (sum + scale.fma(rest(r, c), lost)).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        N::pick(x.lt(N::of(f64::ZERO)), N::of(-1.0), Exp::whole(x))
    }
}

/// Returns `eˣ - 1`, within 1.1 ulp, near 0 as well.
///
/// Domain: all reals. `expm1(±0) = ±0`, -1 at -∞, +∞ at +∞.
#[must_use]
pub fn expm1(x: f64) -> f64 {
    Expm1::here(x)
}

/// The implementation of [`logistic`], which evaluates one argument or a vector of eight, or lists its operations for
/// the code generator.
pub struct Logistic;

/// Returns `e^-|x|`, for an `x` that `Exp::inside` accepts. The exponent is ≤ 0 for both signs of x, so nothing overflows.
#[inline(always)]
fn exp_of_minus_size<N: Number>(x: N) -> N {
    Exp::straight(-x.abs())
}

impl Parted for Logistic {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        is_normal(x) | (-x.abs()).le(N::constant(ZERO_UP_TO))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (one, e) = (N::of(N::Float::ONE), exp_of_minus_size(x));
        N::pick(x.lt(N::of(N::Float::ZERO)), e, one) / (one + e)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        let (one, e) = (N::of(f64::ONE), Exp::whole(-x.abs()));
        N::pick(x.lt(N::of(f64::ZERO)), e, one) / (one + e)
    }
}

/// Returns the logistic sigmoid `1 / (1 + e⁻ˣ)`, within 2.5 ulp.
///
/// Domain: all reals. `logistic(-∞) = 0`, `logistic(0) = 1/2`,
/// `logistic(+∞) = 1`, NaN for NaN; underflows gradually below -708.
#[must_use]
pub fn logistic(x: f64) -> f64 {
    Logistic::here(x)
}

/// The implementation of [`logistic_density`], which evaluates one argument or a vector of eight, or lists its
/// operations for the code generator.
pub struct LogisticDensity;

/// Returns `(1 + e)²` for a number `e` between 0 and 1 and the rounded sum `below = 1 + e`. The square is corrected for the
/// rounding error of the sum.
#[inline(always)]
pub(super) fn square_of_sum<N: Number>(below: N, e: N) -> N {
    let lacks = (N::of(N::Float::ONE) - below) + e;
    below.fma(below, (below + below) * lacks)
}

impl Parted for LogisticDensity {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Logistic::inside(x)
    }

    /// Shares the exponential with [`Logistic`], so a loop with both functions takes little longer than a loop with one.
    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (one, e) = (N::of(N::Float::ONE), exp_of_minus_size(x));
        e / square_of_sum(one + e, e)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Exp::whole(-x.abs())
    }
}

/// Returns the derivative of the logistic sigmoid, `e⁻ˣ / (1 + e⁻ˣ)²`: the density of the logistic distribution. The
/// error is at most 2.5 ulp for negative and for positive x.
///
/// Domain: all reals, even. 0 at ±∞, NaN for NaN; underflows gradually.
#[must_use]
pub fn logistic_density(x: f64) -> f64 {
    LogisticDensity::here(x)
}
