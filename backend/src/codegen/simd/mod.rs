//! Wide code: nests of loops in the vectors that this machine has.
//!
//! Cranelift has vectors of 128 bits. So a nest of loops in lanes becomes a function of its own, outside of Cranelift, and
//! Cranelift's code calls it with a row of words: pointers, scalars, and variables that go in and come out.
//!
//! ```text
//! loops and statements ([`select`])  ->  wide form ([`form`])  ->  registers ([`regalloc`])  ->  bytes ([`x86`])
//! ```
//!
//! The meaning of a kernel does not depend on it: how a fold is split is part of the kernel, and each instruction
//! rounds as the language says, so bits are those of the interpreter. What is not taken stays with Cranelift, and
//! [`Refused`] says why.

pub(crate) mod form;
#[cfg(all(test, target_arch = "x86_64", unix))]
mod guard_pages;
mod recorded;
mod regalloc;
mod select;
#[cfg(test)]
mod tests;
mod x86;

pub(crate) use select::{Refused, Word, select};
pub(crate) use x86::emit::emit;
