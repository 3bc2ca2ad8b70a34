//! Operations on [`Var`]: numpy's everyday vocabulary, composed from the primitives.
//!
//! Names are Rust's where `f64` has a method (`ln`, `exp_m1`, `powi`, `signum`) and numpy's otherwise
//! (`maximum`, `take_along_axis`, `sum_axis`). Operands of different shapes are broadcast by numpy's
//! rules; operands of different dtypes are an error, because a silent conversion is a silent loss.
//! Axes may be negative, counted from the end.

mod arithmetic;
mod axes;
mod broadcasting;
mod compare;
mod create;
mod elementwise;
mod index;
mod linalg;
mod nn;
mod reduce;
mod shape;

pub use axes::{Axes, Axis};
pub use compare::select;
pub use create::{arange, constant, eye, full, iota, linspace, ones, zeros};
pub use index::{At, Index, Indices};
pub use linalg::einsum;
pub use shape::{concat, stack};

pub(crate) use broadcasting::{binary, broadcast_shapes, broadcast_together, broadcast_var};
pub(crate) use create::{eye_var, full_var, zeros_like_type};
pub(crate) use shape::{insert_axis, move_axis, reshape, slice_axis};

use crate::Var;
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Loc, Op, Problem};

/// Emits an equation with one output.
pub(crate) fn emit(op: impl Into<Op>, operands: &[Var], at: Loc) -> Var {
    match operands {
        [x] => Var::new(trace::bind1(op, &[x.handle], at)),
        [x, y] => Var::new(trace::bind1(op, &[x.handle, y.handle], at)),
        many => {
            let handles: Vec<_> = many.iter().map(|v| v.handle).collect();
            Var::new(trace::bind1(op, &handles, at))
        }
    }
}

/// Records a problem with these operands and gives what was probably meant.
pub(crate) fn wrong(problem: Problem, operands: &[Var], guess: ArrayType, at: Loc) -> Var {
    let handles: Vec<_> = operands.iter().map(|v| v.handle).collect();
    trace::record(problem, &handles, at);
    Var::poison(guess, at)
}
