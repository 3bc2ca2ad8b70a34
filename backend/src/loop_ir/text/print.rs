//! The text form of programs: printing.
//!
//! Ids print with their numbers, so that text, snapshots and error messages use the same names, and
//! [`parse`](crate::loop_ir::parse) returns the same program. See the example in [`super`].

use crate::loop_ir::loop_limits::{RUNTIME, STATIC};
use crate::loop_ir::{
    Address, Arg, BufferVersion, Call, CallExternal, Carry, Contract, CursorTarget, Expr, Extent,
    External, Kernel, LimitStmt, Matrix, Parallelism, Place, Program, Stmt, Sums, TapeStmt, View,
};
use std::fmt::{self, Display, Formatter};
use tapeloom_ir::ArrayType;
use tapeloom_ir::prim::RoutineCall;

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (id, tape) in &self.tapes {
            writeln!(f, "tape {id}: {}", tape.record)?;
        }
        for (id, limited) in &self.limited {
            writeln!(f, "limit {id}: {}", if limited.runtime { RUNTIME } else { STATIC })?;
        }
        if self.timers > 0 {
            writeln!(f, "timers {}", self.timers)?;
        }
        for (id, kernel) in &self.callees {
            let inline = if kernel.inline { " inline" } else { "" };
            writeln!(f, "kernel {id} @{}{inline}{} {{", kernel.name, argsort(kernel))?;
            write!(f, "{kernel}")?;
        }
        writeln!(f, "program @{}{} {{", self.entry.name, argsort(&self.entry))?;
        write!(f, "{}", self.entry)
    }
}

/// Returns the text of the argsort function that machine code calls instead of the kernel's body; empty if there is
/// none.
fn argsort(kernel: &Kernel) -> String {
    kernel.argsort.map_or(String::new(), |argsort| format!(" {argsort}"))
}

/// Prints the buffers and statements of the kernel, without the opening line that names it.
impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.workspace > 0 {
            writeln!(f, "  workspace {}", self.workspace)?;
        }
        if self.private > 0 {
            writeln!(f, "  private {}", self.private)?;
        }
        for (id, b) in &self.buffers {
            let zeroed = if b.zeroed { " zeroed" } else { "" };
            write!(f, "  buffer {id}: {} {}{zeroed}", b.ty, b.place)?;
            let mut now = BufferVersion::first(id);
            print_marks(self, f, now)?;
            for version in &self.versions[id] {
                now.version += 1;
                write!(f, "  version {now}")?;
                if let Some(before) = version.continues {
                    write!(f, " continues {}", BufferVersion { version: before, ..now })?;
                }
                print_marks(self, f, now)?;
            }
        }
        block(self, f, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

/// Prints the `kept` marks of a buffer version, and the end of the line that declares the version.
fn print_marks(k: &Kernel, f: &mut Formatter<'_>, held: BufferVersion) -> fmt::Result {
    for (i, mark) in k.kept.get(&held).into_iter().flatten().enumerate() {
        write!(f, "{} {mark}", if i == 0 { " kept" } else { "," })?;
    }
    writeln!(f)
}

impl Display for BufferVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            BufferVersion { buffer, version: 0 } => write!(f, "{buffer}"),
            BufferVersion { buffer, version } => write!(f, "{buffer}.{version}"),
        }
    }
}

impl Display for Parallelism {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Parallelism::Concurrent => "concurrent",
            Parallelism::Parallel => "for",
            Parallelism::Fold => "fold",
            Parallelism::Serial => "serial",
        })
    }
}

impl Display for Extent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Constant(n) => write!(f, "{n}"),
            Extent::Scalar(a) => write!(f, "({a})"),
        }
    }
}

impl Display for Carry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.input, self.output)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Place::Input(n) => write!(f, "input {n}"),
            Place::Output(n) => write!(f, "output {n}"),
            Place::Donated { input, output } => write!(f, "input {input} output {output}"),
            Place::Workspace(offset) => write!(f, "workspace {offset}"),
            Place::Private(offset) => write!(f, "private {offset}"),
            Place::Unplaced => write!(f, "unplaced"),
            Place::Record { cursor, offset } => write!(f, "record {cursor} {offset}"),
        }
    }
}

