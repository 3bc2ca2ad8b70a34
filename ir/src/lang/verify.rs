//! The verifier: checks the invariants of the language.
//!
//! It runs after every pass in debug builds and on every text that is parsed. It collects all errors instead of
//! stopping at the first.

use crate::lang::builder::infer;
use crate::lang::function::{Atom, FuncId, Function, ValueId};
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::Type;
use crate::prim::{Linearity, Op};
use crate::text::print_equation;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::fmt;

/// An error that the verifier found, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The name of the function that breaks an invariant.
    pub function: String,
    /// The index of the equation that breaks an invariant; `None` for the signature or the results.
    pub equation: Option<usize>,
    /// The equation that breaks an invariant, printed as text. Empty if the signature or the results break the
    /// invariant.
    pub text: String,
    /// The invariant that is broken, as a problem.
    pub problem: Problem,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.equation {
            Some(i) => {
                write!(f, "@{} equation {i}, `{}`: {}", self.function, self.text, self.problem)
            }
            None => write!(f, "@{}: {}", self.function, self.problem),
        }
    }
}

/// Checks all functions of a module; an empty list means that all invariants hold.
pub fn verify_module(module: &Module) -> Vec<VerifyError> {
    module.iter().flat_map(|(id, _)| verify(module, id)).collect()
}

/// Checks one function; an empty list means that all invariants hold.
pub fn verify(module: &Module, id: FuncId) -> Vec<VerifyError> {
    verify_function(module, module.function(id))
}

/// Checks a function that is not in the module yet. The functions that it refers to must be in the module.
pub(crate) fn verify_function(module: &Module, f: &Function) -> Vec<VerifyError> {
    let mut v =
        Verifier { module, f, linearity: SecondaryMap::with_default(None), errors: Vec::new() };
    v.run();
    v.errors
}

struct Verifier<'a> {
    module: &'a Module,
    f: &'a Function,
    /// Per value defined so far: whether it is constant, zero or linear in the linear parameters. `None` for values
    /// not yet defined.
    linearity: SecondaryMap<ValueId, Option<Linearity>>,
    errors: Vec<VerifyError>,
}

