//! The program while it is being made: like [`crate::kernel`], but in terms of nodes.
//!
//! Whether a node needs memory is known only when all its readers have been emitted, and where that
//! memory lies only after that. So stores and loads name a node and the index of its element; every
//! definition leaves a store, and those of nodes that nobody loads are dropped in the end.

use super::affine::{Affine, Index};
use super::graph::NodeId;
use crate::kernel::{Arg, IndexId, KernelId, ScalarId, VarId};
use smallvec::SmallVec;
use tapeloom_ir::{Code, Dtype};

/// Which element of a node.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum At {
    /// One index per axis.
    Axes(Index),
    /// Its row-major position.
    Flat(Affine),
}

/// What a scalar is defined as.
#[derive(Clone, Debug)]
pub(crate) enum Def {
    /// Scalar code.
    Code(Code, SmallVec<[Arg; 3]>),
    /// An element of a node; zero where the guard is false.
    Load { node: NodeId, at: At, guard: Option<Arg> },
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A block of its own.
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
    /// A contraction by the library.
    Contract(Product),
    /// A function that is compiled once.
    Call(NodeCall),
}

/// A matrix that the library meets: a node, the first element and the strides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeMatrix {
    pub(crate) node: NodeId,
    pub(crate) offset: i64,
    pub(crate) row: i64,
    pub(crate) column: i64,
}

/// `out[m, n] = Σ_k lhs[m, k] rhs[k, n]`, repeated over batches: extent, and steps in the three.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) dtype: Dtype,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) lhs: NodeMatrix,
    pub(crate) rhs: NodeMatrix,
    pub(crate) out: NodeMatrix,
    pub(crate) batch: Vec<(usize, i64, i64, i64)>,
}

/// A call of a function that is compiled once.
#[derive(Clone, Debug)]
pub(crate) struct NodeCall {
    pub(crate) callee: KernelId,
    /// Nodes, and the first element read of each.
    pub(crate) operands: Vec<(NodeId, i64)>,
    /// How many elements are read of each.
    pub(crate) elements: Vec<usize>,
    pub(crate) results: Vec<NodeId>,
}
