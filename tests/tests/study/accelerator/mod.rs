//! The simulated accelerator, driven by the kernels of the TapeFlow paper as access sequences written by hand.
//!
//! Each kernel emits the accesses of its gradient, with the values of its tape; other arithmetic does not affect times.
//! Tape loads must find the stored values. Misses and ticks must agree with the public data of the TapeFlow paper, as
//! far as these can be reconstructed.

mod dataflow;
mod kernel;
mod kernels;
mod laws;
mod programs;
mod report;
