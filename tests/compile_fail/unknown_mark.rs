//! Must not compile: an unknown word in a `#[tree(..)]` attribute.
//! errors: 1
//! says: expected `#[tree(static)]` or `#[tree(static, bits)]`
use tapeloom::prelude::*;

#[derive(Tree)]
struct Params<T> {
    w: T,
    #[tree(skip)]
    n: usize,
}

fn main() {}
