//! The types of a loop: the required types of its operands, and the types of its outputs.

use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::lang::function::Function;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Dtype, Type};
use crate::prim::rules::region_helpers::{arrow, signature};
use crate::prim::{Effects, Operand, Types};

/// Returns the type of the values of type `ty` of all iterations together: an array with one more axis if `ty` is
/// an array and the trip count is static, otherwise a tape.
pub(super) fn stacked(ty: &Type, trip: &TripCount) -> Type {
    match (ty, trip) {
        (Type::Array(ty), TripCount::Static(n)) => {
            ArrayType::new(ty.dtype, ty.shape.with_leading(*n)).into()
        }
        (ty, TripCount::Static(_) | TripCount::Runtime | TripCount::While { .. }) => {
            Type::Tape(vec![ty.clone()])
        }
    }
}

pub(super) fn infer(
    of: &Loop,
    module: &Module,
    operands: &[Operand<'_>],
) -> Result<Types, Problem> {
    let (f, spec) = (module.function(of.body), &of.spec);
    let (params, results) = (f.param_types(), f.result_types());
    if params.len() != spec.takes.len() {
        let (slots, name, n) = (spec.takes.len(), &f.name, params.len());
        let message = format!("the loop binds {slots} parameters, and @{name} has {n}");
        return Err(wrong(message, "`takes` has one slot for every parameter of the body"));
    }
    slots(spec, f, &params, &results)?;
    if let TripCount::While { condition, reads } = &spec.trip {
        if !f.linear_params.is_empty() {
            let message =
                format!("a loop with a condition has a body, @{}, that is linear", f.name);
            return Err(wrong(message, "its trip count would depend on linear values"));
        }
        check_condition(spec, module, (*condition, reads), &params)?;
    }
    let wanted = wanted(spec, &params);
    super::super::call::check_arguments(&format!("{} in a loop", f.name), &wanted, operands)?;
    let mut outputs: Types = results.iter().enumerate().map(|(r, ty)| spec.output(r, ty)).collect();
    if let TripCount::While { .. } = spec.trip {
        outputs.push(Type::scalar(Dtype::I64));
    }
    Ok(outputs)
}

impl LoopSpec {
    /// Returns the type of the loop's output for result `result` of the body, whose type is `ty`.
    pub fn output(&self, result: usize, ty: &Type) -> Type {
        match self.carrier(result) {
            Some(_) => ty.clone(),
            None => stacked(ty, &self.trip),
        }
    }
}

/// Returns the types that a loop's operands must have, given the types of the body's parameters.
fn wanted(spec: &LoopSpec, params: &[Type]) -> Vec<Type> {
    let trip = (0..spec.lead()).map(|_| Type::scalar(Dtype::I64));
    let operand = |p: usize| match spec.takes[p] {
        Binding::Xs => stacked(&params[p], &spec.trip),
        Binding::Index | Binding::Const | Binding::Carry(_) => params[p].clone(),
    };
    trip.chain(spec.params().map(operand)).collect()
}

/// Checks that every binding in `takes` (the source of a parameter of the body) fits its parameter, and that every
/// result is carried at most once.
fn slots(spec: &LoopSpec, f: &Function, params: &[Type], results: &[Type]) -> Result<(), Problem> {
    let known = f.params.len();
    for (p, (slot, ty)) in spec.takes.iter().zip(params).enumerate() {
        match slot {
            Binding::Index if *ty != Type::scalar(Dtype::I64) || p >= known => {
                let linear = if p >= known { "linear, " } else { "" };
                let message = format!(
                    "the index of the iteration is bound to parameter {p} of @{}, which is \
                     {linear}{ty}",
                    f.name
                );
                return Err(wrong(message, "bind it to an ordinary parameter of type i64[]"));
            }
            Binding::Carry(r) => {
                let Some(next) = results.get(*r) else {
                    let message = format!("@{} has no result {r} to carry", f.name);
                    return Err(wrong(message, "`carryN` names a result of the body, from 0 on"));
                };
                if spec.carrier(*r) != Some(p) {
                    let message = format!("result {r} of @{} is carried twice", f.name);
                    return Err(wrong(message, "give the result twice and carry each once"));
                }
                if next != ty {
                    return Err(changed(&f.name, (p, ty), (*r, next)));
                }
                // In a loop with linear parameters every carry is linear: an ordinary parameter may not take a carry.
                if p < known && known < params.len() {
                    let message = format!(
                        "@{} has linear parameters, and parameter {p}, which is not, is carried",
                        f.name
                    );
                    let help = "all carries of a linear loop are linear; stack the other values before the loop";
                    return Err(wrong(message, help));
                }
            }
            Binding::Index | Binding::Const | Binding::Xs => {}
        }
    }
    Ok(())
}

/// Checks that the condition of a `while` loop reads only values that exist at the start of an iteration, and
/// returns a bool.
fn check_condition(
    spec: &LoopSpec,
    module: &Module,
    (condition, reads): (crate::lang::function::FuncId, &[usize]),
    params: &[Type],
) -> Result<(), Problem> {
    let c = module.function(condition);
    for p in reads {
        match spec.takes.get(*p) {
            Some(Binding::Const | Binding::Carry(_)) => {}
            Some(Binding::Index | Binding::Xs) | None => {
                let message = format!("the condition @{} reads parameter {p} of the body", c.name);
                let help = "only constants and carries have a value before an iteration begins";
                return Err(wrong(message, help));
            }
        }
    }
    let read: Vec<Type> = reads.iter().map(|p| params[*p].clone()).collect();
    if c.param_types() != read || c.result_types() != [Type::scalar(Dtype::Bool)] {
        let (found, want) = (signature(c), arrow(&read, &[Type::scalar(Dtype::Bool)]));
        let message = format!("the condition @{} must be {want}, found {found}", c.name);
        return Err(Problem::new(Kind::Arguments, message, "a condition returns one bool"));
    }
    if spec.direction != Direction::Up {
        let message = "a loop with a condition runs down".to_owned();
        return Err(wrong(message, "its last iteration is not known before it runs: direction=up"));
    }
    if module.effects(condition) == Effects::Ordered {
        let message = format!("the condition @{} has an effect", c.name);
        let help = "the number of evaluations of a condition is unspecified; put the effect into \
                    the body";
        return Err(Problem::new(Kind::Arguments, message, help));
    }
    Ok(())
}

fn wrong(message: String, help: &str) -> Problem {
    Problem::new(Kind::Arguments, message, help)
}

/// Returns the error for a carry whose result has another type than its parameter.
fn changed(f: &str, (p, before): (usize, &Type), (r, after): (usize, &Type)) -> Problem {
    let dtype = |ty: &Type| ty.as_array().map(|a| a.dtype);
    let kind = if dtype(before) == dtype(after) { Kind::Shape } else { Kind::Dtype };
    let message =
        format!("parameter {p} of @{f} is {before}, and its next value, result {r}, is {after}");
    Problem::new(
        kind,
        message,
        "a carry has the same type in every iteration; convert or reshape it in the body",
    )
}
