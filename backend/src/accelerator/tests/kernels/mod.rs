//! Kernels of the paper, as their accesses.

pub(super) mod logsum;
pub(super) mod mttkrp;
pub(super) mod nn;
pub(super) mod pathfinder;
pub(super) mod somier;
