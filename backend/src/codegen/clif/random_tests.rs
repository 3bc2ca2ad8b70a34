//! Random recursive kernels: loops with constant and run-time trip counts, branches, `while`, carries in place and
//! exchanged, contractions that accumulate, tapes, and calls of kernels that are random, too.
//!
//! Text, verifier, checking interpreter and machine code must agree in every bit, with lanes and without, and in the
//! order of performed effects. This must hold after every pass of the [pass lists](crate::passes::pipeline) for users'
//! programs and for simulated machines. The matrix library has its own order of sums, so in programs with contractions
//! numbers are small integers, whose sums are exact in any order. The table of `Sweep` states the number of programs
//! and the first seed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod idioms;

use super::tests::{Random, compare, tensor};
use crate::accelerator::{Machine, simulate};
use crate::loop_ir::fingerprint::printed;
use crate::loop_ir::interp::test_hosts::{RecordedCalls, recording_call, take_recorded_calls};
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Call, Carry, Contract, Cursor, CursorTarget,
    Expr, Extent, IndexId, Kernel, KernelId, Matrix, Origins, Parallelism, Place, Program, Stmt,
    Sums, Tape, TapeId, TapeStmt, VarId, Version, View, eval, handle, infer_parallelism, parse,
    shadow, verify, visit,
};
use crate::machine::MachineModel;
use crate::passes::{self, AS_WRITTEN, Choice, Context, List, NATIVE, PASSES, by_name};
use crate::sweeps::Sweep;
use cranelift_entity::{EntityRef, PrimaryMap};
use std::collections::BTreeSet;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Tensor};

/// `ENTRY` is the number of elements of every buffer of the entry kernel, and `CALLEE` of every buffer of a callee.
pub(crate) const ENTRY: usize = 24;
const CALLEE: usize = 8;
/// The absolute value to which stored and folded numbers are clamped, so that they do not grow.
const BOUND: f64 = 64.0;

struct Generator<'a> {
    r: &'a mut Random,
    callees: &'a PrimaryMap<KernelId, Kernel>,
    /// The tapes of the program that were generated so far.
    tapes: &'a mut PrimaryMap<TapeId, Tape>,
    k: Kernel,
    size: usize,
    /// Whether contractions (matrix products) are generated.
    contracts: bool,
    /// The kernel's arguments, which are never written: one of f64, one of i64.
    inputs: [BufferId; 2],
    /// Buffers of f64 that are fully written, with their current versions.
    arrays: Vec<BufferVersion>,
    /// Buffers of f64 whose contents are unused, and that no surrounding loop swaps with another buffer.
    spare: Vec<BufferId>,
    /// A buffer that is written and never read; some of its elements are never written.
    unread: BufferId,
    /// A buffer into which contractions accumulate, and that is never an operand of a contraction.
    sums: BufferId,
    /// A buffer that is accessed only at constant addresses, so that it may be promoted to values.
    cells: BufferId,
    /// The offset in bytes of the callees' frames in the workspace.
    frame: usize,
    /// The surrounding loops with constant trip counts, and these trip counts.
    loops: Vec<(IndexId, usize)>,
    /// The indices of all surrounding loops.
    counters: Vec<IndexId>,
    values: Vec<Arg>,
    vars: Vec<VarId>,
    depth: usize,
    /// The number of statements that may still be generated, which bounds the program's size.
    budget: usize,
}

fn float(x: f64) -> Arg {
    Arg::Literal(Literal::f64(x))
}

fn int(x: i64) -> Arg {
    Arg::Literal(Literal::i64(x))
}

fn store(held: BufferVersion, address: Address, value: Arg, guard: Option<Arg>) -> Stmt {
    Stmt::Store { held, address, value, guard }
}

