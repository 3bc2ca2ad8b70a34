//! Random choices with weights, or without replacement. ([`choice`](crate::random::choice) chooses with equal
//! probabilities and with replacement.)

use crate::Var;
use crate::dtype::largest;
use crate::ops::functions::select;
use crate::ops::wrong;
use crate::prng::{gumbel, permutation, uniform};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Returns `n` different slices of an array along axis 0 in random order. All choices are equally likely.
///
/// Errors: `shape` if there are fewer than n slices; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| random::choice_without_replacement(random::key(0), x, 3).sort(0);
/// assert_eq!(run(f, [2.0, 1.0, 3.0])?.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn choice_without_replacement(key: Var, x: Var, n: usize) -> Var {
    let at = caller();
    match parts("choice_without_replacement", key, x, None, n, at) {
        Err(poison) => poison,
        Ok(all) => on_behalf("choice_without_replacement", at, || {
            x.take(permutation(key, all).slice_axis(0, ..n), 0)
        }),
    }
}

/// Returns slices of an array along axis 0, drawn independently with replacement, with probabilities proportional
/// to `weights`, which must be finite and nonnegative. The result has the extents `shape`, followed by those of a
/// slice. If a weight is negative, infinite or nan, or if all weights are 0, a float result is nan, and an integer
/// or bool result is an arbitrary slice.
///
/// Errors: `shape` if there are no slices, or if there is not one weight per slice; `dtype` if the weights are not
/// floats; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| random::weighted_choice(random::key(0), x, constant([0.0, 3.0, 1.0]), [1000]);
/// let y = run(f, [5.0, 6.0, 7.0])?.to_vec::<f64>()?;
/// let sixes = y.iter().filter(|y| **y == 6.0).count();
/// assert!(!y.contains(&5.0) && (700..800).contains(&sixes));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn weighted_choice(key: Var, x: Var, weights: Var, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    match parts("weighted_choice", key, x, Some(weights), 1, at) {
        Err(poison) => poison,
        Ok(all) => on_behalf("weighted_choice", at, || {
            let sums = with_a_sum(weights.stop_gradient()).cumsum(0);
            let u = 1.0 - uniform(key, shape, weights.dtype());
            let place = sums.searchsorted(sums.index(-1) * u);
            chosen(x.index(place.minimum(all as i64 - 1)), weights)
        }),
    }
}

/// Returns `n` different slices of an array along axis 0. Each is chosen from the remaining slices with
/// probabilities proportional to `weights`. Slices of weight 0 come last. Invalid weights (negative, infinite, nan
/// or all 0) have the same effect as in [`weighted_choice`].
///
/// Errors: `shape` if there are fewer than n slices, or if there is not one weight per slice; `dtype` if the
/// weights are not floats; `dtype` or `shape` if `key` is not a single key.
///
/// Source: Kool, van Hoof and Welling, *Stochastic beams and where to find them* (2019).
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |x: Var| {
///     let weights = constant([0.0, 3.0, 1.0]);
///     random::weighted_choice_without_replacement(random::key(0), x, weights, 2).sort(0)
/// };
/// assert_eq!(run(f, [5.0, 6.0, 7.0])?.to_vec::<f64>()?, [6.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn weighted_choice_without_replacement(key: Var, x: Var, weights: Var, n: usize) -> Var {
    let at = caller();
    let name = "weighted_choice_without_replacement";
    match parts(name, key, x, Some(weights), n, at) {
        Err(poison) => poison,
        Ok(all) => on_behalf(name, at, || {
            let logs = weights.stop_gradient().ln();
            let (_, places) = (gumbel(key, [all], weights.dtype()) + logs).top_k(n);
            chosen(x.take(places, 0), weights)
        }),
    }
}

/// Returns the weights, or, if their sum would overflow or all are tiny, their quotients by the largest weight, which
/// have a sum in range.
fn with_a_sum(weights: Var) -> Var {
    let least = if weights.dtype() == Dtype::F32 { 1e-30 } else { 1e-290 };
    let most = weights.max();
    let usual = most.gt(least) & most.lt(largest(weights.dtype()) / weights.size().max(1) as f64);
    weights / select(usual | most.eq(0.0), 1.0, most)
}

/// Returns the chosen slices `y`, or nan if they are floats and the weights are invalid (negative, infinite, nan or
/// all 0).
fn chosen(y: Var, weights: Var) -> Var {
    let weights = weights.stop_gradient();
    if !y.dtype().is_float() {
        return y;
    }
    // An infinite weight is invalid: with several of them, the probabilities would be undefined.
    let right = (weights.ge(0.0) & weights.lt(f64::INFINITY)).all() & weights.gt(0.0).any();
    select(right, y, f64::NAN)
}

/// Returns the number of slices of `x`. If there are fewer than `n`, or not one weight for each, reports an error and
/// returns a placeholder as the error value.
fn parts(
    name: &'static str,
    key: Var,
    x: Var,
    weights: Option<Var>,
    n: usize,
    at: Loc,
) -> Result<usize, Var> {
    let ty = x.ty(at);
    let refuse = |kind: Kind, message: String, help: &str| {
        let mut guess = ty.shape.to_vec();
        guess.iter_mut().take(1).for_each(|extent| *extent = n);
        let operands: Vec<Var> = [key, x].into_iter().chain(weights).collect();
        let guess = ArrayType::new(ty.dtype, guess);
        Err(wrong(Problem::new(kind, message, help), &operands, guess, at))
    };
    let Some(all) = ty.shape.first().copied().filter(|all| n <= *all && *all > 0) else {
        let message = format!("`{name}` of {n} parts of {ty} along axis 0");
        return refuse(Kind::Shape, message, "give an array with at least as many parts");
    };
    if let Some(weights) = weights {
        let tw = weights.ty(at);
        if !tw.dtype.is_float() || *tw.shape != [all] {
            let kind = if tw.dtype.is_float() { Kind::Shape } else { Kind::Dtype };
            let message = format!("`{name}` from {ty} with weights {tw}");
            return refuse(kind, message, "give a float for each part along axis 0");
        }
    }
    Ok(all)
}
