//! The interpreter of loop programs, which defines their meaning.
//!
//! It executes one statement after the other and checks every access, so it is slow. Code generators are tested
//! against it, and an [`Observer`] receives every operation of a run. The workspace is filled with a byte pattern at
//! the start, so that a read before the first write changes a result; [`shadow`] reports such a read as an error.

use super::lane_accumulators::LaneAccumulators;
use super::memory::{Memory, Pointer, filled};
use super::observer::{Marked, MemoryAccess, NoObserver, Observer, Site};
use super::versions::Shadow;
use crate::loop_ir::loop_counters::LoopLimits;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Call, CallExternal, Carry, Contract, CursorId,
    CursorTarget, Expr, Extent, IndexId, Kernel, LimitStmt, Matrix, Parallelism, Place, Program,
    ScalarId, Stmt, Sums, TapeId, TapeStmt, VarId, View, combine, opened,
};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use tapeloom_ir::{ArrayType, Code, Dtype, Kind, Limits, Literal, Problem, Tensor};

/// Runs a program on concrete arguments in the interpreter, and returns its results.
///
/// # Errors
/// [`Kind::Verify`] if the program breaks an invariant, [`Kind::Arguments`] if arguments do not
/// fit the inputs, [`Kind::Internal`] if an access is out of bounds, [`Kind::TooLarge`] if there
/// is no memory for results or workspace.
pub fn eval(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    observed(program, args, false, &Limits::default(), &mut NoObserver)
}

/// Runs a program as [`eval`] does, and checks every load: the load must find an element of the version that it
/// names, which no other version has overwritten. See [`crate::loop_ir::Version`].
///
/// ```
/// use tapeloom_backend::loop_ir;
/// use tapeloom_ir::Kind;
/// let text = "program @late {
///   buffer b0: f64[2] output 0
///   version b0.1 continues b0
///   buffer b1: f64[] output 1
///   nest {
///     store b0[0], 1.0
///     store b0[1], 2.0
///     store b0.1[0], 3.0
///     %0: f64 = load b0[1]
///     store b1[0], %0
///   }
/// }";
/// let program = loop_ir::parse(text, &|_| None)?;
/// assert!(loop_ir::eval(&program, &[]).is_ok());
/// let problem = loop_ir::shadow(&program, &[]).map(|_| ()).unwrap_err();
/// assert_eq!(problem.kind, Kind::Internal);
/// assert!(problem.message.contains("b0[1] is read, but b0.1 has taken it over"));
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
///
/// # Errors
/// As [`eval`]; also [`Kind::Internal`], which names the version that a load expects and the version that it finds.
pub fn shadow(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    shadow_within(program, args, &Limits::default())
}

/// Runs a program as [`shadow`] does, within limits of iterations and with a possible cancellation.
///
/// # Errors
/// As [`shadow`]; also [`Kind::Limit`] if a limit is reached, and [`Kind::Cancelled`].
pub(crate) fn shadow_within(
    program: &Program,
    args: &[Tensor],
    limits: &Limits,
) -> Result<Vec<Tensor>, Problem> {
    observed(program, args, true, limits, &mut NoObserver)
}

