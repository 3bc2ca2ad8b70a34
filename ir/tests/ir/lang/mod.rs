//! Tests of the modules of `lang`.

mod eval;
mod literal;
mod verify;
