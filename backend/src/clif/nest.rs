//! Statements to Cranelift: loops, loads, stores, variables, addresses.
//!
//! A loop counts up and tests at its end; its extent is constant. Addresses are sums of terms, added
//! from the outermost loop inwards, so that what a loop does not change is computed before it
//! (Cranelift's mid-end moves invariant sums out). A stride that an addressing mode can scale (1, 2,
//! 4, 8 bytes) is left to it; every other stride gets a counter of its own that the loop advances.
//!
//! ```text
//! for i1 in 100 { load b0[i0*100 + i1] }
//!
//! block1(i1):                       ; t = pointer of b0 + i0*800, computed outside
//!   %0 = load.f64 t + i1*8
//!   i1' = i1 + 1
//!   brif i1' < 100, block1(i1'), block2
//! ```

use super::parts::{Item, Parts, Promotion, constant};
use super::scalar;
use super::symbols::Functions;
use crate::kernel::{
    Address, Arg, BufferId, Contract, Expr, IndexId, Place, Program, ScalarId, Stmt, VarId,
};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, Value, types};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;
use std::collections::HashMap;
use tapeloom_ir::{Literal, Problem};

/// Tables that outlive a part, so that a program of many parts does not make them many times.
#[derive(Default)]
pub(super) struct State {
    scalars: SecondaryMap<ScalarId, PackedOption<Value>>,
    vars: SecondaryMap<VarId, Option<Variable>>,
}

/// One loop that is open.
struct Counter {
    index: IndexId,
    /// Its value.
    at: At,
    /// Counters of other strides: bytes per iteration and the value.
    scaled: SmallVec<[(i64, Value); 2]>,
}

/// The value of a loop index.
#[derive(Clone, Copy)]
enum At {
    Constant(i64),
    Value(Value),
}

/// The translation of one part.
pub(super) struct Nest<'a, 'f, 'm> {
    p: &'a Program,
    cut: &'a Parts<'a>,
    part: usize,
    contracts: *const Contract,
    state: &'a mut State,
    b: &'a mut FunctionBuilder<'f>,
    functions: &'a mut Functions<'m>,
    inputs: Value,
    outputs: Value,
    workspace: Value,
    /// Open loops, outermost first.
    loops: Vec<Counter>,
    /// Elements of promoted buffers.
    elements: HashMap<(BufferId, i64), Value>,
    /// Where each buffer is, once it was asked for at the top level.
    pointers: HashMap<BufferId, Value>,
}

