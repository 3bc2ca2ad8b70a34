//! Kernels from other projects, the simulated accelerator, and the study that compares them there.

mod accelerator;
mod gradbench;
mod suite;
mod tapeflow;
