//! From members to loop trees: which members share a loop, and what happens inside.
//!
//! Members arrive in an order in which what is read comes first. A block (the whole program, or the
//! body of a loop) distributes its members over *items* that run one after the other: straight-line
//! code, or a loop of some extent, whose body is a block again. A member goes to the latest item of
//! its own extent that does not run before something it reads is complete:
//!
//! ```text
//! y[i,j] = exp x[i,j]        loop i { loop j { y } }
//! s[i]   = Σ_j y[i,j]        loop i { loop j { y, fold s } }
//! z[i,j] = y[i,j] / s[i]     loop i { loop j { y, fold s }; loop j { z } }
//! t      = Σ_i s[i]          loop i { loop j { y, fold s }; loop j { z }; fold t }
//! ```
//!
//! Sharing a loop is sound where the reader takes, along the axis that the loop runs over, exactly
//! the element of this iteration; everything that it reads is then complete in this iteration,
//! whatever happens along the other axes. A fold over the shared loop is complete only after it, and
//! so its readers come later. Items run in a fixed order and no member moves once it is placed, so
//! there can be no cycles, and one pass over the members is enough.
//!
//! Loops are opened one axis at a time, so that members of different rank share what they can: the
//! nest of a softmax, and that of a function of small vectors mapped over a batch, fall out of the
//! same rule.
//!
//! Model: Halide's `compute_at` and the multi-output fusion of XLA and Futhark, with the tree of
//! loops of TVM, found greedily.

use super::affine::{Affine, Index, Range, Term};
use super::graph::{Graph, Kind, NodeId, Source};
use super::member::{Member, Part, Role};
use super::tree::{At, Library, Step, Tree, Value};
use crate::kernel::{Arg, IndexId, ScalarId, VarId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Given, Sign};
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// What is known about a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarInfo {
    pub(crate) dtype: Dtype,
    /// The block in which it is defined; 0 is the outermost.
    pub(crate) level: usize,
    /// Bounds of an i64, where known.
    pub(crate) range: Option<Range>,
    /// What is known of its sign.
    pub(crate) sign: Sign,
}

/// A scalar that is already there: the element of a node, under a guard.
type Key = (NodeId, Index, Option<ScalarId>);

/// An index with axes left open.
type Pattern = SmallVec<[Option<Affine>; 4]>;

/// A block under construction.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) code: Vec<Tree>,
    memo: HashMap<Key, Arg>,
    /// Elements that are the same along the axes for which there is no index here.
    uniform: HashMap<NodeId, (Pattern, Arg)>,
    /// Run-time indices that have been clamped to `0..=room`.
    pub(crate) clamped: HashMap<(ScalarId, i64), Affine>,
    /// Indices that have been divided: quotients and remainders.
    pub(crate) divided: HashMap<(Affine, i64), (Affine, Affine)>,
}

/// Where the terms of a fold accumulate.
enum Accumulator {
    /// One variable for each unrolled output (two for the index of an extremum).
    Vars(Vec<(VarId, Option<VarId>)>),
    /// The node's memory.
    Memory,
}

/// What is emitted.
pub(crate) struct Emitted {
    pub(crate) steps: Vec<Step>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    pub(crate) vars: PrimaryMap<VarId, Dtype>,
    /// Whether a node needs memory.
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// The node whose memory an update takes over.
    pub(crate) takes: SecondaryMap<NodeId, Option<NodeId>>,
}

/// Straight-line steps have at most this many members, so that machine code comes in portions.
const STRAIGHT: usize = 2000;
/// Members that visit at most this many elements may be placed before what is there already.
const EARLY: usize = 1 << 16;
/// Members whose inner axes do not match are unrolled up to this many elements.
const SCALARISED: usize = 64;
/// Elements that scalarising may unroll in straight-line code, which is cut into portions,
const SCALARISED_STRAIGHT: usize = 20_000;
/// and in the body of a loop, which cannot be cut: Cranelift's register allocator takes three seconds
/// for six thousand elements, and 0.4 for two thousand (in a development build).
const SCALARISED_IN_LOOP: usize = STRAIGHT;

