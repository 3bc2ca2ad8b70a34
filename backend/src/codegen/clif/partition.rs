//! Partition of a long kernel into functions, and promotion of buffers to values.
//!
//! The time of register allocation grows superlinearly, so a long kernel becomes several functions ("parts") of
//! about [`LIMIT`] operations, called one after the other. Cuts are between top-level statements. A scalar that is
//! used in a later part is stored in a *spill*, eight additional bytes of workspace. Spills are placed behind the
//! workspace that the program states, and each kernel has its own; that is safe because calls never recurse.
//!
//! An unrolled program consists of thousands of steps of one scalar each. Storing and loading every scalar would
//! double the work. So buffers are *promoted* if all their accesses are at constant addresses, and all stores are
//! outside loops. Within a part, elements of promoted buffers are plain values. A store is omitted if no other part
//! reads it.

use super::spill::SpillSet;
use crate::loop_ir::{
    Address, Arg, BufferId, Kernel, Parallelism, Place, ScalarId, Stmt, VarId, visit,
};
use crate::machine::MachineModel;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::{OrderedMap, OrderedSet};

/// The number of operations of a part, above which a new function begins. Cranelift's backtracking allocator takes 1.2
/// microseconds per operation at this size, and 3.4 for 100,000 operations in one function (measured).
pub(super) const LIMIT: usize = 2000;

/// A sequence of top-level statements of a kernel that becomes one function.
pub(super) struct Part<'a> {
    /// The statements of the function, in program order.
    pub(super) items: Vec<&'a Stmt>,
}

/// A kernel that is cut into parts: sequences of statements, each a function.
#[derive(Default)]
pub(super) struct Parts<'a> {
    /// The parts, in program order.
    pub(super) parts: Vec<Part<'a>>,
    /// The scalars that are used in later parts than their own: the number of the part that defines the scalar, and the
    /// offset in bytes of its copy in the whole program's workspace.
    pub(super) spills: OrderedMap<ScalarId, (usize, usize)>,
    /// The bytes of the whole program's workspace, including the spills of the kernels translated so far.
    pub(super) workspace: usize,
    /// The values that are stored in memory between their definition and their uses in the same part, with their
    /// offsets in bytes in the program's workspace.
    pub(super) spilled: OrderedMap<ScalarId, usize>,
    /// The variables that are stored in memory, with their offsets in bytes in the program's workspace.
    pub(super) variables: OrderedMap<VarId, usize>,
    /// Values that must be computed at the position of their statement ([`super::spill`]).
    pub(super) pinned: OrderedSet<ScalarId>,
    /// The offset in bytes of the memory to which pinned values are stored, and which nothing reads.
    pub(super) pin: usize,
    /// Per buffer: whether its elements are promoted to values, or are in memory.
    pub(super) buffers: SecondaryMap<BufferId, Promotion>,
}

/// Whether the elements of a buffer can be promoted from memory to values in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Promotion {
    /// No access to the buffer was found so far.
    #[default]
    Unused,
    /// The buffer can be promoted: all accesses are at constant addresses and in the part with this number, and stores
    /// are outside loops.
    Local(usize),
    /// Like `Local`, but several parts access the buffer: its elements are values within a part, and are stored in
    /// memory between parts.
    Shared,
    /// The buffer's elements must be in memory: some access is not at a constant address, or a store is in a loop.
    Memory,
}

/// Returns the offset, in elements, of an address that is constant; `None` if it depends on a loop index or a value.
pub(super) fn constant(a: &Address) -> Option<i64> {
    (a.terms.is_empty() && a.dynamic.is_none()).then_some(a.offset)
}

/// Cuts a kernel into parts. Its spilled values begin at the offset `spills`, in bytes, of the program's workspace.
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
        // Drop the scalars of the previous top-level statement: later statements cannot use them. A long top-level
        // `Nest` may be cut between its inner statements.
        cutter.defined.clear();
        let alone = std::slice::from_ref(step);
        let items = if let Stmt::Nest { body, .. } = step { body } else { alone };
        // A variable cannot be used in another part (function), so there is no cut between its declaration and its last
        // use.
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
    let Cutter { parts, buffers, spills, workspace, .. } = cutter;
    let mut all = SpillSet::default();
    for part in &parts {
        let of = SpillSet::of(program, machine, &part.items, true);
        all.values.extend(of.values);
        all.vars.extend(of.vars);
        all.pinned.extend(of.pinned);
        all.pin = all.pin.max(of.pin);
    }
    let mut parts = Parts { parts, buffers, spills, workspace, ..Parts::default() };
    parts.spill(all);
    parts
}

