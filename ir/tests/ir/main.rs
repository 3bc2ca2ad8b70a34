//! The tests of the language. They stand apart from the code that they test because a second compilation of the
//! library would take longer than the tests; modules are named as those that they test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod analysis;
mod fingerprint;
mod lang;
mod prim;
mod revolve;
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
