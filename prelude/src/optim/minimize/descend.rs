//! The descent loop of BFGS, L-BFGS and Newton's method, and its line search.
//!
//! The length t of a step d satisfies the strong Wolfe conditions, c₁ = 1e-4, c₂ = 0.9:
//!
//! ```text
//! f(x + t d) ≤ f(x) + c₁ t ⟨g, d⟩          enough is gained
//! |⟨g(x + t d), d⟩| ≤ -c₂ ⟨g, d⟩           the slope has become flatter
//! ```
//!
//! The length t is found by interpolation between a length that was too large and one that was too small (Nocedal and
//! Wright, *Numerical Optimization*, 3.5). The cubic through both values and slopes has its minimum there, so the line
//! search of a quadratic loss is exact from its second trial on. Near a minimum, where losses differ only by rounding
//! errors or by noise, the first condition is replaced by a condition on slopes: `⟨g(x + t d), d⟩ ≤ (2 c₁ - 1) ⟨g, d⟩`
//! (Hager and Zhang, *A new conjugate gradient method with guaranteed descent and an efficient line search*, 2005).

use super::{Found, Limits, Status, largest_slope, raised};
use crate::control::while_loop;
use crate::dtype::{epsilon, largest};
use crate::ops::functions::select;
use crate::transform::value_and_grad;
use crate::tree::tree_map2;
use crate::{Tree, Var, constant};
use tapeloom_ir::Dtype;

const GAIN: f64 = 1e-4;
const FLATTER: f64 = 0.9;
/// The largest number of step sizes that are tried along a direction.
const TRIALS: i64 = 50;
/// The search ends if the slope along the direction, twice the predicted decrease of the loss, is at most this number
/// of rounding errors of the loss.
const ROUNDINGS: f64 = 4.0;

/// A point of the search: x, the loss and its gradient.
#[derive(Tree, Clone, Copy)]
pub(super) struct Point<T> {
    pub(super) x: T,
    pub(super) value: T,
    pub(super) gradient: T,
}

/// The change of x and of the gradient in a step.
pub(super) struct Change {
    pub(super) x: Var,
    pub(super) gradient: Var,
}

/// The rule for the first step size that a line search tries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstTrial {
    /// The first step size is 1, because directions of Newton's method have the right length.
    One,
    /// The step size that would lower the loss by as much as the last step did, at most 1 (Nocedal and Wright, 3.60).
    /// Used by a method whose first directions are too long.
    LastDecrease,
}

/// A function from the loss, a point and the method's model of the curvature to the direction of the step.
pub(super) type Direction<'a, K> = &'a dyn Fn(&dyn Fn(Var) -> Var, &Point<Var>, &K) -> Var;

/// A method of descent: its model of the curvature before the first step, and its functions.
pub(super) struct Descent<'a, K> {
    pub(super) known: K,
    pub(super) direction: Direction<'a, K>,
    /// Updates the model of the curvature, given the point before a step and the change in that step.
    pub(super) learn: &'a dyn Fn(K, &Point<Var>, &Change) -> K,
    pub(super) first: FirstTrial,
}

/// The values, besides the point and the method's model, that the descent loop passes from step to step.
#[derive(Tree, Clone, Copy)]
struct Log<T> {
    iterations: T,
    evaluations: T,
    /// The loss at the start of the last step.
    before: T,
    /// Whether the last line search found a step.
    moved: T,
    /// Whether the decrease of the loss in the last step was within its tolerance.
    level: T,
}

