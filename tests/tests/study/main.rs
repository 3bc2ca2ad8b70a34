//! The nine kernels of the Tapeflow paper and GradBench's, the simulated accelerator, and the study that compares
//! systems on it.

mod accelerator;
mod gradbench;
mod suite;
mod tapeflow;