impl Parts<'_> {
    /// Reserves memory at the end of the workspace for the values and variables of a set, which are spilled.
    pub(super) fn spill(&mut self, set: SpillSet) {
        let workspace = &mut self.workspace;
        let mut place = |bytes: usize| {
            *workspace += bytes;
            *workspace - bytes
        };
        self.spilled.extend(set.values.into_iter().map(|(value, bytes)| (value, place(bytes))));
        self.variables.extend(set.vars.into_iter().map(|var| (var, place(8))));
        self.pinned.extend(set.pinned);
        self.pin = place(set.pin);
    }
}

struct Cutter<'a> {
    program: &'a Kernel,
    parts: Vec<Part<'a>>,
    buffers: SecondaryMap<BufferId, Promotion>,
    /// For each scalar defined by the current top-level statement of the kernel, or, if it is a `Nest`, by a statement
    /// directly inside it: the number of the part that contains the definition. A use in a later part makes it a spill.
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
        // A buffer in a tape record is never promoted: the tape's cursor moves to other records, so a constant address
        // in the buffer does not always name the same element.
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
        // The statements of concurrent loops become functions of their own, which read elements of arrays from memory
        // and not from variables.
        let mut apart = 0;
        visit(std::slice::from_ref(outer), &mut |stmt| {
            let inside = !std::ptr::eq(stmt, outer);
            let in_pieces = apart > 0;
            apart -= usize::from(in_pieces);
            if is_concurrent(stmt) {
                visit(std::slice::from_ref(stmt), &mut |_| apart += 1);
                apart -= 1;
            }
            if let (Some(value), false) = (stmt.defined(), inside) {
                self.defined.insert(value, part);
            }
            stmt.args(&mut |a| self.read(a));
            stmt.accesses(&mut |a| {
                let element = constant(a.address).is_some() && a.reach.is_empty();
                let fixed = element && (!a.write || !inside && a.guard.is_none()) && !in_pieces;
                let found = if fixed { Promotion::Local(part) } else { Promotion::Memory };
                self.access(a.held.buffer, found, part);
            });
            for carry in stmt.carries() {
                self.access(carry.input.buffer, Promotion::Memory, part);
                self.access(carry.output.buffer, Promotion::Memory, part);
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

/// Returns whether a statement is a concurrent loop, whose body becomes a function of its own.
pub(super) fn is_concurrent(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::For { parallelism: Parallelism::Concurrent, .. })
}

/// Returns the approximate number of instructions of a statement.
fn weight(stmt: &Stmt) -> usize {
    let inside = stmt.blocks().into_iter().flatten().map(weight).sum::<usize>();
    match stmt {
        Stmt::For { .. } if is_concurrent(stmt) => 20,
        // A loop may become two loops, one in vectors and one for the remaining iterations, so its body counts twice.
        Stmt::For { .. } => 10 + 2 * inside,
        Stmt::While { .. } | Stmt::If { .. } => 10 + inside,
        Stmt::Nest { .. } => inside,
        Stmt::Contract(_) => 8,
        Stmt::Tape(_) => 25,
        Stmt::Limit(_) => 10,
        Stmt::Lap(_) => 4,
        Stmt::Call(c) => 8 + 2 * (c.operands.len() + c.outputs.len()),
        Stmt::CallExternal(a) => 8 + 2 * (a.operands.len() + a.outputs.len()),
        Stmt::Let { .. } | Stmt::Fold { .. } | Stmt::Store { .. } => 1,
        Stmt::Var { .. } | Stmt::Set { .. } => 0,
    }
}

/// Returns, per variable, the index in `items` of the statement with the variable's last use.
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
