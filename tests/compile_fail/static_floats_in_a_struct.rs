//! A static field of a user-defined type with floats.
//! says: `Schedule` cannot be compared by its bits
//! says: for other types implement `tapeloom::tree::Bits`
use tapeloom::prelude::*;

#[derive(Clone, PartialEq, Debug)]
struct Schedule {
    rate: f64,
}

#[derive(Tree)]
struct Params<T> {
    w: T,
    #[tree(static, bits)]
    schedule: Schedule,
}

fn main() {}
