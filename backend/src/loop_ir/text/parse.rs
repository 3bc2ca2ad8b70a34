//! The text form of programs: parsing.
//!
//! The output of [`print`](super::print) defines the grammar, and parsing a printed program returns the same program.
//! Ids keep their numbers. The parser checks only the form; [`verify`](crate::loop_ir::verify) checks the rest. The
//! caller passes a function that finds library functions by name, since only the language's tables of operations list
//! them:
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
    Address, Arg, Buffer, BufferId, BufferVersion, Call, CallExternal, Carry, Contract, Cursor,
    CursorId, CursorTarget, Expr, Extent, External, ExternalSignature, IndexId, Kernel, LimitStmt,
    LoopLimit, Matrix, Origins, Parallelism, Place, Program, ScalarId, Stmt, Sums, Tape, TapeStmt,
    VarId, Version, View,
};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::fmt::Display;
use std::sync::Arc;
use tapeloom_ir::prim::{Library, Mark, Parameter, RoutineCall};
use tapeloom_ir::{ArrayType, Code, Dtype, Host, HostCall, Kind, Literal, Problem, is_word};
use tapeloom_routines::{Argsort, Routine};

/// Parses the text of a program; `library` looks up library functions by name.
///
/// # Errors
/// [`Kind::Parse`] with the line of the first error.
pub fn parse(text: &str, library: &dyn Fn(&str) -> Option<Library>) -> Result<Program, Problem> {
    let mut parser =
        Parser { text, at: 0, depth: 0, library, hosts: Vec::new(), program: Kernel::new("") };
    let mut program = Program::new("");
    while parser.take("tape") {
        parser.numbered("tapes", program.tapes.next_key())?;
        let record = parser.after_token(":", Parser::number)?;
        program.tapes.push(Tape { record, loc: None, within: Vec::new() });
    }
    while parser.take("limit") {
        parser.numbered("limits", program.limited.next_key())?;
        parser.expect(":")?;
        let runtime = parser.take(RUNTIME);
        if !runtime {
            parser.expect(STATIC)?;
        }
        program.limited.push(LoopLimit { runtime, loc: None });
    }
    if parser.take("timers") {
        program.timers = parser.number()?;
    }
    while parser.take("kernel") {
        parser.numbered("kernels", program.callees.next_key())?;
        program.callees.push(parser.kernel()?);
    }
    parser.expect("program")?;
    program.entry = parser.kernel()?;
    match parser.next() {
        "" => Ok(program),
        more => Err(parser.wanted("the end", more)),
    }
}

/// The origins of parsed statements: the text form does not print origins, so there are none.
const NOT_PRINTED: Origins = Origins::NONE;

/// The views of a call, the types of the arrays in them, and the indices of the views that all batch members share.
type TypedViews = (Vec<View>, Vec<ArrayType>, Vec<usize>);

/// The upper bound of id numbers (2^24): a larger number is certainly a mistake, and would allocate memory for all
/// ids below it.
const MOST_IDS: usize = 1 << 24;

/// The maximal nesting depth of blocks, so that no text exhausts the stack. Loops over an array that fits in memory
/// nest less deep: 64 axes of two elements have 2^64 elements.
const DEEPEST_BLOCK: usize = 64;

struct Parser<'a> {
    text: &'a str,
    /// The offset in `text`, in bytes, of the first character that is not parsed yet.
    at: usize,
    /// The number of blocks around the current statement, at most `DEEPEST_BLOCK`.
    depth: usize,
    library: &'a dyn Fn(&str) -> Option<Library>,
    /// The Rust functions that the text has named so far. Only their names are known; they are not bound to
    /// functions.
    hosts: Vec<Host>,
    /// The kernel that is being parsed; moved to the program at its end.
    program: Kernel,
}

