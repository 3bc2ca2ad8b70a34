//! Hyperbolic functions: sinh, cosh, tanh and sech.
//!
//! `x = k ln 2 + r` with `|r| ≤ ln 2 / 2`, as for the exponential. With `S = (2ᵏ - 2⁻ᵏ)/2`
//! and `C = (2ᵏ + 2⁻ᵏ)/2`, the addition theorem gives
//!
//! ```text
//! sinh x = S cosh r + C sinh r = S + (C sinh r + S (cosh r - 1))
//! cosh x = C cosh r + S sinh r = C + (S sinh r + C (cosh r - 1))
//! ```
//!
//! The first term is exact up to its rounding, and the rest is smaller. The hyperbolic tangent is `E / (E + 2)`
//! with `E = e²ˣ - 1`.

use super::exponential::{
    Exp, NORMAL, Reduced, exp_of_negative, exp_times, parts as exp_parts, power_of_two, reduce,
    square_of_sum,
};
use super::number::{Coefficients, Constant, Format, Number, quotient, series};
use super::series::over_factorials;
use super::vector_math::Parted;

/// The coefficients of `(sinh r - r) / r³` in powers of `r²`.
const SINH: Coefficients =
    Coefficients(&over_factorials::<6>(3, 2, 1.0), &[1.0 / 6.0, 1.0 / 120.0, 1.0 / 5040.0]);
/// The coefficients of `(cosh r - 1 - r²/2) / r⁴` in powers of `r²`.
const COSH: Coefficients =
    Coefficients(&over_factorials::<6>(4, 2, 1.0), &[1.0 / 24.0, 1.0 / 720.0, 1.0 / 40320.0]);
/// The |x| above which tanh rounds to ±1.
const TANH_IS_ONE: Constant = Constant(22.0, 10.0);

/// The terms from which sinh and cosh of `x = k ln 2 + r` are summed.
struct Parts<N> {
    /// The number `S = (2ᵏ - 2⁻ᵏ)/2`, rounded, and its rounding error.
    s: [N; 2],
    /// The number `C = (2ᵏ + 2⁻ᵏ)/2`, rounded, and its rounding error.
    c: [N; 2],
    /// The number `sinh r`.
    sinh: N,
    /// The number `cosh r - 1`.
    cosh: N,
}

/// Computes the terms from which sinh and cosh of `x = k ln 2 + r` are summed. Requires `x ≥ 0`, so that 2ᵏ ≥ 2⁻ᵏ.
#[inline(always)]
fn parts<N: Number>(x: N) -> Parts<N> {
    let (half, round) = (N::of(N::Float::HALF), N::of(N::Float::ROUND));
    let Reduced { k, r, c: lost } = reduce(x);
    // `minus_k` is the integer -k, in the lowest bits.
    let minus_k = round - (k - round);
    let (up, down) = (half * power_of_two(k), half * power_of_two(minus_k));
    let (s, c) = (up - down, up + down);
    let square = r * r;
    let sinh = r + (r * square).fma(series(SINH, square), lost);
    let cosh = (square * square).fma(series(COSH, square), half * square);
    Parts { s: [s, (up - s) - down], c: [c, (up - c) + down], sinh, cosh }
}

/// The implementation of [`sinh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Sinh;

impl Parted for Sinh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(NORMAL))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let Parts { s: [s, lacks], c: [c, _], sinh, cosh } = parts(x.abs());
        (s + c.fma(sinh, s.fma(cosh, lacks))).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        exp_times(x.abs(), N::of(0.5)).copysign(x)
    }
}

/// Returns the hyperbolic sine, within 1.4 ulp.
///
/// Domain: all reals, odd. `sinh(±0) = ±0`, ±∞ at ±∞ and from ±710.5 on, NaN for NaN.
#[must_use]
pub fn sinh(x: f64) -> f64 {
    Sinh::here(x)
}

/// The implementation of [`cosh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Cosh;

impl Parted for Cosh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Sinh::inside(x)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let Parts { s: [s, _], c: [c, lacks], sinh, cosh } = parts(x.abs());
        c + s.fma(sinh, c.fma(cosh, lacks))
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        exp_times(x.abs(), N::of(0.5))
    }
}

/// Returns the hyperbolic cosine, within 1.1 ulp.
///
/// Domain: all reals, even. 1 at 0, +∞ at ±∞ and from ±710.5 on, NaN for NaN.
#[must_use]
pub fn cosh(x: f64) -> f64 {
    Cosh::here(x)
}

/// The implementation of [`tanh`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Tanh;

impl Parted for Tanh {
    #[inline(always)]
    fn inside<N: Number>(_: N) -> N::Mask {
        N::always(true)
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let [one, two] = [N::Float::ONE, N::Float::TWO].map(N::of);
        let most = N::constant(TANH_IS_ONE);
        // Clamp |x| to the bound where tanh is 1. The comparison is false for NaN, so NaN is not clamped.
        let a = N::pick(most.lt(x.abs()), most, x.abs());
        // Compute E = 2ᵏ p + (2ᵏ - 1), where 2a = k ln 2 + r and p = eʳ - 1.
        let (k, p) = exp_parts(a + a);
        let power = power_of_two(k);
        let e = power.fma(p, power - one);
        (e / (e + two)).copysign(x)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        Self::straight(x)
    }
}

/// Returns the hyperbolic tangent, within 2.6 ulp (2.53 at -0.2077, the largest error of 200,000 random arguments
/// below 1).
///
/// Domain: all reals, odd. `tanh(±0) = ±0`, `tanh(±∞) = ±1`, NaN for NaN.
#[must_use]
pub fn tanh(x: f64) -> f64 {
    Tanh::here(x)
}

/// The implementation of [`sech`], which evaluates one argument or a vector of eight, or lists its operations for the
/// code generator.
pub struct Sech;

impl Parted for Sech {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        Exp::inside(-x.abs())
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let (one, two) = (N::of(N::Float::ONE), N::of(N::Float::TWO));
        // Computes `1 / cosh x` from `e = e^-|x|`: cosh itself overflows before sech underflows.
        let [e, e_low] = exp_of_negative(x);
        let below = e.fma(e, one);
        let lacks = e.fma(e, one - below) + two * e * e_low;
        quotient([two * e, two * e_low], [below, lacks])
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        exp_times(-x.abs(), N::of(2.0))
    }
}

/// Returns the hyperbolic secant `1 / cosh x`, within 1 ulp.
///
/// Domain: all reals, even. 1 at 0, 0 at ±∞, NaN for NaN; underflows gradually.
#[must_use]
pub fn sech(x: f64) -> f64 {
    Sech::here(x)
}

/// The implementation of [`sech_square`], which evaluates one argument or a vector of eight, or lists its operations
/// for the code generator.
pub struct SechSquare;

impl Parted for SechSquare {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        let a = x.abs();
        Exp::inside(-(a + a))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        let [one, two] = [N::Float::ONE, N::Float::TWO].map(N::of);
        let a = x.abs();
        let e = Exp::straight(-(a + a));
        (two * two * e) / square_of_sum(one + e, e)
    }

    #[inline(always)]
    fn beyond<N: Number<Float = f64>>(x: N) -> N {
        exp_times(N::of(-2.0) * x.abs(), N::of(4.0))
    }
}

/// Returns the square `1 / cosh² x` of the hyperbolic secant, the derivative of tanh, within 2.5 ulp.
///
/// Domain: all reals, even. 1 at 0, 0 at ±∞, NaN for NaN; underflows gradually.
#[must_use]
pub fn sech_square(x: f64) -> f64 {
    SechSquare::here(x)
}