/// Runs a program, and reports every operation to an observer. If `shadow` is true, also checks every load as the
/// function [`shadow`] does.
pub(crate) fn observed<'a, O: Observer<'a>>(
    program: &'a Program,
    args: &'a [Tensor],
    shadow: bool,
    limits: &Limits,
    observer: &mut O,
) -> Result<Vec<Tensor>, Problem> {
    crate::loop_ir::check(program)?;
    let entry = &program.entry;
    let mut memory = Memory::new(filled(0xa5, entry.workspace)?);
    let address = observer.workspace(entry.workspace + entry.private);
    let workspace = Pointer { address, ..Pointer::default() };
    let private = memory.add(filled(0xa5, entry.private)?);
    let private = Pointer { address: workspace.at(entry.workspace).address, ..private };
    let mut places = SecondaryMap::new();
    let argument = |n: usize, id: BufferId, ty: &ArrayType| match args.get(n) {
        Some(x) if x.ty() == ty => Ok(x.bytes()),
        Some(x) => {
            let message = format!("input {n} ({id}) must be {ty}, got {}", x.ty());
            Err(Problem::new(Kind::Arguments, message, ""))
        }
        None => Err(Problem::new(Kind::Arguments, format!("input {n} ({id}) is missing"), "")),
    };
    for (id, b) in &entry.buffers {
        places[id] = match b.place {
            Place::Workspace(offset) => workspace.at(offset),
            Place::Private(offset) => private.at(offset),
            Place::Output(_) => memory.add(filled(0, b.ty.bytes())?),
            Place::Donated { input, .. } => {
                let mut bytes = filled(0, b.ty.bytes())?;
                bytes.copy_from_slice(argument(input, id, &b.ty)?);
                memory.add(bytes)
            }
            // A buffer in a record of a dynamic tape gets its address when its cursor moves. No statement accesses an
            // unplaced buffer.
            Place::Record { .. } | Place::Unplaced => Pointer::default(),
            Place::Input(n) => memory.add_read_only(argument(n, id, &b.ty)?),
        };
        if let Some(address) = observer.place(id, b) {
            places[id].address = address;
        }
    }
    let records = program.tapes.keys().map(|_| (memory.add(Vec::new()).region, 0));
    let tapes: PrimaryMap<TapeId, (usize, usize)> = records.collect();
    let loop_limits = LoopLimits::of(&program.limited, limits);
    let shadow = if shadow { Some(Shadow::of(&memory)?) } else { None };
    let mut interpreter =
        Interpreter { program, memory, shadow, tapes, loop_limits, workspace, private, observer };
    interpreter.run(entry, places.clone(), 0)?;
    let result = |(id, ty)| {
        let mut result = Tensor::zeros_of(ty)?;
        for i in 0..ty.shape.elements() {
            result.set_literal(i, interpreter.memory.read(places[id], ty.dtype, i))?;
        }
        Ok(result)
    };
    entry.outputs().into_iter().map(result).collect()
}

struct Interpreter<'a, 'o, O> {
    program: &'a Program,
    memory: Memory<'a>,
    shadow: Option<Shadow<'a>>,
    /// For each dynamic tape: the index of its memory region, and the number of its records.
    tapes: PrimaryMap<TapeId, (usize, usize)>,
    loop_limits: LoopLimits,
    /// The address of the first byte of the workspace.
    workspace: Pointer,
    /// The address of the first byte of the current iteration's private memory.
    private: Pointer,
    observer: &'o mut O,
}

/// The observer's marks (such as the times of availability) of the operands of an operation.
type Marks<M> = SmallVec<[M; 4]>;

/// The state of one run of a kernel.
struct Frame<'a, M: Copy + Default> {
    k: &'a Kernel,
    /// The current address of each buffer.
    places: SecondaryMap<BufferId, Pointer>,
    /// The offset in bytes of the kernel's workspace in the program's workspace.
    workspace: usize,
    scalars: SecondaryMap<ScalarId, Marked<M>>,
    vars: SecondaryMap<VarId, Marked<M>>,
    indices: SecondaryMap<IndexId, (i64, M)>,
}

impl<'a, O: Observer<'a>> Interpreter<'a, '_, O> {
    fn run(
        &mut self,
        k: &'a Kernel,
        places: SecondaryMap<BufferId, Pointer>,
        workspace: usize,
    ) -> Result<(), Problem> {
        if let Some(shadow) = &mut self.shadow {
            shadow.enter(k);
            for (id, b) in k.buffers.iter().filter(|(_, b)| b.zeroed) {
                shadow.zeroed(id, places[id], b.ty.bytes());
            }
        }
        let mut frame = Frame {
            k,
            places,
            workspace,
            scalars: SecondaryMap::with_default((Literal::bool(false), O::Mark::default())),
            vars: SecondaryMap::with_default((Literal::bool(false), O::Mark::default())),
            indices: SecondaryMap::with_default((0, O::Mark::default())),
        };
        let outermost = std::ptr::eq(k, &raw const self.program.entry);
        for stmt in &k.body {
            if outermost {
                self.observer.step()?;
            }
            self.stmt(&mut frame, stmt)?;
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.leave();
        }
        Ok(())
    }

    fn block(&mut self, f: &mut Frame<'a, O::Mark>, body: &'a [Stmt]) -> Result<(), Problem> {
        body.iter().try_for_each(|stmt| self.stmt(f, stmt))
    }

