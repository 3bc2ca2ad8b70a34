//! Machine code from the loop IR, by Cranelift and by the SIMD code generator.

/// Implements the declarations of Cranelift's trait `Module` by forwarding them to a module in a field, except the
/// declarations of named functions.
#[cfg(feature = "native")]
macro_rules! declarations_of {
    ($field:ident) => {
        fn isa(&self) -> &dyn cranelift_codegen::isa::TargetIsa {
            self.$field.isa()
        }

        fn declarations(&self) -> &cranelift_module::ModuleDeclarations {
            self.$field.declarations()
        }

        fn declare_anonymous_function(&mut self, s: &Signature) -> ModuleResult<FuncId> {
            self.$field.declare_anonymous_function(s)
        }

        fn declare_data(
            &mut self,
            name: &str,
            linkage: Linkage,
            writable: bool,
            tls: bool,
        ) -> ModuleResult<DataId> {
            self.$field.declare_data(name, linkage, writable, tls)
        }

        fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
            self.$field.declare_anonymous_data(writable, tls)
        }
    };
}

#[cfg(feature = "native")]
pub(crate) mod clif;
#[cfg(feature = "native")]
mod code_memory;
#[cfg(test)]
mod code_memory_tests;
#[cfg(feature = "native")]
mod deferred_module;
#[cfg(feature = "native")]
pub(crate) mod jit;
#[cfg(feature = "object")]
pub(crate) mod object;
#[cfg(feature = "native")]
pub(crate) mod simd;
#[cfg(feature = "native")]
pub(crate) mod target_isa;
pub(crate) mod vectors;
