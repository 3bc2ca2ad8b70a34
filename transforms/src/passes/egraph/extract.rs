//! Extraction: chooses one term for every class, so that the program is cheap.
//!
//! The cost of a program counts a shared term once, so the cost of a class is not the sum of its operands'
//! costs. Extraction is greedy on the graph: every class has its best term so far, with the *set* of classes
//! which that term needs; the cost of a term is the sum over the union of its operands' sets. A worklist
//! processes classes from the leaves up, and revisits the users of a class whose choice has changed. Gradient
//! programs are a tenth to a fifth cheaper than with tree costs (which count a shared term once for each use).
//!
//! Sets are refreshed when a choice below changes, but only a bounded number of times, so the choice may be
//! cyclic. In that case, terms are chosen by tree costs, and the choice is not cyclic.
//!
//! Model: the greedy-DAG extractor of the extraction gym (egraphs-good).

use super::graph::{ENode, Fact, Graph, describe};
use super::saturate::sorted;
use crate::passes::cost::local;
use egg::Id;
use std::collections::VecDeque;
use tapeloom_ir::{OrderedMap, OrderedSet};

/// After this number of changes of a class's chosen node, further changes no longer put the users of the class into the
/// worklist.
const CHANGES: u32 = 12;

/// The result of extraction: the chosen node of every class.
pub(crate) struct Extraction {
    index: OrderedMap<Id, usize>,
    chosen: Vec<Option<ENode>>,
}

impl Extraction {
    /// Returns the node chosen for a class.
    pub(crate) fn node(&self, id: Id) -> Option<&ENode> {
        self.chosen[*self.index.get(&id)?].as_ref()
    }
}

/// A set of class indices, as a bit set.
#[derive(Clone, PartialEq)]
struct Bits(Vec<u64>);

impl Bits {
    fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn contains(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }
    fn union(&mut self, other: &Bits) {
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
    fn clear(&mut self) {
        self.0.fill(0);
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * 64 + bit)
            })
        })
    }
}

/// A node that extraction may choose for a class: the node, its operands as class indices, and its cost in
/// additions, without the cost of its operands.
struct Candidate<'g> {
    node: &'g ENode,
    operands: Vec<usize>,
    cost: f64,
}

/// The cheapest e-node found for an e-class so far: its index, the total cost of all classes that it needs, and the set
/// of these classes.
#[derive(PartialEq)]
struct Best {
    candidate: usize,
    total: f64,
    needs: Bits,
}

