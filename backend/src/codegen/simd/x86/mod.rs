//! SIMD code for x86-64: AVX2 and AVX-512.

mod addresses;
pub(crate) mod assembler;
mod avx2;
mod avx512;
mod calls;
#[cfg(test)]
pub(crate) mod decoded;
pub(crate) mod emit;
mod frame;