impl<'a, 'f, 'm> Nest<'a, 'f, 'm> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one context, made in one place")]
    pub(super) fn new(
        p: &'a Program,
        cut: &'a Parts<'a>,
        part: usize,
        contracts: *const Contract,
        state: &'a mut State,
        b: &'a mut FunctionBuilder<'f>,
        functions: &'a mut Functions<'m>,
        [inputs, outputs, workspace]: [Value; 3],
    ) -> Self {
        Nest {
            p,
            cut,
            part,
            contracts,
            state,
            b,
            functions,
            inputs,
            outputs,
            workspace,
            loops: Vec::new(),
            elements: HashMap::new(),
            pointers: HashMap::new(),
        }
    }

    /// Translates one item.
    pub(super) fn item(&mut self, item: Item<'_>) -> Result<(), Problem> {
        match item {
            Item::Stmt(stmt) => self.stmt(stmt),
            Item::Contract(number, c) => self.contract(number, c),
        }
    }

    /// Returns with status 0.
    pub(super) fn finish(&mut self) {
        let done = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[done]);
    }

    fn block(&mut self, body: &[Stmt]) -> Result<(), Problem> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Problem> {
        match stmt {
            Stmt::For { index, extent, body } => self.for_(*index, *extent, body),
            Stmt::Let { value, expr } => {
                let x = match expr {
                    Expr::Code(code, args) => {
                        let dtype = args.last().map(|a| self.p.dtype(*a));
                        let dtype = dtype.ok_or_else(|| Problem::internal("no operands"))?;
                        let x: SmallVec<[Value; 3]> =
                            args.iter().map(|a| self.arg(*a)).collect::<Result<_, _>>()?;
                        scalar::emit(self.b, self.functions, *code, dtype, &x)?
                    }
                    Expr::Load { buffer, address, guard } => self.load(*buffer, address, *guard)?,
                };
                self.state.scalars[*value] = x.into();
                if let Some((part, offset)) = self.cut.spills.get(value)
                    && *part == self.part
                    && self.loops.is_empty()
                {
                    let (base, offset) = self.place(self.workspace, *offset as i64);
                    self.b.ins().store(MemFlagsData::trusted(), x, base, offset);
                }
                Ok(())
            }
            Stmt::Var { var, init } => {
                let init = self.arg(*init)?;
                let variable = self.b.declare_var(scalar::register(self.p.vars[*var]));
                self.b.def_var(variable, init);
                self.state.vars[*var] = Some(variable);
                Ok(())
            }
            Stmt::Set { var, value } => {
                let value = self.arg(*value)?;
                let variable = self.variable(*var)?;
                self.b.def_var(variable, value);
                Ok(())
            }
            Stmt::Fold { var, code, value } => {
                let value = self.arg(*value)?;
                let variable = self.variable(*var)?;
                let old = self.b.use_var(variable);
                let dtype = self.p.vars[*var];
                let new = scalar::emit(self.b, self.functions, *code, dtype, &[old, value])?;
                self.b.def_var(variable, new);
                Ok(())
            }
            Stmt::Store { buffer, address, value, guard } => {
                self.store(*buffer, address, *value, *guard)
            }
        }
    }

    fn for_(&mut self, index: IndexId, extent: usize, body: &[Stmt]) -> Result<(), Problem> {
        match extent {
            0 => return Ok(()),
            1 => {
                let scaled = SmallVec::new();
                self.loops.push(Counter { index, at: At::Constant(0), scaled });
                self.block(body)?;
                self.loops.pop();
                return Ok(());
            }
            _ => {}
        }
        let mut strides = SmallVec::new();
        self.strides(index, body, &mut strides);
        let zero = self.b.ins().iconst(types::I64, 0);
        let (head, exit) = (self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(head, types::I64);
        let scaled: SmallVec<[(i64, Value); 2]> = strides
            .iter()
            .map(|stride| (*stride, self.b.append_block_param(head, types::I64)))
            .collect();
        let start: SmallVec<[BlockArg; 4]> =
            std::iter::repeat_n(zero.into(), 1 + scaled.len()).collect();
        self.b.ins().jump(head, &start);
        self.b.switch_to_block(head);
        self.loops.push(Counter { index, at: At::Value(at), scaled: scaled.clone() });
        self.block(body)?;
        self.loops.pop();
        let next = self.b.ins().iadd_imm_s(at, 1);
        let mut again: SmallVec<[BlockArg; 4]> = SmallVec::new();
        again.push(next.into());
        for (stride, value) in scaled {
            again.push(self.b.ins().iadd_imm_s(value, stride).into());
        }
        let more = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, extent as i64);
        self.b.ins().brif(more, head, &again, exit, &[]);
        self.b.seal_block(head);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        Ok(())
    }

    /// Strides in bytes with which `index` occurs and that no addressing mode scales by.
    fn strides(&self, index: IndexId, body: &[Stmt], found: &mut SmallVec<[i64; 4]>) {
        /// More counters than this would not stay in registers.
        const MOST: usize = 4;
        for stmt in body {
            let (buffer, address) = match stmt {
                Stmt::For { body, .. } => {
                    self.strides(index, body, found);
                    continue;
                }
                Stmt::Let { expr: Expr::Load { buffer, address, .. }, .. }
                | Stmt::Store { buffer, address, .. } => (buffer, address),
                Stmt::Let { .. } | Stmt::Var { .. } | Stmt::Set { .. } | Stmt::Fold { .. } => {
                    continue;
                }
            };
            let size = self.p.buffers[*buffer].ty.dtype.bytes() as i64;
            for (i, stride) in &address.terms {
                let bytes = stride * size;
                let other = *i == index && !matches!(bytes, 0 | 1 | 2 | 4 | 8);
                if other && found.len() < MOST && !found.contains(&bytes) {
                    found.push(bytes);
                }
            }
        }
    }

    fn variable(&self, var: VarId) -> Result<Variable, Problem> {
        self.state.vars[var].ok_or_else(|| Problem::internal(format!("{var} is not declared")))
    }

    fn arg(&mut self, arg: Arg) -> Result<Value, Problem> {
        match arg {
            Arg::Literal(l) => Ok(scalar::literal(self.b, l)),
            Arg::Var(v) => {
                let variable = self.variable(v)?;
                Ok(self.b.use_var(variable))
            }
            Arg::Index(i) => {
                let counter = self.loops.iter().find(|c| c.index == i);
                match counter.map(|c| c.at) {
                    Some(At::Value(v)) => Ok(v),
                    Some(At::Constant(n)) => Ok(self.b.ins().iconst(types::I64, n)),
                    None => Err(Problem::internal(format!("{i} is not open"))),
                }
            }
            Arg::Scalar(s) => {
                if let Some((part, offset)) = self.cut.spills.get(&s)
                    && *part != self.part
                {
                    let (base, offset) = self.place(self.workspace, *offset as i64);
                    let ty = scalar::register(self.p.scalars[s]);
                    return Ok(self.b.ins().load(ty, MemFlagsData::trusted(), base, offset));
                }
                let value = self.state.scalars[s].expand();
                value.ok_or_else(|| Problem::internal(format!("{s} is not defined")))
            }
        }
    }

    fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Value, Problem> {
        let dtype = self.p.buffers[buffer].ty.dtype;
        let fixed = constant(address);
        if let Some(offset) = fixed
            && let Some(value) = self.elements.get(&(buffer, offset)).copied()
        {
            let Some(g) = guard else { return Ok(value) };
            let g = self.arg(g)?;
            let zero = scalar::literal(self.b, Literal::zero(dtype));
            return Ok(self.b.ins().select(g, value, zero));
        }
        let ty = scalar::register(dtype);
        let (mut base, mut offset) = self.address(buffer, address)?;
        let mut flags = MemFlagsData::trusted();
        if let Some(g) = guard {
            let g = self.arg(g)?;
            let element = self.b.ins().iadd_imm_s(base, i64::from(offset));
            let zeros = self.zeros();
            base = self.b.ins().select(g, element, zeros);
            offset = 0;
        } else if matches!(self.p.buffers[buffer].place, Place::Input(_)) {
            flags = flags.with_readonly().with_can_move();
        }
        let value = self.b.ins().load(ty, flags, base, offset);
        if let Some(offset) = fixed
            && guard.is_none()
            && self.loops.is_empty()
            && self.cut.buffers[buffer] != Promotion::Memory
        {
            self.elements.insert((buffer, offset), value);
        }
        Ok(value)
    }

    fn store(
        &mut self,
        buffer: BufferId,
        address: &Address,
        value: Arg,
        guard: Option<Arg>,
    ) -> Result<(), Problem> {
        let x = self.arg(value)?;
        let promotion = self.cut.buffers[buffer];
        if let Some(offset) = constant(address)
            && promotion != Promotion::Memory
        {
            self.elements.insert((buffer, offset), x);
            let workspace = matches!(self.p.buffers[buffer].place, Place::Workspace(_));
            if workspace && promotion == Promotion::Local(self.part) {
                return Ok(());
            }
        }
        let Some(g) = guard else {
            let (base, offset) = self.address(buffer, address)?;
            self.b.ins().store(MemFlagsData::trusted(), x, base, offset);
            return Ok(());
        };
        let g = self.arg(g)?;
        let (base, offset) = self.address(buffer, address)?;
        let (then, join) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(g, then, &[], join, &[]);
        self.b.switch_to_block(then);
        self.b.seal_block(then);
        self.b.ins().store(MemFlagsData::trusted(), x, base, offset);
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
        Ok(())
    }

    /// An element as a pointer and an immediate offset in bytes.
    fn address(&mut self, buffer: BufferId, a: &Address) -> Result<(Value, i32), Problem> {
        let b = &self.p.buffers[buffer];
        let size = b.ty.dtype.bytes() as i64;
        let mut offset = a.offset * size;
        for (index, stride) in &a.terms {
            if let Some(Counter { at: At::Constant(n), .. }) =
                self.loops.iter().find(|c| c.index == *index)
            {
                offset += n * stride * size;
            }
        }
        let mut pointer = self.pointer(buffer, &mut offset)?;
        for depth in 0..self.loops.len() {
            let Counter { index, at: At::Value(at), .. } = self.loops[depth] else { continue };
            let stride: i64 = a.terms.iter().filter(|t| t.0 == index).map(|t| t.1).sum();
            let bytes = stride * size;
            if bytes == 0 {
                continue;
            }
            let scaled = self.loops[depth].scaled.iter().find(|s| s.0 == bytes);
            let term = match (scaled, bytes) {
                (Some((_, value)), _) => *value,
                (None, 1) => at,
                (None, 2 | 4 | 8) => self.b.ins().ishl_imm_u(at, i64::from(bytes.trailing_zeros())),
                (None, _) => self.b.ins().imul_imm_s(at, bytes),
            };
            pointer = self.b.ins().iadd(pointer, term);
        }
        if let Some(d) = a.dynamic {
            let d = self.arg(d)?;
            let bytes = self.b.ins().ishl_imm_u(d, i64::from(size.trailing_zeros()));
            pointer = self.b.ins().iadd(pointer, bytes);
        }
        Ok(self.place(pointer, offset))
    }

    /// A pointer to a buffer; for one in the workspace its place there is added to `offset`.
    fn pointer(&mut self, buffer: BufferId, offset: &mut i64) -> Result<Value, Problem> {
        let (table, n) = match self.p.buffers[buffer].place {
            Place::Workspace(at) => {
                *offset += at as i64;
                return Ok(self.workspace);
            }
            Place::Input(n) => (self.inputs, n),
            Place::Output(n) => (self.outputs, n),
        };
        if let Some(pointer) = self.pointers.get(&buffer) {
            return Ok(*pointer);
        }
        let (base, offset) = self.place(table, n as i64 * 8);
        // The tables do not change during a call, so that these loads move out of loops.
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let pointer = self.b.ins().load(types::I64, flags, base, offset);
        if self.loops.is_empty() {
            self.pointers.insert(buffer, pointer);
        }
        Ok(pointer)
    }

    /// Where eight zero bytes are: behind the table of inputs.
    fn zeros(&mut self) -> Value {
        let inputs = self.p.buffers.values().filter_map(|b| match b.place {
            Place::Input(n) => Some(n + 1),
            Place::Output(_) | Place::Workspace(_) => None,
        });
        let inputs = inputs.max().unwrap_or(0);
        self.b.ins().iadd_imm_s(self.inputs, inputs as i64 * 8)
    }

    /// Splits a constant off where it fits an immediate.
    fn place(&mut self, base: Value, offset: i64) -> (Value, i32) {
        match i32::try_from(offset) {
            Ok(small) => (base, small),
            Err(_) => (self.b.ins().iadd_imm_s(base, offset), 0),
        }
    }

    fn contract(&mut self, number: usize, c: &Contract) -> Result<(), Problem> {
        let function = self.functions.contraction(self.b.func, c.dtype)?;
        let description = self.contracts.wrapping_add(number).addr();
        let mut args = vec![self.b.ins().iconst(types::I64, description as i64)];
        for m in [c.lhs, c.rhs, c.out] {
            let mut offset = 0;
            let pointer = self.pointer(m.buffer, &mut offset)?;
            args.push(self.b.ins().iadd_imm_s(pointer, offset));
        }
        let call = self.b.ins().call(function, &args);
        let status = self.b.inst_results(call)[0];
        return_unless_zero(self.b, status);
        Ok(())
    }
}

/// Returns a status that is not 0.
pub(super) fn return_unless_zero(b: &mut FunctionBuilder<'_>, status: Value) {
    let (bad, good) = (b.create_block(), b.create_block());
    b.set_cold_block(bad);
    b.ins().brif(status, bad, &[], good, &[]);
    b.switch_to_block(bad);
    b.seal_block(bad);
    b.ins().return_(&[status]);
    b.switch_to_block(good);
    b.seal_block(good);
}
