//! Must not compile: fields without arrays and without attribute. There is one error per field, which names the attribute.
//! errors: 2
//! says: the field `n` holds no arrays: its type does not mention `T`. Mark it `#[tree(static)]`
use tapeloom::prelude::*;

#[derive(Tree, Clone)]
struct Params<T> {
    w: T,
    n: usize,
    rate: f64,
}

fn main() {
    let _ = jit(|p: Params<Var>| p.w * p.n * p.rate);
}
