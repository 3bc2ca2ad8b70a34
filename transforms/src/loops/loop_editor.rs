//! A loop being edited: its body, its operands, and the facts about its parameters.

use super::integer_facts::Fact;
use std::sync::Arc;
use tapeloom_ir::prim::{Binding, LoopSpec};
use tapeloom_ir::{Atom, Builder, FuncId, Function, Op, ValueId};

#[derive(Clone)]
pub(super) struct Looped {
    op: Op,
    function: FuncId,
    pub(super) body: Arc<Function>,
    pub(super) spec: LoopSpec,
    pub(super) operands: Vec<Atom>,
    /// The facts about the parameters of the body, in their order.
    pub(super) facts: Vec<Fact>,
}

impl Looped {
    /// Returns the loop `op` with its operands, for editing; `None` if `op` is not a loop.
    pub(super) fn of(
        b: &Builder<'_>,
        op: &Op,
        operands: &[Atom],
        facts: &[Fact],
    ) -> Option<Looped> {
        let (function, spec) = op.as_loop()?;
        let mut facts = facts.to_vec();
        facts.resize(spec.takes.len(), Fact::default());
        let body = b.with_module(|m| m.get(function));
        Some(Looped { op: op.clone(), function, body, spec, operands: operands.to_vec(), facts })
    }

    /// Returns the index of the loop's operand for parameter `param` of the body; `None` for the iteration number,
    /// which has no operand.
    pub(super) fn operand(&self, param: usize) -> Option<usize> {
        Some(self.spec.lead() + self.spec.params().position(|p| p == param)?)
    }

    /// Returns the index of the value `v` among the body's parameters; `None` if `v` is not a parameter.
    pub(super) fn param(&self, v: ValueId) -> Option<usize> {
        self.body.all_params().position(|p| p == v)
    }

    /// Returns the loop's operand for value `v` of the body; `None` unless `v` is a parameter with an operand.
    pub(super) fn value(&self, v: ValueId) -> Option<Atom> {
        Some(self.operands[self.operand(self.param(v)?)?])
    }

    /// Returns the binding (constant, carry, ..) of value `v` of the body; `None` unless `v` is a parameter.
    pub(super) fn slot(&self, v: ValueId) -> Option<Binding> {
        Some(self.spec.takes[self.param(v)?])
    }

    /// Returns whether value `v` of the body is a parameter with the same operand in all iterations.
    pub(super) fn is_constant(&self, v: ValueId) -> bool {
        self.slot(v) == Some(Binding::Const)
    }

    /// Returns the index at which a new parameter of the body is inserted: after all others if `linear`, else
    /// before the linear ones.
    pub(super) fn end(&self, linear: bool) -> usize {
        if linear { self.spec.takes.len() } else { self.body.params.len() }
    }

    /// Adds operands to the loop, bound to new parameters: if `linear`, after all others, else before the linear
    /// ones. The caller must then set a body with these parameters (`Looped::run`).
    pub(super) fn take(&mut self, linear: bool, more: &[(Binding, Atom)]) {
        let last = self.end(linear);
        let before = self.spec.lead() + self.spec.params().filter(|p| *p < last).count();
        self.facts.splice(last..last, more.iter().map(|_| Fact::default()));
        self.spec.takes.splice(last..last, more.iter().map(|(slot, _)| *slot));
        self.operands.splice(before..before, more.iter().map(|(_, a)| *a));
    }

    /// Removes a parameter with its operand. The caller must then set a body without the parameter (`Looped::run`).
    pub(super) fn drop(&mut self, param: usize) {
        if let Some(operand) = self.operand(param) {
            self.operands.remove(operand);
        }
        self.spec.takes.remove(param);
        self.facts.remove(param);
    }

    /// Sets the body to `function`, which must have the parameters that [`Looped::take`] and [`Looped::drop`] have
    /// left.
    pub(super) fn run(&mut self, b: &Builder<'_>, function: FuncId) {
        self.function = function;
        self.body = b.with_module(|m| m.get(function));
    }

    pub(super) fn emit(self, b: &Builder<'_>) -> Option<Vec<Atom>> {
        let op = self.op.with_iterations(self.function, self.spec)?;
        Some(b.emit(op, &self.operands).to_vec())
    }
}
