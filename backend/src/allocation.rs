//! The error of an allocation that fails.

use tapeloom_ir::{Kind, Problem};

/// The error of an allocation of so many bytes, for what.
#[cold]
pub(crate) fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
