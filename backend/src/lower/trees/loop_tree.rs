//! Loop trees: the program under construction, like [`crate::loop_ir`], but in terms of graph nodes instead
//! of buffers.
//!
//! Whether a node needs memory is known only after all its readers have been emitted, and the address of the memory
//! only after that. So stores and loads name a node and the index of the element. Every definition emits a store;
//! stores of nodes that are never loaded are removed at the end.

use super::affine::{Affine, Index};
use crate::loop_ir::{Arg, IndexId, ScalarId, VarId};
use crate::lower::graph::NodeId;
use crate::lower::graph::region_node::RegionId;
use smallvec::SmallVec;
use tapeloom_ir::{Code, Dtype};

/// The index of an element in the array of a node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum At {
    /// One index for each axis.
    Axes(Index),
    /// The row-major index, counted in elements.
    Flat(Affine),
}

/// The definition of a scalar.
#[derive(Clone, Debug)]
pub(crate) enum Def {
    /// A scalar code (such as an addition) applied to its operands.
    Code(Code, SmallVec<[Arg; 3]>),
    /// A load of an element of a node; zero if the guard is false.
    Load { node: NodeId, at: At, guard: Option<Arg> },
}

/// A statement of a loop tree.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A block with a scope of its own, which is no loop and runs once.
    Nest(Vec<Tree>),
    For {
        index: IndexId,
        extent: usize,
        body: Vec<Tree>,
    },
    Let {
        value: ScalarId,
        expr: Def,
    },
    Var {
        var: VarId,
        init: Arg,
    },
    Set {
        var: VarId,
        value: Arg,
    },
    Fold {
        var: VarId,
        code: Code,
        value: Arg,
    },
    Store {
        node: NodeId,
        at: At,
        value: Arg,
        guard: Option<Arg>,
    },
    /// A call of the matrix library that computes a contraction.
    Contract(Product),
    /// A region: a call, a branch, a loop or an external function.
    Region(RegionStep),
}

/// A matrix operand of a library contraction: a node, the offset of the first element, and the strides from
/// row to row and from column to column, all in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeMatrix {
    pub(crate) node: NodeId,
    pub(crate) offset: i64,
    pub(crate) row: i64,
    pub(crate) column: i64,
}

/// A call of the matrix library: `out[m, n] = Σ_k lhs[m, k] rhs[k, n]`, repeated over the axes of `batch`.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) dtype: Dtype,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) lhs: NodeMatrix,
    pub(crate) rhs: NodeMatrix,
    pub(crate) out: NodeMatrix,
    /// The axes around the product, each with its extent and the strides in lhs, rhs and out, as in a
    /// [`Contract`](crate::loop_ir::Contract).
    pub(crate) batch: Vec<(usize, i64, i64, i64)>,
}

/// Consecutive elements of a node's array in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) node: NodeId,
    /// The row-major index of the first element.
    pub(crate) offset: i64,
    pub(crate) elements: usize,
}

/// A region (call, branch or loop) as a top-level statement (step), with the memory that it reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct RegionStep {
    /// The node of the first result, which identifies the region even if it has no results.
    pub(crate) first: NodeId,
    pub(crate) region: RegionId,
    pub(crate) operands: Vec<Span>,
    pub(crate) results: Vec<NodeId>,
}

impl RegionStep {
    /// Returns first the nodes that the region reads (its operands), then the nodes that it writes (its results).
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.operands.iter().map(|p| p.node).chain(self.results.iter().copied())
    }
}
