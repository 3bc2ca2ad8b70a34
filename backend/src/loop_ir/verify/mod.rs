//! The verifier of loop programs.
//!
//! The verifier checks these invariants. Every value is defined once, before its uses, and used within its block.
//! Dtypes match. Inputs are never written and every output is. Workspace offsets are multiples of 64 bytes and within
//! the workspace. The results of a contraction or a call overlap none of its operands. The claimed parallelism of
//! loops is not refuted. Calls go only to earlier kernels, with views of the types that the callee expects.
//!
//! Also, every address must stay within its buffer, whatever the arguments are. For constant addresses and loops of
//! constant extent this follows from intervals. For run-time indices, guards and branches,
//! [`range`](super::analysis::value_range) must find a proof. Machine code checks nothing at run time, so a program
//! that *could* leave a buffer is refused. The verifier collects all errors instead of stopping at the first.

mod calls;
mod loops;
mod tapes;

use super::analysis::value_range::ValueRanges;
use super::{
    Access, Arg, BUFFER_ALIGNMENT_BYTES, Buffer, BufferId, BufferVersion, CursorId, Expr, Extent,
    IndexId, Kernel, KernelId, MOST_INPUTS, Parallelism, Place, Program, ScalarId, Stmt, VarId,
    visit,
};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use std::fmt;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::{Dtype, Kind, OrderedMap, Problem};
use tapeloom_routines::Argsort;

