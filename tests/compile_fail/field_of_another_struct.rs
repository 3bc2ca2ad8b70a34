//! Must not compile: a field whose type is no tree. The error names the type, types that are trees, and the missing derive.
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
