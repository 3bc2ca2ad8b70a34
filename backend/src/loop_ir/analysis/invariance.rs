//! Loop invariance: finds the values that are the same in all iterations of a loop.

use super::dependence::disjoint;
use crate::loop_ir::{
    Arg, BufferId, CursorId, Flow, IndexId, Kernel, Place, ScalarId, Stmt, VarId, visit,
};
use tapeloom_ir::OrderedSet;

/// The values, buffers and cursors that may differ between the iterations of a loop; all others are invariant.
#[derive(Clone)]
pub(crate) struct VaryingValues {
    indices: OrderedSet<IndexId>,
    scalars: OrderedSet<ScalarId>,
    vars: OrderedSet<VarId>,
    /// The buffers to which iterations store, and those that the loops inside carry.
    buffers: OrderedSet<BufferId>,
    cursors: OrderedSet<CursorId>,
}

impl VaryingValues {
    /// Collects all indices, scalars, variables, buffers and cursors that the statements define, assign, store to or
    /// move.
    pub(crate) fn of(stmts: &[Stmt]) -> VaryingValues {
        let mut varies = VaryingValues {
            indices: OrderedSet::default(),
            scalars: OrderedSet::default(),
            vars: OrderedSet::default(),
            buffers: OrderedSet::default(),
            cursors: OrderedSet::default(),
        };
        visit(stmts, &mut |s| {
            let shape = s.shape();
            if let Flow::For { index, .. } = shape.flow {
                varies.indices.insert(index);
            }
            varies.scalars.extend(shape.defines);
            varies.vars.extend(shape.assigns.map(|(var, _)| var));
            varies
                .buffers
                .extend(shape.carries.iter().flat_map(|c| [c.input.buffer, c.output.buffer]));
            varies.cursors.extend(s.moved_cursor());
            s.accesses(&mut |a| varies.buffers.extend(a.write.then_some(a.held.buffer)));
        });
        varies
    }

    /// Adds the buffers that the loop itself carries to the varying buffers.
    pub(crate) fn add_carried(mut self, buffers: impl Iterator<Item = BufferId>) -> VaryingValues {
        self.buffers.extend(buffers);
        self
    }

    /// Removes an inner loop's index from the varying values. The remaining values are those that vary between
    /// iterations of the outer loop at the same inner iteration.
    pub(crate) fn fix_index(mut self, index: IndexId) -> VaryingValues {
        self.indices.swap_remove(&index);
        self
    }

    /// Returns whether an operand has the same value in all iterations of the loop.
    pub(crate) fn is_fixed(&self, arg: Arg) -> bool {
        match arg {
            Arg::Scalar(s) => !self.scalars.contains(&s),
            Arg::Var(v) => !self.vars.contains(&v),
            Arg::Index(i) => !self.indices.contains(&i),
            Arg::Literal(_) => true,
        }
    }

    /// Returns whether all scalar operands of a statement have the same value in all iterations.
    pub(crate) fn is_all_fixed(&self, stmt: &Stmt) -> bool {
        let mut fixed = true;
        stmt.args(&mut |arg| fixed &= self.is_fixed(arg));
        fixed
    }

    /// Removes a scalar from the varying values; called after all operands of its definition were found to be
    /// invariant.
    pub(crate) fn fix(&mut self, value: Option<ScalarId>) {
        value.into_iter().for_each(|value| _ = self.scalars.swap_remove(&value));
    }

    /// Returns whether the statements store to a buffer or carry one.
    pub(crate) fn stores(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Returns whether iterations leave the contents of a buffer unchanged. A buffer in a record of a dynamic tape
    /// changes if its cursor moves.
    pub(crate) fn is_unchanged(&self, kernel: &Kernel, buffer: BufferId) -> bool {
        let moves = |cursor| self.cursors.contains(&cursor);
        let other =
            matches!(kernel.buffers[buffer].place, Place::Record { cursor, .. } if moves(cursor));
        !other && self.buffers.iter().all(|b| disjoint(kernel, *b, buffer))
    }
}
