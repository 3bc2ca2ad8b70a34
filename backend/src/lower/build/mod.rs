//! Builds the graph of a function: inlines calls (except calls of functions that are compiled separately, see
//! `units`), folds constants, and gives each result its own memory.

pub(crate) mod arranged_copies;
mod permuted_products;

use crate::loop_ir::{External, ExternalSignature, Kernel, KernelId};
use crate::lower::graph::phase_order;
use crate::lower::graph::region_node::{Region, RegionKind};
use crate::lower::graph::units::{Calls, Donation, Unit, branch_results, carries};
use crate::lower::graph::zero_sized::{EmptyReplacement, simplify};
use crate::lower::graph::{Graph, Movement, Node, NodeId, NodeKind, Source, Update};
use crate::machine::MachineModel;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::sync::Arc;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{
    AxisMap, Binding, Direction, Effects, LoopSpec, Lowering, Mark, Operand, Piece, Role, TripCount,
};
use tapeloom_ir::{
    ArrayType, Atom, Code, Dtype, FuncId, Function, Kind, Literal, Maker, Module, Origin, Problem,
    Shape, Type, ValueId, maker,
};

/// Returns the graph of a unit (a function that is compiled separately), with all calls of functions that are not units
/// inlined.
pub(crate) fn build(
    module: &Module,
    calls: &Calls,
    callees: &PrimaryMap<KernelId, Kernel>,
    Unit { function, donation }: &Unit,
) -> Result<Graph, Problem> {
    let graph = Graph { machine: calls.machine, ..Graph::default() };
    let chain = SecondaryMap::new();
    let mut flat = Flatten { module, calls, callees, donation, graph, chain };
    let mut results = flat.run(*function)?;
    let mut graph = flat.graph;
    permuted_products::write_in_order(&mut graph, &mut results);
    graph.give_results_memory(&results, donation);
    graph.separate_updates();
    Ok(graph.without_dead_nodes())
}

/// A view (such as a concatenation) assembles an array from pieces, each read from one operand. A view of at most this
/// number of pieces is read by index arithmetic; a view of more pieces is copied to memory.
const MAX_PIECES: usize = 16;

/// The maximal length of a chain of movement nodes (views, reshapes, slices, gathers). The limit bounds recursion: the
/// end of a longer chain is copied to memory.
const MAX_CHAIN: u32 = 12;

/// The smallest extent of an axis for which argmax and argmin become two vectorized reductions: the extremum, then its
/// first index. Along shorter axes, one reduction of both is faster.
const LONG_SEARCH: usize = 64;

/// An entry of the inlining stack: a function whose equations are being added to the graph.
struct Frame {
    function: Arc<Function>,
    /// The index of the next equation to add.
    next: usize,
    values: SecondaryMap<ValueId, Option<Source>>,
    /// For each value, the number of forward and reverse passes that must end before it is computed.
    required_passes: SecondaryMap<ValueId, u8>,
    /// The caller's values that receive the function's results.
    outputs: SmallVec<[ValueId; 1]>,
    /// The origin (line and phase) of the call.
    call: Origin,
}

impl Frame {
    /// Returns the origin of an equation, nested in the origin of the call.
    fn origin(&self, index: usize) -> Origin {
        self.function.origin(index).within(self.call)
    }
}

pub(crate) struct Flatten<'a> {
    module: &'a Module,
    calls: &'a Calls,
    /// The kernels compiled so far.
    callees: &'a PrimaryMap<KernelId, Kernel>,
    donation: &'a Donation,
    graph: Graph,
    /// For each node, the number of consecutive movement nodes that end in it; 0 for computed nodes.
    chain: SecondaryMap<NodeId, u32>,
}

