//! The kernels of the TapeFlow paper, as sequences of memory accesses.

pub(crate) mod gravity;
pub(crate) mod logsum;
pub(crate) mod mttkrp;
pub(crate) mod nn;
pub(crate) mod pathfinder;
pub(crate) mod somier;
