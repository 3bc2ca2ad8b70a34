//! Roots, powers and the inverse hyperbolic functions.
//!
//! The inverse hyperbolic functions are logarithms of `1 + w`, with what rounding `w` lost. Cube roots, powers and distances
//! are calls into the `libm` crate (a port of Sun's fdlibm and of later work such as CORE-MATH's correctly rounded `cbrt`),
//! whose bits are the same on every platform; they stand here with their edge values written down.

use super::logarithm::log1p_of_sum;
use super::number::{Constant, Format, Number, two_sum};
use super::vector_math::Parted;

/// Cube root, correctly rounded.
///
/// Domain: all reals, odd. `cbrt(±0) = ±0`, `cbrt(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// `xʸ`, within 1 ulp.
///
/// Domain: `x ≥ 0`, or `y` a whole number; NaN elsewhere. `x⁰ = 1` and `1ʸ = 1` for every float, NaN among them.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// `√(x² + y²)`, within 1 ulp; the squares neither overflow nor underflow.
///
/// Domain: all pairs of reals. +∞ if one is infinite, even beside NaN.
#[must_use]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// [`rsqrt`]
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

/// Reciprocal square root `1 / √x`, within 1.5 ulp.
///
/// Domain: `[0, +∞]`. `rsqrt(±0) = ±∞`, `rsqrt(+∞) = 0`, NaN below zero and for
/// NaN. Never overflows for positive `x`, subnormals included.
#[must_use]
pub fn rsqrt(x: f64) -> f64 {
    Rsqrt::here(x)
}

/// Up to here squares do not overflow.
const SQUARE: Constant = Constant(1e150, 1e18);

/// [`asinh`]
pub struct Asinh;

impl Parted for Asinh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // asinh a = ln(1 + a + a² / (1 + √(1 + a²))), of which the second term is the smaller one.
        let (one, a) = (N::of(N::Float::ONE), x.abs());
        let more = a * a / (one + a.fma(a, one).sqrt());
        let sum = a + more;
        log1p_of_sum(sum, (a - sum) + more).copysign(x)
    }

    fn beyond(x: f64) -> f64 {
        libm::asinh(x)
    }
}

/// Inverse hyperbolic sine, within 2 ulp for small and large arguments alike.
///
/// Domain: all reals, odd. `asinh(±0) = ±0`, `asinh(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    Asinh::here(x)
}

/// [`acosh`]
pub struct Acosh;

impl Parted for Acosh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        N::of(N::Float::ONE).le(x) & x.le(N::constant(SQUARE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // acosh x = ln(1 + t + √(t² + 2t)) with t = x - 1.
        let t = x - N::of(N::Float::ONE);
        let (sum, lost) = two_sum(t, t.fma(t, t + t).sqrt());
        log1p_of_sum(sum, lost)
    }

    fn beyond(x: f64) -> f64 {
        // `libm::acosh` gives numbers for some arguments below -8,000.
        if x >= 1.0 { libm::acosh(x) } else { f64::NAN }
    }
}

/// Inverse hyperbolic cosine, the one that is not negative; within 2 ulp.
///
/// Domain: `[1, +∞]`. `acosh(1) = 0`, `acosh(+∞) = +∞`, NaN below 1 and for NaN.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    Acosh::here(x)
}

/// [`atanh`]
pub struct Atanh;

impl Parted for Atanh {
    #[inline(always)]
    fn inside<N: Number>(x: N) -> N::Mask {
        x.abs().lt(N::of(N::Float::ONE))
    }

