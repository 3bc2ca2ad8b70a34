//! Samples of distributions, as functions of uniform bits.

use super::{draw, low_bits};
use crate::Var;
use crate::ops::{Axis, resolve_axis};
use crate::ops::{broadcast_var, select, wrong};
use crate::var::{IntoVar, caller, pair};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Shape};

/// Returns numbers uniformly distributed in [0, 1), which are multiples of 2⁻⁵² (f64) or 2⁻²³ (f32).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::uniform(random::key(3), [1000], Dtype::F64), ())?.to_vec::<f64>()?;
/// assert!(x.iter().all(|x| (0.0..1.0).contains(x)));
/// assert!((x.iter().sum::<f64>() / 1000.0 - 0.5).abs() < 0.03);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "rand")]
#[track_caller]
pub fn uniform(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("uniform", key, shape, dtype, caller(), |u| u)
}

/// Returns numbers uniformly distributed between `low` (included) and `high`, and differentiable with respect to
/// both. The bounds are broadcast to the shape.
///
/// Errors: `dtype` if the bounds are not floats of one dtype; `shape` if they do not broadcast; `dtype` or `shape`
/// if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(low, high): (Var, Var)| random::uniform_between(random::key(0), [4], low, high).sum();
/// let (dlow, dhigh) = run(grad(f), (1.0, 3.0))?;
/// assert!((dlow.item::<f64>()? + dhigh.item::<f64>()? - 4.0).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn uniform_between(
    key: Var,
    shape: impl Into<Shape>,
    low: impl IntoVar,
    high: impl IntoVar,
) -> Var {
    let at = caller();
    bounded("uniform_between", key, shape, low, high, at, |u, low, high| {
        // If the bounds are large and of opposite signs, their distance overflows. Then use a weighted mean of the
        // bounds.
        let mixed = (1.0 - u) * low + u * high;
        select((high - low).is_finite(), between(u, low, high), mixed)
    })
}

/// Returns numbers of the normal distribution with mean 0 and variance 1: √2 erf⁻¹ of a uniform number in (-1, 1).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::normal(random::key(1), [1000], Dtype::F32), ())?.to_vec::<f32>()?;
/// let variance = x.iter().map(|x| x * x).sum::<f32>() / 1000.0;
/// assert!((variance - 1.0).abs() < 0.1);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "randn")]
#[doc(alias = "Normal")]
#[track_caller]
pub fn normal(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("normal", key, shape, dtype, caller(), |u| {
        between(u, just_above(-1.0, dtype), 1.0).erf_inv() * 2f64.sqrt()
    })
}

/// Returns numbers of the normal distribution truncated to `lower` and `upper`, and differentiable with respect to
/// both.
///
/// They are computed from the error function, as in JAX. If both bounds are above 5 or below -5, few distinct
/// values remain; beyond 8 (f64), none.
///
/// Errors: as [`uniform_between`].
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::truncated_normal(random::key(1), [100], 0.5, 1.0), ())?;
/// assert!(x.to_vec::<f64>()?.iter().all(|x| (0.5..1.0).contains(x)));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "trunc_normal_")]
#[track_caller]
pub fn truncated_normal(
    key: Var,
    shape: impl Into<Shape>,
    lower: impl IntoVar,
    upper: impl IntoVar,
) -> Var {
    let at = caller();
    bounded("truncated_normal", key, shape, lower, upper, at, |u, lower, upper| {
        let root = 2f64.sqrt();
        let (a, b) = ((lower / root).erf(), (upper / root).erf());
        let x = between(u, a, b).erf_inv() * root;
        let inside = |bound: Var, towards: f64| bound.stop_gradient().next_after(towards);
        x.clamp(inside(lower, f64::INFINITY), inside(upper, f64::NEG_INFINITY))
    })
}

