//! Counts the uses of each scalar: a scalar with a single use needs no variable.

use super::Printer;
use crate::loop_ir::{Arg, CursorTarget, Expr, Extent, ScalarId, Stmt, TapeStmt, visit};
use crate::rust_source::buffer_names;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::Code;

impl<'p> Printer<'_, 'p> {
    /// Counts the uses of scalars, and names the variables of sums. The first word of a tape handle selects a field of
    /// the tape's records. If only one field is possible, this use of the word does not count, because it is not
    /// printed.
    pub(super) fn count_uses(&mut self) {
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
                Stmt::Fold { var, code, .. } => {
                    self.var_names[*var].get_or_insert(buffer_names::of_fold(*code));
                }
                _ => {}
            }
        });
        // A scalar without uses is not printed, so do not count the uses in its definition. As a result, its operands
        // may also have no uses left.
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

    /// Finds the scalars that are only used as trip counts or as numbers of tape records.
    pub(super) fn find_counts(&mut self) {
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
}
