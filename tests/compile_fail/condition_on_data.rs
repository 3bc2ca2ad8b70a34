//! Must not compile: a Rust `if` on the value of a `Var`, and a `Var` that is used on another thread.
//! errors: 3
//! says: binary operation `>` cannot be applied to type
//! says: ComparisonsAreGtLtEqAndChoicesSelectOrCond
//! says: cannot be sent between threads safely
use tapeloom::prelude::*;

fn main() {
    let _ = jit(|x: Var| if x > 0.0 { x } else { -x });
    let _ = jit(|x: Var| if x == 1.0 { x } else { -x });
    let _ = jit(|x: Var| {
        std::thread::spawn(move || x.sin());
        x
    });
}