    fn stmt(&mut self, f: &mut Frame<'a, O::Mark>, stmt: &'a Stmt) -> Result<(), Problem> {
        match stmt {
            Stmt::Nest { body, .. } => self.block(f, body)?,
            Stmt::Contract(c) => self.contract(f, c)?,
            Stmt::Call(c) => self.call(f, c)?,
            Stmt::Tape(t) => self.tape_stmt(f, t)?,
            Stmt::Limit(w) => self.limit(f, w)?,
            // A timer only measures machine code, so the interpreter ignores it.
            Stmt::Lap(_) => {}
            Stmt::CallExternal(c) => self.external(f, c)?,
            Stmt::If { condition, then, otherwise, .. } => {
                let (which, mark) = f.arg(*condition);
                self.observer.branch(&[mark])?;
                self.block(f, if which.bits != 0 { then } else { otherwise })?;
            }
            Stmt::For { index, extent, parallelism, lanes, carries, body, .. } => {
                let extent = match extent {
                    Extent::Constant(n) => i64::try_from(*n).unwrap_or(i64::MAX),
                    Extent::Scalar(a) => {
                        let (n, mark) = f.arg(*a);
                        self.observer.branch(&[mark])?;
                        n.bits as i64
                    }
                };
                let home = f.initial_addresses(carries);
                self.begin_loop(*parallelism != Parallelism::Serial);
                let mut accumulators = LaneAccumulators::of(&f.k.vars, body, *lanes, extent);
                let (site, mut count) = (Site::Index(index.as_u32()), O::Mark::default());
                self.observer.begin();
                for i in 0..extent {
                    if *parallelism == Parallelism::Concurrent {
                        self.clear_private(f.k)?;
                    }
                    f.indices[*index] = (i, count);
                    accumulators.swap(i, &mut f.vars);
                    self.iteration(f, carries, body)?;
                    accumulators.swap(i, &mut f.vars);
                    let fold = |var: VarId, code: Code, x: Marked<O::Mark>, y: Marked<O::Mark>| {
                        self.code(Site::Var(var.as_u32()), code, &[x, y])
                    };
                    accumulators.fold_into_variables(i, &mut f.vars, fold)?;
                    count = self.observer.iteration(site, count)?;
                }
                self.end_loop(f, carries, &home)?;
            }
            Stmt::While { head, condition, carries, body, .. } => {
                let home = f.initial_addresses(carries);
                self.begin_loop(false);
                self.observer.begin();
                self.block(f, head)?;
                loop {
                    let (again, mark) = f.arg(*condition);
                    self.observer.branch(&[mark])?;
                    if again.bits == 0 {
                        break;
                    }
                    self.iteration(f, carries, body)?;
                    self.block(f, head)?;
                }
                self.end_loop(f, carries, &home)?;
            }
            Stmt::Let { value, expr } => {
                f.scalars[*value] = match expr {
                    Expr::Code(code, args) => {
                        let args: SmallVec<[_; 4]> = args.iter().map(|a| f.arg(*a)).collect();
                        self.code(Site::Scalar(value.as_u32()), *code, &args)?
                    }
                    Expr::Load { held, address, guard } => {
                        let (holds, mut marks) = f.guarded(*guard);
                        let address = f.address(address, &mut marks);
                        if holds {
                            self.read(f, Some(*value), *held, address, &marks)?
                        } else {
                            let mark = marks.first().copied().unwrap_or_default();
                            (Literal::zero(f.k.buffers[held.buffer].ty.dtype), mark)
                        }
                    }
                };
            }
            Stmt::Var { var, init: value } | Stmt::Set { var, value } => {
                f.vars[*var] = f.arg(*value);
            }
            Stmt::Fold { var, code, value } => {
                let args = [f.vars[*var], f.arg(*value)];
                f.vars[*var] = self.code(Site::Var(var.as_u32()), *code, &args)?;
            }
            Stmt::Store { held, address, value, guard } => {
                let (holds, mut marks) = f.guarded(*guard);
                if holds {
                    let (value, mark) = f.arg(*value);
                    marks.push(mark);
                    let address = f.address(address, &mut marks);
                    self.write(f, *held, address, value, &marks)?;
                }
            }
        }
        Ok(())
    }

