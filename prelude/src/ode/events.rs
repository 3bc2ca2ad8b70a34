//! Events: an integration ends where a function of time and state changes its sign.
//!
//! The loop over steps detects a change of sign within a step, and ends. After the loop, the root of the event
//! function on the dense output of that step is found, once, as by [`custom_root`](crate::custom_root). The
//! derivative of the event time is `-(∂g/∂p) / (dg/dt)` along the computed solution, by the implicit function
//! theorem; the root search is not differentiated.

use super::Status;
use super::adaptive::Integration;
use super::method::Method;
use super::state::State;
use crate::Var;
use crate::implicit::between;
use crate::ops::functions::select;
use tapeloom_ir::Loc;

/// An event function: a number that depends on time and state.
pub(super) type Event<'a> = &'a dyn Fn(Var, &[Var]) -> Var;

/// The sign changes of the event function that end an integration. Signs are compared in the order of integration, also
/// where times descend.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Crossing {
    /// Changes in both directions.
    Any,
    /// From negative to positive.
    Up,
    /// From positive to negative.
    Down,
}

impl Crossing {
    /// Returns whether a sign change of the event function is an event, given its sign before the change.
    pub(super) fn from(self, sign: Var) -> Var {
        match self {
            Crossing::Any => sign.ne(0.0),
            Crossing::Up => sign.lt(0.0),
            Crossing::Down => sign.gt(0.0),
        }
    }
}

/// Returns the time and state at the end of an integration: at an event, at the last time, or at a failure.
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
    // Without an event, the end time is `otherwise`. The equation `t = otherwise` has this root and its derivative.
    let equation = |t: Var| select(happened, event(t, &state(t)), t - otherwise);
    let t = between(&equation, integration.interpolant.t, integration.t, at);
    let t = select(happened, t, otherwise);
    (t, state(t))
}

/// Replaces the states in `rows` at times after the event time `t` by nan.
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
