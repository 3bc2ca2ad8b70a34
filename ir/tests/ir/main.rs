//! Tests of the language. They are a crate of their own because compiling the library a second time would take
//! longer than the tests; modules have the names of those that they test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod analysis;
mod fingerprint;
mod lang;
mod prim;
mod revolve;
mod sharding;
mod tensor;
mod test_laws;
mod text;
mod trace;

#[path = "../../../tests/src/elements.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod elements;

#[path = "../../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;
