//! The tests of the routines. They are in a separate crate because compiling the library a second time for unit
//! tests, with all its instantiations, would take longer than the tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[cfg(feature = "linalg")]
mod allocation;
mod argsort;
mod attributes;
#[cfg(feature = "linalg")]
mod buffers;
#[cfg(feature = "linalg")]
mod checks;
#[cfg(feature = "linalg")]
mod cholesky;
#[cfg(feature = "linalg")]
mod eig;
#[cfg(feature = "linalg")]
mod eigh;
#[cfg(feature = "linalg")]
mod fourier;
#[cfg(feature = "linalg")]
mod fourier_accuracy;
#[cfg(feature = "linalg")]
mod hostile;
#[cfg(feature = "linalg")]
mod lockstep;
#[cfg(feature = "linalg")]
mod lu;
mod plan;
#[cfg(feature = "linalg")]
mod qr;
mod routine;
#[cfg(feature = "linalg")]
mod schur;
#[cfg(feature = "linalg")]
mod svd;
#[cfg(feature = "linalg")]
#[path = "../../../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;
#[cfg(feature = "linalg")]
mod triangular;
#[cfg(feature = "linalg")]
mod tridiagonal;