/// A broken invariant, and where in the program it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The kernel with the error; `None` if the error is in the entry.
    pub kernel: Option<KernelId>,
    /// The index of the step (statement of the outermost block) with the error; `None` for errors of buffers.
    pub step: Option<usize>,
    /// If the error is a missing proof that a load or store stays within its buffer: the number of that statement in
    /// the order of [`visit`] over the kernel's statements. Otherwise `None`.
    pub unproved: Option<usize>,
    /// The message for users, without the location.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(k) = self.kernel {
            write!(f, "{k}, ")?;
        }
        match self.step {
            Some(i) => write!(f, "step {i}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Verifies a program and returns its errors; the list is empty if all invariants hold.
pub fn verify(program: &Program) -> Vec<VerifyError> {
    let mut errors = Vec::new();
    let depth = depth(program);
    if depth > DEEPEST_CALL {
        let message = format!("calls nest {depth} deep, more than {DEEPEST_CALL}");
        errors.push(VerifyError { kernel: None, step: None, unproved: None, message });
    }
    for (kernel, p) in program.kernels() {
        let mut v = Verifier {
            program,
            kernel,
            p,
            step: None,
            statement: 0,
            errors: Vec::new(),
            scalars: SecondaryMap::with_default(State::Undefined),
            vars: SecondaryMap::with_default(State::Undefined),
            indices: SecondaryMap::with_default(None),
            written: SecondaryMap::with_default(false),
            carried: Vec::new(),
            cursors: SecondaryMap::with_default(State::Undefined),
            loops: 0,
            concurrent: None,
            homes: SecondaryMap::new(),
            ranges: ValueRanges::of(p),
        };
        v.run();
        errors.extend(v.errors);
    }
    errors
}

/// Returns the largest nesting depth of kernel calls in a program.
fn depth(program: &Program) -> usize {
    let mut depths: PrimaryMap<KernelId, usize> = PrimaryMap::new();
    for (_, p) in program.kernels() {
        let mut depth = 0;
        visit(&p.body, &mut |s| {
            if let Stmt::Call(c) = s {
                depth = depth.max(depths.get(c.callee).map_or(1, |d| d + 1));
            }
        });
        depths.push(depth);
    }
    depths.values().copied().max().unwrap_or(0)
}

/// Returns an error for programs with more than `DEEPEST_CALL` nested calls, which might exhaust the stack.
///
/// # Errors
/// [`Kind::TooLarge`], with the nesting depth.
pub(crate) fn check_depth(program: &Program) -> Result<(), Problem> {
    let depth = depth(program);
    if depth <= DEEPEST_CALL {
        return Ok(());
    }
    Err(Problem::new(
        Kind::TooLarge,
        format!("compiled calls of outlined functions nest {depth} deep, more than {DEEPEST_CALL}"),
        "apply some of the functions without `outline`",
    ))
}

/// Verifies a program, and returns its first five errors as one problem.
///
/// # Errors
/// [`Kind::Verify`] if at least one invariant is broken.
pub fn check(program: &Program) -> Result<(), Problem> {
    refused(program, &verify(program))
}

/// Verifies a program as `check` does, but accepts accesses for which only the proof is missing that they stay
/// within their buffer.
///
/// # Errors
/// [`Kind::Verify`] with the first five errors.
pub fn check_form(program: &Program) -> Result<(), Problem> {
    let mut errors = verify(program);
    errors.retain(|e| e.unproved.is_none());
    refused(program, &errors)
}

/// Returns the first five of these errors as one problem; `Ok` if there are none.
pub(crate) fn refused(program: &Program, errors: &[VerifyError]) -> Result<(), Problem> {
    if errors.is_empty() {
        return Ok(());
    }
    let shown: Vec<String> = errors.iter().take(5).map(ToString::to_string).collect();
    let message = format!(
        "kernel @{} breaks {} invariants: {}",
        program.entry.name,
        errors.len(),
        shown.join("; ")
    );
    Err(Problem::new(Kind::Verify, message, ""))
}

/// The state of a scalar, variable or cursor while the verifier walks over the statements: not defined yet
/// (`Undefined`), in scope (`Visible`), or out of scope (`Gone`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Undefined,
    Visible,
    Gone,
}

/// The maximal nesting depth of kernel calls, so that a run does not exhaust the stack.
const DEEPEST_CALL: usize = 500;

/// The scalars, variables and cursors that a block defines, which go out of scope at the end of the block.
#[derive(Default)]
struct Scope {
    scalars: Vec<ScalarId>,
    vars: Vec<VarId>,
    cursors: Vec<CursorId>,
}

struct Verifier<'a> {
    program: &'a Program,
    kernel: Option<KernelId>,
    p: &'a Kernel,
    step: Option<usize>,
    /// The number of statements visited so far in this kernel, in the order of `visit`.
    statement: usize,
    errors: Vec<VerifyError>,
    scalars: SecondaryMap<ScalarId, State>,
    vars: SecondaryMap<VarId, State>,
    /// For each loop index whose loop has begun: the extent while the loop is in scope, `Some(None)` after the loop
    /// has ended.
    indices: SecondaryMap<IndexId, Option<Option<Extent>>>,
    written: SecondaryMap<BufferId, bool>,
    /// The buffers that enclosing loops exchange at the end of each iteration (carries with two buffers).
    carried: Vec<BufferId>,
    /// The state of each cursor; a `Visible` cursor points to a record of a dynamic tape.
    cursors: SecondaryMap<CursorId, State>,
    /// The number of loops around the current statement.
    loops: usize,
    /// The index of the concurrent loop around the current statement, if there is one.
    concurrent: Option<IndexId>,
    /// For each buffer in private memory, the index of the concurrent loop whose statements name it.
    homes: SecondaryMap<BufferId, Option<IndexId>>,
    /// The definitions and conditions from which ranges of integer scalars and indices are proved.
    ranges: ValueRanges<'a>,
}

impl<'a> Verifier<'a> {
    fn error(&mut self, message: String) {
        let (kernel, step) = (self.kernel, self.step);
        self.errors.push(VerifyError { kernel, step, unproved: None, message });
    }

    fn run(&mut self) {
        if self.kernel.is_none() {
            self.tapes();
        }
        self.buffers();
        self.argsort();
        self.block(&self.p.body, false);
        self.step = None;
        for (id, b) in &self.p.buffers {
            let output = matches!(b.place, Place::Output(_));
            if output && b.ty.bytes() > 0 && !self.written[id] && !b.zeroed {
                self.error(format!("output {id} is never written"));
            }
            if b.zeroed && !(output && self.kernel.is_none()) {
                self.error(format!("{id} is zeroed, and only results of the program are"));
            }
        }
    }

