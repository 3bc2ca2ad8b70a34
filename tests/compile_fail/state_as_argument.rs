//! Must not compile: a `Ref` as an argument of a compiled or called function, or of a branch.
//!
//! says: `tapeloom::Ref` is no tree of arrays
//! says: closures capture it, and return the value of `get`
use tapeloom::prelude::*;

fn main() {
    let f = jit(|r: Ref| r.get());
    let g = outline(|(r, x): (Ref, Var)| r.get() + x);
    let h = |x: Var, r: Ref| cond(x.gt(0.0), |r: Ref| r.get(), |r: Ref| r.at(0).get(), r);
    let i = |r: Ref| fori_loop(2, |(_, r): (Var, Ref)| r, r);
}
