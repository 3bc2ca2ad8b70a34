//! The gamma distribution, and distributions derived from it.
//!
//! A sample x with shape parameter a is differentiable with respect to a: when a changes by da, the sample changes such
//! that it is a sample for a + da. With the distribution function P and the density p:
//!
//! ```text
//! P(a, x) = const      dx/da = -∂P/∂a / p(a, x)
//! ```
//!
//! (Figurnov, Mohamed and Mnih, *Implicit reparameterization gradients*, 2018). So the sample is the solution of an
//! equation, with derivatives of every order for which [`gammainc`](Var::gammainc) has them.

use super::sampled;
use crate::Var;
use crate::control::{map, while_loop};
use crate::implicit::custom_root;
use crate::ops::select;
use crate::prng::{normal, split, split_n, uniform};
use crate::var::{IntoVar, caller, pair};
use tapeloom_ir::{Kind, Problem, Shape};

/// Returns samples of the gamma distribution with density xᵃ⁻¹ e⁻ˣ / Γ(a), differentiable with respect to `a`. For
/// negative `a` the result is nan. For a scale other than 1, multiply the samples by the scale. `a` is broadcast to the
/// shape.
///
/// The samples are those of JAX, up to rounding. For small a they underflow to 0; [`loggamma`] returns their
/// logarithms.
///
/// Errors: `dtype` if a is not a float; `shape` if it does not broadcast; `dtype` or `shape` if `key` is not a
/// single key.
///
/// Source: Marsaglia and Tsang, *A simple method for generating gamma variables* (2000).
///
/// ```
/// use tapeloom::prelude::*;
/// let mean = |a: Var| random::gamma(random::key(0), a, [4000]).mean();
/// let (y, slope) = run(|a: Var| jvp(mean)((a, a.ones_like())), 2.5)?;
/// assert!((y.item::<f64>()? - 2.5).abs() < 0.1); // the mean is a
/// assert!((slope.item::<f64>()? - 1.0).abs() < 0.1); // so it moves as a does
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Gamma", alias = "standard_gamma", alias = "_standard_gamma")]
#[track_caller]
pub fn gamma(key: Var, a: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = a.default_dtype();
    sampled("gamma", key, &shape, [a.into_var(dtype, at)], at, |key, [a]| drawn_value(key, a))
}

/// Returns logarithms of samples of the [`gamma`] distribution. The logarithms are finite even if the samples would
/// underflow to 0.
///
/// Errors: as [`gamma`].
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::loggamma(random::key(0), 1e-4, [100]).min(), ())?;
/// assert!(x.item::<f64>()? < -1000.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn loggamma(key: Var, a: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = a.default_dtype();
    sampled("loggamma", key, &shape, [a.into_var(dtype, at)], at, |key, [a]| {
        moving(a, drawn(key, a).1)
    })
}

/// Returns samples of the χ² distribution with `freedom` degrees of freedom, differentiable with respect to
/// `freedom`.
///
/// Errors: as [`gamma`].
#[doc(alias = "Chi2")]
#[track_caller]
pub fn chisquare(key: Var, freedom: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = freedom.default_dtype();
    sampled("chisquare", key, &shape, [freedom.into_var(dtype, at)], at, |key, [freedom]| {
        let half = 0.5 * freedom;
        2.0 * moving_value(half, drawn(key, half).1)
    })
}

/// Returns samples of Student's t distribution with `freedom` degrees of freedom, differentiable with respect to
/// `freedom`.
///
/// The samples are those of JAX, up to rounding.
///
/// Errors: as [`gamma`].
///
/// ```
/// use tapeloom::prelude::*;
/// let x = run(|()| random::student_t(random::key(4), 5.0, [4000]).square().mean(), ())?;
/// assert!((x.item::<f64>()? - 5.0 / 3.0).abs() < 0.2);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "t", alias = "StudentT", alias = "standard_t")]
#[track_caller]
pub fn student_t(key: Var, freedom: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = freedom.default_dtype();
    sampled("student_t", key, &shape, [freedom.into_var(dtype, at)], at, |key, [freedom]| {
        let [for_normal, for_gamma] = split(key);
        let n = normal(for_normal, freedom.shape(), freedom.dtype());
        // For infinite degrees of freedom, replace the quotient by its limit 1: the sample is then normal.
        let infinite = freedom.eq(f64::INFINITY);
        let half = select(infinite, 1.0, 0.5 * freedom);
        n * select(infinite, 1.0, half / drawn_value(for_gamma, half)).sqrt()
    })
}

