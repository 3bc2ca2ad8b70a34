//! The machine under programs written by hand: what the paper's kernels do to it.
//!
//! Each kernel is a generator of operations with the accesses of its *clean* adjoint or of the one that
//! Enzyme generates, and of the values of its tape; what else it computes has no part in times. The
//! machine must show the misses of the authors' simulator, and what its tape loads find must be what was
//! stored.

mod dataflow;
mod kernel;
mod kernels;
mod laws;
mod report;
mod scan;
