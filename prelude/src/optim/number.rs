//! Settings of optimisers: constants, `Var`s, and schedules that depend on the number of steps.

use crate::Var;
use crate::var::{IntoVar, caller};
use std::f64::consts::PI;
use std::fmt;
use std::rc::Rc;
use tapeloom_ir::{Dtype, Literal};

/// A setting of an optimiser: an `f64`, or a scalar `Var`, with respect to which the steps can be differentiated.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A constant, known when the optimiser is constructed.
    Constant(f64),
    /// A value of the traced program.
    Traced(Var),
}

impl From<f64> for Number {
    fn from(x: f64) -> Number {
        Number::Constant(x)
    }
}

impl From<Var> for Number {
    fn from(x: Var) -> Number {
        Number::Traced(x)
    }
}

impl Number {
    /// Returns the setting as a `Var` in the dtype of `x`.
    #[track_caller]
    pub(super) fn like(self, x: Var) -> Var {
        self.of(x.dtype())
    }

    #[track_caller]
    fn of(self, dtype: Dtype) -> Var {
        match self {
            Number::Constant(x) => Var::literal(Literal::of(dtype, x), caller()),
            Number::Traced(x) => x.convert(dtype),
        }
    }
}

/// A number that depends on the number of previous steps, which is 0 in the first step.
///
/// Constants convert to schedules, so a rate may be given as `0.1`, as a `Var` or as a schedule.
///
/// ```
/// use tapeloom::prelude::*;
/// let rate = optim::cosine_decay(1.0, 100).warm_up(10);
/// let rates = run(|t: Var| vmap(|t: Var| rate.at(t))(t), [0i64, 5, 10, 60, 110, 200])?;
/// let want = [0.0, 0.5, 1.0, 0.5, 0.0, 0.0];
/// assert!(rates.to_vec::<f64>()?.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-15));
///
/// let mine = optim::schedule(|t| 0.1 / (1.0 + t).sqrt());
/// assert_eq!(run(|t: Var| mine.at(t), 3i64)?.item::<f64>()?, 0.05);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Model: optax's schedules.
#[derive(Clone)]
pub struct Schedule(Kind);

#[derive(Clone)]
enum Kind {
    Number(Number),
    /// A function of the number of previous steps, which is an f64 scalar.
    Function(Rc<dyn Fn(Var) -> Var>),
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Number(x) => write!(f, "Schedule({x:?})"),
            Kind::Function(_) => f.write_str("Schedule(of the count)"),
        }
    }
}

impl From<f64> for Schedule {
    fn from(x: f64) -> Schedule {
        Schedule(Kind::Number(x.into()))
    }
}

impl From<Var> for Schedule {
    fn from(x: Var) -> Schedule {
        Schedule(Kind::Number(x.into()))
    }
}

/// Returns a schedule with a custom formula: `f` maps the number of previous steps, an f64 scalar, to the value.
pub fn schedule(f: impl Fn(Var) -> Var + 'static) -> Schedule {
    Schedule(Kind::Function(Rc::new(f)))
}

/// Returns a schedule that moves linearly from `start` to `end` in `steps` steps, and then stays at `end`.
///
/// ```
/// use tapeloom::prelude::*;
/// let rate = optim::linear_schedule(1.0, 0.0, 4);
/// assert_eq!(run(|t: Var| rate.at(t), 1i64)?.item::<f64>()?, 0.75);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "LinearLR", alias = "polynomial_schedule")]
pub fn linear_schedule(start: impl Into<Number>, end: impl Into<Number>, steps: u64) -> Schedule {
    let (start, end) = (start.into(), end.into());
    schedule(move |t| {
        let done = share(t, steps);
        start.like(t) * (1.0 - done) + end.like(t) * done
    })
}

/// Returns a schedule that falls from `start` to 0 along half a cosine in `steps` steps, and then stays at 0.
///
/// Source: Loshchilov and Hutter, *SGDR: stochastic gradient descent with warm restarts* (2017).
#[doc(alias = "cosine_decay_schedule", alias = "CosineAnnealingLR")]
pub fn cosine_decay(start: impl Into<Number>, steps: u64) -> Schedule {
    let start = start.into();
    schedule(move |t| start.like(t) * (0.5 * (1.0 + (PI * share(t, steps)).cos())))
}

/// Returns the schedule `start · factorᵗ`, where t is the number of previous steps divided by `steps`: after
/// `steps` steps, the value has been multiplied by `factor`.
#[doc(alias = "ExponentialLR")]
pub fn exponential_decay(
    start: impl Into<Number>,
    steps: u64,
    factor: impl Into<Number>,
) -> Schedule {
    let (start, factor) = (start.into(), factor.into());
    schedule(move |t| start.like(t) * factor.like(t).pow(t / steps.max(1) as f64))
}

/// Returns a piecewise constant schedule: `start` at first, then each value of `changes` from its step on. The
/// changes may be in any order.
///
/// ```
/// use tapeloom::prelude::*;
/// let rate = optim::piecewise_constant(0.1, &[(100, 0.01), (200, 0.001)]);
/// assert_eq!(run(|t: Var| rate.at(t), 100i64)?.item::<f64>()?, 0.01);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "StepLR")]
#[doc(alias = "piecewise_constant_schedule", alias = "MultiStepLR")]
pub fn piecewise_constant(start: f64, changes: &[(u64, f64)]) -> Schedule {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|(step, _)| *step);
    schedule(move |t| {
        let later = |rate: Var, &(step, next): &(u64, f64)| t.ge(step as f64).select(next, rate);
        changes.iter().fold(Number::Constant(start).like(t), later)
    })
}

/// Returns the fraction `t / steps` of the steps that have been taken, at most 1. For `steps` = 0, returns 1.
fn share(t: Var, steps: u64) -> Var {
    if steps == 0 { t.ones_like() } else { (t / steps as f64).minimum(1.0) }
}

impl Schedule {
    /// Returns the value (f64) of the schedule after `count` steps, an integer `Var`.
    #[track_caller]
    pub fn at(&self, count: impl IntoVar) -> Var {
        let at = caller();
        self.of(count.into_var(Dtype::I64, at).convert(Dtype::F64))
    }

    /// Returns the value of the schedule after `t` steps, where `t` is an f64 `Var`.
    #[track_caller]
    fn of(&self, t: Var) -> Var {
        match &self.0 {
            Kind::Number(x) => x.like(t),
            Kind::Function(f) => f(t),
        }
    }

    /// Prepends a linear increase, in `steps` steps, from 0 to the first value of the schedule.
    #[doc(alias = "warmup_cosine_decay_schedule", alias = "warmup_constant_schedule")]
    #[must_use]
    pub fn warm_up(self, steps: u64) -> Schedule {
        schedule(move |t| self.of(since(t, steps)) * share(t, steps))
    }

    /// Runs this schedule for `steps` steps, then `next`, which counts its steps from 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let rate = optim::linear_schedule(0.0, 1.0, 10).then(10, optim::exponential_decay(1.0, 1, 0.5));
    /// assert_eq!(run(|t: Var| rate.at(t), 12i64)?.item::<f64>()?, 0.25);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "join_schedules", alias = "SequentialLR")]
    #[must_use]
    pub fn then(self, steps: u64, next: impl Into<Schedule>) -> Schedule {
        let next = next.into();
        schedule(move |t| t.ge(steps as f64).select(next.of(since(t, steps)), self.of(t)))
    }
}

/// Returns the number of steps that follow the first `steps` steps: `t - steps`, at least 0.
fn since(t: Var, steps: u64) -> Var {
    (t - steps as f64).maximum(0.0)
}
