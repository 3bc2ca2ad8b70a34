//! Calls of loop nests that run in vectors of 256 or 512 bits: the caller fills a row of words, the nest's arguments,
//! and reads changed variables from the row afterwards.

use super::partition::Promotion;
use super::scalar;
use super::translate::Translator;
use super::vector_value::Lanes;
use crate::codegen::simd::{Compiled, Nest, Refused, Unit, Word};
use crate::codegen::vectors::{LaneCode, LaneLoop};
use crate::loop_ir::{Arg, Expr, Stmt, visit};
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, types,
};
use cranelift_codegen::isa::CallConv;
use tapeloom_ir::Problem;

impl Translator<'_, '_, '_> {
    /// Emits a nest of loops in vectors of 256 or 512 bits, if possible. Returns false if the caller must translate the
    /// nest with Cranelift.
    pub(super) fn simd_call(&mut self, stmt: &Stmt) -> Result<bool, Problem> {
        if self.lanes.is_some() {
            return Ok(false);
        }
        let Compiled { unit: Unit { elements, row, .. }, bytes } = match self.simd_code(stmt) {
            Ok(code) => code,
            Err(Refused(why)) => {
                // Report a refusal only if the statement itself is a loop with lanes. If a loop around it is refused,
                // its inner loops are tried on their own, and then reported.
                if let Stmt::For { lanes: 2.., .. } = stmt {
                    self.vectorized(stmt, LaneCode::Cranelift(why));
                }
                return Ok(false);
            }
        };
        visit(std::slice::from_ref(stmt), &mut |s| {
            let Stmt::For { index, .. } = s else { return };
            if let Some((_, n)) = elements.iter().find(|(of, _)| of == index) {
                self.vectorized(s, LaneCode::Simd(*n));
            }
        });
        self.functions.emitted(bytes.len());
        let size = (8 * row.len().max(1)) as u32;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
        let slot = self.b.create_sized_stack_slot(data);
        let flags = MemFlagsData::trusted();
        for (i, word) in row.iter().enumerate() {
            let value = match word {
                Word::Pointer(buffer, address) => self.first(*buffer, address)?,
                Word::Scalar(arg) => self.uniform(*arg)?,
                Word::Var { var, .. } => self.uniform(Arg::Var(*var))?,
                Word::Function(_, of) => {
                    let f = self.functions.library(self.b.func, of.library, of.dtype)?;
                    self.b.ins().func_addr(types::I64, f)
                }
            };
            // A bool takes a whole 8-byte word of the row (the nest's arguments).
            let is_bool = self.b.func.dfg.value_type(value) == types::I8;
            let value = if is_bool { self.b.ins().uextend(types::I64, value) } else { value };
            let at = self.b.ins().stack_addr(types::I64, slot, 8 * i as i32);
            self.b.ins().store(flags, value, at, 0);
        }
        let f = self.leaf(&bytes)?;
        let at = self.b.ins().stack_addr(types::I64, slot, 0);
        self.b.ins().call(f, &[at]);
        for (i, word) in row.iter().enumerate() {
            let Word::Var { var, changed: true } = word else { continue };
            let ty = scalar::register(self.p.vars[*var]);
            let value = self.b.ins().load(ty, flags, at, 8 * i as i32);
            self.set(*var, &Lanes::One(value))?;
        }
        Ok(true)
    }

    fn vectorized(&mut self, stmt: &Stmt, code: LaneCode) {
        if let Stmt::For { index, extent, lanes, parallelism, .. } = stmt {
            let header = format!("{parallelism} {index} in {extent} lanes {lanes}");
            let (kernel, one_by_one) = (self.p.name.clone(), self.one_by_one(stmt, code));
            self.functions.vectorized(LaneLoop { kernel, header, code, one_by_one });
        }
    }

    /// Returns the names of the library functions in a statement that are called for one element at a time. In SIMD
    /// code these are functions without a recording (a list of operations that is inlined), and in Cranelift's vectors
    /// of 128 bits functions without a version for eight elements.
    fn one_by_one(&self, stmt: &Stmt, made: LaneCode) -> Vec<&'static str> {
        let mut names = Vec::new();
        visit(std::slice::from_ref(stmt), &mut |s| {
            let Stmt::Let { value, expr: Expr::Code(code, _) } = s else { return };
            let dtype = self.p.scalars[*value];
            let Some(library) = code.called(dtype) else { return };
            let in_vectors = match made {
                LaneCode::Simd(_) => library.recording(dtype).is_some(),
                LaneCode::Cranelift(_) => code.of_eight(dtype).is_some(),
            };
            if !in_vectors && !names.contains(&library.name) {
                names.push(library.name);
            }
        });
        names
    }

    fn simd_code(&self, stmt: &Stmt) -> Result<Compiled, Refused> {
        let isa = self.functions.simd_isa()?;
        let in_memory = |b| matches!(self.cut.buffers[b], Promotion::Memory | Promotion::Unused);
        Nest { kernel: self.p, stmt, isa, in_memory: &in_memory }.compile()
    }

    /// Declares a function whose machine code is `bytes`. Its argument is a pointer to the row of argument words.
    fn leaf(&mut self, bytes: &[u8]) -> Result<cranelift_codegen::ir::FuncRef, Problem> {
        let module = self.functions.module();
        let mut signature = Signature::new(CallConv::triple_default(module.isa().triple()));
        signature.params.push(AbiParam::new(types::I64));
        let failed = |e| Problem::internal(format!("wide code: {e}"));
        let id = module.declare_anonymous_function(&signature).map_err(failed)?;
        module.define_function_bytes(id, 64, bytes, &[]).map_err(failed)?;
        Ok(self.functions.import(self.b.func, id))
    }
}
