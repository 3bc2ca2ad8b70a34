//! Calls: contractions by library functions, sorts, external functions, and other kernels of the program.
//!
//! A kernel's only argument is its call [`record`](crate::runtime::abi), an array of pointers to the context, the
//! workspace, the operands and the results. The caller builds the record of a callee on its stack.

use super::symbols::Functions;
use super::translate::{Translator, call};
use crate::loop_ir::{Call, CallExternal, Contract, Kernel, Place};
use crate::runtime::abi::{self, Layout};
use crate::runtime::argsort as runtime;
use crate::runtime::gemm;
use cranelift_codegen::ir::{
    InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::FunctionBuilder;
use tapeloom_ir::Problem;
use tapeloom_routines::Argsort;

/// Emits the body of a kernel that is a built-in sort: a call of the runtime's `argsort`.
pub(super) fn argsort(
    p: &Kernel,
    argsort: Argsort,
    b: &mut FunctionBuilder<'_>,
    functions: &mut Functions<'_>,
    record: Value,
) -> Result<(), Problem> {
    let function = functions.argsort(b.func)?;
    let description = functions.constant(b.func, runtime::describe(argsort))?;
    let mut args = vec![b.ins().symbol_value(types::I64, description)];
    let layout = Layout::of(p);
    let pointers = [Place::Input(0), Place::Output(0)].map(|place| layout.pointer(place));
    for at in pointers.into_iter().flatten().chain([abi::FRAME]) {
        let flags = MemFlagsData::trusted().with_readonly();
        args.push(b.ins().load(types::I64, flags, record, at as i32));
    }
    call(b, function, &args);
    let done = b.ins().iconst(types::I32, 0);
    b.ins().return_(&[done]);
    Ok(())
}

impl Translator<'_, '_, '_> {
    /// Emits a call of the function that computes a contraction.
    pub(super) fn contract(&mut self, c: &Contract) -> Result<(), Problem> {
        let function = self.functions.contraction(self.b.func, c)?;
        let description = self.functions.constant(self.b.func, gemm::describe(c))?;
        let mut args = vec![self.b.ins().symbol_value(types::I64, description)];
        for m in [&c.lhs, &c.rhs, &c.out] {
            args.push(self.first(m.held.buffer, &m.at)?);
        }
        call(self.b, function, &args);
        Ok(())
    }

    /// Emits a call of an external function, which gets an array of pointers to its operands and results on the stack.
    pub(super) fn external(&mut self, a: &CallExternal) -> Result<(), Problem> {
        let (function, number) = self.functions.external(self.b.func, &a.signature)?;
        let mut row = Vec::with_capacity(a.operands.len() + a.outputs.len());
        for v in a.operands.iter().chain(&a.outputs) {
            row.push(self.first(v.held.buffer, &v.at)?);
        }
        let slot = self.stack(row.len() * abi::WORD);
        let row = self.on_stack(slot, &row);
        let number = self.b.ins().iconst(types::I64, number as i64);
        call(self.b, function, &[self.context, number, row]);
        Ok(())
    }

    /// Emits a call of another kernel of the program. The callee's call record (pointers to its operands and results)
    /// is on the stack.
    pub(super) fn call(&mut self, c: &Call) -> Result<(), Problem> {
        let missing = || Problem::internal(format!("{} is called before it is compiled", c.callee));
        let function = *self.kernels.get(c.callee).ok_or_else(missing)?;
        let function = self.functions.import(self.b.func, function);
        let slot = self.stack(Layout::of(&self.program.callees[c.callee]).bytes());
        let (base, offset) = self.place(self.frame, c.frame as i64);
        let frame = self.b.ins().iadd_imm_s(base, i64::from(offset));
        let mut words = vec![self.context, frame];
        for v in c.operands.iter().chain(&c.outputs) {
            words.push(self.first(v.held.buffer, &v.at)?);
        }
        let record = self.on_stack(slot, &words);
        call(self.b, function, &[record]);
        Ok(())
    }

    /// Allocates `bytes` bytes on the stack.
    pub(super) fn stack(&mut self, bytes: usize) -> StackSlot {
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 3);
        self.b.create_sized_stack_slot(slot)
    }

    /// Stores 8-byte words contiguously in a stack slot. Returns the address of the first word.
    fn on_stack(&mut self, slot: StackSlot, words: &[Value]) -> Value {
        for (i, word) in words.iter().enumerate() {
            self.b.ins().stack_store(types::I64, *word, slot, (i * abi::WORD) as i32);
        }
        self.b.ins().stack_addr(types::I64, slot, 0)
    }
}
