//! Converts loop trees to statements: nodes become versions of buffers (the values that a buffer holds one after the
//! other), elements become addresses, and scalars are renumbered densely.

use super::buffer_liveness::Liveness;
use super::coalesce::collapse;
use super::dynamic_tape::Tapes;
use crate::loop_ir::{
    Address, Arg, BufferId, BufferVersion, Computed, Contract, Expr, Extent, IndexId, Kernel,
    KernelId, Matrix, Origins, Parallelism, ScalarId, Stmt, Sums, VarId, Version,
};
use crate::lower::fusion::FusedTrees;
use crate::lower::graph::{Graph, NodeId, NodeKind};
use crate::lower::trees::affine::{Affine, Term};
use crate::lower::trees::loop_tree::{At, Def, NodeMatrix, Tree};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::collections::BTreeSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap, Problem};

/// For each node, the buffer version that holds its value (a version is one of the values that a buffer holds one after
/// the other).
pub(crate) type NodeVersions = SecondaryMap<NodeId, Option<BufferVersion>>;

/// Adds the versions of buffers to the kernel (a version is one of the values that a buffer holds one after the other),
/// and returns the version of each node. Nodes that share a buffer are its versions, numbered in node order.
pub(crate) fn versions(
    graph: &Graph,
    emitted: &FusedTrees,
    buffers: &SecondaryMap<NodeId, Option<BufferId>>,
    kernel: &mut Kernel,
) -> NodeVersions {
    let mut held = NodeVersions::with_capacity(graph.nodes.len());
    let mut met: SecondaryMap<BufferId, bool> = SecondaryMap::new();
    for id in graph.nodes.keys() {
        let Some(buffer) = buffers[id] else { continue };
        let mut own = BufferVersion::first(buffer);
        if std::mem::replace(&mut met[buffer], true) {
            let base = emitted.takes_over[id].and_then(|base| held[base]);
            kernel.versions[buffer].push(Version { continues: base.map(|base| base.version) });
            if !planted(Fault::VersionDropped) {
                own.version = kernel.versions[buffer].len() as u32;
            }
        }
        held[id] = Some(own);
    }
    held
}

/// The memory plan that the conversion reads: lifetimes, offsets of the frames (workspaces) of callees, and the
/// callees.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) liveness: &'a Liveness,
    /// The offset in the workspace of each region's frame (the workspace of the kernels that the region calls), by the
    /// node of the region's first result.
    pub(crate) frames: &'a OrderedMap<NodeId, usize>,
    pub(crate) callees: &'a PrimaryMap<KernelId, Kernel>,
}

/// The state of the conversion from loop trees to statements.
pub(crate) struct Convert<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) memory: Memory<'a>,
    /// The kernel under construction, without its body. Regions add buffers to the kernel.
    pub(crate) kernel: Kernel,
    pub(crate) held: NodeVersions,
    old: &'a FusedTrees,
    /// The tapes of all kernels of the program so far.
    pub(crate) tapes: &'a mut Tapes,
    new_scalar: SecondaryMap<ScalarId, Option<ScalarId>>,
    new_var: SecondaryMap<VarId, Option<VarId>>,
    new_index: SecondaryMap<IndexId, Option<IndexId>>,
    /// For each open block, the products of a run-time index and a stride that are already computed, by (scalar of the
    /// index, stride).
    scaled: Vec<OrderedMap<(ScalarId, i64), Arg>>,
}

