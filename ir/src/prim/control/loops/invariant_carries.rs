//! Carries that no iteration changes are constants.
//!
//! A closure that hands on what it got, say the parameters of a model beside its state, carries it. As a
//! constant it is read where it lies, needs no place of its own, is kept once for the backward pass, and
//! its cotangent is a running total. Derivatives are full of them: what is added to a carry changes neither
//! its tangent nor, on the way back, its cotangent, which would be copied in every iteration.

use super::{Binding, Loop};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;

/// Where an output of a loop is, once what no iteration changes is a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It is that output.
    Output(usize),
    /// It is that operand.
    Operand(usize),
}

impl Settled {
    /// What it is.
    pub(super) fn of<T: Copy>(self, outputs: &[T], operands: &[T]) -> T {
        match self {
            Settled::Output(n) => outputs[n],
            Settled::Operand(n) => operands[n],
        }
    }
}

impl Loop {
    /// The loop, of the same operands, in which carries that no iteration changes are constants; and where
    /// its outputs are.
    ///
    /// # Errors
    /// None that a loop of a well-formed module can cause.
    pub fn settled_carries(self, module: &mut Module) -> Result<(Loop, Vec<Settled>), Problem> {
        let mut op = self;
        let place =
            |op: &Loop, p: usize| op.spec.lead() + op.spec.params().take_while(|q| *q < p).count();
        let (body, same) = settle(module, op.body, 0, &mut op.spec.takes)?;
        op.body = body;
        let trips = (0..op.trips()).map(|_| None);
        let params = same.into_iter().chain(trips);
        let operands: Vec<_> = params.map(|p| p.map(|p| place(&op, p))).collect();
        Ok((op, outputs(&operands)))
    }

    /// The outputs of the loop, of which those that no iteration changes are operands.
    ///
    /// # Errors
    /// None that a loop of a well-formed module can cause.
    pub(super) fn emit(self, b: &Builder<'_>, operands: &[Atom]) -> Result<Vec<Atom>, Problem> {
        let (op, settled) = b.with_module(|m| self.settled_carries(m))?;
        let outputs = b.emit(op, operands);
        Ok(settled.iter().map(|of| of.of(&outputs, operands)).collect())
    }
}

/// The same of the linear half of an iteration, with the slots of its linear parameters: the function, the slots, and
/// where the results are, among linear operands.
pub(super) fn settled_tangents(
    module: &mut Module,
    lin: FuncId,
    mut slots: Vec<Binding>,
) -> Result<(FuncId, Vec<Binding>, Vec<Settled>), Problem> {
    let known = module.function(lin).params.len();
    let (lin, same) = settle(module, lin, known, &mut slots)?;
    Ok((lin, slots, outputs(&same)))
}

/// Makes slots of the parameters from `first` on constants where they carry a result that is the parameter: the
/// function without those results, and which slot each result was.
fn settle(
    module: &mut Module,
    f: FuncId,
    first: usize,
    slots: &mut [Binding],
) -> Result<(FuncId, Vec<Option<usize>>), Problem> {
    let body = module.get(f);
    let params: Vec<ValueId> = body.all_params().skip(first).collect();
    let mut same: Vec<Option<usize>> = vec![None; body.results.len()];
    for (p, slot) in slots.iter_mut().enumerate() {
        if let Binding::Carry(r) = *slot
            && body.results[r].value() == Some(params[p])
        {
            same[r] = Some(p);
            *slot = Binding::Const;
        }
    }
    if same.iter().all(Option::is_none) {
        return Ok((f, same));
    }
    for slot in slots {
        if let Binding::Carry(r) = slot {
            *r = changed(&same[..*r]);
        }
    }
    let mut less = (*body).clone();
    let mut kept = same.iter().map(Option::is_none);
    less.results.retain(|_| kept.next() == Some(true));
    Ok((module.add(less)?, same))
}

/// How many of those results iterations change.
fn changed(same: &[Option<usize>]) -> usize {
    same.iter().filter(|s| s.is_none()).count()
}

/// Where the outputs are, given which operand each one is.
fn outputs(operands: &[Option<usize>]) -> Vec<Settled> {
    let place = |(r, operand): (usize, &Option<usize>)| match operand {
        Some(operand) => Settled::Operand(*operand),
        None => Settled::Output(changed(&operands[..r])),
    };
    operands.iter().enumerate().map(place).collect()
}
