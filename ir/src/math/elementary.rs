//! Elementary functions: exponentials and logarithms near their delicate points,
//! roots, powers, the logistic sigmoid, and the inverse hyperbolic functions.
//!
//! Most are one call into `std` or the `libm` crate (a port of Sun's fdlibm and
//! of later work such as CORE-MATH's correctly rounded `cbrt`); they stand here
//! under the names that the operations have, with their edge values written
//! down. Two are spelled out: `logistic`, which must not overflow on either side,
//! and `integer_pow`, whose order of multiplications is part of its meaning.

/// `2ˣ`; below 1 ulp, exact for integral `x`.
///
/// Domain: all reals. `exp2(-∞) = 0`, `exp2(+∞) = +∞`, NaN for NaN; overflows
/// from 1024 on, subnormal below -1022.
#[must_use]
pub fn exp2(x: f64) -> f64 {
    x.exp2()
}

/// `eˣ - 1`, accurate also for small `x`, where the subtraction would cancel.
///
/// Domain: all reals. `expm1(±0) = ±0`, `expm1(-∞) = -1`, `expm1(+∞) = +∞`, NaN
/// for NaN.
#[must_use]
pub fn expm1(x: f64) -> f64 {
    x.exp_m1()
}

/// `ln(1 + x)`, accurate also for small `x`, where the addition would round.
///
/// Domain: `[-1, +∞]`. `log1p(±0) = ±0`, `log1p(-1) = -∞`, `log1p(+∞) = +∞`, NaN
/// below -1 and for NaN.
#[must_use]
pub fn log1p(x: f64) -> f64 {
    x.ln_1p()
}

/// The logistic sigmoid `1 / (1 + e⁻ˣ)`, within 2 ulp on both sides.
///
/// Domain: all reals. `logistic(-∞) = 0`, `logistic(0) = 1/2`,
/// `logistic(+∞) = 1`, NaN for NaN; underflows gradually below -708.
#[must_use]
pub fn logistic(x: f64) -> f64 {
    // Each side raises e to a power that is not positive, so nothing overflows.
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// Cube root, correctly rounded.
///
/// Domain: all reals, odd. `cbrt(±0) = ±0`, `cbrt(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// Reciprocal square root `1 / √x`, within 1.5 ulp.
///
/// Domain: `[0, +∞]`. `rsqrt(±0) = ±∞`, `rsqrt(+∞) = 0`, NaN below zero and for
/// NaN. Never overflows for positive `x`, subnormals included.
#[must_use]
pub fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// `xʸ` with the conventions of C's `pow` (IEEE 754-2019, 9.2.1); below 1 ulp.
///
/// `pow(x, ±0) = 1` and `pow(1, y) = 1` whatever the other argument is, NaN
/// included; NaN for a finite `x < 0` with a finite `y` that is not an integer.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    x.powf(y)
}

/// Angle in `[-π, π]` of the point `(x, y)`; note that `y` comes first.
///
/// `atan2(±0, x)` is `±0` for `x` positive or +0, and `±π` for `x` negative or
/// -0; infinities are treated as points on the diagonals or axes; NaN if either
/// argument is.
#[must_use]
pub fn atan2(y: f64, x: f64) -> f64 {
    y.atan2(x)
}

/// Inverse hyperbolic sine, within 2 ulp for small and large arguments alike.
///
/// Domain: all reals, odd. `asinh(±0) = ±0`, `asinh(±∞) = ±∞`, NaN for NaN.
#[must_use]
pub fn asinh(x: f64) -> f64 {
    libm::asinh(x)
}

/// Inverse hyperbolic cosine, the one that is not negative; within 2 ulp.
///
/// Domain: `[1, +∞]`. `acosh(1) = 0`, `acosh(+∞) = +∞`, NaN below 1 and for NaN.
#[must_use]
pub fn acosh(x: f64) -> f64 {
    libm::acosh(x)
}

/// Inverse hyperbolic tangent, within 2 ulp.
///
/// Domain: `[-1, 1]`, odd. `atanh(±0) = ±0`, `atanh(±1) = ±∞`, NaN outside and
/// for NaN.
#[must_use]
pub fn atanh(x: f64) -> f64 {
    libm::atanh(x)
}

