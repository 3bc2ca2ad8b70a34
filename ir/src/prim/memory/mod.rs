//! Primitives that control memory: barriers, and values packed into fewer bits.

pub(crate) mod barrier;
pub(crate) mod mark;
pub(crate) mod packing;
pub(crate) mod sharded;
