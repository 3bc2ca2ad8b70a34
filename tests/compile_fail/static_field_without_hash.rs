//! A static field whose type cannot be part of a key.
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
