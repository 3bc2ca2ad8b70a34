//! Events: a number of time and state whose sign changes, where an integration ends.
//!
//! The loop of steps sees that the sign has changed in a step, and ends. Behind it, the root of the event on the dense output of
//! that step is found, once. It is a root as of [`custom_root`](crate::custom_root): the derivative of the time of an event is
//! `-(∂g/∂p) / (dg/dt)`, by the implicit function theorem, along the solution that was computed; nothing of the search is
//! differentiated.

use super::Status;
use super::adaptive::Integration;
use super::method::Method;
use super::state::State;
use crate::Var;
use crate::implicit::between;
use crate::ops::functions::select;
use tapeloom_ir::Loc;

/// A number of time and state.
pub(super) type Event<'a> = &'a dyn Fn(Var, &[Var]) -> Var;

/// Which changes of an event's sign end an integration, in the order in which it goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Crossing {
    /// Both.
    Any,
    /// From below zero upwards.
    Up,
    /// From above zero downwards.
    Down,
}

impl Crossing {
    /// Whether a change from that sign is one.
    pub(super) fn from(self, sign: Var) -> Var {
        match self {
            Crossing::Any => sign.ne(0.0),
            Crossing::Up => sign.lt(0.0),
            Crossing::Down => sign.gt(0.0),
        }
    }
}

/// When and where an integration ended: at an event, at the last time, or where it could not go on.
pub(super) fn end(
    method: Method,
    event: Event<'_>,
    integration: &Integration<Var>,
    last: Var,
    at: Loc,
) -> (Var, State) {
    let state =
        |t: Var| method.between(&integration.interpolant, (&integration.y, &integration.slope), t);
    let happened = integration.stats.status.eq(Status::Event as i64);
    let done = integration.stats.status.eq(Status::Done as i64);
    let otherwise = select(done, last, integration.t);
    // Without an event the equation is that of the end, and has its root and its derivative.
    let equation = |t: Var| select(happened, event(t, &state(t)), t - otherwise);
    let t = between(&equation, integration.interpolant.t, integration.t, at);
    let t = select(happened, t, otherwise);
    (t, state(t))
}

/// The states at times, nan at those behind an event at time t.
pub(super) fn until(integration: &Integration<Var>, t: Var, times: Var, rows: &[Var]) -> State {
    let onwards = (times - times.index(0)).stop_gradient().abs();
    let happened = integration.stats.status.eq(Status::Event as i64);
    let behind = happened & onwards.gt((t - times.index(0)).stop_gradient().abs());
    let cut = |rows: &Var| {
        let mut shape = rows.shape().to_vec();
        shape[1..].fill(1);
        select(behind.reshape(shape), f64::NAN, *rows)
    };
    rows.iter().map(cut).collect()
}
