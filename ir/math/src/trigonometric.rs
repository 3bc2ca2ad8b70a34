//! Sine, cosine and tangent.
//!
//! `x = k π/2 + r + t` with `|r| ≤ π/4` and the rounding error `t` of `r`. The last two bits of `k` select the
//! series of sine or cosine and the sign. π/2 comes in three pieces: x minus `k` times the first piece is
//! exact, and so is the rounding error of `k` times the second (Cody and Waite, 1980). Angles beyond a million
//! (in f32 a hundred thousand) need more digits of π. In f32 they are computed in f64; in f64 they are multiplied by
//! those digits of 2/π that are neither multiples of 4 nor too small to matter (Payne and Hanek, 1983).

use super::number::{
    Coefficients, Constant, Format, Number, fast_two_sum, quotient, series, two_sum,
};
use super::series::over_factorials;
use super::vector_math::Parted;

/// The constant π/2 in three pieces.
const HALF_PI: [Constant; 3] = [
    Constant(f64::from_bits(0x3ff9_21fb_5440_0000), f32::from_bits(0x3fc9_0fdb)),
    Constant(f64::from_bits(0x3dd0_b461_1a60_0000), f32::from_bits(0xb33b_bd2e)),
    Constant(f64::from_bits(0x3ba3_198a_2e03_7073), f32::from_bits(0xa6f7_2ced)),
];
/// The constant 2/π.
const TWO_OVER_PI: Constant = Constant(std::f64::consts::FRAC_2_PI, std::f32::consts::FRAC_2_PI);
/// The largest angle (in radians) for which three pieces of π/2 are enough.
const NEAR: Constant = Constant(1e6, 1e5);
/// The coefficients of `(sin r - r) / r³` in powers of `r²`.
const SINE: Coefficients = Coefficients(
    &over_factorials::<8>(3, 2, -1.0),
    &[0.166_666_67, -0.008_333_332, 0.000_198_400_86, -2.724_986_4e-6],
);
/// The coefficients of `(cos r - 1 + r²/2) / r⁴` in powers of `r²`.
const COSINE: Coefficients = Coefficients(
    &over_factorials::<8>(4, 2, -1.0),
    &[0.041_666_668, -0.001_388_888_8, 2.480_06e-5, -2.730_090_8e-7],
);

/// The parts of an angle: the nearest multiple of π/2, and the sine and the cosine of the remainder, each with its
/// rounding error.
struct Angle<N> {
    /// The multiple k of π/2, as an integer in the lowest bits.
    k: N,
    sine: [N; 2],
    cosine: [N; 2],
}

/// A reduced angle: `x = k π/2 + r + t`.
struct Reduced<N> {
    /// The multiple k of π/2, as an integer in the lowest bits.
    k: N,
    r: N,
    /// The rounding error of `r`.
    t: N,
}

/// Reduces an angle of at most `NEAR`.
#[inline(always)]
fn near<N: Number>(x: N) -> Reduced<N> {
    let round = N::of(N::Float::ROUND);
    let [first, second, third] = HALF_PI.map(N::constant);
    let rounded = x.fma(N::constant(TWO_OVER_PI), round);
    let k = rounded - round;
    // x minus k times the first piece of π/2 is exact. Then subtract k times the second piece, with its rounding
    // errors, and k times the third.
    let exact = k.fma(-first, x);
    let product = k * second;
    let rounding = k.fma(second, -product);
    let (r, t) = if N::Float::IS_F64 {
        let (sum, lost) = two_sum(exact, -product);
        let lost = k.fma(-third, lost - rounding);
        let r = sum + lost;
        (r, lost - (r - sum))
    } else {
        // The product is much smaller than the first piece of π/2, so `exact` is 0 or a multiple of ulp(product). So
        // subtracting the product from `exact` loses no more than one rounding error, in this order, for all relative
        // sizes of the two.
        let r = exact - product;
        (r, k.fma(-third, ((exact - r) - product) - rounding))
    };
    Reduced { k: rounded, r, t }
}

