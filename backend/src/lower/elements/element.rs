//! Emits the code that computes or loads one element of a node.
//!
//! An element of a computed node is a scalar that is already defined, or a load, or it is recomputed. It is recomputed
//! instead of loaded if no earlier access needs the node's memory, and if the recomputation takes one or two cheap
//! operations on values that are in memory anyway. An element of a movement node is an element of another node:
//!
//! ```text
//! y = pad{low=[1]} x, 0.0       y[i] = select(i >= 1, x[i - 1] if i >= 1, 0.0)
//! y = rev{axes=[0]} x           y[i] = x[n - 1 - i]
//! ```

use super::fusion_state::FusionState;
use crate::loop_ir::Arg;
use crate::lower::graph::{Movement, NodeId, NodeKind, Source};
use crate::lower::trees::affine::{Affine, Index};
use crate::lower::trees::loop_tree::{At, Def};
use smallvec::SmallVec;
use tapeloom_ir::{Code, Literal, Problem};

impl FusionState<'_> {
    /// Emits the element of `source` at `index`, and returns its scalar. If `guard` (a boolean) is false, the value is
    /// zero if it is loaded, and arbitrary otherwise.
    pub(crate) fn element(
        &mut self,
        source: Source,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<Arg, Problem> {
        let id = match source {
            Source::Literal(l) => return Ok(Arg::Literal(l)),
            Source::Node(n) => n,
        };
        if let Some(found) = self.lookup_scalar(id, index, guard) {
            return Ok(found);
        }
        let graph = self.graph;
        let node = &graph.nodes[id];
        let reader = self.computing;
        if self.computes_here(id, index) {
            self.computing = Some(id);
        }
        let value = match &node.kind {
            NodeKind::Input(_)
            | NodeKind::Reduce { .. }
            | NodeKind::ArgReduce { .. }
            | NodeKind::Contract { .. }
            | NodeKind::Update(_)
            | NodeKind::Result { .. }
            | NodeKind::Copy => self.load(id, At::Axes(index.clone()), guard),
            NodeKind::Map(code) => {
                if self.needs[id] || !self.recomputed(id, index) {
                    self.load(id, At::Axes(index.clone()), guard)
                } else {
                    let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                    for s in &node.operands {
                        args.push(self.element(*s, index, guard)?);
                    }
                    self.code(*code, &args)
                }
            }
            NodeKind::Movement(Movement::Empty) => {
                return Err(Problem::internal("an element of an array without elements"));
            }
            NodeKind::Movement(Movement::View { pieces, fill }) => {
                self.view(id, pieces, *fill, index, guard)?
            }
            NodeKind::Movement(Movement::Reshape) => return self.reshaped(id, index, guard),
            NodeKind::Movement(Movement::Iota { axis }) => {
                let value = self.index_value(&index[*axis]);
                self.code(Code::Convert(node.ty.dtype), &[value])
            }
            NodeKind::Movement(Movement::Slice) => {
                let from = self.graph.shape(node.operands[0]);
                let mut at = Index::new();
                for (axis, i) in index.iter().enumerate() {
                    let room = from[axis] as i64 - node.ty.shape[axis] as i64;
                    let start = self.start(id, 1 + axis, room)?;
                    at.push(i.plus(&start, 1));
                }
                let value = self.element(node.operands[0], &at, guard);
                self.computing = reader;
                return value;
            }
            NodeKind::Movement(Movement::Gather { batch, axes, bounds }) => {
                let from = (node.operands[0], node.operands[1]);
                let (at, inside) = self.addressed(from, *batch, axes, *bounds, index, guard)?;
                match inside {
                    None => self.element(node.operands[0], &at, guard)?,
                    Some(inside) => {
                        let guard = self.both(guard, Some(inside));
                        let value = self.element(node.operands[0], &at, guard)?;
                        let zero = Arg::Literal(Literal::zero(node.ty.dtype));
                        self.code(Code::Select, &[inside, value, zero])
                    }
                }
            }
        };
        self.computing = reader;
        self.store_scalar(id, index, guard, value);
        Ok(value)
    }

    /// Returns whether the code of a node's element is emitted where the element is read, so that the scalars of this
    /// code have the node as origin. This holds if the node is recomputed, or its elements have run-time indices.
    fn computes_here(&self, id: NodeId, index: &Index) -> bool {
        match &self.graph.nodes[id].kind {
            NodeKind::Map(_) => !self.needs[id] && self.recomputed(id, index),
            NodeKind::Movement(Movement::Slice | Movement::Gather { .. }) => true,
            NodeKind::Input(_)
            | NodeKind::Reduce { .. }
            | NodeKind::ArgReduce { .. }
            | NodeKind::Contract { .. }
            | NodeKind::Update(_)
            | NodeKind::Result { .. }
            | NodeKind::Copy
            | NodeKind::Movement(
                Movement::Empty | Movement::View { .. } | Movement::Reshape | Movement::Iota { .. },
            ) => false,
        }
    }

    /// Emits the load of an element, in the outermost block in which its index is defined, and marks the node
    /// as needing memory.
    pub(crate) fn load(&mut self, node: NodeId, at: At, guard: Option<Arg>) -> Arg {
        self.needs[node] = true;
        let level = match &at {
            At::Axes(index) => self.level_of(index),
            At::Flat(a) => self.level_of(std::slice::from_ref(a)),
        };
        let level = level.max(guard.map_or(0, |g| self.level(g)));
        let dtype = self.graph.nodes[node].ty.dtype;
        self.let_at(level, dtype, Def::Load { node, at, guard })
    }

    /// Returns the nesting level (0 is outermost) of the innermost block that defines a loop index or scalar in
    /// `index`.
    pub(crate) fn level_of(&self, index: &[Affine]) -> usize {
        let terms = index.iter().flat_map(|a| a.terms());
        terms.map(|(t, _)| self.level(t.arg())).max().unwrap_or(0)
    }
}
