//! The program as a graph of nodes: calls inlined, dead equations gone, shapes at hand.
//!
//! An equation becomes a node that keeps its [`Lowering`], which is all that the scheduler knows
//! about a primitive. Two sorts of nodes are told apart from here on:
//!
//! * *computed* nodes (elementwise, reductions, contractions, updates) are placed in a loop nest and
//!   may have memory;
//! * *movement* nodes (views, reshapes, iota, slices and gathers) never run by themselves: whoever
//!   reads one reads what it stands for, by index arithmetic. Where that would be wasteful (a
//!   concatenation of very many pieces, a long chain of views) or impossible (a result must have
//!   memory) a [`Kind::Copy`] node is put after it.

use super::empty::{Simpler, simplify};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap, entity_impl};
use smallvec::SmallVec;
use std::sync::Arc;
use tapeloom_ir::prim::{AxisMap, Bounds, Combine, Lowering, Operand, Piece};
use tapeloom_ir::{
    ArrayType, Atom, Code, Dtype, FuncId, Function, Kind as ProblemKind, Literal, Loc, Module,
    Problem, Shape, Type, ValueId,
};

/// A node of the graph. Displays as `n3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);
entity_impl!(NodeId, "n");

/// What a node reads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    /// Another node.
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

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// An argument.
    Input(usize),
    /// No elements: nothing to compute, and nothing to read.
    Empty,
    /// Scalar code on corresponding elements.
    Map(Code),
    /// See [`Lowering::Reduce`].
    Reduce { code: Code, identity: Literal, axes: Vec<usize> },
    /// See [`Lowering::ArgReduce`].
    ArgReduce { axis: usize, largest: bool },
    /// See [`Lowering::Contract`].
    Contract { batch: Vec<(usize, usize)>, contract: Vec<(usize, usize)> },
    /// See [`Lowering::DynamicUpdateSlice`].
    Update,
    /// See [`Lowering::Scatter`].
    Scatter { combine: Combine, batch: usize, axes: Vec<usize>, bounds: Bounds },
    /// The operand, in memory of its own.
    Copy,
    /// See [`Lowering::View`].
    View { pieces: Vec<Piece>, fill: Option<usize> },
    /// See [`Lowering::Reshape`].
    Reshape,
    /// See [`Lowering::Iota`].
    Iota { axis: usize },
    /// See [`Lowering::DynamicSlice`].
    Slice,
    /// See [`Lowering::Gather`].
    Gather { batch: usize, axes: Vec<usize>, bounds: Bounds },
}

impl Kind {
    /// Whether the node stands for other elements rather than computing its own.
    pub(crate) fn is_movement(&self) -> bool {
        match self {
            Kind::View { .. }
            | Kind::Empty
            | Kind::Reshape
            | Kind::Iota { .. }
            | Kind::Slice
            | Kind::Gather { .. } => true,
            Kind::Input(_)
            | Kind::Map(_)
            | Kind::Reduce { .. }
            | Kind::ArgReduce { .. }
            | Kind::Contract { .. }
            | Kind::Update
            | Kind::Scatter { .. }
            | Kind::Copy => false,
        }
    }

    /// Whether the node writes over its first operand.
    pub(crate) fn is_update(&self) -> bool {
        matches!(self, Kind::Update | Kind::Scatter { .. })
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) operands: SmallVec<[Source; 2]>,
    pub(crate) ty: ArrayType,
    /// The name of the primitive, for reports.
    pub(crate) name: &'static str,
    /// The user's line, for reports.
    pub(crate) loc: Loc,
}

/// A function as a graph. Nodes stand in an order in which operands come first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: PrimaryMap<NodeId, Node>,
    /// What the function returns; distinct nodes, all of them computed or empty.
    pub(crate) results: Vec<NodeId>,
}

/// Views with more pieces than this get memory.
const MAX_PIECES: usize = 16;
/// Longer chains of movement nodes get memory, which bounds recursion.
const MAX_CHAIN: u32 = 12;

impl Graph {
    /// The graph of a function.
    pub(crate) fn of(module: &Module, function: FuncId) -> Result<Graph, Problem> {
        let mut flat = Flatten { module, graph: Graph::default(), chain: SecondaryMap::new() };
        let results = flat.run(function)?;
        let mut graph = flat.graph;
        graph.give_results_memory(&results);
        graph.separate_updates();
        super::library::materialise(&mut graph);
        Ok(graph.without_dead_nodes())
    }

