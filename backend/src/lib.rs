//! Code generation for tapeloom: function -> kernels -> memory plan -> Cranelift.

pub mod kernel;
pub mod schedule;

mod clif;
mod compile;
mod executable;
mod gemm;
mod jit;
mod plan;

pub use compile::{Compiled, Engine, Options, Report, compile};
pub use executable::Executable;
pub use jit::Report as CodeReport;
pub use plan::{Plan, Row};
pub use schedule::schedule;
