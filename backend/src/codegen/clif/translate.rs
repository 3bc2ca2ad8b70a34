//! Translation of statements to Cranelift, one part of a kernel (the statements of one function) at a time.
//!
//! Each kind of statement has a method: loops in [`loops`](super::loops), loads and stores in
//! [`access`](super::access), variables in [`variables`](super::variables), calls in [`calls`](super::calls), and
//! branches and values in this file.

use super::loops::{Exchanged, Rest};
use super::partition::Parts;
use super::pieces::PieceFunction;
use super::scalar;
use super::spill::STATEMENTS_IN_REGISTER;
use super::symbols::Functions;
use super::variables::Binding;
use super::vector_value::{self, LaneBuilder, Lanes};
use crate::loop_ir::{
    Arg, BufferId, CursorId, Expr, IndexId, Kernel, KernelId, Parallelism, Program, ScalarId, Stmt,
    VarId,
};
use crate::machine::MachineModel;
use crate::runtime::abi::{self, Layout};
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_module::FuncId;
use smallvec::SmallVec;
use tapeloom_ir::{Dtype, OrderedMap, Problem};

/// Tables of values and variables that all parts (functions) of a kernel share, so that they are allocated once.
#[derive(Default)]
pub(super) struct State {
    pub(super) scalars: SecondaryMap<ScalarId, Option<Lanes>>,
    /// Per value: the number of statements that were translated up to its definition.
    pub(super) made: SecondaryMap<ScalarId, usize>,
    /// The number of statements translated so far.
    pub(super) clock: usize,
    pub(super) vars: SecondaryMap<VarId, Option<Binding>>,
    /// The functions of concurrent loops that are called, and whose bodies are still to be emitted.
    pub(super) pieces: Vec<PieceFunction>,
}

/// A loop whose body is being translated: its index, and counters derived from the index.
pub(super) struct Counter {
    pub(super) index: IndexId,
    /// The value of the loop's index (in the first lane).
    pub(super) at: At,
    /// Counters for strides that addressing modes cannot scale (not 1, 2, 4 or 8 bytes): the stride in bytes, and the
    /// counter's value.
    pub(super) scaled: SmallVec<[(i64, Value); 2]>,
}

/// The current value of a loop index.
#[derive(Clone, Copy)]
pub(super) enum At {
    Constant(i64),
    Value(Value),
}

/// A part of a kernel to translate (statements that become one function), with its context.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) machine: MachineModel,
    pub(super) program: &'a Program,
    pub(super) p: &'a Kernel,
    /// Whether each bool of the kernel's operands is the byte 0 or 1.
    pub(super) valid_bools: bool,
    /// The functions of the kernels that were translated before.
    pub(super) kernels: &'a PrimaryMap<KernelId, FuncId>,
    pub(super) cut: &'a Parts<'a>,
    pub(super) part: usize,
}

/// The translation of one part of a kernel to one Cranelift function.
pub(super) struct Translator<'a, 'f, 'm> {
    pub(super) machine: MachineModel,
    pub(super) program: &'a Program,
    pub(super) p: &'a Kernel,
    pub(super) valid_bools: bool,
    pub(super) kernels: &'a PrimaryMap<KernelId, FuncId>,
    pub(super) cut: &'a Parts<'a>,
    pub(super) part: usize,
    pub(super) state: &'a mut State,
    pub(super) b: &'a mut FunctionBuilder<'f>,
    pub(super) functions: &'a mut Functions<'m>,
    pub(super) layout: Layout,
    /// The pointer to the call record, the kernel's only argument: an array of pointers to operands and results.
    pub(super) record: Value,
    /// The pointer to the context of the call, which all kernels of the call share.
    pub(super) context: Value,
    /// The pointer to the kernel's workspace.
    pub(super) frame: Value,
    /// In the function of a concurrent loop: the private memory of the piece.
    pub(super) private: Option<Value>,
    /// The loops around the statement being translated, outermost first.
    pub(super) loops: Vec<Counter>,
    /// The number of branches and `while` loops around the statement being translated.
    pub(super) inside: usize,
    /// The values whose loads were emitted before the loop that contains them.
    pub(super) hoisted: Vec<ScalarId>,
    /// The loop with lanes that is being translated, and its number of lanes.
    pub(super) lanes: Option<(IndexId, usize)>,
    /// The remaining iterations of a loop with lanes (after the full vectors), while they are translated one by one.
    pub(super) rest: Option<Rest>,
    /// Whether this machine has the vector instructions that are emitted.
    pub(super) vectors: bool,
    /// The current values of the elements of promoted buffers (buffers that are not in memory), by buffer and element
    /// offset.
    pub(super) elements: OrderedMap<(BufferId, i64), Value>,
    /// The addresses of buffers that were computed outside of loops and branches, so that all later code may use them.
    pub(super) pointers: OrderedMap<BufferId, Value>,
    /// Whether the surrounding loop uses more buffers than `held_pointers`, so that each access loads its pointer.
    pub(super) crowded: bool,
    /// The buffers that a surrounding loop swaps with another buffer in each iteration (*exchanged*), with their
    /// current memory.
    pub(super) exchanged: OrderedMap<BufferId, Exchanged>,
    /// Per cursor of a tape: the variable that holds the address of the cursor's current record.
    pub(super) cursors: SecondaryMap<CursorId, Option<Variable>>,
}

