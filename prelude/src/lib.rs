//! Composable derivatives, compiled.
//!
//! [`grad`], [`jvp`], [`vjp`], [`vmap`] and the other transforms map a pure Rust closure over [`Var`]s to
//! another closure; they nest in any order and to any depth. [`jit()`] traces the resulting closure into a
//! program and compiles it to machine code for the current computer.
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
//! - [`Var`] is a traced array. Its methods use numpy's names (see the modules of `ops`).
//! - [`Tensor`] is concrete data: cheap to clone, `Send + Sync`.
//! - [`Tree`] is the trait of arguments and results of transforms: tuples, vectors and your own structs of
//!   arrays.
//! - [`transform`] lists the transforms with their types; [`control`] has loops and branches.
//! - [`jit()`] and [`run`] are the boundary between closures and data. Tracing computes nothing; a call of
//!   the compiled function computes, and returns all mistakes made while tracing as one [`Error`].
//!
//! A [`Jit`] traces and compiles its closure at the first call, and again for arguments of other shapes, dtypes
//! or structure. Rust values that the closure captures are read at tracing and become constants of the program;
//! captured [`Tensor`]s become hidden arguments. [`Jit::explain`] shows the result of every compilation stage.
//!
//! # Errors
//!
//! Operators cannot return a `Result`. An invalid operation is recorded with its source line and returns a
//! placeholder of the most plausible shape, so that tracing continues. The call returns all recorded errors:
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
//! If a derivative does not exist, the call returns such an error; the derivative is never replaced by zero.
//! [`check_grads`] compares the derivatives of a closure with finite differences.

// Code that `#[derive(Tree)]` generates names this crate `tapeloom`, inside this crate too.
extern crate self as tapeloom;

// The order of these modules matters: the documentation of `Var` shows its methods in this order.
pub mod var;

pub mod ops;

mod sized;

pub mod control;

mod check;
pub mod complex;
pub mod conv;
pub mod define_by_run;
mod distributions;
mod dtype;
pub mod elsewhere;
mod error;
pub mod fft;
pub mod files;
mod function;
pub mod host_calls;
pub mod implicit;
pub mod interpolate;
pub mod jit;
pub mod linalg;
pub mod nn;
pub mod ode;
pub mod optim;
mod prng;
pub mod quadrature;
pub mod random;
mod staging;
pub mod state;
#[doc(
    alias = "log_prob",
    alias = "kl_divergence",
    alias = "entropy",
    alias = "logpdf",
    alias = "logpmf",
    alias = "distributions"
)]
pub mod stats;
pub mod transform;
pub mod tree;
#[cfg(feature = "xla")]
pub mod xla;

#[doc(inline)]
pub use check::{check_grads, check_rule};
#[doc(inline)]
pub use complex::{Complex, IntoComplex};
#[doc(inline)]
pub use control::*;
#[doc(inline)]
pub use define_by_run::{
    Ephemeral, Persistent, Tape, record, record_within, recorded_bytes, recorded_vjp,
};
#[doc(inline)]
pub use error::Error;
#[doc(inline)]
pub use function::{Function, One, Two};
#[doc(inline)]
pub use host_calls::{Failure, callback, callback_batched, debug_print, tap, tap_cotangent};
#[doc(inline)]
pub use implicit::*;
#[doc(inline)]
pub use jit::{
    CallReport, Compiled, Explanation, Jit, RowResults, SimplifyReport, Stacked, Stage, Summed,
    eval_shape, jit, run,
};
#[doc(inline)]
pub use linalg::{MatrixNorm, Triangle};
#[doc(inline)]
pub use nn::attention::{Attention, dot_product_attention};
#[doc(inline)]
pub use ops::functions::*;
#[doc(inline)]
pub use quadrature::{Precision, quad};
#[doc(inline)]
pub use sized::Unique;
#[doc(inline)]
pub use state::Ref;
#[cfg(feature = "object")]
#[doc(inline)]
pub use tapeloom_backend::object;
#[cfg(feature = "rust")]
#[doc(inline)]
pub use tapeloom_backend::rust_source;
#[cfg(feature = "stablehlo")]
#[doc(inline)]
pub use tapeloom_backend::stablehlo;
#[doc(inline)]
pub use tapeloom_backend::{
    LaneCode, LaneLoop, MachineModel, Profile, ProfileLine, ProfileRow, Rematerialized, TapePlan,
    Target, Vectors, accelerator, layout,
};
#[doc(inline)]
pub use tapeloom_derive::Tree;
#[doc(inline)]
pub use tapeloom_ir::{
    ArrayType, Cancel, Dtype, Element, Kind, LoopCount, Mesh, PartitionSpec, Policy, Problem,
    Shape, Tensor,
};
#[doc(inline)]
pub use tapeloom_transforms::{Cost, Simplification};
#[doc(inline)]
pub use transform::*;
#[doc(inline)]
pub use tree::{
    Args, Tree, clip_by_global_norm, global_norm, ones_like, ravel, ravel_tensors, tree_dot,
    tree_leaves, tree_map, tree_map2, tree_map3, tree_paths, tree_sum, zeros_like,
};
#[doc(inline)]
pub use var::{IntoVar, Var};

