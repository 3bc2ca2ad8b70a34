//! Functions that act on the representation of a number: the two ways of
//! rounding a half, the sign, the remainder, and the neighbouring float.
//!
//! All of them are exact, so their `f32` forms are computed in `f32` directly.
//! Sources: IEEE 754-2019 for the operations, C's `fmod` and `nextafter` for
//! their edge values, and `jax.lax` for which of them an array program means.

/// Defines each function for `f64` and `f32` from one body.
macro_rules! for_both_widths {
    ($($(#[$doc:meta])* $wide:ident, $narrow:ident ($($arg:ident),+) $body:block)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $wide($($arg: f64),+) -> f64 $body

        #[doc = concat!("`f32` form of [`", stringify!($wide), "`], just as exact.")]
        #[must_use]
        pub fn $narrow($($arg: f32),+) -> f32 $body
    )+};
}

for_both_widths! {
    /// Nearest integer, halves away from zero: 0.5 → 1, 2.5 → 3, -2.5 → -3.
    ///
    /// This is what `lax.round` does by default. Domain: all reals; ±0, ±∞ and
    /// NaN are returned as they are, and the sign survives rounding to zero.
    round_away, round_away_f32(x) {
        x.round()
    }

    /// Nearest integer, halves to the even one: 0.5 → 0, 2.5 → 2, 3.5 → 4.
    ///
    /// This is what `jnp.round` and IEEE 754's `roundToIntegralTiesToEven` do.
    /// Domain: all reals; ±0, ±∞ and NaN are returned as they are, and the sign
    /// survives rounding to zero.
    round_even, round_even_f32(x) {
        x.round_ties_even()
    }

    /// Sign as -1, 0 or 1.
    ///
    /// Unlike `f64::signum`, zeros are returned as they are: `sign(±0) = ±0`.
    /// `sign(±∞) = ±1`, NaN for NaN.
    sign, sign_f32(x) {
        if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        }
    }

    /// Remainder `x - y · trunc(x / y)`, with the sign of the dividend `x`; C's
    /// `fmod` and `lax.rem`.
    ///
    /// Always exact. NaN for `y = ±0`, for `x = ±∞` and if either argument is
    /// NaN; `rem(x, ±∞) = x` for finite `x`; a zero result has the sign of `x`.
    rem, rem_f32(x, y) {
        x % y
    }

    /// The float next to `x` in the direction of `y`.
    ///
    /// `y` itself where both are equal, so `nextafter(0.0, -0.0) = -0.0`; from
    /// either zero a step leads to the smallest subnormal of the sign of `y`;
    /// from the largest finite value a step outwards leads to ∞, and from ∞ a
    /// step inwards leads back. NaN if either argument is.
    nextafter, nextafter_f32(x, y) {
        if x == y {
            y
        } else if x < y {
            x.next_up()
        } else if x > y {
            x.next_down()
        } else {
            x + y // At least one is NaN, and so is the sum.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, check_exact, grid, same};

    /// The smallest positive double.
    const TINY: f64 = 5e-324;

    #[test]
    fn halves_go_away_from_zero_or_to_even() {
        check_exact(
            round_away,
            &[
                (0.5, 1.0),
                (1.5, 2.0),
                (2.5, 3.0),
                (-0.5, -1.0),
                (-2.5, -3.0),
                (0.3, 0.0),
                (-0.3, -0.0),
                (0.5_f64.next_down(), 0.0),
                (4503599627370495.5, 4503599627370496.0),
            ],
        );
        check_exact(
            round_even,
            &[
                (0.5, 0.0),
                (1.5, 2.0),
                (2.5, 2.0),
                (-0.5, -0.0),
                (-2.5, -2.0),
                (-3.5, -4.0),
                (0.3, 0.0),
                (-0.3, -0.0),
                (0.5_f64.next_up(), 1.0),
                (4503599627370494.5, 4503599627370494.0),
            ],
        );
    }

    #[test]
    fn roundings_keep_what_needs_none() {
        for f in [round_away, round_even] {
            for x in [0.0, -0.0, 7.0, -7.0, 9007199254740993.0, 1e300, INFINITY, -INFINITY, NAN] {
                check_exact(f, &[(x, x)]);
            }
        }
    }

    #[test]
    fn roundings_differ_only_at_halves() {
        for x in grid(-8.0, 8.0, 129) {
            let half = (x - x.trunc()).abs() == 0.5;
            let odd = round_away(x) % 2.0 != 0.0;
            assert_eq!(round_away(x) != round_even(x), half && odd, "at {x}");
        }
    }

    #[test]
    fn sign_edge_values() {
        check_exact(
            sign,
            &[
                (3.0, 1.0),
                (-3.0, -1.0),
                (TINY, 1.0),
                (-TINY, -1.0),
                (INFINITY, 1.0),
                (-INFINITY, -1.0),
                (0.0, 0.0),
                (-0.0, -0.0),
                (NAN, NAN),
            ],
        );
    }

    #[test]
    fn remainder_has_the_sign_of_the_dividend() {
        for (x, y, expected) in [
            (7.0, 3.0, 1.0),
            (-7.0, 3.0, -1.0),
            (7.0, -3.0, 1.0),
            (-7.0, -3.0, -1.0),
            (6.0, 3.0, 0.0),
            (-6.0, 3.0, -0.0),
            (-0.0, 3.0, -0.0),
            (5.5, 2.25, 1.0),
            (1.0, 0.0, NAN),
            (1.0, -0.0, NAN),
            (INFINITY, 2.0, NAN),
            (NAN, 2.0, NAN),
            (2.0, NAN, NAN),
            (2.0, INFINITY, 2.0),
            (-2.0, INFINITY, -2.0),
            (2.0, -INFINITY, 2.0),
            // 2¹⁰⁰⁰ mod 3 = 1 as the exponent is even: exact however far apart.
            (2.0_f64.powi(1000), 3.0, 1.0),
            (1.0, TINY, 0.0),
        ] {
            check_exact(|x| rem(x, y), &[(x, expected)]);
        }
    }

    #[test]
    fn nextafter_edge_values() {
        for (x, y, expected) in [
            (1.0, 2.0, 1.0 + f64::EPSILON),
            (1.0, 0.0, 1.0 - f64::EPSILON / 2.0),
            (-1.0, -2.0, -1.0 - f64::EPSILON),
            (1.0, 1.0, 1.0),
            (0.0, -0.0, -0.0),
            (-0.0, 0.0, 0.0),
            (0.0, 1.0, TINY),
            (-0.0, 1.0, TINY),
            (0.0, -1.0, -TINY),
            (TINY, 0.0, 0.0),
            (-TINY, 0.0, -0.0),
            (f64::MAX, INFINITY, INFINITY),
            (INFINITY, 0.0, f64::MAX),
            (-INFINITY, 0.0, f64::MIN),
            (INFINITY, INFINITY, INFINITY),
            (f64::MIN_POSITIVE, 0.0, f64::MIN_POSITIVE - TINY),
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
            (NAN, NAN, NAN),
        ] {
            check_exact(|x| nextafter(x, y), &[(x, expected)]);
        }
    }

    #[test]
    fn nextafter_there_and_back() {
        for x in grid(-4.0, 4.0, 1000) {
            assert_eq!(nextafter(nextafter(x, INFINITY), -INFINITY), x);
        }
    }

    #[test]
    fn f32_forms_work_at_their_own_width() {
        assert_eq!(nextafter_f32(1.0, 2.0), 1.0 + f32::EPSILON);
        assert_eq!(nextafter_f32(0.0, -1.0), -1e-45);
        assert_eq!(nextafter_f32(f32::MAX, f32::INFINITY), f32::INFINITY);
        assert!(nextafter_f32(f32::NAN, 1.0).is_nan());
        assert_eq!(round_away_f32(2.5), 3.0);
        assert_eq!(round_even_f32(2.5), 2.0);
        assert_eq!(rem_f32(-7.0, 3.0), -1.0);
        assert!(same(f64::from(sign_f32(-0.0)), -0.0));
        assert!(sign_f32(f32::NAN).is_nan());
    }
}
