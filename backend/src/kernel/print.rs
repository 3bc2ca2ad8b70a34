//! The text form of programs: printing.
//!
//! Ids print as they are, so that text, snapshots and error messages name the same things, and
//! [`parse`](super::parse) gives back the same program. See the example in [`super`].

use super::{Address, Arg, BufferId, Contract, Expr, Matrix, Place, Program, Stmt};
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "program @{} {{", self.name)?;
        if self.workspace > 0 {
            writeln!(f, "  workspace {}", self.workspace)?;
        }
        for (id, b) in &self.buffers {
            writeln!(f, "  buffer {id}: {} {}", b.ty, b.place)?;
            for (n, version) in self.versions[id].iter().enumerate() {
                write!(f, "  version {}", Held(id, n as u32 + 1))?;
                match version.continues {
                    Some(before) => writeln!(f, " continues {}", Held(id, before))?,
                    None => writeln!(f)?,
                }
            }
        }
        block(self, f, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

/// A value that a buffer holds: `b3` its first one, `b3.1` the next.
pub(super) struct Held(pub(super) BufferId, pub(super) u32);

impl Display for Held {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Held(buffer, 0) => write!(f, "{buffer}"),
            Held(buffer, version) => write!(f, "{buffer}.{version}"),
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Place::Input(n) => write!(f, "input {n}"),
            Place::Output(n) => write!(f, "output {n}"),
            Place::Workspace(offset) => write!(f, "workspace {offset}"),
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
        let Contract { dtype, m, n, k, lhs, rhs, out, batch } = self;
        write!(f, "contract {dtype} {m} x {n} x {k}: {out} = {lhs} * {rhs}")?;
        for (extent, lhs, rhs, out) in batch {
            // How far each matrix moves.
            write!(f, " for {extent} steps {out} = {lhs} * {rhs}")?;
        }
        Ok(())
    }
}

/// `b0[offset; row, column]`
impl Display for Matrix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let held = Held(self.buffer, self.version);
        write!(f, "{held}[{}; {}, {}]", self.offset, self.row, self.column)
    }
}

fn block(p: &Program, f: &mut Formatter<'_>, body: &[Stmt], depth: usize) -> fmt::Result {
    for stmt in body {
        write!(f, "{:1$}", "", depth * 2)?;
        match stmt {
            Stmt::Nest { body } => {
                writeln!(f, "nest {{")?;
                block(p, f, body, depth + 1)?;
                writeln!(f, "{:1$}}}", "", depth * 2)?;
            }
            Stmt::Contract(c) => writeln!(f, "{c}")?,
            Stmt::For { index, extent, body } => {
                writeln!(f, "for {index} in {extent} {{")?;
                block(p, f, body, depth + 1)?;
                writeln!(f, "{:1$}}}", "", depth * 2)?;
            }
            Stmt::Let { value, expr } => {
                // An id out of range is the verifier's to report; printing never fails.
                write!(f, "{value}: ")?;
                match p.scalars.get(*value) {
                    Some(dtype) => write!(f, "{dtype}")?,
                    None => f.write_str("?")?,
                }
                match expr {
                    Expr::Code(code, args) => {
                        write!(f, " = {}", code)?;
                        for (i, a) in args.iter().enumerate() {
                            write!(f, "{} {a}", if i == 0 { "" } else { "," })?;
                        }
                    }
                    Expr::Load { buffer, version, address, guard } => {
                        write!(f, " = load {}[{address}]", Held(*buffer, *version))?;
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
            Stmt::Store { buffer, version, address, value, guard } => {
                write!(f, "store {}[{address}], {value}", Held(*buffer, *version))?;
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
