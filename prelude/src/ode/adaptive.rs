//! The loop of adaptive methods.
//!
//! A `scan` over the times asked for; for each, a `while_loop` takes steps until one ends at it or beyond it, and the dense
//! output of that step is evaluated there. The last step ends at the last time. A step that is rejected leaves all as it
//! is but the length of the next one.

use super::control::{LEAST_ERROR, Tolerance, factor, first_length};
use super::method::{Method, Piece};
use super::state::{Slope, State, chosen};
use super::{Stats, Status};
use crate::Var;
use crate::control::{scan, while_loop};
use crate::ops::functions::{concat, constant, select};
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
    /// Whether the last try was rejected.
    refused: T,
    /// The sign of the event, where there is one: the last that was not zero.
    sign: Option<T>,
    pub(super) stats: Stats<T>,
}

/// What an integration is of.
#[derive(Clone, Copy)]
pub(super) struct Course<'a> {
    pub(super) slope: Slope<'a>,
    pub(super) event: Option<&'a dyn Fn(Var, &[Var]) -> Var>,
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
        slope: Slope<'_>,
        event: Option<&dyn Fn(Var, &[Var]) -> Var>,
        y: &[Var],
        times: Var,
    ) -> (State, Walk<Var>) {
        let (start, end) = (times.index(0), times.index(-1));
        let span = (end - start).stop_gradient();
        let direction = span.signum();
        let shortest = span.abs() * epsilon(times.dtype()).powi(2);
        let course = Course { slope, event, end, direction, shortest };
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
        let slope = (course.slope)(t, y);
        let (guess, evaluations) = match self.first_step {
            Some(h) => (h.abs(), 1i64),
            None => {
                let (t, y) = (t.stop_gradient(), super::state::constants(y));
                let at = (t, course.direction);
                let known = (&y[..], &super::state::constants(&slope)[..]);
                let order = self.method.order();
                (first_length(course.slope, order, &self.tolerance, at, known), 2)
            }
        };
        let h = self.bounded(course.direction * guess).stop_gradient();
        let ordered = if times.len() < 2 {
            times.is_finite().all()
        } else {
            let steps = times.diff(1, 0) * course.direction;
            steps.ge(0.0).all() & times.is_finite().all()
        };
        let status = select(ordered, Status::Done as i64, Status::UnorderedTimes as i64);
        let sign = course.event.map(|event| event(t, y).stop_gradient().signum());
        Walk {
            t,
            piece: self.method.before(t, y, &slope),
            y: y.to_vec(),
            slope,
            h,
            error: t.zeros_like() + LEAST_ERROR,
            refused: constant(false),
            sign,
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
            |w: Walk<Var>| self.attempt(course, w),
            walk,
        )
    }

    /// A step, which is accepted or not.
    fn attempt(&self, course: &Course<'_>, w: Walk<Var>) -> Walk<Var> {
        let (t, end) = (w.t.stop_gradient(), course.end.stop_gradient());
        let left = end - t;
        // A rest that is a rounding error belongs to the step before.
        let last = (w.h * (1.0 + 1e-6)).abs().ge(left.abs());
        let h = select(last, left, w.h).stop_gradient();
        let taken = self.method.step(course.slope, (w.t, h), &w.y, &w.slope);

        let error = self.tolerance.norm(&taken.error, &[&w.y, &taken.y]);
        let accepted = error.le(1.0);
        let ratio = factor(self.method.order(), accepted, error, w.error);
        // After a rejection a step does not grow.
        let ratio = select(w.refused, ratio.minimum(1.0), ratio);
        let next = self.bounded(h * ratio).stop_gradient();

        // The last step ends where it should, to the last bit; the derivative is that of `t + h`.
        let landed = w.t + h;
        let off = select(last, end - landed.stop_gradient(), 0.0);
        let landed = landed + off.stop_gradient();

        let (sign, crossed) = match (course.event, w.sign) {
            (Some(event), Some(before)) => {
                let now = event(landed, &taken.y).stop_gradient().signum();
                let crossed = accepted & (before * now).le(0.0) & before.ne(0.0);
                let now = select(now.eq(0.0), before, now);
                (Some(select(accepted, now, before)), crossed)
            }
            _ => (w.sign, constant(false)),
        };

        let one = |yes: Var| yes.convert(Dtype::I64);
        let accepted_steps = w.stats.accepted + one(accepted);
        let rejected = w.stats.rejected + one(!accepted);
        let reached = accepted & last;
        let out = (accepted_steps + rejected).ge(self.max_steps as i64) & !reached;
        let rounding = ROUNDINGS * epsilon(t.dtype());
        let short = !next.abs().gt(course.shortest.maximum(rounding * t.abs()));
        // A step that is accepted and ends where it began would go on for ever.
        let stuck = select(accepted, landed.stop_gradient().eq(t), short);
        let number = |status: Status| status as i64;
        let failure =
            select(error.is_finite(), number(Status::StepTooSmall), number(Status::NotFinite));
        let status = select(out, number(Status::TooManySteps), w.stats.status);
        let status = select(stuck, failure, status);
        let status = select(crossed, number(Status::Event), status);

        let pick = |new: &[Var], old: &[Var]| chosen(accepted, new, old);
        let piece = Piece {
            t: select(accepted, w.t, w.piece.t),
            h: select(accepted, h, w.piece.h),
            y: pick(&w.y, &w.piece.y),
            terms: taken
                .terms
                .iter()
                .zip(&w.piece.terms)
                .map(|(new, old)| pick(new, old))
                .collect(),
        };
        Walk {
            t: select(accepted, landed, w.t),
            y: pick(&taken.y, &w.y),
            slope: pick(&taken.slope, &w.slope),
            piece,
            h: next,
            error: select(accepted, error.maximum(LEAST_ERROR), w.error),
            refused: !accepted,
            sign,
            stats: Stats {
                status,
                accepted: accepted_steps,
                rejected,
                evaluations: w.stats.evaluations + self.method.evaluations() as i64,
                jacobians: w.stats.jacobians + self.method.jacobians() as i64,
            },
        }
    }

    /// The state at a time, nan where the integration has not come.
    fn row(&self, course: &Course<'_>, w: &Walk<Var>, at: Var) -> State {
        let reached = ((at - w.t) * course.direction).le(0.0)
            & w.stats.status.ne(Status::UnorderedTimes as i64);
        let row = self.method.between(&w.piece, (&w.y, &w.slope), at);
        row.into_iter().map(|y| select(reached, y, f64::NAN)).collect()
    }
}

/// The rounding error of a dtype.
pub(super) fn epsilon(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}
