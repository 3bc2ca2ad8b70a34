//! Kernels from elsewhere, the simulated accelerator, and the study that compares them there.

mod accelerator;
mod gradbench;
mod suite;
mod tapeflow;
