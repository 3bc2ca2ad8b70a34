//! Prints the statements of a kernel as statements of Rust.
//!
//! If a scalar is used once, its formula is printed where the scalar is used, so that a chain of operations is one
//! formula. The scalar is *pending* from its definition to its use. If a statement in between writes memory or a
//! variable that the formula reads, the scalar is assigned to a variable in front of this statement. Short loads are
//! printed at each of their uses.

mod calls;
mod control_flow;
mod cursors;
mod elements;
mod scalars;
mod use_counts;

use super::Source;
use super::buffer_names;
use super::declarations::{Declaration, Declarations, is_number};
use super::expression::{Expression, rust_type, typed_literal, zero};
use super::kernel::zeros;
use super::liveness::{self, Cell, Unread};
use super::mutability;
use super::names::Names;
use super::source_comments::SourceLines;
use super::tapes::Target;
use crate::loop_ir::analysis::value_range::ValueRanges;
use crate::loop_ir::{
    Address, Arg, BufferId, CursorId, Expr, IndexId, Kernel, Origins, ScalarId, Stmt, TapeId,
    VarId, visit,
};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tapeloom_ir::{Literal, Loc, Problem};

/// The form in which a scalar is printed at its uses.
#[derive(Clone)]
enum Value {
    /// The scalar has a variable of this name.
    Named(String),
    /// The formula of the scalar is printed at its use.
    Pending {
        expression: Expression,
        /// Whether the formula may be printed at several uses, because it is short.
        repeats: bool,
    },
}

/// The tape record to which a cursor points.
#[derive(Clone)]
struct Record {
    /// The name of the variable that holds the number of the record.
    index: String,
    target: Target,
}

/// The state of printing the statements of a kernel.
pub(super) struct Printer<'s, 'p> {
    source: &'s mut Source<'p>,
    kernel: &'p Kernel,
    names: Names,
    /// For each declared buffer, its expression: its name, or `*name` if it is a number behind a reference.
    places: SecondaryMap<BufferId, Option<String>>,
    declarations: Declarations,
    /// The buffers that their next store will declare, as `let x = value;`.
    at_store: BTreeSet<BufferId>,
    contents: SecondaryMap<BufferId, Option<&'static str>>,
    definitions: SecondaryMap<ScalarId, Option<&'p Expr>>,
    values: SecondaryMap<ScalarId, Option<Value>>,
    /// For each scalar, the number of its uses that are not printed yet.
    uses: SecondaryMap<ScalarId, usize>,
    /// The pending scalars, in the order of their definitions.
    pending: Vec<ScalarId>,
    /// The scalars that are only used as trip counts or as numbers of tape records. Sums of such numbers cannot
    /// overflow, so they are printed with `+` instead of `wrapping_add`.
    counts: SecondaryMap<ScalarId, bool>,
    /// The scalars that are stored to memory or assigned to a variable.
    stored: SecondaryMap<ScalarId, bool>,
    vars: SecondaryMap<VarId, Option<String>>,
    var_names: SecondaryMap<VarId, Option<&'static str>>,
    /// The variables and numbers whose initial value is never read. They are declared without a value.
    unread: Unread,
    /// The variables, numbers and arrays that need `mut`.
    mutable: BTreeSet<Cell>,
    /// The buffers that a statement accesses.
    accessed: BTreeSet<BufferId>,
    indices: SecondaryMap<IndexId, Option<String>>,
    records: SecondaryMap<CursorId, Option<Record>>,
    /// The tapes that are local variables of this function; other tapes are references.
    own_tapes: BTreeSet<TapeId>,
    ranges: ValueRanges<'p>,
    /// The equations and the user's line of the innermost enclosing statement that has equations.
    equations: (Option<&'p Origins>, Loc),
    /// The source lines in the last printed comment. If the next statement has the same lines, the comment is not
    /// repeated. `None` after the end of a loop.
    last_comment: Option<SourceLines>,
    out: String,
    depth: usize,
}

impl<'s, 'p> Printer<'s, 'p> {
    pub(super) fn new(
        source: &'s mut Source<'p>,
        kernel: &'p Kernel,
        names: Names,
        places: SecondaryMap<BufferId, Option<String>>,
    ) -> Printer<'s, 'p> {
        let mut printer = Printer {
            source,
            kernel,
            names,
            places,
            declarations: Declarations::of(kernel),
            at_store: BTreeSet::new(),
            contents: buffer_names::contents(kernel),
            definitions: SecondaryMap::new(),
            values: SecondaryMap::new(),
            uses: SecondaryMap::new(),
            pending: Vec::new(),
            counts: SecondaryMap::new(),
            stored: SecondaryMap::new(),
            vars: SecondaryMap::new(),
            var_names: SecondaryMap::new(),
            unread: Unread::default(),
            mutable: BTreeSet::new(),
            accessed: BTreeSet::new(),
            indices: SecondaryMap::new(),
            records: SecondaryMap::new(),
            own_tapes: BTreeSet::new(),
            ranges: ValueRanges::of(kernel),
            equations: (None, None),
            last_comment: None,
            out: String::new(),
            depth: 1,
        };
        printer.unread = liveness::unread(kernel, &printer.declarations);
        printer.mutable = mutability::mutable(kernel, &printer.declarations, &printer.unread);
        visit(&kernel.body, &mut |stmt| stmt.buffers(&mut |b| _ = printer.accessed.insert(b)));
        printer.count_uses();
        printer.find_counts();
        printer
    }