impl Verifier<'_> {
    fn error(&mut self, equation: Option<usize>, kind: Kind, message: String) {
        self.problem(equation, Problem::new(kind, message, ""));
    }

    fn problem(&mut self, equation: Option<usize>, problem: Problem) {
        let text = equation.map(|i| print_equation(self.module, self.f, i));
        let problem = problem.at(equation.and_then(|i| self.f.location(i)));
        let (function, text) = (self.f.name.to_string(), text.unwrap_or_default());
        self.errors.push(VerifyError { function, equation, text, problem });
    }

    fn run(&mut self) {
        for p in &self.f.params {
            self.define(None, *p, Linearity::Constant);
        }
        for p in &self.f.linear_params {
            self.define(None, *p, Linearity::Linear);
            if !self.f.types[*p].is_linear() {
                let message = format!("linear parameter {p} is {}, not a float", self.f.types[*p]);
                self.error(None, Kind::NotLinear, message);
            }
        }
        for i in 0..self.f.equations.len() {
            self.equation(i);
        }
        for r in self.f.results.clone() {
            let linearity = self.read(None, r);
            if !self.f.linear_params.is_empty() && linearity == Linearity::Constant {
                let message = format!("result {} does not depend on linear parameters", show(r));
                self.error(None, Kind::NotLinear, message);
            }
        }
    }

    fn define(&mut self, equation: Option<usize>, v: ValueId, linearity: Linearity) {
        if self.linearity[v].replace(linearity).is_some() {
            self.error(equation, Kind::Verify, format!("{v} is defined twice"));
        }
        if let Some(a) = self.f.types[v].as_array()
            && a.checked_bytes().is_none()
        {
            let message = format!("{v} of type {a} is larger than memory can be");
            self.error(equation, Kind::TooLarge, message);
        }
    }

    fn read(&mut self, equation: Option<usize>, a: Atom) -> Linearity {
        match a {
            Atom::Literal(l) if l.is_zero() => Linearity::Zero,
            Atom::Literal(_) => Linearity::Constant,
            Atom::Value(v) => self.linearity[v].unwrap_or_else(|| {
                self.error(equation, Kind::Verify, format!("{v} is read before it is defined"));
                Linearity::Constant
            }),
        }
    }

    fn equation(&mut self, i: usize) {
        let e = &self.f.equations[i];
        let at = Some(i);
        let operands: SmallVec<[Linearity; 3]> =
            e.operands.iter().map(|a| self.read(at, *a)).collect();
        for callee in e.op.regions().iter().map(|r| r.function) {
            if !self.module.contains(callee) {
                self.error(at, Kind::Verify, format!("{callee} is not in the module"));
                return;
            }
        }
        let types: SmallVec<[Type; 3]> = e.operands.iter().map(|a| self.f.type_of(*a)).collect();
        let linearity = match infer(self.module, &e.op, &e.operands, &types) {
            Err(problem) => {
                self.problem(at, problem);
                // Rules may rely on the types, so linearity is not checked for an ill-typed equation.
                let linear = operands.contains(&Linearity::Linear);
                if linear { Linearity::Linear } else { Linearity::Constant }
            }
            Ok(inferred) => {
                if !inferred.iter().eq(e.outputs.iter().map(|o| &self.f.types[*o])) {
                    let declared = e.outputs.iter().map(|o| &self.f.types[*o]);
                    let (gives, says) = (list(inferred.iter()), list(declared));
                    let message = format!("`{}` gives {gives}, declared {says}", e.op.name());
                    self.error(at, Kind::Verify, message);
                }
                self.propagate(i, &operands)
            }
        };
        for o in &e.outputs {
            self.define(at, *o, linearity);
        }
    }

    /// Returns the linearity of the outputs of equation `i`, given that of its operands; reports a primitive that
    /// is not linear in its linear operands.
    fn propagate(&mut self, i: usize, operands: &[Linearity]) -> Linearity {
        let e = &self.f.equations[i];
        if operands.contains(&Linearity::Linear) {
            if !e.op.is_linear(self.module, operands) {
                self.problem(Some(i), not_linear(&e.op));
            }
            return Linearity::Linear;
        }
        as_is(self.module, &e.op, operands)
    }
}

/// Returns the error for a primitive that is not linear in operands that depend on linear parameters.
pub(crate) fn not_linear(op: &Op) -> Problem {
    let message =
        format!("`{}` is not linear in values that depend on linear parameters", op.name());
    let help = "sums, movement and products with other values are linear; `linearize` derives a \
                linear function from any function";
    Problem::new(Kind::NotLinear, message, help)
}

/// Returns the linearity of the outputs of an equation without linear operands: zero or constant.
///
/// If the primitive is linear in an operand that is zero, with the other operands held constant, the outputs are zero.
/// Examples are a broadcast or gather of zeros, and a product of zeros with any value.
pub(crate) fn as_is(module: &Module, op: &Op, operands: &[Linearity]) -> Linearity {
    let linear_in = |i: usize| {
        let mut given = SmallVec::<[Linearity; 3]>::from_slice(operands);
        given[i] = Linearity::Linear;
        op.is_linear(module, &given)
    };
    let mut zeros = (0..operands.len()).filter(|i| operands[*i] == Linearity::Zero);
    if zeros.any(linear_in) { Linearity::Zero } else { Linearity::Constant }
}

fn show(a: Atom) -> String {
    match a {
        Atom::Value(v) => v.to_string(),
        Atom::Literal(l) => l.to_string(),
    }
}

fn list<'t>(types: impl Iterator<Item = &'t Type>) -> String {
    let names: Vec<String> = types.map(Type::to_string).collect();
    names.join(", ")
}
