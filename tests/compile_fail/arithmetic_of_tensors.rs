//! Must not compile: arithmetic of tensors outside of closures. Each error says how to compute.
//! errors: 7
//! says: a `Tensor` has no operators: it holds data, and arrays are computed in closures
//! says: write `run(|x: Var| 2.0 * x, &x)?`
//! says: a `Tensor` has no arithmetic: it holds data, and arrays are computed in closures
//! says: write `run(|x: Var| x.mean(), &x)?`
//! says: for many calls write `let f = jit(|x: Var| 2.0 * x)` once
//! says: `x.numbers().sum::<f64>()`
use tapeloom::prelude::*;

fn main() {
    let x = Tensor::from([1.0, 2.0]);
    let _ = 2.0 * &x;
    let _ = &x - 1.0;
    let _ = &x + &x;
    let _ = -&x;
    let _ = x.mean();
    let _ = x.map(|x: f64| x.sqrt());
    let mut sum = x.clone();
    sum += &x;
}
