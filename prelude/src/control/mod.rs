//! Control flow: loops, and branches on values that are known only at run time.
//!
//! | function | effect |
//! |---|---|
//! | [`cond`] | runs one of two closures |
//! | [`switch`] | runs one of several closures |
//! | [`scan`], [`scan_reverse`] | run a closure for each element of arrays, with a carry |
//! | [`fori_loop`] | runs a closure `n` times, with a carry; `n` may be a run-time value |
//! | [`while_loop`] | runs a closure while a condition holds, with a carry |
//! | [`map`] | runs a closure for each element of arrays |
//! | [`associative_scan`] | combines all prefixes of a sequence in a logarithmic number of steps |
//!
//! A Rust `if` or `for` is executed while the program is traced, and a Rust loop copies its body into the program
//! at every iteration. The closures of these functions are traced once, compiled to a branch or a loop, and
//! differentiated as such. They may use any values of the surrounding trace.

mod branch;
mod divisors;
mod loops;
mod prefixes;
mod shared;

pub use branch::{cond, switch};
pub use loops::{Count, fori_loop, map, scan, scan_reverse, while_loop};
pub use prefixes::associative_scan;
pub(crate) use shared::Shared;