    /// Computes a scalar code on the values of its operands, and reports the operation to the observer.
    fn code(
        &mut self,
        site: Site,
        code: Code,
        args: &[Marked<O::Mark>],
    ) -> Result<Marked<O::Mark>, Problem> {
        let (values, marks): (SmallVec<[Literal; 4]>, Marks<O::Mark>) =
            args.iter().copied().unzip();
        // Take the dtype of the last operand: the first operand of a select is a bool.
        let dtype = values.last().map_or(Dtype::I64, |x| x.dtype);
        Ok((code.eval(&values), self.observer.code(site, code, dtype, &marks)?))
    }

    fn tape_stmt(&mut self, f: &mut Frame<'a, O::Mark>, taping: &TapeStmt) -> Result<(), Problem> {
        match taping {
            TapeStmt::MoveCursor { cursor, to, index } => {
                let (index, mark) = f.arg(*index);
                let pointer = match to {
                    CursorTarget::Tape(tape) => {
                        self.observer.branch(&[mark])?;
                        self.grown(*tape, index.bits)?
                    }
                    CursorTarget::Handle(word) => {
                        let (word, which) = f.arg(*word);
                        self.observer.branch(&[mark, which])?;
                        self.found(f.k, *cursor, word, index.bits)?
                    }
                };
                for (id, b) in &f.k.buffers {
                    if let Place::Record { cursor: of, offset } = b.place
                        && of == *cursor
                    {
                        f.places[id] = pointer.at(offset);
                    }
                }
            }
            TapeStmt::Length { value, tape } => {
                let length = Literal::i64(self.tapes[*tape].1 as i64);
                f.scalars[*value] = (length, O::Mark::default());
            }
            TapeStmt::Cut { tape, to } => {
                let of = &mut self.tapes[*tape].1;
                *of = usize::try_from(f.arg(*to).0.bits).map_or(*of, |to| to.min(*of));
            }
        }
        Ok(())
    }

    fn limit(&mut self, f: &Frame<'a, O::Mark>, limit: &LimitStmt) -> Result<(), Problem> {
        match limit {
            LimitStmt::Enter { limit, trip } => {
                let trip = trip.and_then(|n| u64::try_from(f.arg(n).0.bits as i64).ok());
                self.loop_limits.enter(*limit, trip)
            }
            LimitStmt::Count(limit) => self.loop_limits.count(*limit),
        }
    }

    /// Returns the address of a record that is to be written. If the record does not exist, grows the tape to hold
    /// it.
    fn grown(&mut self, tape: TapeId, index: u64) -> Result<Pointer, Problem> {
        let (bytes, (region, length)) = (self.program.tapes[tape].record, self.tapes[tape]);
        let index = usize::try_from(index).ok().filter(|i| *i < usize::MAX);
        let end = index.and_then(|i| (i + 1).checked_mul(bytes));
        let (Some(index), Some(end)) = (index, end) else {
            return Err(crate::no_memory("the records of a loop", usize::MAX));
        };
        self.memory.grow(region, end)?;
        self.tapes[tape].1 = length.max(index + 1);
        if let Some(shadow) = &mut self.shadow {
            // The shadow memory notes which value each byte holds. Clear it for all new records, including those that
            // were skipped before `index`: a record holds no value until it is written.
            let byte = length.min(index) * bytes;
            shadow.clear(Pointer { region, byte, address: 0 }, end - byte)?;
        }
        let address = self.observer.record(self.program, tape, index);
        Ok(Pointer { region, byte: index * bytes, address })
    }

    /// Returns the address of a record that is to be read: record `index` of the tape that the handle `word` names.
    /// Returns an error if the record does not exist.
    fn found(
        &mut self,
        k: &Kernel,
        cursor: CursorId,
        word: Literal,
        index: u64,
    ) -> Result<Pointer, Problem> {
        let (tape, field) = opened(word.bits as i64);
        let (need, aligned) = k.needs(cursor);
        let Some((id, (region, length))) = tape.and_then(|id| Some((id, *self.tapes.get(id)?)))
        else {
            return Err(Problem::internal("a tape is read that does not exist"));
        };
        let (record, field) = (self.program.tapes[id].record, field & !(aligned - 1));
        if index >= length as u64 || field + need > record {
            return Err(Problem::internal(format!(
                "{need} bytes at {field} of record {index} of {id}, which has {length} of {record}"
            )));
        }
        let (index, address) =
            (index as usize, self.observer.record(self.program, id, index as usize));
        Ok(Pointer { region, byte: index * record, address }.at(field))
    }

