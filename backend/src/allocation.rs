//! What is said where memory cannot be had.

use tapeloom_ir::{Kind, Problem};

/// An allocation that cannot be made.
#[cold]
pub(crate) fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
