//! From loop trees to a [`Program`]: memory for the nodes that need it, addresses, dense numbers.
//!
//! Stores of nodes that nobody loads are dropped, and then the scalars that nobody reads. An axis of
//! a node along which every access is at the same loop's index needs no memory: the node lives
//! within one iteration, and its buffer is that of one iteration (a row of exponentials between the
//! two inner loops of a softmax). Updates share the memory of what they write over.

use super::affine::{Affine, Index, Term};
use super::emit::Emitted;
use super::graph::{Graph, Kind, NodeId};
use super::memory::{self, Life};
use super::tree::{At, Step as TreeStep, Tree, Value};
use crate::kernel::{
    self, Address, Arg, Buffer, BufferId, Contract, Expr, Extent, IndexId, Kernel, Matrix, Place,
    Program, Rounds, ScalarId, Stmt, VarId, Version,
};
use crate::plan::{Plan, Row};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::collections::HashMap;
use tapeloom_ir::{ArrayType, Code, Dtype, Kind as ProblemKind, Literal, Problem, Shape};

/// The program and its memory plan. `params` and `results` are the types of the function.
pub(crate) fn finish(
    name: &str,
    params: &[ArrayType],
    graph: &Graph,
    mut emitted: Emitted,
) -> Result<(Program, Plan), Problem> {
    let mut live: SecondaryMap<ScalarId, bool> = SecondaryMap::with_capacity(emitted.scalars.len());
    for step in emitted.steps.iter_mut().rev() {
        if let TreeStep::Nest(code) = step {
            sweep(code, &emitted.needs, &mut live);
        }
    }
    emitted.steps.retain(|s| !matches!(s, TreeStep::Nest(code) if code.is_empty()));

    let storage = Storage::of(graph, &emitted);
    let mut buffers: PrimaryMap<BufferId, Buffer> = PrimaryMap::new();
    let mut of_node: SecondaryMap<NodeId, Option<BufferId>> = SecondaryMap::new();
    for (i, ty) in params.iter().enumerate() {
        buffers.push(Buffer { ty: ty.clone(), place: Place::Input(i) });
    }
    for (id, node) in graph.nodes.iter() {
        if let Kind::Input(i) = node.kind {
            of_node[id] = Some(BufferId::new(i));
        }
    }
    let mut rows = Vec::new();
    for (i, r) in graph.results.iter().enumerate() {
        let root = storage.root(*r);
        let ty = graph.nodes[*r].ty.clone();
        let buffer = buffers.push(Buffer { ty, place: Place::Output(i) });
        of_node[root] = Some(buffer);
        rows.push((root, buffer));
    }
    // Roots in the order of nodes, so that the numbers of buffers rise through the program.
    let mut wanting: Vec<(NodeId, BufferId)> = Vec::new();
    for id in graph.nodes.keys() {
        let root = storage.root(id);
        if emitted.needs[id] && root == id && of_node[id].is_none() {
            if storage.life[root].is_none() {
                continue;
            }
            let ty = ArrayType { dtype: graph.nodes[id].ty.dtype, shape: storage.shape(graph, id) };
            let buffer = buffers.push(Buffer { ty, place: Place::Workspace(0) });
            of_node[id] = Some(buffer);
            wanting.push((id, buffer));
        }
    }
    let lives: Vec<Life> = wanting
        .iter()
        .map(|(id, buffer)| {
            let (first, last) = storage.life[*id].unwrap_or((0, 0));
            Life { first, last, bytes: buffers[*buffer].ty.bytes() }
        })
        .collect();
    let (offsets, peak) = memory::plan(&lives).ok_or_else(|| {
        Problem::new(
            ProblemKind::TooLarge,
            format!("the intermediate results of @{name} are larger than memory can be"),
            "reduce an extent, or process the data in parts",
        )
    })?;
    for ((_, buffer), offset) in wanting.iter().zip(&offsets) {
        buffers[*buffer].place = Place::Workspace(*offset);
    }
    rows.extend(wanting);
    for id in graph.nodes.keys() {
        let root = storage.root(id);
        of_node[id] = of_node[id].or(of_node[root]);
    }

    let held = Held::of(graph, &emitted, &of_node);
    let mut convert = Convert {
        graph,
        storage: &storage,
        of_node: &of_node,
        held: &held,
        old: &emitted,
        scalars: PrimaryMap::new(),
        vars: PrimaryMap::new(),
        indices: 0,
        new_scalar: SecondaryMap::new(),
        new_var: SecondaryMap::new(),
        new_index: SecondaryMap::new(),
        scaled: Vec::new(),
    };
    let mut body = Vec::with_capacity(emitted.steps.len());
    for step in &emitted.steps {
        body.push(match step {
            TreeStep::Nest(code) => Stmt::nest(super::collapse::collapse(convert.block(code)?)),
            TreeStep::Library(l) => Stmt::Contract(Contract {
                dtype: l.dtype,
                m: l.m,
                n: l.n,
                k: l.k,
                accumulate: false,
                lhs: convert.matrix(l.lhs)?,
                rhs: convert.matrix(l.rhs)?,
                out: convert.matrix(l.out)?,
                batch: l.batch.clone(),
            }),
        });
    }
    let plan = Plan {
        rows: rows
            .iter()
            .map(|(id, buffer)| {
                let (first, last) = storage.life[*id].unwrap_or((0, 0));
                Row {
                    buffer: *buffer,
                    ty: buffers[*buffer].ty.clone(),
                    place: buffers[*buffer].place,
                    first,
                    last,
                    primitive: graph.nodes[*id].name,
                    location: graph.nodes[*id].loc,
                }
            })
            .collect(),
        steps: body.len(),
        peak,
    };
    let (scalars, vars, indices) = (convert.scalars, convert.vars, convert.indices);
    let mut entry = Kernel {
        name: name.to_owned(),
        buffers,
        body,
        scalars,
        vars,
        indices,
        versions: held.versions,
        workspace: peak,
    };
    kernel::claim(&mut entry);
    Ok((Program { callees: PrimaryMap::new(), entry }, plan))
}