impl Display for Arg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Scalar(s) => write!(f, "{s}"),
            Arg::Var(v) => write!(f, "{v}"),
            Arg::Index(i) => write!(f, "{i}"),
            Arg::Literal(l) => write!(f, "{l}"),
        }
    }
}

impl Display for TapeStmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TapeStmt::MoveCursor { cursor, to: CursorTarget::Tape(tape), index } => {
                write!(f, "seek {cursor} to {tape}[{index}]")
            }
            TapeStmt::MoveCursor { cursor, to: CursorTarget::Handle(word), index } => {
                write!(f, "seek {cursor} to ({word})[{index}]")
            }
            TapeStmt::Length { value, tape } => write!(f, "{value}: i64 = length {tape}"),
            TapeStmt::Cut { tape, to } => write!(f, "cut {tape} to {to}"),
        }
    }
}

impl Display for LimitStmt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            LimitStmt::Enter { limit, trip: None } => write!(f, "enter {limit}"),
            LimitStmt::Enter { limit, trip: Some(n) } => write!(f, "enter {limit} for {n}"),
            LimitStmt::Count(limit) => write!(f, "count {limit}"),
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut plus = "";
        for (index, stride) in &self.terms {
            match stride {
                1 => write!(f, "{plus}{index}")?,
                _ => write!(f, "{plus}{index}*{stride}")?,
            }
            plus = " + ";
        }
        if self.offset != 0 || (self.terms.is_empty() && self.dynamic.is_none()) {
            write!(f, "{plus}{}", self.offset)?;
            plus = " + ";
        }
        if let Some(d) = self.dynamic {
            write!(f, "{plus}({d})")?;
        }
        Ok(())
    }
}

impl Display for Contract {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Contract { dtype, sums, m, n, k, accumulate, lhs, rhs, out, batch, origins: _ } = self;
        let becomes = if *accumulate { "+=" } else { "=" };
        write!(f, "contract {dtype} {m} x {n} x {k}")?;
        match sums {
            Sums::Library => {}
            Sums::Lanes(lanes) => write!(f, " lanes {lanes}")?,
        }
        write!(f, ": {out} {becomes} {lhs} * {rhs}")?;
        for (extent, lhs, rhs, out) in batch {
            // Print the extent of a batch loop, and the steps of the three matrices in elements.
            write!(f, " for {extent} steps {out} = {lhs} * {rhs}")?;
        }
        Ok(())
    }
}

/// Prints a matrix as `b0[offset; row stride, column stride]`.
impl Display for Matrix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}; {}, {}]", self.held, self.at, self.row, self.column)
    }
}

impl Display for Call {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (operands, outputs) = (list(&self.operands), list(&self.outputs));
        write!(f, "call {}({operands}) to ({outputs}) frame {}", self.callee, self.frame)
    }
}

/// Prints the call of an external function, such as `ask spline (b0[0; 3]: f64[3]) to (b2[0; 4]: f64[4])`.
impl Display for CallExternal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let call = match &self.signature.function {
            External::Host(call) => call,
            External::Routine(planned) => {
                let RoutineCall { routine, members, .. } = planned.call();
                let dtype = planned.call().dtype();
                let list = |views: &[View]| {
                    views.iter().map(View::to_string).collect::<Vec<String>>().join(", ")
                };
                let (operands, outputs) = (list(&self.operands), list(&self.outputs));
                return write!(
                    f,
                    "routine {routine} {dtype} members {members} ({operands}) to ({outputs})"
                );
            }
        };
        let list =
            |f: &mut Formatter<'_>, views: &[View], types: &[ArrayType], shared: &[usize]| {
                f.write_str("(")?;
                for (i, (v, ty)) in views.iter().zip(types).enumerate() {
                    let gap = if i == 0 { "" } else { ", " };
                    let shared = if shared.contains(&i) { "shared " } else { "" };
                    write!(f, "{gap}{shared}{v}: {ty}")?;
                }
                f.write_str(")")
            };
        write!(f, "ask {} ", word(call.host.name()))?;
        if let Some(lanes) = call.lanes {
            write!(f, "lanes {lanes} ")?;
        }
        list(f, &self.operands, &self.signature.operands, &call.shared)?;
        f.write_str(" to ")?;
        list(f, &self.outputs, &call.result_types(), &[])
    }
}

