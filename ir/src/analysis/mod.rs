//! What is known of a program without running it.

pub mod affine;
pub mod interval;
pub mod placement;
pub(crate) mod provenance;
