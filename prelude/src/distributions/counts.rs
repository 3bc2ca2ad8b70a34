//! The Poisson and the binomial distribution, and distributions derived from them. Their samples are integers and have
//! no derivative.
//!
//! For small means, probabilities are summed until the sum exceeds a uniform random number. For larger means, numbers
//! are proposed by a ratio of uniforms and accepted or rejected (Hörmann, *The transformed rejection method for
//! generating Poisson random variables*, 1993, and *The generation of binomial random variates*, 1993).

use super::gamma::gamma;
use super::sampled;
use crate::Var;
use crate::control::{cond, map, scan, while_loop};
use crate::ops::{select, wrong};
use crate::prng::{split, split_n, uniform};
use crate::var::{IntoVar, caller, pair};
use std::f64::consts::TAU;
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Shape};

/// The largest mean for which samples are found by summing probabilities.
const SMALL: f64 = 10.0;

/// From this mean number of events on, the large terms of a log-probability (such as the logarithm of a factorial)
/// cancel and lose the digits of their difference. There, probabilities are computed from the deviation from the mean
/// (Loader, *Fast and accurate computation of binomial probabilities*, 2000).
const LARGE: f64 = 1e8;

/// The largest valid mean or number `n` of trials. For larger ones, a sample may not fit in an i64.
const MOST: f64 = (1u64 << 62) as f64;

/// Returns samples (i64) of the Poisson distribution, the number of events whose mean number is `rate`. The result is
/// -1 if the mean is negative, nan or above 2⁶² (4.6e18). The rates are broadcast to the shape.
///
/// Errors: `dtype` if the rate is not a float; `shape` if it does not broadcast; `dtype` or `shape` if `key` is not
/// a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |rate: Var| random::poisson(random::key(0), rate, [2000, 2]).convert(Dtype::F64).mean_axis(0);
/// let mean = run(f, [0.5, 100.0])?.to_vec::<f64>()?;
/// assert!((mean[0] - 0.5).abs() < 0.1 && (mean[1] - 100.0).abs() < 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Poisson")]
#[track_caller]
pub fn poisson(key: Var, rate: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let dtype = rate.default_dtype();
    sampled("poisson", key, &shape, [rate.into_var(dtype, at)], at, |key, [rate]| {
        let shape = rate.shape();
        let rate = rate.stop_gradient().convert(Dtype::F64).flatten();
        let one = |(key, rate): (Var, Var)| {
            let sound = rate.ge(0.0) & rate.le(MOST);
            let rate = select(sound, rate, 0.0);
            let many =
                |args: (Var, Var)| cond(args.1.lt(LARGE), many_events, very_many_events, args);
            let count = cond(rate.lt(SMALL), few_events, many, (key, rate));
            select(sound, count, -1.0).convert(Dtype::I64)
        };
        map(one, (split_n(key, shape.elements()), rate)).reshape(shape)
    })
}

/// Draws a Poisson number for a small rate r: the first k at which the sum of the probabilities e⁻ʳ rᵏ / k! of 0 to k
/// exceeds a uniform random number.
fn few_events((key, rate): (Var, Var)) -> Var {
    let u = uniform(key, [], Dtype::F64);
    let (zero, first) = (rate.zeros_like(), (-rate).exp());
    let above = |(u, p, k): (Var, Var, Var)| u.ge(p) & k.lt(1000.0);
    let next = |(u, p, k): (Var, Var, Var)| (u - p, p * rate / (k + 1.0), k + 1.0);
    while_loop(above, next, (u, first, zero)).2
}

fn many_events((key, rate): (Var, Var)) -> Var {
    let log_rate = rate.ln();
    events(key, rate, &|k: Var| k * log_rate - rate - (k + 1.0).lgamma())
}

fn very_many_events((key, rate): (Var, Var)) -> Var {
    events(key, rate, &|k: Var| tail(k, rate) - 0.5 * TAU.ln())
}

/// Returns `k ln m - m - ln k!`, without the constant `-½ ln 2π`, for the mean m. The factorial is computed by
/// Stirling's series, so that the large terms combine to `-(m - k + k ln(k / m))`, which is computed without
/// cancellation.
fn tail(k: Var, mean: Var) -> Var {
    let some = k.maximum(1.0);
    -k.kl_div(mean) - 0.5 * some.ln() - 1.0 / (12.0 * some)
}

fn events(key: Var, rate: Var, density: &dyn Fn(Var) -> Var) -> Var {
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let scale = 1.1239 + 1.1328 / (b - 3.4);
    let shift = rate + 0.43;
    let quick = 0.9277 - 3.6224 / (b - 2.0);
    accepted(key, &Hat { a, b, scale, shift, quick, most: rate.full_like(f64::INFINITY) }, density)
}

