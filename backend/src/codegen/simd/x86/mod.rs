//! Wide code for x86-64.

pub(crate) mod assembler;
pub(crate) mod avx512;
mod calls;
mod codes;
#[cfg(test)]
pub(crate) mod decoded;
mod frame;
mod memory;
