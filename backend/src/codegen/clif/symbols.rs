//! The functions that generated code calls: library functions, contractions, runtime functions, and functions of the
//! program itself.
//!
//! An unknown symbol causes a panic in the linker. So symbols and declarations come from the same list:
//! [`Symbols::of`] walks the program once and lists everything that its code can call.

use crate::codegen::simd::Refused;
use crate::codegen::vectors::{LaneLoop, Vectors};
use crate::loop_ir::{
    Contract, Effect, ExternalSignature, Flow, Parallelism, Program, Stmt, Sums, visit,
};
use crate::runtime::argsort;
use crate::runtime::external_calls;
use crate::runtime::gemm;
use crate::runtime::loop_limits;
use crate::runtime::small_gemm;
use crate::runtime::tape_memory;
use crate::runtime::threads;
use crate::runtime::timers;
use cranelift_codegen::ir::{self, AbiParam, Endianness, FuncRef, Signature, types};
use cranelift_codegen::isa::CallConv;
use cranelift_module::{DataDescription, DataId, FuncId, Linkage, Module};
use std::sync::Arc;
use tapeloom_ir::prim::{Library, LibraryFn};
use tapeloom_ir::{Code, Dtype, Isa, OrderedMap, Problem};
use target_lexicon::Architecture;

/// All functions that a program's code can call, with their addresses and signatures.
pub(crate) struct Symbols {
    list: Vec<Symbol>,
    index: OrderedMap<String, usize>,
    /// The external functions of the program, which code calls by their number in this list.
    externals: Vec<Arc<ExternalSignature>>,
}

/// The purpose of a function that generated code may call.
#[derive(Clone, Copy)]
pub(crate) enum Callee {
    /// A library function, applied to single elements.
    Library(Library, Dtype),
    /// A library function, applied to eight elements at once.
    OfEight(Library, Dtype),
    Contraction,
    /// The function that runs the pieces of a concurrent loop.
    Pieces,
    /// The function that allocates a record of a dynamic tape.
    Grow,
    Limit,
    Timer,
    External,
    Argsort,
}

/// A function that generated code may call.
pub(crate) struct Symbol {
    /// The unique name by which generated code refers to the function.
    pub(crate) name: String,
    callee: Callee,
    /// The address of the function in this process.
    pub(crate) address: *const u8,
    params: Vec<ir::Type>,
    result: Option<ir::Type>,
}

impl Symbols {
    /// Lists the functions that a program's code can call.
    pub(crate) fn of(program: &Program) -> Symbols {
        let (list, index, externals) = (Vec::new(), OrderedMap::default(), program.externals());
        let mut symbols = Symbols { list, index, externals };
        let mut stmt = |stmt: &Stmt| {
            let shape = stmt.shape();
            if let Flow::For { parallelism: Parallelism::Concurrent, .. } = shape.flow {
                let params = [types::I64; 4];
                let run = threads::run_pieces as *const u8;
                symbols.add(PIECES, Callee::Pieces, run, &params, Some(types::I32));
            }
            shape.code.into_iter().for_each(|code| symbols.code(code));
            shape.contract.into_iter().for_each(|c| symbols.contraction(c));
            match shape.effect {
                Effect::None | Effect::Call(_) => {}
                Effect::External(_) => {
                    let call = external_calls::call as *const u8;
                    symbols.runtime(EXTERNAL, Callee::External, call);
                }
                Effect::Tape(_) => {
                    symbols.runtime(GROW, Callee::Grow, tape_memory::grow as *const u8);
                }
                Effect::Limit(_) => {
                    symbols.runtime(ENTER, Callee::Limit, loop_limits::enter as *const u8);
                }
                Effect::Lap(_) => {
                    let params = [types::I64; 2];
                    symbols.add(LAP, Callee::Timer, timers::lap as *const u8, &params, None);
                }
            }
        };
        let mut sorts = false;
        for (_, kernel) in program.kernels() {
            sorts |= kernel.argsort.is_some();
            visit(&kernel.body, &mut stmt);
        }
        if sorts {
            let params = [types::I64; 4];
            let sort = argsort::argsort as *const u8;
            symbols.add(ARGSORT, Callee::Argsort, sort, &params, Some(types::I32));
        }
        symbols
    }

