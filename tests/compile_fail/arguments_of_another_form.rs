//! Must not compile: data whose structure differs from that of the closure's argument.
//! errors: 1
//! says: cannot be passed where the closure takes `(
//! says: pass tensors (owned or borrowed) or Rust numbers in the same tuples, arrays and structs
use tapeloom::prelude::*;

fn main() {
    let f = jit(|(x, y): (Var, Var)| x * y);
    let _ = f.call([1.0, 2.0]);
}
