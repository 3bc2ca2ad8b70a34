//! Primitives about what is kept in memory: barriers, and values packed in fewer bits.

pub(crate) mod barrier;
pub(crate) mod mark;
pub(crate) mod packing;
