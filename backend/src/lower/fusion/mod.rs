//! Greedy loop fusion: distributes fusion candidates (computed nodes) over loops, and emits loop trees.
//!
//! Candidates arrive in topological order. A block (the whole program, or the body of a loop) distributes its fusion
//! candidates over *items* that run one after the other: straight-line code, or a loop of some extent, whose body is
//! again a block. A candidate goes to the latest item of its extent that does not run before one of its operands is
//! complete:
//!
//! ```text
//! y[i,j] = exp x[i,j]        loop i { loop j { y } }
//! s[i]   = Σ_j y[i,j]        loop i { loop j { y, fold s } }
//! z[i,j] = y[i,j] / s[i]     loop i { loop j { y, fold s }; loop j { z } }
//! t      = Σ_i s[i]          loop i { loop j { y, fold s }; loop j { z }; fold t }
//! ```
//!
//! Two fusion candidates may share a loop if, along the axis of the loop, the reader reads exactly the element of the
//! same iteration. All operands of the reader are then complete in this iteration, regardless of the other axes. A fold
//! over the shared loop is complete only after the loop, so its readers come later. Items run in a fixed order and no
//! candidate moves after it is placed, so there can be no cycles, and one pass over the candidates is enough.
//!
//! Loops are opened one axis at a time, so fusion candidates of different rank share their outer loops. The same rule
//! yields the nest of a softmax and that of a function of small vectors that is mapped over a batch.
//!
//! The model is Halide's `compute_at` and the multi-output fusion of XLA and Futhark; the tree of loops is like TVM's,
//! and is found greedily.

mod donation;
mod in_place;
mod reduction;
mod scalarize;
mod step_order;
pub(crate) mod tree_text;

use crate::loop_ir::{Arg, ScalarId, VarId};
use crate::lower::candidates::iteration_domain::{AxisRole, CandidatePart, FusionCandidate, Read};
use crate::lower::candidates::{fusion_candidates, view_boxes};
use crate::lower::elements::fusion_state::{
    Accumulator, Block, FusionState, Pattern, Placed, ScalarInfo,
};
use crate::lower::graph::phase_order::{self, Passes};
use crate::lower::graph::units::Donation;
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::operands::contraction::{uncontracted, unreduced};
use crate::lower::operands::{blas_select, region_operands};
use crate::lower::trees::affine::{Affine, Index, Term};
use crate::lower::trees::loop_tree::{At, Def, Tree};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use step_order::{Item, Preference, Space, Timeline};
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap, Phase, Problem};

/// The loop trees of a function, with the facts about nodes that the assignment of memory needs.
pub(crate) struct FusedTrees {
    pub(crate) body: Vec<Tree>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    pub(crate) vars: PrimaryMap<VarId, Dtype>,
    /// For each variable, the node whose elements are accumulated in it.
    pub(crate) var_nodes: SecondaryMap<VarId, Option<NodeId>>,
    /// Whether a node needs memory: it is loaded, overwritten, or an operand of a region (a call, branch or loop) or of
    /// a library call.
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// For each node that takes over the memory of its base (the array that it overwrites), the base.
    pub(crate) takes_over: SecondaryMap<NodeId, Option<NodeId>>,
}

