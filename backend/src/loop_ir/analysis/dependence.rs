//! How the iterations of a loop depend on each other, as far as the text of the loop says it.
//!
//! Two accesses of one array at addresses with the same strides meet in iterations that lie a fixed number
//! apart, or never; addresses that depend on data may meet anywhere. So the answer is one of three:
//! iterations do not meet, they certainly do, or nobody knows before the run.
//!
//! ```text
//! for i0 in 4 { store b1[i0*2], .. %0: f64 = load b1[i0*2 + 1] .. }       never: 2 does not divide 1
//! for i0 in 4 { store b1[i0], ..   %0: f64 = load b1[i0 + 1] .. }         one iteration apart
//! for i0 in 4 { store b1[(%1)], .. }                                      unknown
//! ```
//!
//! [`claim`] writes the strongest claim that this proves; the verifier refuses claims that it refutes.

use crate::loop_ir::visit;
use crate::loop_ir::{
    Access, Arg, Assign, BufferId, Effect, Extent, Flow, IndexId, Kernel, Parallelism, Place,
    ScalarId, Stmt, VarId,
};
use cranelift_entity::EntitySet;
use tapeloom_ir::{Code, OrderedMap, OrderedSet};

/// Comparisons worth the time that they take: for a claim, which every loop makes, and for iterations that
/// go side by side, which few loops do and speed depends on.
const MOST: usize = 1 << 16;
const MOST_ABREAST: usize = 1 << 22;

/// Whether iterations meet in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Dependence {
    /// In no run.
    Never,
    /// In every run with two iterations: what happens.
    Always(String),
    /// Not known.
    Maybe,
}

/// Gives every loop the strongest claim that can be proved, or its own where that is stronger: what knows less of
/// addresses than who made a loop takes nothing back. Of rows that are cut into several loops, no two meet, and their
/// addresses have not the same indices. Of variables all is known, so they may weaken a claim.
pub fn claim(kernel: &mut Kernel) {
    kernel.rewrite(|kernel, body| claim_block(kernel, body));
}

fn claim_block(kernel: &Kernel, body: &mut [Stmt]) {
    for stmt in body {
        let claimed = claimed(kernel, stmt);
        if let Stmt::For { parallelism, .. } = stmt {
            *parallelism = claimed;
        }
        stmt.blocks_mut().into_iter().for_each(|block| claim_block(kernel, block));
    }
}

fn claimed(kernel: &Kernel, stmt: &Stmt) -> Parallelism {
    let Stmt::For { parallelism, body, .. } = stmt else { return Parallelism::Serial };
    match variables(body).0.max(*parallelism) {
        Parallelism::Parallel => Parallelism::Parallel,
        own @ (Parallelism::Fold | Parallelism::Serial) => strongest(kernel, stmt).min(own),
    }
}

/// The strongest claim that can be proved of a loop.
pub(crate) fn strongest(kernel: &Kernel, stmt: &Stmt) -> Parallelism {
    let Stmt::For { index, extent, carries, body, .. } = stmt else { return Parallelism::Serial };
    match variables(body).0 {
        weak @ (Parallelism::Parallel | Parallelism::Fold)
            if carries.is_empty() && memory(kernel, *index, *extent, body) == Dependence::Never =>
        {
            weak
        }
        Parallelism::Parallel | Parallelism::Fold | Parallelism::Serial => Parallelism::Serial,
    }
}

/// The strongest claim that the variables of a body allow, and why none stronger.
pub(crate) fn variables(body: &[Stmt]) -> (Parallelism, String) {
    let s = Variables::of(body);
    if s.turns {
        return (Parallelism::Serial, "a tape is written and read in order".to_owned());
    }
    if s.reports {
        return (Parallelism::Serial, "iterations report in order".to_owned());
    }
    if let Some(v) = s.set.iter().find(|v| !s.declared.contains(*v)) {
        return (Parallelism::Serial, format!("{v} is set in one iteration for the next"));
    }
    if let Some(v) = s.folds.keys().find(|v| s.read.contains(*v)) {
        return (Parallelism::Serial, format!("{v} is read while it is folded into"));
    }
    if let Some((v, _)) = s.folds.iter().find(|(_, (_, mixed))| *mixed) {
        return (Parallelism::Serial, format!("{v} is folded into by two codes"));
    }
    match s.folds.first() {
        Some((v, _)) => (Parallelism::Fold, format!("all iterations fold into {v}")),
        None => (Parallelism::Parallel, String::new()),
    }
}

/// The variables from outside that a body folds into, each once, with the code.
pub(crate) fn folds(body: &[Stmt]) -> Vec<(VarId, Code)> {
    Variables::of(body).folds.into_iter().map(|(var, (code, _))| (var, code)).collect()
}

/// What a body does to variables.
#[derive(Default)]
struct Variables {
    declared: OrderedSet<VarId>,
    set: OrderedSet<VarId>,
    /// Into variables from outside: by which code, and whether by others, too.
    folds: OrderedMap<VarId, (Code, bool)>,
    read: OrderedSet<VarId>,
    /// Whether anything is reported or counted, and whether tapes are turned to.
    reports: bool,
    turns: bool,
}

