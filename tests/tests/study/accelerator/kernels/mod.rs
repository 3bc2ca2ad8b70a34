//! Kernels of the paper, as their accesses.

pub(crate) mod gravity;
pub(crate) mod logsum;
pub(crate) mod mttkrp;
pub(crate) mod nn;
pub(crate) mod pathfinder;
pub(crate) mod somier;