/// Returns samples of the beta distribution with density proportional to xᵃ⁻¹ (1 - x)ᵇ⁻¹, differentiable with
/// respect to both parameters, which are broadcast to the shape.
///
/// The samples are those of JAX, up to rounding.
///
/// Errors: `dtype` if the parameters are not floats of one dtype; `shape` if they do not broadcast; `dtype` or
/// `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let mean = |(a, b): (Var, Var)| random::beta(random::key(1), a, b, [4000]).mean();
/// let (da, db) = run(grad(mean), (2.0, 3.0))?;
/// // The mean is a / (a + b).
/// assert!((da.item::<f64>()? - 3.0 / 25.0).abs() < 0.01 && (db.item::<f64>()? + 2.0 / 25.0).abs() < 0.01);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Beta", alias = "beta_sample")]
#[track_caller]
pub fn beta(key: Var, a: impl IntoVar, b: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let (a, b) = pair(a, b, at);
    sampled("beta", key, &shape, [a, b], at, |key, [a, b]| {
        let [for_a, for_b] = split(key);
        let (x, y) = (drawn(for_a, a).1, drawn(for_b, b).1);
        // If one gamma number is negligible compared to the other one, the sample is 0 or 1, and its derivative is 0.
        let moves = (-(x - y).abs()).exp().ne(0.0);
        let (x, y) = (moving_where(moves, a, x), moving_where(moves, b, y));
        let most = x.maximum(y).stop_gradient();
        let (x, y) = ((x - most).exp(), (y - most).exp());
        x / (x + y)
    })
}

/// Returns samples of the Dirichlet distribution: along the last axis of `alpha`, positive numbers that sum to 1,
/// differentiable with respect to alpha. Alpha is broadcast to the shape. The shape includes the last axis of
/// alpha: `[2000, 3]` for 2000 samples of three numbers (in JAX, the shape excludes that axis: `(2000,)`).
///
/// The samples are those of JAX, up to rounding.
///
/// Errors: those of [`gamma`]; `shape` if the shape has no axis.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |alpha: Var| random::dirichlet(random::key(2), alpha, [2000, 3]);
/// let x = run(|alpha: Var| f(alpha).mean_axis(0), [1.0, 2.0, 7.0])?.to_vec::<f64>()?;
/// assert!((x[0] - 0.1).abs() < 0.02 && (x[2] - 0.7).abs() < 0.02);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Dirichlet")]
#[track_caller]
pub fn dirichlet(key: Var, alpha: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = alpha.default_dtype();
    let alpha = alpha.into_var(dtype, at);
    if shape.is_empty() {
        let problem = Problem::new(
            Kind::Shape,
            "`dirichlet` with the shape [], without an axis for the numbers that sum to 1"
                .to_owned(),
            "the shape ends with the extent of the last axis of alpha",
        );
        return crate::ops::wrong(problem, &[key, alpha], alpha.ty(at), at);
    }
    sampled("dirichlet", key, &shape, [alpha], at, |key, [alpha]| {
        let log = drawn(key, alpha).1;
        // A gamma number that is negligible compared to the largest one gives a sample of 0 with derivative 0. If all
        // others are negligible, the sample of the largest one is 1 with derivative 0.
        let some = (log - log.max_keepdims(-1)).exp().ne(0.0);
        let several = some.count_true_keepdims(-1).gt(1).broadcast_to(log.shape());
        moving_where(some & several, alpha, log).softmax(-1)
    })
}

/// Draws a gamma sample for each element of `a`. Returns the samples and their logarithms, as constants for
/// derivatives.
fn drawn(key: Var, a: Var) -> (Var, Var) {
    let shape = a.shape();
    let constant = a.stop_gradient().flatten();
    let (x, log) = map(one, (split_n(key, shape.elements()), constant));
    (x.reshape(shape.clone()).stop_gradient(), log.reshape(shape).stop_gradient())
}

/// Returns the gamma samples of `drawn`, made differentiable with respect to `a`. The derivatives are computed from the
/// logarithms of the samples.
fn drawn_value(key: Var, a: Var) -> Var {
    let (x, log) = drawn(key, a);
    let moving = moving_value(a, log);
    x + select(x.is_finite(), moving - moving.stop_gradient(), 0.0)
}

/// Returns a gamma sample that is differentiable with respect to `a`, given its logarithm. If the sample underflows to
/// 0, its derivative is set to 0, because the derivative of the logarithm may overflow.
fn moving_value(a: Var, log: Var) -> Var {
    moving_where(log.exp().ne(0.0), a, log).exp()
}

/// Makes the logarithm of a gamma sample differentiable with respect to `a` where `moves` is true. Elsewhere it stays
/// constant.
fn moving_where(moves: Var, a: Var, log: Var) -> Var {
    // Where `moves` is false, evaluate `moving` at numbers with finite derivatives: the derivatives are multiplied by 0
    // there, and zero times infinity is nan.
    let moving = moving(select(moves, a, 1.0), select(moves, log, 0.0));
    select(moves, moving, log)
}

