//! The simulated accelerator, driven by the paper's kernels as access sequences written by hand.
//!
//! Each kernel generates operations with the accesses of its adjoint and with the values of its tape; the other
//! arithmetic does not affect times. Tape loads must find the stored values. Misses and ticks must agree with the
//! paper's public data, as far as these can be reconstructed.

mod dataflow;
mod kernel;
mod kernels;
mod laws;
mod programs;
mod report;
