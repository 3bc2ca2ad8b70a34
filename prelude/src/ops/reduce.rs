//! Reductions: sums, products, extremes, means, norms, over all axes or some.
//!
//! Each reduction has three forms. For example, `sum()` reduces all axes, `sum_axis(axes)` reduces some axes and
//! removes them, and `sum_keepdims(axes)` leaves them with extent 1, so that the result broadcasts against the operand.
//!
//! ```
//! use tapeloom::prelude::*;
//! let x = Tensor::from([[1.0, 2.0], [3.0, 6.0]]);
//! let centered = run(|x: Var| x - x.mean_keepdims(-1), &x)?;
//! assert_eq!(centered.to_vec::<f64>()?, [-0.5, 0.5, -1.5, 1.5]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::axes::{Axes, resolve_axes};
use super::{binary, emit};
use crate::Var;
use crate::var::caller;
use tapeloom_ir::prim::{Reduce, Reducer, Reshape};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Scalar};

/// The choice whether reduced axes are removed or stay with extent 1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Drop,
    One,
}

/// A reduction over resolved axes.
type Body = fn(Var, &[usize], Loc) -> Var;

fn reduce(name: &'static str, x: Var, axes: &impl Axes, keep: Keep, at: Loc, body: Body) -> Var {
    let ty = x.ty(at);
    let axes = match resolve_axes(name, axes, &ty.shape) {
        Ok(axes) => axes,
        Err(problem) => {
            trace::record(problem, &[x.handle], at);
            return Var::poison(ty, at);
        }
    };
    let y = trace::within(name, || body(x, &axes, at));
    match keep {
        Keep::Drop => y,
        Keep::One => restore(y, &ty, &axes, at),
    }
}

/// Inserts axes of extent 1 into the result of a reduction, in place of the reduced axes.
fn restore(y: Var, from: &ArrayType, axes: &[usize], at: Loc) -> Var {
    let mut shape = from.shape.clone();
    for a in axes {
        shape[*a] = 1;
    }
    emit(Reshape { shape }, &[y], at)
}

fn fold(reducer: Reducer, x: Var, axes: &[usize], at: Loc) -> Var {
    emit(Reduce { reducer, axes: axes.to_vec() }, &[x], at)
}

fn mean(x: Var, axes: &[usize], at: Loc) -> Var {
    let ty = x.ty(at);
    if !ty.dtype.is_float() {
        let message = format!("a mean needs floats, got {ty}");
        let help = "convert first, as in `x.convert(Dtype::F64)`";
        trace::record(Problem::new(Kind::Dtype, message, help), &[x.handle], at);
        return Var::poison(ArrayType::new(ty.dtype, ty.shape.without(axes)), at);
    }
    let n = axes.iter().map(|a| ty.shape[*a] as f64).product();
    let sum = fold(Reducer::Sum, x, axes, at);
    binary(Scalar::Div, sum, Var::literal(Literal::of(ty.dtype, n), at), at)
}

fn var(x: Var, axes: &[usize], at: Loc) -> Var {
    let ty = x.ty(at);
    let center = restore(mean(x, axes, at), &ty, axes, at);
    let off = binary(Scalar::Sub, x, center, at);
    mean(emit(Scalar::Mul, &[off, off], at), axes, at)
}

fn logsumexp(x: Var, axes: &[usize], at: Loc) -> Var {
    let ty = x.ty(at);
    // The maximum is subtracted from `x` before `exp`, and added after `log`. The result does not depend on this shift,
    // so derivatives treat the shift as a constant. If the maximum is infinite, the shift is 0.
    let peak = emit(tapeloom_ir::prim::StopGradient, &[fold(Reducer::Max, x, axes, at)], at);
    let zero = Var::literal(Literal::zero(ty.dtype), at);
    let finite = emit(Scalar::IsFinite, &[peak], at);
    let shift = emit(Scalar::Select, &[finite, peak, zero], at);
    let off = binary(Scalar::Sub, x, restore(shift, &ty, axes, at), at);
    let sum = fold(Reducer::Sum, emit(Scalar::Exp, &[off], at), axes, at);
    binary(Scalar::Add, emit(Scalar::Log, &[sum], at), shift, at)
}

fn norm(x: Var, axes: &[usize], at: Loc) -> Var {
    let squares = emit(Scalar::Mul, &[x, x], at);
    emit(Scalar::Sqrt, &[fold(Reducer::Sum, squares, axes, at)], at)
}

fn count(x: Var, axes: &[usize], at: Loc) -> Var {
    let n = emit(tapeloom_ir::prim::Convert { to: Dtype::I64 }, &[x], at);
    fold(Reducer::Sum, n, axes, at)
}

