//! Keys, random bits, and samples whose elements are each computed from one uniform number. They are public in
//! [`random`](crate::random), together with samples by rejection.

mod integers;
mod marks;
mod rng;
mod transformed;

pub use integers::{choice, permutation, randint, shuffle};
pub(crate) use marks::{in_branch, marks, next_branching, unmarked, with_marks};
pub use rng::Rng;
pub(crate) use rng::key_for_each;
pub(crate) use transformed::spread;
pub use transformed::{
    bernoulli, categorical, exponential, gumbel, laplace, logistic, normal, rademacher,
    truncated_normal, uniform, uniform_between,
};

use crate::Var;
use crate::ops::{binary, iota, reshape, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use marks::marked;
use tapeloom_ir::prim::{KeyUse, Mark};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Scalar, Shape};

/// Returns the key of a seed, which is an integer scalar. All integers are good seeds, including consecutive ones.
///
/// Errors: `dtype` if the seed is not an integer.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::uniform(random::key(0), [], Dtype::F64), ())?;
/// assert_eq!(x.item::<f64>()?, 0.41845711171638644);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "manual_seed")]
#[doc(alias = "default_rng")]
#[doc(alias = "PRNGKey")]
#[track_caller]
pub fn key(seed: impl IntoVar) -> Var {
    let at = caller();
    let dtype = seed.default_dtype();
    let seed = seed.into_var(dtype, at);
    let ty = seed.ty(at);
    if !ty.dtype.is_integer() {
        let problem = Problem::new(
            Kind::Dtype,
            format!("`key` of a seed that is {ty}"),
            "a seed is an integer",
        );
        return wrong(problem, &[seed], ArrayType::new(Dtype::U64, ty.shape), at);
    }
    on_behalf("key", at, || seed.convert(Dtype::U64))
}

/// Splits a key into `N` new keys. The old key must not be used again.
///
/// Errors: `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|seed: Var| {
///     let [for_noise, for_batches] = random::split(random::key(seed));
///     (random::normal(for_noise, [2], Dtype::F32), random::permutation(for_batches, 4))
/// });
/// let (noise, order) = f.call(1i64)?;
/// assert_eq!((noise.shape(), order.shape()), (&[2][..], &[4][..]));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn split<const N: usize>(key: Var) -> [Var; N] {
    let at = caller();
    let keys = used(Mark::Split, "split", key, &[N].into(), Dtype::U64, at, |bits| bits);
    on_behalf("split", at, || std::array::from_fn(|i| keys.index(i)))
}

/// Splits a key into an array of `n` new keys, for instance one for each iteration of a loop, or for each member of
/// a batch under [`vmap`](crate::vmap). The old key must not be used again.
///
/// Errors: `dtype` or `shape` if `key` is not a single key.
#[track_caller]
pub fn split_n(key: Var, n: usize) -> Var {
    used(Mark::Split, "split_n", key, &[n].into(), Dtype::U64, caller(), |bits| bits)
}

/// Returns a key that depends on a number, for instance the number of an iteration or a worker. Different numbers
/// give different keys. Only the lowest 32 bits of the number, an integer scalar, are used.
///
/// Errors: `dtype` if the number is not an integer, `shape` if it is an array; `dtype` or `shape` if `key` is not a
/// single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(seed, step): (Var, Var)| {
///     random::uniform(random::fold_in(random::key(seed), step), [], Dtype::F64)
/// });
/// assert_ne!(f.call((0i64, 1i64))?, f.call((0i64, 2i64))?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn fold_in(key: Var, data: impl IntoVar) -> Var {
    let at = caller();
    let dtype = data.default_dtype();
    let data = data.into_var(dtype, at);
    let ty = data.ty(at);
    let guess = ArrayType::new(Dtype::U64, Shape::scalar());
    if let Some(problem) = no_key("fold_in", key, at) {
        return wrong(problem, &[key, data], guess, at);
    }
    if !ty.dtype.is_integer() || !ty.shape.is_empty() {
        let kind = if ty.dtype.is_integer() { Kind::Shape } else { Kind::Dtype };
        let message = format!("`fold_in` of {ty} into a key");
        let problem = Problem::new(kind, message, "give an integer scalar");
        return wrong(problem, &[key, data], guess, at);
    }
    on_behalf("fold_in", at, || {
        threefry2x32(marked(Mark::Split, key, at), data.convert(Dtype::U32).convert(Dtype::U64))
    })
}

