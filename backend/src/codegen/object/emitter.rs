//! Emission of one function of an object. The function reuses the context and builder of Cranelift from the function
//! before.

use super::code_module::CodeModule;
use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, Signature, Type, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module};
use tapeloom_ir::Problem;

/// The context and builder that are reused for each function of an object.
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

/// Returns the signature of a declared function of the module.
pub(super) fn signature(module: &CodeModule<'_>, id: FuncId) -> Signature {
    module.declarations().get_function_decl(id).signature.clone()
}

/// Continues in a block. All its predecessors must have been emitted.
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

/// Emits `for i in (0..bytes).step_by(element) { .. }`: `inside` emits the statements for the offset `i`.
pub(super) fn for_elements(
    b: &mut FunctionBuilder<'_>,
    (bytes, element): (usize, usize),
    inside: impl FnOnce(&mut FunctionBuilder<'_>, Value),
) {
    let (again, body, done) = (b.create_block(), b.create_block(), b.create_block());
    let i = b.append_block_param(again, types::I64);
    let start = b.ins().iconst(types::I64, 0);
    b.ins().jump(again, &[BlockArg::Value(start)]);
    b.switch_to_block(again);
    let more = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, i, bytes as i64);
    b.ins().brif(more, body, &[], done, &[]);
    begin(b, body);
    inside(b, i);
    let next = b.ins().iadd_imm_s(i, element as i64);
    b.ins().jump(again, &[BlockArg::Value(next)]);
    b.seal_block(again);
    begin(b, done);
}

/// Returns the integer type of the size of an element, given in bytes.
pub(super) fn bits(element: usize) -> Type {
    match element {
        1 => types::I8,
        4 => types::I32,
        _ => types::I64,
    }
}

/// Whether emitted statements end with a return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Returns {
    Yes,
    No,
}