/// Drops stores that nobody needs and scalars that nobody reads, last statement first.
fn sweep(
    code: &mut Vec<Tree>,
    needs: &SecondaryMap<NodeId, bool>,
    live: &mut SecondaryMap<ScalarId, bool>,
) {
    let mut keep = Vec::with_capacity(code.len());
    for mut tree in std::mem::take(code).into_iter().rev() {
        match &mut tree {
            Tree::For { body, .. } => {
                sweep(body, needs, live);
                if body.is_empty() {
                    continue;
                }
            }
            Tree::Let { value, expr } => {
                if !live[*value] {
                    continue;
                }
                match expr {
                    Value::Code(_, args) => args.iter().for_each(|a| mark(*a, live)),
                    Value::Load { at, guard, .. } => {
                        mark_at(at, live);
                        guard.iter().for_each(|g| mark(*g, live));
                    }
                }
            }
            Tree::Var { init, .. } => mark(*init, live),
            Tree::Set { value, .. } | Tree::Fold { value, .. } => mark(*value, live),
            Tree::Store { node, at, value, guard } => {
                if !needs[*node] {
                    continue;
                }
                mark(*value, live);
                mark_at(at, live);
                guard.iter().for_each(|g| mark(*g, live));
            }
        }
        keep.push(tree);
    }
    keep.reverse();
    *code = keep;
}

fn mark(arg: Arg, live: &mut SecondaryMap<ScalarId, bool>) {
    if let Arg::Scalar(s) = arg {
        live[s] = true;
    }
}

fn mark_at(at: &At, live: &mut SecondaryMap<ScalarId, bool>) {
    let mut affine = |a: &Affine| {
        for (t, _) in &a.terms {
            if let Term::Scalar(s) = t {
                live[*s] = true;
            }
        }
    };
    match at {
        At::Axes(index) => index.iter().for_each(affine),
        At::Flat(a) => affine(a),
    }
}

/// Which nodes share memory, when it lives, and which axes it has.
struct Storage {
    roots: SecondaryMap<NodeId, Option<NodeId>>,
    /// First and last step of each root.
    life: SecondaryMap<NodeId, Option<(usize, usize)>>,
    /// For each axis the one loop index at which it is always accessed; `None` for all axes.
    same: SecondaryMap<NodeId, Option<SmallVec<[Option<IndexId>; 4]>>>,
    fixed: SecondaryMap<NodeId, bool>,
}

/// How a step meets the memory of a node.
#[derive(Default)]
struct Meeting {
    /// The one index of all accesses; `None` where they differ.
    index: Option<Index>,
    /// Position of the last load.
    last_load: Option<usize>,
    /// Position of the first store.
    first_store: Option<usize>,
}