    /// Checks that the buffers and the workspace have the types and sizes that the kernel's argsort function
    /// accesses.
    fn argsort(&mut self) {
        let Some(argsort) = self.p.argsort else { return };
        let Argsort { key, rows, n, columns, first, descending: _ } = argsort;
        let all = |n: usize| rows.checked_mul(columns)?.checked_mul(n);
        let is = |place: Place, dtype: &str, n: usize| {
            let buffer = self.p.buffers.values().find(|b| b.place == place);
            buffer.is_some_and(|b| {
                b.ty.dtype.name() == dtype && b.ty.shape.checked_elements() == all(n)
            })
        };
        let places = self.p.buffers.values().filter(|b| !matches!(b.place, Place::Workspace(_)));
        if places.count() != 2
            || !is(Place::Input(0), key.word(), n)
            || !is(Place::Output(0), Dtype::I64.name(), first)
            || first > n
            || i32::try_from(n).is_err()
            || argsort.scratch_words() > self.p.workspace / Dtype::F64.bytes()
        {
            self.error(format!("the memory is not that of {argsort}"));
        }
    }

    fn buffers(&mut self) {
        let mut outputs = Vec::new();
        let mut inputs = OrderedMap::default();
        let p = self.p;
        for (id, b) in &p.buffers {
            let Some(bytes) = b.ty.checked_bytes() else {
                self.error(format!("{id} of type {} is larger than memory can be", b.ty));
                continue;
            };
            match b.place {
                Place::Input(n) | Place::Donated { input: n, .. } if n >= MOST_INPUTS => {
                    self.error(format!("{id} is input {n}, which is certainly a mistake"));
                }
                Place::Input(n) => {
                    let first = inputs.entry(n).or_insert(&b.ty);
                    if **first != b.ty {
                        self.error(format!("input {n} is both {first} and {}", b.ty));
                    }
                }
                Place::Donated { input, output } => {
                    let holds = |b: &Buffer| b.place.input() == Some(input);
                    if p.buffers.values().filter(|b| holds(b)).count() > 1 {
                        self.error(format!(
                            "input {input} is donated, but {id} is not its only buffer"
                        ));
                    }
                    outputs.push(output);
                }
                Place::Output(n) => outputs.push(n),
                Place::Workspace(offset) => {
                    if offset % BUFFER_ALIGNMENT_BYTES != 0 {
                        self.error(format!("{id} at workspace offset {offset} is not aligned"));
                    }
                    if offset.checked_add(bytes).is_none_or(|end| end > self.p.workspace) {
                        self.error(format!(
                            "{id} at workspace offset {offset} with {bytes} bytes ends beyond the \
                             workspace of {} bytes",
                            self.p.workspace
                        ));
                    }
                }
                Place::Private(_) if self.kernel.is_some() => {
                    self.error(format!("{id} is private, but the kernel is not the entry"));
                }
                Place::Private(offset) => {
                    if offset % BUFFER_ALIGNMENT_BYTES != 0 {
                        self.error(format!("{id} at private offset {offset} is not aligned"));
                    }
                    if offset.checked_add(bytes).is_none_or(|end| end > self.p.private) {
                        self.error(format!(
                            "{id} at private offset {offset} with {bytes} bytes ends beyond the private memory of {} \
                             bytes",
                            self.p.private
                        ));
                    }
                }
                Place::Record { cursor, offset } => self.recorded(id, (cursor, offset), &b.ty),
                Place::Unplaced => {}
            }
        }
        for id in self.p.buffers.keys() {
            for (before, version) in self.p.versions[id].iter().enumerate() {
                if version.continues.is_some_and(|of| of as usize > before) {
                    let held = BufferVersion { buffer: id, version: before as u32 + 1 };
                    self.error(format!("{held} continues a version that comes after it"));
                }
            }
        }
        for (held, marks) in &p.kept {
            match p.buffers.is_valid(held.buffer) {
                true => self.version(*held),
                false => self.error(format!("the `kept` buffer {held} does not exist")),
            }
            if let Some(mark) = marks.iter().find(|mark| !mark.is_well_formed()) {
                self.error(format!("the name of the `kept` buffer {held} is no word: {mark}"));
            }
            if let Some(mark) = marks.iter().find(|mark| mark.key_use().is_some()) {
                self.error(format!("{held} is `kept` as a random key: {mark}"));
            }
        }
        outputs.sort_unstable();
        if outputs.iter().enumerate().any(|(i, n)| i != *n) {
            self.error(format!("outputs are not numbered 0, 1, ..: {outputs:?}"));
        }
    }

