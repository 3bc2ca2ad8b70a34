//! From a kernel program to Cranelift functions.
//!
//! The whole program becomes `fn(inputs, outputs, workspace) -> status`: pointers to a table of
//! argument buffers, to a table of result buffers, and to the workspace. Long programs are cut into
//! [`parts`], one function each, which an entry calls in order. Within a part, [`nest`] translates
//! statements; [`scalar`] gives single elements their meaning; [`vector`] chooses loops that do several
//! iterations at once, and [`lanes`] holds values in them.
//!
//! The table of inputs ends with two null pointers: a load whose guard is false reads those zeros
//! instead of its element, which costs one conditional move and no branch.

mod float;
mod lanes;
mod nest;
mod parts;
mod scalar;
mod symbols;
#[cfg(test)]
mod tests;
mod vector;

pub(crate) use symbols::Symbols;

use crate::kernel::Program;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, InstBuilder, Signature, UserFuncName, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::JITModule;
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

/// Translates a program into functions of `module`.
pub(crate) fn translate(
    program: &Program,
    symbols: &Symbols,
    module: &mut JITModule,
) -> Result<Translation, Problem> {
    let cut = parts::cut(program, parts::LIMIT);
    let mut functions = Functions::new(module, symbols);
    let mut cx = Compiler {
        context: functions.module().make_context(),
        builder: FunctionBuilderContext::new(),
        signature: signature(functions.module()),
        t: Translation {
            entry: FuncId::from_u32(0),
            workspace: cut.workspace,
            functions: 0,
            instructions: 0,
            bytes: 0,
            translate: Duration::ZERO,
            compile: Duration::ZERO,
        },
    };
    let mut state = nest::State::default();
    let mut ids = Vec::new();
    for (number, part) in cut.parts.iter().enumerate() {
        let id =
            cx.function(&mut functions, &part_name(program, number), |b, functions, params| {
                let mut nest =
                    nest::Nest::new(program, &cut, number, &mut state, b, functions, params);
                for item in &part.items {
                    nest.stmt(item)?;
                }
                nest.finish();
                Ok(())
            })?;
        ids.push(id);
    }
    cx.t.entry = match ids.as_slice() {
        [only] => *only,
        _ => {
            cx.function(&mut functions, &format!("@{}", program.name), |b, functions, params| {
                for id in &ids {
                    let part = functions.import(b.func, *id);
                    let call = b.ins().call(part, &params);
                    let status = b.inst_results(call)[0];
                    nest::return_unless_zero(b, status);
                }
                let done = b.ins().iconst(types::I32, 0);
                b.ins().return_(&[done]);
                Ok(())
            })?
        }
    };
    Ok(cx.t)
}

/// `@` keeps a program's name apart from the symbols it calls.
fn part_name(program: &Program, number: usize) -> String {
    format!("@{}.{number}", program.name)
}

fn signature(module: &JITModule) -> Signature {
    let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
    signature.params.extend([AbiParam::new(types::I64); 3]);
    signature.returns.push(AbiParam::new(types::I32));
    signature
}

struct Compiler {
    context: Context,
    builder: FunctionBuilderContext,
    signature: Signature,
    t: Translation,
}

impl Compiler {
    /// Makes one function with the body that `fill` emits.
    fn function(
        &mut self,
        functions: &mut Functions<'_>,
        name: &str,
        fill: impl FnOnce(
            &mut FunctionBuilder<'_>,
            &mut Functions<'_>,
            [cranelift_codegen::ir::Value; 3],
        ) -> Result<(), Problem>,
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
        b.switch_to_block(entry);
        b.seal_block(entry);
        let params = b.block_params(entry);
        let params = [params[0], params[1], params[2]];
        fill(&mut b, functions, params)?;
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
