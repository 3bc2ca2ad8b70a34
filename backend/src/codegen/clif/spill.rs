//! Spilling: values that are used long after their definition, and variables of loops with more variables than
//! registers, are stored in memory.
//!
//! A kernel is cut into functions whose register allocation is fast ([`parts`](super::partition)), but the body of
//! a loop cannot be cut. A loop over hundreds of arrays has hundreds of values that are live at the same time. The
//! allocator would spill them, in a time quadratic in their number. So if there are more than [`MANY`] such values
//! in one function, they are stored after their definition and loaded before their use here, with the same result.
//!
//! ```text
//! for i0 in 5 {
//!   %0 = .. load b0[0]             store to the workspace
//!   ..                             (hundreds of statements)
//!   %900 = mul %0, %899            load from there
//! }
//! ```
//!
//! Cranelift computes a value without effects where a statement with an effect first needs it. A product of
//! hundreds of elements is needed at its end, but its elements are loaded at their positions in the kernel, so all
//! of them would be live until the end. So a value that would be computed long after its position is *pinned*: it
//! is stored at its position to memory that nothing reads.

use super::partition::is_concurrent;
use crate::loop_ir::{Arg, Assign, Expr, Kernel, ScalarId, Stmt, VarId, visit};
use crate::machine::MachineModel;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::OrderedSet;

/// The number of statements after a value's definition for which the value is assumed to be in a register.
pub(super) const STATEMENTS_IN_REGISTER: usize = 100;

/// If a value would be computed more than this number of statements after its definition, the value is pinned (computed
/// at its definition).
const LATE: usize = 50;

/// The largest number of long-lived values and variables of a part (one function) for which nothing is spilled.
const MANY: usize = 128;

/// The largest number of statements of a top-level loop or branch for which nothing is spilled. Longer sequences
/// outside of loops are cut into parts instead. A piece of a concurrent loop cannot be cut.
const LONG: usize = 300;

/// The values and variables of a part (one function) that are stored in memory.
#[derive(Default)]
pub(super) struct SpillSet {
    /// The spilled values, each with its bytes in all lanes.
    pub(super) values: OrderedSet<(ScalarId, usize)>,
    pub(super) vars: OrderedSet<VarId>,
    /// The values that are pinned (computed at their statement).
    pub(super) pinned: OrderedSet<ScalarId>,
    /// The bytes of the largest pinned value in all lanes.
    pub(super) pin: usize,
}

impl SpillSet {
    /// Returns the values and variables to store in memory in a part (one function). `divisible` says whether a long
    /// sequence of statements is cut into several parts.
    pub(super) fn of(
        kernel: &Kernel,
        machine: &MachineModel,
        part: &[&Stmt],
        divisible: bool,
    ) -> SpillSet {
        let most = machine.held_variables;
        let mut all = Variables { most, ..Variables::default() };
        part.iter().for_each(|stmt| all.stmt(stmt, &mut OrderedSet::default()));
        let vars: OrderedSet<VarId> =
            all.crowded.into_iter().filter(|v| !all.held.contains(v)).collect();
        let mut walk = Walk { kernel, vars: &vars, lanes: 1, clock: 0, events: Vec::new() };
        let mut longest = 0;
        for stmt in part {
            let before = walk.clock;
            walk.stmt(stmt);
            longest = longest.max(walk.clock - if divisible { before } else { 0 });
        }
        let events = walk.events;
        if longest <= LONG || spill_set(&events, usize::MAX).values.len() + vars.len() <= MANY {
            return SpillSet::default();
        }
        SpillSet { vars, ..spill_set(&events, LATE) }
    }
}

/// A statement in the analysis of live values: the value that it defines, and the values that it reads.
struct Event {
    /// The number of the statement in program order, the earliest time of its computation.
    clock: usize,
    makes: Option<ScalarId>,
    reads: SmallVec<[ScalarId; 3]>,
    done: ComputeTime,
    lanes: usize,
}

enum ComputeTime {
    /// The value is computed at this statement's number, whether it is used or not.
    At(usize),
    /// Cranelift computes the value right before its first use.
    AtFirstUse,
}

