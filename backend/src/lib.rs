//! Code generation for tapeloom: from a function to callable machine code.
//!
//! ```text
//! Function --lower--> loop_ir::Program and Plan --passes--> --codegen--> machine code --> Executable
//! ```
//!
//! [`schedule()`] cuts a function into loop nests over buffers. The result is data ([`loop_ir`]) that prints, parses,
//! verifies and is interpreted. One of the last [`passes`] plans the memory of the buffers. [`compile()`] runs all stages, through
//! Cranelift, and returns an executable that is called on tensors. The backend names no primitive: it asks each one
//! for its lowering.

pub mod accelerator;
pub(crate) mod codegen;
pub mod layout;
pub mod loop_ir;
pub mod lower;
pub mod passes;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod runtime;
pub mod stablehlo;

mod allocation;
mod compile;
mod executable;
mod fingerprint;
mod machine;
mod target;
mod workspace;
#[cfg(feature = "xla")]
pub mod xla;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

pub use codegen::clif::CodeReport;
pub use codegen::vectors::{LaneCode, LaneLoop, Vectors};
pub use compile::{Report, Runnable, compile, timed_parts};
pub use executable::{CallResources, Executable, Results};
pub use lower::{loop_trees, schedule};
pub use machine::{Effect, MachineModel, Number};
pub use profile::{Profile, ProfileLine, ProfileRow};
pub use report::loop_tape_warnings::LargeResidual;
pub use report::memory_plan::{Plan, Representation, Row};
pub use report::rematerialized::Rematerialized;
pub use report::tape_table::TapePlan;
pub use target::{Options, Target, threads};

use allocation::no_memory;
