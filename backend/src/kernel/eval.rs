//! The interpreter: the meaning of a program.
//!
//! It runs one statement after the other, checks every access, and is as slow as that sounds. Code
//! generators are tested against it. The workspace starts as a pattern that no program means to
//! read, so that a read before the first write shows; [`shadow`] makes an error of it.

use super::memory::{Memory, Spot, filled};
use super::partial::Partial;
use super::shadow::Shadow;
use super::{
    Address, Arg, Ask, BufferId, Call, Carry, Contract, CursorId, Expr, Extent, IndexId, Kernel,
    Matrix, Place, Program, Rounds, ScalarId, Stmt, TapeId, Taping, Turned, VarId, View, Watch,
    opened,
};
use crate::watch::Watches;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use tapeloom_ir::{Code, Kind, Limits, Literal, Problem, Tensor};

/// Runs a program on concrete arguments.
///
/// # Errors
/// [`Kind::Verify`] when the program breaks an invariant, [`Kind::Arguments`] when arguments do not
/// fit the inputs, [`Kind::Internal`] when an access leaves its buffer, [`Kind::TooLarge`] when there
/// is no memory for results or workspace.
pub fn eval(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    run(program, args, false, &Limits::default())
}

/// As [`eval`], and checks that every load finds what it means: an element of that version of that
/// buffer, which nothing else was written over since. See [`super::Version`].
///
/// ```
/// use tapeloom_backend::kernel;
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
/// let program = kernel::parse(text, &|_| None)?;
/// assert!(kernel::eval(&program, &[]).is_ok());
/// let problem = kernel::shadow(&program, &[]).map(|_| ()).unwrap_err();
/// assert_eq!(problem.kind, Kind::Internal);
/// assert!(problem.message.contains("b0[1] is read, but b0.1 has taken it over"));
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
///
/// # Errors
/// Those of [`eval`]; [`Kind::Internal`] names what a load means and what it finds.
pub fn shadow(program: &Program, args: &[Tensor]) -> Result<Vec<Tensor>, Problem> {
    shadow_within(program, args, &Limits::default())
}

/// As [`shadow`], within limits.
///
/// # Errors
/// Those of [`shadow`], [`Kind::Limit`], [`Kind::Cancelled`].
pub(crate) fn shadow_within(
    program: &Program,
    args: &[Tensor],
    limits: &Limits,
) -> Result<Vec<Tensor>, Problem> {
    run(program, args, true, limits)
}

fn run(
    program: &Program,
    args: &[Tensor],
    shadow: bool,
    limits: &Limits,
) -> Result<Vec<Tensor>, Problem> {
    super::check(program)?;
    let entry = &program.entry;
    let mut memory = Memory::new(filled(0xa5, entry.workspace)?);
    let mut places = SecondaryMap::new();
    for (id, b) in &entry.buffers {
        places[id] = match b.place {
            Place::Workspace(offset) => Spot { region: 0, byte: offset },
            Place::Output(_) | Place::Given { .. } => memory.add(filled(0, b.ty.bytes())?),
            // Wherever its cursor will stand.
            Place::Record { .. } => Spot::default(),
            Place::Input(n) => match args.get(n) {
                Some(x) if *x.ty() == b.ty => memory.lend(x.bytes()),
                Some(x) => {
                    let message = format!("input {n} ({id}) must be {}, got {}", b.ty, x.ty());
                    return Err(Problem::new(Kind::Arguments, message, ""));
                }
                None => {
                    let message = format!("input {n} ({id}) is missing");
                    return Err(Problem::new(Kind::Arguments, message, ""));
                }
            },
        };
    }
    let records = program.tapes.keys().map(|_| (memory.add(Vec::new()).region, 0));
    let tapes: PrimaryMap<TapeId, (usize, usize)> = records.collect();
    let watches = Watches::of(&program.watched, limits);
    let shadow = if shadow { Some(Shadow::of(&memory)?) } else { None };
    let mut machine = Machine { program, memory, shadow, tapes, watches };
    machine.run(entry, places.clone(), 0)?;
    let result = |(id, ty)| {
        let mut result = Tensor::zeros_of(ty)?;
        for i in 0..ty.shape.elements() {
            result.set_literal(i, machine.memory.read(places[id], ty.dtype, i))?;
        }
        Ok(result)
    };
    entry.outputs().into_iter().map(result).collect()
}

