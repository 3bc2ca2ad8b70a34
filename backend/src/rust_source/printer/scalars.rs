//! Prints scalars as formulas, either where they are used or as the value of a variable.

use super::{Printer, Value};
use crate::loop_ir::{Address, Arg, BufferId, Expr, IndexId, Origins, ScalarId, Stmt, visit};
use crate::rust_source::buffer_names;
use crate::rust_source::declarations::is_number;
use crate::rust_source::expression::{Expression, Reads};
use crate::rust_source::scalar_codes::{self, Operand};
use std::collections::BTreeSet;
use tapeloom_ir::{Code, Dtype, Kind, Literal, Problem};

/// The longest formula, in characters, that is printed at its use.
const LONGEST: usize = 56;
/// The longest formula, in characters, that is printed on the right side of an assignment.
const LONGEST_STORED: usize = 84;
/// The longest load, in characters, that is printed at each of several uses.
const SHORT: usize = 14;
/// If the text of an operation with its operands is longer than this, in characters, its long operands are assigned to
/// variables.
const WIDE: usize = 84;
/// The shortest operand, in characters, that counts as long.
const LONG_OPERAND: usize = 20;

impl<'p> Printer<'_, 'p> {
    pub(super) fn definition(&mut self, value: ScalarId, expr: &'p Expr) -> Result<(), Problem> {
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
                // A copy of a variable is printed as the variable itself, as long as the variable does not change.
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

    /// Returns the operands. If the operation would be too long, assigns long operands to variables first.
    pub(super) fn narrowed(&mut self, operands: &[Operand], args: &[Arg]) -> Vec<Operand> {
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

    /// If a comparison compares loop counters that are converted to i64, returns the operands without these
    /// conversions.
    pub(super) fn counters(
        &self,
        code: Code,
        operands: Vec<Operand>,
        args: &[Arg],
    ) -> Vec<Operand> {
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

    /// Prints the definition of a variable for a scalar.
    pub(super) fn name(&mut self, value: ScalarId, expression: &Expression) {
        let wish = match self.definitions[value] {
            Some(Expr::Code(Code::Convert(_), args))
                if args.iter().all(|a| matches!(a, Arg::Var(_))) =>
            {
                "previous".to_owned()
            }
            Some(Expr::Code(code, _)) => scalar_codes::name_of(*code).to_owned(),
            Some(Expr::Load { held, address, .. }) => self.element_name(held.buffer, address),
            None => buffer_names::FIRST_RECORD.to_owned(),
        };
        let name = self.names.fresh(&wish);
        self.line(&format!("let {name} = {};", expression.suffixed().text()));
        self.values[value] = Some(Value::Named(name));
    }

    /// Returns a name for the variable of a loaded element, such as `x_ij`.
    pub(super) fn element_name(&self, buffer: BufferId, address: &Address) -> String {
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
            _ if is_number(self.kernel, buffer) => place,
            letters if letters.is_empty() && address.dynamic.is_some() => format!("{place}_at"),
            letters if letters.is_empty() => format!("{place}_{}", address.offset),
            letters => format!("{place}_{letters}"),
        }
    }

    /// Assigns those pending scalars to variables for whose reads `conflicts` returns true.
    pub(super) fn flush(&mut self, conflicts: &dyn Fn(&Reads) -> bool) -> Result<(), Problem> {
        self.flush_those(&|_, expression, _| conflicts(&expression.reads))
    }

    /// In front of a statement with blocks, assigns those pending scalars to variables that the blocks use, or whose
    /// formulas read variables or memory that the blocks change.
    pub(super) fn flush_for(&mut self, stmt: &'p Stmt) -> Result<(), Problem> {
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

    pub(super) fn flush_those(
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

    /// Returns the expression of an operand, and counts one of its uses as printed.
    pub(super) fn arg(&mut self, arg: Arg) -> Result<Expression, Problem> {
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

    pub(super) fn operand(&mut self, arg: Arg) -> Result<Operand, Problem> {
        let literal = if let Arg::Literal(literal) = arg { Some(literal) } else { None };
        Ok(Operand { expression: self.arg(arg)?, dtype: self.kernel.dtype(arg), literal })
    }

    pub(super) fn index(&self, index: IndexId) -> Expression {
        Expression::atom(self.indices[index].clone().unwrap_or_default())
    }

    pub(super) fn code(
        &mut self,
        code: Code,
        operands: &[Operand],
        fits: bool,
    ) -> Result<Expression, Problem> {
        let made = scalar_codes::expression(&mut self.source.helpers, code, operands, fits);
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

    /// Returns the least and the greatest value that an integer can have.
    pub(super) fn range(&self, arg: Arg) -> (i128, i128) {
        let address = Address { dynamic: Some(arg), ..Address::default() };
        self.ranges.address(&address, None).map_or(WHOLE, |range| (range.least, range.most))
    }
}

/// The least and the greatest value of an i64.
const WHOLE: (i128, i128) = (i64::MIN as i128, i64::MAX as i128);
