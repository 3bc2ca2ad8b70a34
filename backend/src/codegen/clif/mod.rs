//! Code generation by Cranelift from the loop IR.
//!
//! Each kernel becomes a function of its call [`record`](crate::runtime::abi), an array of pointers to its operands and
//! results. Callees are translated before their callers. A long kernel is cut into several functions ([`partition`]),
//! which an entry calls in order. Values that are live too long within a function are stored in memory ([`spill`]).
//! Within such a function, [`translate`] translates statements, with [`loops`], [`access`], [`variables`],
//! [`dynamic_tape`], [`calls`] and [`pieces`]. [`scalar`] emits codes on single elements, and [`vector_value`] holds
//! the values of loops with lanes.
//!
//! A load whose guard is false loads zeros from the context (the data that all kernels of a call share) instead of its
//! element. That takes a conditional move and no branch.
//!
//! The code can be put into any Cranelift module: it calls functions by name ([`Symbols`]), and its constants are
//! data of the module, so it contains no address of this process. [`crate::codegen::jit`] puts it into memory; a
//! test inspects its bytes and names.

mod access;
mod calls;
mod dynamic_tape;
mod float;
mod loop_limits;
mod loops;
mod partition;
mod pieces;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod portable_tests;
#[cfg(test)]
pub(crate) mod random_tests;
mod scalar;
mod simd_call;
mod spill;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;
mod threefry;
mod translate;
mod variables;
mod vector_value;

#[cfg(feature = "object")]
pub(crate) use pieces::signature as piece_signature;
#[cfg(feature = "object")]
pub(crate) use symbols::Callee;
pub(crate) use symbols::Symbols;

use crate::codegen::vectors::Vectors;
use crate::loop_ir::{Kernel, KernelId, Program};
use crate::machine::MachineModel;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::PrimaryMap;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};
use std::fmt;
use std::time::{Duration, Instant};
use symbols::Functions;
use tapeloom_ir::{Isa, Problem};

/// The durations and sizes of the code generation of one program.
#[derive(Clone, Debug, Default)]
pub struct CodeReport {
    /// The time to translate the loop program to Cranelift's IR.
    pub translate: Duration,
    /// The time of Cranelift's optimisation, register allocation and emission.
    pub compile: Duration,
    /// The time of linking and of making the code's memory executable.
    pub finalize: Duration,
    /// The number of machine-code functions. A long kernel is cut into several.
    pub functions: usize,
    /// The number of Cranelift instructions before optimisation.
    pub instructions: usize,
    /// The bytes of machine code of all functions.
    pub code_bytes: usize,
    /// The bytes of workspace that a call needs, including values spilled between functions.
    pub workspace_bytes: usize,
    /// The size in bytes of the private memory of each thread that runs pieces of concurrent loops, including memory
    /// for spilled values.
    pub private_bytes: usize,
    /// The vector width of each vectorized loop (*loop with lanes*).
    pub vectors: Vectors,
}

impl fmt::Display for CodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        writeln!(
            f,
            "translate {:.3} ms, compile {:.3} ms, finalize {:.3} ms",
            ms(self.translate),
            ms(self.compile),
            ms(self.finalize)
        )?;
        writeln!(
            f,
            "{} instructions in {} functions, {} bytes of code, {} bytes of workspace",
            self.instructions, self.functions, self.code_bytes, self.workspace_bytes
        )
    }
}

/// The kind of code that calls a program, which decides whether loaded bools are normalized to 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// Code of this process, in which each bool of a tensor is the byte 0 or 1.
    Process,
    /// Code in another language, in which each byte other than 0 is a bool that is true.
    Foreign,
}

/// Translates a program into functions of a module. Returns the entry function, which runs the program.
pub(crate) fn translate(
    program: &Program,
    machine: MachineModel,
    symbols: &Symbols,
    module: &mut dyn Module,
    isa: Isa,
    caller: Caller,
) -> Result<(FuncId, CodeReport), Problem> {
    let mut functions = Functions::new(module, symbols, isa);
    let mut cx = Compiler {
        context: functions.module().make_context(),
        builder: FunctionBuilderContext::new(),
        signature: signature(functions.module()),
        machine,
        caller,
        report: CodeReport {
            // Spilled values are placed behind the workspace that the program states, aligned to 8 bytes.
            workspace_bytes: program.entry.workspace.next_multiple_of(8),
            private_bytes: program.entry.private.next_multiple_of(8),
            ..CodeReport::default()
        },
    };
    let mut kernels = PrimaryMap::new();
    for (id, kernel) in program.kernels() {
        let function = cx.kernel(&mut functions, program, (id, kernel), &kernels)?;
        if id.is_none() {
            cx.report.vectors = functions.vectors();
            cx.report.code_bytes += cx.report.vectors.simd_bytes;
            return Ok((function, cx.report));
        }
        kernels.push(function);
    }
    Err(Problem::internal("a program without an entry"))
}

