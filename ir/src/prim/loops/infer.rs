//! The types of a loop: what its operands must be, what its outputs are.

use super::{Direction, Loop, Rounds, Slot, Trip};
use crate::function::Function;
use crate::module::Module;
use crate::prim::{Effects, Operand, Types};
use crate::problem::{Kind, Problem};
use crate::types::{ArrayType, Dtype, Type};

/// One value of that type for each round: an array if it is an array and their number is known, else a
/// tape.
pub(super) fn stacked(ty: &Type, trip: &Trip) -> Type {
    match (ty, trip) {
        (Type::Array(ty), Trip::Static(n)) => {
            ArrayType::new(ty.dtype, ty.shape.with_leading(*n)).into()
        }
        (ty, Trip::Static(_) | Trip::Runtime | Trip::While { .. }) => Type::Tape(vec![ty.clone()]),
    }
}

pub(super) fn infer(
    of: &Loop,
    module: &Module,
    operands: &[Operand<'_>],
) -> Result<Types, Problem> {
    let (f, rounds) = (module.function(of.body), &of.rounds);
    let (params, results) = (f.param_types(), f.result_types());
    if params.len() != rounds.takes.len() {
        return Err(wrong(format!(
            "the loop says where {} parameters come from, and @{} has {}",
            rounds.takes.len(),
            f.name,
            params.len()
        )));
    }
    slots(rounds, f, &params, &results)?;
    if let Trip::While { condition, reads } = &rounds.trip {
        check_condition(rounds, module, (*condition, reads), &params)?;
    }
    let wanted = wanted(rounds, &params);
    super::super::call::check_arguments(&format!("{} in a loop", f.name), &wanted, operands)?;
    let output = |(r, ty): (usize, &Type)| match rounds.carrier(r) {
        Some(_) => ty.clone(),
        None => stacked(ty, &rounds.trip),
    };
    let mut outputs: Types = results.iter().enumerate().map(output).collect();
    if let Trip::While { .. } = rounds.trip {
        outputs.push(Type::scalar(Dtype::I64));
    }
    Ok(outputs)
}

/// The types of the operands.
fn wanted(rounds: &Rounds, params: &[Type]) -> Vec<Type> {
    let trip = (0..rounds.lead()).map(|_| Type::scalar(Dtype::I64));
    let operand = |p: usize| match rounds.takes[p] {
        Slot::Xs => stacked(&params[p], &rounds.trip),
        Slot::Index | Slot::Const | Slot::Carry(_) => params[p].clone(),
    };
    trip.chain(rounds.params().map(operand)).collect()
}

/// Every slot fits its parameter, and every result is carried once at most.
fn slots(rounds: &Rounds, f: &Function, params: &[Type], results: &[Type]) -> Result<(), Problem> {
    let known = f.params.len();
    for (p, (slot, ty)) in rounds.takes.iter().zip(params).enumerate() {
        match slot {
            Slot::Index if *ty != Type::scalar(Dtype::I64) || p >= known => {
                return Err(wrong(format!(
                    "the number of the round is an ordinary i64[], and parameter {p} of @{} is {ty}",
                    f.name
                )));
            }
            Slot::Carry(r) => {
                let Some(next) = results.get(*r) else {
                    return Err(wrong(format!("@{} has no result {r} to carry", f.name)));
                };
                if rounds.carrier(*r) != Some(p) {
                    return Err(wrong(format!("result {r} of @{} is carried twice", f.name)));
                }
                if next != ty {
                    return Err(changed(p, ty, next));
                }
                // What is linear in one round is linear in all, if it is all that is carried.
                if p < known && known < params.len() {
                    return Err(wrong(format!(
                        "@{} has linear parameters, and parameter {p}, which is not, is carried",
                        f.name
                    )));
                }
            }
            Slot::Index | Slot::Const | Slot::Xs => {}
        }
    }
    Ok(())
}

/// The condition reads what a round begins with, and gives a truth value.
fn check_condition(
    rounds: &Rounds,
    module: &Module,
    (condition, reads): (crate::function::FuncId, &[usize]),
    params: &[Type],
) -> Result<(), Problem> {
    let c = module.function(condition);
    for p in reads {
        match rounds.takes.get(*p) {
            Some(Slot::Const | Slot::Carry(_)) => {}
            Some(Slot::Index | Slot::Xs) | None => {
                return Err(wrong(format!(
                    "the condition @{} reads parameter {p}, and only constants and carries have a \
                     value before a round begins",
                    c.name
                )));
            }
        }
    }
    let read: Vec<Type> = reads.iter().map(|p| params[*p].clone()).collect();
    if c.param_types() != read || c.result_types() != [Type::scalar(Dtype::Bool)] {
        let (found, want) = (
            super::super::toolbox::arrow(&c.param_types(), &c.result_types()),
            super::super::toolbox::arrow(&read, &[Type::scalar(Dtype::Bool)]),
        );
        let message = format!("the condition @{} must be {want}, found {found}", c.name);
        return Err(Problem::new(Kind::Arguments, message, "a condition gives one truth value"));
    }
    if rounds.direction != Direction::Up {
        return Err(wrong("a loop with a condition begins at round 0".to_owned()));
    }
    if module.effects(condition) == Effects::Ordered {
        let message = format!("the condition @{} has an effect", c.name);
        let help = "how often a condition runs is not said; put the effect into the body";
        return Err(Problem::new(Kind::Arguments, message, help));
    }
    Ok(())
}

fn wrong(message: String) -> Problem {
    Problem::new(Kind::Arguments, message, "")
}

/// A carry that a round makes another type of.
fn changed(p: usize, before: &Type, after: &Type) -> Problem {
    let dtype = |ty: &Type| ty.as_array().map(|a| a.dtype);
    let kind = if dtype(before) == dtype(after) { Kind::Shape } else { Kind::Dtype };
    let message = format!("carry {p} is {before} before a round and {after} after it");
    Problem::new(kind, message, "what is carried keeps its type; convert or reshape it in the body")
}
