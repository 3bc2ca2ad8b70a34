//! Transforms of programs written as text.

mod derivatives;
mod peephole;
mod simplify;

#[path = "../../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;