/// `xⁿ` by repeated squaring, the way `lax.integer_pow` defines it.
///
/// Domain: all reals and all `n`. `integer_pow(x, 0) = 1` for every `x`, NaN
/// included. A negative `n` gives the reciprocal of the positive power, so the
/// result is 0 where that power overflows and ±∞ where it underflows. The
/// relative error grows with the exponent, by at most about `|n| · 1.1e-16`.
#[must_use]
pub fn integer_pow(x: f64, n: i32) -> f64 {
    let mut remaining = n.unsigned_abs();
    let mut square = x;
    let mut power = 1.0;
    while remaining > 0 {
        if remaining % 2 == 1 {
            power *= square;
        }
        square *= square;
        remaining /= 2;
    }
    if n < 0 { 1.0 / power } else { power }
}

/// `xⁿ` for 32-bit integers, wrapping on overflow. `integer_pow_i32(x, 0) = 1`.
///
/// Wrapping arithmetic does not see the sign: for unsigned values, convert the
/// bits with `as`. A negative exponent has no integral result and is excluded by
/// the type.
#[must_use]
pub fn integer_pow_i32(x: i32, n: u32) -> i32 {
    x.wrapping_pow(n)
}

/// `xⁿ` for 64-bit integers, wrapping on overflow. `integer_pow_i64(x, 0) = 1`.
///
/// As [`integer_pow_i32`]. Narrower widths are the low bits of this result.
#[must_use]
pub fn integer_pow_i64(x: i64, n: u32) -> i64 {
    x.wrapping_pow(n)
}

