//! The error for an allocation that failed because too little memory is left.

use tapeloom_ir::{Kind, Problem};

/// Returns the error for a failed allocation of `bytes` bytes; `what` names the purpose of the memory.
#[cold]
pub(crate) fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
