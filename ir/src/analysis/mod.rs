//! Static analyses of programs.

pub mod affine;
pub mod interval;
pub mod placement;
pub(crate) mod provenance;
