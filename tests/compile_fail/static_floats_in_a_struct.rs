//! Must not compile: a static field whose type is a user-defined struct with floats, which has no `Bits`.
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
