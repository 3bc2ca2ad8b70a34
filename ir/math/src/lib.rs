//! Numerics that the standard library lacks: the special functions and a few elementary ones.
//!
//! The scalar table (`tapeloom_ir::prim::scalar`) defines its library functions by these, and both the interpreter and
//! generated code call them. The functions in which programs spend most time are written so that eight arguments take
//! hardly longer than two ([`vector_math`]), and return the same bits on every machine. Functions whose `std` form
//! already has the required meaning (`f64::tan`, `f64::powf`, ...) are not repeated here. Arithmetic that needs no
//! library (extremes, remainders, integer powers) is defined by `tapeloom_ir::Code`.
//!
//! | file | holds |
//! |---|---|
//! | [`number`] | the number types for which a function is written: floats, or a recording |
//! | [`vector_math`] | the evaluation of a function at eight arguments at once |
//! | [`record`] | the list of the operations of a function |
//! | [`exponential`] | the exponential and the logistic |
//! | [`logarithm`] | the logarithm, of sums and of sums of exponentials |
//! | [`trigonometric`] | sine and cosine |
//! | [`inverse_trigonometric`] | arcsine, arccosine, arctangent of one and of two arguments |
//! | [`hyperbolic`] | the hyperbolic functions |
//! | [`elementary`] | roots and the inverse hyperbolic functions |
//! | [`mod@erf`] | the error function, its complement, their inverses, the normal distribution |
//! | [`gamma`] | log-gamma, digamma and every further derivative of them |
//! | [`gamma_f64`], [`gamma_f32`] | log-gamma and digamma of positive numbers |
//! | [`incomplete_gamma`], [`incomplete_beta`] | the incomplete gamma and beta functions, with derivatives in their parameters |
//! | [`exponential_integral`] | Eₙ and Ei |
//! | [`bessel`] | Bessel functions of integer order |
//! | [`mod@zeta`] | Hurwitz's zeta function, with derivatives in s |
//! | [`mod@spence`] | the dilogarithm |
//! | [`rounding`] | rounding to integers |
//! | [`scaled_bessel`] | the scaled modified Bessel functions, with derivatives |
//! | [`scaled_erf`] | the scaled complementary error function and Dawson's integral |
//! | [`hypergeometric`] | Kummer's function |
//! | [`mod@nextafter`] | the neighbouring float |
//!
//! # Conventions
//!
//! * Every function is a plain `fn name(x: f64) -> f64` and never panics: an argument outside the domain gives
//!   NaN. The table wraps it as `extern "C"`. A function that implements [`Parted`] or [`PartedIn`] is computed
//!   in f32 for f32, within 2.5 ulp if it is elementary, and within 6.7 ulp otherwise. For any other function the
//!   f64 result is rounded once, which is within about 0.5 ulp. Edge values are the same in f32 and f64.
//! * Where several conventions exist (for example the value of `digamma` at a pole), the convention is that of
//!   [JAX](https://docs.jax.dev), so that ported programs have the same results.
//! * "ulp" in the documentation is the distance between neighbouring floats at the result; the figures were
//!   measured against values of 40 digits.

pub mod bessel;
pub mod elementary;
pub mod erf;
#[doc(hidden)]
pub mod excess;
pub mod exponential;
pub mod exponential_integral;
#[doc(hidden)]
pub mod fault;
pub mod gamma;
pub mod gamma_f32;
pub mod gamma_f64;
#[doc(hidden)]
pub mod half_line;
pub mod hyperbolic;
pub mod hypergeometric;
pub mod incomplete_beta;
pub mod incomplete_gamma;
pub mod inverse_trigonometric;
pub mod isa;
pub mod logarithm;
pub mod nextafter;
pub mod number;
pub mod record;
pub mod rounding;
pub mod scaled_bessel;
pub mod scaled_erf;
mod series;
pub mod spence;
pub mod trigonometric;
pub mod vector_math;
pub mod zeta;

pub use bessel::*;
pub use elementary::*;
pub use erf::*;
pub use exponential::*;
pub use exponential_integral::*;
pub use gamma::*;
pub use gamma_f64::*;
pub use hyperbolic::*;
pub use hypergeometric::*;
pub use incomplete_beta::*;
pub use incomplete_gamma::*;
pub use inverse_trigonometric::*;
pub use logarithm::*;
pub use nextafter::*;
pub use number::{Coefficients, Constant, Format, Number};
pub use record::{Noted, Operation, Recording};
pub use rounding::*;
pub use scaled_bessel::*;
pub use scaled_erf::*;
pub use spence::*;
pub use trigonometric::*;
pub use vector_math::{EIGHT, Eight, Parted, PartedIn, PartedPair};
pub use zeta::*;