/// The first bits of 2/π, from the highest to the lowest, in words of 64 bits.
const DIGITS: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];
/// The number of bits of 2/π in each float of [`TWO_OVER_PI_PIECES`].
const PIECE: usize = 53;
/// The number of bits by which neighbouring rows of [`TWO_OVER_PI_PIECES`] differ.
const STEP: usize = 24;
/// The fractional part of `2^(24 j) · 2/π` as a sum of four floats, for each j.
const TWO_OVER_PI_PIECES: [[f64; 4]; 41] = {
    let (mut rows, mut j) = ([[0.0; 4]; 41], 0);
    while j < rows.len() {
        let mut i = 0;
        while i < 4 {
            let first = STEP * j + PIECE * i;
            let two = ((DIGITS[first / 64] as u128) << 64) | DIGITS[first / 64 + 1] as u128;
            let piece = (two << (first % 64)) >> (128 - PIECE);
            rows[j][i] = piece as f64 * power_of_two(-((PIECE * (i + 1)) as i64));
            i += 1;
        }
        j += 1;
    }
    rows
};

/// Returns 2ⁿ, which must be a normal number.
const fn power_of_two(n: i64) -> f64 {
    f64::from_bits(((n + f64::BIAS as i64) as u64) << f64::FRACTION)
}

/// Reduces an angle beyond `NEAR`. NaN for NaN and for infinities.
///
/// With `m = 2^(-24 j) |x|`, which is below 2⁷⁸ for the right j, `|x| · 2/π` is m times `2^(24 j) · 2/π`. For j > 0, m is a
/// multiple of 4, so the integer part of the second factor changes nothing: the angle is the same up to full turns.
#[inline(always)]
fn far<N: Number<Float = f64>>(x: N) -> Reduced<N> {
    let (a, round, quarter) = (x.abs(), N::of(f64::ROUND), N::of(0.25));
    let (mut scale, mut w) = (N::of(f64::ONE), TWO_OVER_PI_PIECES[0].map(N::of));
    for (j, row) in TWO_OVER_PI_PIECES.iter().enumerate().skip(1) {
        let exponent = (STEP * j) as i64;
        let reached = N::of(power_of_two(54 + exponent)).le(a);
        scale = N::pick(reached, N::of(power_of_two(-exponent)), scale);
        for (w, of_row) in w.iter_mut().zip(row) {
            *w = N::pick(reached, N::of(*of_row), *w);
        }
    }
    let m = a * scale;
    // The products with their rounding errors. The first is below 2⁷⁸, each rounding error at most 2⁻⁵³ of its product, and
    // each product 2⁻⁵³ of the one before. The rounding error of the last is negligible: the fractional part of no float
    // times 2/π is below 2⁻⁶².
    let p = w.map(|w| m * w);
    let e = [0, 1, 2].map(|i| m.fma(w[i], -p[i]));
    // Subtract a multiple of 4, exactly, so that at most 2 is left of a number below 2⁵³. From a larger number, a multiple
    // of 4 below 2⁵³ may be left. For a large negative number, the sum with `round` would be small and not an integer; so the
    // products are those of |x|.
    let rest = |y: N| (y.fma(quarter, round) - round).fma(N::of(-4.0), y);
    let (sum, lost) = two_sum(rest(rest(p[0])), rest(e[0]));
    let (sum, lost_too) = two_sum(sum, rest(p[1]));
    let whole = (sum + round) - round;
    let high = sum - whole;
    let (low, lowest) = two_sum(e[1], p[2]);
    let mut rests = lowest + (e[2] + p[3]);
    let mut tail = low;
    for part in [lost, lost_too] {
        let (sum, lost) = two_sum(tail, part);
        (tail, rests) = (sum, rests + lost);
    }
    let (high, low) = two_sum(high, tail);
    let [high, low] = fast_two_sum(high, low + rests);
    // The angle is `high + low` times π/2.
    let [half_pi, half_pi_low] = WHOLE_HALF_PI.map(N::of);
    let r = high * half_pi;
    let rest = high.fma(half_pi, -r) + high.fma(half_pi_low, low * half_pi);
    let [r, t] = fast_two_sum(r, rest);
    let sign = x.xor_bits(a);
    Reduced { k: whole.xor_bits(sign) + round, r: r.xor_bits(sign), t: t.xor_bits(sign) }
}

