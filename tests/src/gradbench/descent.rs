//! The gradient descent that GradBench's `saddle` and `particle` prescribe, with gradients in forward or reverse mode.

use tapeloom::prelude::*;

/// The mode in which a gradient is computed.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    Forward,
    Reverse,
}

/// Returns the gradient of `f` at the vector `x`, computed in this mode.
pub(super) fn gradient(mode: Mode, f: &impl Fn(Var) -> Var, x: Var) -> Var {
    match mode {
        Mode::Forward => vmap(|along| jvp(&f)((x, along)).1)(eye(x.len(), x.dtype())),
        Mode::Reverse => grad(f)(x),
    }
}

/// The carry of the descent: a point, the value and gradient there, the step rate, and the number of successful steps
/// since the rate changed.
type Descent = (Var, Var, Var, Var, Var);

/// Returns a minimum of `f` by descent from `start`, until the step or the gradient has a length of at most 1e-5. After
/// ten successful steps the rate is doubled; if a step would increase the value, the rate is halved.
pub(super) fn argmin(mode: Mode, f: impl Fn(Var) -> Var, start: Var) -> Var {
    let slope = |x| gradient(mode, &f, x);
    let long = |v: Var| v.square().sum().sqrt().gt(1e-5);
    let to_double = |good: Var| good.eq(10);
    let goes_on = move |(x, _, g, rate, good): Descent| {
        long(g) & (to_double(good) | long(x - (x - rate * g)))
    };
    let double = |(x, y, g, rate, _): Descent| (x, y, g, 2.0 * rate, constant(0i64));
    let step = |(x, y, g, rate, good): Descent| {
        let next = x - rate * g;
        let below = f(next);
        let down = |(_, _, _, rate, good)| (next, below, slope(next), rate, good + 1);
        let halve = |(x, y, g, rate, _): Descent| (x, y, g, rate / 2.0, constant(0i64));
        cond(below.lt(y), down, halve, (x, y, g, rate, good))
    };
    let iteration = |at: Descent| cond(to_double(at.4), double, step, at);
    let rate = constant(1e-5);
    while_loop(goes_on, iteration, (start, f(start), slope(start), rate, constant(0i64))).0
}
