//! Machine code in memory: one module per program, freed on drop.
//!
//! A module's memory cannot be freed function by function and is leaked unless freed by hand, so
//! each program has a module of its own, [`MachineCode`], which frees it when it is dropped.

#![expect(unsafe_code, reason = "calls generated code and frees its memory")]

use crate::codegen::clif::{self, CodeReport, Symbols};
use crate::loop_ir::Program;
use crate::machine::MachineModel;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_jit::{JITBuilder, JITModule};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tapeloom_ir::{Isa, Kind, Problem};

/// The function a program becomes: from its record to a status.
type Entry = unsafe extern "C" fn(*const *mut u8) -> i32;

/// The machine code of one program.
pub(crate) struct MachineCode {
    entry: Entry,
    /// `None` only while it is dropped. The mutex makes it `Sync`; nothing locks it in between.
    module: Mutex<Option<JITModule>>,
}

impl MachineCode {
    /// Compiles a verified program.
    pub(crate) fn new(
        program: &Program,
        machine: MachineModel,
        isa: OwnedTargetIsa,
        set: Isa,
    ) -> Result<(MachineCode, CodeReport), Problem> {
        let symbols = Symbols::of(program);
        let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
        for symbol in symbols.iter() {
            builder.symbol(symbol.name.clone(), symbol.address);
        }
        for (name, address) in LIBCALLS {
            builder.symbol(name, address.as_ptr());
        }
        // Wrapped at once: from here on every way out frees the memory.
        let mut owner = Owner(Some(JITModule::new(builder)));
        let Some(module) = owner.0.as_mut() else { return Err(Problem::internal("no module")) };
        let (entry, mut report) = clif::translate(program, machine, &symbols, module, set)?;
        let start = Instant::now();
        module
            .finalize_definitions()
            .map_err(|e| Problem::new(Kind::Target, format!("no executable memory: {e}"), ""))?;
        let address = module.get_finalized_function(entry);
        // SAFETY: the function was compiled with the signature of `Entry` (clif::signature) for the
        // C calling convention of this machine.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
        report.finalize = start.elapsed();
        let module = Mutex::new(owner.0.take());
        Ok((MachineCode { entry, module }, report))
    }

    /// Runs the code.
    ///
    /// # Safety
    /// `record` is one of the program's entry: see the invariants in [`crate::runtime::abi`]. The frame has
    /// as many bytes as the report says, and nothing else uses it meanwhile.
    pub(crate) unsafe fn call(&self, record: *const *mut u8) -> i32 {
        // SAFETY: the entry is code for exactly this contract, and lives as long as `self`.
        unsafe { (self.entry)(record) }
    }
}

impl Drop for MachineCode {
    fn drop(&mut self) {
        let module = self.module.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(Owner(module.take()));
    }
}

/// Frees a module's memory when dropped; whoever drops it knows that its code does not run.
struct Owner(Option<JITModule>);

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: the only pointer into the module's memory is the entry of a `MachineCode`,
            // which is being dropped or was never made, so that no call is or will be under way.
            unsafe { module.free_memory() };
        }
    }
}

/// A function that Cranelift calls where the machine lacks an instruction (rounding before SSE4.1).
#[derive(Clone, Copy)]
enum Libcall {
    F64(extern "C" fn(f64) -> f64),
    F32(extern "C" fn(f32) -> f32),
}

impl Libcall {
    fn as_ptr(self) -> *const u8 {
        match self {
            Libcall::F64(f) => f as *const u8,
            Libcall::F32(f) => f as *const u8,
        }
    }
}

const LIBCALLS: [(&str, Libcall); 4] = [
    ("floor", Libcall::F64(floor)),
    ("ceil", Libcall::F64(ceil)),
    ("floorf", Libcall::F32(floorf)),
    ("ceilf", Libcall::F32(ceilf)),
];

extern "C" fn floor(x: f64) -> f64 {
    x.floor()
}

extern "C" fn ceil(x: f64) -> f64 {
    x.ceil()
}

extern "C" fn floorf(x: f32) -> f32 {
    x.floor()
}

extern "C" fn ceilf(x: f32) -> f32 {
    x.ceil()
}
