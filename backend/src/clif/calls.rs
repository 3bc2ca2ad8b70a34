//! Calls: contractions by a library, reports, and other kernels of the program.
//!
//! A callee's [`record`](crate::record) is made on the caller's stack.

use super::nest::{Nest, return_unless_zero};
use crate::gemm;
use crate::kernel::{Call, Contract, View};
use crate::probe;
use crate::record::{self, Layout};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, types};
use tapeloom_ir::Problem;

impl Nest<'_, '_, '_> {
    /// A contraction.
    pub(super) fn contract(&mut self, c: &Contract) -> Result<(), Problem> {
        let function = self.functions.contraction(self.b.func, c.dtype)?;
        let description = self.functions.constant(self.b.func, gemm::describe(c))?;
        let mut args = vec![self.b.ins().symbol_value(types::I64, description)];
        for m in [&c.lhs, &c.rhs, &c.out] {
            args.push(self.first(m.buffer, &m.at)?);
        }
        let call = self.b.ins().call(function, &args);
        let status = self.b.inst_results(call)[0];
        return_unless_zero(self.b, status);
        Ok(())
    }

    /// A report.
    pub(super) fn probe(&mut self, number: u32, view: &View) -> Result<(), Problem> {
        let function = self.functions.probe(self.b.func)?;
        let at = self.first(view.buffer, &view.at)?;
        let dtype = probe::code(self.p.buffers[view.buffer].ty.dtype);
        let [number, dtype, elements] = [i64::from(number), dtype, view.elements as i64]
            .map(|n| self.b.ins().iconst(types::I64, n));
        let call = self.b.ins().call(function, &[self.context, number, dtype, at, elements]);
        let status = self.b.inst_results(call)[0];
        return_unless_zero(self.b, status);
        Ok(())
    }

    /// Another kernel.
    pub(super) fn call(&mut self, c: &Call) -> Result<(), Problem> {
        let missing = || Problem::internal(format!("{} is called before it is compiled", c.callee));
        let function = *self.kernels.get(c.callee).ok_or_else(missing)?;
        let function = self.functions.import(self.b.func, function);
        let bytes = Layout::of(&self.program.callees[c.callee]).bytes();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let (base, offset) = self.place(self.frame, c.frame as i64);
        let frame = self.b.ins().iadd_imm_s(base, i64::from(offset));
        let mut words = vec![self.context, frame];
        for v in c.operands.iter().chain(&c.outputs) {
            words.push(self.first(v.buffer, &v.at)?);
        }
        for (i, word) in words.iter().enumerate() {
            self.b.ins().stack_store(types::I64, *word, slot, (i * record::WORD) as i32);
        }
        let record = self.b.ins().stack_addr(types::I64, slot, 0);
        let call = self.b.ins().call(function, &[record]);
        let status = self.b.inst_results(call)[0];
        return_unless_zero(self.b, status);
        Ok(())
    }
}