    /// Returns the purpose of the function with this name; `None` if generated code does not call it.
    pub(crate) fn callee(&self, name: &str) -> Option<Callee> {
        self.index.get(name).map(|index| self.list[*index].callee)
    }

    /// Returns all functions that generated code may call.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.list.iter()
    }

    fn code(&mut self, code: Code) {
        let Some(library) = code.row().library else { return };
        let (f64, f32) = (types::F64, types::F32);
        let [wide, narrow] = names(library);
        let of = |dtype| Callee::Library(library, dtype);
        let (of_wide, of_narrow) = (of(Dtype::F64), of(Dtype::F32));
        match library.function {
            LibraryFn::Unary { f64: w, f32: n, eight, recording: _ } => {
                self.add(&wide, of_wide, w as *const u8, &[f64], Some(f64));
                self.add(&narrow, of_narrow, n as *const u8, &[f32], Some(f32));
                let Some((w, n)) = eight.map(|eight| eight.here()) else { return };
                let params = |x| [&[types::I64], [x; 8].as_slice()].concat();
                let eight = |dtype| Callee::OfEight(library, dtype);
                self.add(&of_eight(&wide), eight(Dtype::F64), w as *const u8, &params(f64), None);
                self.add(&of_eight(&narrow), eight(Dtype::F32), n as *const u8, &params(f32), None);
            }
            LibraryFn::Binary { f64: w, f32: n, recording: _ } => {
                self.add(&wide, of_wide, w as *const u8, &[f64, f64], Some(f64));
                self.add(&narrow, of_narrow, n as *const u8, &[f32, f32], Some(f32));
            }
            LibraryFn::Ternary { f64: w, f32: n } => {
                self.add(&wide, of_wide, w as *const u8, &[f64; 3], Some(f64));
                self.add(&narrow, of_narrow, n as *const u8, &[f32; 3], Some(f32));
            }
            LibraryFn::Indexed { f64: w, f32: n, .. } => {
                self.add(&wide, of_wide, w as *const u8, &[types::I64, f64], Some(f64));
                self.add(&narrow, of_narrow, n as *const u8, &[types::I64, f32], Some(f32));
            }
        }
    }

    fn contraction(&mut self, c: &Contract) {
        let (address, result) = match (c.sums, c.dtype) {
            (Sums::Library, Dtype::F64) => (gemm::contract_f64 as *const u8, Some(types::I32)),
            (Sums::Library, _) => (gemm::contract_f32 as *const u8, Some(types::I32)),
            (Sums::Lanes(_), dtype) => (small_gemm::version(dtype, Isa::here()), None),
        };
        self.add(&contraction(c), Callee::Contraction, address, &[types::I64; 4], result);
    }

    /// Adds a runtime function that takes three words and returns a status.
    fn runtime(&mut self, name: &str, callee: Callee, address: *const u8) {
        self.add(name, callee, address, &[types::I64; 3], Some(types::I32));
    }

    fn add(
        &mut self,
        name: &str,
        callee: Callee,
        address: *const u8,
        params: &[ir::Type],
        result: Option<ir::Type>,
    ) {
        if !self.index.contains_key(name) {
            self.index.insert(name.to_owned(), self.list.len());
            let (name, params) = (name.to_owned(), params.to_vec());
            self.list.push(Symbol { name, callee, address, params, result });
        }
    }
}

/// The functions of a module, each declared at its first call.
pub(crate) struct Functions<'a> {
    module: &'a mut dyn Module,
    symbols: &'a Symbols,
    declared: OrderedMap<usize, FuncId>,
    /// The module's functions that are already imported into the function under construction.
    imported: OrderedMap<FuncId, FuncRef>,
    /// The constant words that are data of the module; equal ones are stored once.
    constants: OrderedMap<Vec<i64>, DataId>,
    /// The report of vector widths of the loops translated so far, with the instruction set for 256-bit and 512-bit
    /// vectors.
    vectors: Vectors,
}