impl Flatten<'_> {
    /// Inlines calls with an explicit stack, since functions may nest deeply.
    fn run(&mut self, function: FuncId) -> Result<Vec<Source>, Problem> {
        let f = self.module.get(function);
        let mut args = Vec::new();
        for (i, p) in f.all_params().enumerate() {
            let ty = array(&f.types[p])?;
            let operands = SmallVec::new();
            let node = Node::new(NodeKind::Input(i), operands, ty, "input", Origin::default());
            args.push(Source::Node(self.graph.nodes.push(node)));
        }
        let mut stack = vec![frame(f, &args, SmallVec::new(), Origin::default())];
        loop {
            let Some(top) = stack.last_mut() else {
                return Err(Problem::internal("inlining has no caller to return to"));
            };
            if top.next == top.function.equations.len() {
                let results: Result<Vec<Source>, Problem> =
                    top.function.results.iter().map(|r| read(top, *r)).collect();
                let (results, outputs) = (results?, std::mem::take(&mut top.outputs));
                let wait = |a: &Atom| a.value().map_or(0, |v| top.required_passes[v]);
                let required_passes: Vec<u8> = top.function.results.iter().map(wait).collect();
                stack.pop();
                match stack.last_mut() {
                    None => return Ok(results),
                    Some(caller) => {
                        for ((o, r), required_passes) in
                            outputs.iter().zip(results).zip(required_passes)
                        {
                            caller.values[*o] = Some(r);
                            caller.required_passes[*o] = required_passes;
                        }
                    }
                }
                continue;
            }
            let (next, made) = (top.next, self.graph.nodes.len());
            let callee = self.equation(top)?;
            let e = &top.function.equations[next];
            let wait = |a: &Atom| a.value().map_or(0, |v| top.required_passes[v]);
            if let Some(mut callee) = callee {
                for (p, a) in callee.function.clone().all_params().zip(&e.operands) {
                    callee.required_passes[p] = wait(a);
                }
                stack.push(callee);
                continue;
            }
            let required_passes = e.operands.iter().map(wait).max().unwrap_or(0);
            let required_passes =
                phase_order::passes_before_results(&e.op, top.origin(next).phase, required_passes);
            for node in self.graph.nodes.values_mut().skip(made) {
                node.required_passes = required_passes;
            }
            for o in &top.function.clone().equations[next].outputs {
                top.required_passes[*o] = required_passes;
            }
        }
    }

    /// Returns whether an array of more than `unrolled_elements` elements is a loop carry, or an update of a carry. An
    /// update of a carry stays in memory and in place: in registers, each update would write all elements.
    fn changes_carry(&self, array: Source, shape: &[usize]) -> bool {
        let Some(mut node) = array.node() else { return false };
        while let NodeKind::Update(Update::Slice) = self.graph.nodes[node].kind
            && let Some(base) = self.graph.nodes[node].operands[0].node()
        {
            node = base;
        }
        let long = Shape::from(shape).elements() > self.graph.machine.unrolled_elements;
        long && matches!(self.graph.nodes[node].kind, NodeKind::Input(p) if self.donation.any(p))
    }

    /// Adds the next equation of `top` to the graph, or returns the frame of the function that the equation
    /// calls.
    fn equation(&mut self, top: &mut Frame) -> Result<Option<Frame>, Problem> {
        let f = top.function.clone();
        let (e, origin) = (&f.equations[top.next], top.origin(top.next));
        top.next += 1;
        let mut operands: SmallVec<[Source; 2]> = SmallVec::with_capacity(e.operands.len());
        for a in &e.operands {
            operands.push(read(top, *a)?);
        }
        let outlined = e.op.opened(|role| role == Role::Outline);
        if let Some(callee) = outlined.and_then(|f| self.calls.kernel(f, Donation::Updates)) {
            let mut region = Region::new(RegionKind::Call(callee), e.outputs.len());
            region.initial_values = self.callees[callee].donated().collect();
            self.region(region, top, operands)?;
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
                return Ok(Some(frame(callee, &operands, e.outputs.clone(), origin)));
            }
            Lowering::Missing(problem) => return Err(problem),
            Lowering::Branch { branches } => {
                let pairs = branch_results(self.module, &branches);
                let branches = branches.into_iter();
                let branches =
                    branches.map(|f| self.unit(f, Donation::BranchResults(pairs.clone())));
                let branches = branches.collect::<Result<Vec<KernelId>, _>>()?;
                let donates =
                    |k: &KernelId, pair| self.callees[*k].donated().any(|donated| donated == pair);
                // If some branches compute a result in the memory of its initial value, the other branches copy their
                // results to that memory.
                let begun = pairs.iter().filter(|pair| branches.iter().any(|k| donates(k, **pair)));
                let all = |pair: &&(usize, usize)| branches.iter().all(|k| donates(k, **pair));
                let initial_values = begun.clone().map(|(p, result)| (p + 1, *result)).collect();
                let double_buffered =
                    begun.filter(|p| !all(p)).map(|(_, result)| *result).collect();
                let kind = RegionKind::Branch(branches);
                let region = Region {
                    initial_values,
                    double_buffered,
                    ..Region::new(kind, e.outputs.len())
                };
                self.region(region, top, operands)?;
                return Ok(None);
            }
            Lowering::Loop { body, spec } => {
                self.iterations(body, spec, top, operands)?;
                return Ok(None);
            }
            Lowering::Alias { mark, .. } => {
                let mut source = operands[0];
                if let (Some(mark), Source::Node(node)) = (mark, source) {
                    let node = match mark {
                        Mark::Residual | Mark::Packed | Mark::Rounded => self.graph.held(node),
                        Mark::Rematerialize
                        | Mark::AfterForward
                        | Mark::Tape
                        | Mark::Draw(_)
                        | Mark::Split(_)
                        | Mark::Named(_) => node,
                    };
                    self.graph.keep(node, mark);
                    source = Source::Node(node);
                }
                top.values[e.outputs[0]] = Some(source);
                return Ok(None);
            }
            Lowering::Host(call) => {
                let types = operands.iter().map(|s| self.graph.array(*s)).collect();
                let function = External::Host(call);
                let signature =
                    ExternalSignature { function, operands: types, location: origin.loc };
                let kind = RegionKind::CallExternal(Arc::new(signature));
                self.region(Region::new(kind, e.outputs.len()), top, operands)?;
                return Ok(None);
            }
            Lowering::Routine(call) => {
                // A routine whose results have no elements needs no call, and its operands may be too large
                // for the routine's tables.
                if call.result_types().iter().all(|y| y.shape.elements() == 0) {
                    for output in &e.outputs {
                        let (ty, empty) = (array(&f.types[*output])?, Movement::Empty);
                        let kind = NodeKind::Movement(empty);
                        let node = Node::new(kind, SmallVec::new(), ty, e.op.name(), origin);
                        top.values[*output] = Some(Source::Node(self.graph.nodes.push(node)));
                    }
                    return Ok(None);
                }
                let signature = ExternalSignature::routine(call, origin.loc)?;
                let results = signature.results().len();
                let kind = RegionKind::CallExternal(Arc::new(signature));
                self.region(Region::new(kind, results), top, operands)?;
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
            Lowering::View { pieces, fill } => NodeKind::Movement(Movement::View { pieces, fill }),
            Lowering::Reshape => {
                // Of two consecutive reshapes only the outer one matters, so read the operand of the inner one.
                if let Some(n) = operands[0].node()
                    && let NodeKind::Movement(Movement::Reshape) = self.graph.nodes[n].kind
                {
                    operands[0] = self.graph.nodes[n].operands[0];
                }
                NodeKind::Movement(Movement::Reshape)
            }
            Lowering::Iota { axis } => NodeKind::Movement(Movement::Iota { axis }),
            Lowering::Reduce { code, identity, axes } => NodeKind::Reduce { code, identity, axes },
            Lowering::ArgReduce { axis, largest } => {
                let x = operands[0];
                if self.graph.array(x).shape[axis] >= LONG_SEARCH {
                    let place = self.search(x, axis, largest, (e.op.name(), origin));
                    top.values[e.outputs[0]] = Some(place);
                    return Ok(None);
                }
                NodeKind::ArgReduce { axis, largest }
            }
            Lowering::Cumulate { .. } | Lowering::ArgSort { .. } => {
                let ty = array(&f.types[e.outputs[0]])?;
                let x = types.first().and_then(Type::as_array);
                match self.calls.routine(&lowering, x, &ty) {
                    Some(callee) => {
                        self.region(Region::new(RegionKind::Routine(callee), 1), top, operands)?;
                        return Ok(None);
                    }
                    None => NodeKind::Movement(Movement::Empty),
                }
            }
            Lowering::Contract { batch, contract } => {
                let order = (0..array(&f.types[e.outputs[0]])?.shape.len()).collect();
                NodeKind::Contract { batch, contract, order }
            }
            Lowering::DynamicSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = array(&f.types[e.outputs[0]])?.shape;
                match literal_starts(&operands[1..], &whole, &part) {
                    Some(starts) => view(vec![shifted(0, &starts, 1)]),
                    None => NodeKind::Movement(Movement::Slice),
                }
            }
            Lowering::DynamicUpdateSlice => {
                let whole = self.graph.array(operands[0]).shape;
                let part = self.graph.array(operands[1]).shape;
                match literal_starts(&operands[2..], &whole, &part) {
                    // An array that the function `small` accepts is updated in registers: each element is selected from
                    // the update or from the old array.
                    Some(starts)
                        if small(&whole, &part, self.graph.machine)
                            && !self.changes_carry(operands[0], &whole) =>
                    {
                        let old = shifted(0, &vec![0; whole.len()], 1);
                        view(vec![shifted(1, &starts, -1), old])
                    }
                    _ => NodeKind::Update(Update::Slice),
                }
            }
            Lowering::Gather { batch, axes, bounds } => {
                NodeKind::Movement(Movement::Gather { batch, axes, bounds })
            }
            Lowering::Scatter { combine, batch, axes, bounds } => {
                NodeKind::Update(Update::Scatter { combine, batch, axes, bounds })
            }
        };
        let [output] = e.outputs.as_slice() else {
            return Err(Problem::internal(format!("`{}` has several outputs", e.op.name())));
        };
        let ty = array(&f.types[*output])?;
        let empty = |s: Source| self.graph.array(s).shape.elements() == 0;
        let (kind, operands) = match simplify(kind, operands, &ty, empty) {
            EmptyReplacement::Node(kind, operands) => (kind, operands),
            EmptyReplacement::Same(source) => {
                top.values[*output] = Some(source);
                return Ok(None);
            }
        };
        let mut chain = 0;
        if kind.is_movement() {
            let below = operands.iter().filter_map(|s| s.node()).map(|n| self.chain[n]).max();
            chain = below.unwrap_or(0) + 1;
        }
        let many = matches!(&kind, NodeKind::Movement(Movement::View { pieces, .. }) if pieces.len() > MAX_PIECES);
        let mut node = self.graph.nodes.push(Node::new(kind, operands, ty, e.op.name(), origin));
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
    /// Emits the first position of the extremum along a long axis, `min { i : x[i] = max x }` (or `min x`), as two
    /// vectorized reductions: the extremum, then the smallest position. If there is a nan, the position is that of the
    /// first nan. The extremum of bools is known, so one reduction suffices: `min { i : x[i] }`, or 0 if there is
    /// none.
    fn search(
        &mut self,
        x: Source,
        axis: usize,
        largest: bool,
        (name, origin): (&'static str, Origin),
    ) -> Source {
        let ArrayType { dtype, shape } = self.graph.array(x);
        let (rest, rank) = (shape.without(&[axis]), shape.len());
        let code = if largest { Code::Max } else { Code::Min };
        let fold = |code: Code, dtype| NodeKind::Reduce {
            code,
            identity: code.neutral(dtype).unwrap_or(Literal::zero(dtype)),
            axes: vec![axis],
        };
        let mut node = |kind, operands: &[Source], dtype, shape: &Shape| {
            let ty = ArrayType::new(dtype, shape.clone());
            let node = Node::new(kind, SmallVec::from_slice(operands), ty, name, origin);
            Source::Node(self.graph.nodes.push(node))
        };
        let beyond = Source::Literal(Literal::i64(shape[axis] as i64));
        if dtype == Dtype::Bool {
            let places = NodeKind::Movement(Movement::Iota { axis });
            let places = node(places, &[], Dtype::I64, &shape);
            let chosen = if largest { [x, places, beyond] } else { [x, beyond, places] };
            let chosen = node(NodeKind::Map(Code::Select), &chosen, Dtype::I64, &shape);
            let place = node(fold(Code::Min, Dtype::I64), &[chosen], Dtype::I64, &rest);
            let found = node(NodeKind::Map(Code::Lt), &[place, beyond], Dtype::Bool, &rest);
            let chosen = [found, place, Source::Literal(Literal::i64(0))];
            return node(NodeKind::Map(Code::Select), &chosen, Dtype::I64, &rest);
        }
        let most = node(fold(code, dtype), &[x], dtype, &rest);
        let axes = (0..rank).filter(|a| *a != axis).map(|a| AxisMap::shifted(a, 0)).collect();
        let most = node(view(vec![Piece { operand: 0, axes }]), &[most], dtype, &shape);
        let mut found = node(NodeKind::Map(Code::Eq), &[x, most], Dtype::Bool, &shape);
        if dtype.is_float() {
            let nan = node(NodeKind::Map(Code::Ne), &[x, x], Dtype::Bool, &shape);
            found = node(NodeKind::Map(Code::Or), &[found, nan], Dtype::Bool, &shape);
        }
        let place = node(NodeKind::Movement(Movement::Iota { axis }), &[], Dtype::I64, &shape);
        let chosen = [found, place, beyond];
        let place = node(NodeKind::Map(Code::Select), &chosen, Dtype::I64, &shape);
        node(fold(Code::Min, Dtype::I64), &[place], Dtype::I64, &rest)
    }

    fn unit(&self, function: FuncId, donation: Donation) -> Result<KernelId, Problem> {
        let kernel = self.calls.kernel(function, donation);
        kernel.ok_or_else(|| Problem::internal("the body of a region is not a kernel"))
    }

    /// Adds a loop to the graph. The initial values of its carries are operands; if the trip count is 0, they
    /// are the results.
    fn iterations(
        &mut self,
        body: FuncId,
        spec: LoopSpec,
        top: &mut Frame,
        operands: SmallVec<[Source; 2]>,
    ) -> Result<(), Problem> {
        let carries = carries(&spec);
        let slot = |p: usize| spec.lead() + spec.params().take_while(|q| *q < p).count();
        let initial_values: Vec<(usize, usize)> =
            carries.iter().map(|(p, r)| (slot(*p), *r)).collect();
        let f = top.function.clone();
        let e = &f.equations[top.next - 1];
        if spec.trip == TripCount::Static(0) {
            for (r, output) in e.outputs.iter().enumerate() {
                let begun = initial_values.iter().find(|(_, result)| *result == r);
                top.values[*output] = Some(match begun {
                    Some((slot, _)) => operands[*slot],
                    None => {
                        let (ty, origin) = (array(&f.types[*output])?, top.origin(top.next - 1));
                        let (kind, operands) = match &f.types[*output] {
                            // The handle (run-time value) of a dynamic tape without records is two zeros.
                            Type::Tape(_) => {
                                let kind = view(vec![Piece { operand: 0, axes: Vec::new() }]);
                                (kind, SmallVec::from_slice(&[Source::Literal(Literal::i64(0))]))
                            }
                            Type::Array(_) => {
                                (NodeKind::Movement(Movement::Empty), SmallVec::new())
                            }
                        };
                        let node = Node::new(kind, operands, ty, e.op.name(), origin);
                        Source::Node(self.graph.nodes.push(node))
                    }
                });
            }
            return Ok(());
        }
        let condition = match &spec.trip {
            TripCount::While { condition, .. } => {
                Some(self.unit(*condition, Donation::LoopCarries(Vec::new()))?)
            }
            TripCount::Static(_) | TripCount::Runtime => None,
        };
        let body = self.unit(body, Donation::LoopCarries(carries.clone()))?;
        let donated: Vec<(usize, usize)> = self.callees[body].donated().collect();
        let not_in_place = carries.iter().filter(|pair| !donated.contains(pair));
        let double_buffered = not_in_place.map(|(_, result)| *result).collect();
        let tape = |ty: &Type| matches!(ty, Type::Tape(_));
        let stacked = |r: &usize| spec.carrier(*r).is_none();
        let written = (0..e.outputs.len()).filter(stacked);
        let written = written.filter(|r| tape(&f.types[e.outputs[*r]])).collect();
        let elements = spec.params().enumerate().filter(|(_, p)| spec.takes[*p] == Binding::Xs);
        let elements: Vec<usize> = elements.map(|(k, _)| spec.lead() + k).collect();
        self.mark_tape(elements.iter().map(|k| operands[*k]), spec.direction);
        let read = elements.into_iter();
        let read = read.filter(|k| tape(&f.type_of(e.operands[*k]))).collect();
        let kind = RegionKind::Loop { body, condition, spec };
        let region = Region::new(kind, e.outputs.len());
        let region = Region { initial_values, double_buffered, written, read, ..region };
        self.region(region, top, operands)
    }

    /// Marks an array as tape if a loop stacks it and another loop reads it in the opposite direction, as reverse
    /// mode does. Reverse mode itself marks only the residuals that it was requested to save.
    fn mark_tape(&mut self, elements: impl Iterator<Item = Source>, direction: Direction) {
        for node in elements.filter_map(|x| x.node()) {
            let NodeKind::Result { of, n } = self.graph.nodes[node].kind else { continue };
            let RegionKind::Loop { spec, .. } = &self.graph.regions[of].kind else { continue };
            if spec.direction != direction && spec.carrier(n).is_none() {
                self.graph.keep(node, Mark::Tape);
            }
        }
    }

    /// Adds the region (call, branch, loop or external call) of the previous equation, and one node for each
    /// of its results.
    fn region(
        &mut self,
        mut region: Region,
        top: &mut Frame,
        mut operands: SmallVec<[Source; 2]>,
    ) -> Result<(), Problem> {
        let f = top.function.clone();
        let (e, own) = (&f.equations[top.next - 1], top.origin(top.next - 1));
        region.ordered = e.op.effects(self.module) == Effects::Ordered;
        let results = region.results;
        // The signature of a routine lists its scratch memory as one more result after the equation's.
        let scratch = match &region.kind {
            RegionKind::CallExternal(s) => s.results().get(e.outputs.len()).cloned(),
            RegionKind::Call(_)
            | RegionKind::Routine(_)
            | RegionKind::Branch(_)
            | RegionKind::Loop { .. } => None,
        };
        let of = self.graph.regions.push(region);
        for n in 0..results.max(1) {
            let output = e.outputs.get(n).filter(|_| n < results);
            let ty = match output {
                Some(output) => array(&f.types[*output])?,
                None => {
                    let scratch = scratch.clone().filter(|_| !planted(Fault::RoutineScratch));
                    scratch.unwrap_or(ArrayType::new(Dtype::Bool, []))
                }
            };
            let kind = NodeKind::Result { of, n };
            let Maker { what, at, packed, named } = maker(self.module, &f, top.next - 1, n);
            let origin = Origin { loc: at.or(own.loc), ..own };
            let mut node = Node::new(kind, operands.clone(), ty, what, origin);
            node.kept.extend(packed);
            node.label = named;
            let result = Source::Node(self.graph.nodes.push(node));
            if n == 0 {
                operands = SmallVec::from_slice(&[result]);
            }
            if let Some(output) = output {
                top.values[*output] = Some(result);
            }
        }
        Ok(())
    }
}

