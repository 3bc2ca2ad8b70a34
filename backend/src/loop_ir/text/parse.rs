//! The text form of programs: parsing.
//!
//! The grammar is what [`print`](super::print) writes, and `parse ∘ print = id`. Ids are read as they
//! stand. The parser checks form; call [`verify`](crate::loop_ir::verify) for the rest. Library functions are
//! looked up by name, because only the tables of the language know them:
//!
//! ```
//! use tapeloom_backend::loop_ir;
//! let text = "\
//! program @double {
//!   buffer b0: f64[3] input 0
//!   buffer b1: f64[3] output 0
//!   for i0 in 3 {
//!     %0: f64 = load b0[i0]
//!     %1: f64 = mul %0, 2.0
//!     store b1[i0], %1
//!   }
//! }
//! ";
//! let program = loop_ir::parse(text, &|_| None)?;
//! assert_eq!(loop_ir::verify(&program), []);
//! assert_eq!(program.to_string(), text);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::loop_ir::loop_limits::{RUNTIME, STATIC};
use crate::loop_ir::{
    Address, Arg, Buffer, BufferId, BufferVersion, Call, CallHost, Carry, Contract, Cursor,
    CursorId, CursorTarget, Expr, Extent, HostSignature, IndexId, Kernel, KernelId, LimitStmt,
    LoopLimit, LoopLimitId, Matrix, Parallelism, Place, Program, ScalarId, Stmt, Sums, Tape,
    TapeId, TapeStmt, VarId, Version, View,
};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::sync::Arc;
use tapeloom_ir::prim::{Library, Mark, Parameter};
use tapeloom_ir::{ArrayType, Code, Dtype, Host, HostCall, Kind, Literal, Problem, is_word};

/// Reads a program; `library` finds functions by name.
///
/// # Errors
/// [`Kind::Parse`] with the line where the text stops making sense.
pub fn parse(text: &str, library: &dyn Fn(&str) -> Option<Library>) -> Result<Program, Problem> {
    let mut parser =
        Parser { text, at: 0, depth: 0, library, hosts: Vec::new(), program: Kernel::new("") };
    let mut program = Program::new("");
    while parser.take("tape") {
        let id: TapeId = parser.id()?;
        if id.index() != program.tapes.len() {
            return Err(parser.problem(format!("tapes are numbered in order, got {id}")));
        }
        parser.expect(":")?;
        program.tapes.push(Tape { record: parser.number()?, loc: None, within: Vec::new() });
    }
    while parser.take("limit") {
        let id: LoopLimitId = parser.id()?;
        if id.index() != program.limited.len() {
            return Err(parser.problem(format!("limits are numbered in order, got {id}")));
        }
        parser.expect(":")?;
        let runtime = parser.take(RUNTIME);
        if !runtime {
            parser.expect(STATIC)?;
        }
        program.limited.push(LoopLimit { runtime, loc: None });
    }
    while parser.take("kernel") {
        let id: KernelId = parser.id()?;
        if id.index() != program.callees.len() {
            return Err(parser.problem(format!("kernels are numbered in order, got {id}")));
        }
        let kernel = parser.kernel()?;
        program.callees.push(kernel);
    }
    parser.expect("program")?;
    program.entry = parser.kernel()?;
    match parser.next() {
        "" => Ok(program),
        more => Err(parser.wanted("the end", more)),
    }
}

/// Views, the types of what they show, and which of them all lanes share.
type TypedViews = (Vec<View>, Vec<ArrayType>, Vec<usize>);

/// Larger ids than this are surely not what was meant, and would take memory.
const MOST_IDS: usize = 1 << 24;

/// Blocks within blocks that a text may have, so that none exhausts the stack. No array that fits in
/// memory needs as many loops.
const DEEPEST_BLOCK: usize = 64;

struct Parser<'a> {
    text: &'a str,
    /// Bytes read.
    at: usize,
    /// Blocks around.
    depth: usize,
    library: &'a dyn Fn(&str) -> Option<Library>,
    /// Rust functions met so far; there is nothing behind them.
    hosts: Vec<Host>,
    /// The kernel that is being read.
    program: Kernel,
}

impl<'a> Parser<'a> {
    /// A kernel behind its keyword.
    fn kernel(&mut self) -> Result<Kernel, Problem> {
        let name = self.next();
        let Some(name) = name.strip_prefix('@') else { return Err(self.wanted("a name", name)) };
        self.program = Kernel::new(name);
        self.program.inline = self.take("inline");
        self.expect("{")?;
        if self.take("workspace") {
            self.program.workspace = self.number()?;
        }
        while self.take("buffer") {
            self.buffer()?;
        }
        while !self.take("}") {
            let stmt = self.stmt()?;
            self.program.body.push(stmt);
        }
        Ok(std::mem::replace(&mut self.program, Kernel::new("")))
    }

