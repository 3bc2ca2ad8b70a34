//! How a program is cut into functions, and which values stay in registers.
//!
//! The time that register allocation takes grows faster than a function, so a long program becomes
//! several functions ("parts") of about [`LIMIT`] operations, called one after the other. The cuts
//! lie between top-level statements; a scalar that is used beyond its part crosses in a *spill*, an
//! extra eight bytes of workspace.
//!
//! An unrolled program is thousands of steps of one scalar each. Storing and loading every scalar
//! would double the work, so buffers that are only accessed at constant addresses and only stored to
//! outside loops are *promoted*: within a part their elements are plain values, and a store that no
//! other part reads is not made at all.

use crate::kernel::{Address, Arg, BufferId, Expr, Place, Program, ScalarId, Step, Stmt};
use cranelift_entity::SecondaryMap;
use std::collections::HashMap;

/// Operations per function: measured with Cranelift's backtracking allocator, which takes 1.2
/// microseconds per operation at this size and 3.4 for 100,000 operations in one function.
pub(super) const LIMIT: usize = 2000;

/// A run of top-level statements and contractions.
pub(super) struct Part<'a> {
    /// In order.
    pub(super) items: Vec<Item<'a>>,
}

/// What a part does.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// A top-level statement of a nest.
    Stmt(&'a Stmt),
    /// The contraction of that number (contractions count separately).
    Contract(usize, &'a crate::kernel::Contract),
}

/// The cut program.
pub(super) struct Parts<'a> {
    /// The functions to make.
    pub(super) parts: Vec<Part<'a>>,
    /// Scalars that cross: the part that defines them and the byte offset of their spill.
    pub(super) spills: HashMap<ScalarId, (usize, usize)>,
    /// Bytes of workspace with spills.
    pub(super) workspace: usize,
    /// What is known of each buffer.
    pub(super) buffers: SecondaryMap<BufferId, Promotion>,
}

/// Whether a buffer's elements can be values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Promotion {
    /// Nothing accesses it.
    #[default]
    Unused,
    /// All accesses are at constant addresses, stores are outside loops, and all are in this part.
    Local(usize),
    /// As before, but several parts access it: values within a part, memory between.
    Shared,
    /// It must be in memory.
    Memory,
}

/// The address of an element that is the same in every iteration.
pub(super) fn constant(a: &Address) -> Option<i64> {
    (a.terms.is_empty() && a.dynamic.is_none()).then_some(a.offset)
}

/// Cuts a program.
pub(super) fn cut(program: &Program, limit: usize) -> Parts<'_> {
    let mut cutter = Cutter {
        program,
        parts: vec![Part { items: Vec::new() }],
        buffers: SecondaryMap::new(),
        defined: HashMap::new(),
        spills: HashMap::new(),
        workspace: program.workspace.next_multiple_of(8),
    };
    let (mut cost, mut contractions) = (0, 0);
    for step in &program.steps {
        // Values are local to a step.
        cutter.defined.clear();
        match step {
            Step::Contract(c) => {
                cutter.place(Item::Contract(contractions, c), &mut cost, 8, limit, true);
                contractions += 1;
                let part = cutter.parts.len() - 1;
                for m in [c.lhs, c.rhs, c.out] {
                    cutter.access(m.buffer, Promotion::Memory, part);
                }
            }
            Step::Nest(body) => {
                // Variables do not cross: no cut between the declaration and the last use.
                let mut open_until = 0;
                for (i, stmt) in body.iter().enumerate() {
                    if let Stmt::Var { var, .. } = stmt {
                        let last = body.iter().rposition(|s| mentions(s, Arg::Var(*var)));
                        open_until = open_until.max(last.unwrap_or(i));
                    }
                    let free = i == 0 || i > open_until;
                    cutter.place(Item::Stmt(stmt), &mut cost, weight(stmt), limit, free);
                    cutter.visit(stmt, false);
                }
            }
        }
    }
    let Cutter { parts, buffers, spills, workspace, .. } = cutter;
    Parts { parts, buffers, spills, workspace }
}