impl Storage {
    fn of(graph: &Graph, emitted: &Emitted) -> Storage {
        let mut storage = Storage {
            roots: SecondaryMap::with_capacity(graph.nodes.len()),
            life: SecondaryMap::with_capacity(graph.nodes.len()),
            same: SecondaryMap::with_capacity(graph.nodes.len()),
            fixed: SecondaryMap::with_capacity(graph.nodes.len()),
        };
        for id in graph.nodes.keys() {
            if let Some(taken) = emitted.takes[id] {
                // What was written over comes earlier, so its root is known.
                let root = storage.root(taken);
                storage.roots[id] = Some(root);
                storage.fixed[root] = true;
            }
        }
        for r in &graph.results {
            let root = storage.root(*r);
            storage.fixed[root] = true;
        }
        let mut meetings: Vec<HashMap<NodeId, Meeting>> = Vec::new();
        for (position, step) in emitted.steps.iter().enumerate() {
            let mut met = HashMap::new();
            match step {
                TreeStep::Nest(code) => {
                    storage.visit(code, position, &mut 0, &mut met);
                }
                TreeStep::Library(l) => {
                    for o in [l.lhs, l.rhs, l.out] {
                        let root = storage.touch(o.node, position);
                        storage.fixed[root] = true;
                    }
                }
            }
            meetings.push(met);
        }
        storage.reuse(graph, &meetings);
        storage
    }

    /// Where a node dies in the step that begins another of the same type, and both are met at the
    /// same index in every iteration, the load before the store, the second takes the memory of the
    /// first. Backwards, so that chains are resolved when they are met.
    fn reuse(&mut self, graph: &Graph, meetings: &[HashMap<NodeId, Meeting>]) {
        let input = |id: NodeId| matches!(graph.nodes[id].kind, Kind::Input(_));
        let mut after: SecondaryMap<NodeId, bool> = SecondaryMap::new();
        let mut merged: Vec<(NodeId, NodeId)> = Vec::new();
        for (position, met) in meetings.iter().enumerate().rev() {
            let mut dying: Vec<(NodeId, &Meeting)> = Vec::new();
            let mut born: Vec<(NodeId, &Meeting)> = Vec::new();
            for (id, m) in met {
                let Some((first, last)) = self.life[*id] else { continue };
                let whole = m.index.is_some()
                    && !(0..graph.nodes[*id].ty.shape.len()).any(|a| self.dropped(*id, a));
                if !whole || input(*id) {
                    continue;
                }
                let (loaded, stored) = (m.last_load.is_some(), m.first_store.is_some());
                if first < position && last == position && loaded && !stored && !self.fixed[*id] {
                    dying.push((*id, m));
                }
                if first == position && stored && !loaded {
                    born.push((*id, m));
                }
            }
            dying.sort_by_key(|(id, _)| *id);
            born.sort_by_key(|(id, _)| *id);
            for (y, new) in born {
                let fits = |(x, old): &&(NodeId, &Meeting)| {
                    !after[*x]
                        && graph.nodes[*x].ty == graph.nodes[y].ty
                        && old.index == new.index
                        && old.last_load < new.first_store
                };
                if let Some((x, _)) = dying.iter().find(fits) {
                    after[*x] = true;
                    merged.push((*x, y));
                }
            }
        }
        for (x, y) in merged {
            let root = self.root(y);
            self.roots[x] = Some(root);
            self.fixed[root] = true;
            self.life[root] = match (self.life[x], self.life[root]) {
                (Some((first, _)), Some((_, last))) => Some((first, last)),
                (one, other) => one.or(other),
            };
        }
    }

    fn root(&self, node: NodeId) -> NodeId {
        self.roots[node].unwrap_or(node)
    }

    fn touch(&mut self, node: NodeId, position: usize) -> NodeId {
        let root = self.root(node);
        let (first, _) = self.life[root].unwrap_or((position, position));
        self.life[root] = Some((first, position));
        root
    }

    fn visit(
        &mut self,
        code: &[Tree],
        position: usize,
        clock: &mut usize,
        met: &mut HashMap<NodeId, Meeting>,
    ) {
        for tree in code {
            *clock += 1;
            match tree {
                Tree::For { body, .. } => self.visit(body, position, clock, met),
                Tree::Let { expr: Value::Load { node, at, .. }, .. } => {
                    let root = self.access(*node, at, position);
                    meeting(met, root, at).last_load = Some(*clock);
                }
                Tree::Store { node, at, .. } => {
                    let root = self.access(*node, at, position);
                    meeting(met, root, at).first_store.get_or_insert(*clock);
                }
                Tree::Let { expr: Value::Code(..), .. }
                | Tree::Var { .. }
                | Tree::Set { .. }
                | Tree::Fold { .. } => {}
            }
        }
    }

