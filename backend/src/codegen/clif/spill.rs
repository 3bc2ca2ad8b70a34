//! What waits in memory: values that are used long after they were made, and variables of loops that have
//! more of them than there are registers.
//!
//! A program is cut into functions of a size that register allocation likes ([`parts`](super::partition)), but
//! the body of a loop is not, and one over hundreds of arrays makes hundreds of values that wait for each
//! other. The allocator would find out for each of them, in a time that grows as their square, that there
//! is no register to wait in. So where there are [`MANY`] in one function, what waits is stored where it is
//! made and loaded where it is used, as the allocator would do in the end.
//!
//! ```text
//! for i0 in 5 {
//!   %0 = .. load b0[0]             store to the workspace
//!   ..                             (hundreds of statements)
//!   %900 = mul %0, %899            load from there
//! }
//! ```
//!
//! Cranelift computes what has no effect where something with an effect asks for it. A product of hundreds
//! of elements is asked for at its end, and all elements, which are loaded where the kernel says so, would
//! wait for it. So a value that would be computed long after its place is *pinned* there: stored to where
//! nobody reads it.

use crate::loop_ir::{Arg, Assign, Expr, Kernel, ScalarId, Stmt, VarId};
use crate::machine::MachineModel;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::OrderedSet;

/// So many statements behind the one that makes it, a value is in no register any more.
pub(super) const FAR: usize = 100;

/// So many statements behind its place a value may be computed.
const LATE: usize = 50;

/// The allocator is fast enough where fewer than these wait.
const MANY: usize = 128;

/// And where no loop or branch has so many statements: what is not in one is cut into parts.
const LONG: usize = 300;

/// What waits in memory.
#[derive(Default)]
pub(super) struct Far {
    /// With the bytes that all its lanes take.
    pub(super) values: OrderedSet<(ScalarId, usize)>,
    pub(super) vars: OrderedSet<VarId>,
    /// What must be computed at its place, and the most bytes that one takes.
    pub(super) pinned: OrderedSet<ScalarId>,
    pub(super) pin: usize,
}

impl Far {
    /// What waits while a part runs.
    pub(super) fn of(kernel: &Kernel, machine: &MachineModel, part: &[&Stmt]) -> Far {
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
            longest = longest.max(walk.clock - before);
        }
        let events = walk.events;
        if longest <= LONG || waiting(&events, usize::MAX).values.len() + vars.len() <= MANY {
            return Far::default();
        }
        Far { vars, ..waiting(&events, LATE) }
    }
}

/// A statement, as far as values are concerned.
struct Event {
    /// When it is done at the earliest.
    clock: usize,
    makes: Option<ScalarId>,
    reads: SmallVec<[ScalarId; 3]>,
    done: Done,
    lanes: usize,
}

enum Done {
    /// At that time, whoever asks for it.
    At(usize),
    /// When it is asked for.
    WhenAsked,
}

/// What waits, if what is done more than `late` statements after its place is pinned there.
fn waiting(events: &[Event], late: usize) -> Far {
    let mut far = Far::default();
    // The first and the last time that a value is asked for.
    let mut asked: SecondaryMap<ScalarId, Option<(usize, usize)>> = SecondaryMap::new();
    for e in events.iter().rev() {
        let wanted = e.makes.and_then(|value| asked[value]);
        let done = match (&e.done, wanted) {
            (Done::At(time), _) => *time,
            (Done::WhenAsked, None) => continue,
            (Done::WhenAsked, Some((first, _))) => first,
        };
        let pinned = done - e.clock > late;
        let done = if pinned { e.clock } else { done };
        if let (Some(value), Some((_, last))) = (e.makes, wanted) {
            if pinned {
                far.pinned.insert(value);
                far.pin = far.pin.max(8 * e.lanes);
            }
            if last.saturating_sub(done) > FAR {
                far.values.insert((value, 8 * e.lanes));
            }
        }
        for value in &e.reads {
            let (first, last) = asked[*value].unwrap_or((done, done));
            asked[*value] = Some((first.min(done), last.max(done)));
        }
    }
    far
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
        let mut done = Done::At(clock);
        if let Stmt::Let { expr: Expr::Code(code, args), .. } = stmt
            && let Some(last) = args.last()
            && code.called(self.kernel.dtype(*last)).is_none()
        {
            done = Done::WhenAsked;
        }
        // What a variable becomes is asked for when the block ends.
        if let Some((var, Assign::Set | Assign::Fold(_))) = stmt.assigned()
            && !self.vars.contains(&var)
        {
            done = Done::At(usize::MAX);
        }
        self.events.push(Event { clock, makes: stmt.defined(), reads, done, lanes });
        if let Stmt::For { lanes: inside, .. } = stmt {
            self.lanes = lanes.max(*inside);
        }
        let blocks = stmt.blocks();
        let open = self.events.len();
        blocks.iter().flat_map(|b| b.iter()).for_each(|s| self.stmt(s));
        for e in &mut self.events[open..] {
            if let Done::At(time @ usize::MAX) = &mut e.done {
                *time = self.clock;
            }
        }
        self.lanes = lanes;
    }
}

/// Variables that loops carry which have many of them, and others.
#[derive(Default)]
struct Variables {
    /// So many of a loop are in registers.
    most: usize,
    crowded: OrderedSet<VarId>,
    held: OrderedSet<VarId>,
}

impl Variables {
    /// Adds what a statement gives values to that is declared outside of it.
    fn stmt(&mut self, stmt: &Stmt, set: &mut OrderedSet<VarId>) {
        if let Some((var, Assign::Set | Assign::Fold(_))) = stmt.assigned() {
            set.insert(var);
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
                // A loop in lanes has variables of its own.
                let many =
                    inside.len() > self.most && !matches!(stmt, Stmt::For { lanes: 2.., .. });
                let of = if many { &mut self.crowded } else { &mut self.held };
                of.extend(inside.iter().copied());
            }
            set.extend(inside);
        }
    }
}