struct Machine<'a> {
    program: &'a Program,
    memory: Memory<'a>,
    shadow: Option<Shadow<'a>>,
    /// Of each tape, the region of its records and how many there are.
    tapes: PrimaryMap<TapeId, (usize, usize)>,
    watches: Watches,
}

/// One run of a kernel.
struct Frame<'a> {
    k: &'a Kernel,
    /// Where each buffer is at present, and where its workspace begins.
    places: SecondaryMap<BufferId, Spot>,
    workspace: usize,
    scalars: SecondaryMap<ScalarId, Literal>,
    vars: SecondaryMap<VarId, Literal>,
    indices: SecondaryMap<IndexId, i64>,
}

impl<'a> Machine<'a> {
    fn run(
        &mut self,
        k: &'a Kernel,
        places: SecondaryMap<BufferId, Spot>,
        workspace: usize,
    ) -> Result<(), Problem> {
        if let Some(shadow) = &mut self.shadow {
            shadow.enter(k);
        }
        let mut frame = Frame {
            k,
            places,
            workspace,
            scalars: SecondaryMap::with_default(Literal::bool(false)),
            vars: SecondaryMap::with_default(Literal::bool(false)),
            indices: SecondaryMap::with_default(0),
        };
        self.block(&mut frame, &k.body)?;
        if let Some(shadow) = &mut self.shadow {
            shadow.leave();
        }
        Ok(())
    }

    fn block(&mut self, f: &mut Frame<'a>, body: &'a [Stmt]) -> Result<(), Problem> {
        body.iter().try_for_each(|stmt| self.stmt(f, stmt))
    }

    fn stmt(&mut self, f: &mut Frame<'a>, stmt: &'a Stmt) -> Result<(), Problem> {
        match stmt {
            Stmt::Nest { body } => self.block(f, body)?,
            Stmt::Contract(c) => self.contract(f, c)?,
            Stmt::Call(c) => self.call(f, c)?,
            Stmt::Tape(t) => self.taping(f, t)?,
            Stmt::Watch(w) => self.watch(f, w)?,
            Stmt::Ask(ask) => self.ask(f, ask)?,
            Stmt::If { condition, then, otherwise } => {
                let body = if f.arg(*condition).bits != 0 { then } else { otherwise };
                self.block(f, body)?;
            }
            Stmt::For { index, extent, rounds, lanes, carries, body } => {
                let extent = match extent {
                    Extent::Constant(n) => i64::try_from(*n).unwrap_or(i64::MAX),
                    Extent::Scalar(a) => f.arg(*a).bits as i64,
                };
                let home = f.homes(carries);
                self.begin_loop(*rounds != Rounds::Serial);
                let mut partial = Partial::of(&f.k.vars, body, *lanes, extent);
                for i in 0..extent {
                    f.indices[*index] = i;
                    partial.turn(i, &mut f.vars);
                    self.round(f, carries, body)?;
                    partial.turn(i, &mut f.vars);
                    partial.settle(i, &mut f.vars);
                }
                self.end_loop(f, carries, &home);
            }
            Stmt::While { head, condition, carries, body } => {
                let home = f.homes(carries);
                self.begin_loop(false);
                self.block(f, head)?;
                while f.arg(*condition).bits != 0 {
                    self.round(f, carries, body)?;
                    self.block(f, head)?;
                }
                self.end_loop(f, carries, &home);
            }
            Stmt::Let { value, expr } => {
                f.scalars[*value] = match expr {
                    Expr::Code(code, args) => {
                        let args: Vec<_> = args.iter().map(|a| f.arg(*a)).collect();
                        code.eval(&args)
                    }
                    Expr::Load { buffer, version, address, guard } => {
                        if f.holds(*guard) {
                            self.read(f, *buffer, *version, f.address(address))?
                        } else {
                            Literal::zero(f.k.buffers[*buffer].ty.dtype)
                        }
                    }
                };
            }
            Stmt::Var { var, init: value } | Stmt::Set { var, value } => {
                f.vars[*var] = f.arg(*value);
            }
            Stmt::Fold { var, code, value } => {
                f.vars[*var] = code.eval(&[f.vars[*var], f.arg(*value)]);
            }
            Stmt::Store { buffer, version, address, value, guard } => {
                if f.holds(*guard) {
                    let (address, value) = (f.address(address), f.arg(*value));
                    self.write(f, *buffer, *version, address, value)?;
                }
            }
        }
        Ok(())
    }

