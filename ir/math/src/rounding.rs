//! Rounding to integers.
//!
//! Adding and subtracting 2^52 (f32: 2^23) rounds a smaller number to an integer, halves to the even one.

use super::number::{Format, Number};
use super::vector_math::Parted;

/// Returns |x| rounded to an integer, halves to the even one, and |x| itself from 2^52 on, where all floats are integers.
#[inline(always)]
fn even_size<N: Number>(x: N) -> N {
    let (a, whole) = (x.abs(), N::of(N::Float::WHOLE));
    // The comparison is false for NaN, so NaN is returned unchanged.
    N::pick(a.lt(whole), (a + whole) - whole, a)
}

/// The implementation of `round_ties_even`, which evaluates one argument or a vector of eight, or lists its operations
/// for the code generator.
pub struct RoundEven;

impl Parted for RoundEven {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        even_size(x).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// The implementation of `round`, which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Round;

impl Parted for Round {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let even = even_size(x);
        // `down` says whether |x| ends in one half and was rounded down to the even integer. The difference that is
        // compared is exact.
        let down = (x.abs() - even).same(N::of(N::Float::HALF));
        N::pick(down, even + N::of(N::Float::ONE), even).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}