/// Returns samples (i64) of the binomial distribution: the number of successes in `n` independent trials with
/// probability `p` each. The result is -1 if n is negative or above 2⁶² (4.6e18), or p is outside of [0, 1]. Both
/// are broadcast to the shape.
///
/// Errors: `dtype` if n and p are not floats of one dtype; `shape` if they do not broadcast; `dtype` or `shape` if
/// `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |p: Var| random::binomial(random::key(0), 100.0, p, [2000, 2]).convert(Dtype::F64).mean_axis(0);
/// let mean = run(f, [0.02, 0.7])?.to_vec::<f64>()?;
/// assert!((mean[0] - 2.0).abs() < 0.1 && (mean[1] - 70.0).abs() < 0.4);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Binomial")]
#[track_caller]
pub fn binomial(key: Var, n: impl IntoVar, p: impl IntoVar, shape: impl Into<Shape>) -> Var {
    let (at, shape) = (caller(), shape.into());
    let (n, p) = pair(n, p, at);
    sampled("binomial", key, &shape, [n, p], at, |key, [n, p]| {
        let shape = n.shape();
        let [n, p] = [n, p].map(|x| x.stop_gradient().convert(Dtype::F64).flatten());
        let one = |(key, (n, p)): (Var, (Var, Var))| {
            let sound = n.ge(0.0) & n.le(MOST) & p.ge(0.0) & p.le(1.0);
            let (n, p) = (select(sound, n.floor(), 0.0), select(sound, p, 0.0));
            // Draw the number of the less probable outcome, success or failure, so that its probability `q` is at most
            // 1/2.
            let rare = p.gt(0.5);
            let q = select(rare, 1.0 - p, p);
            let many =
                |args: (Var, (Var, Var))| cond(args.1.0.lt(LARGE), many_of, very_many_of, args);
            let count = cond((n * q).lt(SMALL), few_of, many, (key, (n, q)));
            let count = select(rare, n - count, count);
            select(sound, count, -1.0).convert(Dtype::I64)
        };
        map(one, (split_n(key, shape.elements()), (n, p))).reshape(shape)
    })
}

/// Returns samples (i64) of the negative binomial distribution: the number of failures before the n-th success in
/// independent trials with probability `p` each, as numpy's `negative_binomial`. The result is -1 if n is not positive,
/// or p is outside of (0, 1]. `n` need not be an integer. Both are broadcast to the shape.
///
/// A sample is drawn from the [`poisson`] distribution, with a rate drawn from the gamma distribution.
///
/// Errors: as [`binomial`].
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |p: Var| random::negative_binomial(random::key(0), 3.0, p, [4000]).convert(Dtype::F64).mean();
/// // The mean is n (1 - p) / p.
/// assert!((run(f, 0.25)?.item::<f64>()? - 9.0).abs() < 0.4);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "NegativeBinomial", alias = "nbinom")]
#[track_caller]
pub fn negative_binomial(
    key: Var,
    n: impl IntoVar,
    p: impl IntoVar,
    shape: impl Into<Shape>,
) -> Var {
    let (at, shape) = (caller(), shape.into());
    let (n, p) = pair(n, p, at);
    sampled("negative_binomial", key, &shape, [n, p], at, |key, [n, p]| {
        let [for_rate, for_count] = split(key);
        let [n, p] = [n, p].map(|x| x.stop_gradient().convert(Dtype::F64));
        let sound = n.gt(0.0) & p.gt(0.0) & p.le(1.0);
        let (n, p) = (select(sound, n, 1.0), select(sound, p, 1.0));
        let rate = gamma(for_rate, n, n.shape()) * (1.0 - p) / p;
        select(sound, poisson(for_count, rate, n.shape()), -1)
    })
}

/// Returns samples (i64) of the multinomial distribution: how often each of k outcomes occurs in `n` independent
/// trials, `[shape.., k]`. `weights` `[k]` are the probabilities up to a factor. The result is -1 if n is negative, or
/// a weight is negative or nan, or all are 0. The trials n are broadcast to the shape.
///
/// The outcomes are drawn one after the other, from [`binomial`] distributions of the trials that are left.
///
/// Errors: `dtype` if n and weights are not floats of one dtype; `shape` if the weights are not a vector of at least
/// one number, or n does not broadcast; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |w: Var| random::multinomial(random::key(0), 100.0, w, [500]);
/// let counts = run(f, [1.0, 2.0, 1.0])?;
/// assert_eq!(counts.shape(), [500, 3]);
/// let mean = run(|k: Var| k.convert(Dtype::F64).mean_axis(0), &counts)?.to_vec::<f64>()?;
/// assert!((mean[1] - 50.0).abs() < 1.0 && (mean.iter().sum::<f64>() - 100.0).abs() < 1e-9);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Multinomial")]
#[track_caller]
pub fn multinomial(
    key: Var,
    n: impl IntoVar,
    weights: impl IntoVar,
    shape: impl Into<Shape>,
) -> Var {
    let (at, shape) = (caller(), shape.into());
    let (n, weights) = pair(n, weights, at);
    let (tn, tw) = (n.ty(at), weights.ty(at));
    let classes = match tw.shape[..] {
        [classes] if classes > 0 && tw.dtype == tn.dtype => classes,
        _ => {
            let message = format!("`multinomial` of {tn} trials with weights {tw}");
            let kind = if tw.dtype == tn.dtype { Kind::Shape } else { Kind::Dtype };
            let help = "n and the weights, a vector of at least one, have one dtype";
            let guess = ArrayType::new(Dtype::I64, shape);
            return wrong(Problem::new(kind, message, help), &[key, n, weights], guess, at);
        }
    };
    sampled("multinomial", key, &shape, [n], at, |key, [n]| {
        let shape = n.shape();
        let [n, weights] = [n, weights].map(|x| x.stop_gradient().convert(Dtype::F64));
        let sound = n.ge(0.0) & n.le(MOST) & weights.ge(0.0).all() & weights.sum().gt(0.0);
        let weights = weights.maximum(0.0);
        // For each outcome, the sum of its weight and the weights of all later outcomes. The sums run from the last
        // outcome to the first, so that the last quotient is exactly 1.
        let rest = weights.flip(0).cumsum(0).flip(0);
        let some = rest.gt(0.0);
        let shares = select(some, weights / select(some, rest, 1.0), 0.0);
        let start = select(sound, n.floor(), 0.0);
        let step = |(left, (key, share)): (Var, (Var, Var))| {
            let count = binomial(key, left, share.broadcast_to(&shape), &shape);
            (left - count.convert(Dtype::F64), count)
        };
        let (_, counts) = scan(step, start, (split_n(key, classes), shares));
        select(sound.expand_dims(-1), counts.move_axis(0, -1), -1)
    })
}

