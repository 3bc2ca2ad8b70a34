//! Relocatable objects: the machine code of a program as a file that programs in other languages link.
//!
//! [`clif`](super::clif) emits the same functions as for code in memory, but into the module of [`code_module`].
//! Functions of the runtime that the code calls are emitted beside it: library functions from their recordings
//! ([`library_functions`]), calls of library routines ([`routines`]), and the growth of tapes and the pieces of
//! concurrent loops ([`runtime_functions`]). Callers see the function of [`entry`]. If the number of rows is an
//! argument of the object, callers see the function of [`rows`] instead, which calls two entries.

mod code_module;
mod emitter;
mod entry;
mod library_functions;
mod routines;
mod rows;
mod runtime_functions;

use super::clif::{self, Caller, Symbols};
use super::target_isa;
use crate::loop_ir::{External, Program, visit};
use crate::machine::MachineModel;
use code_module::CodeModule;
use cranelift_module::{FuncId, Linkage};
use cranelift_object::{ObjectBuilder, ObjectModule};
use emitter::Emitter;
use std::sync::{Arc, Mutex, PoisonError};
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Isa, Kind, Problem, Tensor};
use target_lexicon::Triple;

use entry::Constants;
pub(crate) use entry::Memory;
pub(crate) use rows::{RowArray, RowArrays};

/// The machine code of a program as a relocatable object.
pub(crate) struct ObjectCode {
    /// The bytes of the file.
    pub(crate) bytes: Vec<u8>,
    /// The symbols that the object needs and does not contain, sorted.
    pub(crate) undefined: Vec<String>,
    /// The memory that a call needs.
    pub(crate) memory: Memory,
}

/// A verified program of an object. Its last parameters are the tensors `captured`: constants that were traced with it.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) program: &'a Program,
    pub(crate) captured: &'a [Tensor],
}

/// The programs that an object's entry runs.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// A single program. The entry has the program's arguments and results.
    Whole(Part<'a>),
    /// Two programs: one computes a block of rows, the other a single row. `arrays` are the arguments and results of
    /// the entry.
    Rows { block: Part<'a>, row: Part<'a>, arrays: &'a RowArrays },
}

/// Emits verified programs as an object, whose entry has the name `name`.
pub(crate) fn emit(
    content: Content<'_>,
    machine: MachineModel,
    name: &str,
    (triple, isa): (&Triple, Isa),
) -> Result<ObjectCode, Problem> {
    let parts = match content {
        Content::Whole(part) => vec![part],
        Content::Rows { block, row, .. } => vec![block, row],
    };
    parts.iter().try_for_each(|part| refuse(part.program))?;
    let internal = |e: &dyn std::fmt::Display| Problem::internal(format!("object of @{name}: {e}"));
    // Where the machine lacks an instruction, Cranelift calls a function of the C library. This list collects such
    // calls.
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
    let symbols: Vec<Symbols> = parts.iter().map(|part| Symbols::of(part.program)).collect();
    let [first, ..] = symbols.as_slice() else {
        return Err(Problem::internal("an object without a program"));
    };
    let module = CodeModule::new(ObjectModule::new(builder), first);
    let (emitter, constants) = (Emitter::new(), Constants::default());
    let used = library_functions_of(&parts);
    let mut emission = Emission { module, emitter, constants, used, machine, isa };
    let memory = match (content, symbols.as_slice()) {
        (Content::Whole(part), [of]) => emission.part(part, of, ("", name, Linkage::Export))?.1,
        (Content::Rows { block, row, arrays }, [of_block, of_row]) => {
            let mut called = |part, symbols, program, rows| {
                let names = (program, "entry", Linkage::Local);
                let (entry, memory) = emission.part(part, symbols, names)?;
                Ok::<_, Problem>(rows::Called { entry, rows, memory })
            };
            let block = called(block, of_block, "block.", arrays.block_rows)?;
            let row = called(row, of_row, "row.", 1)?;
            let Emission { module, emitter, .. } = &mut emission;
            rows::define(module, emitter, name, arrays, (block, row))?
        }
        (Content::Whole(_) | Content::Rows { .. }, _) => {
            return Err(Problem::internal("an object with other programs than parts"));
        }
    };
    let module = emission.module;
    let (module, mut undefined) = module.finish();
    let bytes = module.finish().emit().map_err(|e| internal(&e))?;
    undefined.extend(called.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
    undefined.sort_unstable();
    undefined.dedup();
    Ok(ObjectCode { bytes, undefined, memory })
}

/// The state of the emission of an object.
struct Emission<'a> {
    module: CodeModule<'a>,
    emitter: Emitter,
    constants: Constants,
    /// The library functions that any of the programs calls.
    used: Vec<Library>,
    machine: MachineModel,
    isa: Isa,
}

impl<'a> Emission<'a> {
    /// Emits a program with its entry, and those functions of the runtime that no earlier program has called. `program`
    /// is a prefix of the symbols of the program's functions. Returns the entry, and the memory that a call needs.
    fn part(
        &mut self,
        part: Part<'_>,
        symbols: &'a Symbols,
        (program, name, linkage): (&'static str, &str, Linkage),
    ) -> Result<(FuncId, Memory), Problem> {
        let Emission { module, emitter, constants, used, machine, isa } = self;
        module.begin(program, symbols);
        let (kernel, report) =
            clif::translate(part.program, *machine, symbols, module, *isa, Caller::Foreign)?;
        let memory = Memory::of(part.program, &report);
        let captured = constants.of(module, part.captured)?;
        let entry = (kernel, name, linkage);
        let entry = entry::define(module, emitter, part.program, entry, &captured, memory)?;
        while let Some((id, callee)) = module.next_callee() {
            match callee {
                code_module::Own::Library(library, dtype) => {
                    library_functions::one(module, emitter, id, (library, dtype), used)?;
                }
                code_module::Own::OfEight(library, dtype) => {
                    library_functions::eight(module, emitter, id, library, dtype)?;
                }
                code_module::Own::Grow => runtime_functions::grow(module, emitter, id)?,
                code_module::Own::Pieces => runtime_functions::run_pieces(module, emitter, id)?,
                code_module::Own::Routines => {
                    routines::call(module, emitter, id, &part.program.externals())?;
                }
            }
        }
        Ok((entry, memory))
    }
}

/// Returns the library functions that programs call.
fn library_functions_of(parts: &[Part<'_>]) -> Vec<Library> {
    let mut used: Vec<Library> = Vec::new();
    for (_, kernel) in parts.iter().flat_map(|part| part.program.kernels()) {
        visit(&kernel.body, &mut |stmt| {
            let libraries = stmt.shape().code.into_iter().filter_map(|code| code.row().library);
            for library in libraries {
                let of = |l: &Library| (l.name, l.number());
                if used.iter().all(|known| of(known) != of(&library)) {
                    used.push(library);
                }
            }
        });
    }
    used
}

/// Returns an error if no object can be made of a program: it calls a Rust function of this process, or limits the
/// iterations of its loops.
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
