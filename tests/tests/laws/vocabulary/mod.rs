//! The vocabulary that a numpy or JAX user reaches for: what is there, what waits, and that what is
//! there computes what numpy and JAX compute.

mod calls;
mod mistakes;
mod names;
mod values;
