//! The concrete values of a recording.
//!
//! Programs that are recorded often consist of scalars, a million of them; so a scalar takes 16 bytes and no
//! allocation.

use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::Problem;
use crate::lang::value::{Tape, Value};
use crate::map::OrderedSet;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A concrete value of a recording, which is a trace that is evaluated while it grows. A scalar is stored inline,
/// without a buffer.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// The value does not exist: the equation failed, or the value was dropped since no later step reads it.
    Gone,
    /// A scalar of any dtype.
    Scalar(Literal),
    /// An array that is not a scalar.
    Array(Box<Tensor>),
    /// The tape of a loop: the residuals that its iterations saved.
    Tape(Arc<Tape>),
}

impl Stored {
    /// Returns the value, sharing its buffer.
    ///
    /// # Errors
    /// Returns an error if the value was dropped.
    pub(super) fn value(&self) -> Result<Value, Problem> {
        match self {
            Stored::Gone => {
                Err(Problem::internal("a recorded value that is still needed was dropped"))
            }
            Stored::Scalar(x) => Ok(Tensor::from(*x).into()),
            Stored::Array(x) => Ok(Tensor::clone(x).into()),
            Stored::Tape(x) => Ok(Value::Tape(x.clone())),
        }
    }

    /// Returns the value and gives up this reference to it, so that its buffer may be reused.
    ///
    /// # Errors
    /// Returns an error if the value was dropped.
    pub(super) fn into_value(self) -> Result<Value, Problem> {
        match self {
            Stored::Array(x) => Ok(Value::Array(*x)),
            Stored::Gone | Stored::Scalar(_) | Stored::Tape(_) => self.value(),
        }
    }

    /// Returns the value as a tensor.
    ///
    /// # Errors
    /// Those of [`Stored::value`]; also an error if the value is a tape.
    pub(super) fn tensor(&self) -> Result<Tensor, Problem> {
        self.value()?.array().cloned()
    }

    /// Returns the number, if the value is a scalar.
    pub(super) fn scalar(&self) -> Option<Literal> {
        match self {
            Stored::Scalar(x) => Some(*x),
            Stored::Gone | Stored::Array(_) | Stored::Tape(_) => None,
        }
    }

    /// Returns the address of the memory that the value refers to, to find values that share it; `None` for a
    /// scalar, which is stored inline, and for a dropped value.
    fn identity(&self) -> Option<usize> {
        match self {
            Stored::Gone | Stored::Scalar(_) => None,
            Stored::Array(x) => Some(x.address()),
            Stored::Tape(x) => Some(Arc::as_ptr(x).addr()),
        }
    }

    /// Returns the bytes that the value holds outside the table of values: its array or its tape. A scalar holds
    /// none.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Stored::Gone | Stored::Scalar(_) => 0,
            Stored::Array(x) => size_of::<Tensor>() + x.bytes().len(),
            Stored::Tape(x) => x.bytes(),
        }
    }
}

impl From<Value> for Stored {
    fn from(value: Value) -> Stored {
        match value {
            Value::Array(x) if x.shape().is_empty() => Stored::Scalar(x.at(0)),
            Value::Array(x) => Stored::Array(Box::new(x)),
            Value::Tape(x) => Stored::Tape(x),
        }
    }
}

impl From<&Tensor> for Stored {
    fn from(x: &Tensor) -> Stored {
        Value::from(x.clone()).into()
    }
}

/// The concrete values of a recording (a trace that is evaluated while it grows), by value number.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    all: Vec<Stored>,
    /// The bytes of all values set so far, without the table `all` itself. Memory listed in `seen` is counted
    /// once.
    live: usize,
    seen: OrderedSet<usize>,
}

impl Values {
    /// Returns the concrete value of an atom; a literal is its own value.
    pub(super) fn read(&self, a: Atom) -> Stored {
        match a {
            Atom::Literal(l) => Stored::Scalar(l),
            Atom::Value(v) => self.all.get(v.as_u32() as usize).cloned().unwrap_or(Stored::Gone),
        }
    }

    /// Returns the concrete values of atoms.
    ///
    /// # Errors
    /// Returns an error if a value was dropped.
    pub(super) fn all(&self, atoms: &[Atom]) -> Result<Vec<Value>, Problem> {
        atoms.iter().map(|a| self.read(*a).value()).collect()
    }

    /// Returns the concrete value of an atom, if the atom is a scalar.
    pub(super) fn scalar(&self, a: Atom) -> Option<Literal> {
        match a {
            Atom::Literal(l) => Some(l),
            Atom::Value(v) => self.all.get(v.as_u32() as usize).and_then(Stored::scalar),
        }
    }

    /// Sets the concrete value of the value with this number.
    pub(super) fn set(&mut self, number: u32, value: Stored) {
        let i = number as usize;
        if value.identity().is_some_and(|buffer| self.seen.insert(buffer)) {
            self.live += value.bytes();
        }
        if i >= self.all.len() {
            self.all.resize(i + 1, Stored::Gone);
        }
        self.all[i] = value;
    }

    /// Returns the bytes of the value with this number; 0 if the value was dropped.
    pub(super) fn bytes_of(&self, number: u32) -> usize {
        match self.all.get(number as usize) {
            None | Some(Stored::Gone) => 0,
            Some(Stored::Scalar(x)) => x.dtype.bytes(),
            Some(Stored::Array(x)) => x.bytes().len(),
            Some(Stored::Tape(x)) => x.bytes(),
        }
    }

    /// Drops the values for whose number `keep` returns false. Scalars stay, since they own no buffer.
    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for (i, value) in self.all.iter_mut().enumerate() {
            if value.scalar().is_none() && !keep(i) {
                *value = Stored::Gone;
            }
        }
        self.all.shrink_to_fit();
        self.seen = OrderedSet::default();
    }

    /// Drops all values with this number or a larger one.
    pub(super) fn truncate(&mut self, number: u32) {
        self.all.truncate(number as usize);
    }

    /// Returns the bytes of all values set so far, dropped ones included. A buffer shared by several values counts
    /// once.
    pub(super) fn live(&self) -> usize {
        self.live + self.all.len() * size_of::<Stored>()
    }

    /// Returns the bytes of all values that have not been dropped. A buffer shared by several values counts once.
    pub(super) fn bytes(&self) -> usize {
        let mut seen = OrderedSet::default();
        let fresh = |value: &&Stored| value.identity().is_some_and(|buffer| seen.insert(buffer));
        let owned = self.all.iter().filter(fresh);
        let owned: usize = owned.map(Stored::bytes).sum();
        owned + self.all.capacity() * size_of::<Stored>()
    }
}
