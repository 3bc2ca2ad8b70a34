//! What a loop computes: one round after the other.

use super::{Loop, Slot, Trip};
use crate::module::Module;
use crate::problem::Problem;
use crate::tensor::Tensor;
use crate::types::ArrayType;

pub(super) fn eval(
    of: &Loop,
    module: &Module,
    operands: &[Tensor],
) -> Result<Vec<Tensor>, Problem> {
    let rounds = &of.rounds;
    let results = module.function(of.body).result_types();
    // What each parameter is in the round to come; elements are read when it begins.
    let mut values: Vec<Option<Tensor>> = vec![None; rounds.takes.len()];
    for (p, x) in rounds.params().zip(&operands[rounds.lead()..]) {
        values[p] = Some(x.clone());
    }
    let end = match &rounds.trip {
        Trip::Static(n) => *n,
        Trip::Runtime => usize::try_from(operands[0].at(0).bits as i64).unwrap_or(0),
        Trip::While { .. } => usize::MAX,
    };
    let mut stacks: Vec<Option<Tensor>> = vec![None; results.len()];
    for (r, ty) in results.iter().enumerate().filter(|(r, _)| rounds.carrier(*r).is_none()) {
        if let (Some(ty), Trip::Static(n)) = (ty.as_array(), &rounds.trip) {
            let ty = ArrayType::new(ty.dtype, ty.shape.with_leading(*n));
            stacks[r] = Some(Tensor::zeros_of(&ty)?);
        }
    }
    let mut trips = 0;
    while trips < end && proceeds(of, module, &values)? {
        let i = rounds.index(trips, end);
        let arg = |(slot, value): (&Slot, &Option<Tensor>)| match (slot, value) {
            (Slot::Index, _) => Ok(Tensor::scalar(i as i64)),
            (Slot::Const | Slot::Carry(_), Some(x)) => Ok(x.clone()),
            (Slot::Xs, Some(x)) => element(x, i),
            (Slot::Const | Slot::Carry(_) | Slot::Xs, None) => {
                Err(Problem::internal("a loop takes more than it is given"))
            }
        };
        let args: Vec<Tensor> =
            rounds.takes.iter().zip(&values).map(arg).collect::<Result<_, _>>()?;
        let y = crate::eval::eval(module, of.body, &args)?;
        for (r, y) in y.into_iter().enumerate() {
            match (rounds.carrier(r), &mut stacks[r]) {
                (Some(p), _) => values[p] = Some(y),
                (None, Some(stack)) => put_element(stack, i, &y),
                (None, None) => {}
            }
        }
        trips += 1;
    }
    let output = |r: usize| match rounds.carrier(r) {
        Some(p) => values[p].clone(),
        None => stacks[r].clone(),
    };
    let mut outputs: Vec<Tensor> = (0..results.len()).filter_map(output).collect();
    if let Trip::While { .. } = rounds.trip {
        outputs.push(Tensor::scalar(trips as i64));
    }
    Ok(outputs)
}

/// Whether there is another round.
fn proceeds(of: &Loop, module: &Module, values: &[Option<Tensor>]) -> Result<bool, Problem> {
    let Trip::While { condition, reads } = &of.rounds.trip else { return Ok(true) };
    let args: Vec<Tensor> = reads.iter().filter_map(|p| values[*p].clone()).collect();
    let y = crate::eval::eval(module, *condition, &args)?;
    Ok(!y[0].at(0).is_zero())
}

/// Element `i` along axis 0.
fn element(x: &Tensor, i: usize) -> Result<Tensor, Problem> {
    let mut y = Tensor::zeros_of(&ArrayType::new(x.dtype(), &x.shape()[1..]))?;
    let bytes = y.ty().bytes();
    y.bytes_mut().copy_from_slice(&x.bytes()[i * bytes..][..bytes]);
    Ok(y)
}

/// Writes element `i` along axis 0.
fn put_element(x: &mut Tensor, i: usize, y: &Tensor) {
    let bytes = y.ty().bytes();
    x.bytes_mut()[i * bytes..][..bytes].copy_from_slice(y.bytes());
}