impl<'a> Parser<'a> {
    /// Parses a kernel, from its name to its closing brace; the keyword before the name has been parsed.
    fn kernel(&mut self) -> Result<Kernel, Problem> {
        let name = self.next();
        let Some(name) = name.strip_prefix('@') else { return Err(self.wanted("a name", name)) };
        self.program = Kernel::new(name);
        self.program.inline = self.take("inline");
        if self.take("argsort") {
            let argsort = Argsort::named(&self.attributes()?);
            self.program.argsort =
                Some(argsort.ok_or_else(|| self.wanted("an argsort with its attributes", name))?);
        }
        self.expect("{")?;
        if self.take("workspace") {
            self.program.workspace = self.number()?;
        }
        if self.take("private") {
            self.program.private = self.number()?;
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
        let id = self.numbered("buffers", self.program.buffers.next_key())?;
        let ty = self.after_token(":", Self::array_type)?;
        let place = match self.next() {
            "input" => {
                let input = self.number()?;
                match self.take("output") {
                    true => Place::Donated { input, output: self.number()? },
                    false => Place::Input(input),
                }
            }
            "output" => Place::Output(self.number()?),
            "workspace" => Place::Workspace(self.number()?),
            "private" => Place::Private(self.number()?),
            "unplaced" => Place::Unplaced,
            "record" => {
                let cursor = self.id()?;
                declare(&mut self.program.cursors, cursor, Cursor::Reads);
                Place::Record { cursor, offset: self.number()? }
            }
            other => {
                return Err(
                    self.wanted("input, output, workspace, private, unplaced or record", other)
                );
            }
        };
        let zeroed = self.take("zeroed");
        self.program.buffers.push(Buffer { ty, place, zeroed });
        self.saved_marks(BufferVersion::first(id))?;
        while self.take("version") {
            let held = self.buffer_version()?;
            let versions = &mut self.program.versions[id];
            if held.buffer != id || held.version as usize != versions.len() + 1 {
                let message = format!("versions of {id} follow it, numbered in order");
                return Err(self.problem(message));
            }
            let mut continues = None;
            if self.take("continues") {
                continues =
                    Some(self.buffer_version()?).filter(|of| of.buffer == id).map(|of| of.version);
                if continues.is_none() {
                    return Err(
                        self.problem(format!("a version of {id} continues another of {id}"))
                    );
                }
            }
            self.program.versions[id].push(Version { continues });
            self.saved_marks(held)?;
        }
        Ok(())
    }

    /// Parses the marks of a saved version, such as `kept rematerialize, named mine`; there may be none.
    fn saved_marks(&mut self, held: BufferVersion) -> Result<(), Problem> {
        let mark = |parser: &mut Self| {
            let (named, word) = (parser.take("named"), parser.next());
            let (mark, wanted) = match named {
                true => (is_word(word).then(|| Mark::Named(word.into())), "a name"),
                false => (Mark::of_word(word), "a mark"),
            };
            mark.ok_or_else(|| parser.wanted(wanted, word))
        };
        let marks = if self.take("kept") { self.several(mark)? } else { Vec::new() };
        marks.into_iter().for_each(|mark| self.program.keep(held, mark));
        Ok(())
    }

    /// Parses a buffer version: `b3` or `b3.1`.
    fn buffer_version(&mut self) -> Result<BufferVersion, Problem> {
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
            return Ok(Stmt::Nest { body: self.block()?, origins: NOT_PRINTED });
        }
        if self.take("contract") {
            return Ok(Stmt::Contract(self.contract()?));
        }
        if self.take("ask") {
            return Ok(Stmt::CallExternal(self.host_call()?));
        }
        if self.take("routine") {
            return Ok(Stmt::CallExternal(self.routine()?));
        }
        if self.take("seek") {
            let cursor: CursorId = self.id()?;
            self.expect("to")?;
            let (does, to) = match self.peek() {
                "(" => (Cursor::Reads, CursorTarget::Handle(self.between("(", ")", Self::arg)?)),
                _ => (Cursor::Writes, CursorTarget::Tape(self.id()?)),
            };
            declare(&mut self.program.cursors, cursor, does);
            let index = self.between("[", "]", Self::arg)?;
            return Ok(Stmt::Tape(TapeStmt::MoveCursor { cursor, to, index }));
        }
        if self.take("enter") {
            let limit = self.id()?;
            let trip = if self.take("for") { Some(self.arg()?) } else { None };
            return Ok(Stmt::Limit(LimitStmt::Enter { limit, trip }));
        }
        if self.take("count") {
            return Ok(Stmt::Limit(LimitStmt::Count(self.id()?)));
        }
        if self.take("lap") {
            return Ok(Stmt::Lap(self.id()?));
        }
        if self.take("cut") {
            let (tape, to) = (self.id()?, self.after_token("to", Self::arg)?);
            return Ok(Stmt::Tape(TapeStmt::Cut { tape, to }));
        }
        if self.take("call") {
            return Ok(Stmt::Call(self.call()?));
        }
        if self.take("if") {
            let (condition, then) = (self.arg()?, self.block()?);
            let otherwise = if self.take("else") { self.block()? } else { Vec::new() };
            return Ok(Stmt::If { condition, then, otherwise, origins: NOT_PRINTED });
        }
        if self.take("while") {
            let (head, condition, carries) = (self.block()?, self.arg()?, self.carries()?);
            let (body, origins) = (self.block()?, NOT_PRINTED);
            return Ok(Stmt::While { head, condition, carries, body, origins });
        }
        for parallelism in Parallelism::ALL {
            if self.take(&parallelism.to_string()) {
                return self.loop_(parallelism);
            }
        }
        if self.take("var") {
            let var: VarId = self.id()?;
            let dtype = self.between(":", "=", Self::dtype)?;
            declare(&mut self.program.vars, var, dtype);
            return Ok(Stmt::Var { var, init: self.arg()? });
        }
        if self.take("store") {
            let (held, address) = self.element()?;
            let value = self.after_token(",", Self::arg)?;
            return Ok(Stmt::Store { held, address, value, guard: self.guard()? });
        }
        if self.peek().starts_with('%') {
            let value: ScalarId = self.id()?;
            let dtype = self.between(":", "=", Self::dtype)?;
            declare(&mut self.program.scalars, value, dtype);
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
        Ok(Stmt::Fold { var, code, value: self.after_token(",", Self::arg)? })
    }

    /// Parses the rest of a loop after its keyword, such as `i0 in 8 lanes 4 { .. }` or `i0 in 8 carry b3 = b4 { .. }`.
    fn loop_(&mut self, parallelism: Parallelism) -> Result<Stmt, Problem> {
        let index: IndexId = self.id()?;
        self.program.indices = self.program.indices.max(index.index() as u32 + 1);
        self.expect("in")?;
        let extent = match self.peek() {
            "(" => Extent::Scalar(self.between("(", ")", Self::arg)?),
            _ => Extent::Constant(self.number()?),
        };
        let lanes = if self.take("lanes") { self.number()? } else { 1 };
        let carries = self.carries()?;
        let (body, origins) = (self.block()?, NOT_PRINTED);
        Ok(Stmt::For { index, extent, parallelism, lanes, carries, body, origins })
    }

    fn carries(&mut self) -> Result<Vec<Carry>, Problem> {
        if !self.take("carry") {
            return Ok(Vec::new());
        }
        self.several(|parser| {
            Ok(Carry {
                input: parser.buffer_version()?,
                output: parser.after_token("=", Self::buffer_version)?,
            })
        })
    }

    /// Parses the rest of a call of a kernel after the word `call` (callee, operands, results, frame). Example:
    /// `k0(b0[0; 4], b1[i0; 1]) to (b2[0; 4]) frame 64`.
    fn call(&mut self) -> Result<Call, Problem> {
        let (callee, operands) = (self.id()?, self.list("(", ")", Self::view)?);
        let outputs = self.after_token("to", |parser| parser.list("(", ")", Self::view))?;
        let frame = self.after_token("frame", Self::number)?;
        Ok(Call { callee, operands, outputs, frame, origins: NOT_PRINTED })
    }

    fn host_call(&mut self) -> Result<CallExternal, Problem> {
        let word = self.next();
        let Some(name) = word.strip_prefix('&') else {
            return Err(self.wanted("a Rust function such as `&f`", word));
        };
        let known = self.hosts.iter().find(|h| h.name() == name).cloned();
        let host = known.unwrap_or_else(|| Host::unbound(name));
        self.hosts.push(host.clone());
        let lanes = if self.take("lanes") { Some(self.number()?) } else { None };
        let (operands, types, shared) = self.typed_views()?;
        let (outputs, results, _) = self.after_token("to", Self::typed_views)?;
        let alone = |ty: ArrayType| match (lanes, ty.shape.split_first()) {
            (Some(n), Some((first, rest))) if *first == n => Ok(ArrayType::new(ty.dtype, rest)),
            (Some(n), _) => Err(self.problem(format!("{ty} has not {n} lanes"))),
            (None, _) => Ok(ty),
        };
        let results = results.into_iter().map(alone).collect::<Result<_, _>>()?;
        let call = HostCall { host, results, lanes, shared };
        let function = External::Host(call);
        let signature = Arc::new(ExternalSignature { function, operands: types, location: None });
        Ok(CallExternal { signature, operands, outputs, origins: NOT_PRINTED })
    }

    /// Parses the attributes of a routine: `{n=9, full=true}`.
    fn attributes(&mut self) -> Result<Vec<(&'a str, &'a str)>, Problem> {
        self.list("{", "}", |parser| {
            let attribute = parser.next();
            Ok((attribute, parser.after_token("=", |parser| Ok(parser.next()))?))
        })
    }

    /// Parses the rest of a call of a routine after the word `routine` (name, attributes, dtype, batch members,
    /// operands, results). Example: `cholesky{n=9} f64 members 2 (b0[0; 162]) to (b1[0; 162], b2[0; 20])`.
    fn routine(&mut self) -> Result<CallExternal, Problem> {
        let name = self.next();
        let attributes = self.attributes()?;
        let known = Routine::named(name, &attributes);
        let routine = known.ok_or_else(|| self.wanted("a routine with its attributes", name))?;
        let dtype = self.dtype()?;
        if !dtype.is_float() {
            return Err(self.wanted("f32 or f64", dtype.name()));
        }
        let call = RoutineCall::new(routine, dtype, &[self.after_token("members", Self::number)?]);
        if !call.fits() {
            return Err(
                self.problem(format!("the arrays of `{name}` are larger than memory can be"))
            );
        }
        let operands = self.list("(", ")", Self::view)?;
        let outputs = self.after_token("to", |parser| parser.list("(", ")", Self::view))?;
        let signature = Arc::new(ExternalSignature::routine(call, None)?);
        Ok(CallExternal { signature, operands, outputs, origins: NOT_PRINTED })
    }

    /// Parses views with their types in parentheses, and collects the indices of the views marked `shared`.
    fn typed_views(&mut self) -> Result<TypedViews, Problem> {
        let (mut types, mut shared) = (Vec::new(), Vec::new());
        let views = self.list("(", ")", |parser| {
            if parser.take("shared") {
                shared.push(types.len());
            }
            let view = parser.view()?;
            types.push(parser.after_token(":", Self::array_type)?);
            Ok(view)
        })?;
        Ok((views, types, shared))
    }

    /// Parses an array type: `f64[3,4]`.
    fn array_type(&mut self) -> Result<ArrayType, Problem> {
        Ok(ArrayType::new(self.dtype()?, self.list("[", "]", Self::number)?))
    }

    fn view(&mut self) -> Result<View, Problem> {
        let (held, at) = (self.buffer_version()?, self.after_token("[", Self::address)?);
        Ok(View { held, at, elements: self.between(";", "]", Self::number)? })
    }

    fn expr(&mut self) -> Result<Expr, Problem> {
        if self.take("load") {
            let (held, address) = self.element()?;
            return Ok(Expr::Load { held, address, guard: self.guard()? });
        }
        Ok(Expr::Code(self.code()?, self.several(Self::arg)?))
    }

    fn code(&mut self) -> Result<Code, Problem> {
        let name = self.next();
        let mut parameter = None;
        if self.take("{") {
            parameter = Some(match self.next() {
                "to" => Parameter::To(self.between("=", "}", Self::dtype)?),
                "n" => Parameter::N(self.between("=", "}", Self::number)?),
                other => return Err(self.wanted("an attribute", other)),
            });
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
            // A block follows the condition, so this `if` is no guard: the word begins the next statement, a branch.
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

    /// Parses an element of a buffer: `b0[i0*3 + i1 + 5 + (%2)]`.
    fn element(&mut self) -> Result<(BufferVersion, Address), Problem> {
        Ok((self.buffer_version()?, self.between("[", "]", Self::address)?))
    }

    fn address(&mut self) -> Result<Address, Problem> {
        let mut address = Address::default();
        loop {
            if self.peek() == "(" {
                address.dynamic = Some(self.between("(", ")", Self::arg)?);
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

    /// Parses the rest of a contraction after the word `contract` (dtype, sizes, lanes, matrices, batch loops).
    /// Example: `f64 2 x 3 x 4 lanes 1: b2[0; 3, 1] = b0[0; 4, 1] * b1[0; 3, 1] for 5 steps 6 = 8 * 12`.
    fn contract(&mut self) -> Result<Contract, Problem> {
        let dtype = self.dtype()?;
        let (m, n) = (self.number()?, self.after_token("x", Self::number)?);
        let k = self.after_token("x", Self::number)?;
        let sums = if self.take("lanes") { Sums::Lanes(self.number()?) } else { Sums::Library };
        let out = self.after_token(":", Self::matrix)?;
        let accumulate = self.take("+");
        let (lhs, rhs) =
            (self.after_token("=", Self::matrix)?, self.after_token("*", Self::matrix)?);
        let mut batch = Vec::new();
        loop {
            let start = self.at;
            if !self.take("for") {
                break;
            }
            if self.peek().starts_with('i') {
                // An index follows, so this `for` is no batch loop: the word begins the next statement, a loop.
                self.at = start;
                break;
            }
            let (extent, out) = (self.number()?, self.after_token("steps", Self::number)?);
            let lhs = self.after_token("=", Self::number)?;
            batch.push((extent, lhs, self.after_token("*", Self::number)?, out));
        }
        let origins = NOT_PRINTED;
        Ok(Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch, origins })
    }

    fn matrix(&mut self) -> Result<Matrix, Problem> {
        let (held, at) = (self.buffer_version()?, self.after_token("[", Self::address)?);
        let row = self.after_token(";", Self::number)?;
        Ok(Matrix { held, at, row, column: self.between(",", "]", Self::number)? })
    }

    fn dtype(&mut self) -> Result<Dtype, Problem> {
        let word = self.next();
        Dtype::from_name(word).ok_or_else(|| self.wanted("a dtype", word))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, Problem> {
        let word = self.next();
        word.parse().map_err(|_| self.wanted("a number", word))
    }

    /// Parses an id of type `T`: a token that equals the `Display` text of an id, such as `b3`.
    fn id<T: EntityRef + Display>(&mut self) -> Result<T, Problem> {
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

    /// Parses the id of a declaration, which must be `next`, since declarations are numbered in order.
    fn numbered<T: EntityRef + Display>(&mut self, what: &str, next: T) -> Result<T, Problem> {
        let id: T = self.id()?;
        if id != next {
            return Err(self.problem(format!("{what} are numbered in order, got {id}")));
        }
        Ok(id)
    }

    /// Expects the token `token`, then parses an item, which `what` parses.
    fn after_token<T>(
        &mut self,
        token: &str,
        what: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.expect(token)?;
        what(self)
    }

    /// Expects the token `open`, then an item, which `what` parses, and then the token `close`.
    fn between<T>(
        &mut self,
        open: &str,
        close: &str,
        what: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let found = self.after_token(open, what)?;
        self.expect(close)?;
        Ok(found)
    }

    /// Parses one or more items, separated by commas; `what` parses one item.
    fn several<T>(
        &mut self,
        mut what: impl FnMut(&mut Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let mut all = vec![what(self)?];
        while self.take(",") {
            all.push(what(self)?);
        }
        Ok(all)
    }

    /// Parses zero or more items, separated by commas, between the tokens `open` and `close`; `what` parses one item.
    fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        what: impl FnMut(&mut Self) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        self.between(open, close, |parser| match parser.peek() == close {
            true => Ok(Vec::new()),
            false => parser.several(what),
        })
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

/// Returns whether a word is an operand (a variable, a loop index or a literal); otherwise it is the name of a scalar
/// code.
fn is_arg(word: &str) -> bool {
    let id = |prefix| word.strip_prefix(prefix).is_some_and(|n: &str| n.parse::<u32>().is_ok());
    id('v') || id('i') || word.parse::<Literal>().is_ok()
}

/// Declares an id with the value `what`. Smaller ids that the text has skipped get the same value; nothing defines
/// them.
fn declare<T: EntityRef, V: Copy>(map: &mut PrimaryMap<T, V>, id: T, what: V) {
    while map.len() <= id.index() {
        map.push(what);
    }
    map[id] = what;
}
