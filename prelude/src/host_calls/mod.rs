//! The outside world: Rust functions that a program calls while it runs.
//!
//! | function | what it does |
//! |---|---|
//! | [`debug_print`] | prints a value while the program runs |
//! | [`tap`] | shows a value to a Rust closure |
//! | [`tap_cotangent`] | shows the cotangent of a value to a Rust closure |
//! | [`callback`], [`callback_batched`] | results from a Rust function, pure |
//!
//! What a closure says with `println!` is said once, while it is traced, and knows no numbers. These are
//! part of the program: they run with it, compiled or interpreted, in every transform.
//!
//! **What is seen, and when.** The first three are effects. They happen in the order of the program: in a
//! loop step by step, in a branch if it is taken, under [`vmap`](crate::vmap) once for each member that
//! takes part, in their order. They happen once, whatever derivative the program is part of: under
//! [`jvp`](crate::jvp()), [`grad`](crate::grad()) and `grad(grad(..))` the value is seen when it is computed,
//! and not again where [`checkpoint`](crate::checkpoint()) computes it again. They change no result, and
//! are not dropped though nobody reads what they see. (No effect may be in the condition of a loop.)
//!
//! A callback is pure: all that is known of it is what it answers, so it may be called as often or as
//! seldom as the program finds fit.

mod callback;
mod lines;
mod see;

pub use callback::{callback, callback_batched};
pub use see::{debug_print, tap, tap_cotangent};
pub use tapeloom_ir::Failure;
