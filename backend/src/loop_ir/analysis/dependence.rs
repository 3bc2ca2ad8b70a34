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
    Access, Arg, Assign, BufferId, Carry, Effect, Extent, Flow, IndexId, Kernel, Parallelism,
    Place, ScalarId, Stmt, VarId,
};
use cranelift_entity::EntitySet;
use std::collections::BTreeMap;
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

/// Sets the parallelism of every loop to the strongest that can be proved. Accesses to memory never weaken a claim of
/// the pass that created the loop, since that pass may know more about addresses. For example, loops over parts of a
/// row access disjoint elements, but at addresses with different indices. Assignments of variables are analysed
/// exactly, so they may weaken a claim.
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
        Parallelism::Concurrent | Parallelism::Parallel => Parallelism::Parallel,
        own @ (Parallelism::Fold | Parallelism::Serial) => strongest(kernel, stmt).min(own),
    }
}

/// Returns the strongest parallelism of the loop `stmt` that can be proved; `Serial` if nothing is proved.
pub(crate) fn strongest(kernel: &Kernel, stmt: &Stmt) -> Parallelism {
    let Stmt::For { index, extent, carries, body, .. } = stmt else { return Parallelism::Serial };
    match variables(body).0 {
        weak @ (Parallelism::Concurrent | Parallelism::Parallel | Parallelism::Fold)
            if carries.is_empty() && memory(kernel, *index, *extent, body) == Dependence::Never =>
        {
            weak
        }
        Parallelism::Concurrent
        | Parallelism::Parallel
        | Parallelism::Fold
        | Parallelism::Serial => Parallelism::Serial,
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
    /// For each variable outside the body into which the body folds: the first folding code, and whether another fold
    /// into the variable has a different code.
    folds: OrderedMap<VarId, (Code, bool)>,
    read: OrderedSet<VarId>,
    /// Whether the body has effects in program order: calls of external functions, counts of iterations, or timers.
    has_ordered_effects: bool,
    /// Whether the body has statements on dynamic tapes.
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
            // A fold reads the variable into which it folds. Do not count this read, since it does not make the loop
            // serial.
            if let Arg::Var(v) = a
                && folded.take_if(|f| *f == v).is_none()
            {
                self.read.insert(v);
            }
        });
    }
}

/// Returns whether one iteration of a loop accesses elements that another iteration writes, if iterations run one after
/// the other.
pub(crate) fn memory(kernel: &Kernel, index: IndexId, extent: Extent, body: &[Stmt]) -> Dependence {
    collide(kernel, index, extent, body, Order::Any, &|_| false)
}

/// Returns whether different iterations of a loop certainly access no common memory. Not counted are private memory
/// ([`Place::Private`]), of which each iteration has its own, and the buffers for which `ignored` returns true.
pub(crate) fn may_run_concurrently(
    kernel: &Kernel,
    index: IndexId,
    iterations: usize,
    body: &[Stmt],
    ignored: &dyn Fn(BufferId) -> bool,
) -> bool {
    let extent = Extent::Constant(iterations);
    collide(kernel, index, extent, body, Order::Concurrent, ignored) == Dependence::Never
}

/// The order in which the statements of different iterations may run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The iterations may run in any order, but one after the other.
    Any,
    /// All iterations run the first statement, then all run the second, and so on.
    Lanes,
    /// Iterations may run in any order and at the same time, each with private memory of its own.
    Concurrent,
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
    let extent = Extent::Constant(iterations);
    collide(kernel, index, extent, body, Order::Lanes, &|_| false) == Dependence::Never
}

