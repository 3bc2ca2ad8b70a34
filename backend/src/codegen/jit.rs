//! Machine code in memory: one module and one mapping per program, both freed on drop.

#![expect(unsafe_code, reason = "calls generated code")]

use crate::codegen::clif::{self, Caller, CodeReport, Symbols};
use crate::codegen::code_memory::CodeMemory;
use crate::codegen::deferred_module::Deferred;
use crate::loop_ir::Program;
use crate::machine::MachineModel;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_jit::JITBuilder;
use std::time::Instant;
use tapeloom_ir::{Isa, Problem};

/// The machine code of a program's entry kernel: takes a pointer to its call record and returns a status (0: success).
type Entry = unsafe extern "C" fn(*const *mut u8) -> i32;

/// The machine code of one program, in executable memory.
pub(crate) struct MachineCode {
    entry: Entry,
    /// The pages of the code, freed on drop.
    _memory: CodeMemory,
}

impl MachineCode {
    /// Compiles a verified program to machine code in memory.
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
        let mut module = Deferred::new(builder);
        let (entry, mut report) =
            clif::translate(program, machine, &symbols, &mut module, set, Caller::Process)?;
        let start = Instant::now();
        let (address, memory) = module.finish(entry, &program.entry.name)?;
        // SAFETY: the function was compiled with the signature of `Entry` (clif::signature) for the
        // C calling convention of this machine.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
        report.finalize = start.elapsed();
        Ok((MachineCode { entry, _memory: memory }, report))
    }

    /// Runs the program's code and returns its status (0: success).
    ///
    /// # Safety
    /// `record` is a call record of the program's entry (an array of pointers to operands and results), with the
    /// invariants that [`crate::runtime::abi`] states. The workspace to which the record points has the number of
    /// bytes in the report, and nothing else uses it during the call.
    pub(crate) unsafe fn call(&self, record: *const *mut u8) -> i32 {
        // SAFETY: the caller guarantees the contract of the entry's machine code, and `self` owns the memory of that
        // code.
        unsafe { (self.entry)(record) }
    }
}

/// A function that Cranelift calls instead of an instruction that the machine lacks (rounding before SSE4.1).
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
