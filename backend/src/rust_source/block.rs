//! Statements of a kernel as statements of Rust.
//!
//! A scalar that is used once is written where it is used, so that a chain of operations is one formula. It stays *pending*
//! from its definition to its use. If a statement in between writes memory or a variable that the formula reads, the scalar
//! gets a name in front of this statement. Short loads are written at each of their uses.

use super::Source;
use super::expression::{Expression, Level, Reads, rust_type, typed_literal, zero};
use super::kernel::{Slot, slots, zeros};
use super::lines::Lines;
use super::liveness;
use super::memory::{self, Declaration, Declarations};
use super::names::Names;
use super::operations::{self, Operand};
use super::tapes::{Tapes, Target, in_record};
use crate::loop_ir::analysis::value_range::ValueRanges;
use crate::loop_ir::{
    Address, Arg, BufferId, Call, Carry, CursorId, CursorTarget, Expr, Extent, IndexId, Kernel,
    Origins, Place, ScalarId, Stmt, TapeId, TapeStmt, VarId, View, visit,
};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tapeloom_ir::{Code, Dtype, Kind, Literal, Loc, Problem};

/// The longest formula that is written in the place of its use, in characters.
const LONGEST: usize = 56;
/// The longest formula that is written behind `x =`.
const LONGEST_STORED: usize = 84;
/// The longest load that is written at each of its uses.
const SHORT: usize = 14;
/// The length from which on the operands of an operation get names.
const WIDE: usize = 84;
/// The shortest operand that gets a name for this reason.
const LONG_OPERAND: usize = 20;

/// The value of a scalar in the text.
#[derive(Clone)]
enum Value {
    /// The scalar has a name.
    Named(String),
    /// The scalar is written in the place of its use.
    Pending {
        expression: Expression,
        /// Whether it may be written more than once.
        repeats: bool,
    },
}

/// The record to which a cursor points.
#[derive(Clone)]
struct Record {
    /// The name of the variable with the number of the record.
    index: String,
    target: Target,
}

