//! Tests of transforms on programs written as text, and of their parts.

mod cost;
mod cuts;
mod derivatives;
mod peephole;
mod pipeline;
mod rules;
mod simplify;

#[path = "../../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;