    fn begin_loop(&mut self, independent: bool) {
        if let Some(shadow) = &mut self.shadow {
            shadow.begin_loop(independent);
        }
    }

    /// Marks the private memory as undefined, when an iteration of a concurrent loop begins.
    fn clear_private(&mut self, k: &Kernel) -> Result<(), Problem> {
        match &mut self.shadow {
            Some(shadow) => shadow.clear(self.private, k.private),
            None => Ok(()),
        }
    }

    fn iteration(
        &mut self,
        f: &mut Frame<'a, O::Mark>,
        carries: &[Carry],
        body: &'a [Stmt],
    ) -> Result<(), Problem> {
        if let Some(shadow) = &mut self.shadow {
            shadow.begin_iteration();
        }
        self.block(f, body)?;
        for Carry { input, output } in carries {
            let (a, b) = (f.places[input.buffer], f.places[output.buffer]);
            (f.places[input.buffer], f.places[output.buffer]) = (b, a);
            if let Some(shadow) = &mut self.shadow {
                let bytes = f.k.buffers[input.buffer].ty.bytes();
                shadow.carry_over(
                    *input,
                    *output,
                    f.places[input.buffer],
                    f.places[output.buffer],
                    bytes,
                );
            }
        }
        Ok(())
    }

    /// At the end of a loop, copies the arrays of carries with two buffers back to the memory of their input buffer.
    fn end_loop(
        &mut self,
        f: &mut Frame<'a, O::Mark>,
        carries: &[Carry],
        homes: &[Pointer],
    ) -> Result<(), Problem> {
        for (Carry { input, output }, home) in carries.iter().zip(homes) {
            let (now, next) = (input.buffer, output.buffer);
            let (from, bytes) = (f.places[now], f.k.buffers[now].ty.bytes());
            if from != *home {
                self.memory.copy(from, *home, bytes);
                let dtype = f.k.buffers[now].ty.dtype;
                for at in (0..bytes).step_by(dtype.bytes()) {
                    let bits = self.memory.read(from.at(at), dtype, 0).bits;
                    let touch = |pointer: Pointer, write| {
                        let address = pointer.at(at).address;
                        MemoryAccess { held: *input, value: None, address, write, bits }
                    };
                    let read = self.observer.touch(touch(from, false), &[])?;
                    self.observer.touch(touch(*home, true), &[read])?;
                }
                (f.places[now], f.places[next]) = (*home, from);
            }
            if now != next
                && let Some(shadow) = &mut self.shadow
            {
                shadow.copy_home(from, f.places[now], f.places[next], bytes);
            }
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.end_loop();
        }
        Ok(())
    }

    /// Checks that `count` elements, beginning with the element `element`, lie in the buffer. Returns the index of
    /// the first of them.
    fn position(
        f: &Frame<'_, O::Mark>,
        buffer: BufferId,
        element: i64,
        count: usize,
    ) -> Result<usize, Problem> {
        let elements = f.k.buffers[buffer].ty.shape.elements();
        let first = usize::try_from(element).ok();
        let fits = |i: &usize| i.checked_add(count).is_some_and(|end| end <= elements);
        first.filter(fits).ok_or_else(|| {
            Problem::internal(format!("element {element} of {buffer} with {elements} elements"))
        })
    }

    fn read(
        &mut self,
        f: &Frame<'_, O::Mark>,
        value: Option<ScalarId>,
        held: BufferVersion,
        element: i64,
        marks: &[O::Mark],
    ) -> Result<Marked<O::Mark>, Problem> {
        let i = Self::position(f, held.buffer, element, 1)?;
        let (pointer, dtype) = (f.places[held.buffer], f.k.buffers[held.buffer].ty.dtype);
        if let Some(shadow) = &mut self.shadow {
            shadow.read(held, pointer, i)?;
        }
        let address = pointer.at(i * dtype.bytes()).address;
        let x = self.memory.read(pointer, dtype, i);
        let touch = MemoryAccess { held, value, address, write: false, bits: x.bits };
        Ok((x, self.observer.touch(touch, marks)?))
    }

