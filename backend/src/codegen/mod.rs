//! Machine code from the loop IR.

pub(crate) mod clif;
mod code_memory;
mod deferred_module;
pub(crate) mod jit;
pub(crate) mod simd;
pub(crate) mod vectors;
