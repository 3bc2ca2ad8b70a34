//! The error of a failed allocation.

use tapeloom_ir::{Kind, Problem};

/// Returns the error of a failed allocation of `bytes` bytes for `what`.
#[cold]
pub(crate) fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
