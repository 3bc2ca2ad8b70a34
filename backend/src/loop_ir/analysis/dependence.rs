//! Loop dependence analysis: finds whether different iterations of a loop access the same memory.
//!
//! Two accesses of one array at addresses with the same strides reach the same element in iterations at a fixed
//! distance, or never. If addresses depend on data, any two iterations may reach the same element. So there are three
//! answers: different iterations never reach the same element, they certainly do, or it is unknown before the run.
//! For example:
//!
//! ```text
//! for i0 in 4 { store b1[i0*2], .. %0: f64 = load b1[i0*2 + 1] .. }       never: 2 does not divide 1
//! for i0 in 4 { store b1[i0], ..   %0: f64 = load b1[i0 + 1] .. }         one iteration apart
//! for i0 in 4 { store b1[(%1)], .. }                                      unknown
//! ```
//!
//! [`infer_parallelism`] sets the strongest parallelism that this analysis proves; the verifier refuses claims of
//! parallelism that the analysis refutes.

use crate::loop_ir::visit;
use crate::loop_ir::{
    Access, Arg, Assign, BufferId, Effect, Extent, Flow, IndexId, Kernel, Parallelism, Place,
    ScalarId, Stmt, VarId,
};
use cranelift_entity::EntitySet;
use tapeloom_ir::{Code, OrderedMap, OrderedSet};

/// The maximal number of pairs of accesses that are compared for one loop. `MOST` is for claims of parallelism, which
/// are checked for every loop; `MOST_IN_LANES` is for vector lanes, which few loops have and on which speed depends.
const MOST: usize = 1 << 16;
const MOST_IN_LANES: usize = 1 << 22;

/// Whether different iterations of a loop access the same memory, and at least one of these accesses is a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Dependence {
    /// Different iterations access the same memory in no run of the program.
    Never,
    /// Different iterations access the same memory in every run in which the loop has at least two iterations. The
    /// text describes the two accesses.
    Always(String),
    /// Whether different iterations access the same memory depends on the run, or is unknown.
    Maybe,
}

/// Sets the parallelism of every loop to the strongest that can be proved. A claim of the pass that created the loop
/// is never weakened because of memory, since that pass may know more about addresses: for example, loops over parts
/// of a row access disjoint elements, but at addresses with different indices. Variables are analysed exactly, so
/// they may weaken a claim.
pub fn infer_parallelism(kernel: &mut Kernel) {
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

/// Returns the strongest parallelism of the loop `stmt` that can be proved; `Serial` if nothing is proved.
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

/// Returns the strongest parallelism that the assignments of variables in a loop body allow, and the reason why no
/// stronger one is allowed.
pub(crate) fn variables(body: &[Stmt]) -> (Parallelism, String) {
    let s = Variables::of(body);
    if s.moves_cursors {
        return (Parallelism::Serial, "a tape is written and read in order".to_owned());
    }
    if s.has_ordered_effects {
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

/// Returns the variables declared outside a loop body into which the body folds, each once, with its folding code.
pub(crate) fn folds(body: &[Stmt]) -> Vec<(VarId, Code)> {
    Variables::of(body).folds.into_iter().map(|(var, (code, _))| (var, code)).collect()
}

/// The variables that a loop body declares, sets, folds into and reads.
#[derive(Default)]
struct Variables {
    declared: OrderedSet<VarId>,
    set: OrderedSet<VarId>,
    /// The variables outside the body into which the body folds: the first folding code, and whether another code folds
    /// into the variable, too.
    folds: OrderedMap<VarId, (Code, bool)>,
    read: OrderedSet<VarId>,
    /// Whether the body has effects in program order, that is calls external functions or counts iterations
    /// (`has_ordered_effects`), and whether it has statements on dynamic tapes (`moves_cursors`).
    has_ordered_effects: bool,
    moves_cursors: bool,
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
        self.moves_cursors |= matches!(shape.effect, Effect::Tape(_));
        self.has_ordered_effects |=
            matches!(shape.effect, Effect::External(_) | Effect::Limit(_) | Effect::Lap(_));
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
            // A fold reads the variable into which it folds; this read does not count.
            if let Arg::Var(v) = a
                && folded.take_if(|f| *f == v).is_none()
            {
                self.read.insert(v);
            }
        });
    }
}

/// Returns whether one iteration of a loop accesses elements that another iteration writes.
pub(crate) fn memory(kernel: &Kernel, index: IndexId, extent: Extent, body: &[Stmt]) -> Dependence {
    collide(kernel, index, extent, body, false)
}

/// Returns whether this number of consecutive iterations may run in vector lanes, where each statement is executed for
/// all lanes before the next statement. No lane may access elements that another lane writes, with one exception. A
/// statement with a data-dependent address may write one element in several lanes, since its lanes write in the order
/// of iterations.
pub(crate) fn may_run_in_lanes(
    kernel: &Kernel,
    index: IndexId,
    iterations: usize,
    body: &[Stmt],
) -> bool {
    collide(kernel, index, Extent::Constant(iterations), body, true) == Dependence::Never
}

