//! The reason for the end of a search.

use crate::{Error, Tensor};
use std::fmt;
use tapeloom_ir::{Kind, Problem};

/// The reason for the end of a search for a minimum. If the number is positive, the search converged. Numbers from 0 to
/// 4 are those of SciPy's `least_squares`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// No step along the direction lowered the loss: its gradient is wrong, the loss has noise, or it has a kink.
    NoDescent = -2,
    /// The loss, the residuals or their derivatives are not finite at the start.
    NotFinite = -1,
    /// The largest number of steps was reached, or the number of evaluations of residuals reached twice that number.
    TooManySteps = 0,
    /// The gradient is within `gtol`.
    Gradient = 1,
    /// The loss decreases by no more than `ftol`, or its predicted decrease is below its rounding errors.
    Loss = 2,
    /// The step is within `xtol`.
    Step = 3,
    /// The loss decreases by no more than `ftol`, and the step is within `xtol`.
    LossAndStep = 4,
}

impl Status {
    const ALL: [Status; 7] = [
        Status::NoDescent,
        Status::NotFinite,
        Status::TooManySteps,
        Status::Gradient,
        Status::Loss,
        Status::Step,
        Status::LossAndStep,
    ];

    /// Returns the status with the given number. Inside a trace the number is not known yet; compare numbers there, as
    /// in `outcome.status.eq(optim::Status::Gradient as i64)`.
    ///
    /// # Errors
    /// `arguments` if `number` is not the number of a status, or not a single i64.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let search = |x: Var| optim::bfgs().iterations(2).minimize(|x: Var| x.cosh().sum(), x).1;
    /// let outcome = run(search, [2.0, 3.0])?;
    /// assert_eq!(optim::Status::of(&outcome.status)?, optim::Status::TooManySteps);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn of(number: &Tensor) -> Result<Status, Error> {
        let found = number.item::<i64>()?;
        Status::ALL.into_iter().find(|status| *status as i64 == found).ok_or_else(|| {
            let message = format!("no status has the number {found}");
            Problem::new(Kind::Arguments, message, "take it from `Outcome::status`").into()
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::NoDescent => "no step lowers the loss",
            Status::NotFinite => "a loss that is not finite",
            Status::TooManySteps => "too many steps",
            Status::Gradient => "a gradient within its tolerance",
            Status::Loss => "a decrease of the loss within its tolerance",
            Status::Step => "a step within its tolerance",
            Status::LossAndStep => "decrease and step within their tolerances",
        })
    }
}
