//! Host calls: Rust functions that a program calls while it runs.
//!
//! | function | effect |
//! |---|---|
//! | [`debug_print`] | prints a value while the program runs |
//! | [`tap`] | passes a value to a Rust closure |
//! | [`tap_cotangent`] | passes the cotangent of a value to a Rust closure |
//! | [`callback`], [`callback_batched`] | call a pure Rust function that returns results |
//!
//! A `println!` inside a closure runs once, at tracing, when there are no numbers. Host calls are part of the
//! program: they run with it, compiled or interpreted, in every transform.
//!
//! **Order and number of calls.** The first three functions are effects. They happen in program order: in every
//! iteration of a loop, in a branch if it runs, under [`vmap`](crate::vmap) once for each active member in the
//! order of members. Each happens once, whatever derivative the program is part of: under [`jvp`](crate::jvp()),
//! [`grad`](crate::grad()) and `grad(grad(..))` it happens when the value is first computed, and not when
//! [`checkpoint`](crate::checkpoint()) recomputes it. Effects change no result, and they are not removed if their
//! value is unused otherwise. The condition of a loop may not have effects.
//!
//! A callback is pure: only its result matters, so the program may call it more or less often than written.

mod callback;
mod lines;
mod see;

pub use callback::{callback, callback_batched};
pub use see::{debug_print, tap, tap_cotangent};
pub use tapeloom_ir::Failure;
