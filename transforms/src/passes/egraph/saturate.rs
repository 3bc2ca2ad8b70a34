//! Saturation: applies rules to an e-graph until nothing new is found, or a limit is reached.
//!
//! There are two stages. Rules that never enlarge a term are applied at every match until none adds anything:
//! they reach a fixed point quickly, and holding some of them back (as backoff scheduling does on graphs with
//! many matches) makes programs measurably worse. Rules that factor or expand can feed each other without end,
//! so they run for a few iterations with a bound on matches per rule; a rule that exceeds the bound skips the
//! next iteration, and its bound is doubled.
//!
//! All limits are numbers of nodes, matches and iterations, never seconds, and classes are visited in the order
//! of their ids, so the result does not depend on the load of the machine. The node limit is checked at every
//! match: when it was checked only between rules, one iteration of a factoring rule exceeded a limit of 30,000
//! nodes by five million.

use super::graph::{ENode, Graph};
use super::rules::{Found, Root, Rule, Rules};
use egg::Id;
use std::collections::BTreeMap;
use tapeloom_ir::{Op, Type};

/// The largest number of iterations of the first stage, with shrinking rules. Programs seen so far need four to
/// six.
const SHRINKING: usize = 12;

/// The largest number of iterations of the second stage, with rules that factor or expand, too.
const FACTORING: usize = 4;

/// The statistics of one e-graph's saturation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Saturation {
    /// The number of saturation's iterations in both stages (first with shrinking rules, then with all rules).
    pub(crate) iterations: usize,
    /// For each rule, by name: the number of times that it merged two different classes.
    pub(crate) fired: BTreeMap<&'static str, usize>,
    /// Whether saturation stopped because the e-graph reached the node limit.
    pub(crate) full: bool,
}

/// Applies the rules that `usable` accepts, until nothing changes or the e-graph has `limit` nodes.
pub(crate) fn saturate(
    graph: &mut Graph<'_>,
    usable: impl Fn(&Rule) -> bool,
    limit: usize,
) -> Saturation {
    let mut s = Saturation::default();
    let matches = graph.egraph.total_size().max(64);
    let shrinking = |r: &Rule| usable(r) && r.shrinks;
    iteration(graph, &shrinking, SHRINKING, usize::MAX, limit, &mut s);
    if Rules::get().all.iter().any(|r| usable(r) && !r.shrinks) {
        iteration(graph, &usable, FACTORING, matches, limit, &mut s);
        // Apply shrinking rules to the terms that factoring added.
        iteration(graph, &shrinking, SHRINKING, usize::MAX, limit, &mut s);
    }
    s
}

/// Applies rules to the e-graph, at most `iterations` times. Stops when nothing changes or when the e-graph has `limit`
/// nodes. A rule with more than `matches` matches skips an iteration.
fn iteration(
    graph: &mut Graph<'_>,
    usable: &dyn Fn(&Rule) -> bool,
    iterations: usize,
    matches: usize,
    limit: usize,
    s: &mut Saturation,
) {
    let rules = Rules::get();
    let mut allowance = vec![matches; rules.all.len()];
    let mut resting = vec![false; rules.all.len()];
    for _ in 0..iterations {
        graph.egraph.rebuild();
        let (found, count) = search(graph, usable);
        s.iterations += 1;
        // A rule with more matches than its allowance skips this and the next iteration, and its allowance is
        // doubled.
        let mut banned = vec![false; rules.all.len()];
        for (rule, n) in count.iter().enumerate() {
            if resting[rule] {
                (resting[rule], banned[rule]) = (false, true);
            } else if *n > allowance[rule] {
                (resting[rule], banned[rule]) = (true, true);
                allowance[rule] = allowance[rule].saturating_mul(2);
            }
        }
        let mut changed = literals(graph);
        for (class, ty, f) in &found {
            if banned[f.rule] {
                continue;
            }
            if graph.egraph.total_size() > limit {
                s.full = true;
                graph.egraph.rebuild();
                return;
            }
            if let Some(built) = rules.build(graph, f, ty)
                && graph.egraph.union(*class, built)
            {
                *s.fired.entry(rules.all[f.rule].row.name).or_default() += 1;
                changed = true;
            }
        }
        graph.egraph.rebuild();
        if !changed && !resting.contains(&true) {
            return;
        }
    }
}

/// A match: the class of its root, the type of that class, and the matched rule with its bindings.
type Match = (Id, Type, Found<Id>);

/// Returns the matches of all usable rules, in the order of class ids, and the number of matches per rule.
fn search(graph: &Graph<'_>, usable: &dyn Fn(&Rule) -> bool) -> (Vec<Match>, Vec<usize>) {
    let rules = Rules::get();
    let mut found = Vec::new();
    let mut count = vec![0; rules.all.len()];
    for class in sorted(graph) {
        let data = &graph.egraph[class].data;
        let Some(ty) = data.ty() else { continue };
        // Skip classes with a constant value: they cannot be simplified further.
        if data.uniform.is_some() {
            continue;
        }
        for node in &graph.egraph[class].nodes {
            let ENode::Apply(op, operands) = node else { continue };
            let root = Root { op, operands, ty };
            rules.search(graph, root, usable, &mut |f| {
                count[f.rule] += 1;
                found.push((class, ty.clone(), f));
                false
            });
        }
    }
    (found, count)
}

/// Adds, for each node with operands that have become arrays of one constant, a node with literals in place of these
/// arrays. Returns whether the e-graph changed.
fn literals(graph: &mut Graph<'_>) -> bool {
    let mut work: Vec<(Id, Op, Vec<Id>)> = Vec::new();
    for class in sorted(graph) {
        if graph.egraph[class].data.ty().is_none() {
            continue;
        }
        for node in &graph.egraph[class].nodes {
            if let ENode::Apply(op, operands) = node
                && operands.len() > 1
                && operands.iter().any(|x| {
                    let data = &graph.egraph[*x].data;
                    data.uniform.is_some() && data.literal().is_none()
                })
            {
                work.push((class, op.clone(), operands.to_vec()));
            }
        }
    }
    let mut changed = false;
    for (class, op, operands) in work {
        let canonical = graph.canonical(&op, &operands);
        if canonical.as_slice() != operands.as_slice() {
            let types = graph.egraph[class].data.types.clone();
            let id = graph.insert(&op, &canonical, &types);
            changed |= graph.egraph.union(class, id);
        }
    }
    changed
}

/// Returns the ids of all classes in ascending order.
pub(crate) fn sorted(graph: &Graph<'_>) -> Vec<Id> {
    let mut ids: Vec<Id> = graph.egraph.classes().map(|c| c.id).collect();
    ids.sort_unstable();
    ids
}