    fn access(&mut self, node: NodeId, at: &At, position: usize) -> NodeId {
        let root = self.touch(node, position);
        match at {
            At::Flat(_) => self.fixed[root] = true,
            At::Axes(index) => {
                let here = index.iter().map(Affine::as_index);
                match &mut self.same[root] {
                    Some(same) => {
                        for (s, i) in same.iter_mut().zip(here) {
                            if *s != i {
                                *s = None;
                            }
                        }
                    }
                    none => *none = Some(here.collect()),
                }
            }
        }
        root
    }

    /// Whether an axis needs no memory.
    fn dropped(&self, node: NodeId, axis: usize) -> bool {
        let root = self.root(node);
        !self.fixed[root]
            && self.same[root].as_ref().is_some_and(|s| s.get(axis).is_some_and(|i| i.is_some()))
    }

    fn shape(&self, graph: &Graph, node: NodeId) -> Shape {
        let shape = &graph.nodes[node].ty.shape;
        if matches!(graph.nodes[node].kind, Kind::Input(_)) {
            return shape.clone();
        }
        let extent = |(axis, n): (usize, &usize)| if self.dropped(node, axis) { 1 } else { *n };
        shape.iter().enumerate().map(extent).collect()
    }
}

/// What the step knows of a node so far, with this access.
fn meeting<'a>(met: &'a mut HashMap<NodeId, Meeting>, root: NodeId, at: &At) -> &'a mut Meeting {
    let index = match at {
        At::Axes(index) => Some(index),
        At::Flat(_) => None,
    };
    let first = || Meeting { index: index.cloned(), ..Meeting::default() };
    let m = met.entry(root).or_insert_with(first);
    if m.index.as_ref() != index {
        m.index = None;
    }
    m
}

/// Which of a buffer's values each node is.
struct Held {
    of_node: SecondaryMap<NodeId, u32>,
    versions: SecondaryMap<BufferId, Vec<Version>>,
}

impl Held {
    /// Nodes that share a buffer are its versions, in their own order.
    fn of(
        graph: &Graph,
        emitted: &Emitted,
        buffers: &SecondaryMap<NodeId, Option<BufferId>>,
    ) -> Held {
        let mut held = Held {
            of_node: SecondaryMap::with_capacity(graph.nodes.len()),
            versions: SecondaryMap::new(),
        };
        let mut met: SecondaryMap<BufferId, bool> = SecondaryMap::new();
        for id in graph.nodes.keys() {
            let Some(buffer) = buffers[id] else { continue };
            if std::mem::replace(&mut met[buffer], true) {
                let continues = emitted.takes[id].map(|base| held.of_node[base]);
                held.versions[buffer].push(Version { continues });
                held.of_node[id] = held.versions[buffer].len() as u32;
            }
        }
        held
    }
}

struct Convert<'a> {
    graph: &'a Graph,
    storage: &'a Storage,
    of_node: &'a SecondaryMap<NodeId, Option<BufferId>>,
    held: &'a Held,
    old: &'a Emitted,
    scalars: PrimaryMap<ScalarId, Dtype>,
    vars: PrimaryMap<VarId, Dtype>,
    indices: u32,
    new_scalar: SecondaryMap<ScalarId, Option<ScalarId>>,
    new_var: SecondaryMap<VarId, Option<VarId>>,
    new_index: SecondaryMap<IndexId, Option<IndexId>>,
    /// Run-time indices times strides, for each block that is open.
    scaled: Vec<HashMap<(ScalarId, i64), Arg>>,
}

