//! Roots, powers and the inverse hyperbolic functions.
//!
//! The inverse hyperbolic functions are logarithms of `1 + w`, where the rounding error of `w` is added back.
//! A power is the exponential of a product of which the rounding error is known.

use super::erf::infinite_at_one;
use super::exponential::{Exp, exp_of_any_sum, exp_of_sum};
use super::logarithm::{
    WHOLE_AND_BIAS, log_of_double, log_pair, log_pair_of_positive, log1p_of_sum,
};
use super::number::{Coefficients, Constant, Format, Number, series, two_sum};
use super::vector_math::{Parted, PartedPair};

/// The coefficients of `m^(-1/3)` in powers of m, for 0.5 ≤ m ≤ 4, with the least relative error: 3.0e-3 (f32: 1.7e-2).
const INVERSE_ROOT: Coefficients = Coefficients(
    &[
        1.795_260_302_882,
        -1.503_523_097_484,
        1.027_223_125_972,
        -0.389_175_790_282,
        0.074_507_228_585,
        -0.005_620_379_448,
    ],
    &[1.558_548_6, -0.748_919_2, 0.231_295_82, -0.025_691_472],
);

/// The implementation of [`cbrt`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Cbrt;

impl Parted for Cbrt {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        let a = x.abs();
        let normal = N::of(N::Float::LEAST).le(a) & a.le(N::of(N::Float::LARGEST));
        normal | x.same(N::of(N::Float::ZERO))
    }

    /// Computes the root from `x = m · 8ᵏ` with 0.5 ≤ m < 4. A polynomial gives the first guess z of `m^(-1/3)`, and
    /// one step of order four (in f32 three), which needs no division, improves z. One step of Newton's method for the
    /// cube root `m z²` itself comes last.
    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let bits = N::Float::FRACTION;
        let [zero, one] = [N::Float::ZERO, N::Float::ONE].map(N::of);
        let third = N::of(N::Float::either(1.0 / 3.0, 1.0 / 3.0));
        let [round, minus_three] = [N::Float::ROUND, N::Float::either(-3.0, -3.0)].map(N::of);
        let a = x.abs();
        // Put the biased exponent of |x| into the fraction bits of 2⁵² (f32: 2²³). The float is then 2⁵² plus the
        // exponent.
        let whole = a.shift_right(bits).or_bits(N::of(N::Float::WHOLE));
        let exponent = whole - N::constant(WHOLE_AND_BIAS);
        // The floats `k` and `minus_three_k` hold the integers k and -3k in their lowest bits.
        let k = exponent.fma(third, round);
        let minus_three_k = (k - round).fma(minus_three, round);
        let m = a.plus_bits(minus_three_k.shift_left(bits));

        let z = series(INVERSE_ROOT, m);
        // With e = 1 - m z³ for the guess z, the exact inverse cube root of m is z / (1 - e)^(1/3). The next lines
        // multiply z by the first terms of that series in e.
        let e = (-(m * z * z)).fma(z, one);
        let [c2, c3] = [(2.0 / 9.0, 2.0 / 9.0), (14.0 / 81.0, 14.0 / 81.0)]
            .map(|(wide, narrow)| N::of(N::Float::either(wide, narrow)));
        let by = e.fma(if N::Float::IS_F64 { e.fma(c3, c2) } else { c2 }, third);
        let z = (z * e).fma(by, z);
        let square = z * z;
        let y = m * square;
        let residual = (-(y * y)).fma(y, m);
        let root = residual.fma(square * third, y).plus_bits(k.shift_left(bits));
        N::pick(a.same(zero), x, root.or_bits(x.xor_bits(a)))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        // The factor 2⁵⁴ makes every subnormal number normal; its cube root is 2¹⁸. Zero, infinities and NaN are their
        // own roots.
        const SCALE: f64 = (1u64 << 54) as f64;
        const ROOT: f64 = (1u64 << 18) as f64;
        let scaled = Self::straight(x * N::of(SCALE)) * N::of(1.0 / ROOT);
        N::pick(x.abs().lt(N::of(f64::LEAST)), scaled, x)
    }
}

/// Returns the cube root of `x`, within 0.8 ulp.
///
/// Domain: all reals, odd. `cbrt(±0) = ±0`, `cbrt(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    Cbrt::here(x)
}

/// The implementation of [`pow`], which evaluates one pair of arguments, or lists its operations for the code
/// generator.
pub struct Pow;

impl PartedPair for Pow {
    /// Returns whether x is a positive normal number and the power is normal or 0, or x is 0 and 1 ≤ y.
    #[inline(always)]
    fn inside<N: Number>(x: N, y: N) -> N::Mask {
        let [zero, one, largest] = [N::Float::ZERO, N::Float::ONE, N::Float::LARGEST].map(N::of);
        let positive = N::of(N::Float::LEAST).le(x) & x.le(largest);
        // The number -0 is excluded, because its odd powers are -0. For a zero x, `one.or_bits(x)` is 1 with its sign.
        let is_zero = x.same(zero) & zero.lt(one.or_bits(x)) & one.le(y) & y.le(largest);
        let [high, _] = log_pair(x);
        (positive & Exp::inside(y * high)) | is_zero
    }