/// Chooses one node per class, so that the terms of the `roots` (the results of the program) are cheap: by sets of
/// classes or, if that choice is cyclic below the roots, by tree costs, which count a shared term once for each use.
/// Returns `None` if both choices are cyclic.
pub(crate) fn extract(graph: &Graph<'_>, roots: &[Id]) -> Option<Extraction> {
    let ids = sorted(graph);
    let index: OrderedMap<Id, usize> = ids.iter().enumerate().map(|(i, id)| (*id, i)).collect();
    let is_root: OrderedSet<Id> = roots.iter().map(|r| graph.egraph.find(*r)).collect();
    let classes: Vec<Vec<Candidate<'_>>> =
        ids.iter().map(|id| candidates(graph, *id, &index, &is_root)).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    for (i, class) in classes.iter().enumerate() {
        for x in class.iter().flat_map(|c| &c.operands) {
            if users[*x].last() != Some(&i) {
                users[*x].push(i);
            }
        }
    }
    // Choose by sets of classes first. If that choice is cyclic, choose by tree costs: the cost of a term exceeds
    // that of each operand, so that choice has no cycle.
    [choose_by_sets as Choose, choose_by_trees].into_iter().find_map(|choose| {
        let best = choose(&classes, &users);
        let node =
            |(class, k): (&Vec<Candidate<'_>>, &Option<usize>)| Some(class[(*k)?].node.clone());
        let chosen = classes.iter().zip(&best).map(node).collect();
        let extraction = Extraction { index: index.clone(), chosen };
        acyclic(graph, &extraction, roots).then_some(extraction)
    })
}

/// A function that picks an e-node for every e-class. Arguments: the candidate nodes of each class, and the classes
/// that use each class as operand.
type Choose = fn(&[Vec<Candidate<'_>>], &[Vec<usize>]) -> Vec<Option<usize>>;

/// Returns the e-nodes of an e-class among which extraction chooses. If the class contains a constant or a value from
/// outside the program, that e-node is the only candidate, because it costs nothing. The only candidate for a scalar
/// constant is a literal, since some operands must be literals.
fn candidates<'g>(
    graph: &'g Graph<'_>,
    id: Id,
    index: &OrderedMap<Id, usize>,
    roots: &OrderedSet<Id>,
) -> Vec<Candidate<'g>> {
    let class = &graph.egraph[id];
    let free = |n: &&ENode| match n {
        ENode::Literal(_) => true,
        ENode::Leaf(_) => class.data.literal().is_none(),
        ENode::Apply(..) | ENode::Output(..) => false,
    };
    if let Some(node) = class.nodes.iter().find(free) {
        return vec![Candidate { node, operands: Vec::new(), cost: 0.0 }];
    }
    let candidate = |node: &'g ENode| {
        let cost = match node {
            ENode::Leaf(_) | ENode::Literal(_) | ENode::Output(..) => 0.0,
            ENode::Apply(op, operands) => {
                let facts: Vec<&Fact> = operands.iter().map(|x| &graph.egraph[*x].data).collect();
                // Results are written and arguments are in memory in any case, so neither they nor views of them add to
                // the cost.
                let stored: Vec<bool> =
                    operands.iter().map(|x| is_stored(graph, *x, roots, VIEWS)).collect();
                let stored = (stored.as_slice(), roots.contains(&id));
                local(graph.module(), op, &describe(&facts)?, &class.data.types, stored)
            }
        };
        let operands = egg::Language::children(node).iter().map(|x| index.get(x).copied());
        Some(Candidate { node, operands: operands.collect::<Option<_>>()?, cost })
    };
    class.nodes.iter().filter_map(candidate).collect()
}

/// The largest number of nested views through which extraction looks for an array in memory.
const VIEWS: usize = 3;

/// Returns whether the value of a class is in memory whatever nodes are chosen: a value from outside, a root (a result
/// of the program), or a view of such a value.
fn is_stored(graph: &Graph<'_>, id: Id, roots: &OrderedSet<Id>, views: usize) -> bool {
    let of_stored = |node: &ENode| match node {
        ENode::Leaf(_) => true,
        ENode::Apply(op, operands) => match operands.as_slice() {
            [x] if views > 0 && graph.is_view(op, *x) => is_stored(graph, *x, roots, views - 1),
            _ => false,
        },
        ENode::Literal(_) | ENode::Output(..) => false,
    };
    roots.contains(&id) || graph.egraph[id].iter().any(of_stored)
}

