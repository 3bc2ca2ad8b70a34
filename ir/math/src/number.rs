//! The numbers for which functions are written: floats of this machine, or recorded operations on them.
//!
//! A function of the scalar table is written once, generically over [`Number`]. For f64 and f32 it is plain
//! arithmetic, which the compiler vectorises where a call has eight arguments
//! ([`vector_math`](super::vector_math)). For [`Recorded`](super::record::Recorded) numbers the result is the
//! list of the operations ([`record`](super::record)), from which vector code is generated. Each operation
//! rounds by itself (IEEE 754), so that all of them return the same bits.
//!
//! ```
//! use tapeloom_math::Number;
//! fn square_plus_one<N: Number<Float = f64>>(x: N) -> N {
//!     x.fma(x, N::of(1.0))
//! }
//! assert_eq!(square_plus_one(3.0), 10.0);
//! ```

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// A float, or a recorded value that represents one: the result of an operation in the list that generated code is made
/// from.
///
/// Operations on bits take and return numbers, and act on their bit patterns.
pub trait Number:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The float type, f32 or f64, that the number is or represents.
    type Float: Format;
    /// The type of truth values, the results of comparisons.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    /// Returns the number for the constant `x`.
    fn of(x: Self::Float) -> Self;
    /// Returns the number for the constant `c`, which has one value for f64 and one for f32.
    #[must_use]
    fn constant(c: Constant) -> Self {
        Self::of(Self::Float::either(c.0, c.1))
    }
    /// Returns the number with the bit pattern `bits`; f32 uses the lower half.
    fn of_bits(bits: u64) -> Self;
    /// Returns `self * y + z`, rounded once (fused multiply-add).
    #[must_use]
    fn fma(self, y: Self, z: Self) -> Self;
    /// Returns the square root of the number.
    #[must_use]
    fn sqrt(self) -> Self;
    /// Returns the absolute value of the number.
    #[must_use]
    fn abs(self) -> Self;
    /// Returns the number `self` with the sign of the number `sign`.
    #[must_use]
    fn copysign(self, sign: Self) -> Self;
    /// Returns `self < y`; false if an operand is NaN, as for the other comparisons.
    fn lt(self, y: Self) -> Self::Mask;
    /// Returns `self <= y`.
    fn le(self, y: Self) -> Self::Mask;
    /// Returns `self == y`.
    fn same(self, y: Self) -> Self::Mask;
    /// Returns the mask that is always `holds`.
    fn always(holds: bool) -> Self::Mask;
    /// Returns `mask ? x : y`; both operands are computed.
    fn pick(mask: Self::Mask, x: Self, y: Self) -> Self;
    /// Returns the number whose bit pattern is the sum of the two bit patterns as integers; the sum wraps.
    #[must_use]
    fn plus_bits(self, y: Self) -> Self;
    /// Returns the number whose bit pattern is the bitwise and of the two bit patterns.
    #[must_use]
    fn and_bits(self, y: Self) -> Self;
    /// Returns the number whose bit pattern is the bitwise or of the two bit patterns.
    #[must_use]
    fn or_bits(self, y: Self) -> Self;
    /// Returns the number whose bit pattern is the bitwise exclusive or of the two bit patterns.
    #[must_use]
    fn xor_bits(self, y: Self) -> Self;
    /// Returns the number with its bit pattern shifted by `by` bits towards the most significant bit.
    #[must_use]
    fn shift_left(self, by: u32) -> Self;
    /// Returns the number with its bit pattern shifted by `by` bits towards the least significant bit, filled
    /// with zeros.
    #[must_use]
    fn shift_right(self, by: u32) -> Self;

    /// Returns `self > y`.
    fn gt(self, y: Self) -> Self::Mask {
        y.lt(self)
    }
}

/// A constant as its value for f64 and its value for f32.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constant(pub f64, pub f32);

/// The coefficients of a polynomial, lowest power first. The first list is for f64, the second, shorter one for f32.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Coefficients(pub &'static [f64], pub &'static [f32]);

/// A float type of this machine, with the constants of its representation.
pub trait Format: Number<Float = Self, Mask = bool> + 'static {
    /// The number of fraction bits: 52 for f64, 23 for f32.
    const FRACTION: u32;
    /// The index of the sign bit: 63 for f64, 31 for f32.
    const SIGN_BIT: u32;
    /// The exponent bias: 1023 for f64, 127 for f32.
    const BIAS: u64;
    /// 1.5 · 2^FRACTION. Adding it to a number below 2^(FRACTION - 1) rounds the number to an integer and
    /// leaves that integer in the lowest bits.
    const ROUND: Self;
    /// The number 2^FRACTION, from which on all floats are integers.
    const WHOLE: Self;
    /// The number 0.
    const ZERO: Self;
    /// The number 0.5.
    const HALF: Self;
    /// The number 1.
    const ONE: Self;
    /// The number 2.
    const TWO: Self;
    /// The number ∞.
    const INFINITY: Self;
    /// The least positive normal number.
    const LEAST: Self;
    /// The largest finite number of the format.
    const LARGEST: Self;
    /// Whether this format is f64; otherwise it is f32.
    const IS_F64: bool;

    /// Returns the constant for this format: `wide` for f64, `narrow` for f32.
    fn either(wide: f64, narrow: f32) -> Self;
    /// Returns the list of coefficients in `of` for this format.
    fn coefficients(of: Coefficients) -> &'static [Self];
}