fn few_of((key, (n, q)): (Var, (Var, Var))) -> Var {
    let u = uniform(key, [], Dtype::F64);
    let odds = q / (1.0 - q);
    let first = (n * (-q).ln_1p()).exp();
    let above = |(u, p, k): (Var, Var, Var)| u.ge(p) & k.lt(n) & k.lt(1000.0);
    let next = |(u, p, k): (Var, Var, Var)| (u - p, p * odds * (n - k) / (k + 1.0), k + 1.0);
    while_loop(above, next, (u, first, n.zeros_like())).2
}

fn many_of((key, (n, q)): (Var, (Var, Var))) -> Var {
    let mode = mode(n, q);
    let log_odds = (q / (1.0 - q)).ln();
    let factorials = |k: Var| (k + 1.0).lgamma() + (n - k + 1.0).lgamma();
    let density = |k: Var| factorials(mode) - factorials(k) + (k - mode) * log_odds;
    outcomes(key, n, q, &density)
}

fn very_many_of((key, (n, q)): (Var, (Var, Var))) -> Var {
    let both = |k: Var| tail(k, n * q) + tail(n - k, n * (1.0 - q));
    let most = both(mode(n, q));
    outcomes(key, n, q, &|k: Var| both(k) - most)
}

/// Returns the most probable number of successes in `n` trials with success probability `q`.
fn mode(n: Var, q: Var) -> Var {
    ((n + 1.0) * q).floor()
}

fn outcomes(key: Var, n: Var, q: Var, density: &dyn Fn(Var) -> Var) -> Var {
    let deviation = (n * q * (1.0 - q)).sqrt();
    let b = 1.15 + 2.53 * deviation;
    let a = -0.0873 + 0.0248 * b + 0.01 * q;
    let scale = (2.83 + 5.1 / b) * deviation;
    let shift = n * q + 0.5;
    let quick = 0.92 - 4.2 / b;
    accepted(key, &Hat { a, b, scale, shift, quick, most: n }, density)
}

/// Hörmann's table mountain function, the hat of the rejection method. A uniform u in (-1/2, 1/2) proposes k = ⌊(2a /
/// (1/2 - |u|) + b) u + shift⌋.
struct Hat {
    a: Var,
    b: Var,
    /// The factor by which the hat is scaled so that it exceeds the density everywhere.
    scale: Var,
    shift: Var,
    /// If the second uniform number v is at most this bound and u is not near the ends of its interval, the proposal is
    /// accepted without evaluating the density.
    quick: Var,
    /// The largest possible sample; larger proposals are rejected.
    most: Var,
}

/// Returns the first proposed k that is accepted. `density` returns the logarithm of the probability of k, up to a
/// constant that `hat.scale` includes.
fn accepted(key: Var, hat: &Hat, density: &dyn Fn(Var) -> Var) -> Var {
    let next = |(key, ..): (Var, Var, Var)| {
        let [key, first, second] = split(key);
        let u = uniform(first, [], Dtype::F64) - 0.5;
        let v = uniform(second, [], Dtype::F64);
        let left = 0.5 - u.abs();
        let k = ((2.0 * hat.a / left + hat.b) * u + hat.shift).floor();
        let inside = k.ge(0.0) & k.le(hat.most);
        let quick = left.ge(0.07) & v.le(hat.quick);
        let height = (v * hat.scale / (hat.a / (left * left) + hat.b)).ln();
        let below = height.le(density(select(inside, k, 0.0)));
        (key, k, inside & (quick | below))
    };
    let none = hat.a.zeros_like();
    while_loop(|(_, _, done): (Var, Var, Var)| !done, next, (key, none, none.ne(0.0))).1
}
