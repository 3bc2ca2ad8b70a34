//! Liveness of variables: removes assignments whose value no path reads, because the Rust compiler warns about them.
//!
//! A *cell* is a variable or a local buffer. The analysis walks backwards through the statements. It repeats the walk
//! through a loop until the cells that are live at the loop's start no longer change. An array is one cell, so its
//! elements are live together.

use super::declarations::{Declarations, is_local, is_number};
use crate::loop_ir::{
    Arg, BufferId, Carry, CursorId, CursorTarget, Expr, Kernel, Place, Stmt, TapeStmt, VarId,
    dead_code, visit,
};
use std::collections::BTreeSet;

/// A variable in the printed Rust source that statements assign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    /// A variable of the loop program.
    Var(VarId),
    /// A local buffer: a number or an array.
    Buffer(BufferId),
}

/// The variables and numbers whose initial value no path reads. They are declared without a value.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) vars: BTreeSet<VarId>,
    /// The declared numbers whose initial zero no path reads.
    pub(super) numbers: BTreeSet<BufferId>,
}

type Live = BTreeSet<Cell>;

/// Removes the assignments and definitions of a kernel whose values nothing reads.
pub(super) fn prune(kernel: &mut Kernel) {
    kernel.rewrite(|kernel, body| {
        loop {
            dead_code::drop_dead(body);
            let mut walk = Walk::new(kernel, None);
            walk.block(body, &mut Live::new());
            let read = read_buffers(body);
            let read_cursors: BTreeSet<CursorId> = read
                .iter()
                .filter_map(|buffer| match kernel.buffers[*buffer].place {
                    Place::Record { cursor, .. } => Some(cursor),
                    _ => None,
                })
                .collect();
            visit(body, &mut |stmt| {
                let is_useless = match stmt {
                    Stmt::Store { held, .. } => {
                        is_local(kernel, held.buffer) && !read.contains(&held.buffer)
                    }
                    // A cursor is moved to a tape record to read it: useless if the kernel reads nothing through this
                    // cursor.
                    Stmt::Tape(TapeStmt::MoveCursor {
                        cursor,
                        to: CursorTarget::Handle(_),
                        ..
                    }) => !read_cursors.contains(cursor),
                    _ => false,
                };
                if is_useless {
                    walk.useless.insert(address_of(stmt));
                }
            });
            let mut useless = Vec::new();
            numbered(body, &walk.useless, &mut useless);
            let mut flags = useless.into_iter();
            if !remove(body, &mut flags) {
                return;
            }
        }
    });
}

/// Returns the variables and numbers whose initial value no path reads.
pub(super) fn unread(kernel: &Kernel, declarations: &Declarations) -> Unread {
    let mut walk = Walk::new(kernel, Some(declarations));
    walk.block(&kernel.body, &mut Live::new());
    walk.unread
}

/// Returns the address of a statement or a carry in memory. It identifies the statement or carry as long as the program
/// is not changed.
fn address_of<T>(x: &T) -> *const () {
    std::ptr::from_ref(x).cast()
}

/// Returns the buffers that a block reads, or that a loop in it passes to its next iteration.
fn read_buffers(body: &[Stmt]) -> BTreeSet<BufferId> {
    let mut read = BTreeSet::new();
    visit(body, &mut |stmt| {
        let is_store = matches!(stmt, Stmt::Store { .. });
        stmt.buffers(&mut |buffer| {
            if !is_store {
                read.insert(buffer);
            }
        });
    });
    read
}

/// Appends to `flags`, for each statement in order and for each of its carries, whether it is useless.
fn numbered(body: &[Stmt], useless: &BTreeSet<*const ()>, flags: &mut Vec<bool>) {
    for stmt in body {
        flags.push(useless.contains(&address_of(stmt)));
        flags.extend(stmt.carries().iter().map(|carry| useless.contains(&address_of(carry))));
        stmt.blocks().into_iter().for_each(|inside| numbered(inside, useless, flags));
    }
}

/// Removes the statements and carries whose flag is true. Also removes branches, nests and counted loops that have no
/// statements left. Returns whether anything was removed.
fn remove(body: &mut Vec<Stmt>, flags: &mut dyn Iterator<Item = bool>) -> bool {
    let mut changed = false;
    body.retain_mut(|stmt| {
        let is_useless = flags.next().unwrap_or(false);
        if let Stmt::For { carries, .. } | Stmt::While { carries, .. } = stmt {
            let before = carries.len();
            carries.retain(|_| !flags.next().unwrap_or(false));
            changed |= carries.len() < before;
        }
        stmt.blocks_mut().into_iter().for_each(|inside| changed |= remove(inside, flags));
        let is_empty = matches!(stmt, Stmt::Nest { .. } | Stmt::If { .. } | Stmt::For { .. })
            && stmt.blocks().iter().all(|block| block.is_empty())
            && stmt.carries().is_empty();
        changed |= is_useless || is_empty;
        !(is_useless || is_empty)
    });
    changed
}

struct Walk<'k> {
    kernel: &'k Kernel,
    declarations: Option<&'k Declarations>,
    /// The addresses of the assignments and carries whose value nothing reads.
    useless: BTreeSet<*const ()>,
    unread: Unread,
}