macro_rules! reductions {
    ($($name:ident $name_axis:ident $name_keepdims:ident $([$alias:literal])? $(axis $search:literal)? $doc:literal $body:expr;)*) => {
        /// Reductions over all axes, over some (`_axis`), or over some that stay with extent 1 (`_keepdims`).
        impl Var {
            $(#[doc = concat!($doc, " over all elements; a scalar. Over some axes: `", stringify!($name_axis), "(0)`.")]
            $(#[doc(alias = $alias)])?
            #[track_caller]
            pub fn $name(self) -> Var {
                reduce(stringify!($name), self, &.., Keep::Drop, caller(), $body)
            }

            #[doc = concat!($doc, " over `axes` (one or more), which are removed.")]
            $(#[doc(alias = $search)])?
            ///
            /// Errors: `shape` if an axis does not exist or is named twice.
            #[track_caller]
            pub fn $name_axis(self, axes: impl Axes) -> Var {
                reduce(stringify!($name_axis), self, &axes, Keep::Drop, caller(), $body)
            }

            #[doc = concat!($doc, " over `axes`, which stay with extent 1.")]
            ///
            /// Errors: `shape` if an axis does not exist or is named twice.
            #[track_caller]
            pub fn $name_keepdims(self, axes: impl Axes) -> Var {
                reduce(stringify!($name_keepdims), self, &axes, Keep::One, caller(), $body)
            })*
        }
    };
}
reductions! {
    sum sum_axis sum_keepdims axis "sum(axis)" "The sum" |x, axes, at| fold(Reducer::Sum, x, axes, at);
    prod prod_axis prod_keepdims
        "The product (derivatives are right where factors are zero, but nan where the product of \
         some factors overflows and another factor is zero)"
        |x, axes, at| fold(Reducer::Prod, x, axes, at);
    max max_axis max_keepdims ["amax"] axis "max(axis)"
        "The largest element (nan if any is; ties share the derivative evenly)"
        |x, axes, at| fold(Reducer::Max, x, axes, at);
    min min_axis min_keepdims ["amin"] axis "min(axis)"
        "The smallest element (nan if any is; ties share the derivative evenly)"
        |x, axes, at| fold(Reducer::Min, x, axes, at);
    all all_axis all_keepdims "Whether every element is true (bool)"
        |x, axes, at| fold(Reducer::And, x, axes, at);
    any any_axis any_keepdims "Whether some element is true (bool)"
        |x, axes, at| fold(Reducer::Or, x, axes, at);
    count_true count_true_axis count_true_keepdims
        "The number (i64) of elements that are true"
        count;
    mean mean_axis mean_keepdims axis "mean(axis)" "The mean" mean;
    var var_axis var_keepdims axis "var(axis)" "The variance, dividing by the number of elements as in numpy (torch divides by one less)" var;
    std std_axis std_keepdims axis "std(axis)" "The standard deviation, dividing by the number of elements as in numpy (torch divides by one less)"
        |x, axes, at| emit(Scalar::Sqrt, &[var(x, axes, at)], at);
    logsumexp logsumexp_axis logsumexp_keepdims "ln Σ eˣ, without overflow," logsumexp;
    norm norm_axis norm_keepdims "The Euclidean norm √Σx²" norm;
    count_nonzero count_nonzero_axis count_nonzero_keepdims
        "The number (i64) of elements that are not zero (nan is not)"
        |x, axes, at| {
            let zero = Var::literal(Literal::zero(x.ty(at).dtype), at);
            count(binary(Scalar::Ne, x, zero, at), axes, at)
        };
    ptp ptp_axis ptp_keepdims
        "The largest element less the smallest (nan if any is; ties share the derivative evenly)"
        |x, axes, at| {
            let (most, least) = (fold(Reducer::Max, x, axes, at), fold(Reducer::Min, x, axes, at));
            binary(Scalar::Sub, most, least, at)
        };
}

/// Reductions that treat nan as a missing value, whose derivative is 0.
mod missing {
    use super::*;
    use crate::ops::composite::{number, of_floats};
    use crate::ops::select;
    use crate::var::on_behalf;

    /// Evaluates the formula `body` for x with each nan replaced by `instead`, and for a mask that is true where x is
    /// not nan.
    fn present(
        name: &'static str,
        x: Var,
        instead: f64,
        at: Loc,
        body: impl FnOnce(Var, Var) -> Var,
    ) -> Var {
        let mut there = None;
        let filled = of_floats(name, [x], at, |[x]| {
            let missing = x.is_nan();
            there = Some(!missing);
            select(missing, instead, x)
        });
        // If there is no mask, x was no array of floats, which has already been reported.
        there.map_or(filled, |there| on_behalf(name, at, || body(filled, there)))
    }

    pub(super) fn sum(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nansum", x, 0.0, at, |x, _| x.sum_axis(axes))
    }

    pub(super) fn prod(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nanprod", x, 1.0, at, |x, _| x.prod_axis(axes))
    }

    pub(super) fn max(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nanmax", x, f64::NEG_INFINITY, at, |x, there| {
            select(there.any_axis(axes), x.max_axis(axes), number(x, f64::NAN))
        })
    }

    pub(super) fn min(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nanmin", x, f64::INFINITY, at, |x, there| {
            select(there.any_axis(axes), x.min_axis(axes), number(x, f64::NAN))
        })
    }

    pub(super) fn mean(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nanmean", x, 0.0, at, |x, there| {
            x.sum_axis(axes) / there.convert(x.dtype()).sum_axis(axes)
        })
    }

    pub(super) fn var(x: Var, axes: &[usize], at: Loc) -> Var {
        present("nanvar", x, 0.0, at, |x, there| {
            let n = there.convert(x.dtype()).sum_keepdims(axes);
            let off = select(there, x - x.sum_keepdims(axes) / n, 0.0);
            off.square().sum_axis(axes) / n.squeeze(axes)
        })
    }
}

reductions! {
    nansum nansum_axis nansum_keepdims "The sum, leaving out nan," missing::sum;
    nanprod nanprod_axis nanprod_keepdims "The product, leaving out nan," missing::prod;
    nanmax nanmax_axis nanmax_keepdims "The largest element, leaving out nan," missing::max;
    nanmin nanmin_axis nanmin_keepdims "The smallest element, leaving out nan," missing::min;
    nanmean nanmean_axis nanmean_keepdims "The mean, leaving out nan," missing::mean;
    nanvar nanvar_axis nanvar_keepdims "The variance, leaving out nan," missing::var;
    nanstd nanstd_axis nanstd_keepdims "The standard deviation, leaving out nan,"
        |x, axes, at| emit(Scalar::Sqrt, &[missing::var(x, axes, at)], at);
}