fn signature(module: &dyn Module) -> Signature {
    let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

struct Compiler {
    context: Context,
    builder: FunctionBuilderContext,
    signature: Signature,
    machine: MachineModel,
    caller: Caller,
    report: CodeReport,
}

impl Compiler {
    /// Emits the functions of one kernel. Returns the function that runs the whole kernel.
    fn kernel(
        &mut self,
        functions: &mut Functions<'_>,
        program: &Program,
        (id, p): (Option<KernelId>, &Kernel),
        kernels: &PrimaryMap<KernelId, FuncId>,
    ) -> Result<FuncId, Problem> {
        // The `@` distinguishes the function's name from symbols of called library functions; the number distinguishes
        // kernels with equal names.
        let name = id.map_or(format!("@{}", p.name), |id| format!("{id}@{}", p.name));
        if let Some(argsort) = p.argsort {
            let signature = self.signature.clone();
            return self.function(functions, &name, signature, |b, functions, params| {
                calls::argsort(p, argsort, b, functions, params[0])
            });
        }
        let cut = partition::cut(p, &self.machine, partition::LIMIT, self.report.workspace_bytes);
        self.report.workspace_bytes = cut.workspace;
        let mut state = translate::State::default();
        let mut ids = Vec::new();
        for (part, of) in cut.parts.iter().enumerate() {
            let subject = translate::Subject {
                machine: self.machine,
                program,
                p,
                valid_bools: id.is_none() && self.caller == Caller::Process,
                kernels,
                cut: &cut,
                part,
            };
            let (signature, part) = (self.signature.clone(), format!("{name}.{part}"));
            let id = self.function(functions, &part, signature, |b, functions, params| {
                let mut nest =
                    translate::Translator::new(subject, &mut state, b, functions, params[0]);
                of.items.iter().try_for_each(|stmt| nest.stmt(stmt))?;
                nest.finish();
                Ok(())
            })?;
            ids.push(id);
            for piece in std::mem::take(&mut state.pieces) {
                self.piece(functions, subject, &mut state, &piece)?;
            }
        }
        if let [only] = ids.as_slice() {
            return Ok(*only);
        }
        self.function(functions, &name, self.signature.clone(), |b, functions, params| {
            for id in &ids {
                let part = functions.import(b.func, *id);
                translate::call(b, part, params);
            }
            let done = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[done]);
            Ok(())
        })
    }

    /// Emits the function that runs one piece (one iteration) of a concurrent loop.
    fn piece(
        &mut self,
        functions: &mut Functions<'_>,
        subject: translate::Subject<'_>,
        state: &mut translate::State,
        piece: &pieces::PieceFunction,
    ) -> Result<(), Problem> {
        let (p, signature) = (subject.p, pieces::signature(functions.module()));
        let body = pieces::body(p, piece.index)?;
        // Concurrent loops run one after the other, so their pieces (iterations) use the same private memory.
        let spills = subject.program.entry.private.next_multiple_of(8);
        let cut = pieces::cut(p, &self.machine, body, spills);
        self.report.private_bytes = self.report.private_bytes.max(cut.workspace);
        let subject = translate::Subject { cut: &cut, part: 0, ..subject };
        let name = pieces::name(p, piece.index);
        self.function(functions, &name, signature, |b, functions, params| {
            let [words, number, private] = *params else {
                return Err(Problem::internal("a piece has three parameters"));
            };
            let flags = MemFlagsData::trusted().with_readonly();
            let record = b.ins().load(types::I64, flags, words, 0);
            let mut nest = translate::Translator::new(subject, state, b, functions, record);
            nest.private = Some(private);
            nest.piece(piece, words, number, body)
        })?;
        Ok(())
    }

    /// Emits one function, whose body the closure `fill` emits; `fill` gets the parameters.
    fn function(
        &mut self,
        functions: &mut Functions<'_>,
        name: &str,
        signature: Signature,
        fill: impl FnOnce(&mut FunctionBuilder<'_>, &mut Functions<'_>, &[Value]) -> Result<(), Problem>,
    ) -> Result<FuncId, Problem> {
        let start = Instant::now();
        let id = functions
            .module()
            .declare_function(name, Linkage::Local, &signature)
            .map_err(|e| Problem::internal(format!("declaring {name}: {e}")))?;
        self.context.clear();
        self.context.func.signature = signature;
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        functions.begin();
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        translate::begin(&mut b, entry);
        let params = b.block_params(entry).to_vec();
        fill(&mut b, functions, &params)?;
        let config = functions.module().target_config();
        b.finalize(config);
        self.report.translate += start.elapsed();

        let start = Instant::now();
        self.report.functions += 1;
        self.report.instructions += self.context.func.dfg.num_insts();
        functions
            .module()
            .define_function(id, &mut self.context)
            .map_err(|e| Problem::internal(format!("compiling {name}: {e:?}")))?;
        self.report.code_bytes += self.context.compiled_code().map_or(0, |c| c.code_buffer().len());
        self.report.compile += start.elapsed();
        Ok(id)
    }
}
