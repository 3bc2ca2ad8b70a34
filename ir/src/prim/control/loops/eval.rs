//! The interpreter's evaluation of a loop, one iteration after the other.

use super::{Binding, Direction, Loop, TripCount};
use crate::lang::eval::{eval_owned, eval_values};
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::types::{ArrayType, Type};
use crate::lang::value::{Tape, Value};
use crate::limits;
use crate::tensor::Tensor;
use std::sync::Arc;

pub(super) fn eval(of: &Loop, module: &Module, operands: &[Value]) -> Result<Vec<Value>, Problem> {
    let spec = &of.spec;
    let results = module.function(of.body).result_types();
    // The value of each parameter of the body in the next iteration. A parameter with an `xs` slot holds the whole
    // array; its element is read when the iteration begins.
    let mut values: Vec<Option<Value>> = vec![None; spec.takes.len()];
    for (p, x) in spec.params().zip(&operands[spec.lead()..]) {
        values[p] = Some(x.clone());
    }
    let end = match &spec.trip {
        TripCount::Static(n) => *n as u64,
        TripCount::Runtime => (operands[0].array()?.at(0).bits as i64).max(0) as u64,
        TripCount::While { .. } => u64::MAX,
    };
    let mut stacks = Vec::with_capacity(results.len());
    for (r, ty) in results.iter().enumerate() {
        stacks.push(match spec.carrier(r) {
            Some(_) => None,
            None => {
                let stacked = super::infer::stacked(ty, &spec.trip);
                limits::kept(stacked.as_array().map_or(0, |ty| ty.bytes() as u64))?;
                Some(Stack::new(ty, &stacked)?)
            }
        });
    }
    // `kept` is the number of bytes in stacked results. Arrays have their full size before the first iteration.
    let mut kept = stacks.iter().flatten().map(Stack::bytes).sum::<u64>();
    limits::kept(kept)?;
    let mut limited = limits::iterations(!matches!(spec.trip, TripCount::Static(_)));
    if let Some(limited) = &mut limited {
        limited.begin(matches!(spec.trip, TripCount::Runtime).then_some(end))?;
    }
    let mut trips = 0_u64;
    while trips < end && proceeds(of, module, &values)? {
        if let Some(limited) = &mut limited {
            limited.iteration()?;
        }
        let i = spec.index(trips, end);
        // Move carried values out of `values`, so that the iteration may overwrite their memory.
        let carried = |(slot, value): (&Binding, &mut Option<Value>)| match slot {
            Binding::Carry(_) => value.take(),
            Binding::Const | Binding::Xs => value.clone(),
            Binding::Index => None,
        };
        let arg = |(slot, value): (&Binding, Option<Value>)| match (slot, value) {
            (Binding::Index, _) => Ok(Tensor::scalar(i as i64).into()),
            (Binding::Const | Binding::Carry(_), Some(x)) => Ok(x),
            // `i` is less than the number of elements, so the cast is exact.
            (Binding::Xs, Some(x)) => element(&x, i as usize),
            (Binding::Const | Binding::Carry(_) | Binding::Xs, None) => {
                Err(Problem::internal("a loop has more parameters than operands"))
            }
        };
        let given = spec.takes.iter().zip(&mut values);
        let given = given.map(|(slot, value)| (slot, carried((slot, value))));
        let args: Vec<Value> = given.map(arg).collect::<Result<_, _>>()?;
        let y = eval_owned(module, of.body, args)?;
        for (r, y) in y.into_iter().enumerate() {
            match (spec.carrier(r), &mut stacks[r]) {
                (Some(p), _) => values[p] = Some(y),
                (None, Some(stack)) => kept = kept.saturating_add(stack.put(i as usize, y)),
                (None, None) => {}
            }
        }
        limits::kept(kept)?;
        trips += 1;
    }
    let output = |(r, stack): (usize, Option<Stack>)| match (spec.carrier(r), stack) {
        (Some(p), _) => values[p].clone(),
        (None, stack) => stack.map(|s| s.finish(spec.direction)),
    };
    let mut outputs: Vec<Value> = stacks.into_iter().enumerate().filter_map(output).collect();
    if let TripCount::While { .. } = spec.trip {
        outputs.push(Tensor::scalar(trips as i64).into());
    }
    Ok(outputs)
}

/// Evaluates the condition of a `while` loop at the values of the next iteration; true for other loops.
fn proceeds(of: &Loop, module: &Module, values: &[Option<Value>]) -> Result<bool, Problem> {
    let TripCount::While { condition, reads } = &of.spec.trip else { return Ok(true) };
    let args: Vec<Value> = reads.iter().filter_map(|p| values[*p].clone()).collect();
    let y = eval_values(module, *condition, &args)?;
    Ok(!y[0].array()?.at(0).is_zero())
}

/// Returns element `i` of an array along axis 0, or record `i` of a tape, the values of iteration i.
fn element(x: &Value, i: usize) -> Result<Value, Problem> {
    match x {
        Value::Array(x) => {
            let mut y = Tensor::zeros_of(&ArrayType::new(x.dtype(), &x.shape()[1..]))?;
            let bytes = y.ty().bytes();
            y.bytes_mut().copy_from_slice(&x.bytes()[i * bytes..][..bytes]);
            Ok(y.into())
        }
        Value::Tape(tape) => {
            let field = tape.records.get(i).and_then(|record| record.first());
            field.cloned().ok_or_else(|| {
                let n = tape.records.len();
                Problem::internal(format!("iteration {i} reads a tape of {n} records"))
            })
        }
    }
}

/// The values of one stacked result of a loop, one for each iteration.
enum Stack {
    /// An array with an element for each iteration along axis 0.
    Array(Tensor),
    /// A tape, whose records are the values of the iterations in the order in which these ran.
    Tape(Tape),
}

impl Stack {
    fn new(ty: &Type, stacked: &Type) -> Result<Stack, Problem> {
        Ok(match stacked {
            Type::Array(ty) => Stack::Array(Tensor::zeros_of(ty)?),
            Type::Tape(_) => Stack::Tape(Tape { fields: vec![ty.clone()], records: Vec::new() }),
        })
    }

    /// Returns the size of the stack in bytes before the first iteration: 0 for a tape.
    fn bytes(&self) -> u64 {
        match self {
            Stack::Array(x) => x.ty().bytes() as u64,
            Stack::Tape(_) => 0,
        }
    }

    /// Stores the value `y` of iteration `i`; returns the number of bytes by which the stack grows.
    fn put(&mut self, i: usize, y: Value) -> u64 {
        match (self, y) {
            (Stack::Array(x), Value::Array(y)) => {
                let bytes = y.ty().bytes();
                x.bytes_mut()[i * bytes..][..bytes].copy_from_slice(y.bytes());
                0
            }
            (Stack::Tape(tape), y) => {
                let bytes = y.bytes() as u64;
                tape.records.push(vec![y]);
                bytes
            }
            (Stack::Array(_), Value::Tape(_)) => 0,
        }
    }

    fn finish(self, direction: Direction) -> Value {
        match self {
            Stack::Array(x) => Value::Array(x),
            Stack::Tape(mut tape) => {
                if direction == Direction::Down {
                    tape.records.reverse();
                }
                Value::Tape(Arc::new(tape))
            }
        }
    }
}
