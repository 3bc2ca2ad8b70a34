//! Code generation for tapeloom: function -> kernels -> memory plan -> Cranelift.

pub mod kernel;

mod clif;
mod executable;
mod gemm;
mod jit;

pub use executable::Executable;
pub use jit::Report;