    fn write(
        &mut self,
        f: &Frame<'_, O::Mark>,
        held: BufferVersion,
        element: i64,
        x: Literal,
        marks: &[O::Mark],
    ) -> Result<(), Problem> {
        let i = Self::position(f, held.buffer, element, 1)?;
        let pointer = f.places[held.buffer];
        if let Some(shadow) = &mut self.shadow {
            shadow.write(held, pointer, i)?;
        }
        let address = pointer.at(i * x.dtype.bytes()).address;
        let touch = MemoryAccess { held, value: None, address, write: true, bits: x.bits };
        self.observer.touch(touch, marks)?;
        self.memory.write(pointer, i, x)
    }

    fn call(&mut self, f: &mut Frame<'a, O::Mark>, call: &Call) -> Result<(), Problem> {
        let k = &self.program.callees[call.callee];
        let mut marks = Marks::<O::Mark>::new();
        let mut pointer = |v: &View| -> Result<(usize, Pointer), Problem> {
            let first = Self::position(f, v.held.buffer, f.address(&v.at, &mut marks), v.elements)?;
            let size = f.k.buffers[v.held.buffer].ty.dtype.bytes();
            Ok((first, f.places[v.held.buffer].at(first * size)))
        };
        let operands: Vec<_> = call.operands.iter().map(&mut pointer).collect::<Result<_, _>>()?;
        let outputs: Vec<_> = call.outputs.iter().map(&mut pointer).collect::<Result<_, _>>()?;
        // The call must wait until the addresses of its operands and outputs are computed. Report this to the observer
        // as a branch, which waits for its condition in the same way.
        self.observer.branch(&marks)?;
        if let Some(shadow) = &mut self.shadow {
            for (v, (first, _)) in call.operands.iter().zip(&operands) {
                for i in *first..first + v.elements {
                    shadow.read(v.held, f.places[v.held.buffer], i)?;
                }
            }
        }
        let workspace = f.workspace + call.frame;
        let mut places = SecondaryMap::new();
        for (id, b) in &k.buffers {
            places[id] = match b.place {
                Place::Input(n) => operands[n].1,
                Place::Output(n) | Place::Donated { output: n, .. } => outputs[n].1,
                Place::Workspace(offset) => self.workspace.at(workspace + offset),
                Place::Private(_) | Place::Record { .. } | Place::Unplaced => Pointer::default(),
            };
        }
        let began = self.shadow.as_ref().map_or(0, Shadow::now);
        self.observer.enter(self.program, call);
        tapeloom_ir::deeper(|| self.run(k, places, workspace))?;
        self.observer.leave();
        if let Some(shadow) = &mut self.shadow {
            for (v, (first, _)) in call.outputs.iter().zip(&outputs) {
                for i in *first..first + v.elements {
                    shadow.adopt_results(v.held, f.places[v.held.buffer], i, began)?;
                }
            }
        }
        Ok(())
    }

    fn external(&mut self, f: &Frame<'_, O::Mark>, c: &CallExternal) -> Result<(), Problem> {
        let (mut operands, mut all) = (Vec::with_capacity(c.operands.len()), Vec::new());
        for (v, ty) in c.operands.iter().zip(&c.signature.operands) {
            let mut marks = Marks::<O::Mark>::new();
            let (first, mut x) = (f.address(&v.at, &mut marks), Tensor::zeros_of(ty)?);
            for i in 0..v.elements {
                let (y, mark) = self.read(f, None, v.held, first + i as i64, &marks)?;
                x.set_literal(i, y)?;
                all.push(mark);
            }
            operands.push(x);
        }
        // Report the operands as a branch: an external function runs outside the program, after all its operands have
        // been computed, and takes no time.
        self.observer.branch(&all)?;
        let results = self.observer.external(&c.signature, &operands)?;
        // The scratch memory, the last result of a routine, is missing in `results`. No statement reads the scratch
        // memory, so it need not be written.
        for (v, y) in c.outputs.iter().zip(results) {
            let mut marks = Marks::<O::Mark>::new();
            let first = f.address(&v.at, &mut marks);
            for (i, y) in y.literals().enumerate() {
                self.write(f, v.held, first + i as i64, y, &marks)?;
            }
        }
        Ok(())
    }

