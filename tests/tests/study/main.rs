//! The nine kernels of the TapeFlow paper and GradBench's, the simulated accelerator, and the reproduction of the
//! paper's measurements on it.

mod accelerator;
mod gradbench;
mod suite;
mod tapeflow;
