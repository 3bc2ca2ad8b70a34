//! Code generation for tapeloom: from a function to a call of machine code.
//!
//! ```text
//! Function --schedule--> kernel::Program and Plan --clif--> machine code --> Executable
//! ```
//!
//! [`schedule()`] cuts a function into loop nests and gives every buffer its place; the result is
//! data ([`kernel`]) that prints, parses, verifies and is interpreted. [`compile()`] goes the whole
//! way, through Cranelift, and answers with something that is called on tensors. What a primitive
//! computes is asked from its lowering: nothing here names one.

pub mod accelerator;
pub mod kernel;
pub mod layout;
pub mod schedule;

mod clif;
mod compile;
mod executable;
mod fingerprint;
mod gemm;
mod jit;
mod keeping;
mod machine;
mod outside;
mod plan;
mod record;
mod records;
mod tape;
mod target;
mod thin;
mod watch;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

pub use compile::{Report, Runnable, compile};
pub use executable::{Executable, Taken};
pub use jit::CodeReport;
pub use keeping::Keeping;
pub use plan::{How, Plan, Row};
pub use schedule::schedule;
pub use tape::{Again, TapePlan};
pub use target::{Options, Target};

use tapeloom_ir::{Kind, Problem};

/// An allocation that cannot be made.
#[cold]
fn no_memory(what: &str, bytes: usize) -> Problem {
    let message = format!("there is no memory for {what}: {bytes} bytes");
    Problem::new(Kind::TooLarge, message, "reduce an extent, or process the data in parts")
}
