//! Emits regions as statements: calls, external functions, branches, and loops whose bodies are calls.
//!
//! ```text
//! loop{body=@step, trip=8, direction=up, takes=[const,carry0,xs]} %0, %1, %2
//!
//! serial i0 in 8 carry b3 = b3.1 {
//!   call k0(b0[0; 1], b3[0; 1], b2[i0*4; 4]) to (b3.1[0; 1], b4[i0*4; 4]) frame 64
//! }
//! ```
//!
//! If the body updates a carry in place, the carry lies in one buffer; otherwise in two buffers that are exchanged
//! after each iteration. Stacked arrays are read and written in place, one element for each iteration. The frame (the
//! region's part of the caller's workspace) begins with the workspace of the callee. After that, it has room for the
//! second buffers of exchanged carries, for the iteration number and for the value of a condition.

use super::emit::Convert;
use super::tape_cursors::TapeAccesses;
use crate::loop_ir::{
    Address, Arg, BUFFER_ALIGNMENT_BYTES, Buffer, BufferId, BufferVersion, Call, CallExternal,
    Carry, Effect, Expr, Extent, IndexId, Kernel, KernelId, LimitStmt, LoopLimit, Origins,
    Parallelism, Place, Stmt, Version, View, visit,
};
use crate::lower::graph::Graph;
use crate::lower::graph::region_node::RegionKind;
use crate::lower::trees::loop_tree::{RegionStep, Span};
use cranelift_entity::{EntityRef, PrimaryMap};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{self, Binding, Direction, TripCount};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Problem};

/// The frame of a region, which is its part of the caller's workspace. All numbers are in bytes: the size of the frame,
/// and offsets from its beginning.
pub(crate) struct Frame {
    pub(crate) bytes: usize,
    /// The offset of the iteration number, if the body uses it.
    index: usize,
    /// The offset of the value of a while loop's condition.
    truth: usize,
    /// The offsets of the second buffers of results that have two buffers, in the order of `Region::double_buffered`.
    next: Vec<usize>,
}

/// A loop whose body has no loops and calls is not counted against the limit of iterations if its static trip count is
/// below this number.
const SHORT: usize = 1024;

impl Frame {
    pub(crate) fn of(
        graph: &Graph,
        step: &RegionStep,
        callees: &PrimaryMap<KernelId, Kernel>,
    ) -> Frame {
        let region = &graph.regions[step.region];
        let kernels = region.kind.kernels();
        let mut at = kernels.iter().map(|k| callees[*k].workspace).max().unwrap_or(0);
        let mut place = |bytes: usize| {
            let here = at.checked_next_multiple_of(BUFFER_ALIGNMENT_BYTES).unwrap_or(usize::MAX);
            at = here.saturating_add(bytes);
            here
        };
        let (mut index, mut truth) = (0, 0);
        if let RegionKind::Loop { condition, spec, .. } = &region.kind {
            if spec.takes.contains(&Binding::Index) {
                index = place(Dtype::I64.bytes());
            }
            if condition.is_some() {
                truth = place(Dtype::Bool.bytes());
            }
        }
        let bytes = |n: &usize| graph.nodes[step.results[*n]].ty.bytes();
        let next = region.double_buffered.iter().map(|n| place(bytes(n))).collect();
        Frame { bytes: at, index, truth, next }
    }
}

/// The call of a loop body, with the memory of its operands and results.
struct Iteration<'s> {
    step: &'s RegionStep,
    spec: &'s prim::LoopSpec,
    body: KernelId,
    frame: usize,
    /// The view of the memory that holds the iteration number, if the body reads it.
    number: Option<View>,
    /// For each carried result: its number, and the buffers from which an iteration reads it and to which it writes it.
    carries: Vec<(usize, Carry)>,
    tape_accesses: TapeAccesses,
}

impl Iteration<'_> {
    /// Returns whether the body or a tape access uses the iteration number.
    fn counts(&self) -> bool {
        self.number.is_some() || !self.tape_accesses.is_empty()
    }
}