/// Returns truth values (bool) that are true with probability `p`, which is broadcast to the shape.
///
/// Errors: `dtype` if p is not a float; `shape` if it does not broadcast; `dtype` or `shape` if `key` is not a
/// single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let heads = run(|()| random::bernoulli(random::key(0), 0.25, [1000]).count_true(), ())?;
/// assert!((heads.item::<i64>()? - 250).abs() < 40);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn bernoulli(key: Var, p: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let at = caller();
    let dtype = p.default_dtype();
    let p = p.into_var(dtype, at);
    let shape = shape.into();
    let guess = ArrayType::new(Dtype::Bool, shape.clone());
    match spread("bernoulli", p, &shape, at) {
        Err(problem) => wrong(problem, &[key, p], guess, at),
        Ok(p) => {
            let dtype = p.ty(at).dtype;
            draw("bernoulli", key, &shape, Dtype::Bool, at, |bits| unit(bits, dtype).lt(p))
        }
    }
}

/// Returns one index (i64) along `axis` for each row of logits, the logarithms of probabilities up to a constant.
/// It is the index of the largest logit after adding a [`gumbel`] number to each. The axis is removed.
///
/// Errors: `shape` if the axis does not exist or is empty; `dtype` if the logits are not floats; `dtype` or `shape`
/// if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|logits: Var| random::categorical(random::key(5), logits, -1));
/// assert_eq!(f.call([[0.0, -1e9], [-1e9, 0.0]])?.to_vec::<i64>()?, [0, 1]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn categorical(key: Var, logits: Var, axis: impl Axis) -> Var {
    let at = caller();
    let ty = logits.ty(at);
    let axis = match resolve_axis("categorical", axis, &ty.shape) {
        Ok(axis) => axis,
        Err(problem) => {
            return wrong(problem, &[key, logits], ArrayType::new(Dtype::I64, ty.shape), at);
        }
    };
    let noise = floats("categorical", key, ty.shape, ty.dtype, at, to_gumbel);
    crate::var::on_behalf("categorical", at, || (logits + noise).argmax(axis))
}

/// Returns numbers of the Gumbel distribution, -ln(-ln u).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
#[doc(alias = "Gumbel")]
#[track_caller]
pub fn gumbel(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("gumbel", key, shape, dtype, caller(), to_gumbel)
}

/// Returns numbers of the logistic distribution with mean 0 and scale 1, ln(u / (1 - u)).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::logistic(random::key(0), [4000], Dtype::F64).sigmoid().mean(), ())?;
/// assert!((x.item::<f64>()? - 0.5).abs() < 0.02);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn logistic(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("logistic", key, shape, dtype, caller(), |u| {
        let u = between(u, least_normal(dtype), 1.0);
        u.ln() - (-u).ln_1p()
    })
}

/// Returns numbers of the exponential distribution with mean 1, -ln(1 - u).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
#[track_caller]
pub fn exponential(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("exponential", key, shape, dtype, caller(), |u| -(-u).ln_1p())
}

/// Returns numbers of the Laplace distribution with mean 0 and density e⁻|ˣ| / 2.
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
#[doc(alias = "Laplace")]
#[track_caller]
pub fn laplace(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    floats("laplace", key, shape, dtype, caller(), |u| {
        let u = between(u, just_above(-1.0, dtype), 1.0);
        u.signum() * (-u.abs()).ln_1p()
    })
}

/// Returns -1 or 1, with equal probability, in any signed dtype.
///
/// Errors: `dtype` if `dtype` is unsigned; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::rademacher(random::key(2), [50], Dtype::I32).abs().sum(), ())?;
/// assert_eq!(x.item::<i32>()?, 50);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn rademacher(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    let at = caller();
    let shape = shape.into();
    if !dtype.is_signed() {
        let message = format!("`rademacher` in {dtype}");
        let problem = Problem::new(Kind::Dtype, message, "-1 is a number of i32, i64, f32 and f64");
        return wrong(problem, &[key], ArrayType::new(dtype, shape), at);
    }
    draw("rademacher", key, &shape, dtype, at, |bits| {
        let number = |x: f64| Var::literal(Literal::of(dtype, x), at);
        select(unit(bits, Dtype::F64).lt(0.5), number(1.0), number(-1.0))
    })
}

