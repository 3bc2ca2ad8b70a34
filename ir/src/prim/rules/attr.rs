//! Attributes: the static arguments of a primitive in the text format.
//!
//! `Attr` is a small closed type, so that printer and parser of the text format do not depend on
//! primitives. Example: `slice{start=[0,1], limit=[2,3]}`.

use crate::lang::function::FuncId;
use crate::lang::host::Host;
use crate::lang::types::{ArrayType, Dtype};
use std::borrow::Cow;
use std::fmt;

/// The value of an attribute of a primitive, in the text format.
#[derive(Clone, PartialEq, Debug)]
pub enum Attr {
    /// An integer: `3`, `-1`.
    Int(i64),
    /// A list of integers: `[0,2]`.
    Ints(Vec<i64>),
    /// A truth value: `true`, `false`.
    Bool(bool),
    /// A dtype: `f32`.
    Dtype(Dtype),
    /// A word from a closed set: `clip`.
    Word(Cow<'static, str>),
    /// A list of words: `[const,xs]`.
    Words(Vec<Cow<'static, str>>),
    /// A function of the module: `@f`.
    Func(FuncId),
    /// A list of functions of the module: `[@f,@g]`.
    Funcs(Vec<FuncId>),
    /// A Rust function: `&f`.
    Host(Host),
    /// A list of array types: `[f64[3],i64[]]`.
    Types(Vec<ArrayType>),
}

/// The text form of an attribute, except for functions of the module, whose names only the module has.
impl fmt::Display for Attr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attr::Int(i) => write!(out, "{i}"),
            Attr::Ints(all) => {
                let items: Vec<String> = all.iter().map(i64::to_string).collect();
                write!(out, "[{}]", items.join(","))
            }
            Attr::Bool(b) => write!(out, "{b}"),
            Attr::Dtype(d) => write!(out, "{d}"),
            Attr::Word(w) => out.write_str(w),
            Attr::Words(all) => write!(out, "[{}]", all.join(",")),
            Attr::Func(_) => out.write_str("a function"),
            Attr::Funcs(_) => out.write_str("a list of functions"),
            Attr::Host(host) => write!(out, "{host:?}"),
            Attr::Types(all) => {
                let types: Vec<String> = all.iter().map(ArrayType::to_string).collect();
                write!(out, "[{}]", types.join(","))
            }
        }
    }
}

/// A primitive's attributes as read from text. The primitive's parser removes each attribute that it reads. The text
/// parser reports the first remaining attribute as unknown.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    entries: Vec<(String, Attr)>,
}

impl Attributes {
    /// Creates the attributes of one equation from names and values in the order of the text.
    pub fn new(entries: Vec<(String, Attr)>) -> Attributes {
        Attributes { entries }
    }

    /// Removes the attribute `name` and returns its value; `None` if it is absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Attr> {
        let i = self.entries.iter().position(|(n, _)| n == name)?;
        Some(self.entries.remove(i).1)
    }

    /// Returns whether the attribute `name` is present.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(n, _)| n == name)
    }

    /// Returns the name of the first attribute that no `take` has removed: one that the primitive does
    /// not have.
    pub fn leftover(&self) -> Option<&str> {
        self.entries.first().map(|(n, _)| n.as_str())
    }
}
