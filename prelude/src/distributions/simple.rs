//! Distributions whose samples have no derivative with respect to a parameter.

use super::gamma::loggamma;
use crate::Var;
use crate::ops::wrong;
use crate::prng::{exponential, rademacher, split, uniform, uniform_between, unmarked};
use crate::var::{caller, on_behalf};
use std::f64::consts::PI;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Problem, Shape};

/// Returns samples of the Cauchy distribution with density 1 / (π (1 + x²)): tan(π (u - 1/2)).
///
/// The samples are those of JAX, up to rounding.
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::cauchy(random::key(0), [4001], Dtype::F64).median(), ())?;
/// assert!(x.item::<f64>()?.abs() < 0.1);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Cauchy", alias = "standard_cauchy")]
#[track_caller]
pub fn cauchy(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    let (at, shape) = (caller(), shape.into());
    if !dtype.is_float() {
        let problem = Problem::new(
            Kind::Dtype,
            format!("`cauchy` in {dtype}"),
            "these numbers are f32 or f64",
        );
        return wrong(problem, &[key], ArrayType::new(dtype, shape), at);
    }
    let least = crate::dtype::epsilon(dtype);
    on_behalf("cauchy", at, || {
        let number = |x: f64| Var::literal(Literal::of(dtype, x), at);
        let u = uniform_between(key, shape, number(least), number(1.0));
        (PI * (u - 0.5)).tan()
    })
}

/// Returns points uniformly distributed in the unit ball of the norm (Σ |xᵢ|ᵖ)^(1/p) in `d` dimensions,
/// `[shape.., d]`: p = 2 is the Euclidean ball, p = 1 the cross-polytope.
///
/// The points are those of JAX, up to rounding.
///
/// Errors: `dtype` if `dtype` is not a float; `shape` if p is not positive; `dtype` or `shape` if `key` is not a
/// single key.
///
/// Source: Barthe, Guédon, Mendelson and Naor, *A probabilistic approach to the geometry of the ℓₚⁿ-ball*
/// (2005).
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::ball(random::key(0), 3, 2.0, [1000], Dtype::F64).norm_axis(-1), ())?;
/// let inner = x.to_vec::<f64>()?.iter().filter(|r| **r < 0.5).count();
/// assert!((100..150).contains(&inner)); // an eighth
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn ball(key: Var, d: usize, p: f64, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    let (at, shape) = (caller(), shape.into());
    let mut whole = shape.to_vec();
    whole.push(d);
    let problem = if !dtype.is_float() {
        Problem::new(Kind::Dtype, format!("`ball` in {dtype}"), "these numbers are f32 or f64")
    } else if p > 0.0 {
        return on_behalf("ball", at, || {
            let [for_points, for_radius] = split(key);
            unmarked(|| {
                let [for_size, for_sign] = split(for_points);
                let number = |x: f64| Var::literal(Literal::of(dtype, x), at);
                let sign = rademacher(for_sign, &whole[..], dtype);
                if p.is_infinite() {
                    return sign * uniform(for_size, &whole[..], dtype);
                }
                // Compute with logarithms of gamma numbers: for a small 1 / p, most gamma numbers underflow.
                let power = loggamma(for_size, number(1.0 / p), &whole[..]);
                let rest = exponential(for_radius, shape, dtype);
                let length = (power.exp().sum_axis(-1) + rest).ln() / p;
                sign * (power / p - length.expand_dims(-1)).exp()
            })
        });
    } else {
        Problem::new(Kind::Shape, format!("`ball` of the norm with p = {p}"), "p is positive")
    };
    wrong(problem, &[key], ArrayType::new(dtype, whole), at)
}