    /// Prints the declaration of a tape as a local variable.
    pub(super) fn own_tape(&mut self, tape: TapeId) {
        let of = &self.source.tapes.all[tape];
        let line = format!("let mut {} = {}::default();", of.name, of.type_name);
        self.line(&line);
        self.own_tapes.insert(tape);
    }

    /// Prints the body of the kernel.
    pub(super) fn body(&mut self) -> Result<(), Problem> {
        let kernel = self.kernel;
        for (id, buffer) in kernel.buffers.iter().filter(|(_, b)| b.zeroed) {
            let Some(place) = self.places[id].clone() else { continue };
            let zero = zero(buffer.ty.dtype);
            match is_number(kernel, id) {
                true => self.line(&format!("{place} = {zero};")),
                false => self.line(&format!("{place}.fill({zero});")),
            }
        }
        self.statements(&kernel.body, &SourceLines::default())
    }

    /// Returns the text of the printed statements.
    pub(super) fn finish(self) -> String {
        self.out
    }

    fn line(&mut self, text: &str) {
        if !text.is_empty() {
            self.out.extend(std::iter::repeat_n("    ", self.depth));
            self.out += text;
        }
        self.out.push('\n');
    }

    /// Prints a comment with the user's lines of a statement, unless the comment of the enclosing or the preceding
    /// statement has the same lines. Returns the lines. A nest gets no comment if its first statement gets one.
    fn comment(&mut self, stmt: &Stmt, around: &SourceLines) -> SourceLines {
        let lines = stmt.origins().map_or_else(|| around.clone(), SourceLines::of);
        let comment = lines.comment();
        let first = stmt.blocks().first().and_then(|block| block.first()).and_then(Stmt::origins);
        let has_inner_comment = matches!(stmt, Stmt::Nest { .. })
            && first.is_some_and(|first| !SourceLines::of(first).comment().is_empty());
        if lines == *around || comment.is_empty() || has_inner_comment {
            return around.clone();
        }
        if self.last_comment.as_ref() == Some(&lines) {
            return lines;
        }
        self.last_comment = Some(lines.clone());
        if self.depth == 1 && !self.out.is_empty() {
            self.line("");
        }
        comment.iter().for_each(|text| self.line(&format!("// {text}")));
        lines
    }

    /// Prints the statements of a block in a new scope of names.
    fn scope(&mut self, block: &'p [Stmt], around: &SourceLines) -> Result<(), Problem> {
        self.names.enter();
        self.depth += 1;
        let result = self.statements(block, around);
        self.depth -= 1;
        self.names.leave();
        result
    }

    /// Prints the statements of a block. At its end, the pending scalars of the block are forgotten, because nothing
    /// can use them any more.
    fn statements(&mut self, block: &'p [Stmt], around: &SourceLines) -> Result<(), Problem> {
        let before = self.pending.len();
        self.in_scope(block, around)?;
        self.pending.truncate(before);
        Ok(())
    }

