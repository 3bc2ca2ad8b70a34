//! The loop of adaptive methods.
//!
//! A `scan` runs over the requested times. For each time, a `while_loop` takes steps until one ends at or beyond
//! it, and the dense output of that step is evaluated there. The last step ends exactly at the last time. Within a
//! step, a `while_loop` tries step sizes until the error is small enough.
//!
//! The trial steps and their results are constants for derivatives. The derivative of an accepted step is a custom
//! rule that computes the step once more ([`custom_jvp`]). So a rejected trial, whose stages may be nan, does not
//! affect a gradient (zero times nan is nan), and the reverse pass runs over accepted steps only. If derivatives
//! are needed, this costs one more evaluation of each step.

use super::control::{LEAST_ERROR, Tolerance, first_length, grown, shrunk};
use super::events::{Crossing, Event};
use super::method::{Interpolant, Method, StepEnd};
use super::state::{Open, State, chosen, constants, difference};
use super::{Stats, Status};
use crate::Var;
use crate::control::{cond, scan, while_loop};
use crate::dtype::epsilon;
use crate::ops::functions::{concat, constant, select};
use crate::transform::{custom_jvp, jvp};
use tapeloom_derive::Tree;
use tapeloom_ir::Dtype;

/// An adaptive method with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integrator {
    pub(super) method: Method,
    pub(super) tolerance: Tolerance,
    /// The first step size, in the dtype of times.
    pub(super) first_step: Option<Var>,
    pub(super) largest_step: Option<Var>,
    pub(super) max_steps: usize,
    pub(super) crossing: Crossing,
}

/// The state of an integration between two steps.
#[derive(Tree, Clone, Debug)]
pub(super) struct Integration<T> {
    pub(super) t: T,
    pub(super) y: Vec<T>,
    pub(super) slope: Vec<T>,
    /// The last accepted step, which ended at `t`.
    pub(super) interpolant: Interpolant<T>,
    /// The size of the next trial step, with its sign.
    h: T,
    /// The error of the last accepted step, in units of the tolerance.
    error: T,
    /// The sign of the event function at `t`, or, where the function is 0, its last nonzero sign. `None` if there is no
    /// event.
    sign: Option<T>,
    /// For each integral q whose error counts, the sum of the absolute changes |Δq| of all steps so far.
    pub(super) moved: Vec<T>,
    pub(super) stats: Stats<T>,
}

/// A trial step.
#[derive(Tree, Clone, Debug)]
struct Trial<T> {
    /// The size of this step if it was accepted, else the size of the next trial.
    h: T,
    end: StepEnd<T>,
    error: T,
    accepted: T,
    rejected: T,
    status: T,
}

/// The initial value problem.
#[derive(Clone, Copy)]
pub(super) struct Ivp<'a> {
    slope: Open<'a>,
    /// The floats that the slope captures.
    given: &'a [Var],
    event: Option<Event<'a>>,
    /// The last time.
    end: Var,
    /// 1 if times ascend, -1 if they descend, 0 if the last time equals the first one.
    direction: Var,
    /// A lower bound of the step size that does not depend on the time. Near large times the bound is higher; see
    /// [`ROUNDINGS`].
    shortest: Var,
}

/// The smallest step size allowed, in units of the rounding error of the current time.
const ROUNDINGS: f64 = 10.0;

