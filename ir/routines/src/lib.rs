//! Dense factorisations, triangular and tridiagonal solves, and Fourier transforms, for each member of a batch:
//! from byte buffers to byte buffers, without allocation.
//!
//! The interpreter, the interpreter of the loop IR, and compiled code call the same functions of this crate, so
//! all three give the same bits and the same signs of vectors. A [`Routine`] is a printable description: the
//! shapes of its arrays and its arithmetic. [`Routine::plan`] prepares it for one element type, and
//! [`Plan::run`] executes it.
//!
#![cfg_attr(feature = "linalg", doc = "```")]
#![cfg_attr(not(feature = "linalg"), doc = "```no_run")]
//! use tapeloom_routines::{Float, Routine};
//!
//! let plan = Routine::Cholesky { n: 2 }.plan(Float::F64)?;
//! let a: [f64; 4] = [4.0, f64::NAN, 2.0, 5.0]; // the strict upper triangle is not read
//! let mut l = [0.0_f64; 4];
//! let mut scratch = vec![0; plan.scratch_bytes()];
//! plan.run(
//!     1,
//!     &[bytemuck::cast_slice(&a)],
//!     &mut [bytemuck::cast_slice_mut(&mut l)],
//!     &mut scratch,
//! )?;
//! assert_eq!(l, [2.0, 0.0, 1.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All arrays are dense and row-major; the members of a batch are contiguous. A failure is a value in the
//! results of the member, never a panic: if the input has a NaN or an infinity, or an iteration does not
//! converge, every floating-point result is NaN and every index result counts up from 0.
//!
//! The implementations are faer's (factorisations) and rustfft's (transforms). This crate adds the steps that
//! they leave to the caller: the scan of the input, the scaling of inputs near the ends of the exponent range,
//! singular pivots, and signs. Both libraries select instructions by processor, so the last bits of a result
//! may differ between machines. Small matrices have their own methods, which process several members at a time
//! and give the same bits on every machine. Without the feature `linalg` every description exists and
//! [`Routine::plan`] returns [`Unavailable::Missing`].
//!
//! An [`Argsort`], which returns the indices of elements in ascending order, needs no plan and no feature, and
//! has the same bits on every machine.

mod argsort;
mod attributes;
#[cfg(feature = "linalg")]
mod cholesky;
#[cfg(feature = "linalg")]
mod dispatch;
#[cfg(feature = "linalg")]
mod eig;
#[cfg(feature = "linalg")]
mod eigh;
mod flops;
#[cfg(feature = "linalg")]
mod fourier;
#[cfg(feature = "linalg")]
mod householder;
#[cfg(feature = "linalg")]
mod lockstep;
#[cfg(feature = "linalg")]
mod lu;
mod plan;
#[cfg(feature = "linalg")]
mod qr;
#[cfg(feature = "linalg")]
mod qr_iteration;
#[cfg(feature = "linalg")]
mod real;
mod routine;
mod row;
#[cfg(feature = "linalg")]
mod schur;
#[cfg(feature = "linalg")]
mod schur_blocks;
#[cfg(feature = "linalg")]
mod scratch;
#[cfg(feature = "linalg")]
mod svd;
#[cfg(feature = "linalg")]
mod transpose;
#[cfg(feature = "linalg")]
mod triangular;
#[cfg(feature = "linalg")]
mod tridiagonal;

pub use argsort::{Argsort, Key};
pub use plan::{Plan, Unavailable, WrongBuffers};
pub use routine::{Array, Element, Float, QrBasis, Routine, SvdVectors, half};
