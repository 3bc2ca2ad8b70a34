//! The cache line: the unit of memory of tensors.

use bytemuck::{Pod, Zeroable};

/// One cache line (64 bytes) of a tensor's buffer.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line(pub(super) [u64; 8]);

impl Line {
    /// A cache line of zeros.
    pub const ZERO: Line = Line([0; 8]);
}
