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

use super::lanes::{self, Emit, Lanes};
use super::parts::{Parts, Promotion, constant};
use super::scalar;
use super::symbols::Functions;
use super::vector;
use crate::gemm;
use crate::kernel::{
    Address, Arg, BufferId, Contract, Expr, IndexId, Place, Program, ScalarId, Stmt, VarId, visit,
};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::{FunctionBuilder, Variable};
use smallvec::SmallVec;
use std::collections::HashMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// Tables that outlive a part, so that a program of many parts does not make them many times.
#[derive(Default)]
pub(super) struct State {
    scalars: SecondaryMap<ScalarId, Option<Lanes>>,
    vars: SecondaryMap<VarId, Option<Slot>>,
}

/// A variable of the program.
#[derive(Clone)]
enum Slot {
    /// Uniform.
    One(Variable),
    /// In registers of that type.
    Vector(Type, SmallVec<[Variable; 4]>),
    /// A scalar per lane.
    Each(SmallVec<[Variable; 4]>),
}

/// One loop that is open.
struct Counter {
    index: IndexId,
    /// Its value (in the first lane).
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

/// Where an access goes in each lane: pointers with immediate offsets.
enum Places {
    /// The same element in every lane.
    One(Value, i32),
    /// That many bytes between lanes.
    Strided(Value, i32, i64),
    /// Anywhere.
    Each(SmallVec<[(Value, i32); 4]>),
}

/// The translation of one part.
pub(super) struct Nest<'a, 'f, 'm> {
    p: &'a Program,
    cut: &'a Parts<'a>,
    part: usize,
    state: &'a mut State,
    b: &'a mut FunctionBuilder<'f>,
    functions: &'a mut Functions<'m>,
    inputs: Value,
    outputs: Value,
    workspace: Value,
    /// Open loops, outermost first.
    loops: Vec<Counter>,
    /// Loads made before the loops that they are in.
    hoisted: Vec<ScalarId>,
    /// The loop that runs in lanes, and how many.
    lanes: Option<(IndexId, usize)>,
    /// Whether this machine has the vector instructions.
    vectors: bool,
    /// Elements of promoted buffers.
    elements: HashMap<(BufferId, i64), Value>,
    /// Where each buffer is, once it was asked for at the top level.
    pointers: HashMap<BufferId, Value>,
}

impl<'a, 'f, 'm> Nest<'a, 'f, 'm> {
    pub(super) fn new(
        p: &'a Program,
        cut: &'a Parts<'a>,
        part: usize,
        state: &'a mut State,
        b: &'a mut FunctionBuilder<'f>,
        functions: &'a mut Functions<'m>,
        [inputs, outputs, workspace]: [Value; 3],
    ) -> Self {
        let vectors = functions.has_vectors();
        Nest {
            p,
            cut,
            part,
            state,
            b,
            functions,
            inputs,
            outputs,
            workspace,
            loops: Vec::new(),
            hoisted: Vec::new(),
            lanes: None,
            vectors,
            elements: HashMap::new(),
            pointers: HashMap::new(),
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

    /// The emitter of operations in the present lanes.
    fn emit(&mut self) -> Emit<'_, 'f, 'm> {
        let width = self.width();
        Emit { b: self.b, functions: self.functions, width }
    }

    fn width(&self) -> usize {
        self.lanes.map_or(1, |(_, width)| width)
    }

    /// Translates one statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), Problem> {
        match stmt {
            Stmt::Nest { body } => self.block(body),
            Stmt::Contract(c) => self.contract(c),
            Stmt::For { index, extent, body } => self.for_(*index, *extent, body),
            Stmt::Let { value, .. } if self.hoisted.contains(value) => Ok(()),
            Stmt::Let { value, expr } => {
                let x = match expr {
                    Expr::Code(code, args) => {
                        let dtype = args.last().map(|a| self.p.dtype(*a));
                        let dtype = dtype.ok_or_else(|| Problem::internal("no operands"))?;
                        let x: SmallVec<[Lanes; 3]> =
                            args.iter().map(|a| self.arg(*a)).collect::<Result<_, _>>()?;
                        self.emit().code(*code, dtype, &x)?
                    }
                    Expr::Load { buffer, address, guard, .. } => {
                        self.load(*buffer, address, *guard)?
                    }
                };
                if let Some((part, offset)) = self.cut.spills.get(value)
                    && *part == self.part
                    && self.loops.is_empty()
                    && let Lanes::One(x) = x
                {
                    let (base, offset) = self.place(self.workspace, *offset as i64);
                    self.b.ins().store(MemFlagsData::trusted(), x, base, offset);
                }
                self.state.scalars[*value] = Some(x);
                Ok(())
            }
            Stmt::Var { var, init } => {
                let init = self.arg(*init)?;
                let slot = self.declare(*var);
                self.state.vars[*var] = Some(slot);
                self.set(*var, &init)
            }
            Stmt::Set { var, value } => {
                let value = self.arg(*value)?;
                self.set(*var, &value)
            }
            Stmt::Fold { var, code, value } => {
                let value = self.arg(*value)?;
                let (old, dtype) = (self.get(*var)?, self.p.vars[*var]);
                let new = self.emit().code(*code, dtype, &[old, value])?;
                self.set(*var, &new)
            }
            Stmt::Store { buffer, address, value, guard, .. } => {
                self.store(*buffer, address, *value, *guard)
            }
        }
    }