/// Emits the loop trees of a function from its fusion candidates (computed nodes, or parts of them).
pub(crate) fn emit(
    graph: &Graph,
    donation: &Donation,
    candidates: Vec<FusionCandidate>,
) -> Result<FusedTrees, Problem> {
    let last_reader = fusion_candidates::last_readers(graph, &candidates);
    let donated = donation::donated(graph, donation, &candidates, &last_reader);
    let order: Vec<usize> = (0..candidates.len()).collect();
    let mut emit = FusionState {
        graph,
        bound: candidates.iter().map(|_| SmallVec::new()).collect(),
        accumulators: candidates.iter().map(|_| None).collect(),
        candidates,
        last_reader,
        required_passes: phase_order::required_passes(graph),
        donated,
        scalars: PrimaryMap::new(),
        vars: PrimaryMap::new(),
        var_levels: SecondaryMap::new(),
        var_nodes: SecondaryMap::new(),
        indices: PrimaryMap::new(),
        blocks: Vec::new(),
        starts: OrderedMap::default(),
        needs: SecondaryMap::with_capacity(graph.nodes.len()),
        overwritten: SecondaryMap::with_capacity(graph.nodes.len()),
        takes_over: SecondaryMap::with_capacity(graph.nodes.len()),
        is_result: SecondaryMap::with_capacity(graph.nodes.len()),
        regions: region_operands::results(graph),
        libraries: SecondaryMap::with_capacity(graph.nodes.len()),
        placed: SecondaryMap::with_capacity(graph.nodes.len()),
        blocks_placed: 0,
        body: Vec::new(),
        computing: None,
    };
    for r in &graph.results {
        emit.needs[*r] = true;
        emit.is_result[*r] = true;
    }
    for id in graph.nodes.keys() {
        emit.libraries[id] = blas_select::plan(graph, id);
    }
    for item in emit.place(&order, 0) {
        if emit.step(&item)? {
            continue;
        }
        emit.blocks.push(Block::default());
        emit.starts.clear();
        emit.loop_over_whole_arrays(&item);
        emit.item(&item, 0)?;
        let code = emit.blocks.pop().map_or(Vec::new(), |b| b.code);
        emit.body.push(Tree::Nest(code));
    }
    Ok(FusedTrees {
        body: emit.body,
        scalars: emit.scalars,
        vars: emit.vars,
        var_nodes: emit.var_nodes,
        needs: emit.needs,
        takes_over: emit.takes_over,
    })
}

