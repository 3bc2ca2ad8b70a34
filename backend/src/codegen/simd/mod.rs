//! SIMD code: nests of loops compiled for vectors of 256 and 512 bits.
//!
//! Cranelift has vectors of 128 bits. So a nest of loops with lanes becomes a separate function that is not
//! compiled by Cranelift. Cranelift's code calls it with a row of words: pointers, scalars, and variables that are
//! read and written.
//!
//! ```text
//! loops and statements ([`select`])  ->  vector IR ([`form`])  ->  registers ([`regalloc`])  ->  bytes ([`x86`])
//! ```
//!
//! SIMD code does not change the meaning of a loop program: the program states how a fold is split, and each
//! instruction rounds as the language defines. So results are bit-identical to those of the interpreter. Other
//! nests are compiled by Cranelift; [`Refused`] holds the reason.

pub(crate) mod form;
#[cfg(all(test, target_arch = "x86_64", unix))]
mod guard_pages;
mod interleave;
mod recorded;
mod regalloc;
mod select;
#[cfg(test)]
mod tests;
mod x86;

pub(crate) use interleave::{Compiled, Nest};
pub(crate) use select::{Refused, Unit, Word};
