//! Methods with fixed steps.

use super::joined::Joined;
use super::state::State;
use super::tableau::{EULER, RK4, Tableau};
use super::traced::{Traced, traced};
use super::{Stats, Status, problem};
use crate::control::{fori_loop, scan};
use crate::function::{Function, one};
use crate::ops::functions::{concat, constant, select};
use crate::staging::{Staged, rebuild};
use crate::tree::{Form, Tree, flatten};
use crate::var::{IntoVar, caller, on_behalf};
use crate::{Dtype, Var};
use tapeloom_ir::Loc;

/// A method with fixed steps, as returned by [`rk4`] and [`euler`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a method does nothing until it solves"]
pub struct Fixed {
    name: &'static str,
    method: &'static Tableau,
    substeps: usize,
}

/// Returns the classical Runge–Kutta method of order 4, with one step between two neighbouring times.
///
/// ```
/// use tapeloom::prelude::*;
/// let swing = |(_, (x, v)): (Var, (Var, Var))| (v, -x);
/// let f = jit(move |start: (Var, Var)| ode::rk4().substeps(5).solve(swing, start, linspace(0.0, 1.0, 3, Dtype::F64)).0);
/// let (x, _) = f.call((1.0, 0.0))?;
/// assert!((x.to_vec::<f64>()?[2] - 1.0f64.cos()).abs() < 1e-6);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "runge_kutta")]
pub fn rk4() -> Fixed {
    Fixed { name: "rk4", method: &RK4, substeps: 1 }
}

/// Returns Euler's method, of order 1, with one step between two neighbouring times.
pub fn euler() -> Fixed {
    Fixed { name: "euler", method: &EULER, substeps: 1 }
}

impl Fixed {
    /// Sets the number of steps of equal length between two neighbouring times. 0 counts as 1.
    pub fn substeps(self, steps: usize) -> Fixed {
        Fixed { substeps: steps.max(1), ..self }
    }

    /// Solves the equation as [`Adaptive::solve`](super::Adaptive::solve) does, with fixed steps and without an error
    /// estimate. The times may be in any order, and derivatives with respect to the times go through the step sizes.
    ///
    /// Errors: those of [`Adaptive::solve`](super::Adaptive::solve).
    #[track_caller]
    pub fn solve<Y: Tree<Var>, F: Function<(Var, Y), Y, M>, M>(
        self,
        f: F,
        y0: Y,
        times: impl IntoVar,
    ) -> (Y, Stats<Var>) {
        let at = caller();
        let times = times.into_var(Dtype::F64, at);
        let (structure, leaves) = flatten(&y0);
        let t = problem::sample(times, at);
        let staged = traced(self.name, at, &one(f), (t, y0));
        let (rows, stats) = self.rows(&staged, &Form::of::<Y>(&structure), &leaves, times, at);
        (rebuild(&structure, rows, at), stats)
    }

    fn rows(
        self,
        staged: &Staged,
        form: &Form,
        y: &[Var],
        times: Var,
        at: Loc,
    ) -> (State, Stats<Var>) {
        let ok = problem::checked(self.name, form, y, times, at);
        let types: Vec<_> = y.iter().map(|y| y.ty(at)).collect();
        let Some(slope) = Traced::slope(staged, form, &types).filter(|_| ok) else {
            return problem::poison(y, times, at);
        };
        if times.ty(at).shape[0] == 0 {
            return problem::nothing(y, at);
        }
        on_behalf(self.name, at, || self.stepped(slope, y, times, at))
    }

    fn stepped(self, slope: Traced<'_>, y: &[Var], times: Var, at: Loc) -> (State, Stats<Var>) {
        let joined = Joined::of(y, at);
        let f = |t: Var, y: &[Var]| joined.join(slope.call(t, &joined.split(y)));
        let n = times.len();
        let steps = (n - 1).saturating_mul(self.substeps);
        let y = joined.join(y.to_vec());
        let rows: State = if n == 1 {
            y.iter().map(|y| y.expand_dims(0)).collect()
        } else {
            let between = |(y, (start, end)): (State, (Var, Var))| {
                let h = (end - start) / self.substeps as f64;
                let step = |(i, y): (Var, State)| {
                    let t = start + h * i.convert(h.dtype());
                    self.method.step(&f, (t, h), &y, &f(t, &y)).0
                };
                let y = fori_loop(self.substeps, step, y);
                (y.clone(), y)
            };
            let ends = (times.slice_axis(0, ..n - 1), times.slice_axis(0, 1..));
            let (_, rows) = scan(between, y.clone(), ends);
            y.iter().zip(rows).map(|(y, rows)| concat(&[y.expand_dims(0), rows], 0)).collect()
        };
        let rows: State = joined.split_rows(&rows, n);
        let finite = rows.iter().map(|y| y.is_finite().all()).reduce(|x, y| x & y);
        let finite = finite.unwrap_or_else(|| constant(true));
        let status = select(finite, Status::Done as i64, Status::NotFinite as i64);
        let evaluations = steps.saturating_mul(self.method.b.len());
        let stats = Stats {
            status,
            accepted: constant(i64::try_from(steps).unwrap_or(i64::MAX)),
            evaluations: constant(i64::try_from(evaluations).unwrap_or(i64::MAX)),
            ..Stats::none()
        };
        (rows, stats)
    }
}
