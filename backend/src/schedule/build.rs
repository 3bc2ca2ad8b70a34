//! From a function to its graph: calls inlined unless they stay (`calls`), constants folded, every result in memory of its own.

use super::calls::Calls;
use super::empty::{Simpler, simplify};
use super::graph::{Graph, Node, NodeId, NodeKind, Source};
use super::region::{Region, RegionKind};
use crate::machine::Machine;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::sync::Arc;
use tapeloom_ir::prim::{AxisMap, Effects, Lowering, Operand, Piece, Role};
use tapeloom_ir::{
    ArrayType, Atom, Code, Dtype, FuncId, Function, Kind, Literal, Loc, Module, Problem, Shape,
    Type, ValueId,
};

/// The graph of a function.
pub(crate) fn build(module: &Module, calls: &Calls, function: FuncId) -> Result<Graph, Problem> {
    let mut flat = Flatten { module, calls, graph: Graph::default(), chain: SecondaryMap::new() };
    let results = flat.run(function)?;
    let mut graph = flat.graph;
    graph.give_results_memory(&results);
    graph.separate_updates();
    Ok(graph.without_dead_nodes())
}

/// Views with more pieces than this get memory.
const MAX_PIECES: usize = 16;

/// Longer chains of movement nodes get memory, which bounds recursion.
const MAX_CHAIN: u32 = 12;

/// One function that is being inlined.
struct Frame {
    function: Arc<Function>,
    /// The equation that comes next.
    next: usize,
    values: SecondaryMap<ValueId, Option<Source>>,
    /// Where the caller wants the results.
    outputs: SmallVec<[ValueId; 1]>,
}

pub(crate) struct Flatten<'a> {
    module: &'a Module,
    calls: &'a Calls,
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
            let node = Node::new(NodeKind::Input(i), operands, ty, "input", None);
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
        let outlined = e.op.opened(|role| role == Role::Outline);
        if let Some(callee) = outlined.and_then(|f| self.calls.kernel(f)) {
            let kind = RegionKind::Call(callee);
            let ordered = e.op.effects(self.module) == Effects::Ordered;
            let types = e.outputs.iter().map(|o| array(&f.types[*o]));
            let types: Vec<&ArrayType> = types.collect::<Result<_, _>>()?;
            let region = Region { kind, results: types.len(), ordered };
            let results = self.region(region, operands, &types, e.op.name(), loc);
            for (output, result) in e.outputs.iter().zip(results) {
                top.values[*output] = Some(Source::Node(result));
            }
            return Ok(None);
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
        let lowering = e.op.lower(self.module, &views);
        let kind = match lowering {
            Lowering::Call(callee) => {
                let callee = self.module.get(callee);
                return Ok(Some(frame(callee, &operands, e.outputs.clone())));
            }
            Lowering::Missing(problem) => return Err(problem),
            Lowering::Branch { .. } | Lowering::Loop { .. } => {
                let message = format!("`{}` is not compiled yet", e.op.name());
                return Err(Problem::new(Kind::Target, message, "run it by the interpreter"));
            }
            Lowering::Alias { kept } => {
                if let (Some(name), Source::Node(node)) = (kept, operands[0]) {
                    self.graph.keep(node, name);
                }
                top.values[e.outputs[0]] = Some(operands[0]);
                return Ok(None);
            }
            Lowering::Report { number } => {
                let kind = RegionKind::Probe(number);
                let region = Region { kind, results: 0, ordered: true };
                top.values[e.outputs[0]] = Some(operands[0]);
                self.region(region, operands, &[], e.op.name(), loc);
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
                NodeKind::Map(code)
            }
            Lowering::View { pieces, fill } => NodeKind::View { pieces, fill },
            Lowering::Reshape => {
                // Of a reshape: the first one does not matter.
                if let Some(n) = operands[0].node()
                    && let NodeKind::Reshape = self.graph.nodes[n].kind
                {
                    operands[0] = self.graph.nodes[n].operands[0];
                }
                NodeKind::Reshape
            }
            Lowering::Iota { axis } => NodeKind::Iota { axis },
            Lowering::Reduce { code, identity, axes } => NodeKind::Reduce { code, identity, axes },
            Lowering::ArgReduce { axis, largest } => NodeKind::ArgReduce { axis, largest },
            Lowering::Cumulate { .. } | Lowering::ArgSort { .. } => {
                let ty = array(&f.types[e.outputs[0]])?;
                let x = types.first().and_then(Type::as_array);
                match self.calls.routine(&lowering, x, ty) {
                    Some(callee) => {
                        let kind = RegionKind::Call(callee);
                        let region = Region { kind, results: 1, ordered: false };
                        let results = self.region(region, operands, &[ty], e.op.name(), loc);
                        top.values[e.outputs[0]] = results.first().copied().map(Source::Node);
                        return Ok(None);
                    }
                    None => NodeKind::Empty,
                }
            }
            Lowering::Contract { batch, contract } => NodeKind::Contract { batch, contract },
            Lowering::DynamicSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = array(&f.types[e.outputs[0]])?.shape.clone();
                match literal_starts(&operands[1..], &whole, &part) {
                    Some(starts) => {
                        NodeKind::View { pieces: vec![shifted(0, &starts, 1)], fill: None }
                    }
                    None => NodeKind::Slice,
                }
            }
            Lowering::DynamicUpdateSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = self.graph.array(operands[1]).shape;
                match literal_starts(&operands[2..], &whole, &part) {
                    // A small array changes in registers: its new elements are those of the update,
                    // and otherwise the old ones.
                    Some(starts) if small(&whole, &part, self.graph.machine) => {
                        let old = shifted(0, &vec![0; whole.len()], 1);
                        NodeKind::View { pieces: vec![shifted(1, &starts, -1), old], fill: None }
                    }
                    _ => NodeKind::Update,
                }
            }
            Lowering::Gather { batch, axes, bounds } => NodeKind::Gather { batch, axes, bounds },
            Lowering::Scatter { combine, batch, axes, bounds } => {
                NodeKind::Scatter { combine, batch, axes, bounds }
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
        let many = matches!(&kind, NodeKind::View { pieces, .. } if pieces.len() > MAX_PIECES);
        let mut node = self.graph.nodes.push(Node::new(kind, operands, ty, e.op.name(), loc));
        if many || chain > MAX_CHAIN {
            node = self.graph.copy(Source::Node(node));
            chain = 0;
        }
        self.chain[node] = chain;
        top.values[*output] = Some(Source::Node(node));
        Ok(None)
    }
}