fn collide(
    kernel: &Kernel,
    index: IndexId,
    extent: Extent,
    body: &[Stmt],
    in_lanes: bool,
) -> Dependence {
    if let Extent::Constant(0 | 1) = extent {
        return Dependence::Never;
    }
    let mut survey = Survey { index, inside: Vec::new(), accesses: Vec::new(), known: true };
    survey.block(body, true);
    let defined = survey.defined(body);
    let stores = survey.accesses.iter().filter(|(a, _)| a.write).count();
    let most = if in_lanes { MOST_IN_LANES } else { MOST };
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
                Overlap::Partial => Dependence::Maybe,
                // Two lanes of one store may have equal data-dependent addresses: lanes write one after the other, in
                // the order of the iterations.
                Overlap::Identical
                    if in_lanes
                        && i == k
                        && store.address.dynamic.is_some()
                        && survey.inside.is_empty() =>
                {
                    Dependence::Never
                }
                Overlap::Identical => {
                    let certain = *plain && *always && store.held.buffer == other.held.buffer;
                    survey.collide(store, other, extent, &defined, certain, i == k)
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
    /// The loops of static trip count inside the body, with their trip counts.
    inside: Vec<(IndexId, usize)>,
    /// The accesses in the body, each with whether it happens in every iteration (no branch, guard or empty loop).
    accesses: Vec<(Access<'a>, bool)>,
    /// Whether `accesses` and `inside` describe all accesses of the body; otherwise the dependence is unknown.
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
                // The range of this loop's index is unknown, since its trip count is known only at run time.
                Flow::For { extent: Extent::Scalar(_), .. } => self.known = false,
                Flow::While | Flow::If => inner = false,
                Flow::Straight | Flow::Nest => {}
            }
            // The contents of exchanged buffers (carries with two buffers) and of the frames of calls are not
            // tracked.
            self.known &= shape.carries.iter().all(|c| c.input.buffer == c.output.buffer);
            self.known &= !matches!(shape.effect, Effect::Call(_));
            shape.blocks.into_iter().for_each(|b| self.block(b, inner));
        }
    }

    /// Returns the scalars that the body defines, whose values may differ between iterations.
    fn defined(&self, body: &[Stmt]) -> EntitySet<ScalarId> {
        let mut defined = EntitySet::new();
        visit(body, &mut |stmt| {
            if let Some(value) = stmt.defined() {
                defined.insert(value);
            }
        });
        defined
    }

    /// Returns whether the accesses `store` and `other` to one array reach the same element in different iterations.
    /// `certain` is true if every iteration performs both accesses, and `itself` if both are one and the same access.
    fn collide(
        &self,
        store: &Access<'_>,
        other: &Access<'_>,
        extent: Extent,
        defined: &EntitySet<ScalarId>,
        certain: bool,
        itself: bool,
    ) -> Dependence {
        // Scalars that the loop body does not define have the same value in all iterations.
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
            // In one iteration each access covers a range of `reach + 1` elements, and the two ranges are `between`
            // apart. Different iterations cover disjoint ranges if the addresses advance by more than `reach +
            // |between|` elements.
            let apart = step.abs() > reach + between.abs();
            return if apart { Dependence::Never } else { Dependence::Maybe };
        }
        let collide = match step {
            0 => between == 0,
            _ => between != 0 && between % step == 0 && (between / step).abs() < within,
        };
        match collide {
            false => Dependence::Never,
            // A loop with a trip count known at run time may have a single iteration, so a collision is not certain.
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

    /// Returns three distances in elements: the step of the addresses from one iteration to the next, the distance
    /// between the two addresses in one iteration, and the distance from the first to the last element that inner
    /// loops reach. `None` if the two addresses have different strides.
    fn distance(&self, store: &Access<'_>, other: &Access<'_>) -> Option<(i128, i128, i128)> {
        distance(store, other, self.index, &self.inside)
    }
}

/// Returns the dependence distance of two accesses, as [`Survey::distance`] defines it. `inside` has the loops inside
/// the loop of `index`, with their trip counts.
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

/// The overlap of the bytes of two buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    /// The two ids name one buffer, or buffers of one dtype at one offset in the workspace: equal indices denote the
    /// same bytes.
    Identical,
    /// The buffers share bytes, but equal indices may denote different bytes.
    Partial,
}

pub(crate) fn overlap(p: &Kernel, a: BufferId, b: BufferId) -> Overlap {
    if a == b {
        return Overlap::Identical;
    }
    let (x, y) = (&p.buffers[a], &p.buffers[b]);
    if x.ty.bytes() == 0 || y.ty.bytes() == 0 {
        return Overlap::None;
    }
    match (x.place, y.place) {
        (Place::Workspace(i), Place::Workspace(j)) => {
            if i == j && x.ty.dtype == y.ty.dtype {
                Overlap::Identical
            } else if i < j.saturating_add(y.ty.bytes()) && j < i.saturating_add(x.ty.bytes()) {
                Overlap::Partial
            } else {
                Overlap::None
            }
        }
        (Place::Record { cursor, offset: i }, Place::Record { cursor: other, offset: j }) => {
            // Buffers at different cursors count as disjoint: two cursors may point to one record only if both of them
            // only read.
            let meet = i < j.saturating_add(y.ty.bytes()) && j < i.saturating_add(x.ty.bytes());
            if meet && cursor == other { Overlap::Partial } else { Overlap::None }
        }
        _ if x.place == y.place => Overlap::Partial,
        _ => Overlap::None,
    }
}

/// Returns whether two buffers have no byte in common.
pub(crate) fn disjoint(p: &Kernel, a: BufferId, b: BufferId) -> bool {
    overlap(p, a, b) == Overlap::None
}