struct Cutter<'a> {
    program: &'a Program,
    parts: Vec<Part<'a>>,
    buffers: SecondaryMap<BufferId, Promotion>,
    /// The parts of the top-level scalars of this step.
    defined: HashMap<ScalarId, usize>,
    spills: HashMap<ScalarId, (usize, usize)>,
    workspace: usize,
}

impl<'a> Cutter<'a> {
    fn place(&mut self, item: Item<'a>, cost: &mut usize, weight: usize, limit: usize, free: bool) {
        if free && *cost > 0 && *cost + weight > limit {
            self.parts.push(Part { items: Vec::new() });
            *cost = 0;
        }
        *cost += weight;
        if let Some(part) = self.parts.last_mut() {
            part.items.push(item);
        }
    }

    fn access(&mut self, buffer: BufferId, found: Promotion, part: usize) {
        let input = matches!(self.program.buffers[buffer].place, Place::Input(_));
        let known = self.buffers[buffer];
        self.buffers[buffer] = match (known, found) {
            (Promotion::Memory, _) | (_, Promotion::Memory) => Promotion::Memory,
            (Promotion::Unused, _) if input => Promotion::Shared,
            (Promotion::Unused, _) => Promotion::Local(part),
            (Promotion::Local(p), _) if p == part => known,
            _ => Promotion::Shared,
        };
    }

    fn visit(&mut self, stmt: &Stmt, inside: bool) {
        let part = self.parts.len() - 1;
        let here = Promotion::Local(part);
        match stmt {
            Stmt::For { body, .. } => body.iter().for_each(|s| self.visit(s, true)),
            Stmt::Let { value, expr } => {
                if !inside {
                    self.defined.insert(*value, part);
                }
                match expr {
                    Expr::Code(_, args) => args.iter().for_each(|a| self.read(*a)),
                    Expr::Load { buffer, address, guard, .. } => {
                        let fixed = constant(address).is_some();
                        self.access(*buffer, if fixed { here } else { Promotion::Memory }, part);
                        guard.iter().chain(&address.dynamic).for_each(|a| self.read(*a));
                    }
                }
            }
            Stmt::Var { init: value, .. } | Stmt::Set { value, .. } | Stmt::Fold { value, .. } => {
                self.read(*value)
            }
            Stmt::Store { buffer, address, value, guard, .. } => {
                let fixed = constant(address).is_some() && !inside && guard.is_none();
                self.access(*buffer, if fixed { here } else { Promotion::Memory }, part);
                self.read(*value);
                guard.iter().chain(&address.dynamic).for_each(|a| self.read(*a));
            }
        }
    }

    fn read(&mut self, arg: Arg) {
        if let Arg::Scalar(s) = arg
            && let Some(part) = self.defined.get(&s).copied()
            && part + 1 != self.parts.len()
            && !self.spills.contains_key(&s)
        {
            self.spills.insert(s, (part, self.workspace));
            self.workspace += 8;
        }
    }
}

/// About how many instructions a statement becomes.
fn weight(stmt: &Stmt) -> usize {
    match stmt {
        // A vector loop and a scalar loop for the rest.
        Stmt::For { body, .. } => 10 + 2 * body.iter().map(weight).sum::<usize>(),
        Stmt::Let { .. } | Stmt::Fold { .. } | Stmt::Store { .. } => 1,
        Stmt::Var { .. } | Stmt::Set { .. } => 0,
    }
}

/// Whether a statement reads or writes a variable.
fn mentions(stmt: &Stmt, arg: Arg) -> bool {
    let is = |a: &Arg| *a == arg;
    match stmt {
        Stmt::For { body, .. } => body.iter().any(|s| mentions(s, arg)),
        Stmt::Let { expr: Expr::Code(_, args), .. } => args.iter().any(is),
        Stmt::Let { expr: Expr::Load { address, guard, .. }, .. } => {
            guard.iter().chain(&address.dynamic).any(is)
        }
        Stmt::Var { var, init: value }
        | Stmt::Set { var, value }
        | Stmt::Fold { var, value, .. } => Arg::Var(*var) == arg || is(value),
        Stmt::Store { address, value, guard, .. } => {
            is(value) || guard.iter().chain(&address.dynamic).any(is)
        }
    }
}
