//! Code generation for tapeloom: from a function to callable machine code.
//!
//! ```text
//! Function --lower--> loop_ir::Program and Plan --passes--> --codegen--> machine code --> Executable
//! ```
//!
//! [`lower_to_loops()`] lowers a function to loop nests over buffers. The result is data ([`loop_ir`]) that prints,
//! parses, verifies and is interpreted. One of the last [`passes`] plans the memory of the buffers. [`compile()`] runs
//! all stages, through Cranelift, and returns an executable that is called on tensors. The backend names no primitive:
//! a primitive states its lowering itself.
//!
//! Machine code needs the feature `native`, which is on by default. Without it, the default target is the interpreter of the
//! loop IR, and neither Cranelift nor a matrix library is built.

#![cfg_attr(
    not(all(feature = "native", feature = "object", feature = "rust", feature = "stablehlo")),
    allow(
        dead_code,
        reason = "some parts of code generation and of the loop IR belong to one feature only"
    )
)]

pub mod accelerator;
pub(crate) mod codegen;
pub mod layout;
pub mod loop_ir;
pub mod lower;
#[cfg(feature = "object")]
pub mod object;
pub mod passes;
pub(crate) mod profile;
pub(crate) mod report;
#[cfg(feature = "native")]
pub(crate) mod runtime;
#[cfg(feature = "rust")]
pub mod rust_source;
#[cfg(feature = "stablehlo")]
pub mod stablehlo;

mod allocation;
mod compile;
#[cfg(feature = "native")]
mod executable;
mod fingerprint;
mod machine;
mod results;
mod target;
#[cfg(not(feature = "native"))]
mod without_native;
mod workspace;
#[cfg(feature = "xla")]
pub mod xla;

#[cfg(test)]
#[path = "../../tests/src/sweeps.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a module of the crate `tests`")]
mod sweeps;

#[cfg(feature = "native")]
pub use codegen::clif::CodeReport;
pub use codegen::vectors::{LaneCode, LaneLoop, Vectors};
pub use compile::{Report, Runnable, compile, timed_parts};
#[cfg(feature = "native")]
pub use executable::Executable;
pub use lower::{loop_trees, lower_to_loops};
pub use machine::{Effect, MachineModel, Number};
pub use profile::{Profile, ProfileLine, ProfileRow};
pub use report::loop_tape_warnings::LargeResidual;
pub use report::memory_plan::{Plan, Representation, Row};
pub use report::rematerialized::Rematerialized;
pub use report::tape_table::TapePlan;
pub use results::{CallResources, Results};
pub use target::{Options, Target, threads};

use allocation::no_memory;
#[cfg(not(feature = "native"))]
use without_native as executable;