/// Returns the name of a Rust function as one token: `&` and the name, with other characters replaced by `_`.
fn word(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    format!("&{}", name.chars().map(plain).collect::<String>())
}

/// Prints a view as `b0[address; elements]`.
impl Display for View {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}; {}]", self.held, self.at, self.elements)
    }
}

/// Returns the texts of the items, separated by commas.
pub(crate) fn list<T: Display>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn carried(carries: &[Carry]) -> String {
    if carries.is_empty() { String::new() } else { format!(" carry {}", list(carries)) }
}

/// Prints the statements of an inner block in braces; `depth` is the nesting depth of the statement that has the
/// block.
fn inside(p: &Kernel, f: &mut Formatter<'_>, body: &[Stmt], depth: usize) -> fmt::Result {
    writeln!(f, " {{")?;
    block(p, f, body, depth + 1)?;
    write!(f, "{:1$}}}", "", depth * 2)
}

fn block(p: &Kernel, f: &mut Formatter<'_>, body: &[Stmt], depth: usize) -> fmt::Result {
    for stmt in body {
        write!(f, "{:1$}", "", depth * 2)?;
        match stmt {
            Stmt::Nest { body, origins: _ } => {
                write!(f, "nest")?;
                inside(p, f, body, depth)?;
                writeln!(f)?;
            }
            Stmt::Contract(c) => writeln!(f, "{c}")?,
            Stmt::Call(c) => writeln!(f, "{c}")?,
            Stmt::Tape(t) => writeln!(f, "{t}")?,
            Stmt::Limit(w) => writeln!(f, "{w}")?,
            Stmt::Lap(timer) => writeln!(f, "lap {timer}")?,
            Stmt::CallExternal(c) => writeln!(f, "{c}")?,
            Stmt::If { condition, then, otherwise, origins: _ } => {
                write!(f, "if {condition}")?;
                inside(p, f, then, depth)?;
                if !otherwise.is_empty() {
                    write!(f, " else")?;
                    inside(p, f, otherwise, depth)?;
                }
                writeln!(f)?;
            }
            Stmt::While { head, condition, carries, body, origins: _ } => {
                write!(f, "while")?;
                inside(p, f, head, depth)?;
                write!(f, " {condition}{}", carried(carries))?;
                inside(p, f, body, depth)?;
                writeln!(f)?;
            }
            Stmt::For { index, extent, parallelism, lanes, carries, body, origins: _ } => {
                write!(f, "{parallelism} {index} in {extent}")?;
                if *lanes != 1 {
                    write!(f, " lanes {lanes}")?;
                }
                write!(f, "{}", carried(carries))?;
                inside(p, f, body, depth)?;
                writeln!(f)?;
            }
            Stmt::Let { value, expr } => {
                // Print `?` for an undeclared scalar, so that printing never fails; the verifier reports the scalar.
                write!(f, "{value}: ")?;
                match p.scalars.get(*value) {
                    Some(dtype) => write!(f, "{dtype}")?,
                    None => f.write_str("?")?,
                }
                match expr {
                    Expr::Code(code, args) => write!(f, " = {code} {}", list(args))?,
                    Expr::Load { held, address, guard } => {
                        write!(f, " = load {held}[{address}]")?;
                        guarded(f, *guard)?;
                    }
                }
                writeln!(f)?;
            }
            Stmt::Var { var, init } => match p.vars.get(*var) {
                Some(dtype) => writeln!(f, "var {var}: {dtype} = {init}")?,
                None => writeln!(f, "var {var}: ? = {init}")?,
            },
            Stmt::Set { var, value } => writeln!(f, "{var} = {value}")?,
            Stmt::Fold { var, code, value } => {
                writeln!(f, "{var} = {} {var}, {value}", code)?;
            }
            Stmt::Store { held, address, value, guard } => {
                write!(f, "store {held}[{address}], {value}")?;
                guarded(f, *guard)?;
                writeln!(f)?;
            }
        }
    }
    Ok(())
}

fn guarded(f: &mut Formatter<'_>, guard: Option<Arg>) -> fmt::Result {
    match guard {
        Some(g) => write!(f, " if {g}"),
        None => Ok(()),
    }
}
