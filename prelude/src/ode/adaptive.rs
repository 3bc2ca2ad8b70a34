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
use super::events::Event;
use super::method::{Landing, Method, Piece};
use super::state::{Open, State, chosen, constants};
use super::{Stats, Status};
use crate::Var;
use crate::control::{scan, while_loop};
use crate::ops::functions::{concat, constant, select};
use crate::transform::{custom_jvp, jvp};
use tapeloom_derive::Tree;
use tapeloom_ir::Dtype;

/// A method and what it is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) tolerance: Tolerance,
    /// Lengths, with or without sign, in the dtype of times.
    pub(super) first_step: Option<Var>,
    pub(super) largest_step: Option<Var>,
    pub(super) max_steps: usize,
}

/// Where an integration is.
#[derive(Tree, Clone, Debug)]
pub(super) struct Walk<T> {
    pub(super) t: T,
    pub(super) y: Vec<T>,
    pub(super) slope: Vec<T>,
    /// The step that ended here.
    pub(super) piece: Piece<T>,
    /// The next step to try, with its sign.
    h: T,
    /// The error of the last step that was taken.
    error: T,
    /// The sign of the event, where there is one: the last that was not zero.
    sign: Option<T>,
    pub(super) stats: Stats<T>,
}

/// A step that is tried.
#[derive(Tree, Clone, Debug)]
struct Try<T> {
    /// Its length; after a rejection, that of the next one.
    h: T,
    landing: Landing<T>,
    error: T,
    accepted: T,
    rejected: T,
    status: T,
}

/// What is integrated.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
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

