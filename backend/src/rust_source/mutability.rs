//! Finds the variables that need `mut` in Rust: those that a statement changes where they may already have a value. The
//! compiler warns about any other `mut`.
//!
//! In a loop, a statement may change a variable that is declared outside of the loop. An earlier iteration may have
//! given it a value, so the variable needs `mut`.

use super::declarations::{Declaration, Declarations, is_number};
use super::liveness::{Cell, Unread};
use crate::loop_ir::{Kernel, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the variables, numbers and arrays of a kernel that need `mut`.
pub(super) fn mutable(
    kernel: &Kernel,
    declarations: &Declarations,
    unread: &Unread,
) -> BTreeSet<Cell> {
    let (loops, declared, valued, gained, mutable) = Default::default();
    let mut walk = Walk { kernel, declarations, unread, loops, declared, valued, gained, mutable };
    walk.block(&kernel.body);
    walk.mutable
}

struct Walk<'k> {
    kernel: &'k Kernel,
    declarations: &'k Declarations,
    unread: &'k Unread,
    /// The number of loops around the current statement.
    loops: usize,
    /// The number of loops around each declaration.
    declared: BTreeMap<Cell, usize>,
    /// The cells (variables and buffers) that may have a value at the current statement.
    valued: BTreeSet<Cell>,
    /// The cells that have a value, in the order in which they got it.
    gained: Vec<Cell>,
    mutable: BTreeSet<Cell>,
}

impl Walk<'_> {
    fn declare(&mut self, cell: Cell, has_value: bool) {
        self.declared.insert(cell, self.loops);
        self.valued.remove(&cell);
        if has_value {
            self.give_value(cell);
        }
    }

    fn change(&mut self, cell: Cell) {
        let is_outside = self.declared.get(&cell).is_some_and(|loops| *loops < self.loops);
        if is_outside || self.valued.contains(&cell) {
            self.mutable.insert(cell);
        }
        self.give_value(cell);
    }

    fn give_value(&mut self, cell: Cell) {
        if self.valued.insert(cell) {
            self.gained.push(cell);
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            for (buffer, declaration) in self.declarations.at(stmt) {
                let is_unread =
                    is_number(self.kernel, *buffer) && self.unread.numbers.contains(buffer);
                let has_value = *declaration == Declaration::Zeros && !is_unread;
                self.declare(Cell::Buffer(*buffer), has_value);
            }
            if !self.declarations.fills_zeros(stmt) {
                self.statement(stmt);
            }
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Nest { body, .. } => self.block(body),
            Stmt::If { then, otherwise, .. } => {
                // The other side of the branch begins without the values that the first side has given to cells.
                let before = self.gained.len();
                self.block(then);
                let of_then = self.gained.split_off(before);
                of_then.iter().for_each(|cell| _ = self.valued.remove(cell));
                self.block(otherwise);
                of_then.into_iter().for_each(|cell| self.give_value(cell));
            }
            Stmt::For { .. } | Stmt::While { .. } => {
                self.loops += 1;
                stmt.blocks().into_iter().for_each(|inside| self.block(inside));
                for carry in stmt.carries() {
                    let (to, from) = (carry.input.buffer, carry.output.buffer);
                    if to == from {
                        continue;
                    }
                    self.change(Cell::Buffer(to));
                    if !is_number(self.kernel, to) {
                        self.change(Cell::Buffer(from));
                    }
                }
                self.loops -= 1;
            }
            Stmt::Var { var, .. } => {
                self.declare(Cell::Var(*var), !self.unread.vars.contains(var));
            }
            Stmt::Set { var, .. } | Stmt::Fold { var, .. } => self.change(Cell::Var(*var)),
            Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::CallExternal(_)
            | Stmt::Let { .. }
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::Lap(_) => {
                stmt.accesses(&mut |access| {
                    if access.write {
                        self.change(Cell::Buffer(access.held.buffer));
                    }
                });
            }
        }
    }
}
