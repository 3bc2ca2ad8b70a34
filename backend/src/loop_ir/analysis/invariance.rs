//! What is the same in all iterations of a loop, and what may not be.

use super::dependence::disjoint;
use crate::loop_ir::{
    Access, Arg, BufferId, Flow, IndexId, Kernel, Place, ScalarId, Stmt, VarId, visit,
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
}

impl Variant {
    /// In a loop: its index, and all that is counted, defined, set and stored in it.
    pub(crate) fn of(stmt: &Stmt) -> Variant {
        let mut varies = Variant {
            indices: OrderedSet::default(),
            scalars: OrderedSet::default(),
            vars: OrderedSet::default(),
            buffers: OrderedSet::default(),
        };
        visit(std::slice::from_ref(stmt), &mut |s| {
            let shape = s.shape();
            if let Flow::For { index, .. } = shape.flow {
                varies.indices.insert(index);
            }
            varies.scalars.extend(shape.defines);
            varies.vars.extend(shape.assigns.map(|(var, _)| var));
            varies.buffers.extend(shape.carries.iter().flat_map(|c| [c.now.buffer, c.next.buffer]));
            s.accesses(&mut |a| varies.buffers.extend(a.write.then_some(a.held.buffer)));
        });
        varies
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

    /// Whether what an access reads is not written in iterations. A record is another one where its cursor turns.
    pub(crate) fn keeps(&self, kernel: &Kernel, access: &Access<'_>) -> bool {
        let record = matches!(kernel.buffers[access.held.buffer].place, Place::Record { .. });
        !record && self.buffers.iter().all(|b| disjoint(kernel, *b, access.held.buffer))
    }
}
