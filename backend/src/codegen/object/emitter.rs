//! Emission of one function of an object: Cranelift's context and builder, which are used again for the next one.

use super::code_module::CodeModule;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{Block, InstBuilder, Signature, UserFuncName, Value};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module};
use tapeloom_ir::Problem;

/// The memory with which functions are emitted, one after the other.
pub(super) struct Emitter {
    context: Context,
    builder: FunctionBuilderContext,
}

impl Emitter {
    pub(super) fn new() -> Emitter {
        Emitter { context: Context::new(), builder: FunctionBuilderContext::new() }
    }

    /// Emits the function `id`, whose body the closure `fill` emits; `fill` gets the parameters.
    pub(super) fn function(
        &mut self,
        module: &mut CodeModule<'_>,
        id: FuncId,
        fill: impl FnOnce(
            &mut FunctionBuilder<'_>,
            &mut CodeModule<'_>,
            &[Value],
        ) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.context.clear();
        self.context.func.signature = signature(module, id);
        self.context.func.name = UserFuncName::user(0, id.as_u32());
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.builder);
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        begin(&mut b, start);
        let params = b.block_params(start).to_vec();
        fill(&mut b, module, &params)?;
        b.finalize(module.target_config());
        module
            .define_function(id, &mut self.context)
            .map_err(|e| Problem::internal(format!("compiling a function of an object: {e:?}")))
    }
}

/// Returns the signature of a declared function.
pub(super) fn signature(module: &CodeModule<'_>, id: FuncId) -> Signature {
    module.declarations().get_function_decl(id).signature.clone()
}

/// Continues in a block whose predecessors have all been emitted.
pub(super) fn begin(b: &mut FunctionBuilder<'_>, block: Block) {
    b.switch_to_block(block);
    b.seal_block(block);
}

/// Emits `if condition { .. }`: `then` emits the statements, and returns whether they end the function.
pub(super) fn when(
    b: &mut FunctionBuilder<'_>,
    condition: Value,
    then: impl FnOnce(&mut FunctionBuilder<'_>) -> Returns,
) {
    let (inside, join) = (b.create_block(), b.create_block());
    b.ins().brif(condition, inside, &[], join, &[]);
    begin(b, inside);
    if then(b) == Returns::No {
        b.ins().jump(join, &[]);
    }
    begin(b, join);
}

/// Whether emitted statements end with a return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    Yes,
    No,
}