    #[inline(always)]
    fn straight<N: Number>(x: N) -> N {
        // atanh a = ½ ln(1 + 2a / (1 - a)), the quotient with what its rounding lost.
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

/// Inverse hyperbolic tangent, within 2 ulp.
///
/// Domain: `[-1, 1]`, odd. `atanh(±0) = ±0`, `atanh(±1) = ±∞`, NaN outside and
/// for NaN.
#[must_use]
pub fn atanh(x: f64) -> f64 {
    Atanh::here(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, check, check_exact, grid};

    // Literals in the tables: mpmath with 60 digits, rounded once.

    #[test]
    fn roots_match_high_precision_values() {
        check(
            cbrt,
            0.0,
            &[
                (5e-324, 1.7031839360032603e-108),
                (1e-310, 4.641588833612774e-104),
                (0.05, 0.36840314986403866),
                (-0.9, -0.9654893846056297),
                (2.5, 1.3572088082974534),
                (1e+300, 1e+100),
            ],
        );
        check(
            rsqrt,
            1.5,
            &[
                (5e-324, 4.4989137945431964e+161),
                (0.05, 4.47213595499958),
                (0.9, 1.0540925533894598),
                (2.5, 0.6324555320336759),
                (1e+308, 1e-154),
            ],
        );
    }

    #[test]
    fn inverse_hyperbolics_match_high_precision_values() {
        check(
            asinh,
            2.0,
            &[
                (5e-324, 5e-324),
                (1e-20, 1e-20),
                (1e-08, 1e-08),
                (-0.1, -0.09983407889920756),
                (0.5, 0.48121182505960347),
                (1.0, 0.881373587019543),
                (-3.0, -1.8184464592320668),
                (100000.0, 12.206072645555174),
                (10000000000.0, 23.7189981105004),
                (1.7e+308, 710.4199840737882),
            ],
        );
        check(
            acosh,
            2.0,
            &[
                (1.0000000000000002, 2.1073424255447014e-08),
                (1.000001, 0.00141421344446382),
                (1.1, 0.4435682543851154),
                (1.5, 0.9624236501192069),
                (2.0, 1.3169578969248168),
                (3.0, 1.762747174039086),
                (100000.0, 12.206072645505174),
                (10000000000.0, 23.7189981105004),
                (1.7e+308, 710.4199840737882),
            ],
        );
        check(
            atanh,
            2.0,
            &[
                (5e-324, 5e-324),
                (1e-20, 1e-20),
                (1e-08, 1e-08),
                (0.1, 0.10033534773107558),
                (0.25, 0.25541281188299536),
                (-0.5, -0.5493061443340549),
                (0.9, 1.4722194895832204),
                (0.999999, 7.254328619247669),
                (0.9999999999999999, 18.714973875118524),
            ],
        );
    }

    #[test]
    fn edge_values() {
        check_exact(
            cbrt,
            &[
                (0.0, 0.0),
                (-0.0, -0.0),
                (INFINITY, INFINITY),
                (-INFINITY, -INFINITY),
                (-27.0, -3.0),
                (NAN, NAN),
            ],
        );
        check_exact(
            rsqrt,
            &[
                (0.0, INFINITY),
                (-0.0, -INFINITY),
                (INFINITY, 0.0),
                (-1.0, NAN),
                (-INFINITY, NAN),
                (4.0, 0.5),
                (NAN, NAN),
            ],
        );
        check_exact(
            asinh,
            &[(0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY), (NAN, NAN)],
        );
        check_exact(
            acosh,
            &[
                (1.0, 0.0),
                (1.0_f64.next_down(), NAN),
                (-2.0, NAN),
                (-1e5, NAN),
                (-INFINITY, NAN),
                (INFINITY, INFINITY),
                (NAN, NAN),
            ],
        );
        check_exact(
            atanh,
            &[
                (0.0, 0.0),
                (-0.0, -0.0),
                (1.0, INFINITY),
                (-1.0, -INFINITY),
                (1.0_f64.next_up(), NAN),
                (-2.0, NAN),
                (INFINITY, NAN),
                (NAN, NAN),
            ],
        );
    }

    #[test]
    fn inverse_hyperbolics_undo_their_functions() {
        for x in grid(-3.0, 3.0, 601) {
            assert!((asinh(x.sinh()) - x).abs() <= 1e-15 * (1.0 + x.abs()), "asinh at {x}");
            assert!((atanh(x.tanh()) - x).abs() <= 1e-13, "atanh at {x}");
            assert!(
                (acosh(1.0 + x * x).cosh() / (1.0 + x * x) - 1.0).abs() < 4e-15,
                "acosh at {x}"
            );
        }
    }
}
