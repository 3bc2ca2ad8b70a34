//! Must not compile: batch axes of `vmap_axes` whose structure differs from that of the argument.
//! says: does not specify the batch axes of
//! says: or the struct itself with an `Option<i32>` in place of each array
use tapeloom::prelude::*;

fn main() {
    let _ = run(vmap_axes((0, "all"), 0, |(x, y): (Var, Var)| x * y), ([1.0], 2.0));
}
