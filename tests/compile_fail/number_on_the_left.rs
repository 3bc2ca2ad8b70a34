//! Must not compile: numbers of dtypes that may not stand on the left of a `Var`, because literals could not be inferred.
//! errors: 3
//! says: `f32` cannot stand on the left of a `Var`
//! says: `i32` cannot stand on the left of a `Var`
//! says: `usize` cannot stand on the left of a `Var`
//! says: write the number on the right, or convert it
//! says: `f64::from(n) * x` or `n as i64 * x`
use tapeloom::prelude::*;

fn main() {
    let (rate, n) = (0.1f32, 3usize);
    let _ = jit(move |x: Var| rate * x);
    let _ = jit(move |x: Var| n - x);
    let n = 2i32;
    let _ = jit(move |x: Var| n * &x);
}