macro_rules! format {
    ($float:ident, $bits:ident, $fraction:literal, ($wide:pat, $narrow:pat) => $own:ident) => {
        impl Format for $float {
            const FRACTION: u32 = $fraction;
            const SIGN_BIT: u32 = $bits::BITS - 1;
            const BIAS: u64 = (1 << ($bits::BITS - 2 - $fraction)) - 1;
            const ROUND: $float = 1.5 * (1u64 << $fraction) as $float;
            const WHOLE: $float = (1u64 << $fraction) as $float;
            const ZERO: $float = 0.0;
            const HALF: $float = 0.5;
            const ONE: $float = 1.0;
            const TWO: $float = 2.0;
            const INFINITY: $float = $float::INFINITY;
            const LEAST: $float = $float::MIN_POSITIVE;
            const LARGEST: $float = $float::MAX;
            const IS_F64: bool = $fraction == 52;

            #[inline(always)]
            fn either($wide: f64, $narrow: f32) -> $float {
                $own
            }
            #[inline(always)]
            fn coefficients(Coefficients($wide, $narrow): Coefficients) -> &'static [$float] {
                $own
            }
        }

        impl Number for $float {
            type Float = $float;
            type Mask = bool;

            #[inline(always)]
            fn of(x: $float) -> $float {
                x
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> $float {
                $float::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn fma(self, y: $float, z: $float) -> $float {
                self.mul_add(y, z)
            }
            #[inline(always)]
            fn sqrt(self) -> $float {
                $float::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> $float {
                $float::abs(self)
            }
            #[inline(always)]
            fn copysign(self, sign: $float) -> $float {
                $float::copysign(self, sign)
            }
            #[inline(always)]
            fn lt(self, y: $float) -> bool {
                self < y
            }
            #[inline(always)]
            fn le(self, y: $float) -> bool {
                self <= y
            }
            #[inline(always)]
            fn same(self, y: $float) -> bool {
                self == y
            }
            #[inline(always)]
            fn always(holds: bool) -> bool {
                holds
            }
            #[inline(always)]
            fn pick(mask: bool, x: $float, y: $float) -> $float {
                if mask { x } else { y }
            }
            #[inline(always)]
            fn plus_bits(self, y: $float) -> $float {
                $float::from_bits(self.to_bits().wrapping_add(y.to_bits()))
            }
            #[inline(always)]
            fn and_bits(self, y: $float) -> $float {
                $float::from_bits(self.to_bits() & y.to_bits())
            }
            #[inline(always)]
            fn or_bits(self, y: $float) -> $float {
                $float::from_bits(self.to_bits() | y.to_bits())
            }
            #[inline(always)]
            fn xor_bits(self, y: $float) -> $float {
                $float::from_bits(self.to_bits() ^ y.to_bits())
            }
            #[inline(always)]
            fn shift_left(self, by: u32) -> $float {
                $float::from_bits(self.to_bits() << by)
            }
            #[inline(always)]
            fn shift_right(self, by: u32) -> $float {
                $float::from_bits(self.to_bits() >> by)
            }
        }
    };
}

format!(f64, u64, 52, (own, _) => own);
format!(f32, u32, 23, (_, own) => own);

/// Returns `a + b`, rounded, and the rounding error (Knuth's TwoSum).
#[inline(always)]
pub(super) fn two_sum<N: Number>(a: N, b: N) -> (N, N) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// Returns `a + b`, rounded, and the rounding error, for |a| ≥ |b| (Dekker).
#[inline(always)]
pub(super) fn fast_two_sum<N: Number>(a: N, b: N) -> [N; 2] {
    let sum = a + b;
    [sum, b - (sum - a)]
}

/// Returns the quotient `(n + n_low) / (d + d_low)`. The remainder of the rounded quotient is added back, so the
/// result is within little more than half an ulp.
#[inline(always)]
pub(super) fn quotient<N: Number>([n, n_low]: [N; 2], [d, d_low]: [N; 2]) -> N {
    let by = N::of(N::Float::ONE) / d;
    let y = n * by;
    let lacks = (-y).fma(d, n) + (-y).fma(d_low, n_low);
    lacks.fma(by, y)
}

/// Returns the polynomial `c₀ + c₁x + c₂x² + …` for the coefficients of the format; see [`polynomial`].
#[inline(always)]
pub(super) fn series<N: Number>(c: Coefficients, x: N) -> N {
    polynomial(N::Float::coefficients(c), x)
}

/// Returns the polynomial `c₀ + c₁x + c₂x² + …` for at least two coefficients.
#[inline(always)]
pub(super) fn polynomial<N: Number>(c: &[N::Float], x: N) -> N {
    horner(c.len(), |i| N::of(c[i]), x)
}

/// Returns the polynomial `c₀ + c₁x + c₂x² + …` of `count` coefficients, at least two. Horner's rule runs for the even and
/// for the odd powers side by side, so that their operations overlap.
#[inline(always)]
pub(super) fn horner<N: Number>(count: usize, c: impl Fn(usize) -> N, x: N) -> N {
    let square = x * x;
    let last = count - 1;
    let (mut even, mut odd, mut i) = (c(last - 1), c(last), last - 1);
    if last.is_multiple_of(2) {
        even = odd.fma(square, c(last - 2));
        (odd, i) = (c(last - 1), last - 2);
    }
    while i > 0 {
        i -= 2;
        even = even.fma(square, c(i));
        odd = odd.fma(square, c(i + 1));
    }
    odd.fma(x, even)
}
