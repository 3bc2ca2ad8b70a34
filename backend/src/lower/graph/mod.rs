//! The function as a graph of nodes with shapes; `build` creates it.
//!
//! An equation becomes a node with its [`Lowering`](tapeloom_ir::prim::Lowering), the only property of a primitive that
//! lowering uses. There are two sorts of nodes:
//!
//! * *computed* nodes (elementwise, reductions, contractions, updates) are placed in a loop nest and
//!   may have memory;
//! * *movement* nodes (views, reshapes, iota, slices and gathers) are never computed: their readers read the elements
//!   of their operands, by index arithmetic. If that is wasteful (a concatenation of very many
//!   pieces, a long chain of views) or impossible (a result must have memory), a [`NodeKind::Copy`] node is inserted
//!   after the movement node.

mod builtin_kernels;
pub(crate) mod phase_order;
pub(crate) mod region_node;
pub(crate) mod units;
pub(crate) mod zero_sized;

use crate::machine::MachineModel;
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use region_node::{Region, RegionId};
use smallvec::SmallVec;
use std::sync::Arc;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Bounds, Combine, Mark, Piece};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, OrderedMap, OrderedSet, Origin};
use units::Donation;

/// A node of the graph. Displays as `n3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);
entity_impl!(NodeId, "n");

/// An operand of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    /// The array that a node computes.
    Node(NodeId),
    /// A constant.
    Literal(Literal),
}

impl Source {
    pub(crate) fn node(self) -> Option<NodeId> {
        match self {
            Source::Node(n) => Some(n),
            Source::Literal(_) => None,
        }
    }
}

/// The operation of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeKind {
    /// An argument of the function, by its number.
    Input(usize),
    /// Scalar code applied to corresponding elements of the operands.
    Map(Code),
    /// Folds the `axes` of the operand with `code`; see
    /// [`Lowering::Reduce`](tapeloom_ir::prim::Lowering::Reduce).
    Reduce { code: Code, identity: Literal, axes: Vec<usize> },
    /// The position of the maximum or minimum along an axis; see
    /// [`Lowering::ArgReduce`](tapeloom_ir::prim::Lowering::ArgReduce).
    ArgReduce { axis: usize, largest: bool },
    /// A matrix product, generalized to arrays with batch axes; see
    /// [`Lowering::Contract`](tapeloom_ir::prim::Lowering::Contract). Axis i of the node is axis `order[i]` of the
    /// lowering's result.
    Contract { batch: Vec<(usize, usize)>, contract: Vec<(usize, usize)>, order: Vec<usize> },
    /// The array of the first operand, with some of its elements overwritten.
    Update(Update),
    /// Result number `n` of a region. The node of the first result has the region's operands as operands; the nodes of
    /// other results have the first node as their only operand. A region without results has the node of a first result
    /// that nothing reads.
    Result { of: RegionId, n: usize },
    /// A copy of the operand, in memory of its own.
    Copy,
    /// A movement node: elements of the operands, rearranged by index arithmetic alone.
    Movement(Movement),
}

/// The elements that an update overwrites.
#[derive(Clone, Debug)]
pub(crate) enum Update {
    /// A box (a range of indices along each axis) that begins at a run-time index; see
    /// [`Lowering::DynamicUpdateSlice`](tapeloom_ir::prim::Lowering::DynamicUpdateSlice).
    Slice,
    /// Elements at the positions in an array of indices; see
    /// [`Lowering::Scatter`](tapeloom_ir::prim::Lowering::Scatter).
    Scatter { combine: Combine, batch: usize, axes: Vec<usize>, bounds: Bounds },
}

/// The kinds of movement nodes: each variant says which elements the node consists of.
#[derive(Clone, Debug)]
pub(crate) enum Movement {
    /// No elements: an array with an extent of 0.
    Empty,
    /// Elements of one or several operands at constant offsets and strides; see
    /// [`Lowering::View`](tapeloom_ir::prim::Lowering::View).
    View { pieces: Vec<Piece>, fill: Option<usize> },
    /// The elements of the operand in row-major order, with another shape; see
    /// [`Lowering::Reshape`](tapeloom_ir::prim::Lowering::Reshape).
    Reshape,
    /// The index of each element along an axis; see [`Lowering::Iota`](tapeloom_ir::prim::Lowering::Iota).
    Iota { axis: usize },
    /// A box (a range of indices along each axis) of the operand that begins at a run-time index; see
    /// [`Lowering::DynamicSlice`](tapeloom_ir::prim::Lowering::DynamicSlice).
    Slice,
    /// Elements of the operand at the positions in an array of indices; see
    /// [`Lowering::Gather`](tapeloom_ir::prim::Lowering::Gather).
    Gather { batch: usize, axes: Vec<usize>, bounds: Bounds },
}

