//! Code generation for tapeloom: function -> kernels -> memory plan -> Cranelift.

pub mod kernel;