impl Convert<'_> {
    /// Emits the statement of a region (call, branch or loop).
    pub(crate) fn region(&mut self, r: &RegionStep, out: &mut Vec<Stmt>) -> Result<(), Problem> {
        let graph = self.graph;
        let frame = self.memory.frames.get(&r.first).copied().unwrap_or(0);
        let stmt = match &graph.regions[r.region].kind {
            RegionKind::Call(callee) | RegionKind::Routine(callee) => {
                let (operands, outputs) = (self.spans(&r.operands)?, self.results(r)?);
                // Add only the equation of the call, without the callee's equations: there may be thousands of calls.
                let origins = self.origins_of_nodes([r.first]);
                Stmt::Call(Call { callee: *callee, operands, outputs, frame, origins })
            }
            RegionKind::CallExternal(signature) => {
                let (operands, outputs) = (self.spans(&r.operands)?, self.results(r)?);
                let (signature, origins) = (signature.clone(), self.origins(r));
                Stmt::CallExternal(CallExternal { signature, operands, outputs, origins })
            }
            RegionKind::Branch(branches) => self.branch(r, branches, frame)?,
            RegionKind::Loop { body, condition, spec } => {
                self.loop_(r, (*body, *condition), spec, frame)?
            }
        };
        out.push(stmt);
        Ok(())
    }

    fn span(&self, p: &Span) -> Result<View, Problem> {
        let (held, at) = (self.held(p.node)?, Address::constant(p.offset));
        Ok(View { held, at, elements: p.elements })
    }

    fn spans(&self, spans: &[Span]) -> Result<Vec<View>, Problem> {
        spans.iter().map(|s| self.span(s)).collect()
    }

    /// Returns the views of memory to which the results of a region (a call, branch or loop) are written.
    fn results(&self, r: &RegionStep) -> Result<Vec<View>, Problem> {
        let whole = |node| {
            let elements = self.graph.nodes[node].ty.shape.elements();
            self.span(&Span { node, offset: 0, elements })
        };
        r.results.iter().map(|n| whole(*n)).collect()
    }

    /// Adds a buffer at `offset` in the workspace and returns it. The offset lies inside the frame of the region (the
    /// region's part of the workspace).
    fn own(&mut self, ty: ArrayType, offset: usize) -> BufferId {
        self.kernel.buffers.push(Buffer::new(ty, Place::Workspace(offset)))
    }

    /// Emits a load of the first element of a view, and returns the loaded value.
    fn scalar(&mut self, view: &View, dtype: Dtype, out: &mut Vec<Stmt>) -> Arg {
        let value = self.kernel.scalars.push(dtype);
        let expr = Expr::Load { held: view.held, address: view.at.clone(), guard: None };
        out.push(Stmt::Let { value, expr });
        Arg::Scalar(value)
    }

    /// Emits a branch over calls. A boolean that is true selects the second branch; an integer is clamped to
    /// a valid branch number.
    fn branch(
        &mut self,
        r: &RegionStep,
        branches: &[KernelId],
        frame: usize,
    ) -> Result<Stmt, Problem> {
        let views = self.spans(&r.operands)?;
        let Some((which, operands)) = views.split_first() else {
            return Err(Problem::internal("a branch without a condition"));
        };
        let outputs = self.results(r)?;
        let layout = Frame::of(self.graph, r, self.memory.callees);
        let mut calls = Vec::new();
        for callee in branches {
            calls.push(self.called(r, *callee, operands, &outputs, frame, &layout));
        }
        let dtype = self.kernel.buffers[which.held.buffer].ty.dtype;
        let mut code = Vec::new();
        let which = self.scalar(which, dtype, &mut code);
        let Some(mut chosen) = calls.pop() else {
            return Err(Problem::internal("a branch without sides"));
        };
        for (k, branch) in calls.into_iter().enumerate().rev() {
            let mut block = Vec::new();
            let (condition, then, otherwise) = match dtype {
                Dtype::Bool if planted(Fault::BranchTaken) => (which, branch, chosen),
                Dtype::Bool => (which, chosen, branch),
                Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 | Dtype::F32 | Dtype::F64 => {
                    let value = self.kernel.scalars.push(Dtype::Bool);
                    let args = vec![which, Arg::Literal(Literal::i64(k as i64))];
                    block.push(Stmt::Let { value, expr: Expr::Code(Code::Le, args) });
                    (Arg::Scalar(value), branch, chosen)
                }
            };
            block.push(Stmt::If { condition, then, otherwise, origins: self.origins(r) });
            chosen = block;
        }
        code.extend(chosen);
        Ok(Stmt::Nest { body: code, origins: self.origins(r) })
    }

    /// Returns the equations that a region (a call, branch or loop) computes: its own equation, and the equations of
    /// the kernels that it runs.
    fn origins(&self, r: &RegionStep) -> Origins {
        let kernels = self.graph.regions[r.region].kind.kernels();
        let own = self.origins_of_nodes([r.first]);
        kernels.iter().fold(own, |all, k| all.united(&self.memory.callees[*k].origins()))
    }

    /// Emits the call of one branch of a region. If this branch computes a result in other memory than the branches
    /// that update it in place, the result is copied after the call.
    fn called(
        &mut self,
        r: &RegionStep,
        callee: KernelId,
        operands: &[View],
        results: &[View],
        frame: usize,
        layout: &Frame,
    ) -> Vec<Stmt> {
        let region = &self.graph.regions[r.region];
        let donated: Vec<usize> =
            self.memory.callees[callee].donated().map(|(_, result)| result).collect();
        let mut outputs = results.to_vec();
        let mut copies = Vec::new();
        for (position, n) in region.double_buffered.iter().enumerate() {
            if !donated.contains(n) {
                let ty = self.graph.nodes[r.results[*n]].ty.clone();
                let buffer = self.own(ty, frame + layout.next[position]);
                outputs[*n] = View { held: BufferVersion::first(buffer), ..results[*n].clone() };
                copies.push(self.copy(r, &outputs[*n], &results[*n]));
            }
        }
        let operands = operands.to_vec();
        let origins = self.memory.callees[callee].origins();
        let call = Stmt::Call(Call { callee, operands, outputs, frame, origins });
        std::iter::once(call).chain(copies).collect()
    }

    /// Returns a loop that copies the elements of view `from` to view `to`, for a result of region `r`.
    fn copy(&mut self, r: &RegionStep, from: &View, to: &View) -> Stmt {
        let index = self.kernel.fresh_index();
        let value = self.kernel.scalars.push(self.kernel.buffers[from.held.buffer].ty.dtype);
        let along = |view: &View| {
            let mut at = view.at.clone();
            at.terms.push((index, 1));
            at
        };
        let expr = Expr::Load { held: from.held, address: along(from), guard: None };
        let store = store(&View { at: along(to), ..to.clone() }, Arg::Scalar(value));
        Stmt::For {
            index,
            extent: Extent::Constant(from.elements),
            parallelism: Parallelism::Parallel,
            lanes: 1,
            carries: Vec::new(),
            body: vec![Stmt::Let { value, expr }, store],
            origins: self.origins_of_nodes([r.first]),
        }
    }

    /// Emits a loop that calls the body kernel, for a static or run-time trip count.
    fn loop_(
        &mut self,
        r: &RegionStep,
        (body, condition): (KernelId, Option<KernelId>),
        spec: &prim::LoopSpec,
        frame: usize,
    ) -> Result<Stmt, Problem> {
        let layout = Frame::of(self.graph, r, self.memory.callees);
        let carries = self.carried(r, spec, frame, &layout)?;
        let number = spec.takes.contains(&Binding::Index).then(|| {
            let buffer = self.own(ArrayType::new(Dtype::I64, []), frame + layout.index);
            View::whole(BufferVersion::first(buffer), 1)
        });
        let mut code = Vec::new();
        let tape_accesses = self.tape_accesses(r, (body, spec.lead()), spec, &mut code)?;
        let iteration = Iteration { step: r, spec, body, frame, number, carries, tape_accesses };
        let carries: Vec<Carry> = iteration.carries.iter().map(|(_, c)| *c).collect();
        if let (Some(condition), TripCount::While { reads, .. }) = (condition, &spec.trip) {
            let truth = frame + layout.truth;
            return self.while_(&iteration, condition, reads, carries, truth, code);
        }
        let index = self.kernel.fresh_index();
        let (extent, last) = match spec.trip {
            TripCount::Static(n) => (Extent::Constant(n), Arg::Literal(Literal::i64(n as i64 - 1))),
            TripCount::Runtime | TripCount::While { .. } => {
                let trip = self.span(first(&r.operands)?)?;
                let n = self.scalar(&trip, Dtype::I64, &mut code);
                let one = Arg::Literal(Literal::i64(1));
                let last = match (spec.direction, iteration.counts()) {
                    (Direction::Down, true) => self.integer(Code::Sub, n, one, &mut code),
                    (Direction::Up, _) | (Direction::Down, false) => n,
                };
                (Extent::Scalar(n), last)
            }
        };
        let trip = match extent {
            Extent::Scalar(n) => Some(n),
            Extent::Constant(_) => None,
        };
        let mut body = Vec::new();
        self.limit(&iteration, trip, &mut code, &mut body);
        if iteration.counts() {
            let value = match spec.direction {
                Direction::Up => Arg::Index(index),
                Direction::Down => self.integer(Code::Sub, last, Arg::Index(index), &mut body),
            };
            body.extend(iteration.number.as_ref().map(|number| store(number, value)));
            self.move_cursors(&iteration.tape_accesses, value, &mut body);
        }
        body.push(self.call(&iteration, index)?);
        let (parallelism, origins) = (Parallelism::Serial, self.origins(r));
        code.push(Stmt::For { index, extent, parallelism, lanes: 1, carries, body, origins });
        Ok(Stmt::nest(code, self.origins(r)))
    }

    /// Emits a while loop; its last result counts the iterations.
    fn while_(
        &mut self,
        iteration: &Iteration<'_>,
        condition: KernelId,
        reads: &[usize],
        carries: Vec<Carry>,
        truth: usize,
        mut code: Vec<Stmt>,
    ) -> Result<Stmt, Problem> {
        let results = self.results(iteration.step)?;
        let Some(count) = results.last() else {
            return Err(Problem::internal("a loop with a condition that does not count"));
        };
        code.push(store(count, Arg::Literal(Literal::i64(0))));
        let buffer = self.own(ArrayType::new(Dtype::Bool, []), truth);
        let answer = View::whole(BufferVersion::first(buffer), 1);
        let operand = |p: &usize| self.operand(iteration, *p, None);
        let operands = reads.iter().map(operand).collect::<Result<_, _>>()?;
        let outputs = vec![answer.clone()];
        let (callee, frame) = (condition, iteration.frame);
        let origins = self.memory.callees[callee].origins();
        let mut head = vec![Stmt::Call(Call { callee, operands, outputs, frame, origins })];
        let condition = self.scalar(&answer, Dtype::Bool, &mut head);
        let mut body = Vec::new();
        self.limit(iteration, None, &mut code, &mut body);
        if iteration.counts() {
            let n = self.scalar(count, Dtype::I64, &mut body);
            body.extend(iteration.number.as_ref().map(|number| store(number, n)));
            self.move_cursors(&iteration.tape_accesses, n, &mut body);
        }
        // A while loop has no index, so pass an arbitrary one: the body reads the iteration number from memory instead.
        let none = IndexId::new(0);
        body.push(self.call(iteration, none)?);
        let n = self.scalar(count, Dtype::I64, &mut body);
        let next = self.integer(Code::Add, n, Arg::Literal(Literal::i64(1)), &mut body);
        body.push(store(count, next));
        let origins = self.origins(iteration.step);
        code.push(Stmt::While { head, condition, carries, body, origins: origins.clone() });
        Ok(Stmt::Nest { body: code, origins })
    }

    /// If the compilation options limit loops, adds the statements that count iterations against the limit, before the
    /// loop and at the beginning of its body. Static loops of fewer than `SHORT` iterations without inner loops and
    /// calls are not counted.
    fn limit(
        &mut self,
        iteration: &Iteration<'_>,
        trip: Option<Arg>,
        before: &mut Vec<Stmt>,
        body: &mut Vec<Stmt>,
    ) {
        let inside = &self.memory.callees[iteration.body].body;
        let Some(limited) = &mut self.tapes.limited else { return };
        let runtime = match iteration.spec.trip {
            TripCount::Runtime | TripCount::While { .. } => true,
            TripCount::Static(n) if n < SHORT && !repeats(inside) => return,
            TripCount::Static(_) => false,
        };
        let limit = limited
            .push(LoopLimit { runtime, loc: self.graph.nodes[iteration.step.first].origin.loc });
        before.push(Stmt::Limit(LimitStmt::Enter { limit, trip }));
        body.push(Stmt::Limit(LimitStmt::Count(limit)));
    }

    /// Returns, for each carried result, its number and the buffers from which an iteration reads it and to which it
    /// writes it.
    fn carried(
        &mut self,
        r: &RegionStep,
        spec: &prim::LoopSpec,
        frame: usize,
        layout: &Frame,
    ) -> Result<Vec<(usize, Carry)>, Problem> {
        let double_buffered = &self.graph.regions[r.region].double_buffered;
        let mut carries = Vec::new();
        for (n, node) in r.results.iter().enumerate() {
            if spec.carrier(n).is_none() {
                continue;
            }
            let input = self.held(*node)?;
            let output = match double_buffered.iter().position(|e| *e == n) {
                Some(position) => {
                    let ty = self.graph.nodes[*node].ty.clone();
                    let buffer = self.own(ty, frame + layout.next[position]);
                    BufferVersion::first(buffer)
                }
                None => {
                    let versions = &mut self.kernel.versions[input.buffer];
                    versions.push(Version { continues: Some(input.version) });
                    BufferVersion { version: versions.len() as u32, ..input }
                }
            };
            carries.push((n, Carry { input, output }));
        }
        Ok(carries)
    }

    /// Returns the call of the body kernel in iteration `index`.
    fn call(&self, iteration: &Iteration<'_>, index: IndexId) -> Result<Stmt, Problem> {
        let params = 0..iteration.spec.takes.len();
        let operands =
            params.map(|p| self.operand(iteration, p, Some(index))).collect::<Result<_, _>>()?;
        let results = self.results(iteration.step)?;
        let mut outputs = Vec::new();
        for (n, ty) in self.memory.callees[iteration.body].outputs().into_iter().enumerate() {
            let elements = ty.1.shape.elements();
            if let Some((_, field)) =
                iteration.tape_accesses.written.iter().find(|(of, _)| *of == n)
            {
                outputs.push(field.clone());
                continue;
            }
            outputs.push(match iteration.carries.iter().find(|(result, _)| *result == n) {
                Some((_, Carry { output, .. })) => View::whole(*output, elements),
                None => element(&results[n], iteration.spec, index, elements),
            });
        }
        let (callee, frame) = (iteration.body, iteration.frame);
        let origins = self.memory.callees[callee].origins();
        Ok(Stmt::Call(Call { callee, operands, outputs, frame, origins }))
    }

    /// Returns the view of memory that parameter `p` of the body reads in iteration `index`.
    fn operand(
        &self,
        iteration: &Iteration<'_>,
        p: usize,
        index: Option<IndexId>,
    ) -> Result<View, Problem> {
        let spec = iteration.spec;
        let slot = spec.lead() + spec.params().take_while(|q| *q < p).count();
        let missing = || Problem::internal("a loop has more parameters than operands");
        let field = iteration.tape_accesses.read.iter().find(|(of, _)| *of == slot);
        if let (Binding::Xs, Some((_, field))) = (spec.takes[p], field) {
            return Ok(field.clone());
        }
        let given = || self.span(iteration.step.operands.get(slot).ok_or_else(missing)?);
        match (spec.takes[p], index) {
            (Binding::Index, _) => iteration.number.clone().ok_or_else(missing),
            (Binding::Const, _) => given(),
            (Binding::Carry(n), _) => {
                let carry = iteration.carries.iter().find(|(result, _)| *result == n);
                Ok(View::whole(carry.ok_or_else(missing)?.1.input, given()?.elements))
            }
            (Binding::Xs, Some(index)) => {
                let all = given()?;
                let elements = match spec.trip {
                    TripCount::Static(n) => all.elements / n.max(1),
                    TripCount::Runtime | TripCount::While { .. } => return Err(missing()),
                };
                Ok(element(&all, spec, index, elements))
            }
            (Binding::Xs, None) => Err(missing()),
        }
    }
}

