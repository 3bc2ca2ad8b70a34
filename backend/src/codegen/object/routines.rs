//! Calls of library routines, which the library that objects link contains.
//!
//! ```text
//! call(context, number, row):  number == 0?  return tapeloom_0_1_0_routine(&prepared0, "cholesky{n=9} f64 members 2 scratch 640", row)
//!                              number == 1?  ..
//! ```
//!
//! The words `prepared0`, `prepared1`, .. are writable data of the object, in which the library stores the plans of the routines.

use super::code_module::CodeModule;
use super::emitter::{Emitter, begin, signature};
use super::entry::INTERNAL;
use super::library_functions::runtime_symbol;
use crate::loop_ir::{External, ExternalSignature};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
use cranelift_module::{DataDescription, DataId, FuncId, Module, ModuleResult};
use std::sync::Arc;
use tapeloom_ir::Problem;

/// Emits `call(context, number, row)`, which calls the routine `number` of the program and returns its status.
pub(super) fn call(
    module: &mut CodeModule<'_>,
    emitter: &mut Emitter,
    id: FuncId,
    externals: &[Arc<ExternalSignature>],
) -> Result<(), Problem> {
    let failed = |e| Problem::internal(format!("a library routine of an object: {e}"));
    // The library's function has three words as parameters, too, and returns a status.
    let mut of_library = signature(module, id);
    of_library.params = vec![AbiParam::new(types::I64); 3];
    let run = module.import(&runtime_symbol("routine"), &of_library).map_err(failed)?;
    let mut routines = Vec::new();
    for signature in externals {
        let External::Routine(planned) = &signature.function else {
            return Err(Problem::internal("a Rust function in an object"));
        };
        let (call, scratch) = (planned.call(), planned.plan().scratch_bytes());
        let float = call.dtype();
        let text = format!("{} {float} members {} scratch {scratch}\0", call.routine, call.members);
        let description = data(module, false, Some(text.into_bytes())).map_err(failed)?;
        routines.push((data(module, true, None).map_err(failed)?, description));
    }
    emitter.function(module, id, |b, module, params| {
        let [_, number, row] = *params else {
            return Err(Problem::internal("the call of a routine has three arguments"));
        };
        let run = module.declare_func_in_func(run, b.func);
        for (i, (prepared, description)) in routines.into_iter().enumerate() {
            let is_i = b.ins().icmp_imm_s(IntCC::Equal, number, i as i64);
            let (here, next) = (b.create_block(), b.create_block());
            b.ins().brif(is_i, here, &[], next, &[]);
            begin(b, here);
            let [prepared, description] = [prepared, description].map(|id| {
                let data = module.declare_data_in_func(id, b.func);
                b.ins().symbol_value(types::I64, data)
            });
            let call = b.ins().call(run, &[prepared, description, row]);
            let status = b.inst_results(call)[0];
            b.ins().return_(&[status]);
            begin(b, next);
        }
        // No other number occurs in the program, so this error is not reached.
        let wrong = b.ins().iconst(types::I32, i64::from(INTERNAL));
        b.ins().return_(&[wrong]);
        Ok(())
    })
}

/// Defines data of the object: the given bytes, or a writable word that is 0.
#[expect(clippy::result_large_err, reason = "the error of the trait `Module`")]
fn data(
    module: &mut CodeModule<'_>,
    writable: bool,
    bytes: Option<Vec<u8>>,
) -> ModuleResult<DataId> {
    let id = module.declare_anonymous_data(writable, false)?;
    let mut data = DataDescription::new();
    data.set_align(size_of::<u64>() as u64);
    match bytes {
        Some(bytes) => data.define(bytes.into_boxed_slice()),
        None => data.define_zeroinit(size_of::<u64>()),
    }
    module.define_data(id, &data)?;
    Ok(id)
}