impl Flatten<'_> {
    /// The results of a region, as nodes.
    fn region(
        &mut self,
        region: Region,
        mut operands: SmallVec<[Source; 2]>,
        types: &[&ArrayType],
        name: &'static str,
        loc: Loc,
    ) -> Vec<NodeId> {
        let of = self.graph.regions.push(region);
        let nobody_reads = ArrayType::new(Dtype::Bool, []);
        let mut results = Vec::with_capacity(types.len());
        for n in 0..types.len().max(1) {
            let kind = NodeKind::Result { of, n };
            let ty = types.get(n).map_or(&nobody_reads, |ty| *ty).clone();
            let node = Node::new(kind, operands.clone(), ty, name, loc);
            let result = self.graph.nodes.push(node);
            if n == 0 {
                operands = SmallVec::from_slice(&[Source::Node(result)]);
            }
            results.push(result);
        }
        results
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

/// Whether an update (of each item of a batch that is updated as a whole) is no write to memory.
fn small(whole: &[usize], part: &[usize], machine: Machine) -> bool {
    let batch = match (whole, part) {
        ([n, ..], [m, ..]) if n == m && whole.len() > 1 => *n,
        _ => 1,
    };
    Shape::from(whole).elements() / batch.max(1) <= machine.registers
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
            Kind::TooLarge,
            format!("an array of type {a} does not fit in memory"),
            "make the array smaller, or compute it in parts",
        )),
        Type::Tape(_) | Type::Ref(_) => Err(Problem::new(
            Kind::Target,
            format!("a value of type {ty} cannot be compiled"),
            "functionalize the program before compiling it",
        )),
    }
}
