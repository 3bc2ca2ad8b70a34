//! `lse`: the logarithm of a sum of exponentials, and its gradient, the softmax.

use super::{Answer, Eval, Failure, measure, numbers};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "lse", functions: &[("primal", primal), ("gradient", gradient)] };

fn objective(x: Var) -> Var {
    x.logsumexp()
}

fn primal(input: &Value) -> Result<Answer, Failure> {
    let x = Tensor::from(numbers(&input["x"])?);
    let f = jit(objective);
    measure(input, || f.explain(&x), || f.call(&x), |y| Ok(json!(y.item::<f64>()?)))
}

fn gradient(input: &Value) -> Result<Answer, Failure> {
    let x = Tensor::from(numbers(&input["x"])?);
    let f = jit(grad(objective));
    measure(input, || f.explain(&x), || f.call(&x), |dx| Ok(json!(dx.as_slice::<f64>()?)))
}
