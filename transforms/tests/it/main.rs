//! Transforms of programs written as text.

mod derivatives;
mod peephole;
mod simplify;
