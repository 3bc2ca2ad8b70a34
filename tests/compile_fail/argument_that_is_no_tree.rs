//! Must not compile: an argument and a result of a closure whose types (`usize`) are not trees of arrays.
//! errors: 2
//! says: `usize` is no tree of arrays
//! says: trees are `Var` and `Tensor`; tuples, arrays, `Vec`
use tapeloom::prelude::*;

fn main() {
    let _ = jit(|(x, n): (Var, usize)| x * n);
    let _ = jit(|x: Var| x.len());
}
