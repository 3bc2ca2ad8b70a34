//! Static analyses of functions: affine forms, intervals, placement and provenance of values.

pub mod affine;
pub mod interval;
pub mod placement;
pub(crate) mod provenance;
