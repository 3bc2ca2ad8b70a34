//! Distributions of counts and choices.
//!
//! A count may be an integer, a bool or a float. The log probability of a number that is no possible count is -inf.

use super::stirling::{log_beta_density, log_gamma_density};
use super::{checked, density, of_rows};
use crate::Var;
use crate::ops::functions::arange;
use crate::ops::{Axis, broadcast_shapes, of_floats, resolve_axis, select, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// Converts a count that is an integer or a bool to the dtype of the parameter `like`. A float is returned unchanged.
fn count(name: &'static str, k: impl IntoVar, like: Var, at: Loc) -> Var {
    let k = k.beside(like, at);
    let (ty, tl) = (k.ty(at), like.ty(at));
    let converts = !ty.dtype.is_float() && tl.dtype.is_float();
    on_behalf(name, at, || if converts { k.convert(tl.dtype) } else { k })
}

/// Returns the log probability of `k`, 0 or 1 (or false or true), where 1 has the probability `p`. For logits, write
/// `-logits.sigmoid_cross_entropy(k)`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |p: Var| stats::bernoulli_logpmf(constant([true, false]), p).sum();
/// let (y, slope) = run(value_and_grad(f), 0.25)?;
/// assert!((y.item::<f64>()? - (0.25 * 0.75f64).ln()).abs() < 1e-15);
/// assert!((slope.item::<f64>()? - (4.0 - 4.0 / 3.0)).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "bernoulli.logpmf")]
#[track_caller]
pub fn bernoulli_logpmf(k: impl IntoVar, p: impl IntoVar) -> Var {
    let at = caller();
    let [p] = operands!(at, p);
    let k = count("bernoulli_logpmf", k, p, at);
    of_floats("bernoulli_logpmf", [k, p], at, |[k, p]| {
        let outside = k.ne(0.0) & k.ne(1.0) & !k.is_nan();
        density(k.xlogy(p) + (1.0 - k).xlog1py(-p), outside, p.ge(0.0) & p.le(1.0))
    })
}

/// Returns the entropy of the Bernoulli distribution: of a number that is 1 with probability `p` and otherwise 0.
#[track_caller]
pub fn bernoulli_entropy(p: impl IntoVar) -> Var {
    let at = caller();
    of_floats("bernoulli_entropy", operands!(at, p), at, |[p]| {
        checked(p.entr() + (1.0 - p).entr(), p.ge(0.0) & p.le(1.0))
    })
}

/// Returns the divergence KL(p ‖ q) of two Bernoulli distributions, whose numbers are 1 with probability `p` and `q`.
/// It is inf where an outcome is possible with p and impossible with q.
#[track_caller]
pub fn bernoulli_kl(p: impl IntoVar, q: impl IntoVar) -> Var {
    let at = caller();
    of_floats("bernoulli_kl", operands!(at, p, q), at, |[p, q]| {
        let kl = divergence(p, q) + divergence(1.0 - p, 1.0 - q);
        let inside = |p: Var| p.ge(0.0) & p.le(1.0);
        checked(kl, inside(p) & inside(q))
    })
}

/// Returns p ln(p / q) - p + q. At p = 0 < q, the derivative with respect to p is -inf.
fn divergence(p: Var, q: Var) -> Var {
    let edge = p.eq(0.0) & q.gt(0.0);
    p.kl_div(q) - select(edge, select(edge, p, 1.0).sqrt(), 0.0)
}

/// Returns the log probability of `k` successes in `n` trials with probability `p` each.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |k: Var| stats::binomial_logpmf(k, 4.0, 0.5);
/// let y = run(|k: Var| f(k).exp(), [2i64, 4, 5])?.to_vec::<f64>()?;
/// assert!((y[0] - 0.375).abs() < 1e-15 && (y[1] - 0.0625).abs() < 1e-15 && y[2] == 0.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "binom.logpmf")]
#[track_caller]
pub fn binomial_logpmf(k: impl IntoVar, n: impl IntoVar, p: impl IntoVar) -> Var {
    let at = caller();
    let params = p.firm_dtype(at).filter(|dtype| dtype.is_float());
    let (n, p) = match params {
        // The number of trials may be an integer; convert it to the dtype of p, as a count.
        Some(dtype) => {
            let p = p.into_var(dtype, at);
            (count("binomial_logpmf", n, p, at), p)
        }
        None => {
            let [n, p] = operands!(at, n, p);
            (n, p)
        }
    };
    let k = count("binomial_logpmf", k, p, at);
    of_floats("binomial_logpmf", [k, n, p], at, |[k, n, p]| {
        let outside = k.lt(0.0) | k.gt(n) | k.floor().ne(k) & !k.is_nan();
        let sound = n.ge(0.0) & n.floor().eq(n) & p.ge(0.0) & p.le(1.0);
        let (k, n) = (select(outside, 0.0, k), select(sound, n, 0.0));
        let failures = n - k;
        let log = log_beta_density([k + 1.0, k], [failures + 1.0, failures], p) - n.ln_1p();
        // For k = 0 or k = n, the binomial coefficient is 1. Its logarithm must be exactly 0, so correct the rounding
        // error.
        let end = (k.eq(0.0) | failures.eq(0.0)) & log.is_finite();
        let exact = k.xlogy(p) + failures.xlog1py(-p);
        density(log + select(end, exact - log, 0.0).stop_gradient(), outside, sound)
    })
}

/// Returns the entropy of the number of successes in `n` trials with probability `p` each, for integers `n`. It is a
/// sum over 321 counts around the mean. If the standard deviation exceeds 10, these counts are a tenth of it apart.
///
/// Errors: `dtype` if n are not integers or p not floats; `shape` if they do not broadcast.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |p: Var| stats::binomial_entropy(1, p) - stats::bernoulli_entropy(p);
/// assert!(run(f, 0.3)?.item::<f64>()?.abs() < 1e-15);
/// check_grads(|p: Var| stats::binomial_entropy(20, p), 0.3, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "binom.entropy")]
#[track_caller]
pub fn binomial_entropy(n: impl IntoVar, p: impl IntoVar) -> Var {
    let (at, name) = (caller(), "binomial_entropy");
    let n = n.into_var(Dtype::I64, at);
    let [p] = operands!(at, p);
    let (tn, tp) = (n.ty(at), p.ty(at));
    if !tn.dtype.is_integer() || !tp.dtype.is_float() {
        let message = format!("`{name}` of {tn} trials with probability {tp}");
        let problem = Problem::new(Kind::Dtype, message, "n are integers, p are floats");
        return wrong(problem, &[n, p], tp, at);
    }
    of_floats(name, [count(name, n, p, at), p], at, |[n, p]| {
        let sound = n.ge(0.0) & p.ge(0.0) & p.le(1.0);
        let edge = p.eq(0.0) | p.eq(1.0);
        let (m, q) = (select(sound, n, 0.0), select(sound & !edge, p, 0.5));
        let sum = entropy_of_counts(m * q, m * q * (1.0 - q), m, |k| {
            let (m, q) = (m.expand_dims(-1), q.expand_dims(-1));
            log_beta_density([k + 1.0, k], [m - k + 1.0, m - k], q) - m.ln_1p()
        });
        // At p = 0 and p = 1, the entropy is 0 and its derivative infinite, as for a single trial.
        let end = select(edge, p, 0.0);
        checked(select(edge, n * (end.entr() + (1.0 - end).entr()), sum), sound)
    })
}

/// The number of counts on each side of the mean that [`entropy_of_counts`] adds, and, if the counts are more than 1
/// apart, their number per standard deviation. So each side is at least 16 deviations long.
const SIDE: usize = 160;
const STEPS: f64 = 10.0;

/// Returns -Σ P ln P over counts k in 0..=`most`, given the mean and the variance of k. The closure `log` returns ln P
/// of an array of counts, which has one axis more than the mean.
///
/// If the deviation is large, the sum is over every h-th k times h. For a function as smooth as a normal density of
/// deviation 10 h, this differs from the sum over all k by a factor of 1 + exp(-200 π²).
fn entropy_of_counts(mean: Var, variance: Var, most: Var, log: impl Fn(Var) -> Var) -> Var {
    let [mean, variance] = [mean, variance].map(Var::stop_gradient);
    let step = (variance.sqrt() / STEPS).maximum(1.0);
    let offsets = arange(2 * SIDE + 1, mean.dtype()) - SIDE as f64;
    let k = mean.floor().expand_dims(-1) + step.expand_dims(-1) * offsets;
    let inside = k.ge(0.0) & k.le(most.expand_dims(-1));
    let log = log(select(inside, k, 0.0));
    -(select(inside, log.exp() * log, 0.0).sum_axis(-1) * step)
}

/// Returns the log probability of `k` events with the Poisson distribution of mean `rate`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |rate: Var| stats::poisson_logpmf(constant([0i64, 3]), rate);
/// let y = run(f, 0.0)?.to_vec::<f64>()?;
/// assert_eq!(y, [0.0, f64::NEG_INFINITY]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "poisson.logpmf")]
#[track_caller]
pub fn poisson_logpmf(k: impl IntoVar, rate: impl IntoVar) -> Var {
    let at = caller();
    let [rate] = operands!(at, rate);
    let k = count("poisson_logpmf", k, rate, at);
    of_floats("poisson_logpmf", [k, rate], at, |[k, rate]| {
        let outside = k.lt(0.0) | k.floor().ne(k) & !k.is_nan();
        let k = select(outside, 0.0, k);
        density(log_gamma_density(k + 1.0, k, rate), outside, rate.ge(0.0))
    })
}

/// Returns the entropy of the Poisson distribution of mean `rate`, computed as a sum over counts like
/// [`binomial_entropy`].
///
/// ```
/// use tapeloom::prelude::*;
/// // It approaches that of the normal distribution of the same variance.
/// let f = |r: Var| stats::poisson_entropy(r) - stats::normal_entropy(r.sqrt());
/// assert!(run(f, 1e8)?.item::<f64>()?.abs() < 1e-8);
/// check_grads(|rate: Var| stats::poisson_entropy(rate), 3.0, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "poisson.entropy")]
#[track_caller]
pub fn poisson_entropy(rate: impl IntoVar) -> Var {
    let at = caller();
    of_floats("poisson_entropy", operands!(at, rate), at, |[rate]| {
        let (none, endless) = (rate.eq(0.0), rate.eq(f64::INFINITY));
        let some = rate.gt(0.0) & !endless;
        let r = select(some, rate, 1.0);
        let sum = entropy_of_counts(r, r, r.full_like(f64::INFINITY), |k| {
            log_gamma_density(k + 1.0, k, r.expand_dims(-1))
        });
        // At a rate of 0, the entropy is 0 and its derivative infinite.
        let end = select(none, rate, 1.0).entr();
        checked(select(none, end, select(endless, rate, sum)), rate.ge(0.0))
    })
}

/// Returns the divergence KL(p ‖ q) of two Poisson distributions, given by their rates.
#[track_caller]
pub fn poisson_kl(rate: impl IntoVar, other: impl IntoVar) -> Var {
    let at = caller();
    of_floats("poisson_kl", operands!(at, rate, other), at, |[p, q]| {
        checked(divergence(p, q), p.ge(0.0) & q.ge(0.0))
    })
}

/// Returns the log probability of the index `k` under the categorical distribution whose probabilities are the softmax
/// of the logits along `axis`, as in [`random::categorical`](crate::random::categorical). The axis is removed, and the
/// other axes are broadcast with k. For probabilities p, the logits are `p.ln()`.
///
/// Errors: `dtype` if k are not integers or the logits not floats; `shape` if the axis does not exist or is empty, or
/// if the shapes do not broadcast.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(k, logits): (Var, Var)| stats::categorical_logpmf(k, logits, -1);
/// let y = run(f, ([0i64, 1, 2], [0.0, 3f64.ln()]))?.to_vec::<f64>()?;
/// assert!((y[0] + 4f64.ln()).abs() < 1e-15 && y[2] == f64::NEG_INFINITY);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn categorical_logpmf(k: impl IntoVar, logits: Var, axis: impl Axis) -> Var {
    let at = caller();
    let name = "categorical_logpmf";
    let k = k.into_var(Dtype::I64, at);
    let (tk, tl) = (k.ty(at), logits.ty(at));
    let refuse = |problem| wrong(problem, &[k, logits], ArrayType::new(tl.dtype, &*tk.shape), at);
    let axis = match resolve_axis(name, axis, &tl.shape) {
        Ok(axis) => axis,
        Err(problem) => return refuse(problem),
    };
    let classes = tl.shape[axis];
    let message = || format!("`{name}` of {tk} with logits {tl} along axis {axis}");
    if !tk.dtype.is_integer() || !tl.dtype.is_float() {
        return refuse(Problem::new(Kind::Dtype, message(), "k are integers, logits are floats"));
    }
    let shape = broadcast_shapes(&tk.shape, &tl.shape.without(&[axis]));
    let Some(shape) = shape.filter(|_| classes > 0) else {
        let help = "there is a class, and k broadcasts with the other axes of the logits";
        return refuse(Problem::new(Kind::Shape, message(), help));
    };
    on_behalf(name, at, || {
        let logs = logits.log_softmax(axis).move_axis(axis, -1);
        let mut rows = shape.to_vec();
        rows.push(classes);
        let k = k.broadcast_to(shape.clone());
        let outside = k.lt(0) | k.ge(classes);
        let inside = select(outside, 0, k);
        let at_k = logs.broadcast_to(rows).take_along_axis(inside.expand_dims(-1), -1);
        select(outside, f64::NEG_INFINITY, at_k.squeeze(-1))
    })
}

