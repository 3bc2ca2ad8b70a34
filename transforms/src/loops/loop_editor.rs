//! Loops where they stand: the body, its operands, and what is known of its parameters.

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
    /// What is known of each parameter of the body.
    pub(super) facts: Vec<Fact>,
}

impl Looped {
    /// The loop, if it is one.
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

    /// Which operand a parameter has.
    pub(super) fn operand(&self, param: usize) -> Option<usize> {
        Some(self.spec.lead() + self.spec.params().position(|p| p == param)?)
    }

    /// Which parameter a value of the body is.
    pub(super) fn param(&self, v: ValueId) -> Option<usize> {
        self.body.all_params().position(|p| p == v)
    }

    /// What a parameter of the body is in front of the loop.
    pub(super) fn value(&self, v: ValueId) -> Option<Atom> {
        Some(self.operands[self.operand(self.param(v)?)?])
    }

    /// Where a value of the body comes from, if it is a parameter.
    pub(super) fn slot(&self, v: ValueId) -> Option<Binding> {
        Some(self.spec.takes[self.param(v)?])
    }

    /// Whether a value of the body is the same in all iterations.
    pub(super) fn is_constant(&self, v: ValueId) -> bool {
        self.slot(v) == Some(Binding::Const)
    }

    /// Where parameters come to stand that are added behind all others of their kind.
    pub(super) fn end(&self, linear: bool) -> usize {
        if linear { self.spec.takes.len() } else { self.body.params.len() }
    }

    /// Takes more, behind all other parameters of their kind.
    pub(super) fn take(&mut self, linear: bool, more: &[(Binding, Atom)]) {
        let last = self.end(linear);
        let before = self.spec.lead() + self.spec.params().filter(|p| *p < last).count();
        self.facts.splice(last..last, more.iter().map(|_| Fact::default()));
        self.spec.takes.splice(last..last, more.iter().map(|(slot, _)| *slot));
        self.operands.splice(before..before, more.iter().map(|(_, a)| *a));
    }

    /// No longer takes a parameter.
    pub(super) fn drop(&mut self, param: usize) {
        if let Some(operand) = self.operand(param) {
            self.operands.remove(operand);
        }
        self.spec.takes.remove(param);
        self.facts.remove(param);
    }

    /// Another body, for what it takes now.
    pub(super) fn run(&mut self, b: &Builder<'_>, function: FuncId) {
        self.function = function;
        self.body = b.with_module(|m| m.get(function));
    }

    pub(super) fn emit(self, b: &Builder<'_>) -> Option<Vec<Atom>> {
        let op = self.op.with_iterations(self.function, self.spec)?;
        Some(b.emit(op, &self.operands).to_vec())
    }
}
