//! Relocatable objects: the machine code of a program as a file that programs in other languages link.
//!
//! [`clif`](super::clif) emits the same functions as into memory, into the module of [`code_module`]. Functions of the runtime that
//! the code calls are emitted beside it: library functions from their recordings ([`library_functions`]), calls of library routines
//! ([`routines`]), and the growth of tapes and the pieces of concurrent loops ([`runtime_functions`]). [`entry`] is the function
//! that callers see.

mod code_module;
mod emitter;
mod entry;
mod library_functions;
mod routines;
mod runtime_functions;

use super::clif::{self, Caller, Symbols};
use super::target_isa;
use crate::loop_ir::{External, Program, visit};
use crate::machine::MachineModel;
use code_module::CodeModule;
use cranelift_object::{ObjectBuilder, ObjectModule};
use emitter::Emitter;
use std::sync::{Arc, Mutex, PoisonError};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Isa, Kind, Problem, Tensor};
use target_lexicon::Triple;

pub(crate) use entry::Memory;

/// The machine code of a program as a relocatable object.
pub(crate) struct ObjectCode {
    /// The bytes of the file.
    pub(crate) bytes: Vec<u8>,
    /// The functions outside of the object that its code calls, sorted.
    pub(crate) undefined: Vec<String>,
    /// The memory that a call needs.
    pub(crate) memory: Memory,
}

/// Emits a verified program as an object. Its entry has the name `name`; the last arguments of the program are `captured`.
pub(crate) fn emit(
    program: &Program,
    machine: MachineModel,
    name: &str,
    captured: &[Tensor],
    (triple, isa): (&Triple, Isa),
) -> Result<ObjectCode, Problem> {
    refuse(program)?;
    let used = library_functions_of(program);
    let internal = |e: &dyn std::fmt::Display| Problem::internal(format!("object of @{name}: {e}"));
    // Cranelift names a function of the C library where the machine has no instruction.
    let called = Arc::new(Mutex::new(Vec::new()));
    let names = cranelift_module::default_libcall_names();
    let listed = called.clone();
    let listed = Box::new(move |call| {
        let name = names(call);
        listed.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        name
    });
    let code_isa = target_isa::of_object(triple, isa)?;
    let builder = ObjectBuilder::new(code_isa, name, listed).map_err(|e| internal(&e))?;
    let symbols = Symbols::of(program);
    let mut module = CodeModule::new(ObjectModule::new(builder), &symbols);
    let (kernel, report) =
        clif::translate(program, machine, &symbols, &mut module, isa, Caller::Foreign)?;
    let memory = Memory::of(program, &report);
    let mut emitter = Emitter::new();
    entry::define(&mut module, &mut emitter, program, (kernel, name), captured, memory)?;
    while let Some((id, callee)) = module.next_callee() {
        match callee {
            code_module::Own::Library(library, dtype) => {
                library_functions::one(&mut module, &mut emitter, id, (library, dtype), &used)?;
            }
            code_module::Own::OfEight(library, dtype) => {
                library_functions::eight(&mut module, &mut emitter, id, library, dtype)?;
            }
            code_module::Own::Grow => runtime_functions::grow(&mut module, &mut emitter, id)?,
            code_module::Own::Pieces => {
                runtime_functions::run_pieces(&mut module, &mut emitter, id)?
            }
            code_module::Own::Routines => {
                routines::call(&mut module, &mut emitter, id, &program.externals())?
            }
        }
    }
    let (module, mut undefined) = module.finish();
    let bytes = module.finish().emit().map_err(|e| internal(&e))?;
    undefined.extend(called.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
    undefined.sort_unstable();
    undefined.dedup();
    Ok(ObjectCode { bytes, undefined, memory })
}

/// Returns the library functions of a program.
fn library_functions_of(program: &Program) -> Vec<Library> {
    let mut used: Vec<Library> = Vec::new();
    for (_, kernel) in program.kernels() {
        visit(&kernel.body, &mut |stmt| {
            let libraries = stmt.shape().code.into_iter().filter_map(|code| code.row().library);
            for library in libraries {
                let of = |l: &Library| (l.name, library_functions::number(l));
                if used.iter().all(|known| of(known) != of(&library)) {
                    used.push(library);
                }
            }
        });
    }
    used
}

/// Returns an error if a program needs the process in which it was traced.
fn refuse(program: &Program) -> Result<(), Problem> {
    let externals = program.externals();
    let host = externals.iter().find(|of| matches!(of.function, External::Host(_)));
    if let Some(signature) = host {
        let name = signature.name();
        let problem = Problem::new(
            Kind::Target,
            format!(
                "an object cannot call the Rust function `{name}`, which is part of this process"
            ),
            "leave the call out of the function, or run it with `jit(f).call`",
        );
        return Err(problem.at(signature.location));
    }
    if let Some(limited) = program.limited.values().next() {
        let problem = Problem::new(
            Kind::Target,
            "an object has no limit on the iterations of its loops, and cannot be cancelled",
            "make the object of a `jit` without `max_steps` and `cancelled_by`",
        );
        return Err(problem.at(limited.loc));
    }
    Ok(())
}
