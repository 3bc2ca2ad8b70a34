//! Tests of the modules of `memory`.

mod barrier;
mod packing;