/// Emits the members in loop nests.
pub(crate) fn emit(graph: &Graph, members: Vec<Member>) -> Result<Emitted, Problem> {
    let last_reader = super::member::last_readers(graph, &members);
    let order: Vec<usize> = (0..members.len()).collect();
    let mut emit = Emit {
        graph,
        bound: members.iter().map(|_| SmallVec::new()).collect(),
        accumulators: members.iter().map(|_| None).collect(),
        members,
        last_reader,
        scalars: PrimaryMap::new(),
        vars: PrimaryMap::new(),
        var_levels: SecondaryMap::new(),
        indices: PrimaryMap::new(),
        blocks: Vec::new(),
        starts: HashMap::new(),
        needs: SecondaryMap::with_capacity(graph.nodes.len()),
        overwritten: SecondaryMap::with_capacity(graph.nodes.len()),
        takes: SecondaryMap::with_capacity(graph.nodes.len()),
        is_result: SecondaryMap::with_capacity(graph.nodes.len()),
        libraries: SecondaryMap::with_capacity(graph.nodes.len()),
        placed: SecondaryMap::with_capacity(graph.nodes.len()),
        blocks_placed: 0,
        steps: Vec::new(),
    };
    for r in &graph.results {
        emit.needs[*r] = true;
        emit.is_result[*r] = true;
    }
    for id in graph.nodes.keys() {
        emit.libraries[id] = super::library::plan(graph, id);
    }
    for item in emit.place(&order, 0) {
        if emit.call(&item) {
            continue;
        }
        emit.blocks.push(Block::default());
        emit.starts.clear();
        emit.item(&item, 0)?;
        let code = emit.blocks.pop().map_or(Vec::new(), |b| b.code);
        emit.steps.push(Step::Nest(code));
    }
    Ok(Emitted {
        steps: emit.steps,
        scalars: emit.scalars,
        vars: emit.vars,
        needs: emit.needs,
        takes: emit.takes,
    })
}

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Space {
    /// Straight-line code.
    Straight,
    /// A loop.
    Loop(usize),
    /// One member that shares with nobody.
    Alone,
}

struct Item {
    space: Space,
    members: Vec<usize>,
}

/// The items of a block and when they run. Times have gaps, so that an item can come between others.
#[derive(Default)]
struct Timeline {
    items: Vec<Item>,
    times: Vec<u64>,
    all: BTreeMap<u64, usize>,
    of_space: HashMap<Space, BTreeMap<u64, usize>>,
}

/// Room between items.
const GAP: u64 = 1 << 32;

impl Timeline {
    /// The item for a member that may run at `earliest` or later.
    fn place(&mut self, space: Space, earliest: u64, outermost: bool, early: bool) -> usize {
        let full = |i: &usize| outermost && self.items[*i].members.len() >= STRAIGHT;
        let found = self.of_space.get(&space).and_then(|same| match space {
            // Straight-line code runs as early as it can, so that loops that need it can be joined;
            // loops run late, close to whoever reads what they make.
            Space::Straight => same.range(earliest..).map(|(_, i)| *i).find(|i| !full(i)),
            Space::Loop(_) => same.range(earliest..).next_back().map(|(_, i)| *i),
            Space::Alone => None,
        });
        found.unwrap_or_else(|| self.insert(space, earliest, early && space != Space::Alone))
    }

    /// A new item: right after `earliest` where that is wanted and there is room, else at the end.
    fn insert(&mut self, space: Space, earliest: u64, early: bool) -> usize {
        let end = self.all.last_key_value().map_or(0, |(t, _)| *t) + GAP;
        let after = earliest + u64::from(self.all.contains_key(&earliest));
        let mut time = end;
        if early && let Some((next, _)) = self.all.range(after..).next() {
            let before = self.all.range(..after).next_back().map_or(0, |(t, _)| *t);
            let between = (before + (next - before) / 2).max(after);
            if before < between && between < *next {
                time = between;
            }
        }
        let item = self.items.len();
        self.items.push(Item { space, members: Vec::new() });
        self.times.push(time);
        self.all.insert(time, item);
        self.of_space.entry(space).or_default().insert(time, item);
        item
    }

    fn in_order(self) -> Vec<Item> {
        let mut items: Vec<Option<Item>> = self.items.into_iter().map(Some).collect();
        self.all.values().filter_map(|i| items[*i].take()).collect()
    }
}

/// Where a node was placed last.
#[derive(Clone, Copy, Default)]
struct Placed {
    /// Which block.
    block: u32,
    item: usize,
    /// The member.
    member: usize,
    /// Whether there are several.
    parts: bool,
}

pub(crate) struct Emit<'a> {
    pub(crate) graph: &'a Graph,
    members: Vec<Member>,
    /// The indices along a member's axes, as far as its loops are open.
    bound: Vec<Index>,
    accumulators: Vec<Option<Accumulator>>,
    last_reader: SecondaryMap<NodeId, usize>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    vars: PrimaryMap<VarId, Dtype>,
    var_levels: SecondaryMap<VarId, usize>,
    /// Extent and level of every loop.
    indices: PrimaryMap<IndexId, (usize, usize)>,
    pub(crate) blocks: Vec<Block>,
    /// Starts of dynamic slices in this step.
    pub(crate) starts: HashMap<(NodeId, usize), Affine>,
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// Whether an update has taken over the node's memory.
    pub(crate) overwritten: SecondaryMap<NodeId, bool>,
    takes: SecondaryMap<NodeId, Option<NodeId>>,
    is_result: SecondaryMap<NodeId, bool>,
    /// Contractions that the library does.
    libraries: SecondaryMap<NodeId, Option<Library>>,
    placed: SecondaryMap<NodeId, Placed>,
    blocks_placed: u32,
    steps: Vec<Step>,
}

