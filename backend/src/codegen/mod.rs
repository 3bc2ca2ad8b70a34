//! Machine code from the loop IR, by Cranelift and by the SIMD code generator.

pub(crate) mod clif;
mod code_memory;
#[cfg(test)]
mod code_memory_tests;
mod deferred_module;
pub(crate) mod jit;
pub(crate) mod simd;
pub(crate) mod vectors;
