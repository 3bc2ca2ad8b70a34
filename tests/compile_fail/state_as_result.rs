//! Must not compile: a `Ref` as a result of a compiled or called function, or of a branch.
//!
//! says: `tapeloom::Ref` is no tree of arrays
//! says: closures capture it, and return the value of `get`
use tapeloom::prelude::*;

fn main() {
    let f = jit(|x: Var| Ref::new(x));
    let g = |x: Var| cond(x.gt(0.0), |x: Var| Ref::new(x).at(0), |x: Var| Ref::new(x).at(1), x);
    let h = outline(|x: Var| Ref::new(x));
}
