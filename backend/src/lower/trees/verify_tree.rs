//! The verifier of loop trees: checks the order of loads and stores.
//!
//! In loop trees every node has its own name. After buffers are assigned, an update in place and its base (the array
//! that it overwrites) are one buffer, and loads of the two can no longer be distinguished. So these invariants are
//! checked before:
//!
//! - every load of a node comes after a store to it, and arguments are not stored to;
//! - a node that takes over memory has the previous owner as its base, and no other node takes over this memory. The
//!   previous owner is not a result. If it is an argument, the caller has donated it for this result;
//! - all loads and stores of the previous owner come before the first store of the update that takes over its memory,
//!   and share no loop with this store, since the next iteration of the loop would access the previous owner after the
//!   store;
//! - effects happen once, in program order;
//! - a node that must come after a (forward or reverse) pass runs in a step after all steps of that pass;
//! - no loop is empty.
//!
//! Debug builds check every program. [`crate::loop_ir::shadow`] checks the same invariants of memory at run time.

use super::loop_tree::{Def, Tree};
use crate::loop_ir::IndexId;
use crate::lower::graph::phase_order;
use crate::lower::graph::units::Donation;
use crate::lower::graph::{Graph, Node, NodeId, NodeKind};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::BTreeMap;
use tapeloom_ir::{OrderedSet, Problem};

/// Returns one message for each broken invariant of the trees; none if all invariants hold.
fn faults(
    graph: &Graph,
    donation: &Donation,
    body: &[Tree],
    takes_over: &SecondaryMap<NodeId, Option<NodeId>>,
) -> Vec<String> {
    let mut w = Walk {
        graph,
        takes_over,
        clock: 0,
        step: 0,
        loops: Vec::new(),
        steps: SecondaryMap::with_capacity(graph.nodes.len()),
        loads: SecondaryMap::with_capacity(graph.nodes.len()),
        stores: SecondaryMap::with_capacity(graph.nodes.len()),
        effect: None,
        effects: 0,
        faults: Vec::new(),
    };
    for (step, tree) in body.iter().enumerate() {
        w.step = step;
        w.block(std::slice::from_ref(tree));
    }
    w.passes();
    let ordered = |n: &Node| n.kind.region().is_some_and(|r| graph.regions[r].ordered);
    let wanted = graph.nodes.values().filter(|n| ordered(n)).count();
    if w.effects != wanted {
        w.fault(format!("{} of {wanted} effects happen", w.effects));
    }
    let results: OrderedSet<NodeId> = graph.results.iter().copied().collect();
    let mut taken: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
    for update in graph.nodes.keys() {
        let Some(base) = takes_over[update] else { continue };
        if let Some(other) = taken[base].replace(update) {
            w.fault(format!("{other} and {update} both take over the memory of {base}"));
        }
        let begins =
            graph.base(update).and_then(|(of, slot)| graph.nodes[of].operands[slot].node());
        if begins != Some(base) {
            w.fault(format!("{update} takes over the memory of {base} without updating it"));
        }
        let argument = match graph.nodes[base].kind {
            NodeKind::Input(p) => {
                let end = last_taker(graph, takes_over, update);
                let result = graph.results.iter().position(|r| *r == end);
                !result.is_some_and(|r| donation.allows(p, r))
            }
            _ => false,
        };
        if argument || results.contains(&base) {
            w.fault(format!("{update} takes over {base}, an argument or a result"));
        }
        let Some(begins) = w.stores[update].clone() else { continue };
        for (accesses, verb) in [(&w.loads, "read"), (&w.stores, "written")] {
            let Some(of_base) = &accesses[base] else { continue };
            if of_base.last > begins.first || of_base.shares_loop(&begins) {
                let line = format!("{base} is {verb} after {update} has taken over its memory");
                w.faults.push(line);
                break;
            }
        }
    }
    w.faults
}

/// Starts with the memory of `from` and follows the nodes that take it over, one from the other. Returns the last of
/// these nodes.
fn last_taker(
    graph: &Graph,
    takes_over: &SecondaryMap<NodeId, Option<NodeId>>,
    from: NodeId,
) -> NodeId {
    // Search only the nodes after `from`: a node that takes over memory comes after the previous owner.
    let later = graph.nodes.keys().skip(from.index() + 1);
    later.fold(from, |end, n| if takes_over[n] == Some(end) { n } else { end })
}

