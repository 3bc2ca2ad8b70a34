//! Values of the interpreter: arrays, and tapes.
//!
//! Programs that users write have arrays alone. A tape is what the iterations of a loop leave when their
//! number is known only afterwards: one record for each iteration, each with the fields of the tape's type.

use crate::lang::problem::Problem;
use crate::lang::types::Type;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A value of the interpreter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// An array.
    Array(Tensor),
    /// A tape.
    Tape(Arc<Tape>),
}

/// A sequence of records.
#[derive(Clone, PartialEq, Debug)]
pub struct Tape {
    /// The types of the fields of a record.
    pub fields: Vec<Type>,
    /// The records, that of iteration 0 first.
    pub records: Vec<Vec<Value>>,
}

impl Tape {
    /// Bytes of its records.
    pub(crate) fn bytes(&self) -> usize {
        self.records.iter().flatten().map(Value::bytes).sum()
    }
}

impl Value {
    /// Bytes that it takes in a record.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Value>()
            + match self {
                Value::Array(array) => array.bytes().len(),
                Value::Tape(tape) => tape.bytes(),
            }
    }

    /// Its type.
    pub fn ty(&self) -> Type {
        match self {
            Value::Array(array) => Type::Array(array.ty().clone()),
            Value::Tape(tape) => Type::Tape(tape.fields.clone()),
        }
    }

    /// The array.
    ///
    /// # Errors
    /// When it is a tape.
    pub fn array(&self) -> Result<&Tensor, Problem> {
        match self {
            Value::Array(array) => Ok(array),
            Value::Tape(_) => {
                Err(Problem::internal(format!("an array was expected, not {}", self.ty())))
            }
        }
    }

    /// The arrays.
    ///
    /// # Errors
    /// When one is a tape.
    pub fn arrays(values: &[Value]) -> Result<Vec<Tensor>, Problem> {
        values.iter().map(|v| v.array().cloned()).collect()
    }
}

impl From<Tensor> for Value {
    fn from(array: Tensor) -> Value {
        Value::Array(array)
    }
}
