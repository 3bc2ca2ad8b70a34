//! The descent loop that the methods share, and its line search.
//!
//! The length t of a step d satisfies the weak Wolfe conditions, c₁ = 1e-4, c₂ = 0.9:
//!
//! ```text
//! f(x + t d) ≤ f(x) + c₁ t ⟨g, d⟩          enough is gained
//! ⟨g(x + t d), d⟩ ≥ c₂ ⟨g, d⟩              the slope has become flatter
//! ```
//!
//! t is found by bisection between a t that was too large and one that was too small (Lewis and Overton, *Nonsmooth
//! optimization via quasi-Newton methods*, 2013). Near a minimum, where losses differ only by rounding errors, the
//! first condition is replaced by a condition on slopes: `⟨g(x + t d), d⟩ ≤ (2 c₁ - 1) ⟨g, d⟩` (Hager and Zhang, *A
//! new conjugate gradient method with guaranteed descent and an efficient line search*, 2005).

use super::{Found, Limits, small};
use crate::control::while_loop;
use crate::dtype::{epsilon, largest};
use crate::ops::functions::select;
use crate::transform::value_and_grad;
use crate::{Tree, Var, constant};
use tapeloom_ir::Dtype;

const GAIN: f64 = 1e-4;
const FLATTER: f64 = 0.9;
/// The largest number of step sizes that are tried along a direction.
const TRIALS: i64 = 50;
/// The search ends if the predicted decrease is smaller than this number of rounding errors of the loss.
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

/// Returns the step direction at a point, given the loss and the method's model of its curvature.
pub(super) type Direction<'a, K> = &'a dyn Fn(&dyn Fn(Var) -> Var, &Point<Var>, &K) -> Var;

/// Takes steps along `direction` until the gradient is small. After each step, `learn` updates `known`, the
/// method's model. `direction` is given a loss that may be scaled: if squares of the gradient would overflow or
/// underflow, the loss is divided by the size of its gradient.
pub(super) fn descend<K: Tree<Var>>(
    loss: &dyn Fn(Var) -> Var,
    x: Var,
    limits: Limits,
    known: K,
    direction: Direction<'_, K>,
    learn: &dyn Fn(K, &Point<Var>, &Change) -> K,
) -> Found {
    let (value, gradient) = value_and_grad(loss)(x);
    let unit = unit(gradient);
    let start = Point { x, value: value / unit, gradient: gradient / unit };
    let loss: &dyn Fn(Var) -> Var = &|x| loss(x) / unit;
    let at = |x: Var| {
        let (value, gradient) = value_and_grad(loss)(x);
        Point { x, value, gradient }
    };
    let small = |p: &Point<Var>| small(limits, p.value * unit, p.gradient * unit);
    let most = i64::try_from(limits.iterations).unwrap_or(i64::MAX);
    let zero = constant(0i64);
    let going = |(p, _, steps, _, (moved, level)): (Point<Var>, K, Var, Var, (Var, Var))| {
        moved & !level & steps.lt(most) & !small(&p).1
    };
    let step = |(p, known, steps, evaluations, _): (Point<Var>, K, Var, Var, (Var, Var))| {
        let d = direction(loss, &p, &known);
        let downhill = d.dot(p.gradient).lt(0.0);
        let d = select(downhill.broadcast_to(d.shape()), d, -p.gradient);
        // Before the first step, the scale of the problem is unknown.
        let size = p.gradient.dot(p.gradient);
        let cautious = 1.0 / select(size.gt(1.0), size, 1.0).sqrt();
        let first = select(steps.eq(0), cautious, 1.0);
        let (next, trials, [good, bounded]) = along(&at, &p, d, first);
        // The predicted decrease is half of the slope. Do not use it in the first step, whose scale is unknown, nor
        // if the line search found no upper bound of the step size.
        let noise = ROUNDINGS * epsilon(d.dtype()) * p.value.abs();
        let known_scale = steps.gt(0) | !good;
        let level = known_scale & bounded & (-d.dot(p.gradient)).le(noise);
        let change = Change { x: next.x - p.x, gradient: next.gradient - p.gradient };
        let known = learn(known, &p, &change);
        (next, known, steps + good.convert(Dtype::I64), evaluations + trials, (good, level))
    };
    let begin = (zero.eq(0), zero.ne(0));
    let (p, _, iterations, evaluations, (_, level)) =
        while_loop(going, step, (start, known, zero, zero + 1, begin));
    let (size, small) = small(&p);
    let over = small | (level & p.value.is_finite());
    Found { x: p.x, gradient: (size, over), iterations, evaluations }
}

/// Returns the divisor of the loss: 1, or the size of its gradient if squares of the gradient are out of range.
fn unit(gradient: Var) -> Var {
    if gradient.shape()[0] == 0 {
        return gradient.sum().ones_like();
    }
    let size = gradient.abs().max();
    let outside = size.gt(largest(gradient.dtype()).powf(0.25)) & size.is_finite();
    select(outside, size, 1.0)
}

/// The state of a line search: the bounds of the next step size, the point of the last one, and whether it is
/// accepted.
#[derive(Tree, Clone, Copy)]
struct Trial<T> {
    low: T,
    high: T,
    length: T,
    point: Point<T>,
    count: T,
    good: T,
}

/// Searches along d. Returns the point at an accepted step size (`from` if there is none), the number of trials,
/// whether a step size was accepted, and whether it was accepted at once or has an upper bound.
fn along(
    at: &dyn Fn(Var) -> Point<Var>,
    from: &Point<Var>,
    d: Var,
    first: Var,
) -> (Point<Var>, Var, [Var; 2]) {
    let slope = d.dot(from.gradient);
    let zero = from.value.zeros_like();
    let count = constant(0i64);
    let start = Trial {
        low: zero,
        high: zero.full_like(f64::INFINITY),
        length: first,
        point: *from,
        count,
        good: count.ne(0),
    };
    let noise = epsilon(zero.dtype()) * from.value.abs();
    let again = |t: Trial<Var>| !t.good & t.count.lt(TRIALS);
    let next = |t: Trial<Var>| {
        let point = at(from.x + t.length * d);
        let there = d.dot(point.gradient);
        let gain = point.value.le(from.value + GAIN * t.length * slope);
        let level = point.value.le(from.value + noise) & there.le((2.0 * GAIN - 1.0) * slope);
        let enough = (gain | level) & point.gradient.is_finite().all();
        let good = enough & there.ge(FLATTER * slope);
        let low = select(enough, t.length, t.low);
        let high = select(enough, t.high, t.length);
        let halved = 0.5 * (low + select(high.is_finite(), high, low));
        let length = select(high.is_finite(), halved, 2.0 * t.length);
        let length = select(good, t.length, length);
        Trial { low, high, length, point, count: t.count + 1, good }
    };
    let t = while_loop(again, next, start);
    // A step that lowers the loss is accepted in the end, even if the slope is still too steep.
    let lower = t.point.value.lt(from.value) & t.point.gradient.is_finite().all();
    let good = t.good | lower;
    let pick = |there: Var, here: Var| select(good.broadcast_to(there.shape()), there, here);
    let point = Point {
        x: pick(t.point.x, from.x),
        value: pick(t.point.value, from.value),
        gradient: pick(t.point.gradient, from.gradient),
    };
    (point, t.count, [good, t.high.is_finite() | t.count.eq(1)])
}
