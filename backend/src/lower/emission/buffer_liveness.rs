//! Computes which nodes share memory, the lifetime of this memory (in top-level statements, called steps), and the axes
//! that need memory.
//!
//! If all accesses to a node use the index of one common loop along an axis, this axis needs no memory. The lifetime of
//! the node is then one iteration of the loop, and its buffer holds the elements of one iteration. For example, the
//! buffer between the two inner loops of a softmax holds one row of exponentials. An update shares the memory of its
//! base (the array that it overwrites). If the lifetime of a node begins where that of another node ends, the node
//! takes over the memory of that other node.

use crate::loop_ir::IndexId;
use crate::lower::fusion::FusedTrees;
use crate::lower::graph::units::Donation;
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::trees::affine::{Index, as_index};
use crate::lower::trees::loop_tree::{At, Def, Tree};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{ArrayType, OrderedMap, Shape};

/// Per node: the owner of its memory, its lifetime in steps (top-level statements), and the axes that need memory.
pub(crate) struct Liveness {
    owners: SecondaryMap<NodeId, Option<NodeId>>,
    /// For each memory owner, the first and last step (top-level statement of the body) that accesses it.
    pub(crate) life: SecondaryMap<NodeId, Option<(usize, usize)>>,
    /// For each axis of a memory owner, the loop index that all accesses so far use; `None` if accesses differ, or use
    /// an expression other than a loop index. A node without an access so far has no list.
    same: SecondaryMap<NodeId, Option<SmallVec<[Option<IndexId>; 4]>>>,
    /// Nodes that are accessed as a whole, so that every axis needs memory.
    fixed: SecondaryMap<NodeId, bool>,
    /// Nodes whose memory no other node may take over: results, and nodes that already share memory with another node.
    pinned: SecondaryMap<NodeId, bool>,
}

/// The accesses of one step (top-level statement of the body) to the memory of a node.
#[derive(Default)]
struct StepAccesses {
    /// The index at which all accesses of the step (a top-level statement) are; `None` if they differ.
    index: Option<Index>,
    /// The position of the step's last load of the node, counted in statements.
    last_load: Option<usize>,
    /// The position of the step's first store to the node, counted in statements.
    first_store: Option<usize>,
}

impl Liveness {
    pub(crate) fn of(graph: &Graph, donation: &Donation, emitted: &FusedTrees) -> Liveness {
        let mut liveness = Liveness {
            owners: SecondaryMap::with_capacity(graph.nodes.len()),
            life: SecondaryMap::with_capacity(graph.nodes.len()),
            same: SecondaryMap::with_capacity(graph.nodes.len()),
            fixed: SecondaryMap::with_capacity(graph.nodes.len()),
            pinned: SecondaryMap::with_capacity(graph.nodes.len()),
        };
        for id in graph.nodes.keys() {
            if let Some(taken) = emitted.takes_over[id] {
                // Nodes are visited in ascending order and `taken` has a smaller number than `id`, so the owner of its
                // memory is already known.
                let owner = liveness.memory_owner(taken);
                liveness.owners[id] = Some(owner);
                liveness.fixed[owner] = true;
                liveness.pinned[owner] = true;
            }
        }
        for r in &graph.results {
            let owner = liveness.memory_owner(*r);
            liveness.fixed[owner] = true;
            liveness.pinned[owner] = !planted(Fault::ResultTaken);
        }
        let mut accesses: Vec<OrderedMap<NodeId, StepAccesses>> = Vec::new();
        for (position, step) in emitted.body.iter().enumerate() {
            let mut met = OrderedMap::default();
            liveness.visit(std::slice::from_ref(step), position, &mut 0, &mut met);
            accesses.push(met);
        }
        liveness.reuse(graph, donation, &accesses);
        liveness
    }