fn choose_by_sets(classes: &[Vec<Candidate<'_>>], users: &[Vec<usize>]) -> Vec<Option<usize>> {
    let words = classes.len().div_ceil(64);
    let mut best: Vec<Option<Best>> = classes.iter().map(|_| None).collect();
    // Per class: the cost of its chosen node without its operands.
    let mut own = vec![0.0; classes.len()];
    let mut needs = Bits(vec![0; words]);
    let mut queue = Worklist::new(classes.len());
    while let Some(i) = queue.pop() {
        let mut found: Option<Best> = None;
        let before = best[i].as_ref().map(|b| b.candidate);
        // Try the current choice first: another candidate replaces the current choice only if it is cheaper.
        let others = (0..classes[i].len()).filter(|k| Some(*k) != before);
        for k in before.into_iter().chain(others) {
            let c = &classes[i][k];
            needs.clear();
            let ready = c.operands.iter().all(|x| match &best[*x] {
                Some(b) => {
                    needs.union(&b.needs);
                    true
                }
                None => false,
            });
            if !ready || needs.contains(i) {
                continue;
            }
            let total = c.cost + needs.iter().map(|x| own[x]).sum::<f64>();
            if found.as_ref().is_none_or(|b| total < b.total - 1e-9 * b.total.abs()) {
                needs.insert(i);
                found = Some(Best { candidate: k, total, needs: needs.clone() });
            }
        }
        let Some(found) = found else { continue };
        own[i] = classes[i][found.candidate].cost;
        let same = best[i].as_ref().is_some_and(|b| *b == found);
        best[i] = Some(found);
        if !same {
            queue.changed(i, &users[i]);
        }
    }
    best.iter().map(|b| b.as_ref().map(|b| b.candidate)).collect()
}

/// Chooses an e-node for each e-class by tree costs, which count a shared term once for each use.
fn choose_by_trees(classes: &[Vec<Candidate<'_>>], users: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut best: Vec<Option<(usize, f64)>> = vec![None; classes.len()];
    let mut queue = Worklist::new(classes.len());
    queue.changes = u32::MAX;
    while let Some(i) = queue.pop() {
        let mut improved = false;
        for (k, c) in classes[i].iter().enumerate() {
            let operands = c.operands.iter().map(|x| best[*x].map(|(_, total)| total));
            let Some(sum) = operands.sum::<Option<f64>>() else { continue };
            let total = c.cost + sum;
            if best[i].is_none_or(|(_, b)| total < b) {
                best[i] = Some((k, total));
                improved = true;
            }
        }
        if improved {
            queue.changed(i, &users[i]);
        }
    }
    best.iter().map(|b| b.map(|(k, _)| k)).collect()
}

/// The classes whose choice is to be computed again, each at most once in the queue.
struct Worklist {
    queue: VecDeque<usize>,
    queued: Vec<bool>,
    changed: Vec<u32>,
    /// The largest number of changes of one class that put its users into the queue.
    changes: u32,
}

impl Worklist {
    fn new(classes: usize) -> Worklist {
        Worklist {
            queue: (0..classes).collect(),
            queued: vec![true; classes],
            changed: vec![0; classes],
            changes: CHANGES,
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let i = self.queue.pop_front()?;
        self.queued[i] = false;
        Some(i)
    }

    fn changed(&mut self, i: usize, users: &[usize]) {
        if self.changed[i] >= self.changes {
            return;
        }
        self.changed[i] += 1;
        for u in users {
            if !std::mem::replace(&mut self.queued[*u], true) {
                self.queue.push_back(*u);
            }
        }
    }
}

/// Returns whether the chosen nodes that are reachable from the roots (the results of the program) form no cycle. The
/// walk is iterative, since programs are deep.
fn acyclic(graph: &Graph<'_>, extraction: &Extraction, roots: &[Id]) -> bool {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; extraction.chosen.len()];
    let mut stack: Vec<(Id, bool)> = roots.iter().map(|r| (graph.egraph.find(*r), false)).collect();
    while let Some((id, leaving)) = stack.pop() {
        let Some(&i) = extraction.index.get(&id) else { return false };
        if leaving {
            marks[i] = Mark::Done;
            continue;
        }
        match marks[i] {
            Mark::Done => continue,
            Mark::Open => return false,
            Mark::New => {}
        }
        let Some(node) = &extraction.chosen[i] else { return false };
        marks[i] = Mark::Open;
        stack.push((id, true));
        for x in egg::Language::children(node) {
            let x = graph.egraph.find(*x);
            match extraction.index.get(&x).map(|k| marks[*k]) {
                Some(Mark::New) => stack.push((x, false)),
                Some(Mark::Done) => {}
                Some(Mark::Open) | None => return false,
            }
        }
    }
    true
}
