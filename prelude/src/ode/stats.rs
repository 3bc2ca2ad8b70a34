//! What an integration took, and how it ended.

use crate::ops::functions::constant;
use crate::{Error, Tensor, Var};
use std::fmt;
use tapeloom_derive::Tree;
use tapeloom_ir::{Kind, Problem};

/// What an integration took: i64 each, a number of each member of a batch.
#[derive(Tree, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats<T> {
    /// How it ended: the number of a [`Status`].
    pub status: T,
    /// Steps that were taken.
    pub accepted: T,
    /// Steps whose error was too large.
    pub rejected: T,
    /// Evaluations of the slope, without those that Jacobians take.
    pub evaluations: T,
    /// Jacobians and factorizations.
    pub jacobians: T,
}

impl Stats<Var> {
    /// Before anything happened.
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

/// How an integration ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// At the last time.
    Done = 0,
    /// At an event.
    Event = 1,
    /// After as many steps as it may take.
    TooManySteps = 2,
    /// The error would be too large even in the smallest step: the solution has a pole or a jump there, the
    /// tolerance is below the rounding errors, or the system is stiff and the method is not made for it.
    StepTooSmall = 3,
    /// The slope is not finite even in the smallest step.
    NotFinite = 4,
    /// It did not begin: the times neither ascend nor descend, or are not finite.
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

    /// That of a number; in a trace compare numbers, as in `stats.status.eq(Status::Event as i64)`.
    ///
    /// # Errors
    /// `arguments` if it is none, or not a single i64.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let grow = |y0: Var| ode::dopri5().solve(|(_, y): (Var, Var)| y * y, y0, linspace(0.0, 2.0, 2));
    /// let (y, stats) = run(grow, 1.0)?; // 1 / (1 - t)
    /// assert_eq!(ode::Status::of(&stats.status)?, ode::Status::StepTooSmall);
    /// assert!(y.to_vec::<f64>()?[1].is_nan());
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn of(number: &Tensor) -> Result<Status, Error> {
        let found = number.item::<i64>()?;
        Status::ALL.into_iter().find(|status| *status as i64 == found).ok_or_else(|| {
            let message = format!("{found} is the number of no status");
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
            Status::UnorderedTimes => "times in no order",
        })
    }
}
