//! Must not compile: a range in a tuple of indices.
//! errors: 2
//! says: is no index, nor a tuple of indices
//! says: for one place of another axis than the leading ones, `x.index_axis(1, i)`; for a range, `x.slice_axis(1, a..b)`
use tapeloom::prelude::*;

fn main() {
    let _ = jit(|x: Var| x.index((.., 1)));
    let _ = jit(|x: Var| x.at((.., 1)).set(0.0));
}