    /// A slot that holds a value per lane.
    fn declare(&mut self, var: VarId) -> Slot {
        let (dtype, width) = (self.p.vars[var], self.width());
        let scalar = scalar::register(dtype);
        match lanes::vector(dtype, width) {
            _ if width == 1 => Slot::One(self.b.declare_var(scalar)),
            Some(ty) => {
                let count = width / ty.lane_count() as usize;
                Slot::Vector(ty, (0..count).map(|_| self.b.declare_var(ty)).collect())
            }
            None => Slot::Each((0..width).map(|_| self.b.declare_var(scalar)).collect()),
        }
    }

    fn slot(&self, var: VarId) -> Result<Slot, Problem> {
        let slot = self.state.vars[var].clone();
        slot.ok_or_else(|| Problem::internal(format!("{var} is not declared")))
    }

    fn get(&mut self, var: VarId) -> Result<Lanes, Problem> {
        Ok(match self.slot(var)? {
            Slot::One(v) => Lanes::One(self.b.use_var(v)),
            Slot::Vector(_, vs) => Lanes::Vector(vs.iter().map(|v| self.b.use_var(*v)).collect()),
            Slot::Each(vs) => Lanes::Each(vs.iter().map(|v| self.b.use_var(*v)).collect()),
        })
    }

    fn set(&mut self, var: VarId, x: &Lanes) -> Result<(), Problem> {
        let dtype = self.p.vars[var];
        match (self.slot(var)?, x) {
            (Slot::One(v), Lanes::One(x)) => self.b.def_var(v, *x),
            (Slot::One(_), _) => {
                return Err(Problem::internal(format!("{var} is set in lanes but not per lane")));
            }
            (Slot::Vector(ty, vs), _) => {
                let x = self.emit().vectors(x, dtype, ty);
                vs.iter().zip(x).for_each(|(v, x)| self.b.def_var(*v, x));
            }
            (Slot::Each(vs), _) => {
                let x = self.emit().each(x, dtype);
                vs.iter().zip(x).for_each(|(v, x)| self.b.def_var(*v, x));
            }
        }
        Ok(())
    }

