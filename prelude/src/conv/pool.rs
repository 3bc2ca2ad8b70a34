//! Reductions over windows.

use super::geometry::{AxisWindows, Windows, view};
use crate::Var;
use crate::control::scan;
use crate::ops::{emit, position, resolve_axes, wrong};
use crate::var::{caller, on_behalf, users_code};
use tapeloom_ir::prim::{Reduce, Reducer};
use tapeloom_ir::{Dtype, Kind, Literal, Loc, Problem};

/// Windows of at most this many elements are folded by unrolled code instead of a loop.
const UNROLLED: usize = 16;

/// Resolves the axes of windows over an array. Returns these axes, and the windows along each of them.
fn planned(
    name: &str,
    x: Var,
    of: &Windows,
    at: Loc,
) -> Result<(Vec<usize>, Vec<AxisWindows>), Problem> {
    let (ty, d) = (x.ty(at), of.sizes.len());
    let rank = ty.shape.len();
    if of.sizes.contains(&0) {
        let message = format!("`{name}` with windows of the sizes {:?}", of.sizes);
        return Err(Problem::new(Kind::Shape, message, "a window has at least one element"));
    }
    let axes: Vec<usize> = match &of.axes {
        Some(axes) if axes.len() == d => {
            // `resolve_axes` reports invalid axes. Its sorted result is not used, because the axes must stay in the
            // order of the sizes.
            resolve_axes(name, axes, &ty.shape)?;
            axes.iter().filter_map(|axis| position(*axis, rank)).collect()
        }
        None if d <= rank => (rank - d..rank).collect(),
        _ => {
            let message = format!("`{name}` of {ty} with windows of the sizes {:?}", of.sizes);
            return Err(Problem::new(Kind::Shape, message, "there is one size for each axis"));
        }
    };
    let extents: Vec<usize> = axes.iter().map(|axis| ty.shape[*axis]).collect();
    let along = of.steps.along(name, &extents, &of.sizes)?;
    Ok((axes, along))
}

/// Forms the windows of an array, and returns the result of `of` for these windows and the array's rank. The elements
/// of a window are along the axes from `rank` on.
#[track_caller]
fn over(
    name: &'static str,
    x: Var,
    windows: Windows,
    fill: impl FnOnce(Dtype) -> Literal,
    of: impl FnOnce(Var, usize) -> Var,
) -> Var {
    let at = caller();
    let ty = x.ty(at);
    match planned(name, x, &windows, at) {
        Ok((axes, along)) => on_behalf(name, at, || {
            let rank = ty.shape.len();
            of(view(x, &axes, &along, rank, fill(ty.dtype), at), rank)
        }),
        Err(problem) => wrong(problem, &[x], ty, at),
    }
}

/// Reduces the elements of each window by `reducer`, whose neutral element is the value of the padding.
#[track_caller]
fn reduced(name: &'static str, x: Var, windows: Windows, reducer: Reducer) -> Var {
    over(
        name,
        x,
        windows,
        |dtype| reducer.identity(dtype),
        |y, rank| {
            let axes = (rank..y.rank()).collect();
            emit(Reduce { reducer, axes }, &[y], caller())
        },
    )
}

/// Returns the largest element of each window, for numbers. Equal largest elements share the derivative, as in
/// [`max_axis`](Var::max_axis). (JAX assigns it to the first one.) Padding is never the largest element.
///
/// ```
/// use tapeloom::prelude::*;
/// let pool = |x: Var| conv::max_pool(x, conv::windows([2]).strides([2]));
/// assert_eq!(run(pool, [1.0, 4.0, 3.0, 2.0])?.to_vec::<f64>()?, [4.0, 3.0]);
/// assert_eq!(run(grad(|x: Var| pool(x).sum()), [1.0, 4.0, 3.0, 3.0])?.to_vec::<f64>()?, [0.0, 1.0, 0.5, 0.5]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if there are more windows than axes, or if a window has no elements.
#[doc(alias = "max_pool2d")]
#[track_caller]
pub fn max_pool(x: Var, windows: Windows) -> Var {
    reduced("max_pool", x, windows, Reducer::Max)
}

/// Returns the smallest element of each window; see [`max_pool`].
#[track_caller]
pub fn min_pool(x: Var, windows: Windows) -> Var {
    reduced("min_pool", x, windows, Reducer::Min)
}

/// Returns the sum of the elements of each window. Padding counts as zeros.
///
/// Errors: those of [`max_pool`].
#[doc(alias = "reduce_window_sum")]
#[track_caller]
pub fn sum_pool(x: Var, windows: Windows) -> Var {
    reduced("sum_pool", x, windows, Reducer::Sum)
}

