//! The text form of loop trees, the stage between functions and the loop IR.
//!
//! ```text
//! trees @f {
//!   n0: f64[40,100] = input 0, memory
//!   n1: f64[40,100] = exp n0
//!   n2: f64[40] = reduce_sum n1, result 0, memory
//!   nest {
//!     for i0 in 40 {
//!       var v0: f64 = 0.0
//!       for i1 in 100 {
//!         %0: f64 = load n0[i0, i1]
//!         %1: f64 = exp %0
//!         store n1[i0, i1], %1
//!         fold v0 = add v0, %1
//!       }
//!       store n2[i0], v0
//!     }
//!   }
//! }
//! ```
//!
//! The line of a node has, after `=`, the name of its primitive and the nodes that it reads. If the node is a result of
//! the function, the number of this result follows. The word `memory` marks a node that is loaded; stores to other
//! nodes are removed afterwards. If the node takes over the memory of another node, such as `n1`, the line ends with
//! `over n1`. Only text tests and people read this form, so there is no parser.

use super::FusedTrees;
use crate::loop_ir::Arg;
use crate::loop_ir::text::print::list;
use crate::lower::graph::region_node::{Region, RegionKind};
use crate::lower::graph::{Graph, NodeId, NodeKind, Source};
use crate::lower::trees::affine::Term;
use crate::lower::trees::loop_tree::{At, Def, NodeMatrix, Product, RegionStep, Span, Tree};
use std::fmt::{self, Display, Formatter};

/// The trees of one function, for display.
pub(crate) struct Trees<'a> {
    pub(crate) name: &'a str,
    pub(crate) graph: &'a Graph,
    pub(crate) emitted: &'a FusedTrees,
}

impl Display for Trees<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "trees @{} {{", self.name)?;
        for id in self.graph.nodes.keys() {
            self.node(f, id)?;
        }
        self.block(f, &self.emitted.body, 1)?;
        writeln!(f, "}}")
    }
}

impl Trees<'_> {
    fn node(&self, f: &mut Formatter<'_>, id: NodeId) -> fmt::Result {
        let node = &self.graph.nodes[id];
        write!(f, "  {id}: {} = ", node.ty)?;
        match node.kind {
            NodeKind::Input(p) => write!(f, "input {p}")?,
            NodeKind::Result { of, n } => write!(f, "{} result {n} of {of}", node.name)?,
            _ if node.name.is_empty() => f.write_str("?")?,
            _ => f.write_str(node.name)?,
        }
        let operand = |s: &Source| match s {
            Source::Node(n) => n.to_string(),
            Source::Literal(l) => l.to_string(),
        };
        let operands: Vec<String> = node.operands.iter().map(operand).collect();
        if !operands.is_empty() {
            write!(f, " {}", operands.join(", "))?;
        }
        for (n, _) in self.graph.results.iter().enumerate().filter(|(_, r)| **r == id) {
            write!(f, ", result {n}")?;
        }
        if self.emitted.needs[id] {
            f.write_str(", memory")?;
        }
        if let Some(base) = self.emitted.takes_over[id] {
            write!(f, ", over {base}")?;
        }
        writeln!(f)
    }

    fn block(&self, f: &mut Formatter<'_>, block: &[Tree], depth: usize) -> fmt::Result {
        for tree in block {
            write!(f, "{:1$}", "", 2 * depth)?;
            self.tree(f, tree, depth)?;
        }
        Ok(())
    }

    fn inside(&self, f: &mut Formatter<'_>, block: &[Tree], depth: usize) -> fmt::Result {
        f.write_str(" {\n")?;
        self.block(f, block, depth + 1)?;
        writeln!(f, "{:1$}}}", "", 2 * depth)
    }

    fn tree(&self, f: &mut Formatter<'_>, tree: &Tree, depth: usize) -> fmt::Result {
        match tree {
            Tree::Nest(body) => {
                f.write_str("nest")?;
                self.inside(f, body, depth)
            }
            Tree::For { index, extent, body } => {
                write!(f, "for {index} in {extent}")?;
                self.inside(f, body, depth)
            }
            Tree::Let { value, expr } => {
                let dtype = self.emitted.scalars[*value].dtype;
                match expr {
                    Def::Code(code, args) => {
                        writeln!(f, "{value}: {dtype} = {code} {}", list(args))
                    }
                    Def::Load { node, at, guard } => {
                        writeln!(f, "{value}: {dtype} = load {node}[{at}]{}", Guard(guard))
                    }
                }
            }
            Tree::Var { var, init } => {
                writeln!(f, "var {var}: {} = {init}", self.emitted.vars[*var])
            }
            Tree::Set { var, value } => writeln!(f, "set {var} = {value}"),
            Tree::Fold { var, code, value } => {
                writeln!(f, "fold {var} = {code} {var}, {value}")
            }
            Tree::Store { node, at, value, guard } => {
                writeln!(f, "store {node}[{at}], {value}{}", Guard(guard))
            }
            Tree::Contract(product) => writeln!(f, "{product}"),
            Tree::Region(step) => self.region(f, step),
        }
    }

    fn region(&self, f: &mut Formatter<'_>, step: &RegionStep) -> fmt::Result {
        let region = &self.graph.regions[step.region];
        write!(f, "{} {}", step.region, region)?;
        let results = list(&step.results);
        writeln!(f, " ({}) -> ({results})", list(&step.operands))
    }
}

impl Display for Region {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            RegionKind::Call(k) => write!(f, "call {k}"),
            RegionKind::Routine(k) => write!(f, "routine {k}"),
            RegionKind::Branch(all) => write!(f, "branch [{}]", list(all)),
            RegionKind::Loop { body, condition: None, .. } => write!(f, "loop {body}"),
            RegionKind::Loop { body, condition: Some(c), .. } => write!(f, "loop {body} while {c}"),
            RegionKind::CallExternal(s) => write!(f, "call_external {}", s.name()),
        }
    }
}

struct Guard<'a>(&'a Option<Arg>);

impl Display for Guard<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|guard| write!(f, " if {guard}"))
    }
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            At::Axes(index) => f.write_str(&list(index)),
            At::Flat(position) => write!(f, "flat {position}"),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Index(i) => write!(f, "{i}"),
            Term::Scalar(s) => write!(f, "{s}"),
        }
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Span { node, offset, elements } = self;
        write!(f, "{node}[{offset}; {elements}]")
    }
}

impl Display for NodeMatrix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let NodeMatrix { node, offset, row, column } = self;
        write!(f, "{node}[{offset}; rows {row}, columns {column}]")
    }
}

impl Display for Product {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Product { dtype, m, n, k, lhs, rhs, out, batch } = self;
        write!(f, "contract {dtype} {m}x{k}x{n} {lhs}, {rhs} -> {out}")?;
        batch.iter().try_for_each(|(extent, a, b, c)| write!(f, " batch {extent} ({a}, {b}, {c})"))
    }
}