/// Draws one gamma number by Marsaglia and Tsang's rejection method. Returns the number and its logarithm.
///
/// Let d = a - 1/3, c = 1 / √(9d), z a normal number, u a uniform number and v = (1 + c z)³. If v > 0 and ln u < z²/2 +
/// d (1 - v + ln v), the sample d v is accepted. For a < 1, the sample is a sample for a + 1, times a uniform number to
/// the power 1/a.
fn one((key, a): (Var, Var)) -> (Var, Var) {
    let dtype = a.dtype();
    let [key, for_power] = split(key);
    // Replace -0 by 0, because 1/a below would be negative infinity.
    let a = select(a.eq(0.0), 0.0, a);
    let small = a.lt(1.0);
    let d = select(small, a + 1.0, a) - 1.0 / 3.0;
    let c = (1.0 / 3.0) / d.sqrt();
    let (zero, unit) = (a.zeros_like(), a.ones_like());
    type Trial = (Var, Var, Var, Var);
    let again = |(_, zz, v, u): Trial| {
        // The first condition accepts most samples, and spares them the two logarithms of the exact second condition.
        let slow = u.ge(1.0 - 0.0331 * (zz * zz));
        slow & u.ln().ge(0.5 * zz + d * ((1.0 - v) + v.ln()))
    };
    let next = |(key, ..): Trial| {
        let [key, for_normal, for_uniform] = split(key);
        let below = |(_, _, v): (Var, Var, Var)| v.le(0.0);
        let draw = |(key, ..): (Var, Var, Var)| {
            let [key, own] = split(key);
            let z = normal(own, [], dtype);
            (key, z, 1.0 + z * c)
        };
        let (_, z, v) = while_loop(below, draw, (for_normal, zero, -unit));
        (key, z * z, v * v * v, uniform(for_uniform, [], dtype))
    };
    let (_, _, v, _) = while_loop(again, next, (key, zero, unit, 2.0 * unit));
    let u = 1.0 - uniform(for_power, [], dtype);
    let power = select(small, u.pow(1.0 / a), 1.0);
    let log_power = select(small & u.ne(1.0), u.ln() / a, 0.0);
    let negative = a.lt(0.0);
    let none = zero.full_like(f64::NAN);
    let (x, log) = (d * v * power, d.ln() + v.ln() + log_power);
    (select(negative, none, x), select(negative, none, log))
}

/// If the logarithm of a sample x is below this value, the distribution function equals the first term of its series,
/// xᵃ / Γ(a + 1), up to rounding.
const FIRST_TERM: f64 = -40.0;

/// The smallest shape parameter for which [`moving_far`] computes the derivative of a sample. From there on, the error
/// of that formula is below rounding errors, whereas derivatives of the distribution function lose digits to
/// cancellation. From 1e28 on, the density even vanishes at the floats nearest to a sample.
const FAR: f64 = 1e6;

/// Returns the logarithm y of a gamma sample. Its derivative with respect to `a` is the one for which the distribution
/// function P(a, eʸ) stays constant.
fn moving(a: Var, log: Var) -> Var {
    let log = log.stop_gradient();
    let far = a.ge(FAR);
    // `select` multiplies the derivative of the formula that is not selected by 0, so evaluate that formula at numbers
    // at which its derivative is finite.
    let near = moving_near(select(far, 1.0, a), select(far, 0.0, log));
    let step = moving_far(select(far, a, FAR), select(far, log, FAR.ln()));
    select(far, log + (step - step.stop_gradient()), near)
}

/// Returns [`moving`] for `a` below [`FAR`], as the root y of the equation ln P(a, eʸ) = constant.
fn moving_near(a: Var, log: Var) -> Var {
    let tiny = log.lt(FIRST_TERM);
    let level = |y: Var| {
        let x = select(tiny, 0.0, y).exp();
        let series = a * y - (a + 1.0).lgamma();
        select(tiny, series, a.gammainc(x).ln())
    };
    custom_root(level, log, |_, y| y, |slope, b| b / slope(b.ones_like()))
}

/// Returns [`moving`] for large a: the logarithm of a (1 + r)³ with r = z/(3 √a) - 1/(9a) + (z/108 - z³/324) / (a √a).
/// z is the constant for which this logarithm has the value `log`. The cube root of a gamma number is nearly normal;
/// the last term makes the error of dx/da of order 1/a².
///
/// Source: Wilson and Hilferty, *The distribution of chi-square* (1931); the last term is the difference from the
/// expansion of Cornish and Fisher.
fn moving_far(a: Var, log: Var) -> Var {
    let ninth = |a: Var| (1.0 / 9.0) / a;
    let skew = |z: Var| z / 108.0 - z * z * z / 324.0;
    let root = ((log - a.ln()) / 3.0).exp_m1() + ninth(a);
    let normal = 3.0 * root * a.sqrt();
    let z = (normal - 3.0 * skew(normal) / a).stop_gradient();
    a.ln() + 3.0 * (z / (3.0 * a.sqrt()) - ninth(a) + skew(z) / (a * a.sqrt())).ln_1p()
}
