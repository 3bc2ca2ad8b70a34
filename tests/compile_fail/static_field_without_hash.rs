//! Must not compile: a static field whose type has no `Hash` and `Eq`, and so cannot be part of a cache key.
//! errors: 2
//! says: `Act: Hash` is not satisfied
//! says: `Act: Eq` is not satisfied
use tapeloom::prelude::*;

#[derive(Clone, PartialEq, Debug)]
enum Act {
    Relu,
}

#[derive(Tree)]
struct Params<T> {
    w: T,
    #[tree(static)]
    act: Act,
}

fn main() {}