    /// Computes `out[m, n] = sum_k lhs[m, k] rhs[k, n]`: the terms are summed in lanes, from 0, and the sum is added
    /// to the old value of `out` if the contraction accumulates. Where the matrix library chooses the order, terms
    /// are summed in the order of k.
    fn contract(&mut self, f: &Frame<'_, O::Mark>, c: &Contract) -> Result<(), Problem> {
        let lanes = match c.sums {
            Sums::Library => 1,
            Sums::Lanes(lanes) => lanes,
        };
        let count: usize = c.batch.iter().map(|b| b.0).product();
        let site = |n| Site::Contract(c.out.held.buffer.as_u32(), n);
        let mut marks = Marks::<O::Mark>::new();
        let firsts = [&c.lhs, &c.rhs, &c.out].map(|m| f.address(&m.at, &mut marks));
        let element = |m: &Matrix, start: i64, row: usize, column: usize| {
            start + row as i64 * m.row + column as i64 * m.column
        };
        for flat in 0..count {
            let (mut rest, mut at, mut accumulate) = (flat as i64, firsts, c.accumulate);
            for (extent, lhs, rhs, out) in c.batch.iter().rev() {
                let i = rest % *extent as i64;
                rest /= *extent as i64;
                at = [at[0] + i * lhs, at[1] + i * rhs, at[2] + i * out];
                accumulate |= i != 0 && *out == 0;
            }
            for row in 0..c.m {
                for column in 0..c.n {
                    let zero = (Literal::zero(c.dtype), O::Mark::default());
                    let mut sums: SmallVec<[_; 1]> = SmallVec::from_elem(zero, lanes);
                    let mut term = O::Mark::default();
                    for k in 0..c.k {
                        let (lhs, rhs) = (&c.lhs, &c.rhs);
                        let x = element(lhs, at[0], row, k);
                        let x = self.read(f, None, lhs.held, x, &marks)?;
                        let y = element(rhs, at[1], k, column);
                        let y = self.read(f, None, rhs.held, y, &marks)?;
                        let product = self.code(site(0), Code::Mul, &[x, y])?;
                        sums[k % lanes] =
                            self.code(site(1), Code::Add, &[sums[k % lanes], product])?;
                        term = self.observer.iteration(site(2), term)?;
                    }
                    let add = |x, y| self.code(site(1), Code::Add, &[x, y]);
                    let mut sum = combine(&mut sums, add)?.unwrap_or(zero);
                    let to = element(&c.out, at[2], row, column);
                    if accumulate {
                        let old = self.read(f, None, c.out.held, to, &marks)?;
                        sum = if c.k == 0 {
                            old
                        } else {
                            self.code(site(1), Code::Add, &[old, sum])?
                        };
                    }
                    let marks: Marks<O::Mark> = marks.iter().copied().chain([sum.1]).collect();
                    self.write(f, c.out.held, to, sum.0, &marks)?;
                }
            }
        }
        Ok(())
    }
}

impl<M: Copy + Default> Frame<'_, M> {
    /// Returns the addresses of the carried input buffers when the loop begins. At the end of the loop, the arrays are
    /// copied to these addresses.
    fn initial_addresses(&self, carries: &[Carry]) -> Vec<Pointer> {
        carries.iter().map(|c| self.places[c.input.buffer]).collect()
    }

    /// Returns whether a guard is true (also if there is no guard), and the guard's mark.
    fn guarded(&self, guard: Option<Arg>) -> (bool, Marks<M>) {
        let guard = guard.map(|g| self.arg(g));
        (guard.is_none_or(|g| g.0.bits != 0), guard.iter().map(|g| g.1).collect())
    }

    fn arg(&self, arg: Arg) -> Marked<M> {
        match arg {
            Arg::Scalar(s) => self.scalars[s],
            Arg::Var(v) => self.vars[v],
            Arg::Index(i) => (Literal::i64(self.indices[i].0), self.indices[i].1),
            Arg::Literal(l) => (l, M::default()),
        }
    }

    /// Returns the element index that an address denotes. Adds the observer's marks of the indices and scalars in the
    /// address to `marks`.
    fn address(&self, a: &Address, marks: &mut Marks<M>) -> i64 {
        let mut sum = a.offset;
        for (i, stride) in &a.terms {
            let (i, mark) = self.indices[*i];
            sum = sum.wrapping_add(i.wrapping_mul(*stride));
            marks.push(mark);
        }
        if let Some(dynamic) = a.dynamic {
            let (x, mark) = self.arg(dynamic);
            sum = sum.wrapping_add(x.bits as i64);
            marks.push(mark);
        }
        sum
    }
}