    fn taping(&mut self, f: &mut Frame<'a>, taping: &Taping) -> Result<(), Problem> {
        match taping {
            Taping::Turn { cursor, to, index } => {
                let index = f.arg(*index).bits;
                let spot = match to {
                    Turned::Tape(tape) => self.grown(*tape, index)?,
                    Turned::Handle(word) => self.found(f.k, *cursor, f.arg(*word), index)?,
                };
                for (id, b) in &f.k.buffers {
                    if let Place::Record { cursor: of, offset } = b.place
                        && of == *cursor
                    {
                        f.places[id] = Spot { byte: spot.byte + offset, ..spot };
                    }
                }
            }
            Taping::Length { value, tape } => {
                f.scalars[*value] = Literal::i64(self.tapes[*tape].1 as i64);
            }
            Taping::Cut { tape, to } => {
                let of = &mut self.tapes[*tape].1;
                *of = usize::try_from(f.arg(*to).bits).map_or(*of, |to| to.min(*of));
            }
        }
        Ok(())
    }

    fn watch(&mut self, f: &Frame<'a>, watch: &Watch) -> Result<(), Problem> {
        match watch {
            Watch::Enter { watch, trip } => {
                let trip = trip.and_then(|n| u64::try_from(f.arg(n).bits as i64).ok());
                self.watches.enter(*watch, trip)
            }
            Watch::Count(watch) => self.watches.count(*watch),
        }
    }

    /// A record that is to be written.
    fn grown(&mut self, tape: TapeId, index: u64) -> Result<Spot, Problem> {
        let (bytes, (region, length)) = (self.program.tapes[tape].record, self.tapes[tape]);
        let index = usize::try_from(index).ok().filter(|i| *i < usize::MAX);
        let end = index.and_then(|i| (i + 1).checked_mul(bytes));
        let (Some(index), Some(end)) = (index, end) else {
            return Err(crate::no_memory("the records of a loop", usize::MAX));
        };
        self.memory.grow(region, end)?;
        self.tapes[tape].1 = length.max(index + 1);
        if let Some(shadow) = &mut self.shadow {
            // What is skipped holds nothing either, until it is written.
            let byte = length.min(index) * bytes;
            shadow.clear(Spot { region, byte }, end - byte)?;
        }
        Ok(Spot { region, byte: index * bytes })
    }

    /// A record that is to be read.
    fn found(
        &self,
        k: &Kernel,
        cursor: CursorId,
        word: Literal,
        index: u64,
    ) -> Result<Spot, Problem> {
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
        Ok(Spot { region, byte: index as usize * record + field })
    }

    fn begin_loop(&mut self, independent: bool) {
        if let Some(shadow) = &mut self.shadow {
            shadow.begin_loop(independent);
        }
    }