    /// Checks a block and ends the scope of its definitions. If `dead` is true, the block never runs (a loop around
    /// it has no iterations), so addresses are not checked.
    fn block(&mut self, body: &'a [Stmt], dead: bool) {
        let scope = self.open(body, dead);
        self.close(scope);
    }

    /// Checks the statements of a block. The block's definitions stay in scope until `close` is called with the
    /// returned scope.
    fn open(&mut self, body: &'a [Stmt], dead: bool) -> Scope {
        let Scope { mut scalars, mut vars, mut cursors } = Scope::default();
        // The kernel's steps are the statements of the outermost block. A block is the outermost one if it is opened
        // before any step has begun.
        let top = self.step.is_none();
        for (i, stmt) in body.iter().enumerate() {
            if top {
                self.step = Some(i);
            }
            stmt.accesses(&mut |a| self.access(&a, dead));
            self.statement += 1;
            match stmt {
                Stmt::Nest { body, .. } => self.block(body, dead),
                Stmt::Contract(c) => self.contract(c),
                Stmt::Call(c) => self.call(c),
                Stmt::Tape(t) => {
                    self.tape_stmt(t);
                    scalars.extend(stmt.defined());
                    cursors.extend(stmt.moved_cursor());
                }
                Stmt::Limit(w) => self.limit(w),
                Stmt::Lap(timer) => self.timer(*timer),
                Stmt::CallExternal(a) => self.external(a),
                Stmt::If { condition, then, otherwise, .. } => {
                    self.operand("a condition", Dtype::Bool, *condition);
                    for (body, holds) in [(then, true), (otherwise, false)] {
                        self.ranges.facts.push((*condition, holds));
                        self.block(body, dead);
                        self.ranges.facts.pop();
                        self.ranges.invalidate_all(body);
                    }
                }
                Stmt::While { head, condition, carries, body: inside, .. } => {
                    let open = self.carries(carries, inside);
                    self.loops += 1;
                    self.ranges.invalidate_all(head);
                    self.ranges.invalidate_all(inside);
                    let scope = self.open(head, dead);
                    self.operand("a condition", Dtype::Bool, *condition);
                    self.ranges.facts.push((*condition, true));
                    self.block(inside, dead);
                    self.ranges.facts.pop();
                    self.close(scope);
                    self.loops -= 1;
                    self.carried.truncate(open);
                    self.ranges.invalidate_all(head);
                    self.ranges.invalidate_all(inside);
                }
                Stmt::For { index, extent, parallelism, carries, body, .. } => {
                    if let Extent::Scalar(a) = extent {
                        self.operand("an extent", Dtype::I64, *a);
                    }
                    if index.index() >= self.p.indices as usize {
                        self.error(format!("{index} is not below {}", self.p.indices));
                    }
                    if self.indices[*index].replace(Some(*extent)).is_some() {
                        self.error(format!("{index} is used by two loops"));
                    }
                    self.claim(stmt);
                    let around = self.concurrent;
                    if *parallelism == Parallelism::Concurrent {
                        self.concurrent = Some(*index);
                    }
                    let open = self.carries(carries, body);
                    self.ranges.count(*index, *extent);
                    let never = self.ranges.iterations(*extent).most == 0;
                    self.ranges.invalidate_all(body);
                    self.loops += 1;
                    self.block(body, dead || never);
                    self.loops -= 1;
                    self.concurrent = around;
                    self.ranges.invalidate_all(body);
                    self.carried.truncate(open);
                    self.indices[*index] = Some(None);
                }
                Stmt::Let { value, expr } => {
                    self.let_(*value, expr);
                    scalars.push(*value);
                }
                Stmt::Var { var, init } => {
                    let found = self.arg(*init);
                    self.fits(&format!("the first value of {var}"), self.var_dtype(*var), found);
                    if self.vars[*var] != State::Undefined {
                        self.error(format!("{var} is declared twice"));
                    }
                    self.vars[*var] = State::Visible;
                    self.ranges.invalidate(*var);
                    vars.push(*var);
                }
                Stmt::Set { var, value } => {
                    let (want, found) = (self.arg(Arg::Var(*var)), self.arg(*value));
                    self.fits(&format!("the value of {var}"), want, found);
                    self.ranges.invalidate(*var);
                }
                Stmt::Fold { var, code, value } => {
                    let (want, found) = (self.arg(Arg::Var(*var)), self.arg(*value));
                    if let (Some(a), Some(b)) = (want, found)
                        && code.typed(&[a, b]) != Some(a)
                    {
                        self.error(format!("fold of {b} into {var} of {a} by {code}"));
                    }
                    self.ranges.invalidate(*var);
                }
                Stmt::Store { held, value, .. } => {
                    let found = self.arg(*value);
                    let want = self.p.buffers.get(held.buffer).map(|b| b.ty.dtype);
                    self.fits(&format!("the element stored to {}", held.buffer), want, found);
                }
            }
        }
        Scope { scalars, vars, cursors }
    }

