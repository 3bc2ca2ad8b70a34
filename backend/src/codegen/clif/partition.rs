//! How a program is cut into functions, and which values stay in registers.
//!
//! The time that register allocation takes grows faster than a function, so a long program becomes
//! several functions ("parts") of about [`LIMIT`] operations, called one after the other. The cuts
//! lie between top-level statements; a scalar that is used beyond its part crosses in a *spill*, an
//! extra eight bytes of workspace. Spills lie behind the frame of the entry, those of each kernel at a
//! place of their own: none runs twice at the same time, since no call recurses.
//!
//! An unrolled program is thousands of steps of one scalar each. Storing and loading every scalar
//! would double the work, so buffers that are only accessed at constant addresses and only stored to
//! outside loops are *promoted*: within a part their elements are plain values, and a store that no
//! other part reads is not made at all.

use super::spill::Far;
use crate::loop_ir::{Address, Arg, BufferId, Kernel, Place, ScalarId, Stmt, VarId, visit};
use crate::machine::MachineModel;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{OrderedMap, OrderedSet};

/// Operations per function: measured with Cranelift's backtracking allocator, which takes 1.2
/// microseconds per operation at this size and 3.4 for 100,000 operations in one function.
pub(super) const LIMIT: usize = 2000;

/// A run of top-level statements and contractions.
pub(super) struct Part<'a> {
    /// In order.
    pub(super) items: Vec<&'a Stmt>,
}

/// The cut program.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// The functions to make.
    pub(super) parts: Vec<Part<'a>>,
    /// Scalars that cross: the part that defines them and the byte offset of their spill in the
    /// workspace of the whole program.
    pub(super) spills: OrderedMap<ScalarId, (usize, usize)>,
    /// Bytes of that workspace with the spills so far.
    pub(super) workspace: usize,
    /// Values and variables that wait in memory while their part runs, and where, in the same workspace.
    pub(super) waiting: OrderedMap<ScalarId, usize>,
    pub(super) variables: OrderedMap<VarId, usize>,
    /// What is computed at its place, and in what part of the same workspace nobody looks for it.
    pub(super) pinned: OrderedSet<ScalarId>,
    pub(super) pin: usize,
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

/// Cuts a kernel; its spills begin at that byte of the workspace.
pub(super) fn cut<'a>(
    program: &'a Kernel,
    machine: &MachineModel,
    limit: usize,
    spills: usize,
) -> Parts<'a> {
    let mut cutter = Cutter {
        program,
        parts: vec![Part { items: Vec::new() }],
        buffers: SecondaryMap::new(),
        defined: OrderedMap::default(),
        spills: OrderedMap::default(),
        workspace: spills,
    };
    let mut cost = 0;
    for step in &program.body {
        // Values are local to a step; a long one may be cut inside.
        cutter.defined.clear();
        let alone = std::slice::from_ref(step);
        let items = if let Stmt::Nest { body } = step { body } else { alone };
        // Variables do not cross: no cut between the declaration and the last use.
        let last = last_uses(items);
        let mut open_until = 0;
        for (i, stmt) in items.iter().enumerate() {
            if let Stmt::Var { var, .. } = stmt {
                open_until = open_until.max(last.get(var).copied().unwrap_or(i));
            }
            let free = i == 0 || i > open_until;
            cutter.place(stmt, &mut cost, weight(stmt), limit, free);
            cutter.visit(stmt);
        }
    }
    let Cutter { parts, buffers, spills, mut workspace, .. } = cutter;
    let mut place = |bytes: usize| {
        workspace += bytes;
        workspace - bytes
    };
    let mut parts = Parts { parts, buffers, spills, ..Parts::default() };
    let mut most = 0;
    for part in &parts.parts {
        let far = Far::of(program, machine, &part.items);
        parts.waiting.extend(far.values.into_iter().map(|(value, bytes)| (value, place(bytes))));
        parts.variables.extend(far.vars.into_iter().map(|var| (var, place(8))));
        parts.pinned.extend(far.pinned);
        most = most.max(far.pin);
    }
    parts.pin = place(most);
    Parts { workspace, ..parts }
}

struct Cutter<'a> {
    program: &'a Kernel,
    parts: Vec<Part<'a>>,
    buffers: SecondaryMap<BufferId, Promotion>,
    /// The parts of the top-level scalars of this step.
    defined: OrderedMap<ScalarId, usize>,
    spills: OrderedMap<ScalarId, (usize, usize)>,
    workspace: usize,
}

impl<'a> Cutter<'a> {
    fn place(&mut self, item: &'a Stmt, cost: &mut usize, weight: usize, limit: usize, free: bool) {
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
        let place = self.program.buffers[buffer].place;
        let input = matches!(place, Place::Input(_));
        // A cursor turns: what was there is elsewhere.
        let found = if let Place::Record { .. } = place { Promotion::Memory } else { found };
        let known = self.buffers[buffer];
        self.buffers[buffer] = match (known, found) {
            (Promotion::Memory, _) | (_, Promotion::Memory) => Promotion::Memory,
            (Promotion::Unused, _) if input => Promotion::Shared,
            (Promotion::Unused, _) => Promotion::Local(part),
            (Promotion::Local(p), _) if p == part => known,
            (Promotion::Local(_) | Promotion::Shared, _) => Promotion::Shared,
        };
    }

    fn visit(&mut self, outer: &Stmt) {
        let part = self.parts.len() - 1;
        visit(std::slice::from_ref(outer), &mut |stmt| {
            let inside = !std::ptr::eq(stmt, outer);
            if let (Some(value), false) = (stmt.defined(), inside) {
                self.defined.insert(value, part);
            }
            stmt.args(&mut |a| self.read(a));
            stmt.accesses(&mut |a| {
                let element = constant(a.address).is_some() && a.reach.is_empty();
                let fixed = element && (!a.write || !inside && a.guard.is_none());
                let found = if fixed { Promotion::Local(part) } else { Promotion::Memory };
                self.access(a.held.buffer, found, part);
            });
            for carry in stmt.carries() {
                self.access(carry.now.buffer, Promotion::Memory, part);
                self.access(carry.next.buffer, Promotion::Memory, part);
            }
        });
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
    let inside = stmt.blocks().into_iter().flatten().map(weight).sum::<usize>();
    match stmt {
        // A vector loop and a scalar loop for the rest.
        Stmt::For { .. } => 10 + 2 * inside,
        Stmt::While { .. } | Stmt::If { .. } => 10 + inside,
        Stmt::Nest { .. } => inside,
        Stmt::Contract(_) => 8,
        Stmt::Tape(_) => 25,
        Stmt::Limit(_) => 10,
        Stmt::Call(c) => 8 + 2 * (c.operands.len() + c.outputs.len()),
        Stmt::CallExternal(a) => 8 + 2 * (a.operands.len() + a.outputs.len()),
        Stmt::Let { .. } | Stmt::Fold { .. } | Stmt::Store { .. } => 1,
        Stmt::Var { .. } | Stmt::Set { .. } => 0,
    }
}

/// For each variable the last statement that reads or writes it.
fn last_uses(items: &[Stmt]) -> OrderedMap<VarId, usize> {
    let mut last = OrderedMap::default();
    for (i, item) in items.iter().enumerate() {
        visit(std::slice::from_ref(item), &mut |s| {
            s.args(&mut |a| {
                if let Arg::Var(var) = a {
                    last.insert(var, i);
                }
            });
            last.extend(s.assigned().map(|(var, _)| (var, i)));
        });
    }
    last
}