/// Generates a kernel with two inputs (f64 and i64) and two outputs of f64, one of which is only written.
fn kernel(
    r: &mut Random,
    callees: &PrimaryMap<KernelId, Kernel>,
    tapes: &mut PrimaryMap<TapeId, Tape>,
    (size, budget, contracts): (usize, usize, bool),
    entry: bool,
) -> Kernel {
    let mut k = Kernel::new("random");
    k.inline = r.below(2) == 0;
    let donated = !entry && r.below(2) == 0;
    let ty = |dtype| ArrayType::new(dtype, [size]);
    let mut at = 0;
    let mut buffer = |k: &mut Kernel, dtype, place: Option<Place>| {
        let workspace = Place::Workspace(at);
        if place.is_none() {
            at += (size * 8).next_multiple_of(64);
        }
        k.buffers.push(Buffer::new(ty(dtype), place.unwrap_or(workspace)))
    };
    let first = if donated { Place::Donated { input: 0, output: 0 } } else { Place::Input(0) };
    let first = buffer(&mut k, Dtype::F64, Some(first));
    let second = buffer(&mut k, Dtype::I64, Some(Place::Input(1)));
    // A donated argument lies in the memory of a result, so the kernel first copies the argument to a buffer that is
    // only read afterwards.
    let (inputs, result) = match donated {
        true => ([buffer(&mut k, Dtype::F64, None), second], first),
        false => ([first, second], buffer(&mut k, Dtype::F64, Some(Place::Output(0)))),
    };
    let unread = buffer(&mut k, Dtype::F64, Some(Place::Output(1)));
    let [one, two, sums, spare, other, cells] = [(); 6].map(|()| buffer(&mut k, Dtype::F64, None));
    let frame = at;
    k.workspace = frame + callees.values().map(|c| c.workspace).max().unwrap_or(0);
    k.workspace = k.workspace.next_multiple_of(64);
    let arrays = [result, one, two].map(BufferVersion::first).to_vec();
    let mut g = Generator {
        r,
        callees,
        tapes,
        k,
        size,
        contracts,
        inputs,
        arrays: arrays.clone(),
        spare: vec![spare, other],
        unread,
        sums,
        cells,
        frame,
        loops: Vec::new(),
        counters: Vec::new(),
        values: Vec::new(),
        vars: Vec::new(),
        depth: 0,
        budget,
    };
    let mut body = Vec::new();
    if donated {
        let [from, to] = [first, inputs[0]].map(BufferVersion::first);
        body.push(g.fill(to, from));
    }
    let more = [sums, cells].map(BufferVersion::first);
    for held in arrays.into_iter().chain(more) {
        let from = BufferVersion::first(inputs[0]);
        body.push(g.fill(held, from));
    }
    for _ in 0..1 + g.r.below(3) {
        let step = g.block();
        body.push(Stmt::Nest { body: step, origins: Origins::default() });
    }
    // Copy the final contents of the arrays to the results, so that they are compared.
    for from in g.arrays.clone() {
        let (i, mut last) = (g.index(), Vec::new());
        let x = g.load(&mut last, from, at_index(i), None);
        let [y, cell] = more.map(|held| g.load(&mut last, held, at_index(i), None));
        let z = g.code(&mut last, Code::Add, &[x, y]);
        let z = g.code(&mut last, Code::Add, &[z, cell]);
        let z = g.bounded(&mut last, z);
        last.push(store(g.arrays[0], at_index(i), z, None));
        body.push(g.for_(i, Extent::Constant(size), Vec::new(), last));
    }
    let address = g.address(&mut Vec::new(), 1);
    let unread = BufferVersion::first(unread);
    body.push(store(unread, Address { dynamic: None, ..address }, float(1.0), None));
    g.k.body = body;
    infer_parallelism(&mut g.k);
    g.k
}

fn at_index(i: IndexId) -> Address {
    Address { offset: 0, terms: vec![(i, 1)], dynamic: None }
}

