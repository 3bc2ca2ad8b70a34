//! `ode`: a chain of linear differential equations, solved by the classical Runge-Kutta rule.
//!
//! `y_0' = x_0`, `y_i' = x_i y_(i-1)`, from `y = 0` at time 0 to time 2, in `s` steps. The gradient is of the last
//! component.

use super::{Answer, Eval, Failure, measure, natural, numbers};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "ode", functions: &[("primal", primal), ("gradient", gradient)] };

fn objective(x: Var, s: usize) -> Var {
    let (n, h) = (x.len(), 2.0 / s as f64);
    let one = ones([1], x.dtype());
    let slope = |y: Var| x * concat(&[one, y.slice_axis(0, ..n - 1)], 0);
    let step = |(_, y): (Var, Var)| {
        let k1 = slope(y);
        let k2 = slope(y + h / 2.0 * k1);
        let k3 = slope(y + h / 2.0 * k2);
        let k4 = slope(y + h * k3);
        y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    };
    fori_loop(s, step, x.zeros_like())
}

fn read(input: &Value) -> Result<(Tensor, usize), Failure> {
    Ok((Tensor::from(numbers(&input["x"])?), natural(&input["s"])?))
}

fn primal(input: &Value) -> Result<Answer, Failure> {
    let (x, s) = read(input)?;
    let f = jit(move |x| objective(x, s));
    measure(input, || f.explain(&x), || f.call(&x), |y| Ok(json!(y.as_slice::<f64>()?)))
}

fn gradient(input: &Value) -> Result<Answer, Failure> {
    let (x, s) = read(input)?;
    let f = jit(grad(move |x| objective(x, s).index(-1)));
    measure(input, || f.explain(&x), || f.call(&x), |dx| Ok(json!(dx.as_slice::<f64>()?)))
}