impl Convert<'_> {
    fn block(&mut self, code: &[Tree]) -> Result<Vec<Stmt>, Problem> {
        let mut out = Vec::with_capacity(code.len());
        self.scaled.push(HashMap::new());
        for tree in code {
            self.statement(tree, &mut out)?;
        }
        self.scaled.pop();
        Ok(out)
    }

    fn statement(&mut self, tree: &Tree, out: &mut Vec<Stmt>) -> Result<(), Problem> {
        let stmt = match tree {
            Tree::For { index, extent, body } => {
                let new = IndexId::new(self.indices as usize);
                self.indices += 1;
                self.new_index[*index] = Some(new);
                // What its rounds are is claimed in the end.
                let (extent, rounds) = (Extent::Constant(*extent), Rounds::Serial);
                Stmt::For {
                    index: new,
                    extent,
                    rounds,
                    carries: Vec::new(),
                    body: self.block(body)?,
                }
            }
            Tree::Let { value, expr } => {
                let expr = match expr {
                    Value::Code(code, args) => {
                        let args: Result<Vec<Arg>, Problem> =
                            args.iter().map(|a| self.arg(*a)).collect();
                        Expr::Code(*code, args?)
                    }
                    Value::Load { node, at, guard } => {
                        let guard = guard.map(|g| self.arg(g)).transpose()?;
                        let address = self.address(*node, at, out)?;
                        let (buffer, version) = self.buffer(*node)?;
                        Expr::Load { buffer, version, address, guard }
                    }
                };
                let new = self.scalars.push(self.old.scalars[*value].dtype);
                self.new_scalar[*value] = Some(new);
                Stmt::Let { value: new, expr }
            }
            Tree::Var { var, init } => {
                let init = self.arg(*init)?;
                let new = self.vars.push(self.old.vars[*var]);
                self.new_var[*var] = Some(new);
                Stmt::Var { var: new, init }
            }
            Tree::Set { var, value } => {
                Stmt::Set { var: self.var(*var)?, value: self.arg(*value)? }
            }
            Tree::Fold { var, code, value } => {
                Stmt::Fold { var: self.var(*var)?, code: *code, value: self.arg(*value)? }
            }
            Tree::Store { node, at, value, guard } => {
                let (value, guard) = (self.arg(*value)?, guard.map(|g| self.arg(g)).transpose()?);
                let address = self.address(*node, at, out)?;
                let (buffer, version) = self.buffer(*node)?;
                Stmt::Store { buffer, version, address, value, guard }
            }
        };
        out.push(stmt);
        Ok(())
    }

    fn arg(&self, arg: Arg) -> Result<Arg, Problem> {
        let lost = || Problem::internal("the scheduler used a value before its definition");
        match arg {
            Arg::Scalar(s) => self.new_scalar[s].map(Arg::Scalar).ok_or_else(lost),
            Arg::Var(v) => self.new_var[v].map(Arg::Var).ok_or_else(lost),
            Arg::Index(i) => self.new_index[i].map(Arg::Index).ok_or_else(lost),
            Arg::Literal(_) => Ok(arg),
        }
    }

    fn var(&self, var: VarId) -> Result<VarId, Problem> {
        self.new_var[var].ok_or_else(|| Problem::internal("a variable before its declaration"))
    }

    /// The buffer that holds a node, and as which of its versions.
    fn buffer(&self, node: NodeId) -> Result<(BufferId, u32), Problem> {
        let buffer = self.of_node[node];
        let buffer = buffer.ok_or_else(|| Problem::internal(format!("{node} has no memory")))?;
        Ok((buffer, self.held.of_node[node]))
    }

    fn address(&mut self, node: NodeId, at: &At, out: &mut Vec<Stmt>) -> Result<Address, Problem> {
        let position = match at {
            At::Flat(a) => a.clone(),
            At::Axes(index) => {
                let strides = self.storage.shape(self.graph, node).strides();
                let mut position = Affine::default();
                for (axis, (a, stride)) in index.iter().zip(&strides).enumerate() {
                    let is_input = matches!(self.graph.nodes[node].kind, Kind::Input(_));
                    if is_input || !self.storage.dropped(node, axis) {
                        position = position.add(&a.scale(*stride as i64, 0));
                    }
                }
                position
            }
        };
        let mut address = Address { offset: position.offset, ..Address::default() };
        for (t, factor) in &position.terms {
            match t {
                Term::Index(i) => {
                    let Arg::Index(i) = self.arg(Arg::Index(*i))? else { continue };
                    address.terms.push((i, *factor));
                }
                Term::Scalar(s) => {
                    let mut part = self.arg(Arg::Scalar(*s))?;
                    if *factor != 1 {
                        let known = self.scaled.iter().find_map(|b| b.get(&(*s, *factor))).copied();
                        part = known.unwrap_or_else(|| {
                            let by = Arg::Literal(Literal::i64(*factor));
                            self.integer(Code::Mul, part, by, out)
                        });
                        if let Some(block) = self.scaled.last_mut() {
                            block.insert((*s, *factor), part);
                        }
                    }
                    address.dynamic = Some(match address.dynamic {
                        None => part,
                        Some(before) => self.integer(Code::Add, before, part, out),
                    });
                }
            }
        }
        Ok(address)
    }

    fn integer(&mut self, code: Code, x: Arg, y: Arg, out: &mut Vec<Stmt>) -> Arg {
        let value = self.scalars.push(Dtype::I64);
        out.push(Stmt::Let { value, expr: Expr::Code(code, vec![x, y]) });
        Arg::Scalar(value)
    }

    fn matrix(&self, o: super::tree::Operand) -> Result<Matrix, Problem> {
        let (buffer, version) = self.buffer(o.node)?;
        Ok(Matrix {
            buffer,
            version,
            at: Address::constant(o.offset),
            row: o.row,
            column: o.column,
        })
    }
}
