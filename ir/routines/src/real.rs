//! The two element types of the routines, `f32` and `f64`, with the operations that routines need.

use bytemuck::Pod;

use crate::lockstep::pack::Packed;

/// An element type of the routines: `f32` or `f64`.
pub(crate) trait Real: faer::traits::RealField + rustfft::FftNum + Pod + Packed {
    /// A NaN.
    const NAN: Self;
    /// The largest exponent `e` of a scaling factor `2^e`: factors up to it and their reciprocals are normal
    /// numbers.
    const FACTOR_EXPONENT: i32;
    /// A power of two p near the smallest normal number: every number between p and 1/p has a normal reciprocal.
    const RECIPROCAL: Self;

    /// The distance from one to the next larger number (machine epsilon).
    const ULP: Self;
    /// The smallest positive normal number.
    const TINY: Self;

    /// Returns the square root of the number.
    fn root(self) -> Self;
    /// Returns `sqrt(self^2 + other^2)` without overflow or underflow.
    fn length(self, other: Self) -> Self;
    /// Converts a double-precision number to this type, rounding it.
    fn of_f64(value: f64) -> Self;
    /// Converts a whole number, an index, to an `i32`.
    fn to_index(self) -> i32;
    /// Returns `2^exponent`, for the exponent of a normal number.
    fn power_of_two(exponent: i32) -> Self;
    /// Returns the exponent `e` with `2^e <= |self| < 2^(e+1)` of a normal number; for zero and subnormal
    /// numbers, a number below the exponents of all normal numbers.
    fn exponent(self) -> i32;
    /// Returns whether the reciprocal is a normal number, so that multiplication by the reciprocal may replace a
    /// division.
    fn divides(self) -> bool {
        let size = self.abs();
        size >= Self::RECIPROCAL && size <= Self::one() / Self::RECIPROCAL
    }
    /// Returns whether the number is neither NaN nor infinite.
    fn finite(self) -> bool;
}

impl Real for f32 {
    const NAN: Self = f32::NAN;
    const FACTOR_EXPONENT: i32 = 120;
    const RECIPROCAL: Self = f32::MIN_POSITIVE * 4.0;
    const ULP: Self = f32::EPSILON;
    const TINY: Self = f32::MIN_POSITIVE;

    fn root(self) -> Self {
        self.sqrt()
    }

    fn length(self, other: Self) -> Self {
        self.hypot(other)
    }

    fn of_f64(value: f64) -> Self {
        value as f32
    }

    fn to_index(self) -> i32 {
        self as i32
    }

    fn power_of_two(exponent: i32) -> Self {
        f32::from_bits(((exponent + 127) as u32) << 23)
    }

    fn exponent(self) -> i32 {
        (self.to_bits() >> 23 & 0xff) as i32 - 127
    }

    fn finite(self) -> bool {
        self.is_finite()
    }
}

impl Real for f64 {
    const NAN: Self = f64::NAN;
    const FACTOR_EXPONENT: i32 = 1000;
    const RECIPROCAL: Self = f64::MIN_POSITIVE * 4.0;
    const ULP: Self = f64::EPSILON;
    const TINY: Self = f64::MIN_POSITIVE;

    fn root(self) -> Self {
        self.sqrt()
    }

    fn length(self, other: Self) -> Self {
        self.hypot(other)
    }

    fn of_f64(value: f64) -> Self {
        value
    }

    fn to_index(self) -> i32 {
        self as i32
    }

    fn power_of_two(exponent: i32) -> Self {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    }

    fn exponent(self) -> i32 {
        (self.to_bits() >> 52 & 0x7ff) as i32 - 1023
    }

    fn finite(self) -> bool {
        self.is_finite()
    }
}

/// Returns whether all numbers of the slice are finite.
///
/// It sums `x * 0`, which is a zero for finite `x` and NaN otherwise; eight partial sums need no branch.
pub(crate) fn all_finite<T: Real>(values: &[T]) -> bool {
    let mut sums = [T::zero(); 8];
    let (blocks, rest) = values.as_chunks::<8>();
    for block in blocks {
        for (sum, &value) in sums.iter_mut().zip(block) {
            *sum += value * T::zero();
        }
    }
    rest.iter().chain(&sums).all(|value| value.finite())
}

/// Returns the largest absolute value of the slice, zero for an empty slice; fails if a number is not finite.
pub(crate) fn largest<T: Real>(values: &[T]) -> Result<T, Failed> {
    if !all_finite(values) {
        return Err(Failed);
    }
    let mut most = [T::zero(); 8];
    let (blocks, rest) = values.as_chunks::<8>();
    for block in blocks {
        for (most, &value) in most.iter_mut().zip(block) {
            let value = value.abs();
            *most = if value > *most { value } else { *most };
        }
    }
    let larger = |a: T, b: &T| if b.abs() > a { b.abs() } else { a };
    Ok(rest.iter().chain(&most).fold(T::zero(), larger))
}

/// A power of two by which a routine multiplies its input, and its reciprocal for the results.
///
/// The largest entry of the scaled input is close to one. Then squares neither overflow nor underflow, and absolute
/// thresholds become relative to the input. For example, faer's divide and conquer for symmetric matrices loses all
/// digits if the entries are far from one. The results for an input and for its multiple by a power of two have the
/// same digits.
#[derive(Clone, Copy)]
pub(crate) struct Scaling<T> {
    /// The power of two by which the input is multiplied.
    pub(crate) factor: T,
    /// The power of two, `1 / factor`, by which results that are linear in the input are multiplied.
    pub(crate) back: T,
}

impl<T: Real> Scaling<T> {
    /// Returns the scaling for an input whose largest absolute value is `largest`.
    pub(crate) fn of(largest: T) -> Self {
        let exponent = if largest == T::zero() {
            0
        } else {
            let limit = T::FACTOR_EXPONENT;
            largest.exponent().clamp(-limit, limit)
        };
        Scaling { factor: T::power_of_two(-exponent), back: T::power_of_two(exponent) }
    }

    /// Multiplies every number by `back`, to reverse the scaling in results that are linear in the input.
    pub(crate) fn undo(self, values: &mut [T]) {
        if self.back != T::one() {
            values.iter_mut().for_each(|value| *value *= self.back);
        }
    }
}

/// The error of a routine that fails for one batch member: NaN and default indices become its results.
#[derive(Debug)]
pub(crate) struct Failed;