impl Variables {
    fn of(body: &[Stmt]) -> Variables {
        let mut s = Variables::default();
        visit(body, &mut |stmt| s.stmt(stmt));
        s.folds.retain(|v, _| !s.declared.contains(v));
        s
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let shape = stmt.shape();
        self.turns |= matches!(shape.effect, Effect::Tape(_));
        self.reports |= matches!(shape.effect, Effect::External(_) | Effect::Limit(_));
        let mut folded = None;
        match shape.assigns {
            Some((var, Assign::Declare)) => _ = self.declared.insert(var),
            Some((var, Assign::Set)) => _ = self.set.insert(var),
            Some((var, Assign::Fold(code))) => {
                let (first, mixed) = self.folds.entry(var).or_insert((code, false));
                *mixed |= first.row().name != code.row().name;
                folded = Some(var);
            }
            None => {}
        }
        stmt.args(&mut |a| {
            // A fold reads what it folds into, once.
            if let Arg::Var(v) = a
                && folded.take_if(|f| *f == v).is_none()
            {
                self.read.insert(v);
            }
        });
    }
}

/// Whether one iteration of a loop touches what another one writes.
pub(crate) fn memory(kernel: &Kernel, index: IndexId, extent: Extent, body: &[Stmt]) -> Dependence {
    meet(kernel, index, extent, body, false)
}

/// Whether that many iterations at a time may go side by side, each statement in all of them before the
/// next one: no two of them touch what the other writes, but for a statement that writes where its
/// data say, since it writes in the order of iterations.
pub(crate) fn abreast(kernel: &Kernel, index: IndexId, iterations: usize, body: &[Stmt]) -> bool {
    meet(kernel, index, Extent::Constant(iterations), body, true) == Dependence::Never
}

fn meet(
    kernel: &Kernel,
    index: IndexId,
    extent: Extent,
    body: &[Stmt],
    abreast: bool,
) -> Dependence {
    if let Extent::Constant(0 | 1) = extent {
        return Dependence::Never;
    }
    let mut survey = Survey { index, inside: Vec::new(), accesses: Vec::new(), known: true };
    survey.block(body, true);
    let defined = survey.defined(body);
    let stores = survey.accesses.iter().filter(|(a, _)| a.write).count();
    let most = if abreast { MOST_ABREAST } else { MOST };
    if !survey.known || stores.saturating_mul(survey.accesses.len()) > most {
        return Dependence::Maybe;
    }
    let mut meet = Dependence::Never;
    for (i, (store, plain)) in survey.accesses.iter().enumerate() {
        if !store.write {
            continue;
        }
        for (k, (other, always)) in survey.accesses.iter().enumerate() {
            let found = match overlap(kernel, store.held.buffer, other.held.buffer) {
                Overlap::None => Dependence::Never,
                Overlap::Unknown => Dependence::Maybe,
                // One statement, once an iteration, wherever it writes.
                Overlap::Same
                    if abreast
                        && i == k
                        && store.address.dynamic.is_some()
                        && survey.inside.is_empty() =>
                {
                    Dependence::Never
                }
                Overlap::Same => {
                    let certain = *plain && *always && store.held.buffer == other.held.buffer;
                    survey.meet(store, other, extent, &defined, certain, i == k)
                }
            };
            match found {
                Dependence::Never => {}
                Dependence::Maybe => meet = Dependence::Maybe,
                Dependence::Always(what) => return Dependence::Always(what),
            }
        }
    }
    meet
}

struct Survey<'a> {
    index: IndexId,
    /// Loops inside and their extents.
    inside: Vec<(IndexId, usize)>,
    /// And whether every iteration makes it.
    accesses: Vec<(Access<'a>, bool)>,
    /// Whether nothing else is touched.
    known: bool,
}

impl<'a> Survey<'a> {
    fn block(&mut self, body: &'a [Stmt], always: bool) {
        for stmt in body {
            stmt.accesses(&mut |a| {
                let plain = always && a.guard.is_none();
                self.accesses.push((a, plain));
            });
            let (shape, mut inner) = (stmt.shape(), always);
            match shape.flow {
                Flow::For { index, extent: Extent::Constant(n), .. } => {
                    self.inside.push((index, n));
                    inner &= n > 0;
                }
                // Where the indices of such a loop reach is not known.
                Flow::For { extent: Extent::Scalar(_), .. } => self.known = false,
                Flow::While | Flow::If => inner = false,
                Flow::Straight | Flow::Nest => {}
            }
            // What two buffers hold that exchange places is not followed, nor what a frame holds.
            self.known &= shape.carries.iter().all(|c| c.now.buffer == c.next.buffer);
            self.known &= !matches!(shape.effect, Effect::Call(_));
            shape.blocks.into_iter().for_each(|b| self.block(b, inner));
        }
    }

