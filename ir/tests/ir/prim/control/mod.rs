//! Tests of the modules of `control`.

mod loops;
