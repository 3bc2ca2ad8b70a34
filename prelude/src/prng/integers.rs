//! Random integers, permutations and choices.

use super::{bits, draw, low_bits, no_key, split};
use crate::Var;
use crate::ops::{Axis, arange, resolve_axis, select, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Problem, Shape};

/// Returns random integers from `low` (included) to `high` (excluded). Both bounds are integer scalars of `dtype`, or
/// Rust numbers. If the range is empty, all results are `low`. For each integer, twice as many random bits as the dtype
/// has are drawn, so that the relative error of its probability is at most 2⁻³² times the length of the range.
///
/// Errors: `dtype` if `dtype` is not an integer dtype, or not that of the bounds; `shape` if a bound is not a
/// scalar; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let dice = run(|()| random::randint(random::key(6), [100], 1, 7, Dtype::I64), ())?;
/// assert!(dice.to_vec::<i64>()?.iter().all(|n| (1..7).contains(n)));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn randint(
    key: Var,
    shape: impl Into<Shape>,
    low: impl IntoVar,
    high: impl IntoVar,
    dtype: Dtype,
) -> Var {
    let at = caller();
    let shape = shape.into();
    let guess = ArrayType::new(dtype, shape.clone());
    if !dtype.is_integer() {
        let message = format!("`randint` in {dtype}");
        let problem = Problem::new(Kind::Dtype, message, "these numbers are i32, i64, u32 or u64");
        return wrong(problem, &[key], guess, at);
    }
    let (low, high) = (low.into_var(dtype, at), high.into_var(dtype, at));
    let types = [low.ty(at), high.ty(at)];
    if let Some(ty) = types.iter().find(|ty| ty.dtype != dtype || !ty.shape.is_empty()) {
        let kind = if ty.dtype == dtype { Kind::Shape } else { Kind::Dtype };
        let message = format!("`randint` in {dtype} with a bound that is {ty}");
        let problem = Problem::new(kind, message, "bounds are scalars of the dtype");
        return wrong(problem, &[key, low, high], guess, at);
    }
    if let Some(problem) = no_key("randint", key, at) {
        return wrong(problem, &[key], guess, at);
    }
    let narrow = matches!(dtype, Dtype::I32 | Dtype::U32);
    let unsigned = if narrow { Dtype::U32 } else { Dtype::U64 };
    let keys: [Var; 2] = on_behalf("randint", at, || split(key));
    let [upper, lower] = keys.map(|key| {
        draw(
            "randint",
            key,
            &shape,
            unsigned,
            at,
            |bits| {
                if narrow { low_bits(bits) } else { bits }
            },
        )
    });
    on_behalf("randint", at, || {
        let number = |x: f64| Var::literal(Literal::of(unsigned, x), at);
        let some = low.lt(high);
        let span = select(some, (high - low).convert(unsigned), number(1.0));
        // `times` is 2^bits mod span, for the width `bits` of the dtype: the square of 2^(bits/2) mod span. For a span
        // above 2^(bits/2) the square wraps to 0, and the random bits `lower` alone determine the number.
        let half = number(if narrow { 65_536.0 } else { 4_294_967_296.0 }).rem(span);
        let times = (half * half).rem(span);
        let span = span.broadcast_to(shape.clone());
        let offset = (upper.rem(span) * times + lower.rem(span)).rem(span);
        low + offset.convert(dtype)
    })
}

/// Returns the numbers 0, 1, .. n - 1 (i64) in random order. All orders are equally likely.
///
/// Errors: `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let p = run(|()| random::permutation(random::key(0), 5), ())?;
/// assert_eq!(p.to_vec::<i64>()?, [0, 1, 4, 3, 2]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "randperm")]
#[track_caller]
pub fn permutation(key: Var, n: usize) -> Var {
    let at = caller();
    if let Some(problem) = no_key("permutation", key, at) {
        return wrong(problem, &[key], ArrayType::new(Dtype::I64, [n]), at);
    }
    on_behalf("permutation", at, || {
        // Sort by random 32-bit keys several times: the order is biased only if two elements have equal keys in all
        // rounds, and with this number of rounds that is unlikely.
        let rounds = (3.0 * (n.max(1) as f64).ln() / f64::from(u32::MAX).ln()).ceil() as usize;
        let (mut key, mut order) = (key, arange(n, Dtype::I64));
        for _ in 0..rounds {
            let [next, own] = split(key);
            key = next;
            order = bits(own, [n], Dtype::U32).sort_key_val(order, 0).1;
        }
        order
    })
}

/// Returns the slices of an array along `axis` in random order. All orders are equally likely.
///
/// Errors: `shape` if the axis does not exist; `dtype` or `shape` if `key` is not a single key.
#[track_caller]
pub fn shuffle(key: Var, x: Var, axis: impl Axis) -> Var {
    let at = caller();
    let ty = x.ty(at);
    match resolve_axis("shuffle", axis, &ty.shape) {
        Err(problem) => wrong(problem, &[key, x], ty, at),
        Ok(axis) => on_behalf("shuffle", at, || x.take(permutation(key, ty.shape[axis]), axis)),
    }
}

/// Returns slices of an array along axis 0, each drawn independently with replacement. The result has the extents
/// `shape`, followed by those of a slice.
///
/// Errors: `shape` if the array has no slices; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|x: Var| random::choice(random::key(0), x, [4]), [0.5, 1.5])?.to_vec::<f64>()?;
/// assert!(x.iter().all(|x| *x == 0.5 || *x == 1.5));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn choice(key: Var, x: Var, shape: impl Into<Shape>) -> Var {
    let at = caller();
    let (ty, shape) = (x.ty(at), shape.into());
    match ty.shape.first() {
        None | Some(0) => {
            let message = format!("`choice` from {ty}");
            let problem = Problem::new(Kind::Shape, message, "give at least one part along axis 0");
            wrong(problem, &[key, x], ArrayType::new(ty.dtype, shape), at)
        }
        Some(n) => {
            let n = *n as i64;
            on_behalf("choice", at, || x.index(randint(key, shape, 0, n, Dtype::I64)))
        }
    }
}