/// Returns the mean of the elements of each window, for floats. Padding counts as zeros, as in PyTorch and Flax.
///
/// ```
/// use tapeloom::prelude::*;
/// let pool = |x: Var| conv::avg_pool(x, conv::windows([2]).padding([(1, 1)]));
/// assert_eq!(run(pool, [1.0, 4.0, 3.0])?.to_vec::<f64>()?, [0.5, 2.5, 3.5, 1.5]);
/// check_grads(pool, [1.0, 4.0, 3.0], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`max_pool`]; `dtype` if `x` is not of floats.
#[doc(alias = "avg_pool2d")]
#[doc(alias = "mean_pool")]
#[track_caller]
pub fn avg_pool(x: Var, windows: Windows) -> Var {
    let at = caller();
    let count: f64 = windows.sizes.iter().map(|n| *n as f64).product();
    let ty = x.ty(at);
    if !ty.dtype.is_float() {
        let help = "convert first, as in `x.convert(Dtype::F64)`";
        let problem = Problem::new(Kind::Dtype, format!("`avg_pool` needs floats, got {ty}"), help);
        return wrong(problem, &[x], ty, at);
    }
    on_behalf("avg_pool", at, || reduced("avg_pool", x, windows, Reducer::Sum) / count)
}

/// Folds each window by a function of two arrays, starting from `init`, which is also the value of the padding.
///
/// ```
/// use tapeloom::prelude::*;
/// // The root of the sum of squares of each window.
/// let norm = |x: Var| conv::reduce_window(x.square(), conv::windows([2]), 0.0, |a, b| a + b).sqrt();
/// assert_eq!(run(norm, [3.0, 4.0])?.to_vec::<f64>()?, [5.0]);
/// check_grads(norm, [3.0, 4.0, 1.0], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`max_pool`]; `shape` if the type of the result of `f` differs from that of its arguments.
#[track_caller]
pub fn reduce_window(x: Var, windows: Windows, init: f64, f: impl Fn(Var, Var) -> Var) -> Var {
    let at = caller();
    on_behalf("reduce_window", at, || folded(x, windows, init, &f, at))
}

fn folded(x: Var, windows: Windows, init: f64, f: &dyn Fn(Var, Var) -> Var, at: Loc) -> Var {
    let places = windows.sizes.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    let fill = |dtype| Literal::of(dtype, init);
    let view = over("reduce_window", x, windows, fill, |y, rank| {
        // Merge the axes of the elements within a window into one axis, and move it to the front.
        let kept = y.shape()[..rank].to_vec();
        let flat = y.reshape([&kept[..], &[places]].concat());
        flat.move_axis(-1, 0)
    });
    let first = || {
        let shape = view.ty(at).shape;
        Var::literal(fill(view.ty(at).dtype), at).broadcast_to(&shape[shape.len().min(1)..])
    };
    let f = |folded: Var, x: Var| {
        let (y, want) = (users_code(|| f(folded, x)), folded.ty(at));
        let got = y.ty(at);
        if got == want {
            return y;
        }
        let message =
            format!("the function of `reduce_window` returns {got} for two arrays {want}");
        wrong(Problem::new(Kind::Shape, message, "return an array of their type"), &[y], want, at)
    };
    match places {
        0..=UNROLLED if view.ty(at).shape.first() == Some(&places) => {
            (0..places).fold(first(), |folded, place| f(folded, view.index(place as i64)))
        }
        _ => scan(|(folded, x): (Var, Var)| (f(folded, x), ()), first(), view).0,
    }
}

/// Returns the windows of an array, with the elements of a window along new last axes. For `x` of shape `[.., n, ..]`
/// with windows along one axis, the result has the shape `[.., windows, .., elements of a window]`. The windows are not
/// copied where they are read.
///
/// ```
/// use tapeloom::prelude::*;
/// let pairs = run(|x: Var| conv::patches(x, conv::windows([2])), [1.0, 2.0, 3.0])?;
/// assert_eq!(pairs, Tensor::from([[1.0, 2.0], [2.0, 3.0]]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`max_pool`].
#[doc(alias = "sliding_window_view")]
#[doc(alias = "conv_general_dilated_patches")]
#[doc(alias = "unfold")]
#[doc(alias = "im2col")]
#[track_caller]
pub fn patches(x: Var, windows: Windows) -> Var {
    over("patches", x, windows, Literal::zero, |y, _| y)
}