    /// Scalars that each iteration has of its own.
    fn defined(&self, body: &[Stmt]) -> EntitySet<ScalarId> {
        let mut defined = EntitySet::new();
        visit(body, &mut |stmt| {
            if let Some(value) = stmt.defined() {
                defined.insert(value);
            }
        });
        defined
    }

    /// Whether two accesses of one array meet in different iterations.
    fn meet(
        &self,
        store: &Access<'_>,
        other: &Access<'_>,
        extent: Extent,
        defined: &EntitySet<ScalarId>,
        certain: bool,
        itself: bool,
    ) -> Dependence {
        // What does not change in the loop is the same for both.
        let fixed = |a: Option<Arg>| match a {
            None | Some(Arg::Literal(_)) => true,
            Some(Arg::Scalar(s)) => !defined.contains(s),
            Some(Arg::Var(_) | Arg::Index(_)) => false,
        };
        if store.address.dynamic != other.address.dynamic || !fixed(store.address.dynamic) {
            return Dependence::Maybe;
        }
        let Some((step, between, reach)) = self.distance(store, other) else {
            return Dependence::Maybe;
        };
        let within = match extent {
            Extent::Constant(n) => n as i128,
            Extent::Scalar(_) => i128::MAX,
        };
        if reach > 0 {
            // Each iteration has a range of its own.
            let apart = step.abs() > reach + between.abs();
            return if apart { Dependence::Never } else { Dependence::Maybe };
        }
        let collide = match step {
            0 => between == 0,
            _ => between != 0 && between % step == 0 && (between / step).abs() < within,
        };
        match collide {
            false => Dependence::Never,
            // Of a loop that may run once nothing is certain.
            true if !certain || matches!(extent, Extent::Scalar(_)) => Dependence::Maybe,
            true => {
                let at = |a: &Access<'_>| format!("{}[{}]", a.held.buffer, a.address);
                Dependence::Always(match (itself || store.address == other.address, other.write) {
                    (true, _) => format!("each writes {}", at(store)),
                    (false, true) => format!("one writes {}, another {}", at(store), at(other)),
                    (false, false) => {
                        format!("one writes {}, another reads {}", at(store), at(other))
                    }
                })
            }
        }
    }

    /// How far an address moves in an iteration, how far two are apart, and how far each of them reaches
    /// within an iteration; `None` where they move differently.
    fn distance(&self, store: &Access<'_>, other: &Access<'_>) -> Option<(i128, i128, i128)> {
        distance(store, other, self.index, &self.inside)
    }
}

/// See [`Survey::distance`]; `inside` are the loops within the one of `index`.
pub(crate) fn distance(
    store: &Access<'_>,
    other: &Access<'_>,
    index: IndexId,
    inside: &[(IndexId, usize)],
) -> Option<(i128, i128, i128)> {
    let (a, b) = (store.address, other.address);
    let same = |t: &(IndexId, i64)| a.stride(t.0) == b.stride(t.0);
    if !a.terms.iter().chain(&b.terms).all(same) || store.reach != other.reach {
        return None;
    }
    let between = i128::from(b.offset) - i128::from(a.offset);
    let loops = inside.iter().map(|(i, extent)| (*extent, a.stride(*i)));
    let reach = loops.chain(store.reach.iter().copied());
    let reach = reach.map(|(n, stride)| i128::from(stride).abs() * (n as i128 - 1).max(0)).sum();
    Some((i128::from(a.stride(index)), between, reach))
}

/// Whether two buffers have bytes in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    /// The same array in the same place.
    Same,
    /// Some bytes in common.
    Unknown,
}

pub(crate) fn overlap(p: &Kernel, a: BufferId, b: BufferId) -> Overlap {
    if a == b {
        return Overlap::Same;
    }
    let (x, y) = (&p.buffers[a], &p.buffers[b]);
    if x.ty.bytes() == 0 || y.ty.bytes() == 0 {
        return Overlap::None;
    }
    match (x.place, y.place) {
        (Place::Workspace(i), Place::Workspace(j)) => {
            if i == j && x.ty.dtype == y.ty.dtype {
                Overlap::Same
            } else if i < j.saturating_add(y.ty.bytes()) && j < i.saturating_add(x.ty.bytes()) {
                Overlap::Unknown
            } else {
                Overlap::None
            }
        }
        (Place::Record { cursor, offset: i }, Place::Record { cursor: other, offset: j }) => {
            // Where two cursors stand at one record, neither writes it.
            let meet = i < j.saturating_add(y.ty.bytes()) && j < i.saturating_add(x.ty.bytes());
            if meet && cursor == other { Overlap::Unknown } else { Overlap::None }
        }
        _ if x.place == y.place => Overlap::Unknown,
        _ => Overlap::None,
    }
}

/// Whether two buffers have no bytes in common.
pub(crate) fn disjoint(p: &Kernel, a: BufferId, b: BufferId) -> bool {
    overlap(p, a, b) == Overlap::None
}