/// Takes steps along the method's directions until the gradient is small. If squares of the first gradient would
/// overflow, the method minimizes the loss divided by the size of this gradient.
pub(super) fn descend<K: Tree<Var>>(
    loss: &dyn Fn(Var) -> Var,
    x: Var,
    limits: Limits,
    method: Descent<'_, K>,
) -> Found {
    let (value, gradient) = value_and_grad(loss)(x);
    let unit = unit(gradient);
    let start = Point { x, value: value / unit, gradient: gradient / unit };
    let loss: &dyn Fn(Var) -> Var = &|x| loss(x) / unit;
    let at = |x: Var| {
        let (value, gradient) = value_and_grad(loss)(x);
        Point { x, value, gradient }
    };
    let gtol = raised(limits.gtol.unwrap_or(1e-8), x.dtype());
    let size = |p: &Point<Var>| largest_slope(p.gradient * unit);
    let small = |p: &Point<Var>| size(p).le(gtol) & p.value.is_finite();
    let most = i64::try_from(limits.iterations).unwrap_or(i64::MAX);
    let [zero, rounding] = [constant(0i64), constant(epsilon(x.dtype())).convert(x.dtype())];
    let ftol = limits.ftol.unwrap_or(0.0);
    let noise = |p: &Point<Var>| rounding.maximum(ftol) * p.value.abs();
    let going = |(p, _, log): (Point<Var>, K, Log<Var>)| {
        log.moved & !log.level & log.iterations.lt(most) & !small(&p)
    };
    let step = |(p, known, log): (Point<Var>, K, Log<Var>)| {
        let d = (method.direction)(loss, &p, &known);
        let downhill = d.dot(p.gradient).lt(0.0);
        let d = select(downhill.broadcast_to(d.shape()), d, -p.gradient);
        let slope = d.dot(p.gradient);
        // Before the first step, the scale of the problem is unknown. So the first trial step has at most length 1 if
        // it is along the gradient.
        let size = p.gradient.dot(p.gradient);
        let cautious = 1.0 / select(size.gt(1.0), size, 1.0).sqrt();
        let usual = match method.first {
            FirstTrial::One => cautious.ones_like(),
            FirstTrial::LastDecrease => {
                let guess = 2.02 * (p.value - log.before) / slope;
                select(guess.gt(0.0) & guess.lt(1.0), guess, 1.0)
            }
        };
        let first = select(log.iterations.eq(0), cautious, usual);
        let (next, trials, [good, bounded]) = along(&at, &p, (d, noise(&p)), first);
        // The predicted decrease is half of the slope along `d`. Do not use it for ending the search in the first step,
        // whose scale is unknown, nor if the line search found no upper bound of the step size.
        let known_scale = log.iterations.gt(0) | !good;
        let rounded = known_scale & bounded & (-slope).le(ROUNDINGS * rounding * p.value.abs());
        let still = select(good, p.value - next.value, -0.5 * slope).le(ftol * p.value.abs());
        let level = if ftol > 0.0 { rounded | (bounded & still) } else { rounded };
        let change = Change { x: next.x - p.x, gradient: next.gradient - p.gradient };
        let log = Log {
            iterations: log.iterations + good.convert(Dtype::I64),
            evaluations: log.evaluations + trials,
            before: p.value,
            moved: good,
            level,
        };
        (next, (method.learn)(known, &p, &change), log)
    };
    let begin = Log {
        iterations: zero,
        evaluations: zero + 1,
        before: start.value,
        moved: zero.eq(0),
        level: zero.ne(0),
    };
    let (p, _, log) = while_loop(going, step, (start, method.known, begin));
    let unmoved = select(log.moved, Status::TooManySteps as i64, Status::NoDescent as i64);
    let ended = select(log.level, Status::Loss as i64, unmoved);
    let ended = select(p.value.is_finite(), ended, Status::NotFinite as i64);
    let status = select(small(&p), Status::Gradient as i64, ended);
    Found {
        x: p.x,
        gradient: size(&p),
        status,
        iterations: log.iterations,
        evaluations: log.evaluations,
    }
}

/// Returns the divisor of the loss. If squares of the gradient may overflow, the divisor is the largest absolute value
/// of the gradient; otherwise it is 1.
fn unit(gradient: Var) -> Var {
    if gradient.shape()[0] == 0 {
        return gradient.sum().ones_like();
    }
    let size = gradient.abs().max();
    let outside = size.gt(largest(gradient.dtype()).powf(0.25)) & size.is_finite();
    select(outside, size, 1.0)
}

/// A step size, with the loss and the slope along the direction at the end of that step.
#[derive(Tree, Clone, Copy)]
struct End<T> {
    length: T,
    value: T,
    slope: T,
}

