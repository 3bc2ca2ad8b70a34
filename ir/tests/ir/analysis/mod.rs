//! Tests of the modules of `analysis`.

mod affine;
mod interval;
