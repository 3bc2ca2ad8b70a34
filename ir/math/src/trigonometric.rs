//! Sine, cosine and tangent.
//!
//! `x = k π/2 + r + t` with `|r| ≤ π/4` and the rounding error `t` of `r`. The last two bits of `k` select the
//! series of sine or cosine and the sign. π/2 comes in three pieces: x minus `k` times the first piece is
//! exact, and so is the rounding error of `k` times the second (Cody and Waite, 1980). Angles beyond a million
//! (in f32 a hundred thousand) need more digits of π: f32 angles are then computed in f64, and f64 angles by
//! the `libm` crate (Payne and Hanek, 1983).

use super::number::{Coefficients, Constant, Format, Number, quotient, series, two_sum};
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

/// The parts of an angle of at most `NEAR`: the nearest multiple of π/2, and the sine and the cosine of the
/// remainder, each with its rounding error.
struct Angle<N> {
    /// The multiple k of π/2, as an integer in the lowest bits.
    k: N,
    sine: [N; 2],
    cosine: [N; 2],
}

#[inline(always)]
fn angle<N: Number>(x: N) -> Angle<N> {
    let (half, one, round) = (N::of(N::Float::HALF), N::of(N::Float::ONE), N::of(N::Float::ROUND));
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
    Angle { k: rounded, sine, cosine }
}

/// Returns whether an integer is odd; `k` holds the integer in the lowest bits of a float.
#[inline(always)]
fn is_odd<N: Number>(k: N) -> N::Mask {
    // Shift the last bit into the exponent: the float is then 0, or a positive number if the bit is set.
    k.and_bits(N::of_bits(1)).shift_left(N::Float::FRACTION).gt(N::of(N::Float::ZERO))
}

/// Returns the sine of `x + quarters π/2`, for `x` of at most `NEAR`.
#[inline(always)]
fn turned<N: Number>(x: N, quarters: u64) -> N {
    let Angle { k, sine, cosine } = angle(x);
    let k = k.plus_bits(N::of_bits(quarters));
    // The last bit of k selects sine or cosine, and the second-last bit the sign of the result.
    let y = N::pick(is_odd(k), cosine[0], sine[0]);
    y.xor_bits(k.and_bits(N::of_bits(2)).shift_left(N::Float::SIGN_BIT - 1))
}

/// The implementation of [`sin`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Sin;

impl Parted for Sin {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NEAR))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Return x itself for zeros, so that sin(-0) is -0.
        N::pick(x.same(N::of(N::Float::ZERO)), x, turned(x, 0))
    }

    fn beyond(x: f64) -> f64 {
        libm::sin(x)
    }
}

/// Returns the sine, within 1 ulp.
///
/// Domain: all reals, odd. `sin(±0) = ±0`, NaN at ±∞ and for NaN.
#[must_use]
pub fn sin(x: f64) -> f64 {
    Sin::here(x)
}

/// The implementation of [`cos`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Cos;

impl Parted for Cos {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Sin::inside(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        turned(x, 1)
    }

    fn beyond(x: f64) -> f64 {
        libm::cos(x)
    }
}

/// Returns the cosine, within 1 ulp.
///
/// Domain: all reals, even. 1 at 0, NaN at ±∞ and for NaN.
#[must_use]
pub fn cos(x: f64) -> f64 {
    Cos::here(x)
}

/// The implementation of [`tan`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Tan;

impl Parted for Tan {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Sin::inside(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let Angle { k, sine, cosine } = angle(x);
        let odd = is_odd(k);
        let above = [0, 1].map(|i| N::pick(odd, -cosine[i], sine[i]));
        let below = [0, 1].map(|i| N::pick(odd, sine[i], cosine[i]));
        let tan = quotient(above, below);
        // Return x itself for zeros, so that tan(-0) is -0.
        N::pick(x.same(N::of(N::Float::ZERO)), x, tan)
    }

    fn beyond(x: f64) -> f64 {
        libm::tan(x)
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
