//! Tests of the modules of `prim`.

mod array;
mod code;
mod control;
mod fourier;
mod linalg;
mod memory;
mod rules;
mod scalar;
