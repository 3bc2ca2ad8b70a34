//! Limits on the nesting depth of calls and closures.
//!
//! Walks over the equations of a function are loops. Walks over calls that only copy or list functions (inlining,
//! passes on bodies, printing) are loops, too. Two kinds of walk recurse: a rule that requests a transform of its body
//! during the transform of its function, and the interpreter when it runs a body. These go through [`deeper`], which
//! allocates more stack on the heap when little is left, as rustc does. So no thread's stack is too small, and the
//! limits below bound memory and time. WebAssembly has one stack, which cannot be extended and has a mebibyte by default;
//! there the limits are lower.

use crate::lang::problem::{Kind, Problem};

/// Whether this machine has only one stack, which cannot be extended for deep recursion.
const HAS_ONE_STACK: bool = cfg!(target_family = "wasm");

/// The largest nesting depth of calls. In a debug build, the interpreter and the transforms take up to 20 KiB of
/// stack for each level.
pub const DEEPEST_CALL: usize = if HAS_ONE_STACK { 50 } else { 10_000 };

/// The largest nesting depth of the closures of transforms, outlines and jits. Tracing runs user code, whose frames
/// may have any size, on the user's stack; this depth fits into the 2 MiB that a thread has by default.
pub const DEEPEST_CLOSURE: usize = if HAS_ONE_STACK { 50 } else { 100 };

/// The bytes of stack that must be left before a level of recursion runs. One level may take up to this many bytes.
const ENOUGH: usize = 256 << 10;

/// The bytes of stack that are allocated if less than `ENOUGH` is left.
const MORE: usize = 4 << 20;

/// Runs one level of a recursive walk; first allocates more stack if less than `ENOUGH` bytes are left.
pub fn deeper<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ENOUGH, MORE, walk)
}

/// Returns the error for `what` nested `depth` deep where at most `most` levels are allowed.
pub(crate) fn too_deep(what: &str, depth: usize, most: usize) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("{what} nest {depth} deep, more than {most}"),
        "apply some of the closures directly, without a transform, an outline or a jit around each",
    )
}