impl<'a, 'f, 'm> Translator<'a, 'f, 'm> {
    pub(super) fn new(
        Subject { machine, program, p, valid_bools, kernels, cut, part }: Subject<'a>,
        state: &'a mut State,
        b: &'a mut FunctionBuilder<'f>,
        functions: &'a mut Functions<'m>,
        record: Value,
    ) -> Self {
        // A call record (the kernel's argument, an array of pointers) does not change during a call, so these loads
        // may be moved.
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let context = b.ins().load(types::I64, flags, record, abi::CONTEXT as i32);
        let frame = b.ins().load(types::I64, flags, record, abi::FRAME as i32);
        let vectors = functions.has_vectors();
        Translator {
            machine,
            program,
            p,
            valid_bools,
            kernels,
            cut,
            part,
            state,
            b,
            functions,
            layout: Layout::of(p),
            record,
            context,
            frame,
            private: None,
            loops: Vec::new(),
            inside: 0,
            hoisted: Vec::new(),
            lanes: None,
            rest: None,
            vectors,
            elements: OrderedMap::default(),
            pointers: OrderedMap::default(),
            crowded: false,
            exchanged: OrderedMap::default(),
            cursors: SecondaryMap::new(),
        }
    }

    /// Emits the function's final return, with status 0 (success).
    pub(super) fn finish(&mut self) {
        let done = self.b.ins().iconst(types::I32, 0);
        self.b.ins().return_(&[done]);
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<(), Problem> {
        body.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// Returns whether the code under construction is outside of loops and branches, so that its values dominate all
    /// later code.
    pub(super) fn top(&self) -> bool {
        self.loops.is_empty() && self.inside == 0
    }

    /// Returns an emitter of operations for the current number of lanes.
    pub(super) fn emit(&mut self) -> LaneBuilder<'_, 'f, 'm> {
        let width = self.width();
        LaneBuilder { b: self.b, functions: self.functions, width, vectors: self.vectors }
    }

    /// Returns the vector type of a dtype for the current number of lanes.
    pub(super) fn vector(&self, dtype: Dtype) -> Option<Type> {
        vector_value::vector(self.vectors, dtype, self.width())
    }

    pub(super) fn width(&self) -> usize {
        self.lanes.map_or(1, |(_, width)| width)
    }

    /// Translates one statement.
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Result<(), Problem> {
        self.state.clock += 1;
        match stmt {
            Stmt::Nest { body, .. } => self.block(body),
            Stmt::Contract(c) => self.contract(c),
            Stmt::For { parallelism: Parallelism::Concurrent, .. } => self.concurrent(stmt),
            Stmt::For { body, .. } => match self.simd_call(stmt)? {
                true => Ok(()),
                false => self.with_hoisted_values(&[body], |n| n.for_(stmt)),
            },
            Stmt::While { head, condition, carries, body, .. } => self
                .with_hoisted_values(&[head, body], |n| n.while_(head, *condition, carries, body)),
            Stmt::If { condition, then, otherwise, .. } => {
                self.with_hoisted_values(&[then, otherwise], |n| n.if_(*condition, then, otherwise))
            }
            Stmt::Call(c) => self.call(c),
            Stmt::Tape(t) => self.tape_stmt(t),
            Stmt::Limit(w) => self.limit(w),
            Stmt::Lap(timer) => self.lap(*timer),
            Stmt::CallExternal(a) => self.external(a),
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
                    Expr::Load { held, address, guard } => {
                        self.load(held.buffer, address, *guard)?
                    }
                };
                self.define(*value, x);
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
            Stmt::Store { held, address, value, guard } => {
                self.store(held.buffer, address, *value, *guard)
            }
        }
    }

    pub(super) fn define(&mut self, value: ScalarId, x: Lanes) {
        if let Some((part, offset)) = self.cut.spills.get(&value)
            && *part == self.part
            && self.top()
            && let Lanes::One(x) = x
        {
            let (base, offset) = self.spill_address(*offset);
            self.b.ins().store(MemFlagsData::trusted(), x, base, offset);
        }
        if let Some(offset) = self.cut.spilled.get(&value) {
            self.store_spill(*offset, &x);
            self.state.made[value] = self.state.clock;
        } else if self.cut.pinned.contains(&value) {
            self.store_spill(self.cut.pin, &x);
        }
        self.state.scalars[value] = Some(x);
    }