/// Returns the entropy of the distribution softmax(`logits`) along `axis`, which is removed.
///
/// ```
/// use tapeloom::prelude::*;
/// let h = run(|x: Var| stats::categorical_entropy(x, -1), [0.0, 0.0, f64::NEG_INFINITY])?;
/// assert!((h.item::<f64>()? - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn categorical_entropy(logits: Var, axis: impl Axis) -> Var {
    let at = caller();
    rows("categorical_entropy", [logits], axis, at, |[logits]| {
        let logs = logits.log_softmax(-1);
        let none = logs.eq(f64::NEG_INFINITY);
        -(logs.exp() * select(none, 0.0, logs)).sum_axis(-1)
    })
}

/// Returns the divergence KL(p ‖ q) of p = softmax(`logits`) and q = softmax(`other`) along `axis`, which is removed.
/// It is inf where an outcome is possible with p and impossible with q.
#[track_caller]
pub fn categorical_kl(logits: Var, other: impl IntoVar, axis: impl Axis) -> Var {
    let at = caller();
    let other = other.beside(logits, at);
    rows("categorical_kl", [logits, other], axis, at, |[logits, other]| {
        let [p, q] = [logits, other].map(|x| x.log_softmax(-1));
        let none = p.eq(f64::NEG_INFINITY);
        (p.exp() * select(none, 0.0, p - q)).sum_axis(-1)
    })
}

/// Evaluates a formula along `axis`. The axis is moved to the end first, since the formula is written for the last
/// axis.
fn rows<const N: usize>(
    name: &'static str,
    operands: [Var; N],
    axis: impl Axis,
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    let shapes = operands.iter().map(|x| x.ty(at).shape);
    let shape = shapes.reduce(|x, y| broadcast_shapes(&x, &y).unwrap_or(x)).unwrap_or_default();
    match resolve_axis(name, axis, &shape) {
        Ok(axis) => of_rows(name, operands, at, |all| body(all.map(|x| x.move_axis(axis, -1)))),
        Err(problem) => {
            let guess = ArrayType::new(operands[0].ty(at).dtype, shape);
            wrong(problem, &operands, guess, at)
        }
    }
}