    /// Prints the statements of a block without a new scope of names.
    fn in_scope(&mut self, statements: &'p [Stmt], around: &SourceLines) -> Result<(), Problem> {
        for stmt in statements {
            self.statement(stmt, around)?;
            if stmt.shape().flow.is_loop() {
                self.last_comment = None;
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &'p Stmt, around: &SourceLines) -> Result<(), Problem> {
        let outer = self.equations;
        if let Some(origins) = stmt.origins()
            && let Some(computed) = origins.iter().next()
        {
            self.equations = (Some(origins), computed.origin.loc.or(outer.1));
        }
        if self.declarations.fills_zeros(stmt) {
            self.declare(stmt);
            self.equations = outer;
            return Ok(());
        }
        // Write the comment before the declarations that belong to the statement.
        let lines = match stmt {
            Stmt::Let { .. } | Stmt::Var { .. } | Stmt::Set { .. } | Stmt::Fold { .. } => {
                around.clone()
            }
            _ => self.comment(stmt, around),
        };
        self.declare(stmt);
        let result = match stmt {
            // A nest is no scope in Rust: scalars that it defines are used after it.
            Stmt::Nest { body, .. } => self.in_scope(body, &lines),
            Stmt::For { index, extent, carries, body, .. } => {
                self.counted(stmt, (*index, *extent), carries, body, &lines)
            }
            Stmt::While { head, condition, carries, body, .. } => {
                self.conditional_loop(stmt, (head, *condition), carries, body, &lines)
            }
            Stmt::If { condition, then, otherwise, .. } => {
                self.branch(stmt, *condition, then, otherwise, &lines)
            }
            Stmt::Let { value, expr } => self.definition(*value, expr),
            Stmt::Var { var, init } => {
                let wish = self.var_names[*var].unwrap_or("value");
                let init = self.arg(*init)?;
                let name = self.names.fresh(wish);
                let mutable = self.mutable(Cell::Var(*var));
                if self.unread.vars.contains(var) {
                    let ty = rust_type(self.kernel.vars[*var]);
                    self.line(&format!("let {mutable}{name}: {ty};"));
                } else {
                    self.line(&format!("let {mutable}{name} = {};", init.suffixed().text()));
                }
                self.vars[*var] = Some(name);
                self.ranges.invalidate(*var);
                Ok(())
            }
            Stmt::Set { var, value } => {
                let value = self.arg(*value)?;
                self.assign(*var, &value)
            }
            Stmt::Fold { var, code, value } => {
                let operands = [self.operand(Arg::Var(*var))?, self.operand(*value)?];
                let value = self.code(*code, &operands, false)?;
                self.assign(*var, &value)
            }
            Stmt::Store { held, address, value, guard } => {
                self.store(held.buffer, address, *value, *guard)
            }
            Stmt::Call(call) => self.call(call),
            Stmt::Tape(of) => self.tape(of),
            Stmt::Contract(_) | Stmt::Limit(_) | Stmt::CallExternal(_) => {
                Err(Problem::internal("a statement that Rust source does not support"))
            }
            Stmt::Lap(_) => Ok(()),
        };
        self.equations = outer;
        result
    }

    /// Prints the declarations of the buffers that must be declared in front of a statement.
    fn declare(&mut self, stmt: &'p Stmt) {
        for (buffer, declaration) in self.declarations.at(stmt).to_vec() {
            let ty = &self.kernel.buffers[buffer].ty;
            let name = self.names.fresh(&self.wish(buffer));
            let mutable = self.mutable(Cell::Buffer(buffer));
            match declaration {
                Declaration::AtStore => _ = self.at_store.insert(buffer),
                Declaration::Deferred => {
                    self.line(&format!("let {mutable}{name}: {};", rust_type(ty.dtype)));
                }
                Declaration::Zeros
                    if self.unread.numbers.contains(&buffer) && is_number(self.kernel, buffer) =>
                {
                    self.line(&format!("let {mutable}{name}: {};", rust_type(ty.dtype)));
                }
                Declaration::Zeros => {
                    let zero = match is_number(self.kernel, buffer) {
                        true => typed_literal(Literal::zero(ty.dtype)),
                        false => zeros(ty.dtype, ty.shape.elements()),
                    };
                    self.line(&format!("let {mutable}{name} = {zero};"));
                }
            }
            self.places[buffer] = Some(name);
        }
    }

    /// Returns `mut ` or nothing, to be printed in front of the name where a variable is declared.
    fn mutable(&self, cell: Cell) -> &'static str {
        if self.mutable.contains(&cell) { "mut " } else { "" }
    }

    /// Returns the wished name of a local buffer: the user's name for it, or the name of the operation that fills it.
    fn wish(&self, buffer: BufferId) -> String {
        if self.contents[buffer] == Some(buffer_names::FIRST_RECORD) {
            return buffer_names::FIRST_RECORD.to_owned();
        }
        let is_entry = std::ptr::eq(self.kernel, &raw const self.source.program.entry);
        let row = self.source.plan.rows.iter().find(|row| is_entry && row.buffer == buffer);
        let named = row.and_then(|row| row.names.first()).map(ToString::to_string);
        let primitive = row.filter(|row| !row.primitive.is_empty());
        let primitive = primitive.map(|row| buffer_names::noun(row.primitive));
        let contents = || self.contents[buffer].map(str::to_owned);
        named.or(primitive).or_else(contents).unwrap_or_else(|| "value".to_owned())
    }

    fn assign(&mut self, var: VarId, value: &Expression) -> Result<(), Problem> {
        self.flush(&|reads| reads.vars.contains(&var))?;
        let name = self.vars[var].clone().unwrap_or_default();
        self.line(&format!("{};", value.assigned_to(&name)));
        self.ranges.invalidate(var);
        Ok(())
    }

    fn store(
        &mut self,
        buffer: BufferId,
        address: &'p Address,
        value: Arg,
        guard: Option<Arg>,
    ) -> Result<(), Problem> {
        let guard_text = guard.map(|g| self.arg(g)).transpose()?;
        let value = self.arg(value)?;
        let place = self.element(buffer, address, guard)?;
        self.flush(&|reads| reads.buffers.contains(&buffer))?;
        if self.at_store.remove(&buffer) {
            let mutable = self.mutable(Cell::Buffer(buffer));
            self.line(&format!("let {mutable}{} = {};", place.text(), value.suffixed().text()));
            return Ok(());
        }
        let text = format!("{};", value.assigned_to(place.text()));
        match guard_text {
            Some(guard) => {
                self.line(&format!("if {} {{", guard.text()));
                self.line(&format!("    {text}"));
                self.line("}");
            }
            None => self.line(&text),
        }
        Ok(())
    }
}