impl FusionState<'_> {
    // The following methods place fusion candidates in loops.

    /// Distributes the fusion candidates of a block, given by number, over items (loops or straight-line code), and
    /// returns the items in their order. `depth` is the number of loops around the block.
    fn place(&mut self, members: &[usize], depth: usize) -> Vec<Item> {
        self.blocks_placed += 1;
        let block = self.blocks_placed;
        let mut line = Timeline::default();
        let mut passes = Passes::default();
        for &m in members {
            let space = self.space(m, depth);
            let required_passes = self.required_passes[self.candidates[m].node];
            let ended = if depth == 0 { passes.end(required_passes) } else { 0 };
            let (mut earliest, mut complete) = (ended, SmallVec::<[usize; 4]>::new());
            let mut preference = Preference::default();
            for r in &self.candidates[m].reads {
                let at = self.placed[r.node];
                if at.block != block {
                    continue;
                }
                let shares = line.items[at.item].space == space
                    && !(self.graph.nodes[r.node].is_held() && self.is_back(m))
                    && match space {
                        Space::Straight => true,
                        Space::Loop(_) => self.aligned(m, r, at, depth),
                        Space::Alone => false,
                    };
                let time = line.times[at.item];
                // A candidate prefers the loop that computes an array that it reads, but not if one of the two is in
                // the forward pass and the other in the reverse pass: a residual is in memory in any case, so its
                // reader gains nothing from the loop that computes it.
                if shares && self.is_back(m) == self.is_back(at.candidate) && self.is_large(r.node)
                {
                    let last = preference.producer.filter(|i| line.times[*i] >= time);
                    preference.producer = last.or(Some(at.item));
                }
                if !shares {
                    complete.push(at.item);
                }
                earliest = earliest.max(if shares { time } else { time + 1 });
            }
            // A new loop for the candidate may be inserted before existing items (`early`) if the candidate has at most
            // `cached_elements` elements: then its result is still in the cache when it is read.
            preference.folds = self.candidates[m].first_fold() == Some(depth);
            preference.early = self.candidates[m].rest(depth) <= self.graph.machine.cached_elements;
            if depth == 0 {
                let all = self.candidates[m].reads.iter().map(|r| r.node);
                let all = all.chain([self.candidates[m].node]);
                preference.large = all.filter(|n| self.is_large(*n)).collect();
            }
            let item = line.place(space, earliest, depth == 0, &preference);
            let placed = &mut line.items[item];
            placed.members.push(m);
            placed.folds += usize::from(preference.folds);
            placed.large.extend(preference.large);
            placed.earliest = placed.earliest.max(ended);
            placed.complete.extend(complete);
            placed.phases[usize::from(self.is_back(m))] = true;
            passes.placed(required_passes, line.times[item]);
            let node = self.candidates[m].node;
            let parts = self.candidates[m].part != CandidatePart::Whole;
            // A node that is written in several parts is complete when its last part is placed, so record the position
            // of the last part.
            let last = self.placed[node];
            let other = last.block == block && self.candidates[last.candidate].node == node;
            if !other || line.times[last.item] <= line.times[item] {
                self.placed[node] = Placed { block, item, candidate: m, parts };
            }
            for result in self.regions.get(&node).into_iter().flatten() {
                self.placed[*result] = self.placed[node];
            }
        }
        if depth == 0 {
            line.join_loops();
        }
        line.in_order()
    }

    /// Returns whether fusion candidate `m` (a computed node) belongs to a reverse pass, which runs after the forward
    /// pass that computes its residuals.
    fn is_back(&self, m: usize) -> bool {
        self.graph.nodes[self.candidates[m].node].origin.phase != Phase::FORWARD
    }

    /// Returns whether an array has more than `cached_elements` elements, too many to stay in the cache.
    fn is_large(&self, node: NodeId) -> bool {
        self.graph.nodes[node].ty.shape.elements() > self.graph.machine.cached_elements
    }

    fn space(&self, m: usize, depth: usize) -> Space {
        let candidate = &self.candidates[m];
        let kind = &self.graph.nodes[candidate.node].kind;
        if kind.is_update() || kind.region().is_some() || self.libraries[candidate.node].is_some() {
            Space::Alone
        } else if depth >= candidate.unrolled_from {
            Space::Straight
        } else {
            Space::Loop(candidate.axes[depth].extent)
        }
    }

    /// Returns whether fusion candidate `m` may run in the loop at `depth` that computes the array of `read`. Along the
    /// axis of this loop, `m` must read the element that the same iteration computes.
    fn aligned(&self, m: usize, read: &Read, at: Placed, depth: usize) -> bool {
        if at.parts && self.candidates[m].node != read.node {
            return false;
        }
        let axis = self.candidates[at.candidate].axes[depth];
        match axis.runs {
            AxisRole::Out(o) => axis.start == 0 && axis.step == 1 && read.at[o] == Some(depth),
            AxisRole::Fold(_) => false,
        }
    }

    // The following methods emit items: loops, straight-line code, library calls and regions.

    /// If an item is a library contraction or a region, emits it as a top-level statement and returns true.
    fn step(&mut self, item: &Item) -> Result<bool, Problem> {
        let [m] = item.members.as_slice() else { return Ok(false) };
        let node = self.candidates[*m].node;
        let step = if let Some(product) = self.libraries[node].take() {
            for o in [product.lhs, product.rhs, product.out] {
                self.needs[o.node] = true;
            }
            Tree::Contract(product)
        } else if let Some(results) = self.regions.remove(&node) {
            let step = region_operands::step(self.graph, node, results)?;
            step.nodes().for_each(|n| self.needs[n] = true);
            for (slot, result) in &self.graph.regions[step.region].initial_values {
                let result = step.results[*result];
                if self.take_over(*m, result).is_none() {
                    self.blocks.push(Block::default());
                    self.starts.clear();
                    self.copy_into(result, self.graph.nodes[node].operands[*slot])?;
                    let code = self.blocks.pop().map_or(Vec::new(), |b| b.code);
                    self.body.extend((!code.is_empty()).then_some(Tree::Nest(code)));
                }
            }
            Tree::Region(step)
        } else {
            return Ok(false);
        };
        self.body.push(step);
        Ok(true)
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

    /// Emits the loop of an item, with the declarations of its accumulators before the loop and the item's fusion
    /// candidates in the body. `extent` is the trip count, and `depth` the number of loops around it.
    fn open(&mut self, item: &Item, extent: usize, depth: usize) -> Result<(), Problem> {
        self.scalarise(&item.members, depth + 1);
        let folding: Vec<usize> = item
            .members
            .iter()
            .copied()
            .filter(|m| self.candidates[*m].first_fold() == Some(depth))
            .collect();
        for m in &folding {
            self.begin_fold(*m, depth)?;
        }
        let index = self.indices.push((extent, self.blocks.len()));
        for &m in &item.members {
            let axis = self.candidates[m].axes[depth];
            let along = Affine::atom(Term::Index(index)).times(axis.step).moved(axis.start);
            self.bound[m].push(along);
        }
        self.blocks.push(Block { extent: Some(extent), ..Block::default() });
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

    // The following methods emit the body of a fusion candidate inside its loops.

    fn leaf(&mut self, m: usize) -> Result<(), Problem> {
        let node = self.candidates[m].node;
        self.computing = Some(node);
        let depth = self.bound[m].len();
        let folds = self.candidates[m].first_fold().is_some();
        let accumulator = self.accumulators[m].take();
        let arg_reduce = matches!(self.graph.nodes[node].kind, NodeKind::ArgReduce { .. });
        // For a fold whose folded axes are all unrolled: for each output, its index, the total, and the position of the
        // extremum (used by argmax and argmin).
        let mut totals: Vec<Option<(Index, Arg, Arg)>> = Vec::new();
        if folds && accumulator.is_none() {
            // Start each total at the identity of the fold, for every unrolled output.
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
                    // If the axis has extent 1, the only element is the extremum, at index 0.
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
                    let load = Def::Load { node, at: At::Axes(out.clone()), guard: None };
                    let level = self.blocks.len() - 1;
                    let before = self.let_at(level, self.graph.nodes[node].ty.dtype, load);
                    let value = self.code(code, &[before, value]);
                    self.push(Tree::Store { node, at: At::Axes(out), value, guard: None });
                }
                Some(Accumulator::Vars(vars)) => {
                    let (var, position) = vars[self.slot(m, &along)];
                    if let Some(at) = position {
                        let i = self.index_value(&fold[0].1);
                        // The extremum and its position are two variables, and both change in every iteration. So
                        // expressions that read them belong in this block and may not move to an outer one. Both
                        // variables are read before either is set.
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

    /// Emits the value that fusion candidate `m` computes at output index `out`: the element, or the term that it folds
    /// at indices `fold`.
    fn value(&mut self, m: usize, out: &Index, fold: &[(usize, Affine)]) -> Result<Arg, Problem> {
        let id = self.candidates[m].node;
        let node = &self.graph.nodes[id];
        let folded = |axis: usize| {
            fold.iter().find(|(f, _)| *f == axis).map_or(Affine::default(), |(_, i)| i.clone())
        };
        match &node.kind {
            NodeKind::Map(code) => {
                let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                for s in &node.operands {
                    args.push(self.element(*s, out, None)?);
                }
                Ok(self.code(*code, &args))
            }
            NodeKind::Copy => match self.candidates[m].part {
                CandidatePart::Whole => self.element(node.operands[0], out, None),
                CandidatePart::Fill => match view_boxes::fill_of(self.graph, id) {
                    Some((view, f)) => {
                        self.element(self.graph.nodes[view].operands[f], &Index::new(), None)
                    }
                    None => Err(Problem::internal("a fill without a view")),
                },
                CandidatePart::Piece(p) => self.piece(node.operands[0], p, out),
            },
            NodeKind::Reduce { axes, .. } => {
                let index = unreduced(out, axes, folded);
                self.element(node.operands[0], &index, None)
            }
            NodeKind::ArgReduce { axis, .. } => {
                let mut index = out.clone();
                index.insert(*axis, folded(*axis));
                self.element(node.operands[0], &index, None)
            }
            NodeKind::Contract { batch, contract, order } => {
                let ranks = [0, 1].map(|n| self.graph.shape(node.operands[n]).len());
                let [left, right] = uncontracted(out, batch, contract, order, ranks, folded);
                let x = self.element(node.operands[0], &left, None)?;
                let y = self.element(node.operands[1], &right, None)?;
                Ok(self.code(Code::Mul, &[x, y]))
            }
            NodeKind::Input(_)
            | NodeKind::Update(_)
            | NodeKind::Result { .. }
            | NodeKind::Movement(_) => Err(Problem::internal("a fusion candidate without a value")),
        }
    }

    /// Notes that `value` is the element of `node` at `index`, so that later readers use this scalar, and emits a
    /// store.
    pub(crate) fn define(&mut self, node: NodeId, index: Index, value: Arg) {
        self.store_scalar(node, &index, None, value);
        // If the value was computed in an outer block, it does not depend on the inner loops, so note it in the outer
        // block as the element for all iterations of these loops.
        let level = self.level(value);
        if level + 1 < self.blocks.len() {
            let inner = |a: &Affine| a.terms().iter().any(|(t, _)| self.level(t.arg()) > level);
            let pattern: Pattern = index.iter().map(|a| (!inner(a)).then(|| a.clone())).collect();
            if pattern.contains(&None) {
                self.blocks[level].uniform.insert(node, (pattern, value));
            }
        }
        self.push(Tree::Store { node, at: At::Axes(index), value, guard: None });
    }
}
