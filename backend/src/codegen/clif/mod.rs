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

pub(crate) use symbols::Symbols;

use crate::loop_ir::{Kernel, KernelId, Program};
use crate::machine::MachineModel;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, UserFuncName, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_entity::PrimaryMap;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Linkage, Module};
use std::time::{Duration, Instant};
use symbols::Functions;
use tapeloom_ir::Problem;

/// What translating a program left behind, beside the code in the module.
pub(crate) struct Translation {
    /// The function to call.
    pub(crate) entry: FuncId,
    /// Bytes of workspace: the program's and spills.
    pub(crate) workspace: usize,
    /// Number of functions.
    pub(crate) functions: usize,
    /// Cranelift instructions before optimisation.
    pub(crate) instructions: usize,
    /// Bytes of machine code.
    pub(crate) bytes: usize,
    /// Time spent building Cranelift's form.
    pub(crate) translate: Duration,
    /// Time spent in Cranelift.
    pub(crate) compile: Duration,
}

/// Translates a program into functions of `module`, whatever kind of module that is.
pub(crate) fn translate(
    program: &Program,
    machine: MachineModel,
    symbols: &Symbols,
    module: &mut dyn Module,
) -> Result<Translation, Problem> {
    let mut functions = Functions::new(module, symbols);
    let mut cx = Compiler {
        context: functions.module().make_context(),
        builder: FunctionBuilderContext::new(),
        signature: signature(functions.module()),
        machine,
        t: Translation {
            entry: FuncId::from_u32(0),
            // Spills lie behind the entry's frame.
            workspace: program.entry.workspace.next_multiple_of(8),
            functions: 0,
            instructions: 0,
            bytes: 0,
            translate: Duration::ZERO,
            compile: Duration::ZERO,
        },
    };
    let mut kernels = PrimaryMap::new();
    for (id, kernel) in program.kernels() {
        cx.t.entry = cx.kernel(&mut functions, program, (id, kernel), &kernels)?;
        if id.is_some() {
            kernels.push(cx.t.entry);
        }
    }
    Ok(cx.t)
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
    t: Translation,
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
        let cut = partition::cut(p, &self.machine, partition::LIMIT, self.t.workspace);
        self.t.workspace = cut.workspace;
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
        self.t.translate += start.elapsed();

        let start = Instant::now();
        self.t.functions += 1;
        self.t.instructions += self.context.func.dfg.num_insts();
        functions
            .module()
            .define_function(id, &mut self.context)
            .map_err(|e| Problem::internal(format!("compiling {name}: {e:?}")))?;
        self.t.bytes += self.context.compiled_code().map_or(0, |c| c.code_buffer().len());
        self.t.compile += start.elapsed();
        Ok(id)
    }
}
