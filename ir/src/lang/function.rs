//! Functions: straight-line programs in A-normal form.
//!
//! A [`Function`] is a list of equations between parameters and results. There are no blocks and no
//! free variables: control flow and calls hold the ids of other, closed functions. Every value is
//! defined once, before its uses, and values are dense indices ([`ValueId`]) rather than references:
//! ids are `Copy`, so rules read like mathematics; an analysis is a table beside the function; and
//! a program of a million equations is dropped by freeing a few vectors, without recursion.
//!
//! Parameters after the semicolon are *linear*: the function is a linear map of them, whatever the
//! other parameters are. Only such a function can be transposed.
//!
//! ```text
//! func @f.lin(%0: f64[3]; %1: f64[3]) -> (f64[3]) {
//!   %2: f64[3] = mul %1, %0
//!   return %2
//! }
//! ```
//!
//! Model: Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (POPL 2023); Dex.

use crate::fault::{Fault, planted};
use crate::lang::literal::Literal;
use crate::lang::phase::{Origin, Phase};
use crate::lang::source_loc::Loc;
use crate::lang::types::Type;
use crate::prim::Op;
use cranelift_entity::{PrimaryMap, entity_impl};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A value: a parameter or the output of an equation. Displays as `%7`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);
entity_impl!(ValueId, "%");

/// The id of a function of a [`crate::Module`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(u32);
entity_impl!(FuncId, "fn");

/// An operand or a result: a value or a scalar constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Atom {
    /// A value defined earlier in the function.
    Value(ValueId),
    /// A scalar constant.
    Literal(Literal),
}

impl Atom {
    /// Returns the value, unless this is a literal.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Atom::Value(v) => Some(v),
            Atom::Literal(_) => None,
        }
    }

    /// Returns the literal, unless this is a value.
    pub fn literal(self) -> Option<Literal> {
        match self {
            Atom::Value(_) => None,
            Atom::Literal(l) => Some(l),
        }
    }
}

impl From<ValueId> for Atom {
    fn from(v: ValueId) -> Atom {
        Atom::Value(v)
    }
}

impl From<Literal> for Atom {
    fn from(l: Literal) -> Atom {
        Atom::Literal(l)
    }
}

/// Operands of an equation; two is the common case.
pub type Operands = SmallVec<[Atom; 2]>;
/// Outputs of an equation; one is the common case.
pub type Outputs = SmallVec<[ValueId; 1]>;

/// An equation `outputs = op operands`: a primitive applied to operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Equation {
    /// The values that the equation defines.
    pub outputs: Outputs,
    /// The primitive with its attributes.
    pub op: Op,
    /// The values and constants that the equation reads.
    pub operands: Operands,
}

impl Equation {
    /// Returns the bytes in memory of the equation, without the heap memory of its primitive.
    pub(crate) fn bytes(&self) -> usize {
        let operands = if self.operands.spilled() { self.operands.capacity() } else { 0 };
        let outputs = if self.outputs.spilled() { self.outputs.capacity() } else { 0 };
        size_of::<Equation>() + operands * size_of::<Atom>() + outputs * size_of::<ValueId>()
    }
}

/// A closed, immutable program: parameters, equations, results.
#[derive(Clone, Debug)]
pub struct Function {
    /// The name in the text format, without `@`. Not part of equality.
    pub name: Arc<str>,
    /// The ordinary parameters.
    pub params: Vec<ValueId>,
    /// The parameters in which the function is linear.
    pub linear_params: Vec<ValueId>,
    /// The program, in order of evaluation.
    pub equations: Vec<Equation>,
    /// The results, in order: values or constants.
    pub results: Vec<Atom>,
    /// The type of every value, by its id.
    pub types: PrimaryMap<ValueId, Type>,
    /// Per equation: the user's source line. Not part of equality.
    pub locations: Vec<Loc>,
    /// Per equation: its phase of differentiation (forward pass, reverse pass, recomputation).
    pub phases: Vec<Phase>,
}

impl Function {
    /// Returns the bytes in memory of the function, without the heap memory of its primitives.
    pub(crate) fn bytes(&self) -> usize {
        let equations: usize = self.equations.iter().map(Equation::bytes).sum();
        let values = (self.params.len() + self.linear_params.len()) * size_of::<ValueId>();
        let origin = size_of::<Loc>() + size_of::<Phase>();
        let tables = self.types.len() * size_of::<Type>() + self.phases.len() * origin;
        size_of::<Function>() + equations + values + self.results.len() * size_of::<Atom>() + tables
    }

    /// Iterates over all parameters, the linear ones last.
    pub fn all_params(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.params.iter().chain(&self.linear_params).copied()
    }

    /// Returns the type of an atom of this function.
    pub fn type_of(&self, atom: Atom) -> Type {
        match atom {
            Atom::Value(v) => self.types[v].clone(),
            Atom::Literal(l) => Type::scalar(l.dtype),
        }
    }

    /// Returns the types of all parameters, the linear ones last.
    pub fn param_types(&self) -> Vec<Type> {
        self.all_params().map(|p| self.types[p].clone()).collect()
    }

    /// Returns the types of the results.
    pub fn result_types(&self) -> Vec<Type> {
        self.results.iter().map(|r| self.type_of(*r)).collect()
    }

    /// Returns the user's source line of equation `index`.
    pub fn location(&self, index: usize) -> Loc {
        self.locations.get(index).copied().flatten()
    }

    /// Returns the source line and the phase of equation `index`.
    pub fn origin(&self, index: usize) -> Origin {
        let phase = self.phases.get(index).copied().unwrap_or_default();
        Origin { loc: self.location(index), phase }
    }

    /// Returns, per value, how often equations and results read it.
    pub fn use_counts(&self) -> cranelift_entity::SecondaryMap<ValueId, u32> {
        let mut counts = cranelift_entity::SecondaryMap::with_capacity(self.types.len());
        let operands = self.equations.iter().flat_map(|e| &e.operands);
        for v in operands.chain(&self.results).filter_map(|a| a.value()) {
            counts[v] += 1;
        }
        counts
    }
}

/// Compares functions as programs: names and source lines do not count, phases do. Finished functions are numbered
/// in the order of their text, so equal programs have equal value ids.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.params == other.params
            && self.linear_params == other.linear_params
            && self.equations == other.equations
            && self.results == other.results
            && self.types == other.types
            && (self.phases == other.phases || planted(Fault::PhasesMerged))
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.params.hash(state);
        self.linear_params.hash(state);
        self.equations.hash(state);
        self.results.hash(state);
        if !planted(Fault::PhasesMerged) {
            self.phases.hash(state);
        }
        for p in self.all_params() {
            self.types[p].hash(state);
        }
    }
}
