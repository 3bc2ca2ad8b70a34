//! Kernels of the paper, as their accesses.

pub(super) mod mttkrp;
