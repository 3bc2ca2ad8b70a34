//! What a recording knows of each value: the value itself.
//!
//! Programs that run by run of Rust code are often made of numbers, a million of them; so a scalar is
//! stored in 16 bytes and owns nothing.

use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::Problem;
use crate::lang::value::{Tape, Value};
use crate::map::OrderedSet;
use crate::tensor::Tensor;
use std::sync::Arc;

/// A concrete value, small where it can be.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    /// It was an error, or nobody needs it any more.
    Gone,
    /// A scalar.
    Scalar(Literal),
    /// An array.
    Array(Box<Tensor>),
    /// The records of a loop.
    Tape(Arc<Tape>),
}

impl Stored {
    /// The value.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn value(&self) -> Result<Value, Problem> {
        match self {
            Stored::Gone => Err(Problem::internal("a recorded value was dropped that is needed")),
            Stored::Scalar(x) => Ok(Tensor::from(*x).into()),
            Stored::Array(x) => Ok(Tensor::clone(x).into()),
            Stored::Tape(x) => Ok(Value::Tape(x.clone())),
        }
    }

    /// The value, which is not needed here any more.
    ///
    /// # Errors
    /// When it is gone.
    pub(super) fn into_value(self) -> Result<Value, Problem> {
        match self {
            Stored::Array(x) => Ok(Value::Array(*x)),
            Stored::Gone | Stored::Scalar(_) | Stored::Tape(_) => self.value(),
        }
    }

    /// The array.
    ///
    /// # Errors
    /// As [`Stored::value`], and when it is a tape.
    pub(super) fn tensor(&self) -> Result<Tensor, Problem> {
        self.value()?.array().cloned()
    }

    /// The scalar, if it is one.
    pub(super) fn scalar(&self) -> Option<Literal> {
        match self {
            Stored::Scalar(x) => Some(*x),
            Stored::Gone | Stored::Array(_) | Stored::Tape(_) => None,
        }
    }

    /// Which buffer it holds outside its slot.
    fn identity(&self) -> Option<usize> {
        match self {
            Stored::Gone | Stored::Scalar(_) => None,
            Stored::Array(x) => Some(x.address()),
            Stored::Tape(x) => Some(Arc::as_ptr(x).addr()),
        }
    }

    /// Bytes that it holds outside its slot.
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

/// The values of a recording, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    all: Vec<Stored>,
    /// Bytes outside the slots, of buffers that have been seen.
    live: usize,
    seen: OrderedSet<usize>,
}

impl Values {
    /// The value of an atom; a constant is its own.
    pub(super) fn read(&self, a: Atom) -> Stored {
        match a {
            Atom::Literal(l) => Stored::Scalar(l),
            Atom::Value(v) => self.all.get(v.as_u32() as usize).cloned().unwrap_or(Stored::Gone),
        }
    }

    /// The values of atoms.
    ///
    /// # Errors
    /// When one is gone.
    pub(super) fn all(&self, atoms: &[Atom]) -> Result<Vec<Value>, Problem> {
        atoms.iter().map(|a| self.read(*a).value()).collect()
    }

    /// The scalar that an atom is, if it is one.
    pub(super) fn scalar(&self, a: Atom) -> Option<Literal> {
        match a {
            Atom::Literal(l) => Some(l),
            Atom::Value(v) => self.all.get(v.as_u32() as usize).and_then(Stored::scalar),
        }
    }

    /// Gives the value of that number.
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

    /// Bytes of the value of that number, if it is kept.
    pub(super) fn kept(&self, number: u32) -> usize {
        match self.all.get(number as usize) {
            None | Some(Stored::Gone) => 0,
            Some(Stored::Scalar(x)) => x.dtype.bytes(),
            Some(Stored::Array(x)) => x.bytes().len(),
            Some(Stored::Tape(x)) => x.bytes(),
        }
    }

    /// Drops those that `keep` does not name; a scalar owns nothing and stays.
    pub(super) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for (i, value) in self.all.iter_mut().enumerate() {
            if value.scalar().is_none() && !keep(i) {
                *value = Stored::Gone;
            }
        }
        self.all.shrink_to_fit();
        self.seen = OrderedSet::default();
    }

    /// Drops all from that number on.
    pub(super) fn truncate(&mut self, number: u32) {
        self.all.truncate(number as usize);
    }

    /// Bytes of all that were given so far, a buffer that several share counted once.
    pub(super) fn live(&self) -> usize {
        self.live + self.all.len() * size_of::<Stored>()
    }

    /// Bytes of all of them, a buffer that several share counted once.
    pub(super) fn bytes(&self) -> usize {
        let mut seen = OrderedSet::default();
        let fresh = |value: &&Stored| value.identity().is_some_and(|buffer| seen.insert(buffer));
        let owned = self.all.iter().filter(fresh);
        let owned: usize = owned.map(Stored::bytes).sum();
        owned + self.all.capacity() * size_of::<Stored>()
    }
}
