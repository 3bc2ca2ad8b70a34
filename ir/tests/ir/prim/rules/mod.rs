//! Tests of the modules of `rules`.

mod rewrite;
