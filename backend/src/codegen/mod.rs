//! Machine code from the loop IR.

pub(crate) mod clif;
pub(crate) mod jit;
pub(crate) mod simd;
pub(crate) mod vectors;
