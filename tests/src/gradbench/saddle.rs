//! `saddle`: `min_x max_y |x|² - |y|²` by gradient descent within gradient descent.
//!
//! The name of a function gives the mode of the minimum, then the mode of the maximum. For example, `rf` finds the
//! minimum with gradients in reverse mode, through a search for the maximum with gradients in forward mode.

use super::descent::{Mode, argmin};
use super::{Answer, Eval, Failure, measure, numbers};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval = Eval {
    module: "saddle",
    functions: &[
        ("ff", |input| run(Mode::Forward, Mode::Forward, input)),
        ("fr", |input| run(Mode::Forward, Mode::Reverse, input)),
        ("rf", |input| run(Mode::Reverse, Mode::Forward, input)),
        ("rr", |input| run(Mode::Reverse, Mode::Reverse, input)),
    ],
};

fn height(x: Var, y: Var) -> Var {
    x.square().sum() - y.square().sum()
}

/// Returns the point x of the minimum and the point y of the maximum, concatenated.
fn saddle(minimum: Mode, maximum: Mode, start: Var) -> Var {
    let highest = |x: Var| argmin(maximum, move |y| -height(x, y), start);
    let x = argmin(minimum, |x| height(x, highest(x)), start);
    concat(&[x, highest(x)], 0)
}

fn run(minimum: Mode, maximum: Mode, input: &Value) -> Result<Answer, Failure> {
    let start = Tensor::from(numbers(&input["start"])?);
    let f = jit(move |start| saddle(minimum, maximum, start));
    measure(input, || f.explain(&start), || f.call(&start), |p| Ok(json!(p.as_slice::<f64>()?)))
}