impl Generator<'_> {
    fn index(&mut self) -> IndexId {
        self.k.indices += 1;
        IndexId::new(self.k.indices as usize - 1)
    }

    fn for_(&self, index: IndexId, extent: Extent, carries: Vec<Carry>, body: Vec<Stmt>) -> Stmt {
        let (parallelism, origins) = (Parallelism::Serial, Origins::default());
        Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins }
    }

    fn code(&mut self, body: &mut Vec<Stmt>, code: Code, args: &[Arg]) -> Arg {
        let last = self.k.dtype(*args.last().unwrap());
        let value = self.k.scalars.push(code.result(last));
        body.push(Stmt::Let { value, expr: Expr::Code(code, args.to_vec()) });
        Arg::Scalar(value)
    }

    fn load(
        &mut self,
        body: &mut Vec<Stmt>,
        from: BufferVersion,
        address: Address,
        guard: Option<Arg>,
    ) -> Arg {
        let value = self.k.scalars.push(self.k.buffers[from.buffer].ty.dtype);
        body.push(Stmt::Let { value, expr: Expr::Load { held: from, address, guard } });
        Arg::Scalar(value)
    }

    fn bounded(&mut self, body: &mut Vec<Stmt>, x: Arg) -> Arg {
        self.code(body, Code::Clamp, &[float(-BOUND), x, float(BOUND)])
    }

    /// Generates a loop that sets each element of `to` to the same element of `from` plus a constant.
    fn fill(&mut self, to: BufferVersion, from: BufferVersion) -> Stmt {
        let (i, mut body) = (self.index(), Vec::new());
        let x = self.load(&mut body, from, at_index(i), None);
        let by = float(self.r.below(5) as f64 - 2.0);
        let x = self.code(&mut body, Code::Add, &[x, by]);
        let x = self.bounded(&mut body, x);
        body.push(store(to, at_index(i), x, None));
        self.for_(i, Extent::Constant(self.size), Vec::new(), body)
    }

    /// Returns a random operand of a dtype: a value in scope, a variable, a loop index or a literal.
    fn value(&mut self, dtype: Dtype) -> Arg {
        let fit: Vec<Arg> =
            self.values.iter().copied().filter(|v| self.k.dtype(*v) == dtype).collect();
        let vars: Vec<VarId> =
            self.vars.iter().copied().filter(|v| self.k.vars[*v] == dtype).collect();
        match self.r.below(6) {
            0 if dtype == Dtype::I64 && !self.counters.is_empty() => {
                Arg::Index(self.r.of(&self.counters))
            }
            1 if !vars.is_empty() => Arg::Var(self.r.of(&vars)),
            2 => Arg::Literal(Literal::of(dtype, self.r.below(5) as f64 - 1.0)),
            _ if fit.is_empty() => Arg::Literal(Literal::of(dtype, 1.0)),
            _ => self.r.of(&fit),
        }
    }

    fn truth(&mut self, body: &mut Vec<Stmt>) -> Arg {
        if self.r.below(3) == 0 {
            return self.value(Dtype::Bool);
        }
        let dtype = self.r.of(&[Dtype::I64, Dtype::F64]);
        let args = [self.value(dtype), self.value(dtype)];
        let code = self.r.of(&[Code::Lt, Code::Ge, Code::Eq, Code::Ne]);
        self.code(body, code, &args)
    }

    /// Returns an address in a buffer, with at least `room` elements from the address to the end of the buffer.
    fn address(&mut self, body: &mut Vec<Stmt>, room: usize) -> Address {
        let last = self.size - room;
        if self.r.below(4) == 0 {
            let i = self.value(Dtype::I64);
            let clamped = self.code(body, Code::Clamp, &[int(0), i, int(last as i64)]);
            return Address { dynamic: Some(clamped), ..Address::default() };
        }
        let mut a = Address::default();
        let (mut low, mut high) = (0i64, 0i64);
        for (index, extent) in self.loops.clone() {
            let stride = self.r.of(&[0, 1, 1, 1, 2, 3, -1]);
            let reach = stride * (extent as i64 - 1).max(0);
            if high - low + reach.abs() <= last as i64 {
                low += reach.min(0);
                high += reach.max(0);
                a.terms.push((index, stride));
            }
        }
        a.offset = -low + self.r.below((last as i64 - (high - low)) as usize + 1) as i64;
        a
    }

    fn guard(&mut self, body: &mut Vec<Stmt>) -> Option<Arg> {
        if self.r.below(4) == 0 { Some(self.truth(body)) } else { None }
    }

    fn view(&mut self, body: &mut Vec<Stmt>, held: BufferVersion) -> View {
        let at = self.address(body, CALLEE);
        View { held, at, elements: CALLEE }
    }

    fn array(&mut self) -> usize {
        self.r.below(self.arrays.len())
    }

    /// Generates a nested block of at most five statements, with its own scope.
    fn block(&mut self) -> Vec<Stmt> {
        self.depth += 1;
        let (values, vars) = (self.values.len(), self.vars.len());
        let mut body = Vec::new();
        for _ in 0..1 + self.r.below(5) {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            self.statement(&mut body);
        }
        self.values.truncate(values);
        self.vars.truncate(vars);
        self.depth -= 1;
        body
    }

    fn statement(&mut self, body: &mut Vec<Stmt>) {
        let deep = self.depth > 4;
        match self.r.below(23) {
            0 | 1 => {
                let (address, guard) = (self.address(body, 1), self.guard(body));
                let from = match self.r.below(4) {
                    0 => BufferVersion::first(self.inputs[1]),
                    1 => BufferVersion::first(self.inputs[0]),
                    _ => {
                        let n = self.array();
                        self.arrays[n]
                    }
                };
                let x = self.load(body, from, address, guard);
                self.values.push(x);
            }
            2 | 3 => {
                let dtype = self.r.of(&[Dtype::F64, Dtype::I64]);
                let code = self.r.of(&[
                    Code::Add,
                    Code::Sub,
                    Code::Max,
                    Code::Min,
                    Code::Lt,
                    Code::Select,
                ]);
                let mut args = vec![self.value(dtype), self.value(dtype)];
                if matches!(code, Code::Select) {
                    args.insert(0, self.value(Dtype::Bool));
                }
                let x = self.code(body, code, &args);
                self.values.push(x);
            }
            4 | 5 => {
                let value = self.value(Dtype::F64);
                let value = self.bounded(body, value);
                let (address, guard) = (self.address(body, 1), self.guard(body));
                let n = self.array();
                let to = match self.r.below(4) {
                    0 => BufferVersion::first(self.unread),
                    _ => self.arrays[n],
                };
                body.push(store(to, address, value, guard));
            }
            6 => {
                let dtype = self.r.of(&[Dtype::F64, Dtype::I64]);
                let var = self.k.vars.push(dtype);
                body.push(Stmt::Var { var, init: self.value(dtype) });
                self.vars.push(var);
            }
            17 | 18 => {
                let held = BufferVersion::first(self.cells);
                let [from, to] = [(); 2].map(|()| Address::constant(self.r.below(3) as i64));
                let x = self.load(body, held, from, None);
                self.values.push(x);
                let value = self.value(Dtype::F64);
                let value = self.bounded(body, value);
                body.push(store(held, to, value, None));
            }
            7 | 8 if !self.vars.is_empty() => {
                let var = self.r.of(&self.vars);
                let dtype = self.k.vars[var];
                let mut value = self.value(dtype);
                if dtype == Dtype::F64 {
                    value = self.bounded(body, value);
                }
                let code = self.r.of(&[Code::Add, Code::Add, Code::Max]);
                body.push(match self.r.below(4) {
                    0 => Stmt::Set { var, value },
                    _ => Stmt::Fold { var, code, value },
                });
            }
            9 if !deep => {
                let condition = self.truth(body);
                let then = self.block();
                let otherwise = if self.r.below(2) == 0 { self.block() } else { Vec::new() };
                let origins = Origins::default();
                body.push(Stmt::If { condition, then, otherwise, origins });
            }
            10 | 11 if !deep => self.counted(body),
            12 if !deep => self.while_(body),
            13 if self.contracts => self.contract(body),
            14 if !self.callees.is_empty() => self.call(body),
            15 => self.fold(body),
            19 if !deep => self.taped(body),
            20..=22 => self.idiom(body),
            16 => {
                let (number, elements) = (self.r.below(100), self.r.below(4));
                let mut view = || {
                    let (n, at) = (self.array(), self.address(body, elements));
                    View { held: self.arrays[n], at, elements }
                };
                let seen = view();
                let negatives = (number % 3 == 0).then(view);
                let ty = ArrayType::new(Dtype::F64, [elements]);
                body.push(recording_call(&format!("p{number}"), ty, seen, negatives));
            }
            _ => {}
        }
    }

    /// Generates the carries of a loop, and the statements at the start of its body that they need.
    fn carries(&mut self) -> (Vec<Carry>, Vec<Stmt>) {
        let (mut carries, mut begin) = (Vec::new(), Vec::new());
        if self.r.below(2) == 0 {
            return (carries, begin);
        }
        let n = self.array();
        let input = self.arrays[n];
        let output = match self.spare.pop() {
            // A carry of two buffers that the loop exchanges (swaps): each iteration begins by filling the second
            // buffer.
            Some(buffer) if input.version == 0 && self.r.below(2) == 0 => {
                let output = BufferVersion { buffer, version: 0 };
                begin.push(self.fill(output, input));
                output
            }
            other => {
                self.spare.extend(other);
                let versions = &mut self.k.versions[input.buffer];
                versions.push(Version { continues: Some(input.version) });
                let output = BufferVersion { buffer: input.buffer, version: versions.len() as u32 };
                let address = self.address(&mut begin, 1);
                begin.push(store(output, address, float(1.0), None));
                output
            }
        };
        carries.push(Carry { input, output });
        self.arrays[n] = output;
        (carries, begin)
    }

    /// Updates the generator's state after a loop: a carried array has the name of the version that the carry reads
    /// (`input`) again, not of the version that it writes. The second buffer of a swapped pair becomes spare, since its
    /// contents are unused.
    fn end_loop(&mut self, carries: &[Carry]) {
        for Carry { input, output } in carries {
            for held in self.arrays.iter_mut().filter(|h| **h == *output) {
                *held = *input;
            }
            if input.buffer != output.buffer {
                self.spare.push(output.buffer);
            }
        }
    }

    /// Generates the body of a loop, in which inner loops must not swap the buffers that this loop swaps.
    fn iterations(&mut self, carries: &[Carry], begin: Vec<Stmt>) -> Vec<Stmt> {
        let turned = carries.first().filter(|c| c.input.buffer != c.output.buffer).copied();
        let mut body = begin;
        let held = self.arrays.clone();
        if let Some(c) = turned {
            // An inner loop that carries this buffer would swap it a second time.
            self.arrays.retain(|h| *h != c.output);
        }
        body.extend(self.block());
        if let Some(c) = turned {
            self.arrays = held;
            let value = self.value(Dtype::F64);
            let value = self.bounded(&mut body, value);
            let address = self.address(&mut body, 1);
            body.push(store(c.output, address, value, None));
            let address = self.address(&mut body, 1);
            let x = self.load(&mut body, c.input, address, None);
            let x = self.bounded(&mut body, x);
            body.push(store(BufferVersion::first(self.unread), Address::default(), x, None));
        }
        body
    }

    fn counted(&mut self, body: &mut Vec<Stmt>) {
        let index = self.index();
        let constant = self.r.below(3) > 0;
        let extent = if constant {
            Extent::Constant(self.r.of(&[0, 1, 2, 3, 4, 5, 9]))
        } else {
            let n = self.value(Dtype::I64);
            Extent::Scalar(self.code(body, Code::Clamp, &[int(-1), n, int(4)]))
        };
        self.counters.push(index);
        if let Extent::Constant(n) = extent {
            self.loops.push((index, n));
        }
        let (carries, begin) = self.carries();
        let inside = self.iterations(&carries, begin);
        self.end_loop(&carries);
        if constant {
            self.loops.pop();
        }
        self.counters.pop();
        body.push(self.for_(index, extent, carries, inside));
    }

    fn while_(&mut self, body: &mut Vec<Stmt>) {
        let var = self.k.vars.push(Dtype::I64);
        body.push(Stmt::Var { var, init: int(0) });
        let limit = self.value(Dtype::I64);
        let limit = self.code(body, Code::Min, &[limit, int(3)]);
        let mut head = Vec::new();
        let condition = self.code(&mut head, Code::Lt, &[Arg::Var(var), limit]);
        let (carries, begin) = self.carries();
        // Values defined in a `while` loop's head (the condition) are visible in its body.
        let values = self.values.len();
        self.values.push(condition);
        let mut inside = self.iterations(&carries, begin);
        self.values.truncate(values);
        self.end_loop(&carries);
        let next = self.code(&mut inside, Code::Add, &[Arg::Var(var), int(1)]);
        inside.push(Stmt::Set { var, value: next });
        let origins = Origins::default();
        body.push(Stmt::While { head, condition, carries, body: inside, origins });
    }

    /// Generates a sum or an extremum of an array's elements, in a loop.
    fn fold(&mut self, body: &mut Vec<Stmt>) {
        let var = self.k.vars.push(Dtype::F64);
        body.push(Stmt::Var { var, init: self.value(Dtype::F64) });
        let (index, mut inside, n) = (self.index(), Vec::new(), self.array());
        let from = self.arrays[n];
        let (extent, address) = if self.r.below(2) == 0 {
            (Extent::Constant(self.size), at_index(index))
        } else {
            let n = self.value(Dtype::I64);
            let last = int(self.size as i64 - 1);
            let n = self.code(body, Code::Min, &[n, int(9)]);
            let i = self.code(&mut inside, Code::Min, &[Arg::Index(index), last]);
            (Extent::Scalar(n), Address { dynamic: Some(i), ..Address::default() })
        };
        let value = self.load(&mut inside, from, address, None);
        let code = self.r.of(&[Code::Add, Code::Max]);
        inside.push(Stmt::Fold { var, code, value });
        body.push(self.for_(index, extent, Vec::new(), inside));
        self.vars.push(var);
    }

    /// Generates a loop that writes tape records, and a loop that reads them in equal or in reverse order.
    fn taped(&mut self, body: &mut Vec<Stmt>) {
        const FIELD: usize = 2;
        let bytes = 8 * FIELD;
        let tape = self.tapes.push(Tape { record: bytes + 8, loc: None, within: Vec::new() });
        let first = self.k.scalars.push(Dtype::I64);
        body.push(Stmt::Tape(TapeStmt::Length { value: first, tape }));
        let (extent, n) = if self.r.below(2) == 0 {
            let n = self.r.of(&[0, 1, 2, 5, 9]);
            (Extent::Constant(n), int(n as i64))
        } else {
            let n = self.value(Dtype::I64);
            let n = self.code(body, Code::Clamp, &[int(-1), n, int(6)]);
            (Extent::Scalar(n), n)
        };
        let down = self.r.below(2) == 0;
        for (does, to) in [
            (Cursor::Writes, CursorTarget::Tape(tape)),
            (Cursor::Reads, CursorTarget::Handle(int(handle(tape, 0)))),
        ] {
            let cursor = self.k.cursors.push(does);
            let mut field = |dtype, elements: &[usize], offset| {
                let (ty, place) =
                    (ArrayType::new(dtype, elements), Place::Record { cursor, offset });
                BufferVersion { buffer: self.k.buffers.push(Buffer::new(ty, place)), version: 0 }
            };
            let floats = field(Dtype::F64, &[FIELD], 0);
            let number = field(Dtype::I64, &[], bytes);
            let (index, mut inside) = (self.index(), Vec::new());
            let iteration = if down && does == Cursor::Reads {
                let last = self.code(&mut inside, Code::Sub, &[n, int(1)]);
                self.code(&mut inside, Code::Sub, &[last, Arg::Index(index)])
            } else {
                Arg::Index(index)
            };
            let at = self.code(&mut inside, Code::Add, &[Arg::Scalar(first), iteration]);
            inside.push(Stmt::Tape(TapeStmt::MoveCursor { cursor, to, index: at }));
            self.counters.push(index);
            let values = self.values.len();
            if does == Cursor::Reads {
                let k = self.r.below(FIELD) as i64;
                let x = self.load(&mut inside, floats, Address::constant(k), None);
                let y = self.load(&mut inside, number, Address::default(), None);
                self.values.extend([x, y]);
            }
            inside.extend(self.block());
            self.values.truncate(values);
            if does == Cursor::Writes {
                for k in 0..FIELD {
                    let value = self.value(Dtype::F64);
                    inside.push(store(floats, Address::constant(k as i64), value, None));
                }
                let value = self.value(Dtype::I64);
                inside.push(store(number, Address::default(), value, None));
            }
            self.counters.pop();
            body.push(self.for_(index, extent, Vec::new(), inside));
        }
        if self.r.below(4) > 0 {
            body.push(Stmt::Tape(TapeStmt::Cut { tape, to: Arg::Scalar(first) }));
        }
    }

    fn contract(&mut self, body: &mut Vec<Stmt>) {
        let [m, n, k] = [(); 3].map(|()| self.r.of(&[0, 1, 1, 2, 2, 2, 2]));
        let mut matrix = |g: &mut Self, held: BufferVersion, rows: usize, columns: usize| {
            let at = g.address(body, (rows * columns).max(1));
            Matrix { held, at, row: columns.max(1) as i64, column: 1 }
        };
        let lhs = BufferVersion::first(self.inputs[0]);
        let array = self.array();
        let rhs = self.arrays[array];
        let (lhs, rhs) = (matrix(self, lhs, m, k), matrix(self, rhs, k, n));
        let out = matrix(self, BufferVersion::first(self.sums), m, n);
        let accumulate = self.r.below(2) == 0;
        let sums = self.r.of(&[Sums::Library, Sums::Lanes(1), Sums::Lanes(2), Sums::Lanes(8)]);
        let (dtype, batch, origins) = (Dtype::F64, Vec::new(), Origins::default());
        let product = Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch, origins };
        body.push(Stmt::Contract(product));
    }

    fn call(&mut self, body: &mut Vec<Stmt>) {
        let callee = KernelId::new(self.r.below(self.callees.len()));
        let first = self.array();
        let to = self.arrays[first];
        let from = BufferVersion::first(self.inputs[0]);
        let from = match self.array() {
            n if self.arrays[n].buffer != to.buffer => self.arrays[n],
            _ => from,
        };
        let numbers = BufferVersion::first(self.inputs[1]);
        let unread = BufferVersion::first(self.unread);
        let outputs = vec![self.view(body, to), self.view(body, unread)];
        let donated = |b: &Buffer| matches!(b.place, Place::Donated { .. });
        let donated = self.callees[callee].buffers.values().any(donated);
        let first = if donated { outputs[0].clone() } else { self.view(body, from) };
        let operands = vec![first, self.view(body, numbers)];
        let (frame, origins) = (self.frame, Origins::default());
        body.push(Stmt::Call(Call { callee, operands, outputs, frame, origins }));
    }
}

