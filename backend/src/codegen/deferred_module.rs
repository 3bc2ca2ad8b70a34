//! A module that places its definitions in memory together, after the last one is known.
//!
//! Cranelift's module copies each function into memory at its definition, before the total size is known. [`Deferred`]
//! stores the bytes of all definitions, maps memory of their total size, and then passes the definitions to
//! Cranelift's module.

use super::code_memory::{CodeMemory, SharedMemory};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Signature;
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{
    DataDescription, DataId, FuncId, Init, Linkage, Module, ModuleError, ModuleReloc, ModuleResult,
};
use std::io;
use tapeloom_ir::{Kind, Problem};

/// The bytes reserved for an indirect jump. A call of AArch64 reaches 128 MB, so `cranelift-jit` reserves memory for
/// one jump per call after each function.
const JUMP: usize = 24;

/// A module that stores its definitions and computes their total size before it allocates memory.
pub(super) struct Deferred {
    module: JITModule,
    memory: SharedMemory,
    definitions: Vec<Definition>,
}

enum Definition {
    Function { id: FuncId, align: u64, bytes: Vec<u8>, relocations: Vec<ModuleReloc> },
    Data { id: DataId, data: DataDescription },
}

impl Definition {
    /// Returns the largest number of bytes that the definition adds to the module's memory, with padding. Functions are
    /// aligned to at least `least` bytes.
    fn bytes(&self, least: u64) -> usize {
        let (align, bytes) = match self {
            Definition::Function { align, bytes, relocations, .. } => {
                (*align, bytes.len().saturating_add(JUMP.saturating_mul(relocations.len())))
            }
            Definition::Data { data, .. } => {
                let bytes = match &data.init {
                    Init::Uninitialized => 0,
                    Init::Zeros { size } => *size,
                    Init::Bytes { contents } => contents.len(),
                };
                (data.align.unwrap_or(1), bytes.max(1))
            }
        };
        bytes.saturating_add(usize::try_from(align.max(least)).unwrap_or(usize::MAX))
    }
}

impl Deferred {
    /// Returns a module without definitions.
    pub(super) fn new(mut builder: JITBuilder) -> Deferred {
        let memory = SharedMemory::default();
        builder.memory_provider(Box::new(memory.clone()));
        Deferred { module: JITModule::new(builder), memory, definitions: Vec::new() }
    }

    /// Places all definitions in memory. Returns the address of the function `entry`, and the memory that contains the
    /// code.
    ///
    /// # Errors
    /// [`Kind::Target`] if the system has no executable memory left. The message contains `name`.
    pub(super) fn finish(
        mut self,
        entry: FuncId,
        name: &str,
    ) -> Result<(*const u8, CodeMemory), Problem> {
        let isa = self.module.isa();
        let least = u64::from(isa.function_alignment().minimum).max(isa.symbol_alignment());
        let bytes = self.definitions.iter().fold(0, |n: usize, d| n.saturating_add(d.bytes(least)));
        self.memory.put(CodeMemory::new(bytes).map_err(|e| no_memory(name, &e))?);
        let failed = |e: ModuleError| match e {
            ModuleError::Allocation { err } => no_memory(name, &err),
            e => Problem::internal(format!("placing @{name}: {e}")),
        };
        for definition in self.definitions {
            match definition {
                Definition::Function { id, align, bytes, relocations } => {
                    self.module.define_function_bytes(id, align, &bytes, &relocations)
                }
                Definition::Data { id, data } => self.module.define_data(id, &data),
            }
            .map_err(failed)?;
        }
        self.module.finalize_definitions().map_err(failed)?;
        let address = self.module.get_finalized_function(entry);
        let memory = self.memory.take().ok_or_else(|| Problem::internal("code without memory"))?;
        Ok((address, memory))
    }
}

/// Returns the error for a program whose code gets no memory from the system.
fn no_memory(name: &str, e: &io::Error) -> Problem {
    let help = "drop compiled programs that are not called any more, or raise the limits of this process \
                (`ulimit -v`, `vm.max_map_count`)";
    Problem::new(Kind::Target, format!("no executable memory for @{name}: {e}"), help)
}

impl Module for Deferred {
    declarations_of!(module);

    fn declare_function(&mut self, name: &str, l: Linkage, s: &Signature) -> ModuleResult<FuncId> {
        self.module.declare_function(name, l, s)
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        cx: &mut Context,
        control: &mut ControlPlane,
    ) -> ModuleResult<()> {
        cx.compile(self.module.isa(), control)?;
        let Some(code) = cx.compiled_code() else { return Ok(()) };
        let (align, bytes) = (u64::from(code.buffer.alignment), code.code_buffer().to_vec());
        let relocations = code.buffer.relocs().iter();
        let relocations =
            relocations.map(|r| ModuleReloc::from_mach_reloc(r, &cx.func, id)).collect();
        self.definitions.push(Definition::Function { id, align, bytes, relocations });
        Ok(())
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        align: u64,
        bytes: &[u8],
        relocations: &[ModuleReloc],
    ) -> ModuleResult<()> {
        let (bytes, relocations) = (bytes.to_vec(), relocations.to_vec());
        self.definitions.push(Definition::Function { id, align, bytes, relocations });
        Ok(())
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        self.definitions.push(Definition::Data { id, data: data.clone() });
        Ok(())
    }
}
