//! Attributes: the static arguments of a primitive in the text format.
//!
//! A small closed type, so that printer and parser know no primitive: `slice{start=[0,1], limit=[2,3]}`.

use crate::function::FuncId;
use crate::problem::{Kind, Problem};
use crate::types::Dtype;

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// `3`, `-1`
    Int(i64),
    /// `[0,2]`
    Ints(Vec<i64>),
    /// `true`
    Bool(bool),
    /// `f32`
    Dtype(Dtype),
    /// `clip`, a word out of a closed set
    Word(&'static str),
    /// A word that has been read.
    Read(String),
    /// `@f`
    Func(FuncId),
}

impl Attr {
    /// A list of extents or axes.
    pub fn sizes(values: &[usize]) -> Attr {
        Attr::Ints(values.iter().map(|v| *v as i64).collect())
    }
}

/// Attributes as read from text; a primitive takes those it knows, the parser reports the rest.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    entries: Vec<(String, Attr)>,
}

impl Attributes {
    /// Attributes in the order read.
    pub fn new(entries: Vec<(String, Attr)>) -> Attributes {
        Attributes { entries }
    }

    /// Takes an attribute.
    fn take(&mut self, name: &str) -> Result<Attr, Problem> {
        match self.entries.iter().position(|(n, _)| n == name) {
            Some(i) => Ok(self.entries.remove(i).1),
            None => Err(Problem::new(Kind::Parse, format!("attribute `{name}` is missing"), "")),
        }
    }

    /// Takes an integer.
    pub fn int(&mut self, name: &str) -> Result<i64, Problem> {
        match self.take(name)? {
            Attr::Int(i) => Ok(i),
            other => Err(unexpected(name, "an integer", &other)),
        }
    }

    /// Takes a natural number.
    pub fn size(&mut self, name: &str) -> Result<usize, Problem> {
        let i = self.int(name)?;
        usize::try_from(i).map_err(|_| unexpected(name, "a natural number", &Attr::Int(i)))
    }

    /// Takes a list of integers.
    pub fn ints(&mut self, name: &str) -> Result<Vec<i64>, Problem> {
        match self.take(name)? {
            Attr::Ints(v) => Ok(v),
            other => Err(unexpected(name, "a list of integers", &other)),
        }
    }

    /// Takes a list of natural numbers.
    pub fn sizes(&mut self, name: &str) -> Result<Vec<usize>, Problem> {
        let ints = self.ints(name)?;
        let sizes: Result<Vec<usize>, _> = ints.iter().map(|i| usize::try_from(*i)).collect();
        sizes.map_err(|_| unexpected(name, "natural numbers", &Attr::Ints(ints)))
    }

    /// Takes a truth value.
    pub fn bool(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name)? {
            Attr::Bool(b) => Ok(b),
            other => Err(unexpected(name, "true or false", &other)),
        }
    }

    /// Takes a dtype.
    pub fn dtype(&mut self, name: &str) -> Result<Dtype, Problem> {
        match self.take(name)? {
            Attr::Dtype(d) => Ok(d),
            other => Err(unexpected(name, "a dtype", &other)),
        }
    }

    /// Takes a function.
    pub fn func(&mut self, name: &str) -> Result<FuncId, Problem> {
        match self.take(name)? {
            Attr::Func(f) => Ok(f),
            other => Err(unexpected(name, "a function", &other)),
        }
    }

    /// Takes a function if the attribute is there.
    pub fn optional_func(&mut self, name: &str) -> Result<Option<FuncId>, Problem> {
        match self.entries.iter().any(|(n, _)| n == name) {
            true => self.func(name).map(Some),
            false => Ok(None),
        }
    }

    /// Takes a word.
    pub fn word(&mut self, name: &str) -> Result<String, Problem> {
        match self.take(name)? {
            Attr::Read(w) => Ok(w),
            Attr::Word(w) => Ok(w.to_owned()),
            other => Err(unexpected(name, "a word", &other)),
        }
    }

    /// The name of an attribute that nobody took.
    pub fn leftover(&self) -> Option<&str> {
        self.entries.first().map(|(n, _)| n.as_str())
    }
}

fn unexpected(name: &str, want: &str, got: &Attr) -> Problem {
    Problem::new(Kind::Parse, format!("attribute `{name}` must be {want}, found {got:?}"), "")
}