fn collide(
    kernel: &Kernel,
    index: IndexId,
    extent: Extent,
    body: &[Stmt],
    order: Order,
    ignored: &dyn Fn(BufferId) -> bool,
) -> Dependence {
    if let Extent::Constant(0 | 1) = extent {
        return Dependence::Never;
    }
    let in_lanes = order == Order::Lanes;
    let private = |b: BufferId| matches!(kernel.buffers[b].place, Place::Private(_));
    let ignored = |b: BufferId| ignored(b) || order == Order::Concurrent && private(b);
    let (inside, accesses) = (Vec::new(), Vec::new());
    let mut survey = Survey { index, inside, accesses, known: true, ignored: &ignored };
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
                // Lanes of one store with equal data-dependent addresses write one after the other, in the order of the
                // iterations, so such a store is no conflict.
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

struct Survey<'a, 's> {
    index: IndexId,
    /// Returns whether accesses to a buffer are left out of the analysis.
    ignored: &'s dyn Fn(BufferId) -> bool,
    /// The loops of static trip count inside the body, with their trip counts.
    inside: Vec<(IndexId, usize)>,
    /// The accesses in the body, and for each whether it happens in every iteration (it is in no branch and no loop
    /// that may be empty, and has no guard).
    accesses: Vec<(Access<'a>, bool)>,
    /// Whether `accesses` and `inside` describe all accesses of the body; otherwise the dependence is unknown.
    known: bool,
}

impl<'a> Survey<'a, '_> {
    fn block(&mut self, body: &'a [Stmt], always: bool) {
        for stmt in body {
            stmt.accesses(&mut |a| {
                let plain = always && a.guard.is_none();
                if !(self.ignored)(a.held.buffer) {
                    self.accesses.push((a, plain));
                }
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
            // Exchanged buffers (carries with two buffers) swap their memory, and calls access frames in the workspace;
            // neither appears in `accesses`.
            let both = |c: &Carry| [c.input.buffer, c.output.buffer];
            let known = |[a, b]: [BufferId; 2]| a == b || (self.ignored)(a) && (self.ignored)(b);
            self.known &= shape.carries.iter().map(both).all(known);
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
    /// `certain` is true if every iteration performs the two accesses, and `itself` if they are one and the same
    /// access.
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
        let (step, between) = match self.distance(store, other) {
            Some((step, between, 0)) => (step, between),
            Some(_) | None if self.apart(store, other, extent) => return Dependence::Never,
            Some(_) | None => return Dependence::Maybe,
        };
        let within = match extent {
            Extent::Constant(n) => n as i128,
            Extent::Scalar(_) => i128::MAX,
        };
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

    /// Returns whether two accesses of one array never reach the same element in different iterations. The proof reads
    /// an address as a number with one digit per stride. No multiple of the loop index's stride may equal a difference
    /// that the digits of smaller strides make, and each larger stride must exceed all differences that the digits of
    /// smaller strides make. Then equal addresses have equal digits, so they belong to one iteration.
    ///
    /// ```text
    /// for i0 in 8 { for i1 in 10 { for i2 in 4 { store b1[i1*32 + i0*4 + i2], .. } } }     3 < 4 and 4*7 + 3 < 32
    /// for i0 in 8 { store b1[i0*6], .. for i1 in 4 { store b1[i0*6 + i1 + 1], .. } }       differences 1 to 4, below 6
    /// for i0 in 8 { for i1 in 2 { store b1[i0*2 + i1], .. store b1[i0*2 + i1 + 16], .. } } differences 15 to 17, above 14
    /// ```
    fn apart(&self, store: &Access<'_>, other: &Access<'_>, extent: Extent) -> bool {
        let inside = |i: IndexId| self.inside.iter().find(|(of, _)| *of == i).map(|(_, n)| *n);
        let step = store.address.stride(self.index);
        let terms = || store.address.terms.iter().chain(&other.address.terms);
        let outer = |i: &IndexId| *i != self.index && inside(*i).is_none();
        let same = |i: &IndexId| store.address.stride(*i) == other.address.stride(*i);
        if step == 0 || !terms().map(|(i, _)| i).filter(|i| outer(i) || **i == self.index).all(same)
        {
            return false;
        }
        // Per stride: the least and the greatest difference between the digits of the two addresses.
        let mut digits: BTreeMap<u64, [i128; 2]> = BTreeMap::new();
        for (access, sign) in [(store, -1), (other, 1)] {
            let loops = access.address.terms.iter().filter_map(|(i, s)| Some((inside(*i)?, *s)));
            for (extent, stride) in loops.chain(access.reach.iter().copied()) {
                let last = i128::from(stride.signum() * sign) * (extent as i128 - 1).max(0);
                let [least, most] = digits.entry(stride.unsigned_abs()).or_default();
                (*least, *most) = (*least + last.min(0), *most + last.max(0));
            }
        }
        let between = i128::from(other.address.offset) - i128::from(store.address.offset);
        let step = step.unsigned_abs();
        let (mut least, mut most) = (between, between);
        for (stride, digits) in digits.range(..=step) {
            let [low, high] = digits.map(|d| d.saturating_mul(i128::from(*stride)));
            (least, most) = (least.saturating_add(low), most.saturating_add(high));
        }
        let step = i128::from(step);
        let last = match extent {
            Extent::Constant(n) => n as i128 - 1,
            Extent::Scalar(_) => i128::MAX,
        };
        // Returns whether the two addresses can be equal in a pair of iterations with a distance from 1 to `last`, if
        // the digits of smaller strides contribute a difference between `least` and `most`.
        let meets = |least: i128, most: i128| {
            let nearest = (least.div_euclid(step) + i128::from(least.rem_euclid(step) != 0)).max(1);
            nearest <= most.div_euclid(step).min(last)
        };
        if meets(least, most) || meets(most.saturating_neg(), least.saturating_neg()) {
            return false;
        }
        let mut larger = digits.range(step as u64 + 1..).filter(|(_, [low, high])| low < high);
        let mut reach = most.max(least.saturating_neg()).saturating_add(step.saturating_mul(last));
        larger.all(|(stride, [low, high])| {
            let below = i128::from(*stride) > reach;
            reach = reach.saturating_add(i128::from(*stride).saturating_mul(*high.max(&-low)));
            below
        })
    }

    /// Returns three distances in elements: between the store's addresses in two consecutive iterations, between the
    /// two accesses in one iteration, and between the first and the last element that inner loops reach. `None` if the
    /// two addresses have different strides.
    fn distance(&self, store: &Access<'_>, other: &Access<'_>) -> Option<(i128, i128, i128)> {
        distance(store, other, self.index, &self.inside)
    }
}

/// Returns the dependence distances of two accesses, as [`Survey::distance`] defines them. `inside` has the loops
/// inside the loop of `index`, with their trip counts.
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
            // Buffers at different cursors (pointers to records of a dynamic tape) count as disjoint: two cursors may
            // point to one record only if both are read-only.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::loop_ir::parse;

    /// Returns the strongest parallelism that is proved for the first loop of a program.
    fn proved(body: &str) -> Parallelism {
        let text = format!("program @x {{ buffer b0: f64[4096] output 0 {body} }}");
        let program = parse(&text, &|_| None).unwrap();
        strongest(&program.entry, &program.entry.body[0])
    }

    #[test]
    fn a_row_and_its_borders_are_independent() {
        let rows = |inner: usize, last: usize| {
            proved(&format!(
                "serial i0 in 8 {{ store b0[i0*6], 1.0 store b0[i0*6 + {last}], 1.0
                   for i1 in {inner} {{ store b0[i0*6 + i1 + 1], 2.0 }} }}"
            ))
        };
        assert_eq!(rows(4, 5), Parallelism::Parallel);
        // In `rows(4, 6)`, the last element of each row is also the first element of the next row, so the loop is
        // serial.
        assert_eq!(rows(4, 6), Parallelism::Serial);
        assert_eq!(rows(6, 5), Parallelism::Serial);
        // Even if the trip count is unknown, the loop is parallel, unless an inner loop has larger strides.
        let text = "serial i0 in (8) { for i1 in 4 { store b0[i0*6 + i1], 2.0 } }";
        assert_eq!(proved(text), Parallelism::Parallel);
        let text = "serial i0 in (8) { for i1 in 4 { store b0[i0*6 + i1*48], 2.0 } }";
        assert_eq!(proved(text), Parallelism::Serial);
        assert_eq!(proved(&text.replace("(8)", "8")), Parallelism::Parallel);
        assert_eq!(proved(&text.replace("(8)", "9")), Parallelism::Serial);
    }

    /// Enumerates the elements that each iteration accesses, for many loops of one form: if a loop is proved parallel,
    /// its iterations must be independent.
    #[test]
    fn what_is_proved_holds() {
        let (mut independent, mut proofs) = (0, 0);
        let strides = [-6, -1, 1, 2, 6, 12];
        for (step, n) in [(1, 2), (2, 3), (5, 3), (6, 2)] {
            for (stored, other) in strides.iter().flat_map(|s| strides.map(|t| (*s, t))) {
                let extents = [(1, 1), (1, 2), (1, 4), (3, 1), (3, 2), (3, 4)];
                let offsets = [-5, -1, 0, 1, 4, 40];
                for ((inner, outer), offset) in
                    extents.iter().flat_map(|e| offsets.map(|o| (*e, o)))
                {
                    let text = format!(
                        "serial i0 in {n} {{ for i1 in {inner} {{
                           store b0[i0*{step} + i1*{stored} + 100], 1.0 }}
                         for i2 in {outer} {{
                           %0: f64 = load b0[i0*{step} + i2*{other} + {}] }} }}",
                        100 + offset
                    );
                    let reach = |count: i64, stride: i64, offset: i64, i: i64| {
                        (0..count).map(move |k| i * step + k * stride + offset)
                    };
                    let apart = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).all(|(i, j)| {
                        let stores = || reach(inner, stored, 0, i);
                        let all = reach(outer, other, offset, j).chain(reach(inner, stored, 0, j));
                        i == j || all.collect::<Vec<_>>().iter().all(|a| stores().all(|b| b != *a))
                    });
                    let proved = proved(&text) == Parallelism::Parallel;
                    assert!(apart || !proved, "{text}");
                    (independent, proofs) =
                        (independent + usize::from(apart), proofs + usize::from(proved));
                }
            }
        }
        assert!(2 * proofs > independent, "{proofs} of {independent} proved");
    }
}
