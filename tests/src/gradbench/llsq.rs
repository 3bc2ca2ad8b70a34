//! `llsq`: least squares of a polynomial against the sign function on [-1, 1].

use super::{Answer, Eval, Failure, measure, natural, numbers};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "llsq", functions: &[("primal", primal), ("gradient", gradient)] };

/// Returns the powers `t^0 .. t^(m-1)` of every element of `t`, one column per power. They are computed by doubling,
/// since the powers `w` to `2w - 1` are the powers below `w` times `t^w`.
fn powers(t: Var, m: usize) -> Var {
    let n = t.len();
    let mut columns = ones([n, 1], t.dtype());
    let mut next = t;
    while columns.shape()[1] < m {
        let shifted = columns * next.reshape([n, 1]);
        columns = concat(&[columns, shifted], 1);
        next = next * next;
    }
    columns.slice_axis(1, 0..m)
}

/// Returns the loss `½ Σ_i (sign t_i - Σ_j x_j t_i^j)²` of the polynomial with coefficients x, at n points t in [-1,
/// 1].
fn objective(x: Var, n: usize) -> Var {
    let t = linspace(-1.0, 1.0, n, Dtype::F64);
    let residual = t.signum() - powers(t, x.len()).dot(x);
    0.5 * residual.square().sum()
}

fn primal(input: &Value) -> Result<Answer, Failure> {
    let (x, n) = (Tensor::from(numbers(&input["x"])?), natural(&input["n"])?);
    let f = jit(|x| objective(x, n));
    measure(input, || f.explain(&x), || f.call(&x), |y| Ok(json!(y.item::<f64>()?)))
}

fn gradient(input: &Value) -> Result<Answer, Failure> {
    let (x, n) = (Tensor::from(numbers(&input["x"])?), natural(&input["n"])?);
    let f = jit(grad(|x| objective(x, n)));
    measure(input, || f.explain(&x), || f.call(&x), |dx| Ok(json!(dx.as_slice::<f64>()?)))
}
