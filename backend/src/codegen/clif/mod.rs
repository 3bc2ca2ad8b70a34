//! From a kernel program to Cranelift functions.
//!
//! Every kernel becomes a function of its call [`record`](crate::runtime::abi), callees before those that
//! call them. Long kernels are cut into [`partition`], one function each, which an entry calls in order;
//! what waits too long in one for registers waits in memory ([`spill`]).
//! Within a part, [`translate`] translates statements, with [`loops`], [`access`], [`variables`],
//! [`dynamic_tape`] and [`calls`]; [`scalar`] gives single elements their meaning, and [`vector_value`] holds the values of loops that do several
//! iterations at once.
//!
//! A load whose guard is false reads zeros of the context instead of its element, which costs one
//! conditional move and no branch.
//!
//! The module that code goes into is any of Cranelift's: what code calls it calls by name
//! ([`Symbols`]), and its constants are data of the module, so that nothing in it is true of one
//! process only. [`crate::codegen::jit`] puts it into memory; a test keeps its bytes and names.

mod access;
mod calls;
mod dynamic_tape;
mod float;
mod loop_limits;
mod loops;
mod partition;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod portable_tests;
#[cfg(test)]
pub(crate) mod random_tests;
mod scalar;
mod spill;
mod symbols;
#[cfg(test)]
pub(crate) mod tests;
mod threefry;
mod translate;
mod variables;
mod vector_value;
mod wide;

pub(crate) use symbols::Symbols;

use crate::codegen::vectors::Vectors;
use crate::loop_ir::{Kernel, KernelId, Program};
use crate::machine::MachineModel;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, UserFuncName, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::PrimaryMap;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};
use std::fmt;
use std::time::{Duration, Instant};
use symbols::Functions;
use tapeloom_ir::{Isa, Problem};

/// What compiling a program took and made.
#[derive(Clone, Debug, Default)]
pub struct CodeReport {
    /// Building Cranelift's form.
    pub translate: Duration,
    /// Optimisation, register allocation and emission.
    pub compile: Duration,
    /// Linking and making the memory executable.
    pub finalize: Duration,
    /// Functions made; a long program is cut into several.
    pub functions: usize,
    /// Cranelift instructions before optimisation.
    pub instructions: usize,
    /// Bytes of machine code.
    pub code_bytes: usize,
    /// Bytes of workspace a call uses, spills between functions included.
    pub workspace_bytes: usize,
    /// The vectors of its loops.
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

/// Translates a program into functions of `module`, whatever kind of module that is, and gives the one to call.
pub(crate) fn translate(
    program: &Program,
    machine: MachineModel,
    symbols: &Symbols,
    module: &mut dyn Module,
    isa: Isa,
) -> Result<(FuncId, CodeReport), Problem> {
    let mut functions = Functions::new(module, symbols, isa);
    let mut cx = Compiler {
        context: functions.module().make_context(),
        builder: FunctionBuilderContext::new(),
        signature: signature(functions.module()),
        machine,
        report: CodeReport {
            // Spills lie behind the entry's frame.
            workspace_bytes: program.entry.workspace.next_multiple_of(8),
            ..CodeReport::default()
        },
    };
    let mut kernels = PrimaryMap::new();
    for (id, kernel) in program.kernels() {
        let function = cx.kernel(&mut functions, program, (id, kernel), &kernels)?;
        if id.is_none() {
            cx.report.vectors = functions.vectors();
            cx.report.code_bytes += cx.report.vectors.wide_bytes;
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
    report: CodeReport,
}

impl Compiler {
    /// Makes the functions of one kernel.
    fn kernel(
        &mut self,
        functions: &mut Functions<'_>,
        program: &Program,
        (id, p): (Option<KernelId>, &Kernel),
        kernels: &PrimaryMap<KernelId, FuncId>,
    ) -> Result<FuncId, Problem> {
        // `@` keeps names apart from the symbols that are called, the number kernels of one name.
        let name = id.map_or(format!("@{}", p.name), |id| format!("{id}@{}", p.name));
        if let Some(argsort) = p.argsort {
            return self.function(functions, &name, |b, functions, record| {
                calls::argsort(p, argsort, b, functions, record)
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
                entry: id.is_none(),
                kernels,
                cut: &cut,
                part,
            };
            let id =
                self.function(functions, &format!("{name}.{part}"), |b, functions, record| {
                    let mut nest = translate::Nest::new(subject, &mut state, b, functions, record);
                    of.items.iter().try_for_each(|stmt| nest.stmt(stmt))?;
                    nest.finish();
                    Ok(())
                })?;
            ids.push(id);
        }
        if let [only] = ids.as_slice() {
            return Ok(*only);
        }
        self.function(functions, &name, |b, functions, record| {
            for id in &ids {
                let part = functions.import(b.func, *id);
                translate::call(b, part, &[record]);
            }
            let done = b.ins().iconst(types::I32, 0);
            b.ins().return_(&[done]);
            Ok(())
        })
    }

    /// Makes one function with the body that `fill` emits.
    fn function(
        &mut self,
        functions: &mut Functions<'_>,
        name: &str,
        fill: impl FnOnce(&mut FunctionBuilder<'_>, &mut Functions<'_>, Value) -> Result<(), Problem>,
    ) -> Result<FuncId, Problem> {
        let start = Instant::now();
        let id = functions
            .module()
            .declare_function(name, Linkage::Local, &self.signature)
            .map_err(|e| Problem::internal(format!("declaring {name}: {e}")))?;
        self.context.clear();
        self.context.func.signature = self.signature.clone();
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        functions.begin();
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        translate::begin(&mut b, entry);
        let record = b.block_params(entry)[0];
        fill(&mut b, functions, record)?;
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
