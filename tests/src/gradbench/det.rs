//! `det`: the determinant by expansion along the first row, and its gradient.
//!
//! The function of size m calls the function of size m - 1 once per column.

use super::{Answer, Eval, Failure, measure, natural, numbers};
use crate::repeated::determinant_checkpointed;
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "det", functions: &[("primal", primal), ("gradient", gradient)] };

fn read(input: &Value) -> Result<(Tensor, usize), Failure> {
    let n = natural(&input["ell"])?;
    Ok((Tensor::new(&[n, n], numbers(&input["A"])?)?, n))
}

fn primal(input: &Value) -> Result<Answer, Failure> {
    let (a, n) = read(input)?;
    let f = jit(determinant_checkpointed(n));
    measure(input, || f.explain(&a), || f.call(&a), |y| Ok(json!(y.item::<f64>()?)))
}

fn gradient(input: &Value) -> Result<Answer, Failure> {
    let (a, n) = read(input)?;
    let f = jit(grad(determinant_checkpointed(n)));
    measure(input, || f.explain(&a), || f.call(&a), |da| Ok(json!(da.as_slice::<f64>()?)))
}