impl NodeKind {
    /// Returns whether the node is a movement node, which stands for elements of other nodes.
    pub(crate) fn is_movement(&self) -> bool {
        matches!(self, NodeKind::Movement(_))
    }

    /// If this node is the first result of a region (a call, branch or loop), returns the region.
    pub(crate) fn region(&self) -> Option<RegionId> {
        let NodeKind::Result { of, n: 0 } = self else { return None };
        Some(*of)
    }

    /// Returns whether the node overwrites elements of its first operand.
    pub(crate) fn is_update(&self) -> bool {
        matches!(self, NodeKind::Update(_))
    }
}

/// A node of the graph: a value of the function with the operation that defines it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(crate) operands: SmallVec<[Source; 2]>,
    pub(crate) ty: ArrayType,
    /// The name of the primitive, for reports.
    pub(crate) name: &'static str,
    /// The user's line, for reports, and the phase (forward or reverse pass).
    pub(crate) origin: Origin,
    /// The number of forward and reverse passes that must end before the node runs
    /// ([`passes`](phase_order)).
    pub(crate) required_passes: u8,
    /// The marks of the node's value (residual, tape, a user's name), which the memory plan reports.
    pub(crate) kept: Vec<Mark>,
    /// If the node is a stack of values, one for each iteration of a loop, the name that the user gave to these values.
    pub(crate) label: Option<Arc<str>>,
}

impl Node {
    pub(crate) fn new(
        kind: NodeKind,
        operands: SmallVec<[Source; 2]>,
        ty: ArrayType,
        name: &'static str,
        origin: Origin,
    ) -> Node {
        Node { kind, operands, ty, name, origin, required_passes: 0, kept: Vec::new(), label: None }
    }

    /// Returns whether the node is a residual that is saved in memory: marked as [`Mark::Residual`], or packed.
    pub(crate) fn is_held(&self) -> bool {
        self.kept.iter().any(|mark| *mark == Mark::Residual || mark.is_packed())
    }

    /// If this node is a result of a region (a call, branch or loop), but not the first result, returns the node of the
    /// first result.
    pub(crate) fn first_result(&self) -> Option<NodeId> {
        match self.kind {
            NodeKind::Result { n: 1.., .. } => self.operands.first()?.node(),
            _ => None,
        }
    }
}

/// A function as a graph. Nodes are in topological order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// The machine for which the function is lowered.
    pub(crate) machine: MachineModel,
    pub(crate) nodes: PrimaryMap<NodeId, Node>,
    pub(crate) regions: PrimaryMap<RegionId, Region>,
    /// The results of the function: distinct nodes, all of them computed or empty.
    pub(crate) results: Vec<NodeId>,
    /// The types of the results. A result node may have another shape with its elements in the same order.
    pub(crate) result_types: Vec<ArrayType>,
}

impl Graph {
    /// Returns the shape of a source.
    pub(crate) fn shape(&self, source: Source) -> &[usize] {
        source.node().map_or(&[], |n| &self.nodes[n].ty.shape)
    }

    pub(crate) fn array(&self, source: Source) -> ArrayType {
        match source {
            Source::Node(n) => self.nodes[n].ty.clone(),
            Source::Literal(l) => ArrayType::new(l.dtype, []),
        }
    }

    /// Adds a mark (residual, tape, a user's name) to a value. A movement of one array has no memory of its own, so the
    /// array is marked, too.
    pub(crate) fn keep(&mut self, node: NodeId, mark: Mark) {
        let mut at = Some(node);
        while let Some(id) = at {
            let node = &mut self.nodes[id];
            if !node.kept.contains(&mark) {
                node.kept.push(mark.clone());
            }
            let one = node.kind.is_movement() && node.operands.len() == 1;
            at = node.operands.first().filter(|_| one).and_then(|s| s.node());
        }
    }