    fn array(&self, source: Source) -> ArrayType {
        match source {
            Source::Node(n) => self.nodes[n].ty.clone(),
            Source::Literal(l) => ArrayType::new(l.dtype, []),
        }
    }

    fn copy(&mut self, source: Source) -> NodeId {
        let ty = self.array(source);
        let loc = source.node().and_then(|n| self.nodes[n].loc);
        let (kind, operands) = match ty.shape.elements() {
            0 => (Kind::Empty, SmallVec::new()),
            _ => (Kind::Copy, SmallVec::from_slice(&[source])),
        };
        self.nodes.push(Node { kind, operands, ty, name: "copy", loc })
    }

    /// Every result must be a computed node of its own, since it is written to memory of its own.
    fn give_results_memory(&mut self, results: &[Source]) {
        let mut taken = std::collections::HashSet::new();
        for r in results {
            let own = r.node().filter(|n| {
                let kind = &self.nodes[*n].kind;
                !kind.is_movement() && !matches!(kind, Kind::Input(_)) && taken.insert(*n)
            });
            let node = own.unwrap_or_else(|| self.copy(*r));
            self.results.push(node);
        }
    }

    /// An update whose new elements are a view of the array it writes over would read what it has
    /// just written: such a view is copied first.
    fn separate_updates(&mut self) {
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

    /// Puts a copy before each of these operands, in the order of nodes.
    pub(crate) fn copy_operands(&mut self, copies: &[(NodeId, usize)]) {
        if copies.is_empty() {
            return;
        }
        // The copies must stand before the updates: rebuild in order.
        let old = std::mem::take(&mut self.nodes);
        let mut new: SecondaryMap<NodeId, Option<NodeId>> = SecondaryMap::new();
        let rename = |s: Source, new: &SecondaryMap<NodeId, Option<NodeId>>| match s {
            Source::Node(n) => new[n].map_or(s, Source::Node),
            Source::Literal(_) => s,
        };
        let mut next = copies.iter().peekable();
        for (id, mut node) in old {
            for s in &mut node.operands {
                *s = rename(*s, &new);
            }
            while let Some((_, slot)) = next.next_if(|(u, _)| *u == id) {
                node.operands[*slot] = Source::Node(self.copy(node.operands[*slot]));
            }
            new[id] = Some(self.nodes.push(node));
        }
        for r in &mut self.results {
            *r = new[*r].unwrap_or(*r);
        }
    }

    /// Whether an update reads `base` in its new elements or its indices.
    pub(crate) fn reads_beside(&self, update: NodeId, base: NodeId) -> bool {
        self.nodes[update].operands[1..].iter().any(|o| self.reaches(*o, base))
    }

    /// Whether a source is `base` or a movement of it. Chains are short, but several may share nodes.
    fn reaches(&self, from: Source, base: NodeId) -> bool {
        let mut seen = std::collections::HashSet::new();
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

    fn without_dead_nodes(mut self) -> Graph {
        let mut live: SecondaryMap<NodeId, bool> = SecondaryMap::with_capacity(self.nodes.len());
        for r in &self.results {
            live[*r] = true;
        }
        for index in (0..self.nodes.len()).rev() {
            let id = NodeId::new(index);
            if live[id] {
                for o in self.nodes[id].operands.iter().filter_map(|o| o.node()) {
                    live[o] = true;
                }
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
        Graph { nodes, results }
    }
}

/// One function that is being inlined.
struct Frame {
    function: Arc<Function>,
    /// The equation that comes next.
    next: usize,
    values: SecondaryMap<ValueId, Option<Source>>,
    /// Where the caller wants the results.
    outputs: SmallVec<[ValueId; 1]>,
}

struct Flatten<'a> {
    module: &'a Module,
    graph: Graph,
    /// Number of movement nodes on the way to a computed node.
    chain: SecondaryMap<NodeId, u32>,
}

impl Flatten<'_> {
    /// Inlines with a stack of its own: functions nest as deep as the user likes.
    fn run(&mut self, function: FuncId) -> Result<Vec<Source>, Problem> {
        let f = self.module.get(function);
        let mut args = Vec::new();
        for (i, p) in f.all_params().enumerate() {
            let ty = array(&f.types[p])?.clone();
            let operands = SmallVec::new();
            let node = Node { kind: Kind::Input(i), operands, ty, name: "input", loc: None };
            args.push(Source::Node(self.graph.nodes.push(node)));
        }
        let mut stack = vec![frame(f, &args, SmallVec::new())];
        loop {
            let Some(top) = stack.last_mut() else {
                return Err(Problem::internal("inlining lost its way"));
            };
            if top.next == top.function.equations.len() {
                let results: Result<Vec<Source>, Problem> =
                    top.function.results.iter().map(|r| read(top, *r)).collect();
                let (results, outputs) = (results?, std::mem::take(&mut top.outputs));
                stack.pop();
                match stack.last_mut() {
                    None => return Ok(results),
                    Some(caller) => {
                        for (o, r) in outputs.iter().zip(results) {
                            caller.values[*o] = Some(r);
                        }
                    }
                }
                continue;
            }
            if let Some(callee) = self.equation(top)? {
                stack.push(callee);
            }
        }
    }

    /// Adds the next equation, or returns the frame of the function it calls.
    fn equation(&mut self, top: &mut Frame) -> Result<Option<Frame>, Problem> {
        let f = top.function.clone();
        let (e, loc) = (&f.equations[top.next], f.location(top.next));
        top.next += 1;
        let mut operands: SmallVec<[Source; 2]> = SmallVec::with_capacity(e.operands.len());
        for a in &e.operands {
            operands.push(read(top, *a)?);
        }
        let types: SmallVec<[Type; 2]> =
            operands.iter().map(|s| Type::Array(self.graph.array(*s))).collect();
        let views: SmallVec<[Operand<'_>; 2]> = operands
            .iter()
            .zip(&types)
            .map(|(s, ty)| Operand {
                ty,
                literal: match s {
                    Source::Node(_) => None,
                    Source::Literal(l) => Some(*l),
                },
            })
            .collect();
        let kind = match e.op.lower(self.module, &views) {
            Lowering::Call(callee) => {
                let callee = self.module.get(callee);
                return Ok(Some(frame(callee, &operands, e.outputs.clone())));
            }
            Lowering::Missing(problem) => return Err(problem),
            Lowering::Alias => {
                top.values[e.outputs[0]] = Some(operands[0]);
                return Ok(None);
            }
            Lowering::Elementwise(code) => {
                let constants: Option<SmallVec<[Literal; 3]>> = operands
                    .iter()
                    .map(|s| match s {
                        Source::Literal(l) => Some(*l),
                        Source::Node(_) => None,
                    })
                    .collect();
                if let Some(constants) = constants {
                    top.values[e.outputs[0]] = Some(Source::Literal(code.eval(&constants)));
                    return Ok(None);
                }
                Kind::Map(code)
            }
            Lowering::View { pieces, fill } => Kind::View { pieces, fill },
            Lowering::Reshape => {
                // Of a reshape: the first one does not matter.
                if let Some(n) = operands[0].node()
                    && let Kind::Reshape = self.graph.nodes[n].kind
                {
                    operands[0] = self.graph.nodes[n].operands[0];
                }
                Kind::Reshape
            }
            Lowering::Iota { axis } => Kind::Iota { axis },
            Lowering::Reduce { code, identity, axes } => Kind::Reduce { code, identity, axes },
            Lowering::ArgReduce { axis, largest } => Kind::ArgReduce { axis, largest },
            Lowering::Contract { batch, contract } => Kind::Contract { batch, contract },
            Lowering::DynamicSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = array(&f.types[e.outputs[0]])?.shape.clone();
                match literal_starts(&operands[1..], &whole, &part) {
                    Some(starts) => Kind::View { pieces: vec![shifted(0, &starts, 1)], fill: None },
                    None => Kind::Slice,
                }
            }
            Lowering::DynamicUpdateSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = self.graph.array(operands[1]).shape;
                match literal_starts(&operands[2..], &whole, &part) {
                    // A small array changes in registers: its new elements are those of the update,
                    // and otherwise the old ones.
                    Some(starts) if small(&whole, &part) => {
                        let old = shifted(0, &vec![0; whole.len()], 1);
                        Kind::View { pieces: vec![shifted(1, &starts, -1), old], fill: None }
                    }
                    _ => Kind::Update,
                }
            }
            Lowering::Gather { batch, axes, bounds } => Kind::Gather { batch, axes, bounds },
            Lowering::Scatter { combine, batch, axes, bounds } => {
                Kind::Scatter { combine, batch, axes, bounds }
            }
        };
        let [output] = e.outputs.as_slice() else {
            return Err(Problem::internal(format!("`{}` has several outputs", e.op.name())));
        };
        let ty = array(&f.types[*output])?.clone();
        let empty = |s: Source| self.graph.array(s).shape.elements() == 0;
        let (kind, operands) = match simplify(kind, operands, &ty, empty) {
            Simpler::Node(kind, operands) => (kind, operands),
            Simpler::Same(source) => {
                top.values[*output] = Some(source);
                return Ok(None);
            }
        };
        let mut chain = 0;
        if kind.is_movement() {
            let below = operands.iter().filter_map(|s| s.node()).map(|n| self.chain[n]).max();
            chain = below.unwrap_or(0) + 1;
        }
        let many = matches!(&kind, Kind::View { pieces, .. } if pieces.len() > MAX_PIECES);
        let mut node = self.graph.nodes.push(Node { kind, operands, ty, name: e.op.name(), loc });
        if many || chain > MAX_CHAIN {
            node = self.graph.copy(Source::Node(node));
            chain = 0;
        }
        self.chain[node] = chain;
        top.values[*output] = Some(Source::Node(node));
        Ok(None)
    }
}

/// The starts of a slice or update, clamped, if all are constants.
fn literal_starts(starts: &[Source], whole: &[usize], part: &[usize]) -> Option<Vec<i64>> {
    let room = whole.iter().zip(part).map(|(w, p)| *w as i128 - *p as i128);
    let start = |(s, room): (&Source, i128)| match s {
        Source::Literal(l) if l.dtype == Dtype::U64 => Some(i128::from(l.bits).min(room) as i64),
        Source::Literal(l) => {
            let wide = Code::Convert(Dtype::I64).eval(&[*l]);
            Some(i128::from(wide.bits as i64).clamp(0, room.max(0)) as i64)
        }
        Source::Node(_) => None,
    };
    starts.iter().zip(room).map(start).collect()
}

/// The piece of an operand that is read at `start + o` (or `o - start`, for a sign of -1).
fn shifted(operand: usize, starts: &[i64], sign: i64) -> Piece {
    let axes = starts
        .iter()
        .enumerate()
        .map(|(axis, s)| AxisMap { offset: sign * s, ..AxisMap::same(axis) })
        .collect();
    Piece { operand, axes }
}

/// Updates of arrays that have at most this many elements (in each item of a batch that is updated
/// as a whole) are no writes to memory.
const SMALL: usize = 64;

fn small(whole: &[usize], part: &[usize]) -> bool {
    let batch = match (whole, part) {
        ([n, ..], [m, ..]) if n == m && whole.len() > 1 => *n,
        _ => 1,
    };
    Shape::from(whole).elements() / batch.max(1) <= SMALL
}

fn frame(function: Arc<Function>, args: &[Source], outputs: SmallVec<[ValueId; 1]>) -> Frame {
    let mut values = SecondaryMap::with_capacity(function.types.len());
    for (p, a) in function.all_params().zip(args) {
        values[p] = Some(*a);
    }
    Frame { function, next: 0, values, outputs }
}

fn read(frame: &Frame, atom: Atom) -> Result<Source, Problem> {
    match atom {
        Atom::Literal(l) => Ok(Source::Literal(l)),
        Atom::Value(v) => frame.values[v]
            .ok_or_else(|| Problem::internal(format!("{v} is read before it is defined"))),
    }
}

fn array(ty: &Type) -> Result<&ArrayType, Problem> {
    match ty {
        Type::Array(a) if a.checked_bytes().is_some() => Ok(a),
        Type::Array(a) => Err(Problem::new(
            ProblemKind::TooLarge,
            format!("an array of type {a} does not fit in memory"),
            "make the array smaller, or compute it in parts",
        )),
        Type::Tape(_) | Type::Ref(_) => Err(Problem::new(
            ProblemKind::Target,
            format!("a value of type {ty} cannot be compiled"),
            "functionalize the program before compiling it",
        )),
    }
}

/// The dtype of a source.
pub(crate) fn dtype_of(graph: &Graph, source: Source) -> Dtype {
    match source {
        Source::Node(n) => graph.nodes[n].ty.dtype,
        Source::Literal(l) => l.dtype,
    }
}