    fn buffer(&mut self) -> Result<(), Problem> {
        let id: BufferId = self.id()?;
        if id.index() != self.program.buffers.len() {
            return Err(self.problem(format!("buffers are numbered in order, got {id}")));
        }
        self.expect(":")?;
        let ty = self.array_type()?;
        let place = match self.next() {
            "input" => {
                let input = self.number()?;
                match self.take("output") {
                    true => Place::Given { input, output: self.number()? },
                    false => Place::Input(input),
                }
            }
            "output" => Place::Output(self.number()?),
            "workspace" => Place::Workspace(self.number()?),
            "record" => {
                let cursor = self.id()?;
                declare(&mut self.program.cursors, cursor, Cursor::Reads);
                Place::Record { cursor, offset: self.number()? }
            }
            other => return Err(self.wanted("input, output, workspace or record", other)),
        };
        let zeroed = self.take("zeroed");
        self.program.buffers.push(Buffer { ty, place, zeroed });
        self.kept(BufferVersion::first(id))?;
        while self.take("version") {
            let held = self.held()?;
            let versions = &mut self.program.versions[id];
            if held.buffer != id || held.version as usize != versions.len() + 1 {
                let message = format!("versions of {id} follow it, numbered in order");
                return Err(self.problem(message));
            }
            let mut continues = None;
            if self.take("continues") {
                continues = Some(self.held()?).filter(|of| of.buffer == id).map(|of| of.version);
                if continues.is_none() {
                    return Err(
                        self.problem(format!("a version of {id} continues another of {id}"))
                    );
                }
            }
            self.program.versions[id].push(Version { continues });
            self.kept(held)?;
        }
        Ok(())
    }

    /// `kept rematerialize, named mine`, or nothing.
    fn kept(&mut self, held: BufferVersion) -> Result<(), Problem> {
        if self.take("kept") {
            loop {
                let named = self.take("named");
                let word = self.next();
                let mark = match named {
                    true => is_word(word).then(|| Mark::Named(word.into())),
                    false => Mark::of_word(word),
                };
                let wanted = if named { "a name" } else { "a mark" };
                let Some(mark) = mark else { return Err(self.wanted(wanted, word)) };
                self.program.keep(held, mark);
                if !self.take(",") {
                    break;
                }
            }
        }
        Ok(())
    }

    /// `b3`, or `b3.1`
    fn held(&mut self) -> Result<BufferVersion, Problem> {
        let word = self.peek();
        let Some((buffer, version)) = word.split_once('.') else {
            return Ok(BufferVersion::first(self.id()?));
        };
        let id = |word: &str| word.strip_prefix('b').and_then(|n| n.parse::<usize>().ok());
        match (id(buffer), version.parse::<u32>()) {
            (Some(buffer), Ok(version)) if version > 0 => {
                self.next();
                Ok(BufferVersion { buffer: BufferId::new(self.small(buffer)?), version })
            }
            _ => Err(self.wanted("an id like b0 or b0.1", word)),
        }
    }

    fn block(&mut self) -> Result<Vec<Stmt>, Problem> {
        self.expect("{")?;
        if self.depth == DEEPEST_BLOCK {
            return Err(self.problem(format!("blocks nest more than {DEEPEST_BLOCK} deep")));
        }
        self.depth += 1;
        let mut body = Vec::new();
        while !self.take("}") {
            body.push(self.stmt()?);
        }
        self.depth -= 1;
        Ok(body)
    }