/// The constant π/2, rounded, and its rounding error.
const WHOLE_HALF_PI: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];

/// Returns the sine and the cosine of a reduced angle.
#[inline(always)]
fn angle<N: Number>(Reduced { k, r, t }: Reduced<N>) -> Angle<N> {
    let (half, one) = (N::of(N::Float::HALF), N::of(N::Float::ONE));
    let square = r * r;
    let (third, fourth) = (r * square, square * square);
    // `t cos r`, the correction of the sine for the rounding error t of r; the first terms of the cosine are
    // enough.
    let by = if N::Float::IS_F64 { t * (-half).fma(square, one) } else { t };
    let small = by - third * series(SINE, square);
    let sine = r + small;
    let part = half * square;
    let head = one - part;
    let rest = ((one - head) - part) + (fourth * series(COSINE, square) - r * t);
    let cosine = head + rest;
    let lacks = |y: N, first: N, second: N| [y, (first - y) + second];
    let (sine, cosine) = (lacks(sine, r, small), lacks(cosine, head, rest));
    Angle { k, sine, cosine }
}

/// Returns whether an integer is odd; `k` holds the integer in the lowest bits of a float.
#[inline(always)]
fn is_odd<N: Number>(k: N) -> N::Mask {
    // Shift the last bit into the exponent: the float is then 0, or a positive number if the bit is set.
    k.and_bits(N::of_bits(1)).shift_left(N::Float::FRACTION).gt(N::of(N::Float::ZERO))
}

/// Returns the sine of `x + quarters π/2`.
#[inline(always)]
fn turned<N: Number>(x: Reduced<N>, quarters: u64) -> N {
    let Angle { k, sine, cosine } = angle(x);
    let k = k.plus_bits(N::of_bits(quarters));
    // The last bit of k selects sine or cosine, and the second-last bit the sign of the result.
    let y = N::pick(is_odd(k), cosine[0], sine[0]);
    y.xor_bits(k.and_bits(N::of_bits(2)).shift_left(N::Float::SIGN_BIT - 1))
}

/// The implementation of [`sin`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Sin;

impl Parted for Sin {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NEAR))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Return x itself for zeros, so that sin(-0) is -0.
        N::pick(x.same(N::of(N::Float::ZERO)), x, turned(near(x), 0))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        turned(far(x), 0)
    }
}

/// Returns the sine, within 1 ulp.
///
/// Domain: all reals, odd. `sin(±0) = ±0`, NaN at ±∞ and for NaN.
#[must_use]
pub fn sin(x: f64) -> f64 {
    Sin::here(x)
}

/// The implementation of [`cos`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Cos;

impl Parted for Cos {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Sin::inside(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        turned(near(x), 1)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        turned(far(x), 1)
    }
}

/// Returns the cosine, within 1 ulp.
///
/// Domain: all reals, even. 1 at 0, NaN at ±∞ and for NaN.
#[must_use]
pub fn cos(x: f64) -> f64 {
    Cos::here(x)
}

/// Returns the tangent of a reduced angle.
#[inline(always)]
fn tangent<N: Number>(x: Reduced<N>) -> N {
    let Angle { k, sine, cosine } = angle(x);
    let odd = is_odd(k);
    let above = [0, 1].map(|i| N::pick(odd, -cosine[i], sine[i]));
    let below = [0, 1].map(|i| N::pick(odd, sine[i], cosine[i]));
    quotient(above, below)
}

/// The implementation of [`tan`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Tan;

impl Parted for Tan {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Sin::inside(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Return x itself for zeros, so that tan(-0) is -0.
        N::pick(x.same(N::of(N::Float::ZERO)), x, tangent(near(x)))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        tangent(far(x))
    }
}

/// Returns the tangent, within 1.3 ulp.
///
/// Domain: all reals, odd. `tan(±0) = ±0`, NaN at ±∞ and for NaN. No float is an odd multiple of π/2, so the
/// tangent has no pole at a float.
#[must_use]
pub fn tan(x: f64) -> f64 {
    Tan::here(x)
}