impl Plan {
    /// The states at times, at least one, and where the integration ended.
    pub(super) fn solve(
        &self,
        (slope, given): (Open<'_>, &[Var]),
        event: Option<Event<'_>>,
        y: &[Var],
        times: Var,
    ) -> (State, Walk<Var>) {
        let (start, end) = (times.index(0), times.index(-1).stop_gradient());
        let span = end - start.stop_gradient();
        let shortest = span.abs() * epsilon(times.dtype()).powi(2);
        let course = Course { slope, given, event, end, direction: span.signum(), shortest };
        let walk = self.start(&course, y, times);
        if times.len() == 1 {
            return (y.iter().map(|y| y.expand_dims(0)).collect(), walk);
        }
        let (walk, rows) = scan(
            |(walk, at): (Walk<Var>, Var)| {
                let walk = self.advance(&course, walk, at);
                let row = self.row(&course, &walk, at);
                (walk, row)
            },
            walk,
            times.slice_axis(0, 1..),
        );
        let rows = y.iter().zip(rows).map(|(y, rows)| concat(&[y.expand_dims(0), rows], 0));
        (rows.collect(), walk)
    }

    /// Before the first step.
    fn start(&self, course: &Course<'_>, y: &[Var], times: Var) -> Walk<Var> {
        let t = times.index(0);
        let slope = (course.slope)(t, y, course.given);
        let (guess, evaluations) = match self.first_step {
            Some(h) => (h.abs(), 1i64),
            None => {
                let given = constants(course.given);
                let f = |t: Var, y: &[Var]| (course.slope)(t, y, &given);
                let at = (t.stop_gradient(), course.direction);
                let known = (&constants(y)[..], &constants(&slope)[..]);
                (first_length(&f, self.method.order(), &self.tolerance, at, known), 2)
            }
        };
        let steps = times.diff(1, 0) * course.direction;
        let ordered = steps.ge(0.0).all() & times.is_finite().all();
        let status = select(ordered, Status::Done as i64, Status::UnorderedTimes as i64);
        Walk {
            t,
            piece: self.method.before(t, y, &slope),
            y: y.to_vec(),
            slope,
            h: self.bounded(course.direction * guess).stop_gradient(),
            error: t.zeros_like() + LEAST_ERROR,
            sign: course.event.map(|event| event(t, y).stop_gradient().signum()),
            stats: Stats { status, evaluations: constant(evaluations), ..Stats::none() },
        }
    }

    /// A length with its sign, not larger than the largest.
    fn bounded(&self, h: Var) -> Var {
        match self.largest_step {
            Some(most) => h.clamp(-most.abs(), most.abs()),
            None => h,
        }
    }

    /// Steps until one ends at a time or beyond it, or there are no more.
    fn advance(&self, course: &Course<'_>, walk: Walk<Var>, at: Var) -> Walk<Var> {
        let (at, direction) = (at.stop_gradient(), course.direction);
        while_loop(
            |w: Walk<Var>| {
                ((at - w.t) * direction).gt(0.0) & w.stats.status.eq(Status::Done as i64)
            },
            |w: Walk<Var>| self.step(course, w),
            walk,
        )
    }

    /// Lengths, each shorter than the one before, until an error is small enough; all of it constants.
    fn tried(&self, course: &Course<'_>, w: &Walk<Var>) -> Try<Var> {
        let (t, left) = (w.t.stop_gradient(), course.end - w.t.stop_gradient());
        let (y, slope, given) = (constants(&w.y), constants(&w.slope), constants(course.given));
        let f = |t: Var, y: &[Var]| (course.slope)(t, y, &given);
        let shortest = course.shortest.maximum(ROUNDINGS * epsilon(t.dtype()) * t.abs());
        let most = i64::try_from(self.max_steps).unwrap_or(i64::MAX);
        let before = w.stats.accepted + w.stats.rejected;
        let none = Try {
            h: w.h.stop_gradient(),
            landing: self.method.nowhere(&w.y),
            error: w.error.stop_gradient(),
            accepted: constant(false),
            rejected: constant(0i64),
            status: w.stats.status,
        };
        while_loop(
            |s: Try<Var>| !s.accepted & s.status.eq(Status::Done as i64),
            |s: Try<Var>| {
                let h = select(reaches(s.h, left), left, s.h);
                let (landing, errors) = self.method.step(&f, (t, h), &y, &slope);
                let error = self.tolerance.norm(&errors, &[&y, &landing.y]);
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
                Try { h: next, landing, error, accepted: accepted & !out, rejected, status }
            },
            none,
        )
    }

    /// A step, unless there is none.
    fn step(&self, course: &Course<'_>, w: Walk<Var>) -> Walk<Var> {
        let tried = self.tried(course, &w);
        let accepted = tried.accepted;
        // Where there is none, its rule is still evaluated: for a step so short that all of it are numbers.
        let h = select(accepted, tried.h, course.direction * course.shortest).stop_gradient();
        let landing = self.taken(course, &w, h, tried.landing);
        let (start, left) = (w.t.stop_gradient(), course.end - w.t.stop_gradient());

        // The last step ends where it should, to the last bit; the derivative is that of `t + h`.
        let t = w.t + h;
        let off = select(h.eq(left), course.end - t.stop_gradient(), 0.0);
        let t = t + off.stop_gradient();

        let (sign, crossed) = match (course.event, w.sign) {
            (Some(event), Some(before)) => {
                let now = event(t, &landing.y).stop_gradient().signum();
                let crossed = accepted & (before * now).le(0.0) & before.ne(0.0);
                let now = select(now.eq(0.0), before, now);
                (Some(select(accepted, now, before)), crossed)
            }
            _ => (w.sign, constant(false)),
        };
        // A step that ends where it began would be taken for ever.
        let still = accepted & t.stop_gradient().eq(start);
        let status = select(still, Status::StepTooSmall as i64, tried.status);
        let status = select(crossed, Status::Event as i64, status);

        let longer = grown(self.method.order(), tried.error, w.error);
        // After a rejection a step does not grow.
        let longer = select(tried.rejected.gt(0), longer.minimum(1.0), longer);
        let pick = |new: &[Var], old: &[Var]| chosen(accepted, new, old);
        let terms = landing.terms.iter().zip(&w.piece.terms);
        let tries = tried.rejected + accepted.convert(Dtype::I64);
        Walk {
            piece: Piece {
                t: select(accepted, w.t, w.piece.t),
                h: select(accepted, h, w.piece.h),
                y: pick(&w.y, &w.piece.y),
                terms: terms.map(|(new, old)| pick(new, old)).collect(),
            },
            t: select(accepted, t, w.t),
            y: pick(&landing.y, &w.y),
            slope: pick(&landing.slope, &w.slope),
            h: self.bounded(h * longer).stop_gradient(),
            error: tried.error.maximum(LEAST_ERROR).stop_gradient(),
            sign,
            stats: Stats {
                status,
                accepted: w.stats.accepted + accepted.convert(Dtype::I64),
                rejected: w.stats.rejected + tried.rejected,
                evaluations: w.stats.evaluations + tries * self.method.evaluations() as i64,
                jacobians: w.stats.jacobians + tries * self.method.jacobians() as i64,
            },
        }
    }

    /// Where a step ended, which is known, with the derivative of the step.
    fn taken(
        &self,
        course: &Course<'_>,
        w: &Walk<Var>,
        h: Var,
        landing: Landing<Var>,
    ) -> Landing<Var> {
        type Point = (Var, State, State, State);
        let step = |(t, y, slope, given): Point| {
            let f = |t: Var, y: &[Var]| (course.slope)(t, y, &given);
            self.method.step(&f, (t, h), &y, &slope).0
        };
        // The rule gives the state, too, as the step gives it: derivatives of the rule are those of the step again.
        let ruled = custom_jvp(
            |(_, landing): (Point, Landing<Var>)| landing,
            |(from, _), (moved, _)| jvp(step)((from, moved)),
        );
        let from = (w.t, w.y.clone(), w.slope.clone(), course.given.to_vec());
        ruled((from, landing))
    }

    /// The state at a time, nan where the integration has not come.
    fn row(&self, course: &Course<'_>, w: &Walk<Var>, at: Var) -> State {
        let reached = ((at - w.t) * course.direction).le(0.0)
            & w.stats.status.ne(Status::UnorderedTimes as i64);
        let row = self.method.between(&w.piece, (&w.y, &w.slope), at);
        row.into_iter().map(|y| select(reached, y, f64::NAN)).collect()
    }
}

/// Whether a step comes to the end. A rest that is a rounding error belongs to the step before.
fn reaches(h: Var, left: Var) -> Var {
    (h * (1.0 + 1e-6)).abs().ge(left.abs())
}

/// The rounding error of a dtype.
pub(super) fn epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}
