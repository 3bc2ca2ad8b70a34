//! A field whose type is no tree: the compiler says which type, what trees are, and what to derive.
//! errors: 12
//! says: `Layer<
//! says: is no tree of arrays
//! says: structs with `#[derive(Tree)]`
//! says: a field of such a struct that holds no arrays is marked `#[tree(static)]`
use tapeloom::prelude::*;

struct Layer<T> {
    w: T,
}

#[derive(Tree)]
struct Params<T> {
    layers: Vec<Layer<T>>,
}

fn main() {}
