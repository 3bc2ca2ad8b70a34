//! `max` and `min` as array programs mean them: the operations `maximum` and
//! `minimum` of IEEE 754-2019, 9.6, which are also `lax.max` and `lax.min`.
//!
//! They differ from `f64::max` and `f64::min` in two points. A NaN in either
//! argument is passed on instead of being dropped, so that a failure upstream
//! stays visible; and -0 counts as smaller than +0, so that the result does not
//! depend on the order of the arguments. Selecting rounds nothing, so both widths
//! are exact.

/// The larger of two numbers; NaN if either is NaN, +0 for zeros of both signs.
#[must_use]
pub fn max(x: f64, y: f64) -> f64 {
    if x > y {
        x
    } else if x < y {
        y
    } else if x == y {
        // Equal values have different bits only when they are zeros.
        if x.is_sign_negative() { y } else { x }
    } else {
        x + y // At least one is NaN, and so is the sum.
    }
}

/// The smaller of two numbers; NaN if either is NaN, -0 for zeros of both signs.
#[must_use]
pub fn min(x: f64, y: f64) -> f64 {
    // Negation reverses the order, the two zeros included, and is exact.
    -max(-x, -y)
}

/// `f32` form of [`max`].
#[must_use]
pub fn max_f32(x: f32, y: f32) -> f32 {
    // Widening keeps the order, the signs of zeros and NaN, and is exact both ways.
    max(f64::from(x), f64::from(y)) as f32
}

/// `f32` form of [`min`].
#[must_use]
pub fn min_f32(x: f32, y: f32) -> f32 {
    min(f64::from(x), f64::from(y)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::test_support::{INFINITY, NAN, grid, same};

    const VALUES: [f64; 9] = [-INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, INFINITY];

    #[test]
    fn order_is_total_with_the_zeros_apart() {
        // VALUES ascend, so the later index is the larger number.
        for (i, &x) in VALUES.iter().enumerate() {
            for (j, &y) in VALUES.iter().enumerate() {
                let (low, high) = if i < j { (x, y) } else { (y, x) };
                assert!(same(max(x, y), high), "max({x}, {y})");
                assert!(same(min(x, y), low), "min({x}, {y})");
            }
        }
    }

    #[test]
    fn nan_is_passed_on() {
        for x in VALUES.into_iter().chain([NAN]) {
            for result in [max(x, NAN), max(NAN, x), min(x, NAN), min(NAN, x)] {
                assert!(result.is_nan(), "with {x}");
            }
        }
    }

    #[test]
    fn f32_forms_agree() {
        for x in grid(-2.0, 2.0, 9) {
            for y in [-1.0_f32, -0.0, 0.0, 1.5, f32::INFINITY, f32::NAN] {
                let wide = f64::from(y);
                assert!(same(f64::from(max_f32(x as f32, y)), max(x, wide)), "max({x}, {y})");
                assert!(same(f64::from(min_f32(x as f32, y)), min(x, wide)), "min({x}, {y})");
            }
        }
        assert_eq!(max_f32(1e-45, 0.0), 1e-45);
    }
}
