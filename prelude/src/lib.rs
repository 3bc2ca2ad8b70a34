//! Composable derivatives, compiled.
//!
//! A pure Rust closure over [`Var`]s is traced into a program; [`grad`], [`jvp`], [`vjp`], [`vmap`]
//! and their relatives map closures to closures, in any order and to any depth; [`jit()`] compiles the
//! result for the machine it runs on.
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! fn loss(w: Var, x: Var, y: Var) -> Var {
//!     let p = x.dot(w).sigmoid();
//!     -(y * p.ln() + (1.0 - y) * (1.0 - p).ln()).mean()
//! }
//! let step = jit(|(w, x, y): (Var, Var, Var)| w - 0.1 * grad(|w| loss(w, x, y))(w));
//!
//! let mut w = Tensor::from([0.0, 0.0]);
//! let (x, y) = (Tensor::from([[1.0, 2.0], [2.0, -1.0]]), Tensor::from([1.0, 0.0]));
//! for _ in 0..10 {
//!     w = step.call((&w, &x, &y))?;
//! }
//! assert!(w.to_vec::<f64>()?[1] > 0.5);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! # How to read this crate
//!
//! - [`Var`] is a traced array, with numpy's vocabulary as methods (the modules of `ops`).
//! - [`Tensor`] is concrete data: cheap to clone, `Send + Sync`.
//! - [`Tree`] is what transforms take and return: tuples, vectors and your own structs of arrays.
//! - [`transform`] lists the transforms with their types.
//! - [`jit()`] and [`run`] are the boundary: nothing is computed before, and all mistakes made while
//!   tracing are returned there, together, as one [`Error`].
//!
//! A closure is traced and compiled at its first call, and again for arguments of other shapes, dtypes
//! or structure. Rust values that it captures are read then; captured [`Tensor`]s become hidden
//! arguments. [`Jit::explain`] shows what became of it.
//!
//! # Errors
//!
//! Operators cannot return a `Result`. A wrong operation is written down with its line, and gives a
//! stand-in of the shape that was probably meant; the boundary returns what was written down:
//!
//! ```text
//! error[shape]: `add` cannot broadcast shapes [2] and [3] together
//!   --> src/main.rs:4:13
//!    = left   f64[2]  made at src/main.rs:3:9
//!    = right  f64[3]  made at src/main.rs:3:9
//!    = while tracing for `jit` at src/main.rs:3:9
//!    = help: aligned at the last axis, extents must be equal or 1
//!    = see the book: errors.html#shape
//! ```
//!
//! A derivative that does not exist is such an error, too, and never a silent zero. What is wrong with
//! a closure that differentiates as it should not, [`check_grads`] finds by finite differences.

// What is derived names it so.
extern crate self as tapeloom;

mod check;
pub mod complex;
pub mod control;
pub mod conv;
pub mod define_by_run;
mod distributions;
mod dtype;
pub mod elsewhere;
mod error;
pub mod fft;
mod function;
pub mod host_calls;
pub mod implicit;
pub mod interpolate;
pub mod jit;
pub mod linalg;
pub mod nn;
pub mod ode;
pub mod ops;
pub mod optim;
mod prng;
pub mod quadrature;
pub mod random;
mod sized;
mod staging;
pub mod state;
pub mod transform;
pub mod tree;
pub mod var;

pub use check::{check_grads, check_rule};
pub use complex::{Complex, IntoComplex};
pub use control::*;
pub use define_by_run::{
    Ephemeral, Persistent, Tape, record, record_within, recorded_bytes, recorded_vjp,
};
pub use error::Error;
pub use function::{Function, One, Two};
pub use host_calls::{Failure, callback, callback_batched, debug_print, tap, tap_cotangent};
pub use implicit::*;
pub use jit::{CallReport, Compiled, Explanation, Jit, Stage, eval_shape, jit, run};
pub use linalg::{MatrixNorm, Triangle};
pub use nn::attention::{Attention, dot_product_attention};
pub use ops::functions::*;
pub use quadrature::{Precision, quad};
pub use sized::Unique;
pub use state::Ref;
pub use tapeloom_backend::{
    LaneCode, LaneLoop, MachineModel, Rematerialized, TapePlan, Target, Vectors, accelerator,
    layout,
};
pub use tapeloom_derive::Tree;
pub use tapeloom_ir::{
    ArrayType, Cancel, Dtype, Element, Kind, LoopCount, Policy, Problem, Shape, Tensor,
};
pub use transform::*;
pub use tree::{
    Args, Tree, clip_by_global_norm, global_norm, ones_like, ravel, ravel_tensors, tree_dot,
    tree_leaves, tree_map, tree_map2, tree_map3, tree_paths, tree_sum, zeros_like,
};
pub use var::{IntoVar, Var};

/// Everything that programs usually need: `use tapeloom::prelude::*;`
pub mod prelude {
    pub use crate::check::{check_grads, check_rule};
    pub use crate::complex::{Complex, IntoComplex};
    pub use crate::control::*;
    pub use crate::define_by_run::{Tape, record, record_within, recorded_bytes, recorded_vjp};
    pub use crate::host_calls::{callback, callback_batched, debug_print, tap, tap_cotangent};
    pub use crate::implicit::*;
    pub use crate::jit::{Jit, eval_shape, jit, run};
    pub use crate::linalg::{MatrixNorm, Triangle};
    pub use crate::nn::attention::{Attention, dot_product_attention};
    pub use crate::ops::functions::*;
    pub use crate::optim::Optimizer;
    pub use crate::quadrature::{Precision, quad};
    pub use crate::state::Ref;
    pub use crate::transform::*;
    pub use crate::tree::{
        Args, Tree, clip_by_global_norm, global_norm, ones_like, ravel, ravel_tensors, tree_dot,
        tree_leaves, tree_map, tree_map2, tree_map3, tree_paths, tree_sum, zeros_like,
    };
    pub use crate::var::{IntoVar, Var};
    pub use crate::{conv, fft, interpolate, linalg, nn, ode, optim, random};
    pub use tapeloom_derive::Tree;
    pub use tapeloom_ir::{Cancel, Dtype, Policy, Shape, Tensor};
}