/// Generates a program from a seed. Returns the program and whether it has contractions.
pub(crate) fn program(seed: u64) -> (Program, bool) {
    let mut r = Random(seed);
    let (mut callees, mut tapes) = (PrimaryMap::new(), PrimaryMap::new());
    let contracts = r.below(2) == 0;
    for _ in 0..r.below(3) {
        let callee = kernel(&mut r, &callees, &mut tapes, (CALLEE, 12, contracts), false);
        callees.push(callee);
    }
    let entry = kernel(&mut r, &callees, &mut tapes, (ENTRY, 30, contracts), true);
    (Program { tapes, callees, entry, ..Program::new("") }, contracts)
}

/// The results of a run, and its effects in the order in which they were performed.
type Outcome = (Vec<Tensor>, RecordedCalls);

/// Runs the passes of a list, and checks after each pass that the interpreter computes equal results. Only passes that
/// choose lanes may change the order of sums. Returns the program after all passes.
fn passed(
    list: &List,
    p: &Program,
    args: &[Tensor],
    want: &Outcome,
    what: &str,
    changed: &mut [(&str, usize)],
) -> Program {
    let run = |p: &Program| {
        let mut proved = p.clone();
        // If some accesses are not proved in bounds (a later pass of the list may add the proofs), clamp the indices in
        // the copy of the program that runs.
        if verify(p).iter().any(|e| e.unproved.is_some()) {
            passes::apply("clamp_bounds", &mut proved)
                .unwrap_or_else(|e| panic!("{what}: {e}\n{p}"));
        }
        take_recorded_calls();
        (eval(&proved, args).unwrap_or_else(|e| panic!("{what}: {e}\n{p}")), take_recorded_calls())
    };
    let (mut want, mut made, mut lanes) = (want.clone(), p.clone(), None);
    let mut text = String::new();
    // The programs are small, so allow concurrent loops whose pieces (iterations) have few operations.
    let machine = MachineModel { piece_operations: 1, pieces: 4, ..MachineModel::MEASURED };
    let mut context = Context { machine, ..Context::default() };
    list.observed(&mut made, &mut context, &mut |step, made| {
        let name = step.pass.name;
        let (found, before) = (run(made), std::mem::replace(&mut text, made.to_string()));
        if let Some((_, n)) = changed.iter_mut().find(|(pass, _)| *pass == name) {
            *n += usize::from(before != text);
        }
        match name {
            // The pass `recognize_contractions` gives contractions the lanes that `vectorize` would give to the loops,
            // so the order of sums may change.
            "recognize_contractions" => (lanes, want) = (lanes.take(), found),
            "vectorize" => {
                if let Some(lanes) = lanes.take() {
                    assert_eq!(found, run(&lanes), "{what}: contractions\n{lanes}\n{made}");
                }
                want = found;
            }
            "cut_pieces" | "clamp_bounds" => want = found,
            name => assert_eq!(found, want, "{what}: {name}\n{p}\n{made}"),
        }
        if name == "hoist_invariant" {
            let mut loops = made.clone();
            passes::apply("vectorize", &mut loops).unwrap();
            lanes = Some(loops);
        }
    })
    .unwrap_or_else(|e| panic!("{what}: {e}\n{made}"));
    assert_eq!(verify(&made), [], "{what}\n{made}");
    made
}