/// Returns uniformly distributed random bits of dtype u32 or u64.
///
/// Errors: `dtype` for another dtype; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let bits = run(|()| random::bits(random::key(0), [2], Dtype::U32), ())?;
/// assert_eq!(bits.to_vec::<u32>()?, [4070199207, 4202968722]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn bits(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    let at = caller();
    let shape = shape.into();
    match dtype {
        Dtype::U64 => draw("bits", key, &shape, dtype, at, |bits| bits),
        Dtype::U32 => draw("bits", key, &shape, dtype, at, low_bits),
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::F32 | Dtype::F64 => {
            let message = format!("`bits` in {dtype}");
            let problem = Problem::new(Kind::Dtype, message, "bits are u32 or u64");
            wrong(problem, &[key], ArrayType::new(dtype, shape), at)
        }
    }
}

/// Returns 64 random bits for each pair of a key and a counter, which are broadcast together. All samples are computed
/// from the results of this function.
///
/// Source: Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011).
///
/// Errors: `dtype` unless both are u64; `shape` if they do not broadcast.
#[track_caller]
pub fn threefry2x32(key: Var, counter: impl IntoVar) -> Var {
    let at = caller();
    let counter = counter.beside(key, at);
    binary(Scalar::RandomBits, key, counter, at)
}

/// The largest number of 8-byte elements that an array can have.
const MOST: usize = isize::MAX as usize / 8;

/// Returns an error if `key` is not a single key, a scalar of dtype u64.
fn no_key(name: &str, key: Var, at: Loc) -> Option<Problem> {
    let ty = key.ty(at);
    if ty.dtype != Dtype::U64 {
        let message = format!("`{name}` needs a key, got {ty}");
        return Some(Problem::new(Kind::Dtype, message, "make a key from a seed by `random::key`"));
    }
    let help = "take one of them, or map over them with `vmap`";
    let message = || format!("`{name}` needs one key, got {ty}");
    (!ty.shape.is_empty()).then(|| Problem::new(Kind::Shape, message(), help))
}

/// Checks the key and the shape of a sample. Returns the key, marked as used for a draw, or an error.
pub(crate) fn drawn_from(name: &str, key: Var, shape: &Shape, at: Loc) -> Result<Var, Problem> {
    if let Some(problem) = no_key(name, key, at) {
        return Err(problem);
    }
    let few = shape.checked_elements().is_some_and(|n| n <= MOST);
    let message = || format!("`{name}` of shape {shape}");
    if !few {
        let help = "the array exceeds the address space";
        return Err(Problem::new(Kind::TooLarge, message(), help));
    }
    Ok(marked(Mark::Draw, key, at))
}

/// Draws a sample of the given shape. `body` computes it from an array of 64-bit random numbers of that shape.
fn draw(
    name: &'static str,
    key: Var,
    shape: &Shape,
    dtype: Dtype,
    at: Loc,
    body: impl FnOnce(Var) -> Var,
) -> Var {
    used(Mark::Draw, name, key, shape, dtype, at, body)
}

/// Draws a sample as [`draw`] does. `mark` is the mark on the key: that of a draw, or that of a split.
fn used(
    mark: fn(KeyUse) -> Mark,
    name: &'static str,
    key: Var,
    shape: &Shape,
    dtype: Dtype,
    at: Loc,
    body: impl FnOnce(Var) -> Var,
) -> Var {
    if let Some(problem) = no_key(name, key, at) {
        return wrong(problem, &[key], ArrayType::new(dtype, shape.clone()), at);
    }
    let Some(n) = shape.checked_elements().filter(|n| *n <= MOST) else {
        let message = format!("`{name}` of shape {shape}");
        let problem = Problem::new(Kind::TooLarge, message, "the array exceeds the address space");
        return wrong(problem, &[key], ArrayType::new(dtype, shape.clone()), at);
    };
    on_behalf(name, at, || {
        let counter = reshape(iota([n], 0, Dtype::U64), shape.clone(), at);
        body(threefry2x32(marked(mark, key, at), counter))
    })
}

/// Combines the upper and the lower half of 64 random bits into 32 random bits (u32).
fn low_bits(bits: Var) -> Var {
    ((bits >> 32) ^ bits).convert(Dtype::U32)
}