    fn round(
        &mut self,
        f: &mut Frame<'a>,
        carries: &[Carry],
        body: &'a [Stmt],
    ) -> Result<(), Problem> {
        if let Some(shadow) = &mut self.shadow {
            shadow.begin_round();
        }
        self.block(f, body)?;
        for Carry { now, next } in carries {
            let (a, b) = (f.places[now.buffer], f.places[next.buffer]);
            (f.places[now.buffer], f.places[next.buffer]) = (b, a);
            if let Some(shadow) = &mut self.shadow {
                let bytes = f.k.buffers[now.buffer].ty.bytes();
                shadow.hand_on(*now, *next, f.places[now.buffer], f.places[next.buffer], bytes);
            }
        }
        Ok(())
    }

    /// What exchanged places goes home.
    fn end_loop(&mut self, f: &mut Frame<'a>, carries: &[Carry], homes: &[Spot]) {
        for (Carry { now, next }, home) in carries.iter().zip(homes) {
            let (now, next) = (now.buffer, next.buffer);
            let (from, bytes) = (f.places[now], f.k.buffers[now].ty.bytes());
            if from != *home {
                self.memory.copy(from, *home, bytes);
                (f.places[now], f.places[next]) = (*home, from);
            }
            if now != next
                && let Some(shadow) = &mut self.shadow
            {
                shadow.settle(from, f.places[now], f.places[next], bytes);
            }
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.end_loop();
        }
    }

    /// The position of elements that exist.
    fn position(
        f: &Frame<'_>,
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
        f: &Frame<'_>,
        buffer: BufferId,
        version: u32,
        element: i64,
    ) -> Result<Literal, Problem> {
        let i = Self::position(f, buffer, element, 1)?;
        if let Some(shadow) = &mut self.shadow {
            shadow.read(buffer, version, f.places[buffer], i)?;
        }
        Ok(self.memory.read(f.places[buffer], f.k.buffers[buffer].ty.dtype, i))
    }

    fn write(
        &mut self,
        f: &Frame<'_>,
        buffer: BufferId,
        version: u32,
        element: i64,
        x: Literal,
    ) -> Result<(), Problem> {
        let i = Self::position(f, buffer, element, 1)?;
        if let Some(shadow) = &mut self.shadow {
            shadow.write(buffer, version, f.places[buffer], i)?;
        }
        self.memory.write(f.places[buffer], i, x)
    }