impl<'a> Convert<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        old: &'a FusedTrees,
        memory: Memory<'a>,
        kernel: Kernel,
        held: NodeVersions,
        tapes: &'a mut Tapes,
    ) -> Convert<'a> {
        Convert {
            graph,
            memory,
            kernel,
            held,
            old,
            tapes,
            new_scalar: SecondaryMap::new(),
            new_var: SecondaryMap::new(),
            new_index: SecondaryMap::new(),
            scaled: Vec::new(),
        }
    }

    pub(crate) fn block(&mut self, code: &[Tree]) -> Result<Vec<Stmt>, Problem> {
        let mut out = Vec::with_capacity(code.len());
        self.scaled.push(OrderedMap::default());
        for tree in code {
            self.statement(tree, &mut out)?;
        }
        self.scaled.pop();
        Ok(out)
    }

    fn statement(&mut self, tree: &Tree, out: &mut Vec<Stmt>) -> Result<(), Problem> {
        let stmt = match tree {
            Tree::Nest(body) => {
                Stmt::nest(collapse(self.block(body)?), self.origins_of_trees(body))
            }
            Tree::Contract(p) => Stmt::Contract(Contract {
                dtype: p.dtype,
                sums: Sums::Library,
                m: p.m,
                n: p.n,
                k: p.k,
                accumulate: false,
                lhs: self.matrix(p.lhs)?,
                rhs: self.matrix(p.rhs)?,
                out: self.matrix(p.out)?,
                batch: p.batch.clone(),
                origins: self.origins_of_nodes([p.out.node]),
            }),
            Tree::Region(r) => return self.region(r, out),
            Tree::For { index, extent, body } => {
                let new = self.kernel.fresh_index();
                self.new_index[*index] = Some(new);
                // All loops are serial at first. Later, `infer_parallelism` decides which loops are parallel.
                let (extent, parallelism) = (Extent::Constant(*extent), Parallelism::Serial);
                let (carries, origins) = (Vec::new(), self.origins_of_trees(body));
                let body = self.block(body)?;
                Stmt::For { index: new, extent, parallelism, lanes: 1, carries, body, origins }
            }
            Tree::Let { value, expr } => {
                let expr = match expr {
                    Def::Code(code, args) => {
                        let args: Result<Vec<Arg>, Problem> =
                            args.iter().map(|a| self.arg(*a)).collect();
                        Expr::Code(*code, args?)
                    }
                    Def::Load { node, at, guard } => {
                        let guard = guard.map(|g| self.arg(g)).transpose()?;
                        let address = self.address(*node, at, out)?;
                        Expr::Load { held: self.held(*node)?, address, guard }
                    }
                };
                let new = self.kernel.scalars.push(self.old.scalars[*value].dtype);
                self.new_scalar[*value] = Some(new);
                Stmt::Let { value: new, expr }
            }
            Tree::Var { var, init } => {
                let init = self.arg(*init)?;
                let new = self.kernel.vars.push(self.old.vars[*var]);
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
                Stmt::Store { held: self.held(*node)?, address, value, guard }
            }
        };
        out.push(stmt);
        Ok(())
    }

    /// Returns the equations that the nodes come from, in the order of the nodes.
    pub(crate) fn origins_of_nodes(&self, nodes: impl IntoIterator<Item = NodeId>) -> Origins {
        let nodes: BTreeSet<NodeId> = nodes.into_iter().collect();
        Origins::of(nodes.into_iter().filter_map(|id| {
            let node = &self.graph.nodes[id];
            let computed = !matches!(node.kind, NodeKind::Input(_));
            computed.then_some(Computed { primitive: node.name, origin: node.origin })
        }))
    }

    /// Returns the equations that loop trees compute: the equations of the trees' scalars and stores.
    fn origins_of_trees(&self, trees: &[Tree]) -> Origins {
        let mut nodes = Vec::new();
        self.nodes_of(trees, &mut nodes);
        self.origins_of_nodes(nodes)
    }

    fn nodes_of(&self, trees: &[Tree], nodes: &mut Vec<NodeId>) {
        for tree in trees {
            match tree {
                Tree::Nest(body) | Tree::For { body, .. } => self.nodes_of(body, nodes),
                Tree::Let { value, .. } => nodes.extend(self.old.scalars[*value].node),
                Tree::Store { node, .. } => nodes.push(*node),
                Tree::Contract(product) => nodes.push(product.out.node),
                Tree::Region(step) => nodes.push(step.first),
                Tree::Var { var, .. } | Tree::Set { var, .. } | Tree::Fold { var, .. } => {
                    nodes.extend(self.old.var_nodes[*var]);
                }
            }
        }
    }

    fn arg(&self, arg: Arg) -> Result<Arg, Problem> {
        let lost = || Problem::internal("lowering used a value before its definition");
        match arg {
            Arg::Scalar(s) => self.new_scalar[s].map(Arg::Scalar).ok_or_else(lost),
            Arg::Var(v) => self.new_var[v].map(Arg::Var).ok_or_else(lost),
            Arg::Index(i) => self.new_index[i].map(Arg::Index).ok_or_else(lost),
            Arg::Literal(_) => Ok(arg),
        }
    }

    pub(crate) fn var(&self, var: VarId) -> Result<VarId, Problem> {
        self.new_var[var].ok_or_else(|| Problem::internal("a variable before its declaration"))
    }

    /// Returns the buffer version that holds the value of a node.
    pub(crate) fn held(&self, node: NodeId) -> Result<BufferVersion, Problem> {
        self.held[node].ok_or_else(|| Problem::internal(format!("{node} has no memory")))
    }

    fn address(&mut self, node: NodeId, at: &At, out: &mut Vec<Stmt>) -> Result<Address, Problem> {
        let position = match at {
            At::Flat(a) => a.clone(),
            At::Axes(index) => {
                let strides = self.memory.liveness.shape(self.graph, node).strides();
                let mut position = Affine::default();
                for (axis, (a, stride)) in index.iter().zip(&strides).enumerate() {
                    let is_input = matches!(self.graph.nodes[node].kind, NodeKind::Input(_));
                    if is_input || !self.memory.liveness.dropped(node, axis) {
                        position = position.plus(a, *stride as i64);
                    }
                }
                position
            }
        };
        let mut address = Address { offset: position.offset(), ..Address::default() };
        for (t, factor) in position.terms() {
            match t {
                Term::Index(i) => {
                    let lost = || Problem::internal("lowering used an index outside of its loop");
                    address.terms.push((self.new_index[*i].ok_or_else(lost)?, *factor));
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

    pub(crate) fn integer(&mut self, code: Code, x: Arg, y: Arg, out: &mut Vec<Stmt>) -> Arg {
        let value = self.kernel.scalars.push(Dtype::I64);
        out.push(Stmt::Let { value, expr: Expr::Code(code, vec![x, y]) });
        Arg::Scalar(value)
    }

    fn matrix(&self, o: NodeMatrix) -> Result<Matrix, Problem> {
        let (held, at) = (self.held(o.node)?, Address::constant(o.offset));
        Ok(Matrix { held, at, row: o.row, column: o.column })
    }
}