    /// Returns the workspace offset, in bytes, of a spilled value that is no longer assumed to be in a register.
    pub(super) fn spill_slot(&self, value: ScalarId) -> Option<usize> {
        let at = self.cut.spilled.get(&value).copied()?;
        (self.state.clock - self.state.made[value] > STATEMENTS_IN_REGISTER).then_some(at)
    }

    /// Stores all lanes of a spilled or pinned value at an offset of the workspace, in bytes.
    fn store_spill(&mut self, offset: usize, x: &Lanes) {
        let (base, mut offset) = self.spill_address(offset);
        for x in x.registers() {
            self.b.ins().store(MemFlagsData::new().with_notrap(), *x, base, offset);
            offset += self.b.func.dfg.value_type(*x).bytes() as i32;
        }
    }

    /// Loads all lanes of a spilled value from an offset of the workspace, in bytes.
    fn load_spill(&mut self, offset: usize, x: &mut Lanes) {
        let (base, mut offset) = self.spill_address(offset);
        for x in x.registers_mut() {
            let ty = self.b.func.dfg.value_type(*x);
            *x = self.b.ins().load(ty, MemFlagsData::new().with_notrap(), base, offset);
            offset += ty.bytes() as i32;
        }
    }

    fn if_(&mut self, condition: Arg, then: &[Stmt], otherwise: &[Stmt]) -> Result<(), Problem> {
        let condition = self.uniform(condition)?;
        let [yes, no, join] = [(); 3].map(|()| self.b.create_block());
        self.b.ins().brif(condition, yes, &[], no, &[]);
        self.inside += 1;
        for (block, body) in [(yes, then), (no, otherwise)] {
            begin(self.b, block);
            self.block(body)?;
            self.b.ins().jump(join, &[]);
        }
        self.inside -= 1;
        begin(self.b, join);
        Ok(())
    }

    pub(super) fn arg(&mut self, arg: Arg) -> Result<Lanes, Problem> {
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
                    let (base, offset) = self.spill_address(*offset);
                    let ty = scalar::register(self.p.scalars[s]);
                    let flags = MemFlagsData::trusted();
                    return Ok(Lanes::One(self.b.ins().load(ty, flags, base, offset)));
                }
                let value = self.state.scalars[s].clone();
                let mut value =
                    value.ok_or_else(|| Problem::internal(format!("{s} is not defined")))?;
                if let Some(offset) = self.spill_slot(s) {
                    self.load_spill(offset, &mut value);
                }
                Ok(value)
            }
        }
    }

    /// Returns the value of an operand that is the same in every lane.
    pub(super) fn uniform(&mut self, arg: Arg) -> Result<Value, Problem> {
        match self.arg(arg)? {
            Lanes::One(value) => Ok(value),
            Lanes::Vector(_) | Lanes::Mask(_) | Lanes::Each(_) => {
                Err(Problem::internal(format!("{arg} differs by lane")))
            }
        }
    }

    /// Returns the address (pointer and immediate offset) of a spilled value at `offset` bytes of the whole program's
    /// workspace. In a piece (an iteration of a concurrent loop), `offset` counts from the start of its private
    /// memory.
    pub(super) fn spill_address(&mut self, offset: usize) -> (Value, i32) {
        let workspace = match self.private {
            Some(private) => private,
            None => self.of_context(abi::WORKSPACE),
        };
        self.place(workspace, offset as i64)
    }

    /// Loads the word at byte `at` of the call's context. The word does not change during a call, so the load may be
    /// moved.
    pub(super) fn of_context(&mut self, at: usize) -> Value {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        self.b.ins().load(types::I64, flags, self.context, at as i32)
    }
}

/// Continues the code in a block whose predecessors have all been emitted.
pub(super) fn begin(b: &mut FunctionBuilder<'_>, block: Block) {
    b.switch_to_block(block);
    b.seal_block(block);
}

/// Emits a call, and a return of the callee's status if that is not 0 (success).
pub(super) fn call(b: &mut FunctionBuilder<'_>, function: FuncRef, args: &[Value]) {
    let call = b.ins().call(function, args);
    if let [status] = *b.inst_results(call) {
        return_unless_zero(b, status);
    }
}

/// Emits a return of `status` if it is not 0 (success).
fn return_unless_zero(b: &mut FunctionBuilder<'_>, status: Value) {
    let (bad, good) = (b.create_block(), b.create_block());
    b.set_cold_block(bad);
    b.ins().brif(status, bad, &[], good, &[]);
    begin(b, bad);
    b.ins().return_(&[status]);
    begin(b, good);
}