/// The state of a line search.
#[derive(Tree, Clone, Copy)]
struct Trial<T> {
    /// The largest step size so far that lowered the loss enough but was too short.
    low: End<T>,
    /// The smallest step size so far that was too long; infinite if no trial was too long.
    high: End<T>,
    /// The step size of the next trial.
    length: T,
    /// The point at the end of the last trial step.
    point: Point<T>,
    count: T,
    /// Whether the step size of the last trial is accepted.
    good: T,
}

/// Searches from a point along the direction `d`; losses that differ by at most `noise` count as equal. Returns the
/// point at the accepted step size (`from` if no step size was accepted), the number of trials, whether a step size was
/// accepted, and whether the first trial was accepted or some trial was too long.
fn along(
    at: &dyn Fn(Var) -> Point<Var>,
    from: &Point<Var>,
    (d, noise): (Var, Var),
    first: Var,
) -> (Point<Var>, Var, [Var; 2]) {
    let slope = d.dot(from.gradient);
    let zero = from.value.zeros_like();
    let count = constant(0i64);
    let start = Trial {
        low: End { length: zero, value: from.value, slope },
        high: End { length: zero.full_like(f64::INFINITY), value: zero, slope: zero },
        length: first,
        point: *from,
        count,
        good: count.ne(0),
    };
    let again = |t: Trial<Var>| !t.good & t.count.lt(TRIALS);
    let next = |t: Trial<Var>| {
        let point = at(from.x + t.length * d);
        let there = d.dot(point.gradient);
        let gain = point.value.le(from.value + GAIN * t.length * slope);
        let level = point.value.le(from.value + noise) & there.le((2.0 * GAIN - 1.0) * slope);
        let enough = (gain | level) & point.gradient.is_finite().all();
        let good = enough & there.abs().le(-FLATTER * slope);
        let end = End { length: t.length, value: point.value, slope: there };
        let short = enough & there.le(0.0);
        let (low, high) = (chosen(short, end, t.low), chosen(short, t.high, end));
        let inside = select(t.count.rem(3).eq(2), 0.5, interpolated(low, high));
        let inside = low.length + inside * (high.length - low.length);
        let length = select(high.length.is_finite(), inside, extrapolated(low, slope));
        let length = select(good, t.length, length);
        Trial { low, high, length, point, count: t.count + 1, good }
    };
    let t = while_loop(again, next, start);
    // If the trials are exhausted, accept the last one if it lowers the loss, even though its slope is still too steep.
    let lower = t.point.value.lt(from.value) & t.point.gradient.is_finite().all();
    let good = t.good | lower;
    let pick = |there: Var, here: Var| select(good.broadcast_to(there.shape()), there, here);
    let point = Point {
        x: pick(t.point.x, from.x),
        value: pick(t.point.value, from.value),
        gradient: pick(t.point.gradient, from.gradient),
    };
    (point, t.count, [good, t.high.length.is_finite() | t.count.eq(1)])
}

fn chosen(first: Var, a: End<Var>, b: End<Var>) -> End<Var> {
    tree_map2(|a, b| select(first, a, b), &a, &b)
}

/// Returns the position of the minimum of the cubic that interpolates losses and slopes at two step sizes. Position 0
/// is the step size `low`, position 1 is `high`. The position is clamped to 0.1..0.9. It is 0.5 if the cubic has no
/// minimum there.
fn interpolated(low: End<Var>, high: End<Var>) -> Var {
    let width = high.length - low.length;
    let (a, b) = (low.slope * width, high.slope * width);
    let c = a + b - 3.0 * (high.value - low.value);
    let square = c * c - a * b;
    let root = select(square.ge(0.0), square, 0.0).sqrt();
    let inside = 1.0 - (b + root - c) / (b - a + 2.0 * root);
    let found = square.ge(0.0) & inside.is_finite();
    select(found, inside, 0.5).maximum(0.1).minimum(0.9)
}

/// Returns a step size that is 1.5 to 10 times as long as `low`: the one at which the slope would be 0 if it changed
/// linearly, from `slope` at the start of the search through `low.slope` at `low`.
fn extrapolated(low: End<Var>, slope: Var) -> Var {
    let change = low.slope - slope;
    let flattens = change.gt(0.0);
    let factor = 1.0 - low.slope / select(flattens, change, 1.0);
    low.length * select(flattens, factor, 10.0).maximum(1.5).minimum(10.0)
}
