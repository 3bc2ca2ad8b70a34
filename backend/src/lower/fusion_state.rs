//! The state of fusion (`fusion`). Other files of this folder add methods to it.

use super::affine::{Affine, Index};
use super::graph::{Graph, NodeId};
use super::iteration_domain::FusionCandidate;
use super::loop_tree::{Product, Tree};
use crate::loop_ir::{Arg, IndexId, ScalarId, VarId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::prim::Sign;
use tapeloom_ir::{Dtype, OrderedMap};

/// Loop trees under construction, and the candidates from which they are built.
pub(crate) struct FusionState<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) candidates: Vec<FusionCandidate>,
    /// For each candidate, the indices of the open loops along its axes.
    pub(crate) bound: Vec<Index>,
    pub(crate) accumulators: Vec<Option<Accumulator>>,
    pub(crate) last_reader: SecondaryMap<NodeId, usize>,
    /// For each node, the number of passes that must end before it runs.
    pub(crate) required_passes: SecondaryMap<NodeId, u8>,
    /// For each argument of the function, whether a result takes over the argument's memory.
    pub(crate) donated: SecondaryMap<NodeId, bool>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    pub(crate) vars: PrimaryMap<VarId, Dtype>,
    pub(crate) var_levels: SecondaryMap<VarId, usize>,
    /// The extent and the block level of every loop index.
    pub(crate) indices: PrimaryMap<IndexId, (usize, usize)>,
    pub(crate) blocks: Vec<Block>,
    /// The starts of dynamic slices that the current step has computed.
    pub(crate) starts: OrderedMap<(NodeId, usize), Affine>,
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// Whether an update has taken over the node's memory.
    pub(crate) overwritten: SecondaryMap<NodeId, bool>,
    pub(crate) takes_over: SecondaryMap<NodeId, Option<NodeId>>,
    pub(crate) is_result: SecondaryMap<NodeId, bool>,
    /// The result nodes of each region, keyed by the node of the region's first result.
    pub(crate) regions: BTreeMap<NodeId, Vec<NodeId>>,
    /// Contractions that the library computes.
    pub(crate) libraries: SecondaryMap<NodeId, Option<Product>>,
    pub(crate) placed: SecondaryMap<NodeId, Placed>,
    pub(crate) blocks_placed: u32,
    pub(crate) body: Vec<Tree>,
}

/// The item into which fusion put a node, or the last part of a node that is written in parts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placed {
    /// The number of the block.
    pub(crate) block: u32,
    pub(crate) item: usize,
    /// The candidate.
    pub(crate) candidate: usize,
    /// Whether the node is written in parts.
    pub(crate) parts: bool,
}

/// The known facts about a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarInfo {
    pub(crate) dtype: Dtype,
    /// The block in which it is defined; 0 is the outermost.
    pub(crate) level: usize,
    /// The range of an i64, if known.
    pub(crate) range: Option<Interval>,
    /// The sign of the scalar, as far as it is known.
    pub(crate) sign: Sign,
}

/// The key of an element that is already in a scalar: node, index and guard.
pub(crate) type Key = (NodeId, Index, Option<ScalarId>);

/// An index in which `None` stands for any index along an axis.
pub(crate) type Pattern = SmallVec<[Option<Affine>; 4]>;

/// A block under construction.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) code: Vec<Tree>,
    /// The trip count, if the block is the body of a loop.
    pub(crate) extent: Option<usize>,
    pub(crate) memo: OrderedMap<Key, Arg>,
    /// Elements that do not depend on the axes whose index is `None` in the pattern.
    pub(crate) uniform: OrderedMap<NodeId, (Pattern, Arg)>,
    /// Run-time indices that have been clamped to `0..=room`.
    pub(crate) clamped: OrderedMap<(ScalarId, i64), Affine>,
    /// Per dividend (an index) and constant divisor: the quotient and the remainder already computed.
    pub(crate) divided: OrderedMap<(Affine, i64), (Affine, Affine)>,
}

/// The place in which the terms of a fold are accumulated.
pub(crate) enum Accumulator {
    /// One variable for each unrolled output (two for the index of an extremum).
    Vars(Vec<(VarId, Option<VarId>)>),
    /// The node's memory.
    Memory,
}
