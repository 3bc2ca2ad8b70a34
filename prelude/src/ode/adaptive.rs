//! The loop of adaptive methods.
//!
//! A `scan` over the times asked for; for each, a `while_loop` takes steps until one ends at it or beyond it, and the dense
//! output of that step is evaluated there. The last step ends at the last time. In a step, a `while_loop` tries lengths
//! until the error is small enough.
//!
//! What is tried is a constant of derivatives, and so is what comes of it: the derivative of a step that was accepted is a rule
//! that takes the step once more ([`custom_jvp`]). So a try that was rejected, whose stages may not be numbers, has no say in a
//! gradient (zero times nan is nan), and the way back goes through steps, and not through tries. It costs one more
//! evaluation of each step, where derivatives are asked for.

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

/// A method and what it is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integrator {
    pub(super) method: Method,
    pub(super) tolerance: Tolerance,
    /// Lengths of steps, in the dtype of times.
    pub(super) first_step: Option<Var>,
    pub(super) largest_step: Option<Var>,
    pub(super) max_steps: usize,
    pub(super) crossing: Crossing,
}

/// Where an integration is.
#[derive(Tree, Clone, Debug)]
pub(super) struct Integration<T> {
    pub(super) t: T,
    pub(super) y: Vec<T>,
    pub(super) slope: Vec<T>,
    /// The step that ended here.
    pub(super) interpolant: Interpolant<T>,
    /// The next step to try, with its sign.
    h: T,
    /// The error of the last step that was taken.
    error: T,
    /// The sign of the event, where there is one: the last that was not zero.
    sign: Option<T>,
    /// The sums of |Δq| so far, for the integrals q whose errors count.
    pub(super) moved: Vec<T>,
    pub(super) stats: Stats<T>,
}

/// A trial step.
#[derive(Tree, Clone, Debug)]
struct Trial<T> {
    /// Its length; after a rejection, that of the next one.
    h: T,
    end: StepEnd<T>,
    error: T,
    accepted: T,
    rejected: T,
    status: T,
}

/// What is integrated.
#[derive(Clone, Copy)]
pub(super) struct Ivp<'a> {
    slope: Open<'a>,
    /// The floats that the slope captures.
    given: &'a [Var],
    event: Option<Event<'a>>,
    /// Where it ends.
    end: Var,
    /// 1 where times ascend, -1 where they descend, 0 where there is nothing to do.
    direction: Var,
    /// Shorter steps are too small, wherever they are.
    shortest: Var,
}

/// Steps shorter than so many rounding errors of the time are too small.
const ROUNDINGS: f64 = 10.0;

impl Integrator {
    /// The states at times, at least one, and where the integration ended.
    pub(super) fn solve(
        &self,
        slope: (Open<'_>, &[Var]),
        event: Option<Event<'_>>,
        y: &[Var],
        times: Var,
    ) -> (State, Integration<Var>) {
        self.solve_on(slope, event, (y, &[]), times)
    }

    /// Like [`Integrator::solve`]. `moved` has the sums of |Δq| before the first of these times, for the integrals
    /// whose errors count.
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
        // `t + h` may be a rounding error beyond the end, where there need be no slope.
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

    /// Before the first step.
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
        // If the last time is the first one, the direction is 0, and the times are ordered only if all of them are equal.
        let steps = times.diff(1, 0);
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

    /// Returns the slope before the first step, and whether it is finite. If not, the slope and its derivative are
    /// replaced by zeros: no step begins there, so no state that is reached depends on the slope.
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
        // The rule is a branch and not a mask: zero times an infinite derivative is nan, and second derivatives would
        // multiply masked tangents and cotangents by a state that is nan.
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

    /// Returns the sums of |Δq| after a step between the states `ends`, for the integrals whose errors count.
    fn moved(&self, before: &[Var], ends: [&[Var]; 2]) -> State {
        let [y, end] = ends.map(|y| constants(self.tolerance.counted(y)));
        let steps = difference(&end, &y).into_iter();
        before.iter().zip(steps).map(|(sum, dq)| *sum + dq.abs()).collect()
    }

    /// A length with its sign, not larger than the largest.
    fn bounded(&self, h: Var) -> Var {
        match self.largest_step {
            Some(most) => h.clamp(-most.abs(), most.abs()),
            None => h,
        }
    }

    /// Steps until one ends at a time or beyond it, or there are no more.
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

    /// Lengths, each shorter than the one before, until an error is small enough; all of it constants.
    fn trial(&self, ivp: &Ivp<'_>, w: &Integration<Var>) -> Trial<Var> {
        let (t, left) = (w.t.stop_gradient(), ivp.end - w.t.stop_gradient());
        let (y, slope, given) = (constants(&w.y), constants(&w.slope), constants(ivp.given));
        let f = |t: Var, y: &[Var]| (ivp.slope)(t, y, &given);
        let shortest = ivp.shortest.maximum(ROUNDINGS * epsilon(t.dtype()) * t.abs());
        let most = i64::try_from(self.max_steps).unwrap_or(i64::MAX);
        let before = w.stats.accepted + w.stats.rejected;
        let none = Trial {
            h: w.h.stop_gradient(),
            end: self.method.nowhere(&w.y),
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
                // What is no number is not longer either.
                let short = !accepted & !next.abs().gt(shortest);
                let status = select(short, failure, status);
                let rejected = s.rejected + (!accepted).convert(Dtype::I64);
                Trial { h: next, end, error, accepted: accepted & !out, rejected, status }
            },
            none,
        )
    }