/// Returns a view that assembles its elements from `pieces` of operands, without a fill value for other elements. The
/// pieces must cover the whole view.
fn view(pieces: Vec<Piece>) -> NodeKind {
    NodeKind::Movement(Movement::View { pieces, fill: None })
}

/// If all starts of a slice or update are constants, returns these starts, clamped so that an array of shape `part`
/// lies inside an array of shape `whole`.
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

/// Returns the piece of a view that reads its operand with an offset: along each axis, the output index `o` reads the
/// element `o + start`, or `o - start` if `sign` is -1.
fn shifted(operand: usize, starts: &[i64], sign: i64) -> Piece {
    let axes =
        starts.iter().enumerate().map(|(axis, s)| AxisMap::shifted(axis, sign * s)).collect();
    Piece { operand, axes }
}

/// Returns whether an update is computed in registers instead of memory: the array has at most `register_elements`
/// elements, counted per batch item if the update replaces whole items of the first axis.
fn small(whole: &[usize], part: &[usize], machine: MachineModel) -> bool {
    let batch = match (whole, part) {
        ([n, ..], [m, ..]) if n == m && whole.len() > 1 => *n,
        _ => 1,
    };
    Shape::from(whole).elements() / batch.max(1) <= machine.register_elements
}

fn frame(
    function: Arc<Function>,
    args: &[Source],
    outputs: SmallVec<[ValueId; 1]>,
    call: Origin,
) -> Frame {
    let mut values = SecondaryMap::with_capacity(function.types.len());
    for (p, a) in function.all_params().zip(args) {
        values[p] = Some(*a);
    }
    Frame { function, next: 0, values, required_passes: SecondaryMap::new(), outputs, call }
}

fn read(frame: &Frame, atom: Atom) -> Result<Source, Problem> {
    match atom {
        Atom::Literal(l) => Ok(Source::Literal(l)),
        Atom::Value(v) => frame.values[v]
            .ok_or_else(|| Problem::internal(format!("{v} is read before it is defined"))),
    }
}

/// Returns the type of a value as an array. A tape is represented by its handle ([`crate::loop_ir::handle`]).
pub(crate) fn array(ty: &Type) -> Result<ArrayType, Problem> {
    match ty {
        Type::Array(a) if a.checked_bytes().is_some() => Ok(a.clone()),
        Type::Array(a) => Err(Problem::new(
            Kind::TooLarge,
            format!("an array of type {a} does not fit in memory"),
            "make the array smaller, or compute it in parts",
        )),
        Type::Tape(_) => Ok(ArrayType::new(Dtype::I64, [2])),
    }
}
