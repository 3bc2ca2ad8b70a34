//! Operations on [`Var`]: numpy's common functions, composed from the primitives.
//!
//! Names are Rust's where `f64` has a method (`ln`, `exp_m1`, `powi`, `signum`) and numpy's otherwise (`maximum`,
//! `take_along_axis`, `sum_axis`). Operands of different shapes are broadcast by numpy's rules. Operands of
//! different dtypes are an error, because an implicit conversion could lose precision unnoticed. A negative axis
//! counts from the end.

// The order of these modules matters: the documentation of `Var` shows its methods in this order.

// Operators, broadcasting, and helpers of the other modules.
mod arithmetic;
mod axes;
mod broadcasting;
pub(crate) mod composite;

// Shapes, parts of arrays, new arrays.
mod shape;

mod axis_order;

mod index;

mod along_axis;
mod concat;
mod create;

// Functions of each element.
mod elementwise;

mod compare;

mod rounding;

mod division;

mod bits;

// Functions over axes.
mod reduce;

mod cumulative;

mod sorting;

mod segments;

mod search;
mod statistics;

// Products of arrays.
mod contraction_order;
mod products;
mod structured;

// Networks.
mod activations;
mod losses;

// Special functions and interpolation.
mod bessel;
mod incomplete;
mod integrals;
mod interp;
mod special;

pub mod other_names;

pub(crate) use activations::over;
pub use arithmetic::LeftOfVar;
pub use axes::{Axes, Axis};
pub use concat::Padding;
pub use functions::*;
pub use index::{At, Index, Indices, Ranges};

/// The functions that are not methods of [`Var`]. The prelude exports them, too.
pub(crate) mod functions {
    pub use super::compare::{select, select_first, select_nth};
    pub use super::concat::{
        Padding, block_diag, broadcast_arrays, column_stack, dstack, hstack, meshgrid, meshgrid_ij,
        vstack,
    };
    pub use super::create::{
        arange, constant, eye, fftfreq, full, geomspace, iota, linspace, logspace, ones, zeros,
    };
    pub use super::interp::{interp, polyval};
    pub use super::products::{einsum, einsum_left_to_right};
    pub use super::shape::{concat, stack};
    pub use super::sorting::lexsort;
    pub use super::structured::{diag_indices, multi_dot, toeplitz, tri};
}

pub(crate) use axes::{position, resolve_axes, resolve_axis};
pub(crate) use bessel::scaled_bessel_slope;
pub(crate) use broadcasting::{binary, broadcast_shapes, broadcast_together, broadcast_var};
pub(crate) use composite::{misshapen, number, of_floats, of_integers};
pub(crate) use create::{eye_var, full_var, spaced, zeros_like_type};
pub(crate) use index::elementwise;
pub(crate) use index::{Position, bounds, from_front, materialize, widened};
pub(crate) use products::{Factor, einsum_of};
pub(crate) use shape::{insert_axis, move_axis, permute, reshape, slice_axis};
pub(crate) use special::{STIRLING, horner};

use crate::Var;
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Loc, Op, Problem};

/// Emits an equation with one output, and returns this output.
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

/// Emits an equation, and returns all of its outputs.
pub(crate) fn emit_all(op: impl Into<Op>, operands: &[Var], at: Loc) -> Vec<Var> {
    let handles: Vec<_> = operands.iter().map(|v| v.handle).collect();
    trace::bind(op, &handles, at).into_iter().map(Var::new).collect()
}

/// Records an error with its operands, and returns a placeholder of the type `guess`.
pub(crate) fn wrong(problem: Problem, operands: &[Var], guess: ArrayType, at: Loc) -> Var {
    let handles: Vec<_> = operands.iter().map(|v| v.handle).collect();
    trace::record(problem, &handles, at);
    Var::poison(guess, at)
}
