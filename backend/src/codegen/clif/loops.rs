//! Translation of loops: counted loops, with lanes and without, and `while` loops.
//!
//! A loop counts upwards and tests at its end. A loop whose trip count is known only at run time also tests before
//! its first iteration.
//!
//! ```text
//! for i1 in 100 { load b0[i0*100 + i1] }
//!
//! block1(i1):                       ; t = pointer of b0 + i0*800, computed outside
//!   %0 = load.f64 t + i1*8
//!   i1' = i1 + 1
//!   brif i1' < 100, block1(i1'), block2
//! ```
//!
//! If a loop exchanges (swaps) two buffers, each is a pointer in a Cranelift variable, and the pointers are swapped;
//! after the loop, a buffer that ended in the memory of the other is copied back. A loop swaps all its pairs in every
//! iteration. So if there are more pairs than registers, a single variable states for all pairs whether they are
//! swapped.

use super::scalar;
use super::translate::{At, Counter, Translator, begin};
use super::variables::Binding;
use super::vector_value::{Lanes, Registers};
use crate::loop_ir::analysis::dependence::folds;
use crate::loop_ir::analysis::invariance::VaryingValues;
use crate::loop_ir::{Arg, BufferId, Carry, Expr, Extent, IndexId, Place, Stmt, VarId, visit};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    BlockArg, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::Variable;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap, OrderedSet, Problem};

/// The pairs of buffers whose memory a loop swaps in each iteration (*exchanged* buffers), by swapping pointers.
struct Exchange {
    pairs: Vec<[BufferId; 2]>,
    state: ExchangeState,
}

/// The Cranelift variables that represent which buffers are currently swapped.
enum ExchangeState {
    /// For each pair: the variables that hold the two pointers, and the original pointer of the first buffer.
    Pointers(Vec<([Variable; 2], Value)>),
    /// A single variable describes all pairs: it is 0 if all buffers are in their original memory, and -1 if the
    /// buffers of each pair have swapped their memory.
    All(Variable),
}

impl Exchange {
    const NONE: Exchange =
        Exchange { pairs: Vec::new(), state: ExchangeState::Pointers(Vec::new()) };
}

/// The remaining iterations of a loop with lanes (after the full vectors), which run one by one.
#[derive(Clone)]
pub(super) struct Rest {
    index: IndexId,
    /// The number of the first remaining iteration, a multiple of the number of lanes.
    from: usize,
    /// The stack slots of the variables that the loop folds into: one partial value per lane.
    vars: Vec<(VarId, StackSlot)>,
}

/// The current memory of a buffer that a loop exchanges (swaps with another buffer) in each iteration.
#[derive(Clone, Copy)]
pub(super) enum Exchanged {
    /// The buffer is at the address that this variable holds.
    At(Variable),
    /// The buffer is in its original memory if this variable is 0, and in the memory of this other buffer if the
    /// variable is -1.
    Masked(Variable, BufferId),
}

