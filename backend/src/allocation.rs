//! The error of an allocation that failed for lack of memory.

use tapeloom_ir::{Kind, Problem};

/// Returns the error of a failed allocation of `bytes` bytes; `what` names their use.
#[cold]
pub(crate) fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
