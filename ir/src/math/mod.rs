//! Scalar functions that the standard library lacks, or that it gives a
//! different meaning from the one array programs expect.
//!
//! These are the reference meanings of the elementwise operations: an
//! interpreter calls them directly, and generated code is tested against them.
//! Where several conventions exist (what `max` does with a NaN, which integer
//! a half rounds to, what `digamma` returns at a pole) the choice is the one
//! that [JAX](https://docs.jax.dev) makes, so that programs ported from it keep
//! their results.
//!
//! | file | holds |
//! |---|---|
//! | [`elementary`] | exponentials, logarithms, roots, powers, the logistic, inverse hyperbolics |
//! | [`mod@erf`] | the error function, its complement, its inverse |
//! | [`gamma`] | log-gamma, digamma and every further derivative of them |
//! | [`rounding`] | rounding, sign, remainder, neighbouring floats |
//! | [`select`] | `max` and `min` that propagate NaN |
//!
//! # Conventions
//!
//! * Every function is a plain `fn name(x: f64) -> f64` and never panics: an
//!   argument outside the domain gives NaN. A plain `fn` is easy to wrap as
//!   `extern "C"` for generated code to call.
//! * `name_f32` is the `f32` form. Unless it says otherwise it evaluates the
//!   `f64` form and rounds once, which leaves it within about 0.5 ulp and makes
//!   it agree with `f64` on every edge value.
//! * Functions whose `std` form already has the wanted meaning (`f64::sin`,
//!   `f64::exp`, `f64::floor`, …) are not repeated here.
//! * "ulp" in the documentation is the distance between neighbouring floats at
//!   the result; the figures were measured against 40-digit values from mpmath.

/// Defines `f32` forms that evaluate the `f64` form and round the result once.
macro_rules! via_f64 {
    ($($narrow:ident($($arg:ident: $ty:ty),+) = $wide:ident($($wide_arg:expr),+);)+) => {$(
        #[doc = concat!(
            "`f32` form of [`", stringify!($wide), "`]: evaluated in `f64` and rounded once, ",
            "with the same domain and edge values."
        )]
        #[must_use]
        pub fn $narrow($($arg: $ty),+) -> f32 {
            $wide($($wide_arg),+) as f32
        }
    )+};
}

pub mod elementary;
pub mod erf;
pub mod gamma;
pub mod rounding;
pub mod select;

#[cfg(test)]
mod test_support;

pub use elementary::*;
pub use erf::*;
pub use gamma::*;
pub use rounding::*;
pub use select::*;