/// Inserts the element if `holds` is true, and otherwise removes it. The analysis walks over a loop several times, so
/// that the last walk must decide.
fn mark<T: Ord>(set: &mut BTreeSet<T>, element: T, holds: bool) {
    if holds {
        set.insert(element);
    } else {
        set.remove(&element);
    }
}

impl<'k> Walk<'k> {
    fn new(kernel: &'k Kernel, declarations: Option<&'k Declarations>) -> Walk<'k> {
        let (useless, unread) = Default::default();
        Walk { kernel, declarations, useless, unread }
    }

    /// Computes liveness backwards through a block. Before the call, `live` has the cells that are read after the
    /// block; after the call, the cells that are read from the block's start on.
    fn block(&mut self, body: &[Stmt], live: &mut Live) {
        for stmt in body.iter().rev() {
            self.statement(stmt, live);
            if let Some(declarations) = self.declarations {
                for (buffer, _) in declarations.at(stmt) {
                    let is_live = live.contains(&Cell::Buffer(*buffer));
                    mark(&mut self.unread.numbers, *buffer, !is_live);
                }
            }
        }
    }

    fn statement(&mut self, stmt: &Stmt, live: &mut Live) {
        match stmt {
            Stmt::Nest { body, .. } => self.block(body, live),
            Stmt::If { then, otherwise, .. } => {
                let mut other = live.clone();
                self.block(then, live);
                self.block(otherwise, &mut other);
                live.append(&mut other);
                self.reads(stmt, live);
            }
            Stmt::For { carries, body, .. } => {
                loop {
                    let mut start = live.clone();
                    self.before_carries(carries, &mut start);
                    self.block(body, &mut start);
                    if start.is_subset(live) {
                        break;
                    }
                    live.extend(start);
                }
                self.reads(stmt, live);
            }
            Stmt::While { head, condition, carries, body, .. } => {
                // From here on, `live` has the cells that are live after the head of the `while`: those of the body,
                // and those of the code after the loop.
                live.extend(cell_of(*condition));
                loop {
                    let mut start = live.clone();
                    self.block(head, &mut start);
                    self.before_carries(carries, &mut start);
                    self.block(body, &mut start);
                    if start.is_subset(live) {
                        break;
                    }
                    live.extend(start);
                }
                self.block(head, live);
            }
            Stmt::Set { var, .. } => {
                let needed = live.remove(&Cell::Var(*var));
                self.assignment(stmt, needed, live);
            }
            Stmt::Fold { var, .. } => {
                let needed = live.contains(&Cell::Var(*var));
                self.assignment(stmt, needed, live);
            }
            Stmt::Var { var, .. } => {
                let needed = live.remove(&Cell::Var(*var));
                mark(&mut self.unread.vars, *var, !needed);
                if needed {
                    self.reads(stmt, live);
                }
            }
            Stmt::Store { held, guard, .. } if is_local(self.kernel, held.buffer) => {
                // A store of one element does not end the liveness of the array: the other elements keep their values.
                let cell = Cell::Buffer(held.buffer);
                let keeps = guard.is_some() || !is_number(self.kernel, held.buffer);
                let needed = if keeps { live.contains(&cell) } else { live.remove(&cell) };
                self.assignment(stmt, needed, live);
            }
            Stmt::Let { .. }
            | Stmt::Store { .. }
            | Stmt::Contract(_)
            | Stmt::Call(_)
            | Stmt::Tape(_)
            | Stmt::Limit(_)
            | Stmt::CallExternal(_)
            | Stmt::Lap(_) => self.reads(stmt, live),
        }
    }

    fn assignment(&mut self, stmt: &Stmt, needed: bool, live: &mut Live) {
        mark(&mut self.useless, address_of(stmt), !needed);
        if needed {
            self.reads(stmt, live);
        }
    }

    /// Adds the cells that a statement itself reads to `live`, without the cells that its inner blocks read.
    fn reads(&self, stmt: &Stmt, live: &mut Live) {
        stmt.args(&mut |arg| live.extend(cell_of(arg)));
        if let Stmt::Let { expr: Expr::Load { held, .. }, .. } = stmt {
            live.insert(Cell::Buffer(held.buffer));
        }
        // A call gets references to its numbers, even to those that it only writes, so they must be initialized before
        // the call.
        for view in stmt.shape().views.into_iter().flatten() {
            live.insert(Cell::Buffer(view.held.buffer));
        }
    }

    /// Computes liveness backwards through carries, which pass values to the next iteration. Before the call, `live`
    /// has the cells that are read after the carries; after the call, the cells that are read before them.
    fn before_carries(&mut self, carries: &[Carry], live: &mut Live) {
        for carry in carries.iter().rev() {
            let (to, from) = (carry.input.buffer, carry.output.buffer);
            if to == from {
                continue;
            }
            if !is_local(self.kernel, to) || !is_number(self.kernel, to) {
                live.extend([to, from].map(Cell::Buffer));
                continue;
            }
            let needed = live.remove(&Cell::Buffer(to));
            mark(&mut self.useless, address_of(carry), !needed);
            if needed {
                live.insert(Cell::Buffer(from));
            }
        }
    }
}

fn cell_of(arg: Arg) -> Option<Cell> {
    if let Arg::Var(var) = arg { Some(Cell::Var(var)) } else { None }
}
