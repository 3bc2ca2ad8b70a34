//! `particle`: the control that makes a particle pass the origin, by gradient descent.
//!
//! The particle falls through the potential of two charges. Its acceleration is the negative gradient of that
//! potential. Euler's method runs until the particle crosses the axis, for an unknown number of steps.
//!
//! The name of a function gives the mode of the descent, then the mode of the accelerations: `rf` differentiates the
//! whole path in reverse mode, and computes the accelerations on the path in forward mode.

use super::descent::{Mode, argmin, gradient};
use super::{Answer, Eval, Failure, measure};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval = Eval {
    module: "particle",
    functions: &[
        ("ff", |input| run(Mode::Forward, Mode::Forward, input)),
        ("fr", |input| run(Mode::Forward, Mode::Reverse, input)),
        ("rf", |input| run(Mode::Reverse, Mode::Forward, input)),
        ("rr", |input| run(Mode::Reverse, Mode::Reverse, input)),
    ],
};

/// Returns the squared distance from the origin at which the particle crosses the axis, for the control `w`, `[1]`.
fn miss(mode: Mode, w: Var) -> Var {
    const TIME: f64 = 0.1;
    let point = |p: [f64; 2]| constant(p);
    let charges =
        [concat(&[point([10.0, 10.0]).slice_axis(0, ..1), 10.0 - w], 0), point([10.0, 0.0])];
    let potential =
        move |x: Var| charges.iter().map(|c| 1.0 / (x - *c).square().sum().sqrt()).sum::<Var>();
    // The carry is a position, the next position, and the velocity between them.
    let above = |(_, next, _): (Var, Var, Var)| next.index(1).gt(0.0);
    let fall = |(x, next, v): (Var, Var, Var)| {
        let v = v - TIME * gradient(mode, &potential, x);
        (next, next + TIME * v, v)
    };
    let (x, v) = (point([0.0, 8.0]), point([0.75, 0.0]));
    let (_, x, v) = while_loop(above, fall, (x, x + TIME * v, v));
    // The last step is shortened or extended, so that it ends on the axis.
    (x.index(0) - x.index(1) / v.index(1) * v.index(0)).square()
}

fn run(descent: Mode, path: Mode, input: &Value) -> Result<Answer, Failure> {
    let w = Tensor::from([input["w"].as_f64().ok_or("w is missing")?]);
    let f = jit(move |w| argmin(descent, |w| miss(path, w), w).index(0));
    measure(input, || f.explain(&w), || f.call(&w), |w| Ok(json!(w.item::<f64>()?)))
}
