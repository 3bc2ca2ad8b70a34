//! The report of a simplification, which a list of passes hands to its observer and `explain` prints.

use crate::passes::cost::Cost;
use std::collections::BTreeMap;
use std::fmt;
use tapeloom_ir::FuncId;

/// A simplified function, with a report.
#[derive(Clone, PartialEq, Debug)]
pub struct Simplified {
    /// The id of the cheaper function, or of the original one if none is cheaper.
    pub function: FuncId,
    /// The report, for `explain`.
    pub report: Simplification,
}

/// The report of the simplification of a function, or of all functions of a program: rules applied, costs, and sizes of
/// e-graphs.
///
/// In the sums over a program, each function counts once: a body does not count once for each iteration of its loop.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Simplification {
    /// For each rule, by name: the number of times that it merged two different classes of the e-graph.
    pub rules: BTreeMap<&'static str, usize>,
    /// The cost of the function before simplification.
    pub before: Cost,
    /// The cost of the function after simplification.
    pub after: Cost,
    /// The number of regions (parts with an e-graph each) of the function, and the number of regions that became
    /// cheaper.
    pub regions: (usize, usize),
    /// The number of nodes of all e-graphs together.
    pub nodes: usize,
    /// The number of iterations of equality saturation, summed over all regions (parts with an e-graph each).
    pub iterations: usize,
    /// The number of regions (parts with an e-graph each) whose e-graph reached the node limit, `growth` per equation.
    pub full: usize,
}

impl Simplification {
    /// Adds the numbers of the report on another function.
    pub(crate) fn add(&mut self, other: &Simplification) {
        for (name, count) in &other.rules {
            *self.rules.entry(name).or_default() += count;
        }
        self.before = self.before.plus(other.before);
        self.after = self.after.plus(other.after);
        self.regions = (self.regions.0 + other.regions.0, self.regions.1 + other.regions.1);
        self.nodes += other.nodes;
        self.iterations += other.iterations;
        self.full += other.full;
    }
}

/// Prints the costs, a line on the regions, and a line for each rule with the number of times that it fired.
impl fmt::Display for Simplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cost: {} -> {}", self.before, self.after)?;
        let (all, cheaper) = self.regions;
        writeln!(
            f,
            "{cheaper} of {all} regions cheaper; {} nodes, {} iterations, {} at the limit",
            self.nodes, self.iterations, self.full
        )?;
        for (name, count) in &self.rules {
            writeln!(f, "{count:6} {name}")?;
        }
        Ok(())
    }
}