/// The names that most programs need: `use tapeloom::prelude::*;`
///
/// * **Arrays**: [`Var`], [`IntoVar`], [`Tensor`], [`Shape`], [`Dtype`], [`Complex`], [`IntoComplex`]; new arrays by
///   [`zeros`], [`ones`], [`full`], [`eye`], [`arange`], [`iota`], [`linspace`], [`logspace`], [`geomspace`],
///   [`fftfreq`], [`constant`], [`tri`], [`toeplitz`]; joined by [`concat()`], [`stack`], [`hstack`], [`vstack`],
///   [`dstack`], [`column_stack`], [`block_diag`]; [`broadcast_arrays`], [`meshgrid`], [`meshgrid_ij`], [`Padding`].
/// * **Functions of several arrays**: [`einsum`], [`einsum_left_to_right`], [`multi_dot`], [`select`],
///   [`select_first`], [`select_nth`], [`interp`], [`polyval`], [`lexsort`], [`diag_indices`],
///   [`dot_product_attention`] with [`Attention`].
/// * **Derivatives**: [`grad`], [`value_and_grad`], [`grad_aux`], [`value_and_grad_aux`], [`jvp`], [`vjp`],
///   [`linearize`], [`linear_transpose`], [`jacfwd`], [`jacrev`], [`hessian`], [`hvp`]; own rules by [`custom_jvp`],
///   [`custom_vjp`], [`custom_rules`]; memory by [`checkpoint`], [`checkpoint_carries`], [`Policy`]; tests by
///   [`check_grads`], [`check_rule`].
/// * **Batches**: [`vmap`], [`vmap_axes`] with [`BatchAxes`], [`AxisLeaf`].
/// * **Control flow**: [`cond`], [`switch`], [`fori_loop`], [`while_loop`], [`scan`], [`scan_reverse`], [`map`],
///   [`associative_scan`], [`Count`], [`outline`].
/// * **Running**: [`jit()`], [`Jit`], [`run`], [`eval_shape`], [`Cancel`]; functions of one row by [`Stacked`],
///   [`Summed`], [`RowResults`]; recordings by [`record`],
///   [`record_within`], [`recorded_vjp`], [`recorded_bytes`], [`Tape`].
/// * **State and the host**: [`Ref`], [`callback`], [`callback_batched`], [`debug_print`], [`tap`],
///   [`tap_cotangent`].
/// * **Solutions of equations**: [`custom_root`], [`root_between`], [`fixed_point`], [`custom_linear_solve`],
///   [`custom_linear_solve_with`], [`cg`], [`cg_with`], [`gmres`], [`gmres_with`], [`bicgstab`], [`bicgstab_with`],
///   [`Krylov`], [`Until`], [`quad`], [`Precision`].
/// * **Trees**: [`Tree`](trait@Tree) with its derive macro, [`Args`], [`tree_map`], [`tree_map2`], [`tree_map3`],
///   [`tree_leaves`], [`tree_paths`], [`tree_sum`], [`tree_dot`], [`ravel`], [`ravel_tensors`], [`zeros_like`],
///   [`ones_like`], [`global_norm`], [`clip_by_global_norm`].
/// * **Modules of fields**: [`linalg`] with [`MatrixNorm`] and [`Triangle`], [`fft`], [`conv`], [`nn`], [`ode`],
///   [`optim`] with [`Optimizer`](optim::Optimizer), [`random`], [`stats`], [`interpolate`].
pub mod prelude {
    pub use crate::check::{check_grads, check_rule};
    pub use crate::complex::{Complex, IntoComplex};
    pub use crate::control::*;
    pub use crate::define_by_run::{Tape, record, record_within, recorded_bytes, recorded_vjp};
    pub use crate::host_calls::{callback, callback_batched, debug_print, tap, tap_cotangent};
    pub use crate::implicit::*;
    pub use crate::jit::{Jit, RowResults, Stacked, Summed, eval_shape, jit, run};
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
    pub use crate::{conv, fft, interpolate, linalg, nn, ode, optim, random, stats};
    pub use tapeloom_derive::Tree;
    pub use tapeloom_ir::{Cancel, Dtype, Policy, Shape, Tensor};
}