impl<'a> Functions<'a> {
    /// Creates the table of a module in which no function is declared yet.
    pub(super) fn new(module: &'a mut dyn Module, symbols: &'a Symbols, isa: Isa) -> Functions<'a> {
        Functions {
            module,
            symbols,
            declared: OrderedMap::default(),
            imported: OrderedMap::default(),
            constants: OrderedMap::default(),
            vectors: Vectors { isa, ..Vectors::default() },
        }
    }

    /// Returns the instruction set for code in 256-bit or 512-bit vectors, or the reason why there is none.
    pub(super) fn simd_isa(&self) -> Result<Isa, Refused> {
        let triple = self.module.isa().triple();
        let system_v = triple.architecture == Architecture::X86_64
            && CallConv::triple_default(triple) == CallConv::SystemV;
        match self.vectors.isa {
            // SIMD code gets the pointer to its row of arguments in the first register of the calling convention System
            // V, so other conventions are refused.
            _ if !system_v => Err(Refused("wider vectors are supported on x86-64 with unix only")),
            isa @ (Isa::Avx512 | Isa::Avx2) => Ok(isa),
            Isa::Baseline => Err(Refused("wider vectors need avx2 and fma")),
        }
    }

    /// Adds a loop with lanes to the report of vector widths.
    pub(super) fn vectorized(&mut self, of: LaneLoop) {
        self.vectors.loops.push(of);
    }

    /// Adds `bytes` to the number of bytes of SIMD code (in vectors of 256 or 512 bits) in the report.
    pub(super) fn emitted(&mut self, bytes: usize) {
        self.vectors.simd_bytes += bytes;
    }

    /// Removes and returns the report of the vector widths of all loops with lanes.
    pub(super) fn vectors(&mut self) -> Vectors {
        std::mem::take(&mut self.vectors)
    }

    /// Returns the Cranelift module that receives the functions.
    pub(super) fn module(&mut self) -> &mut dyn Module {
        self.module
    }

    /// Returns whether the machine has every vector instruction that is emitted. (On x86, rounding requires
    /// SSE4.1.)
    pub(super) fn has_vectors(&self) -> bool {
        let isa = self.module.isa();
        let is = |name: &str| {
            isa.isa_flags().iter().any(|f| f.name == name && f.as_bool() == Some(true))
        };
        match isa.name() {
            "x64" => is("has_sse41"),
            "aarch64" => true,
            _ => false,
        }
    }

    /// Starts a new function: none of the module's functions is imported into it yet.
    pub(super) fn begin(&mut self) {
        self.imported.clear();
    }

    /// Imports a function of the module into the function under construction, once.
    pub(super) fn import(&mut self, func: &mut ir::Function, id: FuncId) -> FuncRef {
        let module = &mut *self.module;
        *self.imported.entry(id).or_insert_with(|| module.declare_func_in_func(id, func))
    }

    /// Returns the address of constant words in the module's data, for the function under construction.
    pub(super) fn constant(
        &mut self,
        func: &mut ir::Function,
        numbers: Vec<i64>,
    ) -> Result<ir::GlobalValue, Problem> {
        let id = match self.constants.get(&numbers) {
            Some(id) => *id,
            None => {
                let failed = |e| Problem::internal(format!("constants: {e}"));
                let id = self.module.declare_anonymous_data(false, false).map_err(failed)?;
                let mut data = DataDescription::new();
                data.set_align(8);
                // Data has the byte order of the machine: the lowest byte first, except on s390x.
                let little = self.module.isa().endianness() == Endianness::Little;
                let bytes = |n: &i64| if little { n.to_le_bytes() } else { n.to_be_bytes() };
                data.define(numbers.iter().flat_map(bytes).collect());
                self.module.define_data(id, &data).map_err(failed)?;
                self.constants.insert(numbers, id);
                id
            }
        };
        Ok(self.module.declare_data_in_func(id, func))
    }

    /// Returns a library function (such as `exp`) for elements of a dtype, imported into the function under
    /// construction.
    pub(super) fn library(
        &mut self,
        func: &mut ir::Function,
        library: Library,
        dtype: Dtype,
    ) -> Result<FuncRef, Problem> {
        self.symbol(func, &name(library, dtype))
    }

    /// Returns the version of a library function for 8 elements at once. Its arguments are the address for the results,
    /// and the eight elements.
    pub(super) fn library_of_eight(
        &mut self,
        func: &mut ir::Function,
        library: Library,
        dtype: Dtype,
    ) -> Result<FuncRef, Problem> {
        self.symbol(func, &of_eight(&name(library, dtype)))
    }

    /// Returns the runtime function that calls an external function, and the external function's number. Its arguments
    /// are the context, that number, and an array of pointers to operands and results. It returns a status.
    pub(super) fn external(
        &mut self,
        func: &mut ir::Function,
        signature: &Arc<ExternalSignature>,
    ) -> Result<(FuncRef, usize), Problem> {
        let unknown = || Problem::internal("an external function that the program does not list");
        let number =
            self.symbols.externals.iter().position(|a| a == signature).ok_or_else(unknown)?;
        Ok((self.symbol(func, EXTERNAL)?, number))
    }

    /// Returns the runtime function that grows a dynamic tape. Its arguments are the context, the tape, and the number
    /// of the record that must fit. It returns a status.
    pub(super) fn grow(&mut self, func: &mut ir::Function) -> Result<FuncRef, Problem> {
        self.symbol(func, GROW)
    }

    /// Returns the runtime function that is called before a limited loop. Its arguments are the context, the loop, and
    /// the number of iterations, or -1 if that is unknown. It returns a status.
    pub(super) fn enter(&mut self, func: &mut ir::Function) -> Result<FuncRef, Problem> {
        self.symbol(func, ENTER)
    }

    /// Returns the runtime function that reads the clock for a timer. Its arguments are the context and the timer. It
    /// returns nothing.
    pub(super) fn lap(&mut self, func: &mut ir::Function) -> Result<FuncRef, Problem> {
        self.symbol(func, LAP)
    }

    /// Returns the runtime function that runs the pieces of a concurrent loop. Its arguments are the context, the function
    /// of a piece, the captured values, and the number of pieces. It returns a status.
    pub(super) fn run_pieces(&mut self, func: &mut ir::Function) -> Result<FuncRef, Problem> {
        self.symbol(func, PIECES)
    }

    /// Returns the runtime's sort function. Its arguments are a description, the elements, the indices (the result),
    /// and scratch memory. It returns a status.
    pub(super) fn argsort(&mut self, func: &mut ir::Function) -> Result<FuncRef, Problem> {
        self.symbol(func, ARGSORT)
    }

    /// Returns the function that computes a contraction. Its arguments are a description, lhs, rhs and out. The
    /// library's functions return a status, the functions for thin matrices return nothing.
    pub(super) fn contraction(
        &mut self,
        func: &mut ir::Function,
        c: &Contract,
    ) -> Result<FuncRef, Problem> {
        self.symbol(func, &contraction(c))
    }

    fn symbol(&mut self, func: &mut ir::Function, name: &str) -> Result<FuncRef, Problem> {
        let index = *self
            .symbols
            .index
            .get(name)
            .ok_or_else(|| Problem::internal(format!("symbol {name} is not registered")))?;
        let id = match self.declared.get(&index) {
            Some(id) => *id,
            None => {
                let symbol = &self.symbols.list[index];
                let mut signature =
                    Signature::new(CallConv::triple_default(self.module.isa().triple()));
                signature.params.extend(symbol.params.iter().map(|t| AbiParam::new(*t)));
                signature.returns.extend(symbol.result.map(AbiParam::new));
                let id = self
                    .module
                    .declare_function(name, Linkage::Import, &signature)
                    .map_err(|e| Problem::internal(format!("declaring {name}: {e}")))?;
                self.declared.insert(index, id);
                id
            }
        };
        Ok(self.import(func, id))
    }
}

const ARGSORT: &str = "argsort";
const GROW: &str = "grow";
const ENTER: &str = "enter";
const PIECES: &str = "run_pieces";
const LAP: &str = "lap";
const EXTERNAL: &str = "external";

/// Returns the symbol's name of the function that computes a contraction.
fn contraction(c: &Contract) -> String {
    match c.sums {
        Sums::Library => format!("contract_{}", c.dtype),
        Sums::Lanes(_) => format!("thin_{}", c.dtype),
    }
}

fn names(l: Library) -> [String; 2] {
    [format!("library_{}_f64", l.name), format!("library_{}_f32", l.name)]
}

fn name(l: Library, dtype: Dtype) -> String {
    let [wide, narrow] = names(l);
    if dtype == Dtype::F64 { wide } else { narrow }
}

/// Returns the symbol name of the 8-element version of the library function `name`.
fn of_eight(name: &str) -> String {
    format!("{name}_of_eight")
}
