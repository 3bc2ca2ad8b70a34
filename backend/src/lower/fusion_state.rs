//! What is known while trees are made. `emit` says what happens; other files add what it needs.

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

/// Trees under construction, and the members that they are made of.
pub(crate) struct FusionState<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) members: Vec<FusionCandidate>,
    /// The indices along a member's axes, as far as its loops are open.
    pub(crate) bound: Vec<Index>,
    pub(crate) accumulators: Vec<Option<Accumulator>>,
    pub(crate) last_reader: SecondaryMap<NodeId, usize>,
    /// For how many passes a node waits, until they have ended.
    pub(crate) waits: SecondaryMap<NodeId, u8>,
    /// The arguments whose memory results take over.
    pub(crate) given: SecondaryMap<NodeId, bool>,
    pub(crate) scalars: PrimaryMap<ScalarId, ScalarInfo>,
    pub(crate) vars: PrimaryMap<VarId, Dtype>,
    pub(crate) var_levels: SecondaryMap<VarId, usize>,
    /// Extent and level of every loop.
    pub(crate) indices: PrimaryMap<IndexId, (usize, usize)>,
    pub(crate) blocks: Vec<Block>,
    /// Starts of dynamic slices in this step.
    pub(crate) starts: OrderedMap<(NodeId, usize), Affine>,
    pub(crate) needs: SecondaryMap<NodeId, bool>,
    /// Whether an update has taken over the node's memory.
    pub(crate) overwritten: SecondaryMap<NodeId, bool>,
    pub(crate) takes: SecondaryMap<NodeId, Option<NodeId>>,
    pub(crate) is_result: SecondaryMap<NodeId, bool>,
    /// The results of regions, by the first.
    pub(crate) regions: BTreeMap<NodeId, Vec<NodeId>>,
    /// Contractions that the library does.
    pub(crate) libraries: SecondaryMap<NodeId, Option<Product>>,
    pub(crate) placed: SecondaryMap<NodeId, Placed>,
    pub(crate) blocks_placed: u32,
    pub(crate) body: Vec<Tree>,
}

/// Where a node was placed last.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placed {
    /// Which block.
    pub(crate) block: u32,
    pub(crate) item: usize,
    /// The member.
    pub(crate) member: usize,
    /// Whether there are several.
    pub(crate) parts: bool,
}

/// What is known about a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarInfo {
    pub(crate) dtype: Dtype,
    /// The block in which it is defined; 0 is the outermost.
    pub(crate) level: usize,
    /// Bounds of an i64, where known.
    pub(crate) range: Option<Interval>,
    /// What is known of its sign.
    pub(crate) sign: Sign,
}

/// A scalar that is already there: the element of a node, under a guard.
pub(crate) type Key = (NodeId, Index, Option<ScalarId>);

/// An index with axes left open.
pub(crate) type Pattern = SmallVec<[Option<Affine>; 4]>;

/// A block under construction.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) code: Vec<Tree>,
    /// How many iterations there are of it, if it is the body of a loop.
    pub(crate) extent: Option<usize>,
    pub(crate) memo: OrderedMap<Key, Arg>,
    /// Elements that are the same along the axes for which there is no index here.
    pub(crate) uniform: OrderedMap<NodeId, (Pattern, Arg)>,
    /// Run-time indices that have been clamped to `0..=room`.
    pub(crate) clamped: OrderedMap<(ScalarId, i64), Affine>,
    /// Indices that have been divided: quotients and remainders.
    pub(crate) divided: OrderedMap<(Affine, i64), (Affine, Affine)>,
}

/// Where the terms of a fold accumulate.
pub(crate) enum Accumulator {
    /// One variable for each unrolled output (two for the index of an extremum).
    Vars(Vec<(VarId, Option<VarId>)>),
    /// The node's memory.
    Memory,
}