impl Integrator {
    /// Integrates over `times`, a nonempty vector. Returns the states at all times, and the state of the integration at
    /// its end.
    pub(super) fn solve(
        &self,
        slope: (Open<'_>, &[Var]),
        event: Option<Event<'_>>,
        y: &[Var],
        times: Var,
    ) -> (State, Integration<Var>) {
        self.solve_on(slope, event, (y, &[]), times)
    }

    /// Integrates like [`Integrator::solve`], but continues an earlier integration. `moved` contains, for each
    /// integral q that the error control includes, the sum of |Δq| over the earlier steps.
    pub(super) fn solve_on(
        &self,
        (slope, given): (Open<'_>, &[Var]),
        event: Option<Event<'_>>,
        (y, moved): (&[Var], &[Var]),
        times: Var,
    ) -> (State, Integration<Var>) {
        let (start, end) = (times.index(0), times.index(-1).stop_gradient());
        let span = end - start.stop_gradient();
        let shortest = span.abs() * epsilon(times.dtype()).powi(2);
        let direction = span.signum();
        // `t + h` may exceed the end by a rounding error, and the slope may be undefined there. So evaluate the slope
        // at the end instead.
        let slope = |t: Var, y: &[Var], given: &[Var]| {
            let beyond = ((t.stop_gradient() - end) * direction).maximum(0.0) * direction;
            slope(t - beyond.stop_gradient(), y, given)
        };
        let ivp = Ivp { slope: &slope, given, event, end, direction, shortest };
        let integration = self.start(&ivp, (y, moved), times);
        if times.len() == 1 {
            return (y.iter().map(|y| y.expand_dims(0)).collect(), integration);
        }
        let (integration, rows) = scan(
            |(integration, at): (Integration<Var>, Var)| {
                let integration = self.advance(&ivp, integration, at);
                let row = self.row(&ivp, &integration, at);
                (integration, row)
            },
            integration,
            times.slice_axis(0, 1..),
        );
        let rows = y.iter().zip(rows).map(|(y, rows)| concat(&[y.expand_dims(0), rows], 0));
        (rows.collect(), integration)
    }

    /// Returns the state of the integration before the first step.
    fn start(&self, ivp: &Ivp<'_>, (y, moved): (&[Var], &[Var]), times: Var) -> Integration<Var> {
        let t = times.index(0);
        let (slope, finite) = Self::first_slope(ivp, t, y);
        let (guess, evaluations) = match self.first_step {
            Some(h) => (h.abs(), 1i64),
            None => {
                let given = constants(ivp.given);
                let f = |t: Var, y: &[Var]| (ivp.slope)(t, y, &given);
                let at = (t.stop_gradient(), ivp.direction);
                let known = (&constants(y)[..], &constants(&slope)[..]);
                (first_length(&f, self.method.order(), &self.tolerance, at, known), 2)
            }
        };
        // If the last time equals the first one, the direction is 0. Then the times count as ordered only if all of
        // them are equal.
        let steps = times.diff(0);
        let still = steps.eq(0.0).all();
        let ordered = (steps * ivp.direction).ge(0.0).all() & (still | ivp.direction.ne(0.0));
        let ordered = ordered & times.is_finite().all();
        let status = select(finite | still, Status::Done as i64, Status::NotFinite as i64);
        let status = select(ordered, status, Status::UnorderedTimes as i64);
        Integration {
            t,
            interpolant: self.method.before(t, y, &slope),
            y: y.to_vec(),
            slope,
            h: self.bounded(ivp.direction * guess).stop_gradient(),
            error: t.zeros_like() + LEAST_ERROR,
            sign: ivp.event.map(|event| event(t, y).stop_gradient().signum()),
            moved: moved.to_vec(),
            stats: Stats { status, evaluations: constant(evaluations), ..Stats::none() },
        }
    }

    /// Returns the slope before the first step, and whether it is finite. If the slope is not finite, the slope and its
    /// derivative are replaced by zeros. This affects no result, because the integration ends before its first step.
    fn first_slope(ivp: &Ivp<'_>, t: Var, y: &[Var]) -> (State, Var) {
        type Point = (Var, State, State);
        let finite = |slope: &[Var]| {
            let all = slope.iter().map(|k| k.stop_gradient().is_finite().all());
            all.reduce(|x, y| x & y).unwrap_or_else(|| constant(true))
        };
        let masked = |on: Var, x: &[Var]| -> State {
            x.iter().map(|x| select(on, *x, x.zeros_like())).collect()
        };
        let f = |(t, y, given): Point| -> (State, Var) {
            let slope = (ivp.slope)(t, &y, &given);
            let on = finite(&slope);
            (masked(on, &slope), on)
        };
        // Where the slope is not finite, the rule must return zeros. It selects them by `cond` instead of a mask: zero
        // times an infinite derivative is nan, and second derivatives would multiply masked tangents and cotangents by
        // a state that is nan.
        let ruled = custom_jvp(f, |from: Point, moved: Point| {
            let (_, on) = f(from.clone());
            let known = |(from, moved): (Point, Point)| jvp(|x: Point| f(x).0)((from, moved));
            let none = |((_, y, _), _): (Point, Point)| {
                let zeros: State = y.iter().map(|y| y.zeros_like()).collect();
                (zeros.clone(), zeros)
            };
            let (slope, change) = cond(on, known, none, (from, moved));
            ((slope, on), (change, on))
        });
        ruled((t, y.to_vec(), ivp.given.to_vec()))
    }

    /// Adds |Δq| of a step between the states `ends` to the sums `before`, for each integral q whose error counts.
    fn moved(&self, before: &[Var], ends: [&[Var]; 2]) -> State {
        let [y, end] = ends.map(|y| constants(self.tolerance.counted(y)));
        let steps = difference(&end, &y).into_iter();
        before.iter().zip(steps).map(|(sum, dq)| *sum + dq.abs()).collect()
    }

    /// Limits the absolute value of a step size to the user's largest step size, if one is set.
    fn bounded(&self, h: Var) -> Var {
        match self.largest_step {
            Some(most) => h.clamp(-most.abs(), most.abs()),
            None => h,
        }
    }

    /// Takes steps until one ends at or beyond `at`, or until the integration stops.
    fn advance(&self, ivp: &Ivp<'_>, integration: Integration<Var>, at: Var) -> Integration<Var> {
        let (at, direction) = (at.stop_gradient(), ivp.direction);
        while_loop(
            |w: Integration<Var>| {
                ((at - w.t) * direction).gt(0.0) & w.stats.status.eq(Status::Done as i64)
            },
            |w: Integration<Var>| self.step(ivp, w),
            integration,
        )
    }

    /// Tries shorter and shorter steps until the error is small enough. All results are constants for derivatives.
    fn trial(&self, ivp: &Ivp<'_>, w: &Integration<Var>) -> Trial<Var> {
        let (t, left) = (w.t.stop_gradient(), ivp.end - w.t.stop_gradient());
        let (y, slope, given) = (constants(&w.y), constants(&w.slope), constants(ivp.given));
        let f = |t: Var, y: &[Var]| (ivp.slope)(t, y, &given);
        let shortest = ivp.shortest.maximum(ROUNDINGS * epsilon(t.dtype()) * t.abs());
        let most = i64::try_from(self.max_steps).unwrap_or(i64::MAX);
        let before = w.stats.accepted + w.stats.rejected;
        let none = Trial {
            h: w.h.stop_gradient(),
            end: self.method.zero_end(&w.y),
            error: w.error.stop_gradient(),
            accepted: constant(false),
            rejected: constant(0i64),
            status: w.stats.status,
        };
        while_loop(
            |s: Trial<Var>| !s.accepted & s.status.eq(Status::Done as i64),
            |s: Trial<Var>| {
                let h = select(reaches(s.h, left), left, s.h);
                let (end, errors) = self.method.step(&f, (t, h), &y, &slope);
                let moved = self.moved(&w.moved, [&y, &end.y]);
                let error = self.tolerance.error(&errors, [&y, &end.y], &moved);
                let accepted = error.le(1.0);
                let next = select(accepted, h, h * shrunk(self.method.order(), error));
                let failure = select(
                    error.is_finite(),
                    Status::StepTooSmall as i64,
                    Status::NotFinite as i64,
                );
                let out = (before + s.rejected).ge(most);
                let status = select(out, Status::TooManySteps as i64, s.status);
                // The comparison is negated, so that a step size of nan counts as too short.
                let short = !accepted & !next.abs().gt(shortest);
                let status = select(short, failure, status);
                let rejected = s.rejected + (!accepted).convert(Dtype::I64);
                Trial { h: next, end, error, accepted: accepted & !out, rejected, status }
            },
            none,
        )
    }

    /// Takes one step. Returns the updated integration, or, if no trial was accepted, the integration before the step
    /// with the status of the failure.
    fn step(&self, ivp: &Ivp<'_>, w: Integration<Var>) -> Integration<Var> {
        let trial = self.trial(ivp, &w);
        let accepted = trial.accepted;
        let moved = self.moved(&w.moved, [&w.y, &trial.end.y]);
        // The derivative rule of the step is evaluated even if no trial was accepted. Then use a step size so short
        // that all values of the rule are finite.
        let h = select(accepted, trial.h, ivp.direction * ivp.shortest).stop_gradient();
        let end = self.accepted_end(ivp, &w, (h, accepted), trial.end);
        let (start, left) = (w.t.stop_gradient(), ivp.end - w.t.stop_gradient());

        // The last step must end exactly at the last time, so correct the rounding error of `t + h`. The derivative of
        // the end remains that of `t + h`.
        let t = w.t + h;
        let off = select(h.eq(left), ivp.end - t.stop_gradient(), 0.0);
        let t = t + off.stop_gradient();

        let (sign, crossed) = match (ivp.event, w.sign) {
            (Some(event), Some(before)) => {
                let now = event(t, &end.y).stop_gradient().signum();
                let started = self.crossing.from(before);
                let crossed = accepted & (before * now).le(0.0) & started;
                let now = select(now.eq(0.0), before, now);
                (Some(select(accepted, now, before)), crossed)
            }
            _ => (w.sign, constant(false)),
        };
        // A step that ends at its start time, because it is too short for the dtype, would be repeated forever. End
        // with a status.
        let still = accepted & t.stop_gradient().eq(start);
        let status = select(still, Status::StepTooSmall as i64, trial.status);
        let status = select(crossed, Status::Event as i64, status);

        let longer = grown(self.method.order(), trial.error, w.error);
        // If a trial was rejected in this step, the next step is not longer than this one.
        let longer = select(trial.rejected.gt(0), longer.minimum(1.0), longer);
        let pick = |new: &[Var], old: &[Var]| chosen(accepted, new, old);
        let terms = end.terms.iter().zip(&w.interpolant.terms);
        let tries = trial.rejected + accepted.convert(Dtype::I64);
        Integration {
            interpolant: Interpolant {
                t: select(accepted, w.t, w.interpolant.t),
                h: select(accepted, h, w.interpolant.h),
                y: pick(&w.y, &w.interpolant.y),
                terms: terms.map(|(new, old)| pick(new, old)).collect(),
            },
            t: select(accepted, t, w.t),
            y: pick(&end.y, &w.y),
            slope: pick(&end.slope, &w.slope),
            h: self.bounded(h * longer).stop_gradient(),
            error: trial.error.maximum(LEAST_ERROR).stop_gradient(),
            sign,
            moved: pick(&moved, &w.moved),
            stats: Stats {
                status,
                accepted: w.stats.accepted + accepted.convert(Dtype::I64),
                rejected: w.stats.rejected + trial.rejected,
                evaluations: w.stats.evaluations + tries * self.method.evaluations() as i64,
                jacobians: w.stats.jacobians + tries * self.method.jacobians() as i64,
            },
        }
    }

    /// Returns `end`, the result of the accepted trial, with the derivative of a step of size `h`. If no trial was
    /// accepted, the derivative is 0.
    fn accepted_end(
        &self,
        ivp: &Ivp<'_>,
        w: &Integration<Var>,
        (h, accepted): (Var, Var),
        end: StepEnd<Var>,
    ) -> StepEnd<Var> {
        type Point = (Var, State, State, State);
        let step = |(t, y, slope, given): Point| {
            let f = |t: Var, y: &[Var]| (ivp.slope)(t, y, &given);
            self.method.step(&f, (t, h), &y, &slope).0
        };
        // If no step was accepted, derivatives at this point may be infinite, and zero times infinity is nan. In that
        // case evaluate the rule at the beginning of the last accepted step, with tangents of zero.
        let last = w.interpolant.clone();
        let last_slope = last.terms.first().cloned().unwrap_or_default();
        let ruled = custom_jvp(
            |(_, end): (Point, StepEnd<Var>)| end,
            |((t, y, slope, given), _), ((dt, dy, dslope, dgiven), _)| {
                let masked = |dx: &[Var]| -> State {
                    dx.iter().map(|dx| select(accepted, *dx, dx.zeros_like())).collect()
                };
                let kept = |x: &[Var], last: &[Var]| chosen(accepted, x, &constants(last));
                let t = select(accepted, t, last.t.stop_gradient());
                let from = (t, kept(&y, &last.y), kept(&slope, &last_slope), given);
                let moved = (select(accepted, dt, 0.0), masked(&dy), masked(&dslope), dgiven);
                // As the value, the rule returns the end that it computes, not the given `end`: otherwise second
                // derivatives would miss the dependence of the value on the step.
                jvp(step)((from, moved))
            },
        );
        let from = (w.t, w.y.clone(), w.slope.clone(), ivp.given.to_vec());
        ruled((from, end))
    }

    /// Returns the state at time `at`. If the integration did not reach this time, the state is nan.
    fn row(&self, ivp: &Ivp<'_>, w: &Integration<Var>, at: Var) -> State {
        let reached = w.reached(ivp.direction, at);
        // If `at` was not reached, it may be infinite. Evaluate the dense output at the end of the last step instead;
        // the result is replaced by nan.
        let at = select(reached, at, w.t);
        let row = self.method.between(&w.interpolant, (&w.y, &w.slope), at);
        row.into_iter().map(|y| select(reached, y, f64::NAN)).collect()
    }
}

impl Integration<Var> {
    /// Returns, for each time in `at`, whether the integration has reached it.
    pub(super) fn reached(&self, direction: Var, at: Var) -> Var {
        ((at - self.t) * direction).le(0.0) & self.stats.status.ne(Status::UnorderedTimes as i64)
    }
}

/// Returns whether a step of size `h` reaches the end, which is at the distance `left`. If less than a millionth of the
/// step would remain, the end counts as reached.
fn reaches(h: Var, left: Var) -> Var {
    (h * (1.0 + 1e-6)).abs().ge(left.abs())
}
