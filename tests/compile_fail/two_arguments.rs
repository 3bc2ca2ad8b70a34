//! Must not compile: closures of several arguments where a closure of one argument is expected.
//! errors: 6
//! says: expected a function of one argument
//! says: expected a function of one argument, `(tapeloom::Var, tapeloom::Var)`, that returns
//! says: the body of `fori_loop` has the index first
//! says: several arguments are passed as one tuple: `|(x, y): (Var, Var)| ..`
//! says: close over the others: `grad(|x| f(x, y))(x)`
use tapeloom::prelude::*;

fn main() {
    let _ = grad(|x: Var, y: Var| x * y);
    let _ = jit(|x: Var, y: Var| x * y);
    let _ = vmap(|x: Var, y: Var, z: Var| x * y * z);
    let _ = jit(|x: Var| fori_loop(3, |i: Var, y: Var| y + i, x));
    let _ = jit(|x: Var| fori_loop(3, |y: Var| y + 1.0, x));
    let _ = run(|x: Var, y: Var| x * y, (1.0, 2.0));
}
