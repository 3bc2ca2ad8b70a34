//! The state of loop fusion (`fusion`): loop trees under construction. The other files of this folder, and files of
//! `fusion`, add methods to this type.

use crate::loop_ir::{Arg, IndexId, ScalarId, VarId};
use crate::lower::candidates::iteration_domain::FusionCandidate;
use crate::lower::graph::{Graph, NodeId};
use crate::lower::trees::affine::{Affine, Index};
use crate::lower::trees::loop_tree::{Product, Tree};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::prim::Sign;
use tapeloom_ir::{Dtype, OrderedMap};

/// The state of fusion: loop trees under construction, and the fusion candidates from which they are built.
pub(crate) struct FusionState<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) candidates: Vec<FusionCandidate>,
    /// For each fusion candidate, its index along each axis whose loop has been opened and not yet closed, outermost
    /// first.
    pub(crate) bound: Vec<Index>,
    pub(crate) accumulators: Vec<Option<Accumulator>>,
    pub(crate) last_reader: SecondaryMap<NodeId, usize>,
    /// For each node, the number of forward and reverse passes that must end before it runs.
    pub(crate) required_passes: SecondaryMap<NodeId, u8>,
    /// For the node of each argument, whether a result takes over the argument's memory.
    pub(crate) donated: SecondaryMap<NodeId, bool>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    pub(crate) vars: PrimaryMap<VarId, Dtype>,
    pub(crate) var_levels: SecondaryMap<VarId, usize>,
    pub(crate) var_nodes: SecondaryMap<VarId, Option<NodeId>>,
    /// The extent of every loop index, and the level of its loop's body (the outermost block has level 0).
    pub(crate) indices: PrimaryMap<IndexId, (usize, usize)>,
    pub(crate) blocks: Vec<Block>,
    /// The clamped starts of dynamic slices and updates that the current top-level statement has computed, by (node,
    /// operand number).
    pub(crate) starts: OrderedMap<(NodeId, usize), Affine>,
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// Whether an update has taken over the node's memory, so that the node can no longer be read.
    pub(crate) overwritten: SecondaryMap<NodeId, bool>,
    pub(crate) takes_over: SecondaryMap<NodeId, Option<NodeId>>,
    pub(crate) is_result: SecondaryMap<NodeId, bool>,
    /// The result nodes of each region, keyed by the node of the region's first result.
    pub(crate) regions: BTreeMap<NodeId, Vec<NodeId>>,
    /// For each contraction that the matrix library computes, the call of the library.
    pub(crate) libraries: SecondaryMap<NodeId, Option<Product>>,
    pub(crate) placed: SecondaryMap<NodeId, Placed>,
    pub(crate) blocks_placed: u32,
    pub(crate) body: Vec<Tree>,
    /// The node whose elements are being emitted: the origin of new scalars and variables.
    pub(crate) computing: Option<NodeId>,
}

/// The item (a loop, or straight-line code) into which fusion put a node. If a node is written in several parts, this
/// is the item of the part that was placed last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placed {
    /// The number of the block that contains the item. Blocks are counted in the order in which their fusion candidates
    /// are distributed.
    pub(crate) block: u32,
    pub(crate) item: usize,
    /// The number of the node's fusion candidate.
    pub(crate) candidate: usize,
    /// Whether the node is written in several parts: the fill of a view, then the elements from each operand.
    pub(crate) parts: bool,
}

/// The facts that are known about a scalar of the loop trees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarInfo {
    pub(crate) dtype: Dtype,
    /// The level of the block in which the scalar is defined; 0 is the outermost.
    pub(crate) level: usize,
    /// The range of an i64 scalar, if known.
    pub(crate) range: Option<Interval>,
    /// The sign of the scalar, as far as it is known.
    pub(crate) sign: Sign,
    /// The node for which the scalar was computed first.
    pub(crate) node: Option<NodeId>,
}

/// The key of an element that is already in a scalar: node, index and guard.
pub(crate) type Key = (NodeId, Index, Option<ScalarId>);

/// An index of a node's element; an axis with `None` stands for any index along the axis.
pub(crate) type Pattern = SmallVec<[Option<Affine>; 4]>;

/// A block under construction: the whole program, or the body of a loop.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) code: Vec<Tree>,
    /// The trip count, if the block is the body of a loop.
    pub(crate) extent: Option<usize>,
    pub(crate) memo: OrderedMap<Key, Arg>,
    /// Per node, an element that has the same value for all indices along the axes that are `None` in the pattern.
    pub(crate) uniform: OrderedMap<NodeId, (Pattern, Arg)>,
    /// Run-time indices that have been clamped to `0..=room`, by (scalar before clamping, room).
    pub(crate) clamped: OrderedMap<(ScalarId, i64), Affine>,
    /// Per dividend (an index) and constant divisor: the quotient and the remainder already computed.
    pub(crate) divided: OrderedMap<(Affine, i64), (Affine, Affine)>,
}

/// The variables or the memory in which a fold accumulates its terms.
pub(crate) enum Accumulator {
    /// For each unrolled output, a variable. Argmax and argmin have a second variable for the position of the extremum.
    Vars(Vec<(VarId, Option<VarId>)>),
    /// The memory of the node that the reduction computes.
    Memory,
}