via_f64! {
    exp2_f32(x: f32) = exp2(f64::from(x));
    expm1_f32(x: f32) = expm1(f64::from(x));
    log1p_f32(x: f32) = log1p(f64::from(x));
    logistic_f32(x: f32) = logistic(f64::from(x));
    cbrt_f32(x: f32) = cbrt(f64::from(x));
    rsqrt_f32(x: f32) = rsqrt(f64::from(x));
    pow_f32(x: f32, y: f32) = pow(f64::from(x), f64::from(y));
    atan2_f32(y: f32, x: f32) = atan2(f64::from(y), f64::from(x));
    asinh_f32(x: f32) = asinh(f64::from(x));
    acosh_f32(x: f32) = acosh(f64::from(x));
    atanh_f32(x: f32) = atanh(f64::from(x));
    integer_pow_f32(x: f32, n: i32) = integer_pow(f64::from(x), n);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, check, check_exact, grid, ulps};
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

    // Literals in the tables: mpmath with 60 digits, rounded once.

    #[test]
    fn exponentials_match_high_precision_values() {
        check(
            exp2,
            1.0,
            &[
                (-1060.5, 5.7238e-320),
                (-0.75, 0.5946035575013605),
                (0.1, 1.0717734625362931),
                (1.25, 2.378414230005442),
                (1023.9, 1.6773070034857416e+308),
            ],
        );
        check(
            expm1,
            1.0,
            &[
                (5e-324, 5e-324),
                (1e-20, 1e-20),
                (-1e-08, -9.999999950000001e-09),
                (-0.5, -0.3934693402873666),
                (0.1, 0.10517091807564763),
                (1.25, 2.4903429574618414),
                (700.0, 1.0142320547350045e+304),
                (-50.0, -1.0),
            ],
        );
        check(
            log1p,
            1.0,
            &[
                (5e-324, 5e-324),
                (1e-20, 1e-20),
                (-1e-08, -1.0000000050000001e-08),
                (-0.6, -0.916290731874155),
                (0.1, 0.09531017980432487),
                (1.25, 0.8109302162163288),
                (1e+300, 690.7755278982137),
                (-0.9999999, -16.118095651484676),
            ],
        );
        check(
            logistic,
            2.0,
            &[
                (-745.0, 5e-324),
                (-710.0, 4.47628622567513e-309),
                (-40.0, 4.248354255291589e-18),
                (-3.0, 0.04742587317756678),
                (-1e-20, 0.5),
                (0.1, 0.52497918747894),
                (1.25, 0.7772998611746912),
                (36.0, 0.9999999999999998),
                (40.0, 1.0),
                (1000.0, 1.0),
            ],
        );
    }

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
            exp2,
            &[
                (-INFINITY, 0.0),
                (INFINITY, INFINITY),
                (1024.0, INFINITY),
                (-1074.0, 5e-324),
                (-1080.0, 0.0),
                (10.0, 1024.0),
                (NAN, NAN),
            ],
        );
        check_exact(
            expm1,
            &[(0.0, 0.0), (-0.0, -0.0), (-INFINITY, -1.0), (INFINITY, INFINITY), (NAN, NAN)],
        );
        check_exact(
            log1p,
            &[
                (0.0, 0.0),
                (-0.0, -0.0),
                (-1.0, -INFINITY),
                (-1.5, NAN),
                (INFINITY, INFINITY),
                (NAN, NAN),
            ],
        );
        check_exact(
            logistic,
            &[
                (0.0, 0.5),
                (-0.0, 0.5),
                (-INFINITY, 0.0),
                (INFINITY, 1.0),
                (-1e300, 0.0),
                (1e300, 1.0),
                (NAN, NAN),
            ],
        );
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
    fn logistic_sides_add_up_to_one() {
        for x in grid(-40.0, 40.0, 801) {
            assert!((logistic(x) + logistic(-x) - 1.0).abs() < 3e-16, "at {x}");
        }
    }

    #[test]
    fn logistic_is_the_shifted_tanh() {
        for x in grid(-5.0, 5.0, 101) {
            assert!((logistic(x) - 0.5 * (1.0 + (0.5 * x).tanh())).abs() < 3e-16, "at {x}");
        }
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

    #[test]
    fn pow_follows_c() {
        for (x, y, expected) in [
            (NAN, 0.0, 1.0),
            (1.0, NAN, 1.0),
            (1.0, INFINITY, 1.0),
            (-1.0, INFINITY, 1.0),
            (0.0, -1.0, INFINITY),
            (-0.0, -1.0, -INFINITY),
            (-0.0, 3.0, -0.0),
            (-0.0, 2.0, 0.0),
            (-8.0, 1.0 / 3.0, NAN),
            (-2.0, 3.0, -8.0),
            (0.5, INFINITY, 0.0),
            (0.5, -INFINITY, INFINITY),
            (-INFINITY, 3.0, -INFINITY),
            (-INFINITY, 0.5, INFINITY),
            (2.0, NAN, NAN),
            (NAN, 1.0, NAN),
            (2.0, 0.5, std::f64::consts::SQRT_2),
        ] {
            check_exact(|x| pow(x, y), &[(x, expected)]);
        }
    }

    #[test]
    fn atan2_follows_c() {
        for (y, x, expected) in [
            (0.0, 1.0, 0.0),
            (-0.0, 1.0, -0.0),
            (0.0, -1.0, PI),
            (-0.0, -1.0, -PI),
            (0.0, 0.0, 0.0),
            (-0.0, 0.0, -0.0),
            (0.0, -0.0, PI),
            (-0.0, -0.0, -PI),
            (1.0, 0.0, FRAC_PI_2),
            (-1.0, -0.0, -FRAC_PI_2),
            (1.0, 1.0, FRAC_PI_4),
            (INFINITY, INFINITY, FRAC_PI_4),
            (INFINITY, -INFINITY, 3.0 * FRAC_PI_4),
            (1.0, INFINITY, 0.0),
            (1.0, -INFINITY, PI),
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
        ] {
            check_exact(|y| atan2(y, x), &[(y, expected)]);
        }
    }

    #[test]
    fn integer_pow_matches_high_precision_values() {
        check(
            |x| integer_pow(x, 2),
            1.0,
            &[(-3.0, 9.0), (0.1, 0.010000000000000002), (1.25, 1.5625)],
        );
        check(
            |x| integer_pow(x, 3),
            2.0,
            &[(-3.0, -27.0), (0.1, 0.0010000000000000002), (1.25, 1.953125)],
        );
        check(
            |x| integer_pow(x, 7),
            4.0,
            &[(-3.0, -2187.0), (0.1, 1.0000000000000004e-07), (1.25, 4.76837158203125)],
        );
        check(
            |x| integer_pow(x, -2),
            2.0,
            &[(-3.0, 0.1111111111111111), (0.1, 99.99999999999999), (1.25, 0.64)],
        );
        check(
            |x| integer_pow(x, -5),
            4.0,
            &[(-3.0, -0.00411522633744856), (0.1, 99999.99999999997), (1.25, 0.32768)],
        );
        check(
            |x| integer_pow(x, 30),
            15.0,
            &[(-3.0, 205891132094649.0), (0.1, 1.0000000000000017e-30), (1.25, 807.7935669463161)],
        );
    }

    #[test]
    fn integer_pow_edge_values() {
        check_exact(|x| integer_pow(x, 0), &[(0.0, 1.0), (-0.0, 1.0), (INFINITY, 1.0), (NAN, 1.0)]);
        check_exact(
            |x| integer_pow(x, 1),
            &[(0.0, 0.0), (-0.0, -0.0), (5e-324, 5e-324), (-INFINITY, -INFINITY), (NAN, NAN)],
        );
        check_exact(
            |x| integer_pow(x, 3),
            &[(-0.0, -0.0), (1e200, INFINITY), (-1e200, -INFINITY), (1e-200, 0.0)],
        );
        check_exact(
            |x| integer_pow(x, -1),
            &[(0.0, INFINITY), (-0.0, -INFINITY), (INFINITY, 0.0), (-INFINITY, -0.0), (4.0, 0.25)],
        );
        check_exact(|x| integer_pow(x, -2), &[(-0.0, INFINITY), (1e200, 0.0), (1e-200, INFINITY)]);
        check_exact(
            |x| integer_pow(x, i32::MIN),
            &[(1.0, 1.0), (-1.0, 1.0), (2.0, 0.0), (0.5, INFINITY)],
        );
        check_exact(
            |x| integer_pow(x, i32::MAX),
            &[(1.0, 1.0), (-1.0, -1.0), (2.0, INFINITY), (0.5, 0.0)],
        );
        // The base is not squared once more than needed: no stray 0 · ∞.
        check_exact(|x| integer_pow(x, 2), &[(1e150, 1e150 * 1e150), (INFINITY, INFINITY)]);
    }

    #[test]
    fn integer_pow_agrees_with_pow() {
        for n in -20..=20 {
            for x in grid(-3.0, 3.0, 24) {
                let bound = f64::from(n).abs() + 2.0;
                assert!(ulps(integer_pow(x, n), pow(x, f64::from(n))) <= bound, "{x}^{n}");
            }
        }
    }

    #[test]
    fn integer_powers_wrap() {
        assert_eq!(integer_pow_i32(3, 4), 81);
        assert_eq!(integer_pow_i32(-3, 3), -27);
        assert_eq!(integer_pow_i32(0, 0), 1);
        assert_eq!(integer_pow_i32(3, 21), 10_460_353_203_i64 as i32);
        assert_eq!(integer_pow_i32(2, 32), 0);
        assert_eq!(integer_pow_i64(2, 63), i64::MIN);
        assert_eq!(integer_pow_i64(2, 64), 0);
        assert_eq!(integer_pow_i64(-7, 5), -16_807);
        // Low bits and unsigned values come out of the same arithmetic.
        assert_eq!(integer_pow_i64(-7, 5) as u8, (-7_i8 as u8).wrapping_pow(5));
    }

    #[test]
    fn f32_forms_round_once() {
        assert_eq!(exp2_f32(0.5), std::f32::consts::SQRT_2);
        assert_eq!(expm1_f32(-0.0).to_bits(), (-0.0_f32).to_bits());
        assert_eq!(log1p_f32(1.0), std::f32::consts::LN_2);
        assert_eq!(logistic_f32(-100.0), 3.8e-44);
        assert_eq!(cbrt_f32(-27.0), -3.0);
        assert_eq!(rsqrt_f32(0.25), 2.0);
        assert_eq!(pow_f32(2.0, 127.5), 2.406_159_6e38);
        assert_eq!(pow_f32(2.0, 128.0), f32::INFINITY);
        assert_eq!(atan2_f32(1.0, 1.0), std::f32::consts::FRAC_PI_4);
        assert_eq!(asinh_f32(1.0), 0.881_373_6);
        assert_eq!(acosh_f32(2.0), 1.316_958);
        assert_eq!(atanh_f32(0.5), 0.549_306_15);
        assert_eq!(integer_pow_f32(10.0, -3), 0.001);
        assert_eq!(integer_pow_f32(1e20, 2), f32::INFINITY);
    }
}