    /// Returns a node for a residual that keeps no larger array in memory: a copy if `node` is a view of a larger
    /// array or moves elements of several arrays, and otherwise `node` itself.
    pub(crate) fn held(&mut self, node: NodeId) -> NodeId {
        let bytes = |of: &Node| of.ty.bytes();
        let mut root = &self.nodes[node];
        while let (true, [Source::Node(of)]) = (root.kind.is_movement(), &root.operands[..]) {
            root = &self.nodes[*of];
        }
        match root.kind {
            // An argument of the function is in memory in any case, so it needs no copy.
            NodeKind::Input(_) => node,
            _ if planted(Fault::HeldWhole) => node,
            _ if root.kind.is_movement() || bytes(root) > bytes(&self.nodes[node]) => {
                self.copy(Source::Node(node))
            }
            _ => node,
        }
    }

    pub(crate) fn copy(&mut self, source: Source) -> NodeId {
        let ty = self.array(source);
        let origin = source.node().map_or(Origin::default(), |n| self.nodes[n].origin);
        let (kind, operands) = match ty.shape.elements() {
            0 => (NodeKind::Movement(Movement::Empty), SmallVec::new()),
            _ => (NodeKind::Copy, SmallVec::from_slice(&[source])),
        };
        self.nodes.push(Node::new(kind, operands, ty, "copy", origin))
    }

    /// Ensures that every result is a computed node with memory of its own. A donated argument may be
    /// returned unchanged.
    pub(crate) fn give_results_memory(&mut self, results: &[Source], donation: &Donation) {
        let mut taken = OrderedSet::default();
        for (result, r) in results.iter().enumerate() {
            let own = self.unreshaped(*r, donation).node().filter(|n| {
                let kind = &self.nodes[*n].kind;
                let moves = match kind {
                    NodeKind::Input(p) => !donation.may_return_unchanged(*p, result),
                    NodeKind::Result { of, n } => self.regions[*of].ends_elsewhere(*n),
                    kind => kind.is_movement(),
                };
                !moves && taken.insert(*n)
            });
            let node = own.unwrap_or_else(|| self.copy(*r));
            self.result_types.push(self.array(*r));
            self.results.push(node);
        }
    }

    /// Returns the computed node that `source` reshapes in one or several steps, or `source` if there is none. The node
    /// may be a result in place of `source`: its elements have the same order.
    fn unreshaped(&self, source: Source, donation: &Donation) -> Source {
        let mut of = source;
        while let Source::Node(n) = of
            && let NodeKind::Movement(Movement::Reshape) = self.nodes[n].kind
        {
            of = self.nodes[n].operands[0];
        }
        let computed = |n: NodeId| match self.nodes[n].kind {
            NodeKind::Map(_)
            | NodeKind::Reduce { .. }
            | NodeKind::ArgReduce { .. }
            | NodeKind::Contract { .. }
            | NodeKind::Copy => true,
            // The node may share memory with a donated argument, whose shape may differ from that of the result.
            NodeKind::Update(_) | NodeKind::Result { .. } => *donation == Donation::None,
            NodeKind::Input(_) | NodeKind::Movement(_) => false,
        };
        if of.node().is_some_and(computed) { of } else { source }
    }

    /// Copies the new elements of an update if they are a view of the array that it overwrites, since the update would
    /// otherwise read elements that it has just written.
    pub(crate) fn separate_updates(&mut self) {
        let updates: Vec<NodeId> =
            self.nodes.iter().filter(|(_, n)| n.kind.is_update()).map(|(id, _)| id).collect();
        let mut copies: Vec<(NodeId, usize)> = Vec::new();
        for u in updates {
            let Some(base) = self.nodes[u].operands[0].node() else { continue };
            for (slot, operand) in self.nodes[u].operands.iter().enumerate().skip(1) {
                if self.reaches(*operand, base) {
                    copies.push((u, slot));
                }
            }
        }
        self.copy_operands(&copies);
    }

    /// Inserts a copy before each of these operands, which are given as (node, operand number) in node order.
    /// Operands that read the same node share one copy.
    pub(crate) fn copy_operands(&mut self, copies: &[(NodeId, usize)]) {
        if copies.is_empty() {
            return;
        }
        // A copy must precede its reader: rebuild the list of nodes in order.
        let old = std::mem::take(&mut self.nodes);
        let mut new: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
        let rename = |s: Source, new: &SecondaryMap<NodeId, Option<NodeId>>| match s {
            Source::Node(n) => new[n].map_or(s, Source::Node),
            Source::Literal(_) => s,
        };
        let mut next = copies.iter().peekable();
        let mut copied: OrderedMap<NodeId, NodeId> = OrderedMap::default();
        for (id, mut node) in old {
            for s in &mut node.operands {
                *s = rename(*s, &new);
            }
            while let Some((_, slot)) = next.next_if(|(u, _)| *u == id) {
                let source = node.operands[*slot];
                let known = source.node().and_then(|n| copied.get(&n).copied());
                let copy = known.unwrap_or_else(|| self.copy(source));
                copied.extend(source.node().map(|n| (n, copy)));
                node.operands[*slot] = Source::Node(copy);
            }
            new[id] = Some(self.nodes.push(node));
        }
        for r in &mut self.results {
            *r = new[*r].unwrap_or(*r);
        }
    }