    fn stmt(&mut self) -> Result<Stmt, Problem> {
        if self.take("nest") {
            return Ok(Stmt::Nest { body: self.block()? });
        }
        if self.take("contract") {
            return Ok(Stmt::Contract(self.contract()?));
        }
        if self.take("ask") {
            return Ok(Stmt::CallHost(self.ask()?));
        }
        if self.take("turn") {
            let cursor: CursorId = self.id()?;
            self.expect("to")?;
            let (does, to) = if self.take("(") {
                let word = self.arg()?;
                self.expect(")")?;
                (Cursor::Reads, CursorTarget::Handle(word))
            } else {
                (Cursor::Writes, CursorTarget::Tape(self.id()?))
            };
            declare(&mut self.program.cursors, cursor, does);
            self.expect("[")?;
            let index = self.arg()?;
            self.expect("]")?;
            return Ok(Stmt::Tape(TapeStmt::Turn { cursor, to, index }));
        }
        if self.take("enter") {
            let limit = self.id()?;
            let trip = if self.take("for") { Some(self.arg()?) } else { None };
            return Ok(Stmt::Limit(LimitStmt::Enter { limit, trip }));
        }
        if self.take("count") {
            return Ok(Stmt::Limit(LimitStmt::Count(self.id()?)));
        }
        if self.take("cut") {
            let tape = self.id()?;
            self.expect("to")?;
            return Ok(Stmt::Tape(TapeStmt::Cut { tape, to: self.arg()? }));
        }
        if self.take("call") {
            return Ok(Stmt::Call(self.call()?));
        }
        if self.take("if") {
            let (condition, then) = (self.arg()?, self.block()?);
            let otherwise = if self.take("else") { self.block()? } else { Vec::new() };
            return Ok(Stmt::If { condition, then, otherwise });
        }
        if self.take("while") {
            let (head, condition, carries) = (self.block()?, self.arg()?, self.carries()?);
            return Ok(Stmt::While { head, condition, carries, body: self.block()? });
        }
        for parallelism in [Parallelism::Parallel, Parallelism::Fold, Parallelism::Serial] {
            if self.take(&parallelism.to_string()) {
                return self.loop_(parallelism);
            }
        }
        if self.take("var") {
            let var: VarId = self.id()?;
            self.expect(":")?;
            let dtype = self.dtype()?;
            declare(&mut self.program.vars, var, dtype);
            self.expect("=")?;
            return Ok(Stmt::Var { var, init: self.arg()? });
        }
        if self.take("store") {
            let (held, address) = self.element()?;
            self.expect(",")?;
            let value = self.arg()?;
            return Ok(Stmt::Store { held, address, value, guard: self.guard()? });
        }
        if self.peek().starts_with('%') {
            let value: ScalarId = self.id()?;
            self.expect(":")?;
            let dtype = self.dtype()?;
            declare(&mut self.program.scalars, value, dtype);
            self.expect("=")?;
            if dtype == Dtype::I64 && self.take("length") {
                return Ok(Stmt::Tape(TapeStmt::Length { value, tape: self.id()? }));
            }
            return Ok(Stmt::Let { value, expr: self.expr()? });
        }
        let var: VarId = self.id()?;
        self.expect("=")?;
        if !self.peek().starts_with(|c: char| c.is_ascii_lowercase()) || is_arg(self.peek()) {
            return Ok(Stmt::Set { var, value: self.arg()? });
        }
        let code = self.code()?;
        let again: VarId = self.id()?;
        if again != var {
            return Err(self.problem(format!("a fold into {var} combines {var}, not {again}")));
        }
        self.expect(",")?;
        Ok(Stmt::Fold { var, code, value: self.arg()? })
    }

    /// `i0 in 8 lanes 4 { .. }`, `i0 in 8 carry b3 = b4 { .. }`
    fn loop_(&mut self, parallelism: Parallelism) -> Result<Stmt, Problem> {
        let index: IndexId = self.id()?;
        self.program.indices = self.program.indices.max(index.index() as u32 + 1);
        self.expect("in")?;
        let extent = if self.take("(") {
            let extent = self.arg()?;
            self.expect(")")?;
            Extent::Scalar(extent)
        } else {
            Extent::Constant(self.number()?)
        };
        let lanes = if self.take("lanes") { self.number()? } else { 1 };
        let carries = self.carries()?;
        Ok(Stmt::For { index, extent, parallelism, lanes, carries, body: self.block()? })
    }

    fn carries(&mut self) -> Result<Vec<Carry>, Problem> {
        let mut carries = Vec::new();
        if !self.take("carry") {
            return Ok(carries);
        }
        loop {
            let now = self.held()?;
            self.expect("=")?;
            carries.push(Carry { now, next: self.held()? });
            if !self.take(",") {
                return Ok(carries);
            }
        }
    }

    /// `k0(b0[0; 4], b1[i0; 1]) to (b2[0; 4]) frame 64`
    fn call(&mut self) -> Result<Call, Problem> {
        let callee = self.id()?;
        let operands = self.views()?;
        self.expect("to")?;
        let outputs = self.views()?;
        self.expect("frame")?;
        Ok(Call { callee, operands, outputs, frame: self.number()? })
    }

