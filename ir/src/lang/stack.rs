//! Depth: how far calls and closures may nest.
//!
//! Walks over the equations of a function are loops, and so are those walks over calls that only copy or
//! list (inlining, passes on bodies, printing). Where a rule asks for a transform of its body while the
//! transform of its own function is under way, and where the interpreter runs a body, the walk is nested by
//! nature. Those go through [`deeper`], which takes more stack from the heap when little is left, as rustc
//! does. So no thread is too small for them, and the limits below are about memory and patience.

use crate::lang::problem::{Kind, Problem};

/// How deep calls may nest: the interpreter and the transforms take up to 20 KiB of stack for a level in a
/// debug build.
pub const DEEPEST_CALL: usize = 10_000;

/// How deep the closures of transforms, outlines and jits may nest. Tracing runs the user's code, whose
/// frames are of any size, on the user's stack; so many fit into the 2 MiB that a thread has unless it was
/// given more.
pub const DEEPEST_CLOSURE: usize = 100;

/// What a level may take before it asks again.
const ENOUGH: usize = 256 << 10;

/// What is added when less than that is left.
const MORE: usize = 4 << 20;

/// Runs a walk into a function that another one calls.
pub fn deeper<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH, MORE, walk)
}

/// The problem of what nests deeper than it may.
pub(crate) fn too_deep(what: &str, depth: usize, most: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("{what} nest {depth} deep, and {most} is the most that can"),
        "apply some of the closures directly, without a transform, an outline or a jit around each",
    )
}