    /// Returns the base of a node (the array whose memory it may overwrite) as (node, operand number): the
    /// operand that an update overwrites, or that is the initial value of a region's result.
    pub(crate) fn base(&self, id: NodeId) -> Option<(NodeId, usize)> {
        let node = &self.nodes[id];
        match &node.kind {
            NodeKind::Result { of, n } => {
                let initial_values = &self.regions[*of].initial_values;
                let (slot, _) = initial_values.iter().find(|(_, result)| result == n)?;
                Some((node.first_result().unwrap_or(id), *slot))
            }
            kind => kind.is_update().then_some((id, 0)),
        }
    }

    /// Returns whether a node reads `base` through an operand other than number `slot`. An operand may be the initial
    /// value of another result of the region. Such an operand counts as a read if it is all of `base`, since the other
    /// result might take over the memory of `base`. If it is a part of `base`, it does not count, because it is copied
    /// before the region runs.
    pub(crate) fn reads_beside(&self, id: NodeId, slot: usize, base: NodeId) -> bool {
        let node = &self.nodes[id];
        let initial_values =
            node.kind.region().map_or(&[][..], |r| &self.regions[r].initial_values);
        let begun = |s: usize| initial_values.iter().any(|(operand, _)| *operand == s);
        let copied = |s: usize, o: &Source| begun(s) && o.node() != Some(base);
        let operands = node.operands.iter().enumerate();
        let mut others = operands.filter(|(s, o)| *s != slot && !copied(*s, o));
        others.any(|(_, o)| self.reaches(*o, base))
    }

    /// Returns whether a source is `base`, or movement nodes lead from the source to `base`. Each node is visited once,
    /// because several chains may share nodes.
    fn reaches(&self, from: Source, base: NodeId) -> bool {
        let mut seen = OrderedSet::default();
        let mut work: Vec<NodeId> = from.node().into_iter().collect();
        while let Some(n) = work.pop() {
            if n == base {
                return true;
            }
            if self.nodes[n].kind.is_movement() && seen.insert(n) {
                work.extend(self.nodes[n].operands.iter().filter_map(|o| o.node()));
            }
        }
        false
    }

    pub(crate) fn without_dead_nodes(mut self) -> Graph {
        let mut live: SecondaryMap<NodeId, bool> = SecondaryMap::with_capacity(self.nodes.len());
        for r in &self.results {
            live[*r] = true;
        }
        for (id, node) in &self.nodes {
            let ordered = |r: RegionId| self.regions[r].ordered && !planted(Fault::Effect);
            live[id] |= node.kind.region().is_some_and(ordered);
        }
        for index in (0..self.nodes.len()).rev() {
            let id = NodeId::new(index);
            if live[id] {
                for o in self.nodes[id].operands.iter().filter_map(|o| o.node()) {
                    live[o] = true;
                }
            }
        }
        // A region (a call, branch or loop) writes all its results, so if one result is live, all are live.
        for (id, node) in &self.nodes {
            if let Some(first) = node.first_result() {
                live[id] = live[first];
            }
        }
        let mut new: SecondaryMap<NodeId, Option<NodeId>> =
            SecondaryMap::with_capacity(self.nodes.len());
        let mut nodes = PrimaryMap::with_capacity(self.nodes.len());
        for (id, mut node) in std::mem::take(&mut self.nodes) {
            if !live[id] {
                continue;
            }
            for s in &mut node.operands {
                if let Source::Node(n) = s {
                    *n = new[*n].unwrap_or(*n);
                }
            }
            new[id] = Some(nodes.push(node));
        }
        let results = self.results.iter().map(|r| new[*r].unwrap_or(*r)).collect();
        Graph { nodes, results, ..self }
    }
}

/// Returns the dtype of a source.
pub(crate) fn dtype_of(graph: &Graph, source: Source) -> Dtype {
    match source {
        Source::Node(n) => graph.nodes[n].ty.dtype,
        Source::Literal(l) => l.dtype,
    }
}