#[test]
fn random_recursive_kernels() {
    let mut r = Random(7);
    let mut numbers = |dtype, by: f64| {
        let number = |r: &mut Random| Literal::of(dtype, (r.below(9) as f64 - 3.0) / by);
        let x: Vec<_> = (0..ENTRY).map(|_| number(&mut r)).collect();
        tensor(dtype, &x)
    };
    let integers = [numbers(Dtype::F64, 1.0), numbers(Dtype::I64, 1.0)];
    // Numbers are multiples of a third, so that a change in the order of a sum changes bits.
    let thirds = [numbers(Dtype::F64, 3.0), integers[1].clone()];
    let mut met = [0; 11];
    // Counts, over all random programs, the programs that each pass of the pipeline changed: every pass must change
    // some. (A pass that needs a specific pattern needs an idiom in the generator.) Three passes are excluded, because
    // results here are too small for zero-fill elimination, all accesses here are proved before clamping, and
    // unroll-and-jam has a test of its own.
    const ELSEWHERE: [&str; 3] = ["elide_zero_fill", "clamp_bounds", "unroll_and_jam"];
    let names = NATIVE.steps.iter().chain(AS_WRITTEN.steps).map(|step| step.pass.name);
    let names: BTreeSet<&str> = names.filter(|name| !ELSEWHERE.contains(name)).collect();
    let mut changed: Vec<(&str, usize)> = names.into_iter().map(|name| (name, 0)).collect();
    for seed in Sweep::Kernels.seeds() {
        let (p, contracts) = program(seed);
        let args = if contracts { &integers } else { &thirds };
        let told_by = |p: &Program| {
            let errors = verify(p);
            assert!(errors.is_empty(), "{p}\nseed {seed}: {errors:?}");
            let again =
                parse(&p.to_string(), &|_| None).unwrap_or_else(|e| panic!("{seed}: {e}\n{p}"));
            assert_eq!(again.to_string(), p.to_string());
            assert_eq!(verify(&again), []);
            take_recorded_calls();
            let results = shadow(p, args).unwrap_or_else(|e| panic!("{p}\nseed {seed}: {e}"));
            (results, take_recorded_calls())
        };
        let want = told_by(&p);
        let what = format!("seed {seed}");
        for (list, simulated) in [(&NATIVE, false), (&AS_WRITTEN, true)] {
            let made = passed(list, &p, args, &want, &what, &mut changed);
            // A program may copy elements that were never written, and passes may change these elements. So evaluate
            // the changed program for the expected results.
            let results = (eval(&made, args).unwrap(), take_recorded_calls());
            assert!(!contracts || results == want, "{what}\n{p}\n{made}");
            if simulated {
                let (found, _) = simulate(&made, args, &Machine::cal().into())
                    .unwrap_or_else(|e| panic!("{what}: {e}\n{made}"));
                assert_eq!((found, take_recorded_calls()), results, "{what}\n{made}");
            } else {
                let recorded = compare(&made, args, &results.0, 0.0, &what);
                assert_eq!(recorded, results.1, "{what}\n{made}");
            }
        }
        let mut spliced = p.clone();
        passes::apply("inline_bodies", &mut spliced).unwrap();
        assert_eq!(told_by(&spliced), want, "{p}\n{spliced}\nseed {seed}");
        let names = [
            "promote_memory",
            "simplify_indices",
            "copy_elimination",
            "unroll",
            "redundant_memory",
            "privatize_scalars",
            "reverse_loops",
        ];
        for name in names {
            let mut context = Context { factors: vec![2, 3], overlap: true, ..Context::default() };
            by_name(name).unwrap().apply(&mut spliced, &mut context).unwrap();
            assert_eq!(verify(&spliced), [], "{spliced}\nseed {seed}");
            let again =
                eval(&spliced, args).unwrap_or_else(|e| panic!("{spliced}\nseed {seed}: {e}"));
            assert_eq!((again, take_recorded_calls()), want, "{p}\n{spliced}\nseed {seed}");
        }
        let plain = seed % 3 == 0;
        let mut made = if plain { p } else { spliced };
        if seed % 5 > 0 {
            let mut context = Context { choice: Choice::WriteOut, ..Context::default() };
            by_name("index_set_split").unwrap().apply(&mut made, &mut context).unwrap();
        }
        if seed % 4 > 0 {
            passes::apply("vectorize", &mut made).unwrap();
        }
        // Vectorization changes the order of sums, so the interpreter computes the expected results again.
        let (results, recorded) = match plain {
            true => told_by(&made),
            false => (eval(&made, args).unwrap(), take_recorded_calls()),
        };
        passes::apply("unroll_and_jam", &mut made).unwrap();
        assert_eq!(verify(&made), [], "{made}\nseed {seed}");
        let machine = Machine { window: 64, ..Machine::cal().with_cache(1 << 10, 2) };
        let (simulated, _) = simulate(&made, args, &machine.into())
            .unwrap_or_else(|e| panic!("{made}\nseed {seed}: {e}"));
        assert_eq!(
            (&simulated, take_recorded_calls()),
            (&results, recorded.clone()),
            "{made}\nseed {seed}"
        );
        let got = compare(&made, args, &results, 0.0, &format!("seed {seed}"));
        assert!(!(plain || contracts) || got == recorded, "{made}\nseed {seed}: {got:?}");
        assert!(!contracts || (results, recorded) == want, "{made}\nseed {seed}");
        for (_, k) in made.kernels() {
            visit(&k.body, &mut |s| {
                let kind = match s {
                    Stmt::For { extent: Extent::Scalar(_), .. } => 0,
                    Stmt::While { .. } => 1,
                    Stmt::If { .. } => 2,
                    Stmt::Call(_) => 3,
                    Stmt::Contract(c) => 4 + usize::from(c.accumulate),
                    Stmt::For { lanes: 2.., .. } => 9,
                    Stmt::For { parallelism: Parallelism::Parallel, .. } => 6,
                    Stmt::For { parallelism: Parallelism::Fold, .. } => 7,
                    Stmt::CallExternal(_) => 8,
                    Stmt::Tape(_) => 10,
                    _ => return,
                };
                met[kind] += 1;
            });
        }
    }
    assert!(met.iter().all(|n| *n > 10), "{met:?}");
    assert!(changed.iter().all(|(_, n)| *n > 3), "{changed:?}");
}

