//! Statistics of an integration, and the reason for its end.

use crate::ops::functions::constant;
use crate::{Error, Tensor, Var};
use std::fmt;
use tapeloom_derive::Tree;
use tapeloom_ir::{Kind, Problem};

/// Statistics of an integration. Each field is an i64, with one entry per batch member under `vmap`.
#[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats<T> {
    /// The reason for the end of the integration, as the number of a [`Status`].
    pub status: T,
    /// The number of accepted steps.
    pub accepted: T,
    /// The number of steps rejected because their error was too large.
    pub rejected: T,
    /// The number of evaluations of the slope. Evaluations for Jacobians are not counted.
    pub evaluations: T,
    /// The number of Jacobians computed. Each is followed by one LU factorization.
    pub jacobians: T,
}

impl Stats<Var> {
    /// Returns the statistics before the first step: all zero.
    pub(super) fn none() -> Stats<Var> {
        let none = || constant(0i64);
        Stats {
            status: none(),
            accepted: none(),
            rejected: none(),
            evaluations: none(),
            jacobians: none(),
        }
    }
}

/// The reason for the end of an integration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// The integration reached the last time.
    Done = 0,
    /// An event occurred.
    Event = 1,
    /// The largest number of trial steps was reached.
    TooManySteps = 2,
    /// The error is too large even for the smallest step: the solution has a pole or a jump there, the
    /// tolerance is below the rounding errors, or the system is stiff and the method is for nonstiff systems.
    StepTooSmall = 3,
    /// The slope is not finite even for the smallest step.
    NotFinite = 4,
    /// The integration did not begin: the times neither ascend nor descend, or are not finite.
    UnorderedTimes = 5,
}

impl Status {
    const ALL: [Status; 6] = [
        Status::Done,
        Status::Event,
        Status::TooManySteps,
        Status::StepTooSmall,
        Status::NotFinite,
        Status::UnorderedTimes,
    ];

    /// Returns the status with the given number. Inside a trace the number is not known yet; compare numbers there, as
    /// in `stats.status.eq(Status::Event as i64)`.
    ///
    /// # Errors
    /// `arguments` if `number` is not the number of a status, or not a single i64.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let grow = |y0: Var| ode::dopri5().solve(|(_, y): (Var, Var)| y * y, y0, linspace(0.0, 2.0, 2, Dtype::F64));
    /// let (y, stats) = run(grow, 1.0)?; // 1 / (1 - t)
    /// assert_eq!(ode::Status::of(&stats.status)?, ode::Status::StepTooSmall);
    /// assert!(y.to_vec::<f64>()?[1].is_nan());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn of(number: &Tensor) -> Result<Status, Error> {
        let found = number.item::<i64>()?;
        Status::ALL.into_iter().find(|status| *status as i64 == found).ok_or_else(|| {
            let message = format!("no status has the number {found}");
            Problem::new(Kind::Arguments, message, "take it from `Stats::status`").into()
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Done => "done",
            Status::Event => "an event",
            Status::TooManySteps => "too many steps",
            Status::StepTooSmall => "a step too small",
            Status::NotFinite => "a slope that is not finite",
            Status::UnorderedTimes => "times that are not sorted",
        })
    }
}