impl Emit<'_> {
    // --- placing ---

    /// Distributes members over items.
    fn place(&mut self, members: &[usize], depth: usize) -> Vec<Item> {
        self.blocks_placed += 1;
        let block = self.blocks_placed;
        let mut line = Timeline::default();
        for &m in members {
            let space = self.space(m, depth);
            let mut earliest = 0;
            for r in &self.members[m].reads {
                let at = self.placed[r.node];
                if at.block != block {
                    continue;
                }
                let shares = line.items[at.item].space == space
                    && match space {
                        Space::Straight => true,
                        Space::Loop(_) => self.aligned(m, r, at, depth),
                        Space::Alone => false,
                    };
                let time = line.times[at.item];
                earliest = earliest.max(if shares { time } else { time + 1 });
            }
            // What little work there is may be done ahead of what is there already.
            let early = self.members[m].rest(depth) <= EARLY;
            let item = line.place(space, earliest, depth == 0, early);
            line.items[item].members.push(m);
            let node = self.members[m].node;
            let parts = self.members[m].part != Part::Whole;
            self.placed[node] = Placed { block, item, member: m, parts };
        }
        line.in_order()
    }

    fn space(&self, m: usize, depth: usize) -> Space {
        let member = &self.members[m];
        if self.graph.nodes[member.node].kind.is_update() || self.libraries[member.node].is_some() {
            Space::Alone
        } else if depth >= member.unrolled_from {
            Space::Straight
        } else {
            Space::Loop(member.axes[depth].extent)
        }
    }

    /// Whether a member may run in the same loop as what it reads: it takes the element of the same
    /// iteration.
    fn aligned(&self, m: usize, read: &super::member::Read, at: Placed, depth: usize) -> bool {
        if at.parts && self.members[m].node != read.node {
            return false;
        }
        let axis = self.members[at.member].axes[depth];
        match axis.role {
            Role::Out(o) => axis.start == 0 && axis.step == 1 && read.at[o] == Some(depth),
            Role::Fold(_) => false,
        }
    }

    // --- loops ---

    /// A contraction by the library is a step of its own.
    fn call(&mut self, item: &Item) -> bool {
        let [m] = item.members.as_slice() else { return false };
        let Some(library) = self.libraries[self.members[*m].node].take() else { return false };
        for o in [library.lhs, library.rhs, library.out] {
            self.needs[o.node] = true;
        }
        self.steps.push(Step::Library(library));
        true
    }

    fn item(&mut self, item: &Item, depth: usize) -> Result<(), Problem> {
        match item.space {
            Space::Straight => {
                for m in &item.members {
                    self.leaf(*m)?;
                }
                Ok(())
            }
            Space::Loop(extent) => self.open(item, extent, depth),
            Space::Alone => item.members.iter().try_for_each(|m| self.update(*m)),
        }
    }

    /// One loop and its body.
    fn open(&mut self, item: &Item, extent: usize, depth: usize) -> Result<(), Problem> {
        self.scalarise(&item.members, depth + 1);
        let folding: Vec<usize> = item
            .members
            .iter()
            .copied()
            .filter(|m| self.members[*m].first_fold() == Some(depth))
            .collect();
        for m in &folding {
            self.begin_fold(*m, depth)?;
        }
        let index = self.indices.push((extent, self.blocks.len()));
        for &m in &item.members {
            let axis = self.members[m].axes[depth];
            let along = Affine::term(Term::Index(index)).scale(axis.step, axis.start);
            self.bound[m].push(along);
        }
        self.blocks.push(Block::default());
        for inner in self.place(&item.members, depth + 1) {
            self.item(&inner, depth + 1)?;
        }
        let body = self.blocks.pop().map_or(Vec::new(), |b| b.code);
        self.push(Tree::For { index, extent, body });
        for &m in &item.members {
            self.bound[m].pop();
        }
        for m in folding {
            self.end_fold(m);
        }
        Ok(())
    }

    /// Unrolls the inner axes of small members that read each other across them: a slice of three
    /// elements out of a small vector is then a scalar that is already there.
    fn scalarise(&mut self, members: &[usize], depth: usize) {
        let small = |m: &Member| m.rest(depth) <= SCALARISED;
        let mut inside: HashMap<NodeId, usize> = HashMap::new();
        let candidates: Vec<usize> =
            members.iter().copied().filter(|m| small(&self.members[*m])).collect();
        let mut total = 0usize;
        for &m in &candidates {
            inside.insert(self.members[m].node, m);
            total = total.saturating_add(self.members[m].rest(depth));
        }
        let most = if depth == 0 { SCALARISED_STRAIGHT } else { SCALARISED_IN_LOOP };
        if total > most {
            return;
        }
        let crosses = |m: &usize| {
            let member = &self.members[*m];
            // A view of several pieces has its own index in each.
            if member.part == Part::Whole && super::member::is_pieced(self.graph, member.node) {
                return true;
            }
            member.reads.iter().any(|r| {
                let Some(from) = inside.get(&r.node) else { return false };
                let axes = self.members[*from].axes.iter().skip(depth);
                // Axes read at an index that is not one of the reader's: sliced, reversed, shifted.
                axes.into_iter().any(|a| match a.role {
                    Role::Out(o) => r.at[o].is_none(),
                    Role::Fold(_) => false,
                })
            })
        };
        if !candidates.iter().any(crosses) {
            return;
        }
        for m in candidates {
            let from = self.members[m].unrolled_from;
            self.members[m].unrolled_from = from.min(depth);
        }
    }

    /// Index values of the unrolled axes from `depth` on, in row-major order.
    fn unrolled(&self, m: usize, depth: usize, folds: bool) -> Vec<Index> {
        let axes = &self.members[m].axes;
        let mut all = vec![Index::new()];
        for (position, a) in axes.iter().enumerate().skip(depth) {
            let skip = position < self.members[m].unrolled_from
                || (!folds && matches!(a.role, Role::Fold(_)));
            let extent = if skip { 1 } else { a.extent as i64 };
            let mut next = Vec::with_capacity(all.len() * extent as usize);
            for prefix in &all {
                for i in 0..extent {
                    let mut index = prefix.clone();
                    index.push(Affine::constant(a.start + a.step * i));
                    next.push(index);
                }
            }
            all = next;
        }
        all
    }

    /// The number of the unrolled output that an index belongs to.
    fn slot(&self, m: usize, index: &[Affine]) -> usize {
        let member = &self.members[m];
        let mut slot = 0;
        for (position, a) in member.axes.iter().enumerate().skip(member.unrolled_from) {
            if matches!(a.role, Role::Out(_)) {
                let i = (index[position].offset - a.start) / a.step;
                slot = slot * a.extent + i as usize;
            }
        }
        slot
    }

    /// Output and fold indices from those along the axes.
    fn indices_of(&self, m: usize, along: &[Affine]) -> (Index, SmallVec<[(usize, Affine); 2]>) {
        let member = &self.members[m];
        let rank = self.graph.nodes[member.node].ty.shape.len();
        let mut out: Index = SmallVec::from_elem(Affine::default(), rank);
        let mut fold = SmallVec::new();
        for (a, i) in member.axes.iter().zip(along) {
            match a.role {
                Role::Out(o) => out[o] = i.clone(),
                Role::Fold(f) => fold.push((f, i.clone())),
            }
        }
        (out, fold)
    }

    // --- folds ---

    fn identity(&self, m: usize) -> (Code, Literal) {
        let node = &self.graph.nodes[self.members[m].node];
        match &node.kind {
            Kind::Reduce { code, identity, .. } => (*code, *identity),
            _ => (Code::Add, Literal::zero(node.ty.dtype)),
        }
    }

    /// Declares or clears what the terms accumulate in, before the first folded loop.
    fn begin_fold(&mut self, m: usize, depth: usize) -> Result<(), Problem> {
        let node = self.members[m].node;
        let (_, identity) = self.identity(m);
        if self.members[m].accumulates_in_memory() {
            self.needs[node] = true;
            let axes: SmallVec<[super::member::Axis; 4]> =
                self.members[m].axes.iter().skip(depth).copied().collect();
            let mut along = self.bound[m].clone();
            let mut loops = Vec::new();
            for a in &axes {
                if matches!(a.role, Role::Out(_)) {
                    let index = self.indices.push((a.extent, self.blocks.len() + loops.len()));
                    loops.push((index, a.extent));
                    along.push(Affine::term(Term::Index(index)).scale(a.step, a.start));
                } else {
                    along.push(Affine::default());
                }
            }
            let (out, _) = self.indices_of(m, &along);
            let value = Arg::Literal(identity);
            let mut code = vec![Tree::Store { node, at: At::Axes(out), value, guard: None }];
            for (index, extent) in loops.into_iter().rev() {
                code = vec![Tree::For { index, extent, body: code }];
            }
            code.into_iter().for_each(|t| self.push(t));
            self.accumulators[m] = Some(Accumulator::Memory);
            return Ok(());
        }
        let dtype = self.graph.nodes[node].ty.dtype;
        let mut vars = Vec::new();
        for _ in self.unrolled(m, depth, false) {
            vars.push(match &self.graph.nodes[node].kind {
                Kind::ArgReduce { largest, .. } => {
                    let of = super::graph::dtype_of(self.graph, self.graph.nodes[node].operands[0]);
                    let worst = worst(of, *largest);
                    (self.var(of, worst), Some(self.var(dtype, Literal::zero(dtype))))
                }
                _ => (self.var(dtype, identity), None),
            });
        }
        self.accumulators[m] = Some(Accumulator::Vars(vars));
        Ok(())
    }

    /// The result of a fold is there.
    fn end_fold(&mut self, m: usize) {
        let Some(Accumulator::Vars(vars)) = self.accumulators[m].take() else { return };
        let depth = self.bound[m].len();
        for index in self.unrolled(m, depth, false) {
            let mut along = self.bound[m].clone();
            along.extend(index);
            let slot = self.slot(m, &along);
            let (out, _) = self.indices_of(m, &along);
            let (first, second) = vars[slot];
            self.define(self.members[m].node, out, Arg::Var(second.unwrap_or(first)));
        }
    }

    fn var(&mut self, dtype: Dtype, init: Literal) -> VarId {
        let var = self.vars.push(dtype);
        self.var_levels[var] = self.blocks.len() - 1;
        self.push(Tree::Var { var, init: Arg::Literal(init) });
        var
    }

    // --- what a member does inside its loops ---

    fn leaf(&mut self, m: usize) -> Result<(), Problem> {
        let node = self.members[m].node;
        let depth = self.bound[m].len();
        let folds = self.members[m].first_fold().is_some();
        let accumulator = self.accumulators[m].take();
        let arg_reduce = matches!(self.graph.nodes[node].kind, Kind::ArgReduce { .. });
        // Folds that are unrolled altogether: the total of each output.
        let mut totals: Vec<Option<(Index, Arg, Arg)>> = Vec::new();
        if folds && accumulator.is_none() {
            // The terms are folded into the identity.
            for index in self.unrolled(m, depth, false) {
                let mut along = self.bound[m].clone();
                along.extend(index);
                let (out, _) = self.indices_of(m, &along);
                let (start, zero) = self.fold_start(m);
                totals.push(Some((out, start, zero)));
            }
        }
        let (code, _) = self.identity(m);
        for index in self.unrolled(m, depth, true) {
            let mut along = self.bound[m].clone();
            along.extend(index);
            let (out, fold) = self.indices_of(m, &along);
            let value = self.value(m, &out, &fold)?;
            match &accumulator {
                None if !folds && arg_reduce => {
                    // Of one element, the first is the best.
                    let zero = Literal::zero(self.graph.nodes[node].ty.dtype);
                    self.define(node, out, Arg::Literal(zero));
                }
                None if !folds => {
                    let value = self.started(m, value);
                    self.define(node, out, value);
                }
                None => {
                    let slot = self.slot(m, &along);
                    if let Some(Some((_, total, at))) = totals.get(slot).cloned() {
                        let (total, at) = if arg_reduce {
                            let position = self.index_value(&fold[0].1);
                            self.better(m, (total, at), (value, position))
                        } else {
                            (self.fold_in(code, total, value), at)
                        };
                        totals[slot] = Some((out, total, at));
                    }
                }
                Some(Accumulator::Memory) => {
                    let load = Value::Load { node, at: At::Axes(out.clone()), guard: None };
                    let level = self.blocks.len() - 1;
                    let before = self.let_at(level, self.graph.nodes[node].ty.dtype, load);
                    let value = self.code(code, &[before, value]);
                    self.push(Tree::Store { node, at: At::Axes(out), value, guard: None });
                }
                Some(Accumulator::Vars(vars)) => {
                    let (var, position) = vars[self.slot(m, &along)];
                    if let Some(at) = position {
                        let i = self.index_value(&fold[0].1);
                        // The variables change in every iteration, so that what reads them here
                        // belongs in this block; both are read before either is set.
                        let here = self.blocks.len() - 1;
                        let outer = std::mem::replace(&mut self.var_levels[var], here);
                        self.var_levels[at] = here;
                        let (best, i) = self.better(m, (Arg::Var(var), Arg::Var(at)), (value, i));
                        self.push(Tree::Set { var, value: best });
                        self.push(Tree::Set { var: at, value: i });
                        (self.var_levels[var], self.var_levels[at]) = (outer, outer);
                    } else {
                        self.push(Tree::Fold { var, code, value });
                    }
                }
            }
        }
        for (out, total, at) in totals.into_iter().flatten() {
            let result = if arg_reduce { at } else { self.started(m, total) };
            self.define(node, out, result);
        }
        self.accumulators[m] = accumulator;
        Ok(())
    }

    fn fold_start(&self, m: usize) -> (Arg, Arg) {
        let node = &self.graph.nodes[self.members[m].node];
        match &node.kind {
            Kind::ArgReduce { largest, .. } => {
                let of = super::graph::dtype_of(self.graph, node.operands[0]);
                let zero = Literal::zero(node.ty.dtype);
                (Arg::Literal(worst(of, *largest)), Arg::Literal(zero))
            }
            _ => (Arg::Literal(self.identity(m).1), Arg::Literal(Literal::bool(false))),
        }
    }

    /// A total whose first term stood for itself, as if the fold had started where all folds do: a sum
    /// of floats starts at 0, which shows only where every term is -0.
    fn started(&mut self, m: usize, total: Arg) -> Arg {
        let node = &self.graph.nodes[self.members[m].node];
        let sums = match &node.kind {
            Kind::Reduce { code: Code::Add, axes, .. } => !axes.is_empty(),
            Kind::Contract { .. } => true,
            _ => false,
        };
        if !sums || self.sign(total) >= Sign::NeverMinusZero {
            return total;
        }
        let zero = Literal::zero(self.dtype(total));
        self.code(Code::Add, &[total, Arg::Literal(zero)])
    }

    /// `code total, value`, where the first value stands for itself; see [`Self::started`].
    fn fold_in(&mut self, code: Code, total: Arg, value: Arg) -> Arg {
        let neutral = match (code, total) {
            (Code::Add, Arg::Literal(l)) => l.is_zero(),
            (Code::Mul, Arg::Literal(l)) => l.is_one(),
            _ => false,
        };
        if neutral { value } else { self.code(code, &[total, value]) }
    }

    /// The better of two candidates for an extremum and its place: the first one wins ties, and nan
    /// is better than any number.
    fn better(&mut self, m: usize, old: (Arg, Arg), new: (Arg, Arg)) -> (Arg, Arg) {
        let node = &self.graph.nodes[self.members[m].node];
        let largest = matches!(node.kind, Kind::ArgReduce { largest: true, .. });
        let dtype = super::graph::dtype_of(self.graph, node.operands[0]);
        let to = node.ty.dtype;
        let compare = if largest { Code::Gt } else { Code::Lt };
        let mut take = self.code(compare, &[new.0, old.0]);
        if dtype.is_float() {
            let nan = self.code(Code::Ne, &[new.0, new.0]);
            let number = self.code(Code::Eq, &[old.0, old.0]);
            let first = self.code(Code::And, &[nan, number]);
            take = self.code(Code::Or, &[take, first]);
        }
        let value = self.code(Code::Select, &[take, new.0, old.0]);
        let place = self.code(Code::Convert(to), &[new.1]);
        (value, self.code(Code::Select, &[take, place, old.1]))
    }

    /// The element that a member computes, or the term that it folds.
    fn value(&mut self, m: usize, out: &Index, fold: &[(usize, Affine)]) -> Result<Arg, Problem> {
        let id = self.members[m].node;
        let node = &self.graph.nodes[id];
        let folded = |axis: usize| {
            fold.iter().find(|(f, _)| *f == axis).map_or(Affine::default(), |(_, i)| i.clone())
        };
        match &node.kind {
            Kind::Map(code) => {
                let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                for s in &node.operands {
                    args.push(self.element(*s, out, None)?);
                }
                Ok(self.code(*code, &args))
            }
            Kind::Copy => match self.members[m].part {
                Part::Whole => self.element(node.operands[0], out, None),
                Part::Fill => match super::member::fill_of(self.graph, id) {
                    Some((view, f)) => {
                        self.element(self.graph.nodes[view].operands[f], &Index::new(), None)
                    }
                    None => Err(Problem::internal("a fill without a view")),
                },
                Part::Piece(p) => self.piece(node.operands[0], p, out),
            },
            Kind::Reduce { axes, .. } => {
                let rank = out.len() + axes.len();
                let mut kept = out.iter();
                let mut index = Index::new();
                for a in 0..rank {
                    index.push(if axes.contains(&a) {
                        folded(a)
                    } else {
                        kept.next().cloned().unwrap_or_default()
                    });
                }
                self.element(node.operands[0], &index, None)
            }
            Kind::ArgReduce { axis, .. } => {
                let mut index = out.clone();
                index.insert(*axis, folded(*axis));
                self.element(node.operands[0], &index, None)
            }
            Kind::Contract { batch, contract } => {
                let rank = |s: Source| s.node().map_or(0, |n| self.graph.nodes[n].ty.shape.len());
                let (l, r) = (rank(node.operands[0]), rank(node.operands[1]));
                let mut left: Index = SmallVec::from_elem(Affine::default(), l);
                let mut right: Index = SmallVec::from_elem(Affine::default(), r);
                for (n, (a, b)) in contract.iter().enumerate() {
                    (left[*a], right[*b]) = (folded(n), folded(n));
                }
                for (o, target) in super::member::contract_outputs(batch, contract, l, r) {
                    for (side, a) in target {
                        if side { right[a] = out[o].clone() } else { left[a] = out[o].clone() }
                    }
                }
                let x = self.element(node.operands[0], &left, None)?;
                let y = self.element(node.operands[1], &right, None)?;
                Ok(self.code(Code::Mul, &[x, y]))
            }
            Kind::Input(_)
            | Kind::Empty
            | Kind::Update
            | Kind::Scatter { .. }
            | Kind::View { .. }
            | Kind::Reshape
            | Kind::Iota { .. }
            | Kind::Slice
            | Kind::Gather { .. } => Err(Problem::internal("a member that computes nothing")),
        }
    }

    /// An element of a node is there.
    fn define(&mut self, node: NodeId, index: Index, value: Arg) {
        self.remember(node, &index, None, value);
        // What was computed further out does not depend on the loops in between.
        let level = self.level(value);
        if level + 1 < self.blocks.len() {
            let inner = |a: &Affine| {
                let level_of = |(t, _): &(Term, i64)| match t {
                    Term::Index(i) => self.level(Arg::Index(*i)),
                    Term::Scalar(s) => self.level(Arg::Scalar(*s)),
                };
                a.terms.iter().any(|t| level_of(t) > level)
            };
            let pattern: Pattern = index.iter().map(|a| (!inner(a)).then(|| a.clone())).collect();
            if pattern.contains(&None) {
                self.blocks[level].uniform.insert(node, (pattern, value));
            }
        }
        self.push(Tree::Store { node, at: At::Axes(index), value, guard: None });
    }

    // --- updates ---

    /// Writes over the first operand: in place where nobody reads it afterwards, and this update
    /// reads nothing else of it.
    fn update(&mut self, m: usize) -> Result<(), Problem> {
        let id = self.members[m].node;
        let node = &self.graph.nodes[id];
        let base = node.operands[0];
        self.needs[id] = true;
        let free = |n: &NodeId| {
            let kind = &self.graph.nodes[*n].kind;
            !kind.is_movement()
                && !matches!(kind, Kind::Input(_))
                && (self.last_reader[*n] == m
                    || planted(Fault::UpdateTakesOver) && self.last_reader[*n] < m)
                && !self.graph.reads_beside(id, *n)
                && !self.overwritten[*n]
                && !self.is_result[*n]
        };
        match base.node().filter(free) {
            Some(n) => {
                self.needs[n] = true;
                self.overwritten[n] = true;
                self.takes[id] = Some(n);
            }
            None => {
                let shape = node.ty.shape.clone();
                self.nest(&shape, |emit, index| {
                    let value = emit.element(base, index, None)?;
                    let at = At::Axes(index.clone());
                    emit.push(Tree::Store { node: id, at, value, guard: None });
                    Ok(())
                })?;
            }
        }
        self.updates(id)
    }

    /// Loops over all elements of a shape; axes of extent 1 are no loops.
    pub(crate) fn nest(
        &mut self,
        shape: &[usize],
        body: impl FnOnce(&mut Self, &Index) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut index = Index::new();
        let mut loops = Vec::new();
        for extent in shape {
            if *extent == 1 {
                index.push(Affine::default());
                continue;
            }
            let i = self.indices.push((*extent, self.blocks.len()));
            self.blocks.push(Block::default());
            loops.push((i, *extent));
            index.push(Affine::term(Term::Index(i)));
        }
        body(self, &index)?;
        for (index, extent) in loops.into_iter().rev() {
            let body = self.blocks.pop().map_or(Vec::new(), |b| b.code);
            self.push(Tree::For { index, extent, body });
        }
        Ok(())
    }

    // --- scalars ---

    pub(crate) fn push(&mut self, tree: Tree) {
        if let Some(block) = self.blocks.last_mut() {
            block.code.push(tree);
        }
    }

    /// The block in which an argument is defined.
    pub(crate) fn level(&self, arg: Arg) -> usize {
        match arg {
            Arg::Scalar(s) => self.scalars[s].level,
            Arg::Var(v) => self.var_levels[v],
            Arg::Index(i) => self.indices[i].1,
            Arg::Literal(_) => 0,
        }
    }

    pub(crate) fn dtype(&self, arg: Arg) -> Dtype {
        match arg {
            Arg::Scalar(s) => self.scalars[s].dtype,
            Arg::Var(v) => self.vars[v],
            Arg::Index(_) => Dtype::I64,
            Arg::Literal(l) => l.dtype,
        }
    }

    /// Least and largest value of a term.
    pub(crate) fn range_of(&self, term: Term) -> Range {
        match term {
            Term::Index(i) => (0, self.indices[i].0 as i64 - 1),
            Term::Scalar(s) => self.scalars[s].range.unwrap_or((i64::MIN, i64::MAX)),
        }
    }

    pub(crate) fn range(&self, a: &Affine) -> Range {
        a.range(&|t| self.range_of(t))
    }

    pub(crate) fn let_at(&mut self, level: usize, dtype: Dtype, expr: Value) -> Arg {
        let sign = self.sign_of(dtype, &expr);
        let value = self.scalars.push(ScalarInfo { dtype, level, range: None, sign });
        self.blocks[level].code.push(Tree::Let { value, expr });
        Arg::Scalar(value)
    }

    /// What is known of the sign of an argument.
    fn sign(&self, arg: Arg) -> Sign {
        match arg {
            Arg::Scalar(s) => self.scalars[s].sign,
            Arg::Literal(l) => Sign::of(l),
            Arg::Var(_) | Arg::Index(_) => Sign::of_dtype(self.dtype(arg)),
        }
    }

    fn sign_of(&self, dtype: Dtype, value: &Value) -> Sign {
        let Value::Code(code, args) = value else { return Sign::of_dtype(dtype) };
        let given = args.iter().map(|a| {
            let value = if let Arg::Literal(l) = a { Some(*l) } else { None };
            Given { dtype: self.dtype(*a), sign: self.sign(*a), value }
        });
        let given: SmallVec<[Given; 3]> = given.collect();
        code.sign(&given, args.windows(2).all(|w| w[0] == w[1]))
    }

    /// Scalar code, in the outermost block where its operands are there. Code on constants is
    /// evaluated, and operations that change nothing, in any bit, are left out.
    pub(crate) fn code(&mut self, code: Code, args: &[Arg]) -> Arg {
        let constants: Option<SmallVec<[Literal; 3]>> = args
            .iter()
            .map(|a| match a {
                Arg::Literal(l) => Some(*l),
                Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_) => None,
            })
            .collect();
        if let Some(constants) = constants {
            return Arg::Literal(code.eval(&constants));
        }
        if let Some(same) = self.unchanged(code, args) {
            return same;
        }
        let level = args.iter().map(|a| self.level(*a)).max().unwrap_or(0);
        let dtype = args.last().map_or(Dtype::Bool, |a| code.result(self.dtype(*a)));
        self.let_at(level, dtype, Value::Code(code, SmallVec::from_slice(args)))
    }

    fn unchanged(&self, code: Code, args: &[Arg]) -> Option<Arg> {
        let truth = |a: Arg| match a {
            Arg::Literal(l) if l.dtype == Dtype::Bool => Some(l.bits != 0),
            _ => None,
        };
        let integer = |a: Arg| !self.dtype(a).is_float();
        match (code, args) {
            (Code::Select, [c, x, y]) => truth(*c).map(|c| if c { *x } else { *y }),
            (Code::Convert(to), [x]) if self.dtype(*x) == to => Some(*x),
            (Code::Mul, [x, Arg::Literal(l)] | [Arg::Literal(l), x]) if l.is_one() => Some(*x),
            (Code::Add, [x, Arg::Literal(l)] | [Arg::Literal(l), x])
                if l.is_zero() && (integer(*x) || l.bits != 0) =>
            {
                Some(*x)
            }
            (Code::Sub, [x, Arg::Literal(l)]) if l.is_zero() && l.bits == 0 => Some(*x),
            (Code::And, [x, y] | [y, x]) if truth(*x) == Some(true) => Some(*y),
            (Code::Or, [x, y] | [y, x]) if truth(*x) == Some(false) => Some(*y),
            _ => None,
        }
    }

    pub(crate) fn recall(&self, node: NodeId, index: &Index, guard: Option<Arg>) -> Option<Arg> {
        let plain = (node, index.clone(), None);
        let find = |key: &Key| self.blocks.iter().rev().find_map(|b| b.memo.get(key)).copied();
        if let Some(found) = find(&plain) {
            return Some(found);
        }
        for (pattern, value) in self.blocks.iter().filter_map(|b| b.uniform.get(&node)) {
            if pattern.iter().zip(index).all(|(p, i)| p.as_ref().is_none_or(|p| p == i)) {
                return Some(*value);
            }
        }
        match guard {
            Some(Arg::Scalar(g)) => find(&(plain.0, plain.1, Some(g))),
            _ => None,
        }
    }

    pub(crate) fn remember(&mut self, node: NodeId, index: &Index, guard: Option<Arg>, value: Arg) {
        let guard = match guard {
            Some(Arg::Scalar(g)) => Some(g),
            Some(_) => return,
            None => None,
        };
        let level = self.level(value).max(guard.map_or(0, |g| self.scalars[g].level));
        self.blocks[level].memo.insert((node, index.clone(), guard), value);
    }
}

/// What any element is better than.
fn worst(dtype: Dtype, largest: bool) -> Literal {
    let bits = match (dtype, largest) {
        (Dtype::F64, true) => f64::NEG_INFINITY.to_bits(),
        (Dtype::F64, false) => f64::INFINITY.to_bits(),
        (Dtype::F32, true) => u64::from(f32::NEG_INFINITY.to_bits()),
        (Dtype::F32, false) => u64::from(f32::INFINITY.to_bits()),
        (Dtype::I32, true) => u64::from(i32::MIN as u32),
        (Dtype::I32, false) => u64::from(i32::MAX as u32),
        (Dtype::I64, true) => i64::MIN as u64,
        (Dtype::I64, false) => i64::MAX as u64,
        (Dtype::U32, false) => u64::from(u32::MAX),
        (Dtype::U64, false) => u64::MAX,
        (Dtype::Bool, false) => 1,
        (Dtype::U32 | Dtype::U64 | Dtype::Bool, true) => 0,
    };
    Literal { dtype, bits }
}