impl Translator<'_, '_, '_> {
    /// Translates a counted loop.
    pub(super) fn for_(&mut self, stmt: &Stmt) -> Result<(), Problem> {
        let Stmt::For { index, extent, lanes, carries, body, .. } = stmt else { return Ok(()) };
        match extent {
            Extent::Constant(extent) => {
                let folds = if *lanes > 1 { folds(body) } else { Vec::new() };
                // If the machine lacks vector instructions, lanes gain no speed. But a loop that folds must still have
                // one partial value for each lane, since the bits of the result depend on their number.
                if *lanes > 1 && (self.vectors || !folds.is_empty()) {
                    return self.in_lanes(*index, *extent, *lanes, &folds, body);
                }
                let exchange = self.exchange(carries)?;
                self.range(*index, 0, *extent, body, &exchange)?;
                self.restore_buffers(&exchange);
                Ok(())
            }
            Extent::Scalar(extent) => {
                let extent = self.uniform(*extent)?;
                let exchange = self.exchange(carries)?;
                let some = self.b.ins().icmp_imm_s(IntCC::SignedGreaterThan, extent, 0);
                let join = self.begin_if(some);
                self.inside += 1;
                self.count(*index, 0, extent, 1, body, &exchange)?;
                self.inside -= 1;
                self.end_if(join);
                self.restore_buffers(&exchange);
                Ok(())
            }
        }
    }

    /// Translates a loop or a branch with the inner blocks `blocks`, by `translate`. The pointers to its buffers do not
    /// change, so they are loaded from the call record (the kernel's argument) before the loop and stay in registers.
    /// If the loop uses more buffers than there are registers for pointers, the pointers are loaded before inner loops
    /// with fewer buffers, or at each access. (Otherwise, Cranelift would spill all pointers, in a time quadratic in
    /// their number.)
    pub(super) fn with_hoisted_values(
        &mut self,
        blocks: &[&[Stmt]],
        translate: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut named: OrderedSet<BufferId> = OrderedSet::default();
        let (mut read, mut made) = (OrderedSet::default(), OrderedSet::default());
        let any_spilled = !self.cut.spilled.is_empty();
        for block in blocks {
            visit(block, &mut |s| {
                s.accesses(&mut |a| _ = named.insert(a.held.buffer));
                if any_spilled {
                    made.extend(s.defined());
                    s.args(&mut |a| {
                        if let Arg::Scalar(value) = a {
                            read.insert(value);
                        }
                    });
                }
            });
        }
        read.retain(|s| !made.contains(s) && self.spill_slot(*s).is_some());
        if read.is_empty() || read.len() > self.machine.held_values {
            return self.with_hoisted_pointers(named, translate);
        }
        // Values that are spilled to memory and used in every iteration are loaded once, before the loop.
        let mut loaded = Vec::new();
        for value in read {
            loaded.push((value, self.state.scalars[value].clone(), self.state.made[value]));
            let x = self.arg(Arg::Scalar(value))?;
            self.state.scalars[value] = Some(x);
            self.state.made[value] = self.state.clock;
        }
        let done = self.with_hoisted_pointers(named, translate);
        for (value, x, made) in loaded {
            self.state.scalars[value] = x;
            self.state.made[value] = made;
        }
        done
    }

    /// Like [`Self::with_hoisted_values`], for blocks that access the buffers `named`: loads their pointers before the
    /// loop.
    fn with_hoisted_pointers(
        &mut self,
        mut named: OrderedSet<BufferId>,
        translate: impl FnOnce(&mut Self) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for buffer in named.clone() {
            if let Some(Exchanged::Masked(_, other)) = self.exchanged.get(&buffer) {
                named.insert(*other);
            }
        }
        named.retain(|b| self.layout.pointer(self.p.buffers[*b].place).is_some());
        let many = named.len() > self.machine.held_pointers;
        if !many && !self.crowded {
            return translate(self);
        }
        let mut held = OrderedMap::default();
        if !many {
            held = named.into_iter().map(|b| (b, self.fixed(b, &mut 0))).collect();
        }
        let pointers = std::mem::replace(&mut self.pointers, held);
        let crowded = std::mem::replace(&mut self.crowded, many);
        let done = translate(self);
        (self.pointers, self.crowded) = (pointers, crowded);
        done
    }

    /// Translates a loop with lanes: first the full vectors, then the remaining iterations one by one. Each remaining
    /// iteration folds into the partial value of one lane.
    fn in_lanes(
        &mut self,
        index: IndexId,
        extent: usize,
        width: usize,
        folds: &[(VarId, Code)],
        body: &[Stmt],
    ) -> Result<(), Problem> {
        let full = extent - extent % width;
        let mut accumulators = Vec::new();
        self.lanes = Some((index, width));
        for (var, code) in folds {
            let dtype = self.p.vars[*var];
            let neutral = neutral(*code, dtype)
                .ok_or_else(|| Problem::internal(format!("no neutral element of {code:?}")))?;
            let outer = self.state.vars[*var].take();
            self.state.vars[*var] = Some(self.declare(*var));
            let neutral = Lanes::One(scalar::literal(self.b, neutral));
            self.set(*var, &neutral)?;
            accumulators.push((*var, *code, outer));
        }
        self.range(index, 0, full, body, &Exchange::NONE)?;
        let writes = |s: &Stmt, dtype: Dtype| {
            let mut found = false;
            s.accesses(&mut |a| {
                found |= a.write && self.p.buffers[a.held.buffer].ty.dtype == dtype
            });
            found
        };
        let short = extent > full
            && (planted(Fault::LaneTail) && body.iter().any(|s| writes(s, Dtype::F64))
                || planted(Fault::LaneTailNarrow) && body.iter().any(|s| writes(s, Dtype::F32)));
        let end = extent - usize::from(short);
        let mut partial: Vec<Registers> = Vec::new();
        for (var, ..) in &accumulators {
            partial.push(self.get(*var)?.registers().into());
        }
        self.lanes = None;
        if end > full {
            self.rest(index, (full, end), body, &accumulators, &mut partial)?;
        }
        for ((var, code, outer), lanes) in accumulators.into_iter().zip(partial) {
            let dtype = self.p.vars[var];
            self.lanes = Some((index, width));
            let all = self.emit().reduce(code, dtype, &lanes)?;
            self.lanes = None;
            self.state.vars[var] = outer;
            let Lanes::One(old) = self.get(var)? else {
                return Err(Problem::internal(format!("{var} is in lanes of two loops")));
            };
            let new = scalar::emit(self.b, self.functions, code, dtype, &[old, all])?;
            self.set(var, &Lanes::One(new))?;
        }
        Ok(())
    }

    /// Translates the remaining iterations of a loop with lanes (fewer than there are lanes), one by one. Each
    /// iteration loads the partial values of its lane from the stack, and stores them back.
    fn rest(
        &mut self,
        index: IndexId,
        (from, to): (usize, usize),
        body: &[Stmt],
        accumulators: &[(VarId, Code, Option<Binding>)],
        partial: &mut [Registers],
    ) -> Result<(), Problem> {
        let flags = MemFlagsData::new().with_notrap();
        let mut vars = Vec::new();
        for ((var, ..), registers) in accumulators.iter().zip(partial.iter()) {
            let bytes: u32 = registers.iter().map(|r| self.b.func.dfg.value_type(*r).bytes()).sum();
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 6);
            let slot = self.b.create_sized_stack_slot(data);
            let mut at = 0;
            let base = self.b.ins().stack_addr(types::I64, slot, 0);
            for r in registers {
                self.b.ins().store(flags, *r, base, at);
                at += self.b.func.dfg.value_type(*r).bytes() as i32;
            }
            self.state.vars[*var] = Some(self.declare(*var));
            vars.push((*var, slot));
        }
        let around = self.rest.replace(Rest { index, from, vars });
        self.range(index, from, to, body, &Exchange::NONE)?;
        let rest = std::mem::replace(&mut self.rest, around);
        for ((_, slot), registers) in rest.into_iter().flat_map(|r| r.vars).zip(partial) {
            let base = self.b.ins().stack_addr(types::I64, slot, 0);
            let mut at = 0;
            for r in registers {
                let ty = self.b.func.dfg.value_type(*r);
                *r = self.b.ins().load(ty, flags, base, at);
                at += ty.bytes() as i32;
            }
        }
        Ok(())
    }

    /// Translates a loop's body for one iteration, whose number is in the innermost counter.
    fn iteration(&mut self, index: IndexId, body: &[Stmt]) -> Result<(), Problem> {
        let at = self.loops.last().map(|c| c.at);
        let (Some(rest), Some(at)) = (self.rest.clone().filter(|r| r.index == index), at) else {
            return self.block(body);
        };
        let mut places = Vec::new();
        for (var, slot) in rest.vars {
            let ty = scalar::register(self.p.vars[var]);
            let base = self.b.ins().stack_addr(types::I64, slot, 0);
            let bytes = i64::from(ty.bytes());
            let place = match at {
                At::Constant(n) => {
                    let offset = (n - rest.from as i64) * bytes;
                    self.b.ins().iadd_imm_s(base, offset)
                }
                At::Value(at) => {
                    let lane = self.b.ins().iadd_imm_s(at, -(rest.from as i64));
                    let offset = self.b.ins().imul_imm_s(lane, bytes);
                    self.b.ins().iadd(base, offset)
                }
            };
            let flags = MemFlagsData::new().with_notrap();
            let old = self.b.ins().load(ty, flags, place, 0);
            self.set(var, &Lanes::One(old))?;
            places.push((var, place));
        }
        self.block(body)?;
        for (var, place) in places {
            let Lanes::One(new) = self.get(var)? else {
                return Err(Problem::internal(format!("{var} is still in lanes after its loop")));
            };
            self.b.ins().store(MemFlagsData::new().with_notrap(), new, place, 0);
        }
        Ok(())
    }

    /// Translates the iterations `from..to` of a loop. The step is the number of lanes if this is the loop with lanes,
    /// otherwise 1.
    fn range(
        &mut self,
        index: IndexId,
        from: usize,
        to: usize,
        body: &[Stmt],
        exchange: &Exchange,
    ) -> Result<(), Problem> {
        let step = match self.lanes {
            Some((i, width)) if i == index => width,
            _ => 1,
        };
        let times = (to - from) / step;
        let (iterations, statements) =
            (self.machine.unrolled_iterations, self.machine.unrolled_statements);
        if times <= 1 || (times <= iterations && times.saturating_mul(simple(body)) <= statements) {
            for i in 0..times {
                let at = At::Constant((from + i * step) as i64);
                self.loops.push(Counter { index, at, scaled: SmallVec::new() });
                self.iteration(index, body)?;
                self.swap_buffers(exchange);
                self.loops.pop();
            }
            return Ok(());
        }
        let to = self.b.ins().iconst(types::I64, to as i64);
        self.count(index, from, to, step, body, exchange)
    }

    /// Translates a loop of at least one iteration, which counts from `from` to before `to` by `step`.
    fn count(
        &mut self,
        index: IndexId,
        from: usize,
        to: Value,
        step: usize,
        body: &[Stmt],
        exchange: &Exchange,
    ) -> Result<(), Problem> {
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
        let hoisted = self.hoist(index, body, exchange)?;
        self.b.ins().jump(head, &first);
        self.b.switch_to_block(head);
        self.loops.push(Counter { index, at: At::Value(at), scaled: scaled.clone() });
        self.iteration(index, body)?;
        self.swap_buffers(exchange);
        self.loops.pop();
        self.hoisted.truncate(hoisted);
        let next = self.b.ins().iadd_imm_s(at, step as i64);
        let mut again: SmallVec<[BlockArg; 4]> = SmallVec::new();
        again.push(next.into());
        for (stride, value) in scaled {
            again.push(self.b.ins().iadd_imm_s(value, stride * step as i64).into());
        }
        let more = self.b.ins().icmp(IntCC::UnsignedLessThan, next, to);
        self.b.ins().brif(more, head, &again, exit, &[]);
        self.b.seal_block(head);
        begin(self.b, exit);
        Ok(())
    }

    /// Translates a `while` loop, which tests its condition before each iteration.
    pub(super) fn while_(
        &mut self,
        head: &[Stmt],
        condition: Arg,
        carries: &[Carry],
        body: &[Stmt],
    ) -> Result<(), Problem> {
        let exchange = self.exchange(carries)?;
        let [again, iteration, exit] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().jump(again, &[]);
        self.b.switch_to_block(again);
        self.inside += 1;
        self.block(head)?;
        let condition = self.uniform(condition)?;
        self.b.ins().brif(condition, iteration, &[], exit, &[]);
        begin(self.b, iteration);
        self.block(body)?;
        self.swap_buffers(&exchange);
        self.b.ins().jump(again, &[]);
        self.inside -= 1;
        self.b.seal_block(again);
        begin(self.b, exit);
        self.restore_buffers(&exchange);
        Ok(())
    }

    /// Declares the Cranelift variables for the buffers that a loop swaps in each iteration (*exchanged* buffers).
    fn exchange(&mut self, carries: &[Carry]) -> Result<Exchange, Problem> {
        let both = |c: &Carry| [c.input.buffer, c.output.buffer];
        let pairs: Vec<_> = carries.iter().map(both).filter(|[now, next]| now != next).collect();
        if pairs.len() > self.machine.held_addresses {
            let mask = self.b.declare_var(types::I64);
            let home = self.b.ins().iconst(types::I64, 0);
            self.b.def_var(mask, home);
            for [now, next] in &pairs {
                self.exchanges(*now, Exchanged::Masked(mask, *next))?;
                self.exchanges(*next, Exchanged::Masked(mask, *now))?;
            }
            return Ok(Exchange { pairs, state: ExchangeState::All(mask) });
        }
        let mut pointers = Vec::new();
        for pair in &pairs {
            let at = pair.map(|b| self.original_address(b));
            let places = at.map(|at| {
                let place = self.b.declare_var(types::I64);
                self.b.def_var(place, at);
                place
            });
            for (buffer, place) in pair.iter().zip(places) {
                self.exchanges(*buffer, Exchanged::At(place))?;
            }
            pointers.push((places, at[0]));
        }
        Ok(Exchange { pairs, state: ExchangeState::Pointers(pointers) })
    }

    fn exchanges(&mut self, buffer: BufferId, at: Exchanged) -> Result<(), Problem> {
        match self.exchanged.insert(buffer, at) {
            None => Ok(()),
            Some(_) => Err(Problem::internal(format!("{buffer} is exchanged twice"))),
        }
    }

    /// Returns the original address of a buffer: before any loop swaps it with another buffer.
    fn original_address(&mut self, buffer: BufferId) -> Value {
        let mut offset = 0;
        let pointer = self.fixed(buffer, &mut offset);
        self.b.ins().iadd_imm_s(pointer, offset)
    }

    /// Returns the current address of a buffer that a surrounding loop swaps with another buffer.
    pub(super) fn current_address(&mut self, buffer: BufferId, at: Exchanged) -> Value {
        let (mask, other) = match at {
            Exchanged::At(place) => return self.b.use_var(place),
            Exchanged::Masked(mask, other) => (mask, other),
        };
        let mask = self.b.use_var(mask);
        let home = self.original_address(buffer);
        let place = |b: BufferId| self.p.buffers[b].place;
        let moved = match (place(buffer), place(other)) {
            (Place::Workspace(from), Place::Workspace(to)) => {
                self.b.ins().band_imm_s(mask, to as i64 - from as i64)
            }
            _ => {
                let there = self.original_address(other);
                let between = self.b.ins().isub(there, home);
                self.b.ins().band(mask, between)
            }
        };
        self.b.ins().iadd(home, moved)
    }

    /// Swaps the pointers of the loop's pairs of buffers at the end of an iteration.
    fn swap_buffers(&mut self, exchange: &Exchange) {
        match &exchange.state {
            ExchangeState::Pointers(pointers) => {
                for (places, _) in pointers {
                    let [now, next] = places.map(|p| self.b.use_var(p));
                    self.b.def_var(places[0], next);
                    self.b.def_var(places[1], now);
                }
            }
            ExchangeState::All(mask) => {
                let old = self.b.use_var(*mask);
                let new = self.b.ins().bnot(old);
                self.b.def_var(*mask, new);
            }
        }
    }

    /// Ends a loop that swaps buffers: copies the contents of each buffer to the buffer's original memory, unless they
    /// are already there.
    fn restore_buffers(&mut self, exchange: &Exchange) {
        for buffer in exchange.pairs.iter().flatten() {
            self.exchanged.swap_remove(buffer);
        }
        let bytes = |n: &Self, [now, _]: &[BufferId; 2]| n.p.buffers[*now].ty.bytes();
        match &exchange.state {
            ExchangeState::Pointers(pointers) => {
                for (pair, (places, home)) in exchange.pairs.iter().zip(pointers) {
                    let from = self.b.use_var(places[0]);
                    let away = self.b.ins().icmp(IntCC::NotEqual, from, *home);
                    let join = self.begin_if(away);
                    self.copy(from, *home, bytes(self, pair));
                    self.end_if(join);
                }
            }
            ExchangeState::All(mask) => {
                let away = self.b.use_var(*mask);
                let join = self.begin_if(away);
                // The code emitted next is in a branch that does not dominate later code. While `inside` (the number of
                // branches around the code) is above 0, no address is recorded for reuse by later code.
                self.inside += 1;
                for pair in &exchange.pairs {
                    let [home, from] = pair.map(|b| self.original_address(b));
                    self.copy(from, home, bytes(self, pair));
                }
                self.inside -= 1;
                self.end_if(join);
            }
        }
    }

    /// Emits a copy of memory, in words of eight bytes and then in single bytes.
    fn copy(&mut self, from: Value, to: Value, bytes: usize) {
        for (start, end, ty) in [(0, bytes & !7, types::I64), (bytes & !7, bytes, types::I8)] {
            if start == end {
                continue;
            }
            let (head, exit) = (self.b.create_block(), self.b.create_block());
            let at = self.b.append_block_param(head, types::I64);
            let first = self.b.ins().iconst(types::I64, start as i64);
            self.b.ins().jump(head, &[first.into()]);
            self.b.switch_to_block(head);
            let (source, target) = (self.b.ins().iadd(from, at), self.b.ins().iadd(to, at));
            let flags = MemFlagsData::new().with_notrap();
            let word = self.b.ins().load(ty, flags, source, 0);
            self.b.ins().store(flags, word, target, 0);
            let next = self.b.ins().iadd_imm_s(at, i64::from(ty.bytes()));
            let more = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, next, end as i64);
            self.b.ins().brif(more, head, &[next.into()], exit, &[]);
            self.b.seal_block(head);
            begin(self.b, exit);
        }
    }

    /// Emits, before the loop, the body's loads of elements that are the same in every iteration. (Cranelift itself
    /// moves loads from inputs, which are never written.) Returns the length of `hoisted` before this call, to which
    /// the caller truncates it after the loop.
    fn hoist(
        &mut self,
        index: IndexId,
        body: &[Stmt],
        exchange: &Exchange,
    ) -> Result<usize, Problem> {
        let before = self.hoisted.len();
        let handed = exchange.pairs.iter().flatten().copied();
        let varies = VaryingValues::of(body).add_carried(handed);
        for stmt in body {
            let Stmt::Let { value, expr: Expr::Load { held, address, guard: None } } = stmt else {
                continue;
            };
            if self.hoisted.len() >= before + self.machine.held_values {
                break;
            }
            let input = matches!(self.p.buffers[held.buffer].place, Place::Input(_));
            let fixed = address.dynamic.is_none() && address.stride(index) == 0;
            if !input && fixed && varies.is_unchanged(self.p, held.buffer) {
                let x = self.load(held.buffer, address, None)?;
                self.define(*value, x);
                self.hoisted.push(*value);
            }
        }
        Ok(before)
    }

    /// Collects the strides in bytes, per iteration of loop `index`, that no addressing mode can scale (all but 1, 2, 4
    /// and 8).
    fn strides(&self, index: IndexId, body: &[Stmt], found: &mut SmallVec<[i64; 4]>) {
        visit(body, &mut |stmt| {
            stmt.accesses(&mut |access| {
                let size = self.p.buffers[access.held.buffer].ty.dtype.bytes() as i64;
                for (i, stride) in &access.address.terms {
                    let bytes = stride * size;
                    let other = *i == index && !matches!(bytes, 0 | 1 | 2 | 4 | 8);
                    if other && found.len() < self.machine.held_addresses && !found.contains(&bytes)
                    {
                        found.push(bytes);
                    }
                }
            });
        });
    }
}

/// Returns the neutral element of a fold's code, with which each lane's partial value starts.
fn neutral(code: Code, dtype: Dtype) -> Option<Literal> {
    let neutral = code.neutral(dtype);
    if planted(Fault::MinIdentity) && matches!(code, Code::Min) && dtype == Dtype::I32 {
        return neutral.map(|_| Literal::zero(dtype));
    }
    neutral
}

/// Returns the number of statements in the body of an innermost loop; for a body with loops, a number above all limits.
fn simple(body: &[Stmt]) -> usize {
    let alone = |s: &Stmt| s.blocks().is_empty() && !matches!(s, Stmt::Contract(_));
    if body.iter().all(alone) { body.len() } else { usize::MAX / 8 }
}