/// Returns the values to spill. Values that would be computed more than `late` statements after their definition are
/// pinned: computed at their definition.
fn spill_set(events: &[Event], late: usize) -> SpillSet {
    let mut spill_set = SpillSet::default();
    // Per value: the statement numbers of its first and of its last use.
    let mut uses: SecondaryMap<ScalarId, Option<(usize, usize)>> = SecondaryMap::new();
    for e in events.iter().rev() {
        let wanted = e.makes.and_then(|value| uses[value]);
        let done = match (&e.done, wanted) {
            (ComputeTime::At(time), _) => *time,
            (ComputeTime::AtFirstUse, None) => continue,
            (ComputeTime::AtFirstUse, Some((first, _))) => first,
        };
        let pinned = done - e.clock > late;
        let done = if pinned { e.clock } else { done };
        if let (Some(value), Some((_, last))) = (e.makes, wanted) {
            if pinned {
                spill_set.pinned.insert(value);
                spill_set.pin = spill_set.pin.max(8 * e.lanes);
            }
            if last.saturating_sub(done) > STATEMENTS_IN_REGISTER {
                spill_set.values.insert((value, 8 * e.lanes));
            }
        }
        for value in &e.reads {
            let (first, last) = uses[*value].unwrap_or((done, done));
            uses[*value] = Some((first.min(done), last.max(done)));
        }
    }
    spill_set
}

struct Walk<'a> {
    kernel: &'a Kernel,
    vars: &'a OrderedSet<VarId>,
    lanes: usize,
    clock: usize,
    events: Vec<Event>,
}

impl Walk<'_> {
    fn stmt(&mut self, stmt: &Stmt) {
        self.clock += 1;
        let (clock, lanes) = (self.clock, self.lanes);
        let mut reads = SmallVec::new();
        stmt.args(&mut |a| {
            if let Arg::Scalar(s) = a {
                reads.push(s);
            }
        });
        let mut done = ComputeTime::At(clock);
        if let Stmt::Let { expr: Expr::Code(code, args), .. } = stmt
            && let Some(last) = args.last()
            && code.called(self.kernel.dtype(*last)).is_none()
        {
            done = ComputeTime::AtFirstUse;
        }
        // The new value of a variable is used at the end of the block that assigns the variable, so Cranelift computes
        // the value there. `usize::MAX` stands for this end until the block has been walked.
        if let Some((var, Assign::Set | Assign::Fold(_))) = stmt.assigned()
            && !self.vars.contains(&var)
        {
            done = ComputeTime::At(usize::MAX);
        }
        if is_concurrent(stmt) {
            // The body becomes a function of its own, which gets the scalars that the body reads as arguments.
            visit(std::slice::from_ref(stmt), &mut |inner| {
                inner.args(&mut |a| {
                    if let Arg::Scalar(s) = a {
                        reads.push(s);
                    }
                });
            });
            return self.events.push(Event { clock, makes: None, reads, done, lanes });
        }
        self.events.push(Event { clock, makes: stmt.defined(), reads, done, lanes });
        if let Stmt::For { lanes: inside, .. } = stmt {
            self.lanes = lanes.max(*inside);
        }
        let blocks = stmt.blocks();
        let open = self.events.len();
        blocks.iter().flat_map(|b| b.iter()).for_each(|s| self.stmt(s));
        for e in &mut self.events[open..] {
            if let ComputeTime::At(time @ usize::MAX) = &mut e.done {
                *time = self.clock;
            }
        }
        self.lanes = lanes;
    }
}

/// The variables that loops carry from one iteration to the next.
#[derive(Default)]
struct Variables {
    /// The largest number of variables of a loop that remain in registers: `held_variables` of the machine model.
    most: usize,
    /// The variables of loops with more than `most` variables.
    crowded: OrderedSet<VarId>,
    /// The variables of all other loops, which stay in registers.
    held: OrderedSet<VarId>,
}

impl Variables {
    /// Adds to `set` the variables that a statement assigns and that are declared outside of the statement.
    fn stmt(&mut self, stmt: &Stmt, set: &mut OrderedSet<VarId>) {
        if let Some((var, Assign::Set | Assign::Fold(_))) = stmt.assigned() {
            set.insert(var);
        }
        if is_concurrent(stmt) {
            return;
        }
        for block in stmt.blocks() {
            let (mut inside, mut declared) = (OrderedSet::default(), OrderedSet::default());
            for s in block {
                self.stmt(s, &mut inside);
                if let Some((var, Assign::Declare)) = s.assigned() {
                    declared.insert(var);
                }
            }
            inside.retain(|v| !declared.contains(v));
            if stmt.shape().flow.is_loop() {
                // A loop with lanes spills no variables: its partial values stay in registers.
                let many =
                    inside.len() > self.most && !matches!(stmt, Stmt::For { lanes: 2.., .. });
                let of = if many { &mut self.crowded } else { &mut self.held };
                of.extend(inside.iter().copied());
            }
            set.extend(inside);
        }
    }
}
