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
//!     let p = (x * w).sum_axis(1).sigmoid();
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
//! - [`jit()`] and [`run`] are the boundary: nothing is computed before, and all mistakes made while
//!   tracing are returned there, together, as one [`Error`].
//!
//! A closure is traced once per shape of its arguments. Rust values that it captures are read then;
//! captured [`Tensor`]s become hidden arguments.

#[cfg(test)]
extern crate self as tapeloom;

mod check;
mod closure;
mod dtype;
mod error;
pub mod jit;
pub mod ops;
pub mod transform;
pub mod tree;
pub mod var;

pub use check::{check_grads, check_rule};
pub use error::Error;
pub use jit::{Compiled, Explanation, Jit, Stage, jit, run};
pub use ops::{
    arange, concat, constant, einsum, eye, full, iota, linspace, ones, select, stack, zeros,
};
pub use tapeloom_derive::Tree;
pub use tapeloom_ir::{ArrayType, Dtype, Element, Kind, Problem, Shape, Tensor};
pub use transform::*;
pub use tree::{Args, Tree};
pub use var::{IntoVar, Var};

/// Everything that programs usually need: `use tapeloom::prelude::*;`
pub mod prelude {
    pub use crate::check::{check_grads, check_rule};
    pub use crate::jit::{Jit, jit, run};
    pub use crate::ops::{
        arange, concat, constant, einsum, eye, full, iota, linspace, ones, select, stack, zeros,
    };
    pub use crate::transform::*;
    pub use crate::tree::{Args, Tree};
    pub use crate::var::{IntoVar, Var};
    pub use tapeloom_derive::Tree;
    pub use tapeloom_ir::{Dtype, Shape, Tensor};
}