    /// Lets a node take over the memory of another node of the same type. This requires a step (top-level statement) in
    /// which the lifetime of the old node ends and that of the new node begins. All accesses to both nodes must be at
    /// the same index, and the last load of the old node must precede the first store of the new node. Steps are
    /// visited backward, so that chains are resolved in order.
    ///
    /// The old node may also be a donated argument, such as a loop carry, whose lifetime begins before the first step.
    /// Only the result for which the argument is donated may take over its memory. For a carry, this result is its
    /// value in the next iteration.
    fn reuse(
        &mut self,
        graph: &Graph,
        donation: &Donation,
        accesses: &[OrderedMap<NodeId, StepAccesses>],
    ) {
        let input = |id: NodeId| match graph.nodes[id].kind {
            NodeKind::Input(p) => Some(p),
            _ => None,
        };
        let mut result: OrderedMap<NodeId, usize> = OrderedMap::default();
        for (n, id) in graph.results.iter().enumerate() {
            result.insert(self.memory_owner(*id), n);
        }
        // For each result's index, the indices of the parameters whose memory the result may take over.
        let mut partners: OrderedMap<usize, SmallVec<[usize; 1]>> = OrderedMap::default();
        match donation {
            Donation::Arguments(pairs)
            | Donation::LoopCarries(pairs)
            | Donation::BranchResults(pairs) => {
                pairs.iter().for_each(|(p, n)| partners.entry(*n).or_default().push(*p));
            }
            Donation::None | Donation::Updates => {}
        }
        let mut merged: Vec<(NodeId, NodeId)> = Vec::new();
        for (position, met) in accesses.iter().enumerate().rev() {
            let mut arguments: OrderedMap<usize, (NodeId, &StepAccesses)> = OrderedMap::default();
            let mut dying: Vec<(Option<usize>, NodeId, &StepAccesses)> = Vec::new();
            let mut born: Vec<(Option<usize>, NodeId, &StepAccesses)> = Vec::new();
            for (id, m) in met {
                let Some((first, last)) = self.life[*id] else { continue };
                let mut axes = 0..graph.nodes[*id].ty.shape.len();
                let whole = m.index.is_some()
                    && (input(*id).is_some() || !axes.any(|a| self.dropped(*id, a)));
                if !whole {
                    continue;
                }
                let (loaded, stored) = (m.last_load.is_some(), m.first_store.is_some());
                let before = first < position || input(*id).is_some();
                if before && last == position && loaded && !stored && !self.pinned[*id] {
                    match input(*id) {
                        Some(p) => _ = arguments.insert(p, (*id, m)),
                        None => dying.push((m.last_load, *id, m)),
                    }
                }
                if first == position && stored && !loaded && input(*id).is_none() {
                    born.push((m.first_store, *id, m));
                }
            }
            dying.sort_unstable_by_key(|(load, id, _)| (*load, *id));
            born.sort_unstable_by_key(|(store, id, _)| (*store, *id));
            // `waiting` maps a type and an index to the nodes whose last load precedes the current position. A new node
            // of the same type that is stored at the same index may take over the memory of one of these nodes.
            let mut dying = dying.into_iter().peekable();
            let mut waiting: OrderedMap<(&ArrayType, &Index), BTreeSet<NodeId>> =
                OrderedMap::default();
            for (store, y, new) in born {
                let early = planted(Fault::TakenEarly);
                while let Some((_, x, old)) = dying.next_if(|(load, ..)| *load < store || early) {
                    if let Some(index) = &old.index {
                        waiting.entry((&graph.nodes[x].ty, index)).or_default().insert(x);
                    }
                }
                let ty = &graph.nodes[y].ty;
                let may = result.get(&self.memory_owner(y)).and_then(|n| partners.get(n));
                let donated = may.into_iter().flatten().find(|p| {
                    arguments.get(*p).is_some_and(|(x, old)| {
                        let loaded = old.last_load < store || planted(Fault::DonatedEarly);
                        graph.nodes[*x].ty == *ty && old.index == new.index && loaded
                    })
                });
                let donated = donated.and_then(|p| arguments.swap_remove(p)).map(|(x, _)| x);
                let alike = new.index.as_ref().and_then(|index| waiting.get_mut(&(ty, index)));
                if let Some(x) = donated.or_else(|| alike?.pop_first()) {
                    merged.push((x, y));
                }
            }
        }
        for (x, y) in merged {
            let owner = self.memory_owner(y);
            self.owners[x] = Some(owner);
            self.fixed[owner] = true;
            self.pinned[owner] = true;
            self.life[owner] = match (self.life[x], self.life[owner]) {
                (Some((first, _)), Some((_, last))) => Some((first, last)),
                (one, other) => one.or(other),
            };
        }
    }

