//! The tests of the functions. They are in a separate crate because compiling the library a second time for
//! unit tests, with every function for every instruction set, would take longer than the tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bessel;
mod elementary;
mod erf;
mod excess;
mod exponential;
mod exponential_integral;
mod gamma;
mod half_line;
mod hyperbolic;
mod hypergeometric;
mod incomplete_beta;
mod incomplete_gamma;
#[expect(clippy::approx_constant, reason = "arguments in tables")]
mod inverse_trigonometric;
mod isa;
mod logarithm;
mod nextafter;
mod pairs;
mod scaled_bessel;
mod scaled_erf;
mod spence;
mod test_support;
#[expect(clippy::approx_constant, reason = "arguments in tables")]
mod trigonometric;
mod whole;
mod zeta;