/// Writes the statements of a kernel.
pub(super) struct Printer<'s, 'p> {
    source: &'s mut Source<'p>,
    kernel: &'p Kernel,
    names: Names,
    /// The text of each buffer that has one: a name, or `*name` for a number behind a reference.
    places: SecondaryMap<BufferId, Option<String>>,
    declarations: Declarations,
    /// The buffers that their first store declares, and whether they are mutable.
    at_store: SecondaryMap<BufferId, Option<bool>>,
    contents: SecondaryMap<BufferId, Option<&'static str>>,
    definitions: SecondaryMap<ScalarId, Option<&'p Expr>>,
    values: SecondaryMap<ScalarId, Option<Value>>,
    /// The number of uses that are not yet written.
    uses: SecondaryMap<ScalarId, usize>,
    /// The pending scalars, in the order of their definitions.
    pending: Vec<ScalarId>,
    /// The scalars that are only used in numbers of records and trip counts, whose sums never wrap.
    counts: SecondaryMap<ScalarId, bool>,
    /// The scalars that are stored or assigned.
    stored: SecondaryMap<ScalarId, bool>,
    vars: SecondaryMap<VarId, Option<String>>,
    /// How often each variable is assigned after its declaration.
    assignments: SecondaryMap<VarId, usize>,
    var_names: SecondaryMap<VarId, Option<&'static str>>,
    /// The variables whose initial value is never read.
    unread: BTreeSet<VarId>,
    /// The declared numbers whose zero is never read.
    unread_numbers: BTreeSet<BufferId>,
    indices: SecondaryMap<IndexId, Option<String>>,
    records: SecondaryMap<CursorId, Option<Record>>,
    /// The tapes that are local variables; the others are references.
    own_tapes: BTreeSet<TapeId>,
    ranges: ValueRanges<'p>,
    /// The equations of the innermost statement that has some, and its line.
    equations: (Option<&'p Origins>, Loc),
    /// The lines of the last comment, if no loop ended behind it.
    told: Option<Lines>,
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
            at_store: SecondaryMap::new(),
            contents: memory::contents(kernel),
            definitions: SecondaryMap::new(),
            values: SecondaryMap::new(),
            uses: SecondaryMap::new(),
            pending: Vec::new(),
            counts: SecondaryMap::new(),
            stored: SecondaryMap::new(),
            vars: SecondaryMap::new(),
            assignments: SecondaryMap::new(),
            var_names: SecondaryMap::new(),
            unread: BTreeSet::new(),
            unread_numbers: BTreeSet::new(),
            indices: SecondaryMap::new(),
            records: SecondaryMap::new(),
            own_tapes: BTreeSet::new(),
            ranges: ValueRanges::of(kernel),
            equations: (None, None),
            told: None,
            out: String::new(),
            depth: 1,
        };
        let unread = liveness::without_initial_value(kernel, &printer.declarations);
        (printer.unread, printer.unread_numbers) = unread;
        printer.count_uses();
        printer.find_counts();
        printer
    }

    /// Counts the uses of scalars and the assignments of variables. The first word of a handle is not used if its cursor can
    /// only point to one field.
    fn count_uses(&mut self) {
        let kernel = self.kernel;
        visit(&kernel.body, &mut |stmt| {
            let mut count = |arg| {
                if let Arg::Scalar(value) = arg {
                    self.uses[value] += 1;
                }
            };
            match stmt {
                Stmt::Tape(TapeStmt::MoveCursor {
                    cursor,
                    to: CursorTarget::Handle(word),
                    index,
                }) => {
                    if self.source.tapes.targets(kernel, *cursor, *word).len() > 1 {
                        count(*word);
                    }
                    count(*index);
                }
                _ => stmt.args(&mut count),
            }
            if let Stmt::Store { value: Arg::Scalar(value), .. }
            | Stmt::Set { value: Arg::Scalar(value), .. }
            | Stmt::Fold { value: Arg::Scalar(value), .. } = stmt
            {
                self.stored[*value] = true;
            }
            match stmt {
                Stmt::Let { value, expr } => self.definitions[*value] = Some(expr),
                Stmt::Set { var, .. } => self.assignments[*var] += 1,
                Stmt::Fold { var, code, .. } => {
                    self.assignments[*var] += 1;
                    self.var_names[*var].get_or_insert(memory::of_fold(*code));
                }
                _ => {}
            }
        });
        // A scalar without uses is not written, so its operands lose a use.
        let mut dead: Vec<ScalarId> =
            kernel.scalars.keys().filter(|s| self.uses[*s] == 0).collect();
        while let Some(value) = dead.pop() {
            let Some(expr) = self.definitions[value] else { continue };
            let mut lose = |arg| {
                if let Arg::Scalar(operand) = arg {
                    self.uses[operand] = self.uses[operand].saturating_sub(1);
                    if self.uses[operand] == 0 {
                        dead.push(operand);
                    }
                }
            };
            match expr {
                Expr::Code(_, args) => args.iter().for_each(|a| lose(*a)),
                Expr::Load { address, guard, .. } => {
                    address.args(&mut lose);
                    guard.iter().for_each(|g| lose(*g));
                }
            }
        }
    }

    /// Finds the scalars that are only used in numbers of records and trip counts.
    fn find_counts(&mut self) {
        let kernel = self.kernel;
        let mut other: SecondaryMap<ScalarId, usize> = SecondaryMap::new();
        let mut found: Vec<ScalarId> = Vec::new();
        visit(&kernel.body, &mut |stmt| {
            let count = match stmt {
                Stmt::Tape(TapeStmt::MoveCursor { index, .. }) => Some(*index),
                Stmt::For { extent: Extent::Scalar(extent), .. } => Some(*extent),
                _ => None,
            };
            match count {
                Some(Arg::Scalar(value)) => found.push(value),
                _ => stmt.args(&mut |arg| {
                    if let Arg::Scalar(value) = arg {
                        other[value] += 1;
                    }
                }),
            }
        });
        while let Some(value) = found.pop() {
            if other[value] > 0 || self.counts[value] {
                continue;
            }
            self.counts[value] = true;
            let Some(Expr::Code(Code::Add | Code::Sub | Code::Mul, args)) = self.definitions[value]
            else {
                continue;
            };
            for arg in args {
                if let Arg::Scalar(operand) = arg {
                    other[*operand] = other[*operand].saturating_sub(1);
                    found.push(*operand);
                }
            }
        }
    }

    /// Declares a tape as a local variable.
    pub(super) fn own_tape(&mut self, tape: TapeId) {
        let of = &self.source.tapes.all[tape];
        let line = format!("let mut {} = {}::default();", of.name, of.type_name);
        self.line(&line);
        self.own_tapes.insert(tape);
    }

    /// Writes the body of the kernel.
    pub(super) fn body(&mut self) -> Result<(), Problem> {
        let kernel = self.kernel;
        for (id, buffer) in kernel.buffers.iter().filter(|(_, b)| b.zeroed) {
            let Some(place) = self.places[id].clone() else { continue };
            let zero = zero(buffer.ty.dtype);
            match memory::is_number(kernel, id) {
                true => self.line(&format!("{place} = {zero};")),
                false => self.line(&format!("{place}.fill({zero});")),
            }
        }
        self.statements(&kernel.body, &Lines::default())
    }

    /// Returns the text of the statements.
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

    /// Writes a comment with the lines of a statement, unless it says the same as the one around it or in front of it. Returns
    /// its lines. A nest has no comment if its first statement has one.
    fn comment(&mut self, stmt: &Stmt, around: &Lines) -> Lines {
        let lines = stmt.origins().map_or_else(|| around.clone(), Lines::of);
        let comment = lines.comment();
        let first = stmt.blocks().first().and_then(|block| block.first()).and_then(Stmt::origins);
        let is_told_inside = matches!(stmt, Stmt::Nest { .. })
            && first.is_some_and(|first| !Lines::of(first).comment().is_empty());
        if lines == *around || comment.is_empty() || is_told_inside {
            return around.clone();
        }
        if self.told.as_ref() == Some(&lines) {
            return lines;
        }
        self.told = Some(lines.clone());
        if self.depth == 1 && !self.out.is_empty() {
            self.line("");
        }
        comment.iter().for_each(|text| self.line(&format!("// {text}")));
        lines
    }

    /// Writes the statements of a block in a scope of their own.
    fn scope(&mut self, block: &'p [Stmt], around: &Lines) -> Result<(), Problem> {
        self.names.enter();
        self.depth += 1;
        let result = self.statements(block, around);
        self.depth -= 1;
        self.names.leave();
        result
    }

    /// Writes the statements of a block. The pending scalars of the block are dropped at its end.
    fn statements(&mut self, block: &'p [Stmt], around: &Lines) -> Result<(), Problem> {
        let before = self.pending.len();
        for stmt in block {
            self.statement(stmt, around)?;
            if stmt.shape().flow.is_loop() {
                self.told = None;
            }
        }
        self.pending.truncate(before);
        Ok(())
    }

    fn statement(&mut self, stmt: &'p Stmt, around: &Lines) -> Result<(), Problem> {
        let outer = self.equations;
        if let Some(origins) = stmt.origins()
            && let Some(computed) = origins.iter().next()
        {
            self.equations = (Some(origins), computed.origin.loc.or(outer.1));
        }
        if self.fills_zeros(stmt) {
            self.declare(stmt);
            self.equations = outer;
            return Ok(());
        }
        // Comments stand in front of declarations.
        let lines = match stmt {
            Stmt::Let { .. } | Stmt::Var { .. } | Stmt::Set { .. } | Stmt::Fold { .. } => {
                around.clone()
            }
            _ => self.comment(stmt, around),
        };
        self.declare(stmt);
        let result = match stmt {
            Stmt::Nest { body, .. } => self.statements(body, &lines),
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
                let mutable = if self.assignments[*var] > 0 { "mut " } else { "" };
                if self.unread.contains(var) {
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
                Err(Problem::internal("a statement that Rust source does not have"))
            }
            Stmt::Lap(_) => Ok(()),
        };
        self.equations = outer;
        result
    }

    /// Writes the declarations of buffers that stand in front of a statement.
    fn declare(&mut self, stmt: &'p Stmt) {
        for (buffer, declaration) in self.declarations.at(stmt).to_vec() {
            let ty = &self.kernel.buffers[buffer].ty;
            let name = self.names.fresh(&self.wish(buffer));
            match declaration {
                Declaration::AtStore { mutable } => self.at_store[buffer] = Some(mutable),
                Declaration::Deferred { mutable } => {
                    let mutable = if mutable { "mut " } else { "" };
                    self.line(&format!("let {mutable}{name}: {};", rust_type(ty.dtype)));
                }
                Declaration::Zeros
                    if self.unread_numbers.contains(&buffer)
                        && memory::is_number(self.kernel, buffer) =>
                {
                    self.line(&format!("let mut {name}: {};", rust_type(ty.dtype)));
                }
                Declaration::Zeros => {
                    let zero = match memory::is_number(self.kernel, buffer) {
                        true => typed_literal(Literal::zero(ty.dtype)),
                        false => zeros(ty.dtype, ty.shape.elements()),
                    };
                    self.line(&format!("let mut {name} = {zero};"));
                }
            }
            self.places[buffer] = Some(name);
        }
    }

    /// Returns whether a statement fills arrays with zeros that it declares, which begin with zeros.
    fn fills_zeros(&self, stmt: &Stmt) -> bool {
        let declared = self.declarations.at(stmt);
        match stmt {
            Stmt::For { carries, body, .. } if carries.is_empty() && !declared.is_empty() => {
                let mut only_zeros = true;
                visit(body, &mut |stmt| {
                    only_zeros &= match stmt {
                        Stmt::For { extent: Extent::Constant(_), .. } | Stmt::Nest { .. } => true,
                        Stmt::Store { held, value: Arg::Literal(x), .. } => {
                            x.bits == 0 && declared.iter().any(|(b, _)| *b == held.buffer)
                        }
                        _ => false,
                    };
                });
                only_zeros
            }
            _ => false,
        }
    }

    /// Returns a name for a local buffer: the user's, or that of the operation that fills it.
    fn wish(&self, buffer: BufferId) -> String {
        if self.contents[buffer] == Some(memory::FIRST_RECORD) {
            return memory::FIRST_RECORD.to_owned();
        }
        let is_entry = std::ptr::eq(self.kernel, &raw const self.source.program.entry);
        let row = self.source.plan.rows.iter().find(|row| is_entry && row.buffer == buffer);
        let named = row.and_then(|row| row.names.first()).map(ToString::to_string);
        let primitive = row.filter(|row| !row.primitive.is_empty());
        let primitive = primitive.map(|row| memory::noun(row.primitive));
        let contents = || self.contents[buffer].map(str::to_owned);
        named.or(primitive).or_else(contents).unwrap_or_else(|| "value".to_owned())
    }

    fn counted(
        &mut self,
        stmt: &'p Stmt,
        (index, extent): (IndexId, Extent),
        carries: &[Carry],
        body: &'p [Stmt],
        lines: &Lines,
    ) -> Result<(), Problem> {
        let extent_text = match extent {
            Extent::Constant(n) => n.to_string(),
            Extent::Scalar(arg) => {
                let least = self.ranges.iterations(extent);
                let own = self.range(arg);
                let n = self.arg(arg)?;
                let n = if own.0 >= 0 && least.least >= 0 {
                    n
                } else {
                    let zero = Expression::literal(Literal::i64(0));
                    Expression::method(n, "max", &[zero])
                };
                Expression::cast(n, "usize").within(Level::Sum)
            }
        };
        self.flush_for(stmt)?;
        self.ranges.count(index, extent);
        self.ranges.invalidate_all(body);
        self.names.enter();
        let name = self.names.counter();
        let before = std::mem::take(&mut self.out);
        self.indices[index] = Some(name.clone());
        self.scope_with_carries(body, carries, lines)?;
        let inside = std::mem::replace(&mut self.out, before);
        let shown = if has_word(&inside, &name) { name.as_str() } else { "_" };
        self.line(&format!("for {shown} in 0..{extent_text} {{"));
        self.out += &inside;
        self.line("}");
        self.names.leave();
        self.ranges.invalidate_all(body);
        Ok(())
    }

    fn scope_with_carries(
        &mut self,
        body: &'p [Stmt],
        carries: &[Carry],
        lines: &Lines,
    ) -> Result<(), Problem> {
        self.names.enter();
        self.depth += 1;
        let result = self.statements(body, lines);
        carries.iter().for_each(|carry| self.carry(carry));
        self.depth -= 1;
        self.names.leave();
        result
    }

    fn conditional_loop(
        &mut self,
        stmt: &'p Stmt,
        (head, condition): (&'p [Stmt], Arg),
        carries: &[Carry],
        body: &'p [Stmt],
        lines: &Lines,
    ) -> Result<(), Problem> {
        self.flush_for(stmt)?;
        self.ranges.invalidate_all(head);
        self.ranges.invalidate_all(body);
        let before = self.pending.len();
        self.names.enter();
        self.depth += 1;
        // The head is written aside: if nothing of it needs a line of its own, it is the condition of a `while`.
        let text = std::mem::take(&mut self.out);
        for stmt in head {
            self.statement(stmt, lines)?;
        }
        let condition_text = self.arg(condition)?;
        let head_text = std::mem::replace(&mut self.out, text);
        self.depth -= 1;
        if head_text.is_empty() {
            self.line(&format!("while {} {{", condition_text.text()));
            self.depth += 1;
        } else {
            self.line("loop {");
            self.out += &head_text;
            self.depth += 1;
            let not = Expression::unary("!", condition_text);
            self.line(&format!("if {} {{", not.text()));
            self.line("    break;");
            self.line("}");
        }
        self.ranges.facts.push((condition, true));
        for stmt in body {
            self.statement(stmt, lines)?;
        }
        self.ranges.facts.pop();
        self.pending.truncate(before);
        carries.iter().for_each(|carry| self.carry(carry));
        self.depth -= 1;
        self.line("}");
        self.names.leave();
        self.ranges.invalidate_all(head);
        self.ranges.invalidate_all(body);
        Ok(())
    }

    fn branch(
        &mut self,
        stmt: &'p Stmt,
        condition: Arg,
        then: &'p [Stmt],
        otherwise: &'p [Stmt],
        lines: &Lines,
    ) -> Result<(), Problem> {
        let text = self.arg(condition)?;
        self.flush_for(stmt)?;
        let side = |printer: &mut Self, block: &'p [Stmt], holds| {
            printer.ranges.facts.push((condition, holds));
            let result = printer.scope(block, lines);
            printer.ranges.facts.pop();
            printer.ranges.invalidate_all(block);
            result
        };
        if then.is_empty() && !otherwise.is_empty() {
            let not = Expression::unary("!", text);
            self.line(&format!("if {} {{", not.text()));
            side(self, otherwise, false)?;
        } else {
            self.line(&format!("if {} {{", text.text()));
            side(self, then, true)?;
            if !otherwise.is_empty() {
                self.line("} else {");
                side(self, otherwise, false)?;
            }
        }
        self.line("}");
        Ok(())
    }

    /// Passes an array to the next iteration.
    fn carry(&mut self, carry: &Carry) {
        let (to, from) = (carry.input.buffer, carry.output.buffer);
        if to == from {
            return;
        }
        let [to_place, from_place] = [to, from].map(|b| self.places[b].clone().unwrap_or_default());
        if memory::is_number(self.kernel, to) {
            self.line(&format!("{to_place} = {from_place};"));
        } else if [to, from].iter().all(|b| memory::is_local(self.kernel, *b)) {
            self.line(&format!("std::mem::swap(&mut {to_place}, &mut {from_place});"));
        } else {
            let other = self.borrowed(from, true);
            self.line(&format!("{to_place}.swap_with_slice({other});"));
        }
    }

    /// Returns a reference to a whole array.
    fn borrowed(&self, buffer: BufferId, mutable: bool) -> String {
        let place = self.places[buffer].clone().unwrap_or_default();
        let is_array = !memory::is_number(self.kernel, buffer);
        let is_reference = match self.kernel.buffers[buffer].place {
            // Captured tensors are constants of the module.
            Place::Input(_) => !place.starts_with(|c: char| c.is_ascii_uppercase()),
            Place::Output(_) | Place::Donated { .. } => true,
            Place::Workspace(_) | Place::Private(_) | Place::Unplaced | Place::Record { .. } => {
                false
            }
        };
        match (is_reference, mutable) {
            (true, _) if is_array => place,
            (true, true) => place.trim_start_matches('*').to_owned(),
            (_, true) => format!("&mut {place}"),
            (_, false) => format!("&{place}"),
        }
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
        if let Some(mutable) = self.at_store[buffer].take() {
            let mutable = if mutable { "mut " } else { "" };
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

    fn definition(&mut self, value: ScalarId, expr: &'p Expr) -> Result<(), Problem> {
        self.ranges.define(value, expr);
        if self.uses[value] == 0 {
            return Ok(());
        }
        let (expression, repeats) = match expr {
            Expr::Code(code, args) => {
                let operands: Vec<Operand> =
                    args.iter().map(|a| self.operand(*a)).collect::<Result<_, _>>()?;
                let operands = self.narrowed(&operands, args);
                let operands = self.counters(*code, operands, args);
                let is_sum = matches!(code, Code::Add | Code::Sub | Code::Mul | Code::Neg);
                let (least, most) = match is_sum && self.kernel.scalars[value] == Dtype::I64 {
                    true => self.range(Arg::Scalar(value)),
                    false => WHOLE,
                };
                let fits = (least > WHOLE.0 && most < WHOLE.1) || self.counts[value];
                // A copy of a variable is written as the variable, until that changes.
                let copies = matches!(code, Code::Convert(to) if *to == operands[0].dtype);
                (self.code(*code, &operands, fits)?, copies)
            }
            Expr::Load { held, address, guard } => {
                let guard_text = guard.map(|g| self.arg(g)).transpose()?;
                let element = self.element(held.buffer, address, *guard)?;
                match guard_text {
                    None => (element, true),
                    Some(guard) => {
                        let dtype = self.kernel.buffers[held.buffer].ty.dtype;
                        let zero = Expression::literal(Literal::zero(dtype));
                        (Expression::choice(guard, element, zero), false)
                    }
                }
            }
        };
        let length = expression.text().len();
        let repeats = repeats && length <= SHORT;
        let longest = if self.stored[value] { LONGEST_STORED } else { LONGEST };
        if repeats || (self.uses[value] == 1 && length <= longest) {
            self.values[value] = Some(Value::Pending { expression, repeats });
            self.pending.push(value);
        } else {
            self.name(value, &expression);
        }
        Ok(())
    }

    /// Gives names to long operands, so that a formula of them is not too long.
    fn narrowed(&mut self, operands: &[Operand], args: &[Arg]) -> Vec<Operand> {
        let mut operands = operands.to_vec();
        loop {
            let lengths = operands.iter().map(|x| x.expression.text().len());
            if lengths.clone().sum::<usize>() <= WIDE {
                return operands;
            }
            let longest = lengths.enumerate().max_by_key(|(_, length)| *length);
            let Some((i, length)) = longest else { return operands };
            let Arg::Scalar(value) = args[i] else { return operands };
            if length < LONG_OPERAND {
                return operands;
            }
            let expression = operands[i].expression.clone();
            self.name(value, &expression);
            if let Some(Value::Named(name)) = &self.values[value] {
                operands[i].expression = Expression::atom(name.clone());
            } else {
                return operands;
            }
        }
    }

    /// Returns the operands of a comparison of counters without conversions.
    fn counters(&self, code: Code, operands: Vec<Operand>, args: &[Arg]) -> Vec<Operand> {
        let compares =
            matches!(code, Code::Eq | Code::Ne | Code::Lt | Code::Le | Code::Gt | Code::Ge);
        let plain = |arg: &Arg| match arg {
            Arg::Index(_) => true,
            Arg::Literal(x) => x.dtype == Dtype::I64 && x.bits as i64 >= 0,
            Arg::Scalar(_) | Arg::Var(_) => false,
        };
        if !compares || !args.iter().all(plain) {
            return operands;
        }
        let counter = |(x, arg): (Operand, &Arg)| match arg {
            Arg::Index(index) => Operand { expression: self.index(*index), ..x },
            _ => x,
        };
        operands.into_iter().zip(args).map(counter).collect()
    }

    /// Writes the definition of a scalar with a name.
    fn name(&mut self, value: ScalarId, expression: &Expression) {
        let wish = match self.definitions[value] {
            Some(Expr::Code(Code::Convert(_), args))
                if args.iter().all(|a| matches!(a, Arg::Var(_))) =>
            {
                "previous".to_owned()
            }
            Some(Expr::Code(code, _)) => operations::name_of(*code).to_owned(),
            Some(Expr::Load { held, address, .. }) => self.element_name(held.buffer, address),
            None => memory::FIRST_RECORD.to_owned(),
        };
        let name = self.names.fresh(&wish);
        self.line(&format!("let {name} = {};", expression.suffixed().text()));
        self.values[value] = Some(Value::Named(name));
    }

    /// Returns a name for a loaded element, such as `x_ij`.
    fn element_name(&self, buffer: BufferId, address: &Address) -> String {
        let place = match &self.places[buffer] {
            Some(place) => place.trim_start_matches('*').to_ascii_lowercase(),
            None => self.record_field(buffer).map_or("saved".to_owned(), |(_, field)| field),
        };
        let letters: Vec<&str> = address
            .terms
            .iter()
            .map(|(index, _)| self.indices[*index].as_deref().unwrap_or(""))
            .collect();
        match letters.concat() {
            _ if memory::is_number(self.kernel, buffer) => place,
            letters if letters.is_empty() && address.dynamic.is_some() => format!("{place}_at"),
            letters if letters.is_empty() => format!("{place}_{}", address.offset),
            letters => format!("{place}_{letters}"),
        }
    }

    /// Gives names to pending scalars that read something for which `conflicts` is true.
    fn flush(&mut self, conflicts: &dyn Fn(&Reads) -> bool) -> Result<(), Problem> {
        self.flush_those(&|_, expression, _| conflicts(&expression.reads))
    }

    /// Gives names to the pending scalars that a statement with blocks uses inside, or whose operands it changes.
    fn flush_for(&mut self, stmt: &'p Stmt) -> Result<(), Problem> {
        let mut used: BTreeSet<ScalarId> = BTreeSet::new();
        let mut written = Reads::default();
        visit(std::slice::from_ref(stmt), &mut |stmt| {
            stmt.args(&mut |arg| {
                if let Arg::Scalar(value) = arg {
                    used.insert(value);
                }
            });
            stmt.accesses(&mut |access| {
                if access.write {
                    written.buffers.insert(access.held.buffer);
                }
            });
            for carry in stmt.carries() {
                written.buffers.extend([carry.input.buffer, carry.output.buffer]);
            }
            if let Some((var, _)) = stmt.assigned() {
                written.vars.insert(var);
            }
        });
        let reads_written = |reads: &Reads| {
            !reads.buffers.is_disjoint(&written.buffers) || !reads.vars.is_disjoint(&written.vars)
        };
        self.flush_those(&|value, expression, repeats| {
            reads_written(&expression.reads) || (!repeats && used.contains(&value))
        })
    }

    fn flush_those(
        &mut self,
        chosen: &dyn Fn(ScalarId, &Expression, bool) -> bool,
    ) -> Result<(), Problem> {
        for value in std::mem::take(&mut self.pending) {
            match self.values[value].clone() {
                Some(Value::Pending { expression, repeats }) if self.uses[value] > 0 => {
                    if chosen(value, &expression, repeats) {
                        self.name(value, &expression);
                    } else {
                        self.pending.push(value);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns an operand of a statement, which is one use of it.
    fn arg(&mut self, arg: Arg) -> Result<Expression, Problem> {
        let missing = || Problem::internal("an operand of Rust source that is not defined");
        Ok(match arg {
            Arg::Scalar(value) => {
                self.uses[value] = self.uses[value].saturating_sub(1);
                match self.values[value].clone().ok_or_else(missing)? {
                    Value::Named(name) => Expression::atom(name),
                    Value::Pending { expression, .. } => expression,
                }
            }
            Arg::Var(var) => {
                let mut name = Expression::atom(self.vars[var].clone().ok_or_else(missing)?);
                name.reads.vars.insert(var);
                name
            }
            Arg::Index(index) => Expression::cast(self.index(index), "i64"),
            Arg::Literal(literal) => Expression::literal(literal),
        })
    }

    fn operand(&mut self, arg: Arg) -> Result<Operand, Problem> {
        let literal = if let Arg::Literal(literal) = arg { Some(literal) } else { None };
        Ok(Operand { expression: self.arg(arg)?, dtype: self.kernel.dtype(arg), literal })
    }

    fn index(&self, index: IndexId) -> Expression {
        Expression::atom(self.indices[index].clone().unwrap_or_default())
    }

    fn code(
        &mut self,
        code: Code,
        operands: &[Operand],
        fits: bool,
    ) -> Result<Expression, Problem> {
        let made = operations::expression(&mut self.source.helpers, code, operands, fits);
        made.ok_or_else(|| {
            let name = code.row().name;
            let message =
                format!("the standard library of Rust has no function `{name}`, and its source branches");
            let help = "compute it outside of the function and pass the result, or run the function with `jit(f).call`";
            let (equations, line) = self.equations;
            let own = equations.into_iter().flat_map(Origins::iter).find(|of| of.primitive == name);
            Problem::new(Kind::Target, message, help).at(own.and_then(|of| of.origin.loc).or(line))
        })
    }

    /// Returns the range of an integer.
    fn range(&self, arg: Arg) -> (i128, i128) {
        let address = Address { dynamic: Some(arg), ..Address::default() };
        self.ranges.address(&address, None).map_or(WHOLE, |range| (range.least, range.most))
    }

    /// Returns the element of a buffer at an address, as a place of Rust.
    fn element(
        &mut self,
        buffer: BufferId,
        address: &Address,
        guard: Option<Arg>,
    ) -> Result<Expression, Problem> {
        let mut element = match self.places[buffer].clone() {
            Some(place) if memory::is_number(self.kernel, buffer) => {
                // The address is 0, but its operand is used.
                if let Some(dynamic) = address.dynamic {
                    self.arg(dynamic)?;
                }
                let level = if place.starts_with('*') { Level::Unary } else { Level::Postfix };
                Expression::new(place, level)
            }
            Some(place) => {
                let index = self.address(address, None, guard)?;
                let text = format!("{place}[{}]", index.text());
                Expression::atom(text).reading(&[index])
            }
            None => {
                let (record, field) = self.record_field(buffer).ok_or_else(|| {
                    Problem::internal("a record of Rust source to which no cursor points")
                })?;
                let elements = self.kernel.buffers[buffer].ty.shape.elements();
                let start = match elements {
                    1 => record,
                    n => format!("{record} * {n}"),
                };
                let index = self.address(address, Some(start), guard)?;
                Expression::atom(format!("{field}[{}]", index.text())).reading(&[index])
            }
        };
        element.reads.buffers.insert(buffer);
        Ok(element)
    }

    /// Returns the number of the record in which a buffer lies, and the field of its tape.
    fn record_field(&self, buffer: BufferId) -> Option<(String, String)> {
        let Place::Record { cursor, offset } = self.kernel.buffers[buffer].place else {
            return None;
        };
        let Record { index, target: (tape, field) } = self.records[cursor].clone()?;
        let ty = &self.kernel.buffers[buffer].ty;
        let tapes = &self.source.tapes;
        let of = tapes.field(tape, field + offset, ty.dtype, ty.shape.elements())?;
        Some((index, format!("{}.{}", tapes.all[tape].name, of.name)))
    }

    /// Returns an address as an index: a sum in which terms that are subtracted come last, so that no partial sum is negative.
    fn address(
        &mut self,
        address: &Address,
        start: Option<String>,
        guard: Option<Arg>,
    ) -> Result<Expression, Problem> {
        let mut plus: Vec<Expression> =
            start.into_iter().map(|s| Expression::new(s, Level::Product)).collect();
        let mut minus: Vec<Expression> = Vec::new();
        for (index, stride) in &address.terms {
            let name = self.index(*index);
            let factor = Expression::atom(stride.unsigned_abs().to_string());
            let term = match stride.unsigned_abs() {
                1 => name,
                _ => Expression::binary(name, "*", factor, Level::Product),
            };
            if *stride < 0 { minus.push(term) } else { plus.push(term) }
        }
        let offset = Expression::atom(address.offset.unsigned_abs().to_string());
        let sum = |plus: Vec<Expression>, minus: Vec<Expression>| {
            let mut plus = plus.into_iter();
            let first = plus.next().unwrap_or_else(|| Expression::atom("0"));
            let sum = plus.fold(first, |sum, x| Expression::binary(sum, "+", x, Level::Sum));
            minus.into_iter().fold(sum, |sum, x| Expression::binary(sum, "-", x, Level::Sum))
        };
        let Some(dynamic) = address.dynamic else {
            match address.offset {
                1.. => plus.push(offset),
                0 => {}
                _ => minus.push(offset),
            }
            return Ok(sum(plus, minus));
        };
        let only = Address { dynamic: Some(dynamic), ..Address::default() };
        let least = self.ranges.address(&only, guard).map_or(0, |range| range.least);
        let dynamic = self.arg(dynamic)?;
        if least >= 0 || (plus.is_empty() && minus.is_empty() && address.offset == 0) {
            plus.push(Expression::cast(dynamic, "usize"));
            match address.offset {
                1.. => plus.push(offset),
                0 => {}
                _ => minus.push(offset),
            }
            return Ok(sum(plus, minus));
        }
        let mut total = dynamic;
        let integer = |x: Expression| Expression::cast(x, "i64");
        if !plus.is_empty() {
            let rest = integer(sum(plus, Vec::new()));
            total = Expression::binary(total, "+", rest, Level::Sum);
        }
        for x in minus {
            total = Expression::binary(total, "-", integer(x), Level::Sum);
        }
        total = match address.offset {
            1.. => Expression::binary(total, "+", offset, Level::Sum),
            0 => total,
            _ => Expression::binary(total, "-", offset, Level::Sum),
        };
        Ok(Expression::cast(total, "usize"))
    }

    fn tape(&mut self, of: &'p TapeStmt) -> Result<(), Problem> {
        match of {
            TapeStmt::Length { value, tape } => {
                if self.uses[*value] > 0 {
                    let tape = &self.source.tapes.all[*tape].name;
                    let length =
                        Expression::cast(Expression::atom(format!("{tape}.records")), "i64");
                    self.name(*value, &length);
                }
            }
            TapeStmt::Cut { tape, to } => {
                let to = self.arg(*to)?;
                self.source.cut.insert(*tape);
                let tape = self.source.tapes.all[*tape].name.clone();
                self.line(&format!("{tape}.cut({});", Expression::cast(to, "usize").text()));
            }
            TapeStmt::MoveCursor { cursor, to, index } => self.seek(*cursor, *to, *index)?,
        }
        Ok(())
    }

    /// Moves a cursor: gives the number of its record a name.
    fn seek(&mut self, cursor: CursorId, to: CursorTarget, index: Arg) -> Result<(), Problem> {
        let mut targets = match to {
            CursorTarget::Tape(tape) => vec![(tape, 0)],
            CursorTarget::Handle(word) => self.source.tapes.targets(self.kernel, cursor, word),
        };
        let target =
            targets.pop().ok_or_else(|| Problem::internal("a tape that nothing writes"))?;
        let number = Expression::cast(self.arg(index)?, "usize");
        let name = self.names.fresh("record");
        self.line(&format!("let {name} = {};", number.text()));
        if let CursorTarget::Tape(tape) = to {
            let tape = self.source.tapes.all[tape].name.clone();
            self.line(&format!("{tape}.reach({name});"));
        }
        let fields: Vec<(BufferId, usize)> = in_record(self.kernel, cursor).collect();
        if targets.is_empty() {
            for (buffer, _) in fields {
                self.places[buffer] = None;
            }
            self.records[cursor] = Some(Record { index: name, target });
            return Ok(());
        }
        // The handle selects one of several fields, whose values are copied.
        let CursorTarget::Handle(word) = to else { return Ok(()) };
        let word = self.arg(word)?;
        targets.push(target);
        for (buffer, offset) in fields {
            let ty = &self.kernel.buffers[buffer].ty;
            let (dtype, elements) = (ty.dtype, ty.shape.elements());
            let value = self.names.fresh("saved");
            self.line(&format!("let {value} = match {} {{", word.text()));
            for (i, target) in targets.iter().enumerate() {
                let (tape, field) = *target;
                let Some(of) = self.source.tapes.field(tape, field + offset, dtype, elements)
                else {
                    continue;
                };
                let place = format!("{}.{}", self.source.tapes.all[tape].name, of.name);
                let read = match elements {
                    1 => format!("{place}[{name}]"),
                    n => format!("{place}[{name} * {n}..][..{n}].to_vec()"),
                };
                let word = match i + 1 == targets.len() {
                    true => "_".to_owned(),
                    false => Tapes::word(*target).to_string(),
                };
                self.line(&format!("    {word} => {read},"));
            }
            self.line("};");
            self.places[buffer] = Some(value);
        }
        Ok(())
    }

    fn call(&mut self, call: &'p Call) -> Result<(), Problem> {
        let callee = &self.source.program.callees[call.callee];
        let tapes = self.source.tapes.of_callees[call.callee].clone();
        let is_lent = |printer: &Self, buffer: BufferId| match printer.kernel.buffers[buffer].place
        {
            Place::Record { cursor, .. } => {
                let record = printer.records[cursor].as_ref();
                record.is_some_and(|record| tapes.contains(&record.target.0))
            }
            _ => false,
        };
        let all: Vec<(Slot, BufferId)> = slots(callee);
        let mut written: BTreeSet<BufferId> = BTreeSet::new();
        let mut arguments: Vec<String> = vec![String::new(); all.len()];
        let mut after: Vec<String> = Vec::new();
        let mut stored: BTreeSet<BufferId> = BTreeSet::new();
        // Results first: an argument in the same array as a result is copied.
        for (i, (slot, _)) in all.iter().enumerate() {
            let Slot::Output(n) = slot else { continue };
            let view = &call.outputs[*n];
            let buffer = view.held.buffer;
            stored.insert(buffer);
            let donated = callee.buffers[all[i].1].place.input().is_some();
            if written.insert(buffer) && !is_lent(self, buffer) {
                arguments[i] = self.view(view, true)?;
                continue;
            }
            let place = self.view(view, true)?;
            let dtype = self.kernel.buffers[buffer].ty.dtype;
            let name = self.names.fresh("result");
            let is_one = view.elements == 1;
            let source = place.trim_start_matches("&mut ").to_owned();
            let start = match (donated, is_one) {
                (true, true) => source.clone(),
                (true, false) => format!("{source}.to_vec()"),
                (false, true) => typed_literal(Literal::zero(dtype)),
                (false, false) => zeros(dtype, view.elements),
            };
            self.line(&format!("let mut {name} = {start};"));
            arguments[i] = format!("&mut {name}");
            after.push(match is_one {
                true => format!("{source} = {name};"),
                false => format!("{source}.copy_from_slice(&{name});"),
            });
        }
        for (i, (slot, _)) in all.iter().enumerate() {
            let Slot::Input(n) = slot else { continue };
            let view = &call.operands[*n];
            let buffer = view.held.buffer;
            let text = self.view(view, false)?;
            let overlaps = stored.contains(&buffer) || is_lent(self, buffer);
            arguments[i] = match view.elements != 1 && overlaps {
                true => {
                    let name = self.names.fresh("operand");
                    self.line(&format!("let {name} = {}.to_vec();", text.trim_start_matches('&')));
                    format!("&{name}")
                }
                false => text,
            };
        }
        // A number that is copied into an argument is read before the results are written.
        for tape in tapes {
            let name = self.source.tapes.all[tape].name.clone();
            arguments.push(if self.own_tapes.contains(&tape) {
                format!("&mut {name}")
            } else {
                name
            });
        }
        self.flush(&|reads| !reads.buffers.is_disjoint(&stored))?;
        let name = self.source.kernel_names[call.callee].clone();
        self.line(&format!("{name}({});", arguments.join(", ")));
        after.iter().for_each(|line| self.line(line));
        Ok(())
    }

    /// Returns a view as an argument: a number, or a reference to elements.
    fn view(&mut self, view: &'p View, mutable: bool) -> Result<String, Problem> {
        let View { held, at, elements } = view;
        let buffer = held.buffer;
        let size = self.kernel.buffers[buffer].ty.shape.elements();
        let borrow = if mutable { "&mut " } else { "&" };
        if *elements == 1 {
            let element = self.element(buffer, at, None)?;
            let text = element.text();
            return Ok(match (mutable, text.strip_prefix('*')) {
                (true, Some(reference)) => reference.to_owned(),
                (true, None) => format!("&mut {text}"),
                (false, _) => text.to_owned(),
            });
        }
        if self.places[buffer].is_some() && *elements == size {
            if let Some(dynamic) = at.dynamic {
                self.arg(dynamic)?;
            }
            return Ok(self.borrowed(buffer, mutable));
        }
        let (place, start) = match self.places[buffer].clone() {
            Some(place) => (place, None),
            None => {
                let (record, field) = self.record_field(buffer).ok_or_else(|| {
                    Problem::internal("a record of Rust source to which no cursor points")
                })?;
                (field, Some(format!("{record} * {size}")))
            }
        };
        let first = self.address(at, start, None)?;
        Ok(match first.text() {
            "0" => format!("{borrow}{place}[..{elements}]"),
            text => format!("{borrow}{place}[{text}..][..{elements}]"),
        })
    }
}

/// The range of an i64.
const WHOLE: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);

/// Returns whether a text has a name as a word.
fn has_word(text: &str, name: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| word == name)
}