/// Draws a sample of floats. `of` maps an array of uniform numbers in [0, 1) to the sample.
fn floats(
    name: &'static str,
    key: Var,
    shape: impl Into<Shape>,
    dtype: Dtype,
    at: Loc,
    of: impl FnOnce(Var) -> Var,
) -> Var {
    let shape = shape.into();
    if !dtype.is_float() {
        let message = format!("`{name}` in {dtype}");
        let problem = Problem::new(Kind::Dtype, message, "these numbers are f32 or f64");
        return wrong(problem, &[key], ArrayType::new(dtype, shape), at);
    }
    draw(name, key, &shape, dtype, at, |bits| of(unit(bits, dtype)))
}

/// Draws a sample of floats between two bounds. `of` maps an array of uniform numbers in [0, 1) and the bounds to the
/// sample.
fn bounded(
    name: &'static str,
    key: Var,
    shape: impl Into<Shape>,
    low: impl IntoVar,
    high: impl IntoVar,
    at: Loc,
    of: impl FnOnce(Var, Var, Var) -> Var,
) -> Var {
    let (low, high) = pair(low, high, at);
    let (shape, dtype) = (shape.into(), low.ty(at).dtype);
    let spread = |bound| spread(name, bound, &shape, at);
    match (spread(low), spread(high)) {
        (Ok(low), Ok(high)) => {
            draw(name, key, &shape, dtype, at, |bits| of(unit(bits, dtype), low, high))
        }
        (Err(problem), _) | (_, Err(problem)) => {
            wrong(problem, &[key, low, high], ArrayType::new(dtype, shape), at)
        }
    }
}

/// Broadcasts a parameter of a distribution to the shape of the sample. Returns an error if the parameter is not a
/// float or does not broadcast.
pub(crate) fn spread(name: &str, x: Var, shape: &Shape, at: Loc) -> Result<Var, Problem> {
    let ty = x.ty(at);
    if !ty.dtype.is_float() {
        let message = format!("`{name}` with a parameter that is {ty}");
        return Err(Problem::new(Kind::Dtype, message, "convert it to a float"));
    }
    if crate::ops::broadcast_shapes(&ty.shape, shape).as_ref() != Some(shape) {
        let message = format!("`{name}` of shape {shape} with a parameter {ty}");
        return Err(Problem::new(Kind::Shape, message, "give one for all, or one for each"));
    }
    let literal = x.handle.as_literal().is_some();
    Ok(if literal { x } else { broadcast_var(x, shape, at) })
}

/// Converts 64 random bits to a float in [0, 1). As many bits are used as the float has fraction bits, so each step is
/// exact.
fn unit(bits: Var, dtype: Dtype) -> Var {
    if dtype == Dtype::F32 {
        return (low_bits(bits) >> 9).convert(Dtype::F32) * 2f64.powi(-23);
    }
    // Convert through i64: CPUs convert signed integers to floats faster than unsigned ones.
    (bits >> 12).convert(Dtype::I64).convert(Dtype::F64) * 2f64.powi(-52)
}

/// Maps u in [0, 1) linearly to a number from `low` (included) to `high`, which is reached only by rounding.
fn between(u: Var, low: impl IntoVar, high: impl IntoVar) -> Var {
    let at = caller();
    let (low, high) = (low.beside(u, at), high.beside(u, at));
    (u * (high - low) + low).maximum(low)
}

/// Returns the smallest number of the dtype above x.
fn just_above(x: f64, dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from((x as f32).next_up()) } else { x.next_up() }
}

/// Returns the smallest positive normal number of a float dtype.
fn least_normal(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE }
}

fn to_gumbel(u: Var) -> Var {
    -(-between(u, least_normal(u.dtype()), 1.0).ln()).ln()
}