    /// Computes `xʸ = e^(y ln x)`; the logarithm and the product are represented as a rounded number and its rounding
    /// error.
    #[inline(always)]
    fn straight<N: Number>(x: N, y: N) -> N {
        let zero = N::of(N::Float::ZERO);
        let [high, low] = log_pair(x);
        let product = y * high;
        let rest = y.fma(high, -product) + y * low;
        N::pick(x.same(zero), zero, exp_of_sum(product, rest))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N, y: N) -> N {
        let [zero, one, infinity, nan] = [0.0, 1.0, f64::INFINITY, f64::NAN].map(N::of);
        let a = x.abs();
        // The power of |x|, computed as in `straight`. The powers of 0, 1 and infinity are picked afterwards, since
        // their logarithms are infinite, or 0, whose product with an infinite y is NaN.
        let [high, low] = log_pair_of_positive(a);
        let product = y * high;
        let rest = y.fma(high, -product) + y * low;
        let [rises, falls] =
            [N::pick(zero.lt(y), infinity, zero), N::pick(y.lt(zero), infinity, zero)];
        let power = exp_of_any_sum(product, rest);
        let power = N::pick(a.same(infinity), rises, N::pick(a.same(zero), falls, power));
        let power = N::pick(a.same(one), one, power);
        // Odd powers of negative numbers, -0 among them, are negative; fractional powers of negative finite numbers are
        // NaN.
        let negative = one.copysign(x).lt(zero);
        let odd = is_whole(y) & !is_whole(N::of(f64::HALF) * y);
        let power = N::pick(negative & odd, -power, power);
        let fractional = x.lt(zero) & a.lt(infinity) & !is_whole(y);
        let known = x.same(x) & y.same(y) & !fractional;
        N::pick(y.same(zero) | x.same(one), one, N::pick(known, power, nan))
    }
}

/// Returns whether `y` is a whole number; infinities are.
#[inline(always)]
fn is_whole<N: Number<Float = f64>>(y: N) -> N::Mask {
    let (a, whole) = (y.abs(), N::of(f64::WHOLE));
    whole.le(a) | ((a + whole) - whole).same(a)
}

/// Returns the power `xʸ`, within 1 ulp.
///
/// Domain: `x ≥ 0`, or `y` a whole number; NaN elsewhere. `x⁰ = 1` and `1ʸ = 1` for every float, NaN among them.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    Pow::here(x, y)
}

/// The implementation of [`half_pow`] for the exponent `TWICE / 2`, with an odd `TWICE`.
pub struct HalfPow<const TWICE: i32>;

impl<const TWICE: i32> Parted for HalfPow<TWICE> {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let [zero, one, infinity] = [N::Float::ZERO, N::Float::ONE, N::Float::INFINITY].map(N::of);
        // C's `pow` gives -0 the half powers of 0, and -∞ those of ∞. The square root of -0 is -0, however, and that of
        // -∞ is NaN, so replace these operands first.
        let x = N::pick(x.same(-infinity), infinity, x + zero);
        let mut y = x.sqrt();
        if TWICE < 0 {
            y = one / y;
        }
        // Multiply by one factor after the other: the product of the factors may overflow or underflow where the power
        // does not.
        for _ in 0..TWICE.unsigned_abs() / 2 {
            y = if TWICE < 0 { y / x } else { y * x };
        }
        y
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the power `xⁿᐟ²` for an odd n, by a square root and products or quotients. The error is at most 0.5 ulp for
/// n = 1, 1.5 for n = -1 and 3, and 2.5 for n = 5 and -3; for other n, it is that of [`pow`].
///
/// Domain: `x ≥ 0`; NaN below, except at -∞. The values at ±0 and ±∞ are those of [`pow`].
#[must_use]
pub fn half_pow(n: i32, x: f64) -> f64 {
    match n {
        -3 => HalfPow::<-3>::here(x),
        -1 => HalfPow::<-1>::here(x),
        1 => HalfPow::<1>::here(x),
        3 => HalfPow::<3>::here(x),
        5 => HalfPow::<5>::here(x),
        _ => pow(x, 0.5 * f64::from(n)),
    }
}

/// Bounds on the larger of |x| and |y| in [`hypot`]. Up to the larger bound, the square of the larger number does not
/// overflow. From the smaller bound on, the square of the smaller number is negligible wherever it underflows.
const SIDES: [Constant; 2] = [Constant(1e-135, 1e-13), Constant(1e150, 1e18)];

/// The implementation of [`hypot`], which evaluates one pair of arguments, or lists its operations for the code
/// generator.
pub struct Hypot;

impl PartedPair for Hypot {
    #[inline(always)]
    fn inside<N: Number>(x: N, y: N) -> N::Mask {
        let (a, b, [least, most]) = (x.abs(), y.abs(), SIDES.map(N::constant));
        let both_zero = (a + b).same(N::of(N::Float::ZERO));
        a.le(most) & b.le(most) & (least.le(a) | least.le(b) | both_zero)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N, y: N) -> N {
        let (a, b) = (x.abs(), y.abs());
        let less = a.lt(b);
        let (long, short) = (N::pick(less, b, a), N::pick(less, a, b));
        long.fma(long, short * short).sqrt()
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N, y: N) -> N {
        /// A power of two: small arguments are multiplied by it, and large arguments divided by it, before they are
        /// squared.
        const SCALE: f64 = f64::from_bits((1023 + 600) << 52);
        let (a, b, infinity) = (x.abs(), y.abs(), N::of(f64::INFINITY));
        let large = N::of(f64::ONE).lt(a) | N::of(f64::ONE).lt(b);
        let scale = N::pick(large, N::of(1.0 / SCALE), N::of(SCALE));
        let back = N::pick(large, N::of(SCALE), N::of(1.0 / SCALE));
        let distance = Self::straight(a * scale, b * scale) * back;
        N::pick(a.same(infinity) | b.same(infinity), infinity, distance)
    }
}

/// Returns the distance `√(x² + y²)`, within 1.25 ulp; the squares neither overflow nor underflow.
///
/// Domain: all pairs of reals. +∞ if one is infinite, even if the other is NaN.
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    Hypot::here(x, y)
}

