//! Lowers updates. An update overwrites some elements of an array.
//!
//! If the base (the array that is overwritten) has no later reader, the update takes over its memory. Otherwise the
//! base is copied first.

use crate::loop_ir::Arg;
use crate::lower::elements::fusion_state::{Block, FusionState};
use crate::lower::graph::{NodeId, NodeKind, Source, Update};
use crate::lower::trees::affine::{Affine, Index, Term};
use crate::lower::trees::loop_tree::{At, Def, Tree};
use tapeloom_ir::{Code, Problem};

impl FusionState<'_> {
    /// Emits the update of fusion candidate `m`. The update is in place if its base (the array that it overwrites) has
    /// no later reader, and no other operand of the update reads the base. Otherwise the base is copied first.
    pub(crate) fn update(&mut self, m: usize) -> Result<(), Problem> {
        let id = self.candidates[m].node;
        let node = &self.graph.nodes[id];
        self.needs[id] = true;
        if self.take_over(m, id).is_none() {
            self.copy_into(id, node.operands[0])?;
        }
        self.updates(id)
    }

    /// Emits loops that store all elements of the array `base` to the memory of node `id`.
    pub(crate) fn copy_into(&mut self, id: NodeId, base: Source) -> Result<(), Problem> {
        self.computing = Some(id);
        let shape = self.graph.nodes[id].ty.shape.clone();
        if shape.elements() == 0 {
            return Ok(());
        }
        self.nest(&shape, |emit, index| {
            let value = emit.element(base, index, None)?;
            emit.push(Tree::Store { node: id, at: At::Axes(index.clone()), value, guard: None });
            Ok(())
        })
    }

    /// Emits loops over all elements of a shape, without a loop for axes of extent 1.
    pub(crate) fn nest(
        &mut self,
        shape: &[usize],
        body: impl FnOnce(&mut Self, &Index) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut index = Index::new();
        let mut loops = Vec::new();
        for extent in shape {
            if *extent == 1 {
                index.push(Affine::default());
                continue;
            }
            let i = self.indices.push((*extent, self.blocks.len()));
            self.blocks.push(Block { extent: Some(*extent), ..Block::default() });
            loops.push((i, *extent));
            index.push(Affine::atom(Term::Index(i)));
        }
        body(self, &index)?;
        for (index, extent) in loops.into_iter().rev() {
            let body = self.blocks.pop().map_or(Vec::new(), |b| b.code);
            self.push(Tree::For { index, extent, body });
        }
        Ok(())
    }

    /// Emits loops that store the new elements of update `id`, one in each iteration.
    fn updates(&mut self, id: NodeId) -> Result<(), Problem> {
        self.computing = Some(id);
        let graph = self.graph;
        let node = &graph.nodes[id];
        let NodeKind::Update(update) = &node.kind else {
            return Err(Problem::internal("an update without a base"));
        };
        match update {
            Update::Slice => {
                let new = node.operands[1];
                let shape = self.graph.shape(new);
                let mut starts = Index::new();
                for (axis, extent) in node.ty.shape.iter().enumerate() {
                    let room = *extent as i64 - shape.get(axis).map_or(1, |n| *n as i64);
                    starts.push(self.start(id, 2 + axis, room)?);
                }
                self.nest(shape, |emit, index| {
                    let value = emit.element(new, index, None)?;
                    let at = index.iter().zip(&starts).map(|(i, s)| i.plus(s, 1)).collect();
                    emit.push(Tree::Store { node: id, at: At::Axes(at), value, guard: None });
                    Ok(())
                })
            }
            Update::Scatter { combine, batch, axes, bounds } => {
                let (indices, new) = (node.operands[1], node.operands[2]);
                let shape = self.graph.shape(new);
                self.nest(shape, |emit, index| {
                    let to = (Source::Node(id), indices);
                    let (at, guard) = emit.addressed(to, *batch, axes, *bounds, index, None)?;
                    let value = emit.element(new, index, None)?;
                    let at = At::Axes(at);
                    let value = match combine.code() {
                        None => value,
                        Some(code) => emit.combined(id, code, &at, value, guard),
                    };
                    emit.push(Tree::Store { node: id, at, value, guard });
                    Ok(())
                })
            }
        }
    }

    /// Emits code that combines the element in memory with a new value by `code`, such as add, and returns the combined
    /// value. The load stays in the innermost loop, because several new values may go to one element.
    fn combined(
        &mut self,
        node: NodeId,
        code: Code,
        at: &At,
        value: Arg,
        guard: Option<Arg>,
    ) -> Arg {
        let level = self.blocks.len() - 1;
        let dtype = self.graph.nodes[node].ty.dtype;
        let before = self.let_at(level, dtype, Def::Load { node, at: at.clone(), guard });
        self.code(code, &[before, value])
    }
}