/// Checks the invariants of the loop trees. The error names the first invariants that are broken.
///
/// # Errors
/// [`tapeloom_ir::Kind::Internal`] if an invariant is broken.
pub(crate) fn check(
    graph: &Graph,
    donation: &Donation,
    body: &[Tree],
    takes_over: &SecondaryMap<NodeId, Option<NodeId>>,
) -> Result<(), Problem> {
    let faults = faults(graph, donation, body, takes_over);
    if faults.is_empty() {
        return Ok(());
    }
    let shown: Vec<&str> = faults.iter().take(5).map(String::as_str).collect();
    let n = faults.len();
    Err(Problem::internal(format!(
        "the trees of `lower::emission` break {n} invariants: {}",
        shown.join("; ")
    )))
}

/// The first and the last access to a node. The time of an access is the number of loads and stores before it.
#[derive(Clone, Debug)]
struct Accesses {
    first: usize,
    last: usize,
    /// The outermost loops of the trees in which the node is accessed.
    loops: Vec<IndexId>,
}

impl Accesses {
    fn shares_loop(&self, other: &Accesses) -> bool {
        self.loops.iter().any(|l| other.loops.contains(l))
    }
}

struct Walk<'a> {
    graph: &'a Graph,
    takes_over: &'a SecondaryMap<NodeId, Option<NodeId>>,
    clock: usize,
    step: usize,
    loops: Vec<IndexId>,
    /// For each node, the number of the first step (top-level statement) that stores to it.
    steps: SecondaryMap<NodeId, Option<usize>>,
    loads: SecondaryMap<NodeId, Option<Accesses>>,
    stores: SecondaryMap<NodeId, Option<Accesses>>,
    /// The last region visited so far that has an ordered effect (a region is a call, branch, loop or external
    /// function).
    effect: Option<NodeId>,
    /// The number of regions (calls, branches, loops, external functions) with ordered effects so far.
    effects: usize,
    faults: Vec<String>,
}

impl Walk<'_> {
    fn fault(&mut self, message: String) {
        self.faults.push(message);
    }

    fn block(&mut self, body: &[Tree]) {
        for tree in body {
            match tree {
                Tree::Nest(body) => self.block(body),
                Tree::Contract(p) => {
                    self.load(p.lhs.node);
                    self.load(p.rhs.node);
                    self.store(p.out.node);
                }
                Tree::Region(r) => {
                    r.operands.iter().for_each(|p| self.load(p.node));
                    r.results.iter().for_each(|n| self.store(*n));
                    if self.graph.regions[r.region].ordered {
                        if let Some(before) = self.effect.replace(r.first)
                            && before >= r.first
                        {
                            self.fault(format!("{before} has its effect before {}", r.first));
                        }
                        self.effects += 1;
                    }
                }
                Tree::For { index, extent, body } => {
                    if *extent == 0 {
                        self.fault(format!("the loop over {index} is empty"));
                    }
                    self.loops.push(*index);
                    self.block(body);
                    self.loops.pop();
                }
                Tree::Let { expr: Def::Load { node, .. }, .. } => self.load(*node),
                Tree::Store { node, .. } => self.store(*node),
                Tree::Let { expr: Def::Code(..), .. }
                | Tree::Var { .. }
                | Tree::Set { .. }
                | Tree::Fold { .. } => {}
            }
        }
    }

    fn load(&mut self, node: NodeId) {
        match self.graph.nodes[node].kind {
            NodeKind::Input(_) => {}
            // A node without elements is never written, so a load of it needs no store before.
            _ if self.graph.nodes[node].ty.shape.elements() == 0 => {}
            _ if self.stores[node].is_some() => {}
            // An update in place has the elements of its base, so a load of it needs no store before.
            _ if self.takes_over[node].is_some() => {}
            _ => self.fault(format!("{node} is read before anything is written to it")),
        }
        self.clock += 1;
        merge_access(&mut self.loads[node], self.clock, &self.loops);
    }

    fn store(&mut self, node: NodeId) {
        if matches!(self.graph.nodes[node].kind, NodeKind::Input(_)) {
            self.fault(format!("{node}, an argument, is written"));
        }
        self.clock += 1;
        self.steps[node].get_or_insert(self.step);
        merge_access(&mut self.stores[node], self.clock, &self.loops);
    }

    /// Checks the order of passes. Updates are exempt: they may run later, after all readers of their base (the array
    /// that they overwrite).
    fn passes(&mut self) {
        let required_passes = phase_order::required_passes(self.graph);
        let mut last: BTreeMap<u8, (usize, NodeId)> = BTreeMap::new();
        for (id, node) in self.graph.nodes.iter() {
            let Some(step) = self.steps[id].filter(|_| !node.kind.is_update()) else { continue };
            let own = required_passes[id];
            let others = last.iter().filter(|(pass, (end, _))| **pass != own && *end >= step);
            if let Some((_, (_, before))) = others.clone().next().filter(|_| own > 0) {
                let (what, other) = (node.name, self.graph.nodes[*before].name);
                self.faults.push(format!(
                    "{id} ({what}) does not wait for the end of the pass of {before} ({other})"
                ));
            }
            let end = last.entry(own).or_insert((step, id));
            *end = (*end).max((step, id));
        }
    }
}

