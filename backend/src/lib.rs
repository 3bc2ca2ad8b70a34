//! Code generation for tapeloom: from a function to a call of machine code.
//!
//! ```text
//! Function --lower--> loop_ir::Program and Plan --passes--> --codegen--> machine code --> Executable
//! ```
//!
//! [`schedule()`] cuts a function into loop nests and gives every buffer its place; the result is
//! data ([`loop_ir`]) that prints, parses, verifies and is interpreted. [`compile()`] goes the whole
//! way, through Cranelift, and answers with something that is called on tensors. What a primitive
//! computes is asked from its lowering: nothing here names one.

pub mod accelerator;
pub(crate) mod codegen;
pub mod layout;
pub mod loop_ir;
pub mod lower;
pub mod passes;
pub(crate) mod report;
pub(crate) mod runtime;

mod allocation;
mod compile;
mod executable;
mod fingerprint;
mod machine;
mod target;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

pub use codegen::clif::CodeReport;
pub use codegen::vectors::{LaneCode, LaneLoop, Vectors};
pub use compile::{Report, Runnable, compile};
pub use executable::{Executable, Taken};
pub use lower::{loop_trees, schedule};
pub use machine::{Effect, MachineModel, Number};
pub use report::loop_tape_warnings::Keeping;
pub use report::memory_plan::{How, Plan, Row};
pub use report::rematerialized::Rematerialized;
pub use report::tape_table::TapePlan;
pub use target::{Options, Target};

use allocation::no_memory;
