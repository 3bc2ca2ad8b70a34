//! Turns carries that no iteration changes into constants.
//!
//! A closure that returns an operand unchanged, for example the parameters of a model besides its state,
//! carries it. A constant is read without a copy, needs no buffer of its own, is saved once for the reverse
//! pass, and its cotangent is one running total. Derivatives have many such carries: an addend of a carry
//! changes neither its tangent nor, in the reverse pass, its cotangent, which would be copied in every
//! iteration.

use super::{Binding, Loop};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;

/// The position of a loop's output after unchanged carries have become constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// The output at this position.
    Output(usize),
    /// The operand at this position.
    Operand(usize),
}

impl Settled {
    /// Returns the value at this position of the outputs or of the operands.
    pub(super) fn of<T: Copy>(self, outputs: &[T], operands: &[T]) -> T {
        match self {
            Settled::Output(n) => outputs[n],
            Settled::Operand(n) => operands[n],
        }
    }
}

impl Loop {
    /// Returns the loop on the same operands with unchanged carries as constants, and the position of each
    /// original output.
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

    /// Emits the loop; outputs that no iteration changes are operands.
    ///
    /// # Errors
    /// None that a loop of a well-formed module can cause.
    pub(super) fn emit(self, b: &Builder<'_>, operands: &[Atom]) -> Result<Vec<Atom>, Problem> {
        let (op, settled) = b.with_module(|m| self.settled_carries(m))?;
        let outputs = b.emit(op, operands);
        Ok(settled.iter().map(|of| of.of(&outputs, operands)).collect())
    }
}

/// Turns unchanged carries into constants in the linear half of an iteration, given the slots of its linear
/// parameters. Returns the function, the slots, and the position of each result; operand positions count linear
/// operands.
pub(super) fn settled_tangents(
    module: &mut Module,
    lin: FuncId,
    mut slots: Vec<Binding>,
) -> Result<(FuncId, Vec<Binding>, Vec<Settled>), Problem> {
    let known = module.function(lin).params.len();
    let (lin, same) = settle(module, lin, known, &mut slots)?;
    Ok((lin, slots, outputs(&same)))
}

/// Changes the slots of parameters from `first` on to constants if they carry a result that is the parameter.
/// Returns the function without these results, and for each result the slot that it was.
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

/// Returns the number of results that iterations change, those without an equal parameter.
fn changed(same: &[Option<usize>]) -> usize {
    same.iter().filter(|s| s.is_none()).count()
}

/// Returns the positions of the outputs, given the operand that each output equals, if any.
fn outputs(operands: &[Option<usize>]) -> Vec<Settled> {
    let place = |(r, operand): (usize, &Option<usize>)| match operand {
        Some(operand) => Settled::Operand(*operand),
        None => Settled::Output(changed(&operands[..r])),
    };
    operands.iter().enumerate().map(place).collect()
}