    fn call(&mut self, f: &mut Frame<'a>, call: &Call) -> Result<(), Problem> {
        let k = &self.program.callees[call.callee];
        let spot = |v: &View| -> Result<(usize, Spot), Problem> {
            let first = Self::position(f, v.buffer, f.address(&v.at), v.elements)?;
            let Spot { region, byte } = f.places[v.buffer];
            let size = f.k.buffers[v.buffer].ty.dtype.bytes();
            Ok((first, Spot { region, byte: byte + first * size }))
        };
        let operands: Vec<_> = call.operands.iter().map(spot).collect::<Result<_, _>>()?;
        let outputs: Vec<_> = call.outputs.iter().map(spot).collect::<Result<_, _>>()?;
        if let Some(shadow) = &mut self.shadow {
            for (v, (first, _)) in call.operands.iter().zip(&operands) {
                for i in *first..first + v.elements {
                    shadow.read(v.buffer, v.version, f.places[v.buffer], i)?;
                }
            }
        }
        let workspace = f.workspace + call.frame;
        let mut places = SecondaryMap::new();
        for (id, b) in &k.buffers {
            places[id] = match b.place {
                Place::Input(n) => operands[n].1,
                Place::Output(n) | Place::Given { output: n, .. } => outputs[n].1,
                Place::Workspace(offset) => Spot { region: 0, byte: workspace + offset },
                Place::Record { .. } => Spot::default(),
            };
        }
        let began = self.shadow.as_ref().map_or(0, Shadow::now);
        tapeloom_ir::deeper(|| self.run(k, places, workspace))?;
        if let Some(shadow) = &mut self.shadow {
            for (v, (first, _)) in call.outputs.iter().zip(&outputs) {
                for i in *first..first + v.elements {
                    shadow.take_over(v.buffer, v.version, f.places[v.buffer], i, began)?;
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, f: &Frame<'_>, ask: &Ask) -> Result<(), Problem> {
        let mut operands = Vec::with_capacity(ask.operands.len());
        for (v, ty) in ask.operands.iter().zip(&ask.asked.operands) {
            let (first, mut x) = (f.address(&v.at), Tensor::zeros_of(ty)?);
            for i in 0..v.elements {
                x.set_literal(i, self.read(f, v.buffer, v.version, first + i as i64)?)?;
            }
            operands.push(x);
        }
        let results = ask.asked.call.run(&operands).map_err(|p| p.at(ask.asked.location))?;
        for (v, y) in ask.outputs.iter().zip(results) {
            let first = f.address(&v.at);
            for (i, y) in y.literals().enumerate() {
                self.write(f, v.buffer, v.version, first + i as i64, y)?;
            }
        }
        Ok(())
    }

    /// `out[m, n] = sum_k lhs[m, k] rhs[k, n]`, terms in order, from 0; then what `out` held is added,
    /// if it is to be.
    fn contract(&mut self, f: &Frame<'_>, c: &Contract) -> Result<(), Problem> {
        let count: usize = c.batch.iter().map(|b| b.0).product();
        for flat in 0..count {
            let (mut rest, mut at) = (flat as i64, (0, 0, 0));
            for (extent, lhs, rhs, out) in c.batch.iter().rev() {
                let i = rest % *extent as i64;
                rest /= *extent as i64;
                at = (at.0 + i * lhs, at.1 + i * rhs, at.2 + i * out);
            }
            let element = |m: &Matrix, start: i64, row: usize, column: usize| {
                f.address(&m.at) + start + row as i64 * m.row + column as i64 * m.column
            };
            for row in 0..c.m {
                for column in 0..c.n {
                    let mut sum = Literal::zero(c.dtype);
                    for k in 0..c.k {
                        let (lhs, rhs) = (&c.lhs, &c.rhs);
                        let x = element(lhs, at.0, row, k);
                        let x = self.read(f, lhs.buffer, lhs.version, x)?;
                        let y = element(rhs, at.1, k, column);
                        let y = self.read(f, rhs.buffer, rhs.version, y)?;
                        sum = Code::Add.eval(&[sum, Code::Mul.eval(&[x, y])]);
                    }
                    let to = element(&c.out, at.2, row, column);
                    if c.accumulate {
                        let old = self.read(f, c.out.buffer, c.out.version, to)?;
                        sum = if c.k == 0 { old } else { Code::Add.eval(&[old, sum]) };
                    }
                    self.write(f, c.out.buffer, c.out.version, to, sum)?;
                }
            }
        }
        Ok(())
    }
}

impl Frame<'_> {
    /// Where what a loop carries is when the loop begins.
    fn homes(&self, carries: &[Carry]) -> Vec<Spot> {
        carries.iter().map(|c| self.places[c.now.buffer]).collect()
    }

    fn holds(&self, guard: Option<Arg>) -> bool {
        guard.is_none_or(|g| self.arg(g).bits != 0)
    }

    fn arg(&self, arg: Arg) -> Literal {
        match arg {
            Arg::Scalar(s) => self.scalars[s],
            Arg::Var(v) => self.vars[v],
            Arg::Index(i) => Literal::i64(self.indices[i]),
            Arg::Literal(l) => l,
        }
    }

    fn address(&self, a: &Address) -> i64 {
        let terms = a.terms.iter().map(|(i, stride)| self.indices[*i].wrapping_mul(*stride));
        let dynamic = a.dynamic.map_or(0, |d| self.arg(d).bits as i64);
        terms.fold(a.offset.wrapping_add(dynamic), i64::wrapping_add)
    }
}
