//! What is the same in all iterations of a loop, and what may not be.

use super::dependence::disjoint;
use crate::loop_ir::{
    Arg, BufferId, CursorId, Flow, IndexId, Kernel, Place, ScalarId, Stmt, VarId, visit,
};
use tapeloom_ir::OrderedSet;

/// What may be another thing in each iteration of a loop.
#[derive(Clone)]
pub(crate) struct Variant {
    indices: OrderedSet<IndexId>,
    scalars: OrderedSet<ScalarId>,
    vars: OrderedSet<VarId>,
    /// What iterations write, or hand on.
    buffers: OrderedSet<BufferId>,
    cursors: OrderedSet<CursorId>,
}

impl Variant {
    /// In a loop, or in its body: all that is counted, defined, set, stored and turned there.
    pub(crate) fn of(stmts: &[Stmt]) -> Variant {
        let mut varies = Variant {
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
            varies.buffers.extend(shape.carries.iter().flat_map(|c| [c.now.buffer, c.next.buffer]));
            varies.cursors.extend(s.turned());
            s.accesses(&mut |a| varies.buffers.extend(a.write.then_some(a.held.buffer)));
        });
        varies
    }

    /// And what iterations hand on.
    pub(crate) fn hand_on(mut self, buffers: impl Iterator<Item = BufferId>) -> Variant {
        self.buffers.extend(buffers);
        self
    }

    /// The same of one place in an inner loop of that index, seen from each iteration of the outer one.
    pub(crate) fn within(mut self, index: IndexId) -> Variant {
        self.indices.swap_remove(&index);
        self
    }

    /// Whether an operand is the same in all iterations.
    pub(crate) fn is_fixed(&self, arg: Arg) -> bool {
        match arg {
            Arg::Scalar(s) => !self.scalars.contains(&s),
            Arg::Var(v) => !self.vars.contains(&v),
            Arg::Index(i) => !self.indices.contains(&i),
            Arg::Literal(_) => true,
        }
    }

    /// Whether all operands of a statement are.
    pub(crate) fn is_all_fixed(&self, stmt: &Stmt) -> bool {
        let mut fixed = true;
        stmt.args(&mut |arg| fixed &= self.is_fixed(arg));
        fixed
    }

    /// A value of which all operands are fixed is so itself.
    pub(crate) fn fix(&mut self, value: Option<ScalarId>) {
        value.into_iter().for_each(|value| _ = self.scalars.swap_remove(&value));
    }

    /// Whether anything is stored in iterations.
    pub(crate) fn stores(&self) -> bool {
        !self.buffers.is_empty()
    }

    /// Whether what a buffer holds is not written in iterations. A record is another one where its cursor turns.
    pub(crate) fn keeps(&self, kernel: &Kernel, buffer: BufferId) -> bool {
        let turns = |cursor| self.cursors.contains(&cursor);
        let other =
            matches!(kernel.buffers[buffer].place, Place::Record { cursor, .. } if turns(cursor));
        !other && self.buffers.iter().all(|b| disjoint(kernel, *b, buffer))
    }
}
