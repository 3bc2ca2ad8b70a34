//! What is known of a program without running it.

pub mod affine;
pub mod interval;
pub(crate) mod provenance;
