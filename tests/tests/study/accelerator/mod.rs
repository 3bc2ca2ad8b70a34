//! The simulated accelerator under programs written by hand: what the paper's kernels do to it.
//!
//! Each kernel is a generator of operations with the accesses of its adjoint and of the values of its
//! tape; what else it computes has no part in times. What tape loads find must be what was stored, and
//! misses and ticks must be those of the paper's public data, as far as these can be reconstructed.

mod dataflow;
mod kernel;
mod kernels;
mod laws;
mod programs;
mod report;