    fn for_(&mut self, index: IndexId, extent: usize, body: &[Stmt]) -> Result<(), Problem> {
        let plan = if self.vectors && self.lanes.is_none() {
            vector::plan(self.p, index, extent, body)
        } else {
            None
        };
        let Some(plan) = plan else { return self.range(index, 0, extent, body) };
        // Full lanes first, then what is left one by one.
        let full = extent - extent % plan.width;
        let mut accumulators = Vec::new();
        self.lanes = Some((index, plan.width));
        for (var, code) in &plan.folds {
            let dtype = self.p.vars[*var];
            let identity = vector::identity(*code, dtype)
                .ok_or_else(|| Problem::internal(format!("no identity of {code:?}")))?;
            let outer = self.state.vars[*var].take();
            self.state.vars[*var] = Some(self.declare(*var));
            let identity = Lanes::One(scalar::literal(self.b, identity));
            self.set(*var, &identity)?;
            accumulators.push((*var, *code, outer));
        }
        self.range(index, 0, full, body)?;
        for (var, code, outer) in accumulators {
            let dtype = self.p.vars[var];
            let (Lanes::Vector(lanes) | Lanes::Each(lanes) | Lanes::Mask(lanes)) = self.get(var)?
            else {
                return Err(Problem::internal(format!("{var} is not per lane")));
            };
            let all = self.emit().reduce(code, dtype, &lanes)?;
            self.state.vars[var] = outer;
            let Lanes::One(old) = self.get(var)? else {
                return Err(Problem::internal(format!("{var} is in two loops of lanes")));
            };
            let new = scalar::emit(self.b, self.functions, code, dtype, &[old, all])?;
            self.set(var, &Lanes::One(new))?;
        }
        self.lanes = None;
        let writes = |s: &Stmt, dtype: Dtype| match s {
            Stmt::Store { buffer, .. } => self.p.buffers[*buffer].ty.dtype == dtype,
            Stmt::Nest { .. }
            | Stmt::Let { .. }
            | Stmt::Var { .. }
            | Stmt::Set { .. }
            | Stmt::Fold { .. }
            | Stmt::For { .. }
            | Stmt::Contract(_) => false,
        };
        let short = extent > full
            && (planted(Fault::LaneTail) && body.iter().any(|s| writes(s, Dtype::F64))
                || planted(Fault::LaneTailNarrow) && body.iter().any(|s| writes(s, Dtype::F32)));
        self.range(index, full, extent - usize::from(short), body)
    }

