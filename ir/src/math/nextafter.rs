//! The neighbouring float: C's `nextafter`, which steps through the representation of numbers.
//!
//! It depends on the width, so it is the one function here with an f32 form of its own. Source: IEEE
//! 754-2019 for the steps, C for the edge values.

/// Defines the function for one width.
macro_rules! nextafter {
    ($name:ident, $t:ty) => {
        /// The float next to `x` in the direction of `y`.
        ///
        /// `y` itself where both are equal, so `nextafter(0.0, -0.0) = -0.0`; from
        /// either zero a step leads to the smallest subnormal of the sign of `y`;
        /// from the largest finite value a step outwards leads to ∞, and from ∞ a
        /// step inwards leads back. NaN if either argument is.
        #[must_use]
        pub fn $name(x: $t, y: $t) -> $t {
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
    };
}
nextafter!(nextafter, f64);
nextafter!(nextafter_f32, f32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, check_exact, grid};

    /// The smallest positive double.
    const TINY: f64 = 5e-324;

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
    fn the_f32_form_works_at_its_own_width() {
        assert_eq!(nextafter_f32(1.0, 2.0), 1.0 + f32::EPSILON);
        assert_eq!(nextafter_f32(0.0, -1.0), -1e-45);
        assert_eq!(nextafter_f32(f32::MAX, f32::INFINITY), f32::INFINITY);
        assert!(nextafter_f32(f32::NAN, 1.0).is_nan());
    }
}
