//! The neighbouring float: C's `nextafter`, which steps through the representable numbers.
//!
//! The result depends on the dtype's width, so this is the one function here with a separate f32 form. Source:
//! IEEE 754-2019 for the steps, C for the edge values.

/// Defines `nextafter` for one float type.
macro_rules! nextafter {
    ($name:ident, $t:ty) => {
        /// Returns the float next to `x` in the direction of `y`.
        ///
        /// If `x` and `y` are equal, the result is `y`, so `nextafter(0.0, -0.0) = -0.0`; from either zero a step leads
        /// to the smallest subnormal of the sign of `y`; from the largest finite value a step outwards leads to ∞, and
        /// from ∞ a step inwards leads back. If an argument is NaN, so is the result.
        #[must_use]
        pub fn $name(x: $t, y: $t) -> $t {
            if x == y {
                y
            } else if x < y {
                x.next_up()
            } else if x > y {
                x.next_down()
            } else {
                x + y // At least one argument is NaN, and so is the sum.
            }
        }
    };
}
nextafter!(nextafter, f64);
nextafter!(nextafter_f32, f32);
