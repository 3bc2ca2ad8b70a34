//! The simulated accelerator, driven by the paper's kernels as access sequences written by hand.
//!
//! Each kernel emits the accesses of its adjoint, with the values of its tape; other arithmetic does not affect times.
//! Tape loads must find the stored values. Misses and ticks must agree with the public data of the Tapeflow paper, as
//! far as these can be reconstructed.

mod dataflow;
mod kernel;
mod kernels;
mod laws;
mod programs;
mod report;