    fn ask(&mut self) -> Result<CallHost, Problem> {
        let word = self.next();
        let Some(name) = word.strip_prefix('&') else {
            return Err(self.wanted("a Rust function such as `&f`", word));
        };
        let known = self.hosts.iter().find(|h| h.name() == name).cloned();
        let host = known.unwrap_or_else(|| Host::unbound(name));
        self.hosts.push(host.clone());
        let lanes = if self.take("lanes") { Some(self.number()?) } else { None };
        let (operands, types, shared) = self.typed_views()?;
        self.expect("to")?;
        let (outputs, results, _) = self.typed_views()?;
        let alone = |ty: ArrayType| match (lanes, ty.shape.split_first()) {
            (Some(n), Some((first, rest))) if *first == n => Ok(ArrayType::new(ty.dtype, rest)),
            (Some(n), _) => Err(self.problem(format!("{ty} has not {n} lanes"))),
            (None, _) => Ok(ty),
        };
        let results = results.into_iter().map(alone).collect::<Result<_, _>>()?;
        let call = HostCall { host, results, lanes, shared };
        let asked = Arc::new(HostSignature { call, operands: types, location: None });
        Ok(CallHost { asked, operands, outputs })
    }

    /// Views with their types, and which of them are shared.
    fn typed_views(&mut self) -> Result<TypedViews, Problem> {
        let (mut views, mut types, mut shared) = TypedViews::default();
        self.expect("(")?;
        while !self.take(")") {
            if self.take("shared") {
                shared.push(views.len());
            }
            views.push(self.view()?);
            self.expect(":")?;
            types.push(self.array_type()?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok((views, types, shared))
    }

    /// `f64[3,4]`
    fn array_type(&mut self) -> Result<ArrayType, Problem> {
        let dtype = self.dtype()?;
        self.expect("[")?;
        let mut shape: Vec<usize> = Vec::new();
        while !self.take("]") {
            shape.push(self.number()?);
            self.take(",");
        }
        Ok(ArrayType::new(dtype, shape))
    }

    fn views(&mut self) -> Result<Vec<View>, Problem> {
        let mut views = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            views.push(self.view()?);
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(views)
    }

    fn view(&mut self) -> Result<View, Problem> {
        let held = self.held()?;
        self.expect("[")?;
        let at = self.address()?;
        self.expect(";")?;
        let view = View { held, at, elements: self.number()? };
        self.expect("]")?;
        Ok(view)
    }

    fn expr(&mut self) -> Result<Expr, Problem> {
        if self.take("load") {
            let (held, address) = self.element()?;
            return Ok(Expr::Load { held, address, guard: self.guard()? });
        }
        let code = self.code()?;
        let mut args = vec![self.arg()?];
        while self.take(",") {
            args.push(self.arg()?);
        }
        Ok(Expr::Code(code, args))
    }

    fn code(&mut self) -> Result<Code, Problem> {
        let name = self.next();
        let mut parameter = None;
        if self.take("{") {
            match self.next() {
                "to" => {
                    self.expect("=")?;
                    parameter = Some(Parameter::To(self.dtype()?));
                }
                "n" => {
                    self.expect("=")?;
                    parameter = Some(Parameter::N(self.number::<i64>()?));
                }
                other => return Err(self.wanted("an attribute", other)),
            }
            self.expect("}")?;
        }
        let code = Code::named(name, parameter, self.library);
        code.ok_or_else(|| self.wanted("the name of a code", name))
    }

    fn guard(&mut self) -> Result<Option<Arg>, Problem> {
        let start = self.at;
        if !self.take("if") {
            return Ok(None);
        }
        let guard = self.arg()?;
        if self.peek() == "{" {
            // The next statement is a branch.
            self.at = start;
            return Ok(None);
        }
        Ok(Some(guard))
    }

    fn arg(&mut self) -> Result<Arg, Problem> {
        let word = self.next();
        let id = |prefix: char| word.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
        if let Some(n) = id('%') {
            return Ok(Arg::Scalar(ScalarId::new(self.small(n)?)));
        }
        if let Some(n) = id('v') {
            return Ok(Arg::Var(VarId::new(self.small(n)?)));
        }
        if let Some(n) = id('i') {
            return Ok(Arg::Index(IndexId::new(self.small(n)?)));
        }
        match word.parse::<Literal>() {
            Ok(l) => Ok(Arg::Literal(l)),
            Err(_) => Err(self.wanted("an operand", word)),
        }
    }

    /// `b0[i0*3 + i1 + 5 + (%2)]`
    fn element(&mut self) -> Result<(BufferVersion, Address), Problem> {
        let held = self.held()?;
        self.expect("[")?;
        let address = self.address()?;
        self.expect("]")?;
        Ok((held, address))
    }

    fn address(&mut self) -> Result<Address, Problem> {
        let mut address = Address::default();
        loop {
            if self.take("(") {
                address.dynamic = Some(self.arg()?);
                self.expect(")")?;
            } else if self.peek().starts_with('i') {
                let index = self.id()?;
                let stride = if self.take("*") { self.number()? } else { 1 };
                address.terms.push((index, stride));
            } else {
                address.offset = self.number()?;
            }
            if !self.take("+") {
                return Ok(address);
            }
        }
    }

    /// `f64 2 x 3 x 4 lanes 1: b2[0; 3, 1] = b0[0; 4, 1] * b1[0; 3, 1] for 5 steps 6 = 8 * 12`
    fn contract(&mut self) -> Result<Contract, Problem> {
        let dtype = self.dtype()?;
        let m = self.number()?;
        self.expect("x")?;
        let n = self.number()?;
        self.expect("x")?;
        let k = self.number()?;
        let sums = if self.take("lanes") { Sums::Lanes(self.number()?) } else { Sums::Library };
        self.expect(":")?;
        let out = self.matrix()?;
        let accumulate = self.take("+");
        self.expect("=")?;
        let lhs = self.matrix()?;
        self.expect("*")?;
        let rhs = self.matrix()?;
        let mut batch = Vec::new();
        loop {
            let start = self.at;
            if !self.take("for") {
                break;
            }
            if self.peek().starts_with('i') {
                // The next statement is a loop.
                self.at = start;
                break;
            }
            let extent = self.number()?;
            self.expect("steps")?;
            let out = self.number()?;
            self.expect("=")?;
            let lhs = self.number()?;
            self.expect("*")?;
            batch.push((extent, lhs, self.number()?, out));
        }
        Ok(Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch })
    }

    fn matrix(&mut self) -> Result<Matrix, Problem> {
        let held = self.held()?;
        self.expect("[")?;
        let at = self.address()?;
        self.expect(";")?;
        let row = self.number()?;
        self.expect(",")?;
        let column = self.number()?;
        self.expect("]")?;
        Ok(Matrix { held, at, row, column })
    }

    fn dtype(&mut self) -> Result<Dtype, Problem> {
        let word = self.next();
        Dtype::from_name(word).ok_or_else(|| self.wanted("a dtype", word))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, Problem> {
        let word = self.next();
        word.parse().map_err(|_| self.wanted("a number", word))
    }

    /// An id of that kind, recognised by how it displays.
    fn id<T: EntityRef + std::fmt::Display>(&mut self) -> Result<T, Problem> {
        let word = self.next();
        let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        if let Ok(n) = digits.parse::<usize>() {
            let id = T::new(self.small(n)?);
            if id.to_string() == word {
                return Ok(id);
            }
        }
        let like = T::new(0).to_string();
        Err(self.wanted(&format!("an id like {like}"), word))
    }

    fn small(&self, n: usize) -> Result<usize, Problem> {
        let large = || self.problem(format!("the id {n} is too large"));
        (n < MOST_IDS).then_some(n).ok_or_else(large)
    }

    fn expect(&mut self, token: &str) -> Result<(), Problem> {
        match self.next() {
            found if found == token => Ok(()),
            found => Err(self.wanted(&format!("`{token}`"), found)),
        }
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    fn peek(&self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        let punctuation = |c: char| "{}[](),:=*+;".contains(c);
        let end = match rest.chars().next() {
            Some(c) if punctuation(c) => c.len_utf8(),
            _ => rest.find(|c: char| c.is_whitespace() || punctuation(c)).unwrap_or(rest.len()),
        };
        &rest[..end]
    }

    fn next(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let token = self.peek();
        self.at += rest.len() - rest.trim_start().len() + token.len();
        token
    }

    fn wanted(&self, what: &str, found: &str) -> Problem {
        let found = if found.is_empty() { "the end" } else { found };
        self.problem(format!("expected {what}, found `{found}`"))
    }

    fn problem(&self, message: String) -> Problem {
        let line = self.text[..self.at].lines().count().max(1);
        Problem::new(Kind::Parse, format!("kernel text, line {line}: {message}"), "")
    }
}

/// Whether a word is an operand and not the name of a code.
fn is_arg(word: &str) -> bool {
    let id = |prefix| word.strip_prefix(prefix).is_some_and(|n: &str| n.parse::<u32>().is_ok());
    id('v') || id('i') || word.parse::<Literal>().is_ok()
}

/// Says what an id is; ids that are skipped are something and have no definition.
fn declare<T: EntityRef, V: Copy>(map: &mut PrimaryMap<T, V>, id: T, what: V) {
    while map.len() <= id.index() {
        map.push(what);
    }
    map[id] = what;
}
