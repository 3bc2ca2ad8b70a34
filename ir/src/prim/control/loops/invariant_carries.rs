//! Turns carries that no iteration changes into constants.
//!
//! If the closure of a loop returns an operand unchanged, for example the parameters of a model next to its state, the
//! operand is a carry. A constant is read without a copy, needs no buffer of its own, is saved once for the reverse
//! pass, and its cotangent is one running total. Derivatives have many such carries: if an iteration only adds a
//! constant to a carry, the tangent and the cotangent of the carry do not change, but would be copied in every
//! iteration.

use super::{Binding, Loop};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::Problem;

/// The place of one original output of a loop after carries that no iteration changes have become constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputSource {
    /// The output of the new loop at this position.
    Output(usize),
    /// The operand of the loop at this position, because the output of the old loop is a carry that no iteration
    /// changes.
    Operand(usize),
}

impl OutputSource {
    /// Returns the entry of this source: an element of `outputs`, which belong to the new loop, or of `operands`, which
    /// belong to the old loop.
    pub(super) fn of<T: Copy>(self, outputs: &[T], operands: &[T]) -> T {
        match self {
            OutputSource::Output(n) => outputs[n],
            OutputSource::Operand(n) => operands[n],
        }
    }
}

impl Loop {
    /// Returns the loop, on the same operands, with carries that no iteration changes as constants; also the
    /// place of each original output.
    ///
    /// # Errors
    /// Never fails for a loop of a module that the verifier accepts.
    pub fn with_constant_carries(
        self,
        module: &mut Module,
    ) -> Result<(Loop, Vec<OutputSource>), Problem> {
        let mut op = self;
        let place =
            |op: &Loop, p: usize| op.spec.lead() + op.spec.params().take_while(|q| *q < p).count();
        let (body, same) = make_constant(module, op.body, 0, &mut op.spec.takes)?;
        op.body = body;
        let trips = (0..op.trips()).map(|_| None);
        let params = same.into_iter().chain(trips);
        let operands: Vec<_> = params.map(|p| p.map(|p| place(&op, p))).collect();
        Ok((op, outputs(&operands)))
    }

    /// Emits the loop with unchanged carries as constants. Returns its outputs; the output of an unchanged carry is its
    /// operand.
    ///
    /// # Errors
    /// Never fails for a loop of a module that the verifier accepts.
    pub(super) fn emit(self, b: &Builder<'_>, operands: &[Atom]) -> Result<Vec<Atom>, Problem> {
        let (op, sources) = b.with_module(|m| self.with_constant_carries(m))?;
        let outputs = b.emit(op, operands);
        Ok(sources.iter().map(|of| of.of(&outputs, operands)).collect())
    }
}

/// Turns carries that no iteration changes into constants in the linear function `lin` of an iteration, given the slots
/// (sources) of its linear parameters. Returns the new function, its slots, and for each original result where its
/// value is now: an output of the new loop or an operand, counted among the linear operands only.
pub(super) fn with_constant_tangents(
    module: &mut Module,
    lin: FuncId,
    mut slots: Vec<Binding>,
) -> Result<(FuncId, Vec<Binding>, Vec<OutputSource>), Problem> {
    let known = module.function(lin).params.len();
    let (lin, same) = make_constant(module, lin, known, &mut slots)?;
    Ok((lin, slots, outputs(&same)))
}

/// Turns carries that no iteration changes into constants, for the parameters of `f` from position `first` on. A carry
/// does not change if its result is the parameter itself. Returns the function without these results, and for each
/// original result the parameter that became a constant, if any.
fn make_constant(
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

/// Returns the number of results that iterations change, that is, of results that do not equal their parameter.
fn changed(same: &[Option<usize>]) -> usize {
    same.iter().filter(|s| s.is_none()).count()
}

/// Returns the place of each original output, given the operand that the output equals, if any.
fn outputs(operands: &[Option<usize>]) -> Vec<OutputSource> {
    let place = |(r, operand): (usize, &Option<usize>)| match operand {
        Some(operand) => OutputSource::Operand(*operand),
        None => OutputSource::Output(changed(&operands[..r])),
    };
    operands.iter().enumerate().map(place).collect()
}
