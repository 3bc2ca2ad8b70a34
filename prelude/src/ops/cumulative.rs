//! Cumulative sums, products and extremes along an axis, and linear recurrences.
//!
//! Each has two directions: `cumsum(axis)` accumulates from the first element to the last, and
//! `cumsum_reverse(axis)` from the last to the first.
//!
//! ```
//! use tapeloom::prelude::*;
//! let (up, down) = run(|x: Var| (x.cumsum(0), x.cumsum_reverse(0)), [1.0, 2.0, 4.0])?;
//! assert_eq!(up.to_vec::<f64>()?, [1.0, 3.0, 7.0]);
//! assert_eq!(down.to_vec::<f64>()?, [7.0, 6.0, 4.0]);
//!
//! // The derivative of a product uses no division, so it is right for factors of zero.
//! let d = run(grad(|x: Var| x.cumprod(0).sum()), [2.0, 0.0, 3.0])?;
//! assert_eq!(d.to_vec::<f64>()?, [1.0, 8.0, 0.0]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::axes::{Axis, resolve_axis};
use super::composite::{along, of_floats};
use super::{broadcast_shapes, broadcast_var, concat, emit, select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use std::f64::consts::{PI, TAU};
use tapeloom_ir::prim::{Cumulate, Cumulation, Recurrence};
use tapeloom_ir::{Dtype, Kind, Loc, Problem};

fn fold(cumulation: Cumulation, x: Var, axis: usize, reverse: bool, at: Loc) -> Var {
    emit(Cumulate { cumulation, axis, reverse }, &[x], at)
}

/// Computes `s[i] = s[i-1] e^(m[i-1] - m[i]) + e^(x[i] - m[i])` and returns `ln s + m`, where m is the maximum so far.
/// The result does not depend on m, so m is a constant for derivatives. If m is infinite, the result is infinite, too,
/// and its derivative is 0. Earlier terms are then multiplied by 0 or never read.
fn logsumexp(x: Var, axis: usize, reverse: bool, at: Loc) -> Var {
    of_floats("cumlogsumexp", [x], at, |[x]| {
        let peak = fold(Cumulation::Max, x, axis, reverse, at).stop_gradient();
        let finite = peak.is_finite();
        let shift = select(finite, peak, 0.0);
        let n = x.shape()[axis];
        if n == 0 {
            return x;
        }
        // There is no maximum before the first element. Any number will do, because the recurrence does not read its
        // first factor.
        let before = if reverse {
            concat(&[peak.slice_axis(axis, 1..), peak.slice_axis(axis, n - 1..)], axis)
        } else {
            concat(&[peak.slice_axis(axis, ..1), peak.slice_axis(axis, ..n - 1)], axis)
        };
        let factor = select(finite, (before - peak).exp(), 1.0);
        let term = select(finite, x - shift, 0.0).exp();
        let sum = emit(Recurrence { axis, reverse }, &[factor, term], at);
        select(finite, sum.ln() + shift, peak)
    })
}

macro_rules! cumulative {
    ($($doc:literal, $body:expr => $(#[$attribute:meta])* pub fn $name:ident(); pub fn $reverse:ident();)*) => {
        /// Cumulative operations along an axis.
        impl Var {
            $(#[doc = concat!($doc, " of the elements up to and including each element along \
                                     `axis`; the shape and dtype of the operand.")]
            ///
            /// Errors: `shape` if the axis does not exist; `dtype` if the operation is not defined for the dtype.
            $(#[$attribute])*
            #[track_caller]
            pub fn $name(self, axis: impl Axis) -> Var {
                let at = caller();
                along(stringify!($name), self, axis, at, |x, axis| $body(x, axis, false, at))
            }

            #[doc = concat!($doc, " of the elements from and including each element to the end of \
                                   `axis`; the shape and dtype of the operand.")]
            ///
            /// Errors: `shape` if the axis does not exist; `dtype` if the operation is not defined for the dtype.
            #[track_caller]
            pub fn $reverse(self, axis: impl Axis) -> Var {
                let at = caller();
                along(stringify!($reverse), self, axis, at, |x, axis| $body(x, axis, true, at))
            })*
        }
    };
}

cumulative! {
    "The sums", |x, axis, reverse, at| fold(Cumulation::Sum, x, axis, reverse, at) =>
        pub fn cumsum();
        pub fn cumsum_reverse();
    "The products (derivatives are right where factors are zero, but nan where the product of some \
     factors overflows and another factor is zero)",
        |x, axis, reverse, at| fold(Cumulation::Prod, x, axis, reverse, at) =>
        pub fn cumprod();
        pub fn cumprod_reverse();
    "The largest (nan from the first nan on; ties share the derivative evenly)",
        |x, axis, reverse, at| fold(Cumulation::Max, x, axis, reverse, at) =>
        pub fn cummax();
        pub fn cummax_reverse();
    "The smallest (nan from the first nan on; ties share the derivative evenly)",
        |x, axis, reverse, at| fold(Cumulation::Min, x, axis, reverse, at) =>
        pub fn cummin();
        pub fn cummin_reverse();
    "ln Σ eˣ, without overflow,", logsumexp =>
        #[doc(alias = "logcumsumexp")]
        pub fn cumlogsumexp();
        pub fn cumlogsumexp_reverse();
}

/// Angles and recurrences along an axis.
impl Var {
    /// Removes jumps of angles in radians along `axis`: a multiple of 2π is added to each angle, so that it differs
    /// from the previous one by at most π.
    ///
    /// Errors: `shape` if the axis does not exist; `dtype` if the angles are not floats.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// use std::f64::consts::TAU;
    /// let y = run(|x: Var| x.unwrap_phase(0), [0.0, 3.0, 6.0 - TAU])?;
    /// assert!((y.to_vec::<f64>()?[2] - 6.0).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "unwrap")]
    #[track_caller]
    pub fn unwrap_phase(self, axis: impl Axis) -> Var {
        let at = caller();
        along("unwrap_phase", self, axis, at, |x, axis| {
            of_floats("unwrap_phase", [x], at, |[x]| {
                if x.shape()[axis] == 0 {
                    return x;
                }
                let step = x.slice_axis(axis, 1..) - x.slice_axis(axis, ..x.shape()[axis] - 1);
                let turned = (step + PI).mod_floor(TAU) - PI;
                // A difference of exactly +π between neighbouring angles stays; it is not changed to -π.
                let turned = select(turned.eq(-PI) & step.gt(0.0), PI, turned);
                let turns = select(step.abs().lt(PI), 0.0, turned - step);
                let start = x.slice_axis(axis, ..1);
                concat(&[start, x.slice_axis(axis, 1..) + turns.cumsum(axis)], axis)
            })
        })
    }

    /// Returns `y[i] = a[i] y[i-1] + x[i]` along `axis`, with `y[0] = x[0]`: moving averages, filters, linear
    /// state-space models. The factors `a` are broadcast to the shape of x.
    ///
    /// Derivatives are recurrences again; their only residuals are `a` and `y`.
    ///
    /// Errors: `shape` if the axis does not exist or the factors do not fit; `dtype` unless both are numbers of one
    /// dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let smooth = run(|x: Var| (0.5 * x).linear_recurrence(0.5, 0), [8.0, 0.0, 0.0])?;
    /// assert_eq!(smooth.to_vec::<f64>()?, [4.0, 2.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn linear_recurrence(self, factors: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let factors = factors.beside(self, at);
        recurrence("linear_recurrence", self, factors, axis, false, at)
    }

    /// Returns [`linear_recurrence`](Var::linear_recurrence) from the last element to the first:
    /// `y[i] = a[i] y[i+1] + x[i]`.
    ///
    /// Errors: those of [`linear_recurrence`](Var::linear_recurrence).
    #[track_caller]
    pub fn linear_recurrence_reverse(self, factors: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let factors = factors.beside(self, at);
        recurrence("linear_recurrence_reverse", self, factors, axis, true, at)
    }
}

fn recurrence(name: &'static str, x: Var, a: Var, axis: impl Axis, reverse: bool, at: Loc) -> Var {
    let (ty, ta) = (x.ty(at), a.ty(at));
    let problem = match resolve_axis(name, axis, &ty.shape) {
        Err(problem) => problem,
        Ok(_) if ty.dtype == Dtype::Bool || ta.dtype != ty.dtype => {
            let message = format!("`{name}` of {ty} with factors {ta}");
            Problem::new(Kind::Dtype, message, "both are numbers of one dtype")
        }
        Ok(_) if broadcast_shapes(&ta.shape, &ty.shape).as_ref() != Some(&ty.shape) => {
            let message = format!("`{name}` of {ty} with factors {ta}");
            Problem::new(Kind::Shape, message, "give one factor, or one for each element")
        }
        Ok(axis) => {
            return on_behalf(name, at, || {
                let a = broadcast_var(a, &ty.shape, at);
                emit(Recurrence { axis, reverse }, &[a, x], at)
            });
        }
    };
    wrong(problem, &[x, a], ty, at)
}