    /// Iterations `from..to`; steps by the width if this is the loop in lanes.
    fn range(
        &mut self,
        index: IndexId,
        from: usize,
        to: usize,
        body: &[Stmt],
    ) -> Result<(), Problem> {
        /// Statements that a loop of few iterations may become.
        const UNROLLED: usize = 16;
        let step = match self.lanes {
            Some((i, width)) if i == index => width,
            _ => 1,
        };
        let times = (to - from) / step;
        if times <= 1 || (times <= 4 && times * simple(body) <= UNROLLED) {
            for i in 0..times {
                let at = At::Constant((from + i * step) as i64);
                self.loops.push(Counter { index, at, scaled: SmallVec::new() });
                self.block(body)?;
                self.loops.pop();
            }
            return Ok(());
        }
        let mut strides = SmallVec::new();
        self.strides(index, body, &mut strides);
        let start = self.b.ins().iconst(types::I64, from as i64);
        let (head, exit) = (self.b.create_block(), self.b.create_block());
        let at = self.b.append_block_param(head, types::I64);
        let mut scaled: SmallVec<[(i64, Value); 2]> = SmallVec::new();
        let mut first: SmallVec<[BlockArg; 4]> = SmallVec::new();
        first.push(start.into());
        for stride in strides {
            scaled.push((stride, self.b.append_block_param(head, types::I64)));
            let start = self.b.ins().iconst(types::I64, from as i64 * stride);
            first.push(start.into());
        }
        let hoisted = self.hoist(index, body)?;
        self.b.ins().jump(head, &first);
        self.b.switch_to_block(head);
        self.loops.push(Counter { index, at: At::Value(at), scaled: scaled.clone() });
        self.block(body)?;
        self.loops.pop();
        self.hoisted.truncate(hoisted);
        let next = self.b.ins().iadd_imm_s(at, step as i64);
        let mut again: SmallVec<[BlockArg; 4]> = SmallVec::new();
        again.push(next.into());
        for (stride, value) in scaled {
            again.push(self.b.ins().iadd_imm_s(value, stride * step as i64).into());
        }
        let more = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, to as i64);
        self.b.ins().brif(more, head, &again, exit, &[]);
        self.b.seal_block(head);
        self.b.switch_to_block(exit);
        self.b.seal_block(exit);
        Ok(())
    }

    /// Loads of the body that read the same element in every iteration, made before the loop. (Loads
    /// from inputs are moved by Cranelift, which knows that nothing writes those.) The answer is how
    /// many loads were hoisted before.
    fn hoist(&mut self, index: IndexId, body: &[Stmt]) -> Result<usize, Problem> {
        /// More would not stay in registers.
        const MOST: usize = 8;
        let before = self.hoisted.len();
        let stored = stores(body);
        for stmt in body {
            let Stmt::Let { value, expr: Expr::Load { buffer, address, guard: None, .. } } = stmt
            else {
                continue;
            };
            let input = matches!(self.p.buffers[*buffer].place, Place::Input(_));
            let fixed = address.dynamic.is_none() && address.stride(index) == 0;
            let alone = stored.iter().all(|s| vector::disjoint(self.p, *s, *buffer));
            if !input && fixed && alone && self.hoisted.len() < before + MOST {
                let x = self.load(*buffer, address, None)?;
                self.state.scalars[*value] = Some(x);
                self.hoisted.push(*value);
            }
        }
        Ok(before)
    }

    /// Strides in bytes with which `index` occurs and that no addressing mode scales by.
    fn strides(&self, index: IndexId, body: &[Stmt], found: &mut SmallVec<[i64; 4]>) {
        /// More counters than this would not stay in registers.
        const MOST: usize = 4;
        visit(body, &mut |stmt| {
            stmt.accesses(&mut |access| {
                let size = self.p.buffers[access.buffer].ty.dtype.bytes() as i64;
                for (i, stride) in &access.address.terms {
                    let bytes = stride * size;
                    let other = *i == index && !matches!(bytes, 0 | 1 | 2 | 4 | 8);
                    if other && found.len() < MOST && !found.contains(&bytes) {
                        found.push(bytes);
                    }
                }
            });
        });
    }

    fn arg(&mut self, arg: Arg) -> Result<Lanes, Problem> {
        match arg {
            Arg::Literal(l) => Ok(Lanes::One(scalar::literal(self.b, l))),
            Arg::Var(v) => self.get(v),
            Arg::Index(i) => {
                let counter = self.loops.iter().find(|c| c.index == i);
                let at = match counter.map(|c| c.at) {
                    Some(At::Value(v)) => v,
                    Some(At::Constant(n)) => self.b.ins().iconst(types::I64, n),
                    None => return Err(Problem::internal(format!("{i} is not open"))),
                };
                Ok(match self.lanes {
                    Some((index, width)) if index == i => Lanes::Each(
                        (0..width).map(|l| self.b.ins().iadd_imm_s(at, l as i64)).collect(),
                    ),
                    _ => Lanes::One(at),
                })
            }
            Arg::Scalar(s) => {
                if let Some((part, offset)) = self.cut.spills.get(&s)
                    && *part != self.part
                {
                    let (base, offset) = self.place(self.workspace, *offset as i64);
                    let ty = scalar::register(self.p.scalars[s]);
                    let flags = MemFlagsData::trusted();
                    return Ok(Lanes::One(self.b.ins().load(ty, flags, base, offset)));
                }
                let value = self.state.scalars[s].clone();
                value.ok_or_else(|| Problem::internal(format!("{s} is not defined")))
            }
        }
    }

    fn load(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Lanes, Problem> {
        let dtype = self.p.buffers[buffer].ty.dtype;
        let scalar = scalar::register(dtype);
        let fixed = constant(address);
        if let Some(offset) = fixed
            && let Some(value) = self.elements.get(&(buffer, offset)).copied()
        {
            let value = Lanes::One(value);
            let Some(g) = guard else { return Ok(value) };
            let zero = Lanes::One(scalar::literal(self.b, Literal::zero(dtype)));
            let g = self.arg(g)?;
            return self.emit().code(Code::Select, dtype, &[g, value, zero]);
        }
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let places = self.places(buffer, address)?;
        let mut flags = MemFlagsData::trusted();
        if guard.is_none() && matches!(self.p.buffers[buffer].place, Place::Input(_)) {
            flags = flags.with_readonly().with_can_move();
        }
        let uniform = matches!(guard, None | Some(Lanes::One(_)));
        match places {
            Places::One(base, offset) if uniform => {
                let (base, offset) = self.guarded(&guard, 0, base, offset);
                let value = self.b.ins().load(scalar, flags, base, offset);
                if let Some(offset) = fixed
                    && guard.is_none()
                    && self.loops.is_empty()
                    && self.cut.buffers[buffer] != Promotion::Memory
                {
                    self.elements.insert((buffer, offset), value);
                }
                Ok(Lanes::One(value))
            }
            Places::Strided(base, offset, bytes)
                if uniform
                    && bytes == i64::from(scalar.bytes())
                    && self.registers(dtype).is_some() =>
            {
                let Some((ty, count)) = self.registers(dtype) else { return Err(lost()) };
                // Elements are aligned, vectors of them need not be.
                let mut flags = MemFlagsData::new().with_notrap();
                if guard.is_none() && matches!(self.p.buffers[buffer].place, Place::Input(_)) {
                    flags = flags.with_readonly().with_can_move();
                }
                let mut registers = lanes::Registers::new();
                for r in 0..count {
                    let (base, offset) = self.guarded(&guard, 0, base, offset + r as i32 * 16);
                    registers.push(self.b.ins().load(ty, flags, base, offset));
                }
                Ok(Lanes::Vector(registers))
            }
            places => {
                let guard = guard.map(|g| Lanes::Each(self.emit().each(&g, Dtype::Bool)));
                let mut each = lanes::Registers::new();
                for lane in 0..self.width() {
                    let (base, offset) = places.lane(lane);
                    let (base, offset) = self.guarded(&guard, lane, base, offset);
                    each.push(self.b.ins().load(scalar, flags, base, offset));
                }
                Ok(Lanes::Each(each))
            }
        }
    }

    /// The place of an element, or of zeros if the guard is false.
    fn guarded(
        &mut self,
        guard: &Option<Lanes>,
        lane: usize,
        base: Value,
        offset: i32,
    ) -> (Value, i32) {
        let g = match guard {
            None => return (base, offset),
            Some(Lanes::One(g)) => *g,
            Some(Lanes::Each(g) | Lanes::Vector(g) | Lanes::Mask(g)) => g[lane],
        };
        let element = self.b.ins().iadd_imm_s(base, i64::from(offset));
        let zeros = self.zeros();
        (self.b.ins().select(g, element, zeros), 0)
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
            && let Lanes::One(x) = x
        {
            self.elements.insert((buffer, offset), x);
            let workspace = matches!(self.p.buffers[buffer].place, Place::Workspace(_));
            if workspace && promotion == Promotion::Local(self.part) {
                return Ok(());
            }
        }
        let guard = guard.map(|g| self.arg(g)).transpose()?;
        let places = self.places(buffer, address)?;
        match guard {
            None => self.write(buffer, &places, &x),
            Some(Lanes::One(g)) => {
                let join = self.begin_if(g);
                self.write(buffer, &places, &x);
                self.end_if(join);
            }
            Some(g) => {
                let dtype = self.p.buffers[buffer].ty.dtype;
                let g = self.emit().each(&g, Dtype::Bool);
                let each = self.emit().each(&x, dtype);
                for lane in 0..self.width() {
                    let (base, offset) = places.lane(lane);
                    let join = self.begin_if(g[lane]);
                    self.b.ins().store(MemFlagsData::trusted(), each[lane], base, offset);
                    self.end_if(join);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, buffer: BufferId, places: &Places, x: &Lanes) {
        let dtype = self.p.buffers[buffer].ty.dtype;
        match (places, x) {
            (Places::One(base, offset), Lanes::One(x)) => {
                self.b.ins().store(MemFlagsData::trusted(), *x, *base, *offset);
            }
            (Places::Strided(base, offset, bytes), _)
                if *bytes == dtype.bytes() as i64 && self.registers(dtype).is_some() =>
            {
                let Some((ty, _)) = self.registers(dtype) else { return };
                let flags = MemFlagsData::new().with_notrap();
                let registers = self.emit().vectors(x, dtype, ty);
                for (r, x) in registers.iter().enumerate() {
                    self.b.ins().store(flags, *x, *base, *offset + r as i32 * 16);
                }
            }
            _ => {
                let each = self.emit().each(x, dtype);
                for (lane, x) in each.iter().enumerate() {
                    let (base, offset) = places.lane(lane);
                    self.b.ins().store(MemFlagsData::trusted(), *x, base, offset);
                }
            }
        }
    }

    /// The vector registers that hold a value per lane, if they are used for that dtype.
    fn registers(&self, dtype: Dtype) -> Option<(Type, usize)> {
        let ty = lanes::vector(dtype, self.width())?;
        Some((ty, self.width() / ty.lane_count() as usize))
    }

    fn begin_if(&mut self, condition: Value) -> Block {
        let (then, join) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, then, &[], join, &[]);
        self.b.switch_to_block(then);
        self.b.seal_block(then);
        join
    }

    fn end_if(&mut self, join: Block) {
        self.b.ins().jump(join, &[]);
        self.b.switch_to_block(join);
        self.b.seal_block(join);
    }

    /// Where an access goes.
    fn places(&mut self, buffer: BufferId, a: &Address) -> Result<Places, Problem> {
        let size = self.p.buffers[buffer].ty.dtype.bytes() as i64;
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
            let bytes = a.stride(index) * size;
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
        let between = self.lanes.map_or(0, |(index, _)| a.stride(index) * size);
        // Offsets of all lanes must fit where that of the first does.
        let far = (between.saturating_mul(self.width() as i64)).saturating_add(offset);
        let (pointer, offset) = match i32::try_from(far) {
            Ok(_) => self.place(pointer, offset),
            Err(_) => (self.b.ins().iadd_imm_s(pointer, offset), 0),
        };
        let moved = |n: &mut Self, d: Value| {
            let bytes = n.b.ins().ishl_imm_u(d, i64::from(size.trailing_zeros()));
            n.b.ins().iadd(pointer, bytes)
        };
        let dynamic = a.dynamic.map(|d| self.arg(d)).transpose()?;
        let base = match dynamic {
            None => pointer,
            Some(Lanes::One(d)) => moved(self, d),
            Some(d) => {
                let each = self.emit().each(&d, Dtype::I64);
                let places = each.iter().enumerate().map(|(lane, d)| {
                    let base = moved(self, *d);
                    self.place(base, i64::from(offset) + lane as i64 * between)
                });
                return Ok(Places::Each(places.collect()));
            }
        };
        if between == 0 {
            return Ok(Places::One(base, offset));
        }
        if between.abs() >= 1 << 20 {
            let places = (0..self.width() as i64)
                .map(|lane| self.place(base, i64::from(offset) + lane * between));
            return Ok(Places::Each(places.collect()));
        }
        Ok(Places::Strided(base, offset, between))
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

    /// Where sixteen zero bytes are: behind the table of inputs.
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

    fn contract(&mut self, c: &Contract) -> Result<(), Problem> {
        let function = self.functions.contraction(self.b.func, c.dtype)?;
        let description = self.functions.constant(self.b.func, gemm::describe(c))?;
        let mut args = vec![self.b.ins().symbol_value(types::I64, description)];
        for m in [c.lhs, c.rhs, c.out] {
            let mut offset = m.offset * c.dtype.bytes() as i64;
            let pointer = self.pointer(m.buffer, &mut offset)?;
            args.push(self.b.ins().iadd_imm_s(pointer, offset));
        }
        let call = self.b.ins().call(function, &args);
        let status = self.b.inst_results(call)[0];
        return_unless_zero(self.b, status);
        Ok(())
    }
}

impl Places {
    fn lane(&self, lane: usize) -> (Value, i32) {
        match self {
            Places::One(base, offset) => (*base, *offset),
            Places::Strided(base, offset, bytes) => (*base, offset + lane as i32 * *bytes as i32),
            Places::Each(places) => places[lane],
        }
    }
}

/// Buffers that a body writes.
fn stores(body: &[Stmt]) -> Vec<BufferId> {
    let mut found = Vec::new();
    visit(body, &mut |stmt| {
        stmt.accesses(&mut |a| {
            if a.write && !found.contains(&a.buffer) {
                found.push(a.buffer);
            }
        });
    });
    found
}

/// Statements of a body without loops; more than any limit for one with.
fn simple(body: &[Stmt]) -> usize {
    let alone = |s: &Stmt| s.blocks().is_empty() && !matches!(s, Stmt::Contract(_));
    if body.iter().all(alone) { body.len() } else { usize::MAX / 8 }
}

fn lost() -> Problem {
    Problem::internal("vector registers came and went")
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