    fn close(&mut self, Scope { scalars, vars, cursors }: Scope) {
        for c in cursors {
            self.cursors[c] = State::Gone;
        }
        for s in scalars {
            self.scalars[s] = State::Gone;
        }
        for v in vars {
            self.vars[v] = State::Gone;
        }
    }

    fn let_(&mut self, value: ScalarId, expr: &'a Expr) {
        let found = match expr {
            Expr::Code(code, args) => {
                let dtypes: Vec<_> = args.iter().map(|a| self.arg(*a)).collect();
                match dtypes.iter().copied().collect::<Option<Vec<Dtype>>>() {
                    None => None,
                    Some(dtypes) => {
                        let result = code.typed(&dtypes);
                        if result.is_none() {
                            self.error(format!("{value}: {code} is not defined on {dtypes:?}"));
                        }
                        result
                    }
                }
            }
            Expr::Load { held, .. } => self.p.buffers.get(held.buffer).map(|b| b.ty.dtype),
        };
        let want = self.p.scalars.get(value).copied();
        if want.is_none() {
            self.error(format!("{value} has no dtype"));
        }
        self.fits(&value.to_string(), want, found);
        if self.define(value) {
            self.ranges.define(value, expr);
        }
    }

    /// Marks a scalar as defined, and reports a second definition. Returns whether this definition is the first.
    fn define(&mut self, value: ScalarId) -> bool {
        let first = self.scalars[value] == State::Undefined;
        if !first {
            self.error(format!("{value} is defined twice"));
        }
        self.scalars[value] = State::Visible;
        first
    }

    fn fits(&mut self, what: &str, want: Option<Dtype>, found: Option<Dtype>) {
        if let (Some(want), Some(found)) = (want, found)
            && want != found
        {
            self.error(format!("{what} must be {want}, got {found}"));
        }
    }

    /// Checks that the operand `arg` is in scope and has the dtype `want`; `what` describes the operand in messages.
    fn operand(&mut self, what: &str, want: Dtype, arg: Arg) {
        let found = self.arg(arg);
        self.fits(what, Some(want), found);
    }

    fn var_dtype(&self, var: VarId) -> Option<Dtype> {
        self.p.vars.get(var).copied()
    }

    /// Returns the dtype of an operand; reports an operand that is not in scope, and returns `None`.
    fn arg(&mut self, arg: Arg) -> Option<Dtype> {
        let (state, dtype) = match arg {
            Arg::Literal(l) => return Some(l.dtype),
            Arg::Scalar(s) => (self.scalars[s], self.p.scalars.get(s).copied()),
            Arg::Var(v) => (self.vars[v], self.var_dtype(v)),
            Arg::Index(i) => match self.indices[i] {
                Some(Some(_)) => (State::Visible, Some(Dtype::I64)),
                Some(None) => (State::Gone, None),
                None => (State::Undefined, None),
            },
        };
        match state {
            State::Visible => {
                if dtype.is_none() {
                    self.error(format!("{arg} has no dtype"));
                }
                return dtype;
            }
            State::Undefined => self.error(format!("{arg} is used before it is defined")),
            State::Gone => self.error(format!("{arg} is used outside its block")),
        }
        None
    }

