//! Machine code from the loop IR, by Cranelift and by the SIMD code generator.

#[cfg(feature = "native")]
pub(crate) mod clif;
#[cfg(feature = "native")]
mod code_memory;
#[cfg(test)]
mod code_memory_tests;
#[cfg(feature = "native")]
mod deferred_module;
#[cfg(feature = "native")]
pub(crate) mod jit;
#[cfg(feature = "native")]
pub(crate) mod object;
#[cfg(feature = "native")]
pub(crate) mod simd;
#[cfg(feature = "native")]
pub(crate) mod target_isa;
pub(crate) mod vectors;
