//! Carries that no iteration changes are constants.
//!
//! A closure that hands on what it got, say the parameters of a model beside its state, carries it. As a
//! constant it is read where it lies, needs no place of its own, is kept once for the backward pass, and
//! its cotangent is a running total. Derivatives are full of them: what is added to a carry changes neither
//! its tangent nor, on the way back, its cotangent, which would be copied in every iteration.

use super::{Binding, Loop};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, ValueId};
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

impl Loop {
    /// The loop, of the same operands, in which carries that no iteration changes are constants; and where
    /// its outputs are.
    ///
    /// # Errors
    /// None that a loop of a well-formed module can cause.
    pub fn settled_carries(self, module: &mut Module) -> Result<(Loop, Vec<Settled>), Problem> {
        let body = module.get(self.body);
        let params: Vec<ValueId> = body.all_params().collect();
        let mut op = self;
        let place =
            |op: &Loop, p: usize| op.spec.lead() + op.spec.params().take_while(|q| *q < p).count();
        let mut operand: Vec<Option<usize>> = vec![None; body.results.len()];
        for (p, param) in params.iter().enumerate() {
            if let Binding::Carry(r) = op.spec.takes[p]
                && body.results[r].value() == Some(*param)
            {
                operand[r] = Some(place(&op, p));
                op.spec.takes[p] = Binding::Const;
            }
        }
        let trips = (0..op.trips()).map(|_| None);
        let outputs: Vec<Option<usize>> = operand.iter().copied().chain(trips).collect();
        let rank = |r: usize| outputs[..r].iter().filter(|o| o.is_none()).count();
        let settled = outputs.iter().enumerate().map(|(r, operand)| match operand {
            Some(operand) => Settled::Operand(*operand),
            None => Settled::Output(rank(r)),
        });
        let settled = settled.collect();
        if operand.iter().all(Option::is_none) {
            return Ok((op, settled));
        }
        for slot in &mut op.spec.takes {
            if let Binding::Carry(r) = slot {
                *r = rank(*r);
            }
        }
        let mut less = (*body).clone();
        let mut kept = operand.iter().map(Option::is_none);
        less.results.retain(|_| kept.next() == Some(true));
        op.body = module.add(less)?;
        Ok((op, settled))
    }

    /// The outputs of the loop, of which those that no iteration changes are operands.
    ///
    /// # Errors
    /// None that a loop of a well-formed module can cause.
    pub(super) fn emit(self, b: &Builder<'_>, operands: &[Atom]) -> Result<Vec<Atom>, Problem> {
        let (op, settled) = b.with_module(|m| self.settled_carries(m))?;
        let outputs = b.emit(op, operands);
        let output = |settled: &Settled| match settled {
            Settled::Output(n) => outputs[*n],
            Settled::Operand(n) => operands[*n],
        };
        Ok(settled.iter().map(output).collect())
    }
}
