//! Values of the interpreter: arrays and tapes.
//!
//! User programs have arrays alone. A tape is written by a loop whose trip count is dynamic: one record for
//! each iteration, with the fields of the tape's type.

use crate::lang::problem::Problem;
use crate::lang::types::Type;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A value of the interpreter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// An array of any dtype and shape.
    Array(Tensor),
    /// A tape: the residuals that the iterations of a loop saved.
    Tape(Arc<Tape>),
}

/// A sequence of records: the residuals that the iterations of a loop saved.
#[derive(Clone, PartialEq, Debug)]
pub struct Tape {
    /// The types of the residuals in each record; a record holds those of one iteration.
    pub fields: Vec<Type>,
    /// The records, one per iteration, in the order in which the iterations ran.
    pub records: Vec<Vec<Value>>,
}

impl Tape {
    /// Returns the bytes in memory of all records.
    pub(crate) fn bytes(&self) -> usize {
        self.records.iter().flatten().map(Value::bytes).sum()
    }
}

impl Value {
    /// Returns the bytes that the value takes in a record of a tape.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::Array(array) => array.bytes().len(),
                Value::Tape(tape) => tape.bytes(),
            }
    }

    /// Returns the type of the value.
    pub fn ty(&self) -> Type {
        match self {
            Value::Array(array) => Type::Array(array.ty().clone()),
            Value::Tape(tape) => Type::Tape(tape.fields.clone()),
        }
    }

    /// Returns the array that the value is.
    ///
    /// # Errors
    /// Returns an error if the value is a tape.
    pub fn array(&self) -> Result<&Tensor, Problem> {
        match self {
            Value::Array(array) => Ok(array),
            Value::Tape(_) => {
                Err(Problem::internal(format!("an array was expected, not {}", self.ty())))
            }
        }
    }

    /// Returns the arrays that the values are.
    ///
    /// # Errors
    /// Returns an error if one of the values is a tape.
    pub fn arrays(values: &[Value]) -> Result<Vec<Tensor>, Problem> {
        values.iter().map(|v| v.array().cloned()).collect()
    }
}

impl From<Tensor> for Value {
    fn from(array: Tensor) -> Value {
        Value::Array(array)
    }
}
