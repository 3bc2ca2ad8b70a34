//! Machine code from the loop IR.

pub(crate) mod clif;
pub(crate) mod jit;
