//! The paper's kernels, as sequences of accesses.

pub(crate) mod gravity;
pub(crate) mod logsum;
pub(crate) mod mttkrp;
pub(crate) mod nn;
pub(crate) mod pathfinder;
pub(crate) mod somier;
