//! The module of an object (a relocatable file of machine code): it decides which of the called functions are part of
//! the object.
//!
//! An object may have several programs, whose functions are emitted one program after the other
//! ([`CodeModule::begin`]). Functions of the object except its entry have local symbols, so that one executable can
//! link two objects that two versions of this library have made. Functions of the C library and of the library that
//! objects link are undefined symbols.

use super::library_functions;
use crate::codegen::clif::{Callee, Symbols};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Signature;
use cranelift_module::{
    DataDescription, DataId, FuncId, Linkage, Module, ModuleError, ModuleReloc, ModuleResult,
};
use cranelift_object::ObjectModule;
use tapeloom_ir::prim::Library;
use tapeloom_ir::{Dtype, OrderedMap};

/// A function of the runtime that an object contains.
#[derive(Clone, Copy)]
pub(super) enum Own {
    /// A library function, applied to single elements.
    Library(Library, Dtype),
    /// A library function, applied to eight elements at once.
    OfEight(Library, Dtype),
    /// The function that allocates a record of a dynamic tape.
    Grow,
    /// The function that runs the pieces (iterations) of a concurrent loop.
    Pieces,
    /// The function that calls the library routines of the program.
    Routines,
}

/// A Cranelift module that writes a relocatable object, and decides which called functions are part of it.
pub(super) struct CodeModule<'a> {
    module: ObjectModule,
    /// The functions that the code of the current program may call.
    symbols: &'a Symbols,
    /// A prefix for the symbols of the current program's functions, so that they differ from those of other programs in
    /// the object.
    program: &'static str,
    /// The functions of the runtime that the code calls, by name.
    called: OrderedMap<String, FuncId>,
    /// The called functions of the runtime that become part of the object, and whose bodies are still to be emitted.
    open: Vec<(FuncId, Own)>,
    /// The symbols of called functions that are not part of the object.
    undefined: Vec<String>,
}

impl<'a> CodeModule<'a> {
    /// Returns a module whose first program may call the functions `symbols`.
    pub(super) fn new(module: ObjectModule, symbols: &'a Symbols) -> CodeModule<'a> {
        CodeModule {
            module,
            symbols,
            program: "",
            called: OrderedMap::default(),
            open: Vec::new(),
            undefined: Vec::new(),
        }
    }

    /// Continues with another program, whose code may call the functions `symbols`. `name` is a prefix of the symbols
    /// of its functions.
    pub(super) fn begin(&mut self, name: &'static str, symbols: &'a Symbols) {
        (self.program, self.symbols) = (name, symbols);
    }

    /// Returns a function of the runtime that is declared and not yet emitted, and removes it from the list; `None` if
    /// there is none.
    pub(super) fn next_callee(&mut self) -> Option<(FuncId, Own)> {
        self.open.pop()
    }

    /// Returns the module, and the symbols of called functions that are not part of the object.
    pub(super) fn finish(self) -> (ObjectModule, Vec<String>) {
        (self.module, self.undefined)
    }

    /// Declares a function of the runtime.
    #[expect(clippy::result_large_err, reason = "the error of the trait `Module`")]
    fn runtime(&mut self, name: &str, signature: &Signature) -> ModuleResult<FuncId> {
        let callee = self.symbols.callee(name);
        // A library routine is called by its number in its program, so each program has its own function that calls
        // routines.
        let program = if matches!(callee, Some(Callee::External)) { self.program } else { "" };
        let name = format!("{program}{name}");
        if let Some(id) = self.called.get(&name) {
            return Ok(*id);
        }
        let own = match callee {
            Some(Callee::Library(library, dtype)) => {
                if let Some(symbol) = library_functions::outside(&library, dtype) {
                    let id = self.import(&symbol, signature)?;
                    self.called.insert(name, id);
                    return Ok(id);
                }
                Own::Library(library, dtype)
            }
            Some(Callee::OfEight(library, dtype)) => Own::OfEight(library, dtype),
            Some(Callee::Grow) => Own::Grow,
            Some(Callee::Pieces) => Own::Pieces,
            Some(Callee::External) => Own::Routines,
            // Contractions, sorts, limits and timers: passes have replaced these statements, or the object was refused.
            Some(Callee::Contraction | Callee::Argsort | Callee::Limit | Callee::Timer) | None => {
                return Err(ModuleError::Undeclared(name));
            }
        };
        let id = self.module.declare_function(&local(&name), Linkage::Local, signature)?;
        self.open.push((id, own));
        self.called.insert(name, id);
        Ok(id)
    }

    /// Declares a function outside of the object.
    #[expect(clippy::result_large_err, reason = "the error of the trait `Module`")]
    pub(super) fn import(&mut self, symbol: &str, signature: &Signature) -> ModuleResult<FuncId> {
        self.undefined.push(symbol.to_owned());
        self.module.declare_function(symbol, Linkage::Import, signature)
    }
}

/// Returns the symbol of a function of the object, without `@`, which linkers read as the start of a version.
fn local(name: &str) -> String {
    format!("tapeloom.{}", name.replace('@', "."))
}

impl Module for CodeModule<'_> {
    declarations_of!(module);

    fn declare_function(&mut self, name: &str, l: Linkage, s: &Signature) -> ModuleResult<FuncId> {
        match l {
            Linkage::Import => self.runtime(name, s),
            Linkage::Local => {
                let name = local(&format!("{}{name}", self.program));
                self.module.declare_function(&name, l, s)
            }
            Linkage::Export | Linkage::Hidden | Linkage::Preemptible => {
                self.module.declare_function(name, l, s)
            }
        }
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        cx: &mut Context,
        control: &mut ControlPlane,
    ) -> ModuleResult<()> {
        self.module.define_function_with_control_plane(id, cx, control)
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        align: u64,
        bytes: &[u8],
        relocations: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.module.define_function_bytes(id, align, bytes, relocations)
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        self.module.define_data(id, data)
    }
}