    pub(crate) fn memory_owner(&self, node: NodeId) -> NodeId {
        self.owners[node].unwrap_or(node)
    }

    fn touch(&mut self, node: NodeId, position: usize) -> NodeId {
        let owner = self.memory_owner(node);
        let (first, _) = self.life[owner].unwrap_or((position, position));
        self.life[owner] = Some((first, position));
        owner
    }

    fn visit(
        &mut self,
        code: &[Tree],
        position: usize,
        clock: &mut usize,
        met: &mut OrderedMap<NodeId, StepAccesses>,
    ) {
        for tree in code {
            *clock += 1;
            match tree {
                Tree::For { body, .. } | Tree::Nest(body) => {
                    self.visit(body, position, clock, met);
                }
                Tree::Contract(p) => {
                    for m in [p.lhs, p.rhs, p.out] {
                        let owner = self.touch(m.node, position);
                        self.fixed[owner] |= !planted(Fault::ProductDropped);
                    }
                }
                Tree::Region(r) => {
                    for n in r.nodes() {
                        let owner = self.touch(n, position);
                        self.fixed[owner] = true;
                        self.pinned[owner] = true;
                    }
                }
                Tree::Let { expr: Def::Load { node, at, .. }, .. } => {
                    let owner = self.access(*node, at, position);
                    accesses_of(met, owner, at).last_load = Some(*clock);
                }
                Tree::Store { node, at, .. } => {
                    let owner = self.access(*node, at, position);
                    accesses_of(met, owner, at).first_store.get_or_insert(*clock);
                }
                Tree::Let { expr: Def::Code(..), .. }
                | Tree::Var { .. }
                | Tree::Set { .. }
                | Tree::Fold { .. } => {}
            }
        }
    }

    fn access(&mut self, node: NodeId, at: &At, position: usize) -> NodeId {
        let owner = self.touch(node, position);
        match at {
            At::Flat(_) => {
                self.fixed[owner] = true;
                self.pinned[owner] = true;
            }
            At::Axes(index) => {
                let here = index.iter().map(as_index);
                match &mut self.same[owner] {
                    Some(same) => {
                        for (s, i) in same.iter_mut().zip(here) {
                            if *s != i {
                                *s = None;
                            }
                        }
                    }
                    none => *none = Some(here.collect()),
                }
            }
        }
        owner
    }

    /// Returns whether an axis of a node needs no memory, because all accesses use the same loop index along it.
    pub(crate) fn dropped(&self, node: NodeId, axis: usize) -> bool {
        let owner = self.memory_owner(node);
        !self.fixed[owner]
            && self.same[owner].as_ref().is_some_and(|s| s.get(axis).is_some_and(|i| i.is_some()))
    }

    pub(crate) fn shape(&self, graph: &Graph, node: NodeId) -> Shape {
        let shape = &graph.nodes[node].ty.shape;
        if matches!(graph.nodes[node].kind, NodeKind::Input(_)) {
            return shape.clone();
        }
        let extent = |(axis, n): (usize, &usize)| if self.dropped(node, axis) { 1 } else { *n };
        shape.iter().enumerate().map(extent).collect()
    }
}

/// Returns the entry of `owner` in `met`, the accesses of a step (a top-level statement). The entry's index becomes
/// `None` if `at` differs from it.
fn accesses_of<'a>(
    met: &'a mut OrderedMap<NodeId, StepAccesses>,
    owner: NodeId,
    at: &At,
) -> &'a mut StepAccesses {
    let index = match at {
        At::Axes(index) => Some(index),
        At::Flat(_) => None,
    };
    let first = || StepAccesses { index: index.cloned(), ..StepAccesses::default() };
    let m = met.entry(owner).or_insert_with(first);
    if m.index.as_ref() != index {
        m.index = None;
    }
    m
}
