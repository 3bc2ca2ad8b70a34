//! `hello`: the square of a number, and its derivative under the name `double`.

use super::{Answer, Eval, Failure, measure};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "hello", functions: &[("square", square), ("double", double)] };

fn objective(x: Var) -> Var {
    x * x
}

fn square(input: &Value) -> Result<Answer, Failure> {
    let x = input.as_f64().ok_or("a number is missing")?;
    let f = jit(objective);
    measure(input, || f.explain(x), || f.call(x), |y| Ok(json!(y.item::<f64>()?)))
}

fn double(input: &Value) -> Result<Answer, Failure> {
    let x = input.as_f64().ok_or("a number is missing")?;
    let f = jit(grad(objective));
    measure(input, || f.explain(x), || f.call(x), |y| Ok(json!(y.item::<f64>()?)))
}