/// Runs each pass alone, on programs for which only its required invariants hold. The invariants that held before must
/// hold after the pass, results must be equal, and the pass must report a change exactly if the program's text changed.
#[test]
fn passes_require_no_more_than_they_say() {
    let mut r = Random(11);
    let mut numbers = |dtype| {
        let x: Vec<_> = (0..ENTRY).map(|_| Literal::of(dtype, r.below(9) as f64 - 3.0)).collect();
        tensor(dtype, &x)
    };
    let args = [numbers(Dtype::F64), numbers(Dtype::I64)];
    for seed in Sweep::Passes.seeds() {
        let (p, whole) = program(seed);
        take_recorded_calls();
        let want = (eval(&p, &args).unwrap(), take_recorded_calls());
        for pass in PASSES {
            let what = format!("seed {seed}: {}\n{p}", pass.name);
            let mut made = p.clone();
            let mut context = Context { factors: vec![2, 3], ..Context::default() };
            pass.apply(&mut made, &mut context).unwrap_or_else(|e| panic!("{what}\n{e}"));
            assert_eq!(verify(&made), [], "{what}\n{made}");
            let changed = printed(&made) != printed(&p);
            assert_eq!(changed, made.to_string() != p.to_string(), "{what}\n{made}");
            // Sums of small integers are exact in any order, so programs of integers must always give the same bits.
            if whole || pass.exactness == Exactness::Exact {
                assert_eq!(
                    (eval(&made, &args).unwrap(), take_recorded_calls()),
                    want,
                    "{what}\n{made}"
                );
            }
        }
    }
}