    /// A step, unless there is none.
    fn step(&self, ivp: &Ivp<'_>, w: Integration<Var>) -> Integration<Var> {
        let trial = self.trial(ivp, &w);
        let accepted = trial.accepted;
        let moved = self.moved(&w.moved, [&w.y, &trial.end.y]);
        // Where there is none, its rule is still evaluated: for a step so short that all of it are numbers.
        let h = select(accepted, trial.h, ivp.direction * ivp.shortest).stop_gradient();
        let end = self.taken(ivp, &w, (h, accepted), trial.end);
        let (start, left) = (w.t.stop_gradient(), ivp.end - w.t.stop_gradient());

        // The last step ends where it should, to the last bit; the derivative is that of `t + h`.
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
        // A step that ends where it began would be taken for ever.
        let still = accepted & t.stop_gradient().eq(start);
        let status = select(still, Status::StepTooSmall as i64, trial.status);
        let status = select(crossed, Status::Event as i64, status);

        let longer = grown(self.method.order(), trial.error, w.error);
        // After a rejection a step does not grow.
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

    /// Returns the known end of a step, with the derivative of the step. If the step was not accepted, its derivative
    /// is 0.
    fn taken(
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
        // If no step was accepted, derivatives at this point may be infinite, and zero times infinity is nan. So the
        // rule is evaluated at the beginning of the last accepted step, with tangents of zero.
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
                // The rule returns the state that the step returns, so that derivatives of the rule are those of the
                // step.
                jvp(step)((from, moved))
            },
        );
        let from = (w.t, w.y.clone(), w.slope.clone(), ivp.given.to_vec());
        ruled((from, end))
    }

    /// The state at a time, nan where the integration has not come.
    fn row(&self, ivp: &Ivp<'_>, w: &Integration<Var>, at: Var) -> State {
        let reached = w.reached(ivp.direction, at);
        // A time that was not reached may be infinite, so read the dense output at the last time instead.
        let at = select(reached, at, w.t);
        let row = self.method.between(&w.interpolant, (&w.y, &w.slope), at);
        row.into_iter().map(|y| select(reached, y, f64::NAN)).collect()
    }
}

impl Integration<Var> {
    /// Whether the integration has reached a time; for several times one answer each.
    pub(super) fn reached(&self, direction: Var, at: Var) -> Var {
        ((at - self.t) * direction).le(0.0) & self.stats.status.ne(Status::UnorderedTimes as i64)
    }
}

/// Whether a step comes to the end. A rest that is a rounding error belongs to the step before.
fn reaches(h: Var, left: Var) -> Var {
    (h * (1.0 + 1e-6)).abs().ge(left.abs())
}