/// The implementation of [`rsqrt`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Rsqrt;

impl Parted for Rsqrt {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        N::of(N::Float::ONE) / x.sqrt()
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the reciprocal square root `1 / √x`, within 1.5 ulp.
///
/// Domain: `[0, +∞]`. `rsqrt(±0) = ±∞`, `rsqrt(+∞) = 0`, NaN below zero and for
/// NaN. Never overflows for positive `x`, subnormals included.
#[must_use]
pub fn rsqrt(x: f64) -> f64 {
    Rsqrt::here(x)
}

/// A bound on |x| within which x² does not overflow.
const SQUARE: Constant = Constant(1e150, 1e18);

/// The implementation of [`asinh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Asinh;

impl Parted for Asinh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Compute asinh a = ln(1 + a + a² / (1 + √(1 + a²))) as log1p of a sum; the quotient is smaller than a.
        let (one, a) = (N::of(N::Float::ONE), x.abs());
        let more = a * a / (one + a.fma(a, one).sqrt());
        let sum = a + more;
        log1p_of_sum(sum, (a - sum) + more).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        // For |x| above `SQUARE`, √(1 + x²) rounds to |x|, so the result is ln 2|x|.
        log_of_double(x.abs()).copysign(x)
    }
}

/// Returns the inverse hyperbolic sine, within 2 ulp for small and large arguments alike.
///
/// Domain: all reals, odd. `asinh(±0) = ±0`, `asinh(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    Asinh::here(x)
}

/// The implementation of [`acosh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Acosh;

impl Parted for Acosh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        N::of(N::Float::ONE).le(x) & x.le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Compute acosh x = ln(1 + t + √(t² + 2t)) with t = x - 1, as log1p of a sum.
        let t = x - N::of(N::Float::ONE);
        let (sum, lost) = two_sum(t, t.fma(t, t + t).sqrt());
        log1p_of_sum(sum, lost)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        // For x above `SQUARE`, √(x² - 1) rounds to x, so the result is ln 2x.
        N::pick(N::of(f64::ONE).le(x), log_of_double(x), N::of(f64::NAN))
    }
}

/// Returns the inverse hyperbolic cosine, the non-negative branch; within 2 ulp.
///
/// Domain: `[1, +∞]`. `acosh(1) = 0`, `acosh(+∞) = +∞`, NaN below 1 and for NaN.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    Acosh::here(x)
}

/// The implementation of [`atanh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Atanh;

impl Parted for Atanh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().lt(N::of(N::Float::ONE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // Compute atanh a = ½ ln(1 + 2a / (1 - a)); the rounding error of the quotient is added back.
        let (half, one, a) = (N::of(N::Float::HALF), N::of(N::Float::ONE), x.abs());
        let below = one - a;
        let (by, twice) = (one / below, a + a);
        let y = twice * by;
        let lacks = (-y).fma(below, twice) - y * ((one - below) - a);
        (half * log1p_of_sum(y, lacks * by)).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        infinite_at_one(x)
    }
}

/// Returns the inverse hyperbolic tangent, within 2 ulp.
///
/// Domain: `[-1, 1]`, odd. `atanh(±0) = ±0`, `atanh(±1) = ±∞`, NaN outside and
/// for NaN.
#[must_use]
pub fn atanh(x: f64) -> f64 {
    Atanh::here(x)
}