/// Returns whether a block contains a loop or a call.
fn repeats(body: &[Stmt]) -> bool {
    let mut found = false;
    visit(body, &mut |s| {
        let shape = s.shape();
        found |=
            shape.flow.is_loop() || matches!(shape.effect, Effect::Call(_) | Effect::External(_));
    });
    found
}

/// Returns the view of the element of a stacked array that iteration `index` reads or writes. This element is itself an
/// array of `elements` numbers.
fn element(all: &View, spec: &prim::LoopSpec, index: IndexId, elements: usize) -> View {
    let mut at = all.at.clone();
    let stride = elements as i64;
    match (spec.direction, &spec.trip) {
        (Direction::Down, TripCount::Static(n)) if !planted(Fault::Element) => {
            at.offset += stride * (*n as i64 - 1);
            at.terms.push((index, -stride));
        }
        (Direction::Up | Direction::Down, _) => at.terms.push((index, stride)),
    }
    View { at, elements, ..all.clone() }
}

fn store(to: &View, value: Arg) -> Stmt {
    Stmt::Store { held: to.held, address: to.at.clone(), value, guard: None }
}

fn first(spans: &[Span]) -> Result<&Span, Problem> {
    spans.first().ok_or_else(|| Problem::internal("a region without an operand"))
}