    /// Checks an access: its guard and address have the right dtypes, its buffer exists, and its elements stay within
    /// the buffer.
    fn access(&mut self, a: &Access<'_>, dead: bool) {
        if let Some(g) = a.guard {
            self.operand("a guard", Dtype::Bool, g);
        }
        if let Some(d) = a.address.dynamic {
            self.operand("an address", Dtype::I64, d);
        }
        let Some(b) = self.p.buffers.get(a.held.buffer) else {
            return self.error(format!("{} does not exist", a.held.buffer));
        };
        self.named(a.held);
        if a.write {
            self.written[a.held.buffer] = true;
            if matches!(b.place, Place::Input(_)) {
                self.error(format!("input {} is written", a.held.buffer));
            }
        }
        if let Place::Record { cursor, .. } = b.place {
            self.at_cursor(a.held.buffer, cursor, a.write);
        }
        if dead || a.reach.iter().any(|(n, _)| *n == 0) {
            return;
        }
        let mut at = Interval::number(a.address.offset);
        let mut constant = a.address.dynamic.is_none();
        for (index, stride) in &a.address.terms {
            if self.arg(Arg::Index(*index)).is_none() {
                return;
            }
            match self.indices[*index] {
                Some(Some(Extent::Constant(n))) => at = at.plus(Interval::below(n).times(*stride)),
                Some(Some(Extent::Scalar(_)) | None) | None => constant = false,
            }
        }
        let elements = b.ty.shape.elements() as i128;
        let reach = spread(a);
        let inside = |at: Interval| at.plus(reach).within(Interval::new(0, elements - 1));
        if constant && inside(at) {
            return;
        }
        let mut sought = false;
        if !constant || a.guard.is_some() || !self.ranges.facts.is_empty() {
            // Search for the range of the address only if the extents of the loops alone do not prove the access.
            let Some(found) = self.ranges.address(a.address, a.guard) else { return };
            at = found;
            sought = true;
        }
        if !inside(at) {
            let Interval { least, most } = at.plus(reach);
            let what = format!("{}[{}]", a.held, a.address);
            let reaches = if sought { "may reach" } else { "reaches" };
            self.error(format!(
                "{what} {reaches} elements {least}..={most} of a buffer of {elements} elements"
            ));
            // The error counts as a missing proof only if ranges were searched. If the extents of the loops alone
            // decide, the access is certainly out of bounds.
            let unproved = (sought && a.reach.is_empty()).then_some(self.statement);
            self.errors.last_mut().into_iter().for_each(|e| e.unproved = unproved);
        }
    }

    fn version(&mut self, held: BufferVersion) {
        if held.version as usize > self.p.versions[held.buffer].len() {
            self.error(format!("{held} is not declared"));
        }
    }

    /// Checks a version that a statement names: it is declared, and its buffer has memory.
    fn named(&mut self, held: BufferVersion) {
        self.version(held);
        if self.p.buffers.get(held.buffer).is_some_and(|b| b.place == Place::Unplaced) {
            self.error(format!("{} has no memory", held.buffer));
        }
        if let Some(Place::Private(_)) = self.p.buffers.get(held.buffer).map(|b| b.place) {
            let here = self.concurrent;
            let home = self.homes[held.buffer].or(here);
            self.homes[held.buffer] = home;
            if here.is_none() || here != home {
                self.error(format!(
                    "{} is private, but not named in exactly one concurrent loop",
                    held.buffer
                ));
            }
        }
    }
}

/// Returns the range of the offsets of an access's elements from its address. If the range saturates, it lies outside
/// every buffer, so the access is refused.
fn spread(a: &Access<'_>) -> Interval {
    let along = a.reach.iter().map(|(n, stride)| Interval::below(*n).times(*stride));
    along.fold(Interval::number(0), Interval::plus)
}
