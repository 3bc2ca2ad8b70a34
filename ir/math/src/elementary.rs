//! Roots, powers and the inverse hyperbolic functions.
//!
//! The inverse hyperbolic functions are logarithms of `1 + w`, where the rounding error of `w` is added back.
//! Cube roots, powers and distances call the `libm` crate (a port of Sun's fdlibm and of later work such as
//! CORE-MATH's correctly rounded `cbrt`), which returns the same bits on every platform. The wrappers here
//! document the edge values.

use super::logarithm::log1p_of_sum;
use super::number::{Constant, Format, Number, two_sum};
use super::vector_math::Parted;

/// Returns the cube root of `x`, correctly rounded.
///
/// Domain: all reals, odd. `cbrt(±0) = ±0`, `cbrt(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// Returns the power `xʸ`, within 1 ulp.
///
/// Domain: `x ≥ 0`, or `y` a whole number; NaN elsewhere. `x⁰ = 1` and `1ʸ = 1` for every float, NaN among them.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Returns the distance `√(x² + y²)`, within 1 ulp; the squares neither overflow nor underflow.
///
/// Domain: all pairs of reals. +∞ if one is infinite, even beside NaN.
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// The implementation of [`rsqrt`]: for one argument, for eight at once, and as a recorded list of operations.
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

    fn beyond(x: f64) -> f64 {
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

/// The implementation of [`asinh`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Asinh;

impl Parted for Asinh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // By asinh a = ln(1 + a + a² / (1 + √(1 + a²))), where the quotient is smaller than a.
        let (one, a) = (N::of(N::Float::ONE), x.abs());
        let more = a * a / (one + a.fma(a, one).sqrt());
        let sum = a + more;
        log1p_of_sum(sum, (a - sum) + more).copysign(x)
    }

    fn beyond(x: f64) -> f64 {
        libm::asinh(x)
    }
}

/// Returns the inverse hyperbolic sine, within 2 ulp for small and large arguments alike.
///
/// Domain: all reals, odd. `asinh(±0) = ±0`, `asinh(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    Asinh::here(x)
}

/// The implementation of [`acosh`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Acosh;

impl Parted for Acosh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        N::of(N::Float::ONE).le(x) & x.le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // By acosh x = ln(1 + t + √(t² + 2t)) with t = x - 1.
        let t = x - N::of(N::Float::ONE);
        let (sum, lost) = two_sum(t, t.fma(t, t + t).sqrt());
        log1p_of_sum(sum, lost)
    }

    fn beyond(x: f64) -> f64 {
        // For some arguments below -8,000 `libm::acosh` returns a number instead of NaN.
        if x >= 1.0 { libm::acosh(x) } else { f64::NAN }
    }
}

/// Returns the inverse hyperbolic cosine, the non-negative branch; within 2 ulp.
///
/// Domain: `[1, +∞]`. `acosh(1) = 0`, `acosh(+∞) = +∞`, NaN below 1 and for NaN.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    Acosh::here(x)
}

/// The implementation of [`atanh`]: for one argument, for eight at once, and as a recorded list of operations.
pub struct Atanh;

impl Parted for Atanh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().lt(N::of(N::Float::ONE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // By atanh a = ½ ln(1 + 2a / (1 - a)); the rounding error of the quotient is added back.
        let (half, one, a) = (N::of(N::Float::HALF), N::of(N::Float::ONE), x.abs());
        let below = one - a;
        let (by, twice) = (one / below, a + a);
        let y = twice * by;
        let lacks = (-y).fma(below, twice) - y * ((one - below) - a);
        (half * log1p_of_sum(y, lacks * by)).copysign(x)
    }

    fn beyond(x: f64) -> f64 {
        libm::atanh(x)
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
