//! Control flow: branches on values that are known when the program runs, and loops.
//!
//! | function | runs |
//! |---|---|
//! | [`cond`] | one of two closures |
//! | [`switch`] | one of several closures |
//! | [`scan`], [`scan_reverse`] | a closure for each element of arrays, with a carry |
//! | [`fori_loop`] | a closure so many times, with a carry; the number may be known only when it runs |
//! | [`while_loop`] | a closure as long as a condition holds, with a carry |
//! | [`map`] | a closure for each element of arrays |
//! | [`associative_scan`] | a closure of two elements, so that all prefixes are combined in few steps |
//!
//! A Rust `if` or `for` decides while the program is traced, and a Rust loop writes its body out as often
//! as it runs. These are traced once, compiled to a branch or a loop, and differentiated as such. What
//! their closures use from outside is passed along.

mod branch;
mod divisors;
mod loops;
mod prefixes;
mod shared;

pub use branch::{cond, switch};
pub use loops::{Count, fori_loop, map, scan, scan_reverse, while_loop};
pub use prefixes::associative_scan;
pub(crate) use shared::Shared;