fn merge_access(accesses: &mut Option<Accesses>, now: usize, loops: &[IndexId]) {
    let first = Accesses { first: now, last: now, loops: Vec::new() };
    let known = accesses.get_or_insert(first);
    known.last = now;
    if let Some(outermost) = loops.first()
        && known.loops.last() != Some(outermost)
    {
        known.loops.push(*outermost);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::loop_ir::{Arg, KernelId, ScalarId};
    use crate::lower::build::build;
    use crate::lower::graph::region_node::{Region, RegionKind};
    use crate::lower::graph::units::{Calls, Unit};
    use crate::lower::trees::affine::Affine;
    use crate::lower::trees::loop_tree::{At, NodeMatrix, Product, RegionStep, Span};
    use cranelift_entity::PrimaryMap;
    use tapeloom_ir::{Dtype, Literal, parse_module};

    /// Returns a graph with two updates, `u` and `v`, of one array `e`. Only one of the two may take over the memory of
    /// `e`; the other one must copy `e` before.
    fn graph() -> Graph {
        let text = "
func @f(%0: f64[100], %1: i64[]) -> (f64[100], f64[100]) {
  %2: f64[100] = exp %0
  %3: f64[1] = broadcast{shape=[1], dims=[]} 1.0
  %4: f64[100] = dynamic_update_slice %2, %3, %1
  %5: f64[100] = dynamic_update_slice %2, %3, %1
  return %4, %5
}";
        let module = parse_module(text).unwrap();
        let unit = Unit { function: module.iter().last().unwrap().0, donation: Donation::None };
        build(&module, &Calls::default(), &PrimaryMap::new(), &unit).unwrap()
    }

    fn named(graph: &Graph, name: &str) -> Vec<NodeId> {
        graph.nodes.iter().filter(|(_, n)| n.name == name).map(|(id, _)| id).collect()
    }

    /// Builds trees from text: `<e` loads an element of node `e`, and `>e` stores one. The nodes are the argument `x`,
    /// the exponential `e`, and the updates `u` and `v`. `(..)` is a loop, and `[..]` a loop without iterations.
    fn trees(graph: &Graph, text: &str) -> Vec<Tree> {
        let (e, x) = (named(graph, "exp")[0], named(graph, "input")[0]);
        let updates = named(graph, "dynamic_update_slice");
        let node = |c| match c {
            'e' => e,
            'x' => x,
            'u' => updates[0],
            _ => updates[1],
        };
        let mut blocks = vec![Vec::new()];
        let mut loops = 0;
        let mut characters = text.chars().filter(|c| *c != ' ');
        while let Some(c) = characters.next() {
            let at = || At::Flat(Affine::default());
            match c {
                '(' | '[' => blocks.push(Vec::new()),
                ')' | ']' => {
                    loops += 1;
                    let body = blocks.pop().unwrap();
                    let extent = if c == ')' { 100 } else { 0 };
                    let index = IndexId::new(loops);
                    blocks.last_mut().unwrap().push(Tree::For { index, extent, body });
                }
                '<' => {
                    let node = node(characters.next().unwrap());
                    let expr = Def::Load { node, at: at(), guard: None };
                    let value = ScalarId::new(0);
                    blocks.last_mut().unwrap().push(Tree::Let { value, expr });
                }
                _ => {
                    let node = node(characters.next().unwrap());
                    let value = Arg::Literal(Literal::f64(1.0));
                    let store = Tree::Store { node, at: at(), value, guard: None };
                    blocks.last_mut().unwrap().push(store);
                }
            }
        }
        vec![Tree::Nest(blocks.pop().unwrap())]
    }

    fn found(text: &str, takes_over: &[(char, char)]) -> Vec<String> {
        let graph = graph();
        let (e, x) = (named(&graph, "exp")[0], named(&graph, "input")[0]);
        let updates = named(&graph, "dynamic_update_slice");
        let mut taken = SecondaryMap::new();
        for (update, base) in takes_over {
            let update = if *update == 'u' { updates[0] } else { updates[1] };
            taken[update] = Some(match base {
                'e' => e,
                'x' => x,
                _ => updates[0],
            });
        }
        faults(&graph, &Donation::None, &trees(&graph, text), &taken)
    }

    #[test]
    fn sound_trees_have_no_faults() {
        // The verifier must accept these trees. In the first, `v` copies `e`, and then `u` takes over the memory of
        // `e`, which has no later reader. In the second, both updates copy `e`.
        assert_eq!(found("(<x >e) (<e >v) >v >u <v <u", &[('u', 'e')]), [""; 0]);
        assert_eq!(found("(<x >e) (<e >v) (<e >u) >u >v", &[]), [""; 0]);
    }

    #[test]
    fn faults_are_found() {
        for (text, takes_over, want) in [
            ("(<x >e) >u (<e >v) >v", &[('u', 'e')][..], "is read after"),
            ("(<x >e) (<e >v) >u (>e)", &[('u', 'e')], "is written after"),
            ("(<x >e) (<e >u)", &[('u', 'e')], "is read after"),
            ("(<x >e) ((<e) (>u))", &[('u', 'e')], "is read after"),
            ("(<x >e) >u >v", &[('u', 'e'), ('v', 'e')], "both take over"),
            ("(<x >e) >u", &[('u', 'x')], "takes over the memory of"),
            ("(<x >e) >u >v", &[('u', 'e'), ('v', 'u')], "without updating it"),
            ("(<x >e) >u >v", &[('u', 'e'), ('v', 'u')], "an argument or a result"),
            ("(<e) (<x >e)", &[], "is read before anything is written"),
            ("(<x >x)", &[], "an argument, is written"),
            ("[<x >e]", &[], "is empty"),
        ] {
            let faults = found(text, takes_over);
            assert!(faults.iter().any(|f| f.contains(want)), "{text}: {faults:?}");
        }
    }

    #[test]
    fn passes_are_told_apart() {
        let takes_over = SecondaryMap::new();
        let mut graph = graph();
        let v = named(&graph, "dynamic_update_slice")[1];
        graph.nodes[v].kind = NodeKind::Map(tapeloom_ir::Code::Add);
        graph.nodes[v].required_passes = 1;
        let apart = [trees(&graph, "(<x >e) (<e >u)"), trees(&graph, "(<e >v)")].concat();
        assert_eq!(faults(&graph, &Donation::None, &apart, &takes_over), [""; 0]);
        let together = trees(&graph, "(<x >e) (<e >u) (<e >v)");
        let found = faults(&graph, &Donation::None, &together, &takes_over);
        assert!(found.iter().any(|f| f.contains("does not wait for the end")), "{found:?}");
    }

    #[test]
    fn calls_read_and_write() {
        let mut graph = graph();
        let (e, x) = (named(&graph, "exp")[0], named(&graph, "input")[0]);
        let at = |node| NodeMatrix { node, offset: 0, row: 1, column: 1 };
        let call = |lhs, out| {
            let (lhs, rhs, out) = (at(lhs), at(x), at(out));
            Tree::Contract(Product {
                dtype: Dtype::F64,
                m: 1,
                n: 1,
                k: 1,
                lhs,
                rhs,
                out,
                batch: vec![],
            })
        };
        let callee = KernelId::new(0);
        let kind = RegionKind::Call(callee);
        let region = graph.regions.push(Region::new(kind, 1));
        let called = |operand, result| {
            let operands = vec![Span { node: operand, offset: 0, elements: 1 }];
            Tree::Region(RegionStep { first: result, region, operands, results: vec![result] })
        };
        assert_eq!(faults(&graph, &Donation::None, &[called(x, e)], &SecondaryMap::new()), [""; 0]);
        assert_eq!(faults(&graph, &Donation::None, &[called(e, e)], &SecondaryMap::new()).len(), 1);
        assert_eq!(faults(&graph, &Donation::None, &[called(x, x)], &SecondaryMap::new()).len(), 1);
        assert_eq!(faults(&graph, &Donation::None, &[call(x, e)], &SecondaryMap::new()), [""; 0]);
        assert_eq!(faults(&graph, &Donation::None, &[call(e, e)], &SecondaryMap::new()).len(), 1);
        assert_eq!(faults(&graph, &Donation::None, &[call(x, x)], &SecondaryMap::new()).len(), 1);
    }
}
