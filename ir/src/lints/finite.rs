//! Finds where a value that is not finite first appeared, by observing every equation in the interpreter.
//!
//! ```
//! use tapeloom_ir::{Kind, Tensor, eval_finite, parse_module};
//! let module = parse_module("func @f(%0: f64[2]) -> (f64[2]) {
//!   %1: f64[2] = log %0
//!   %2: f64[2] = mul %1, 0.0
//!   return %2
//! }").map_err(|e| e[0].clone())?;
//! let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
//! let problem = eval_finite(&module, f, &[Tensor::from([1.0, 0.0])]).unwrap_err();
//! assert_eq!(problem.kind, Kind::NotFinite);
//! assert!(problem.message.contains("`log` gave -inf at [1], from 0.0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A value that is not finite *appears* at an equation if all its operands are finite, or if the equation computes a
//! nan from infinities that were arguments or literals. From there the value is tracked. It is reported
//!
//! - if a result of the program is not finite because of it, or
//! - if an equation computes a finite float from it, so that the result no longer shows it.
//!
//! It is not reported if no equation reads it, if the element is dropped (by `select`, a slice, a gather), or if the
//! element is only tested or compared (`is_finite`). So the operand of a `select` that is not selected is ignored,
//! unless an equation computes something else from it. Of a branch, only the side that runs is observed. Inactive
//! members of a batch run on values of active ones, so they report nothing of their own.
//!
//! Literals are intended, and never reported; arguments are reported if they reach a result.

use crate::lang::eval::{Observer, eval, observed};
use crate::lang::function::{Atom, Equation, FuncId, Function, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::{Kind, Problem};
use crate::lang::source_loc::Loc;
use crate::lang::types::Type;
use crate::lang::value::Value;
use crate::prim::{Code, Lowering, Operand};
use crate::tensor::Tensor;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Runs a function as [`eval`] does, and reports where a nan or infinity first appeared, by the rules at the top of
/// this file.
///
/// # Errors
/// [`Kind::NotFinite`] with the operation that made the value and the user's source line; errors of [`eval`].
pub fn eval_finite(
    module: &Module,
    function: FuncId,
    args: &[Tensor],
) -> Result<Vec<Tensor>, Problem> {
    let (results, around) = NonFiniteOrigins::during(Some(NonFiniteOrigins::default()), || {
        observed(FiniteCheck::begin, || eval(module, function, args))
    });
    let results = results?;
    match around.and_then(|around| around.results) {
        Some(Origin::Appeared(_, problem)) => Err((*problem).clone()),
        Some(Origin::Given) => Err(given(args, &results)),
        Some(Origin::Constant) | None => Ok(results),
    }
}

/// Returns the error for a result that is not finite because an argument is not.
fn given(args: &[Tensor], results: &[Tensor]) -> Problem {
    let first = |all: &[Tensor]| all.iter().position(|x| of_tensor(x) != Finite::Yes).unwrap_or(0);
    let (which, result) = (first(args), first(results));
    Problem::new(
        Kind::NotFinite,
        format!("result {result} is not finite, and neither is argument {which}"),
        "no operation made it: look at the origin of the argument",
    )
}

/// The kind of a value's worst element; from best to worst, a finite number, an infinity, a nan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Finite {
    Yes,
    /// An element is an infinity, and no element is a nan.
    Infinite,
    /// At least one element is a nan.
    Nan,
}

fn of_literal(x: Literal) -> Finite {
    if !x.dtype.is_float() {
        return Finite::Yes;
    }
    match x.to_f64() {
        x if x.is_nan() => Finite::Nan,
        x if x.is_infinite() => Finite::Infinite,
        _ => Finite::Yes,
    }
}

fn of_tensor(x: &Tensor) -> Finite {
    if !x.dtype().is_float() {
        return Finite::Yes;
    }
    x.literals().map(of_literal).max().unwrap_or(Finite::Yes)
}

fn of_value(x: &Value) -> Finite {
    match x {
        Value::Array(x) => of_tensor(x),
        Value::Tape(tape) => {
            tape.records.iter().flatten().map(of_value).max().unwrap_or(Finite::Yes)
        }
    }
}

/// The origin of a nan or infinity. Of several origins, the last variant in this list is the best one to report.
#[derive(Clone, Debug)]
enum Origin {
    /// The value came from a literal of the program.
    Constant,
    /// The value came from an argument of the program.
    Given,
    /// The value appeared at an equation (see the top of this file). The number counts appearances so far, in
    /// program order; the problem is the report.
    Appeared(u64, Arc<Problem>),
}

/// Returns the origin to report: the first appearance at an equation, else an argument, else a literal.
fn first<'o>(origins: impl IntoIterator<Item = &'o Origin>) -> Option<Origin> {
    let rank = |o: &&Origin| match o {
        Origin::Appeared(n, _) => (0, *n),
        Origin::Given => (1, 0),
        Origin::Constant => (2, 0),
    };
    origins.into_iter().min_by_key(rank).cloned()
}

thread_local! {
    /// The origins of nans and infinities in the operands and results of the equation that runs the current function;
    /// `None` if nothing is checked.
    static AROUND: RefCell<Option<NonFiniteOrigins>> = const { RefCell::new(None) };
    /// The number of equations so far that made a nan or infinity.
    static APPEARED: Cell<u64> = const { Cell::new(0) };
}

/// The origins of nans and infinities in the operands and results of an equation that runs functions.
#[derive(Clone, Default)]
struct NonFiniteOrigins {
    /// The origin of operands that are not finite; `None` if all are finite.
    operands: Option<Origin>,
    /// The origin of the nans and infinities in the results so far; `None` if all results are finite.
    results: Option<Origin>,
}

impl NonFiniteOrigins {
    /// Calls `run`; functions that run meanwhile read the origins of their operands in `around`. Returns the result
    /// of `run`, and `around` with the origins of the functions' results.
    fn during<T>(
        around: Option<NonFiniteOrigins>,
        run: impl FnOnce() -> T,
    ) -> (T, Option<NonFiniteOrigins>) {
        /// A guard that restores the previous value of `AROUND`, even if `run` panics.
        struct Restore(Option<NonFiniteOrigins>);
        impl Drop for Restore {
            fn drop(&mut self) {
                AROUND.set(self.0.take());
            }
        }
        let restore = Restore(AROUND.replace(around));
        let answer = run();
        let left = AROUND.take();
        drop(restore);
        (answer, left)
    }
}

/// The check for nans and infinities during one run of a function.
struct FiniteCheck {
    origins: SecondaryMap<ValueId, Option<Origin>>,
}

impl FiniteCheck {
    /// Begins the check of one run of a function; returns `None` if nothing is checked on this thread.
    fn begin(params: &[ValueId], args: &[Value]) -> Option<Box<dyn Observer>> {
        let around = AROUND.with_borrow(Clone::clone)?;
        // The parameters of an iteration of a loop are the results of the iteration before. So take the origin of the
        // results, if there is one.
        let given = around.results.or(around.operands).unwrap_or(Origin::Given);
        let mut origins = SecondaryMap::new();
        for (p, _) in params.iter().zip(args).filter(|(_, x)| of_value(x) != Finite::Yes) {
            origins[*p] = Some(given.clone());
        }
        Some(Box::new(FiniteCheck { origins }))
    }

    /// Returns the origin of an atom's nan or infinity; `None` if the atom is finite.
    fn origin(&self, a: Atom) -> Option<Origin> {
        match a {
            Atom::Value(v) => self.origins[v].clone(),
            Atom::Literal(l) => (of_literal(l) != Finite::Yes).then_some(Origin::Constant),
        }
    }
}

impl Observer for FiniteCheck {
    /// Runs the equation, and notes the origin of each output that is not finite.
    fn equation(
        &mut self,
        module: &Module,
        (f, i): (&Function, usize),
        operands: &[Value],
    ) -> Result<Vec<Value>, Problem> {
        let e = &f.equations[i];
        let origins: SmallVec<[Option<Origin>; 3]> =
            e.operands.iter().map(|a| self.origin(*a)).collect();
        let before = first(origins.iter().flatten());
        let runs = !e.op.regions().is_empty();
        // A function that a callback runs is a separate program, so it is not checked.
        let around = runs.then(|| NonFiniteOrigins { operands: before.clone(), results: None });
        let (outputs, inside) = NonFiniteOrigins::during(around, || e.op.run(module, operands));
        let outputs = outputs?;
        let worst = operands.iter().map(of_value).max().unwrap_or(Finite::Yes);
        let inside = inside.and_then(|around| around.results);
        let mut lost = !runs;
        for (v, y) in e.outputs.iter().zip(&outputs) {
            let found = of_value(y);
            let float = y.ty().as_array().is_some_and(|ty| ty.dtype.is_float());
            lost &= found == Finite::Yes && float;
            if found == Finite::Yes {
                continue;
            }
            let worse = |at: Finite| worst < at && !runs;
            self.origins[*v] = match (&inside, &before) {
                (Some(origin), _) => Some(origin.clone()),
                (None, Some(origin @ Origin::Appeared(..))) => Some(origin.clone()),
                (None, Some(origin)) if !worse(found) => Some(origin.clone()),
                (None, _) => Some(appeared(f, i, operands, y)),
            };
        }
        if let Some(Origin::Appeared(_, problem)) = before
            && lost
            && !e.outputs.is_empty()
            && computes(module, f, e)
        {
            return Err((*problem).clone());
        }
        Ok(outputs)
    }

    fn end(&self, results: &[Atom]) {
        let origins: Vec<Origin> = results.iter().filter_map(|a| self.origin(*a)).collect();
        AROUND.with_borrow_mut(|around| {
            if let Some(around) = around {
                around.results = first(around.results.iter().chain(&origins));
            }
        });
    }
}

/// Returns whether an equation does arithmetic with its operands, in contrast to moving, selecting or testing them.
fn computes(module: &Module, f: &Function, e: &Equation) -> bool {
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    let operand = |(a, ty): (&Atom, _)| Operand { ty, literal: a.literal() };
    let operands: Vec<Operand<'_>> = e.operands.iter().zip(&types).map(operand).collect();
    match e.op.lower(module, &operands) {
        Lowering::Elementwise(Code::Select)
        | Lowering::View { .. }
        | Lowering::Reshape
        | Lowering::Alias { .. }
        | Lowering::Iota { .. }
        | Lowering::DynamicSlice
        | Lowering::DynamicUpdateSlice
        | Lowering::Gather { .. }
        | Lowering::Scatter { .. }
        | Lowering::Host(_)
        | Lowering::Call(_)
        | Lowering::Branch { .. }
        | Lowering::Loop { .. }
        | Lowering::Missing(_) => false,
        Lowering::Elementwise(_)
        | Lowering::Reduce { .. }
        | Lowering::ArgReduce { .. }
        | Lowering::Cumulate { .. }
        | Lowering::ArgSort { .. }
        | Lowering::Contract { .. }
        | Lowering::Routine(_) => true,
    }
}

/// Returns the origin for an equation that made a nan or infinity (output `y`), with the report for the user.
fn appeared(f: &Function, i: usize, operands: &[Value], y: &Value) -> Origin {
    let e = &f.equations[i];
    let Value::Array(y) = y else { return Origin::Constant };
    let worst = of_tensor(y);
    let at = y.literals().position(|x| of_literal(x) == worst).unwrap_or(0);
    let mut index = Vec::new();
    let mut rest = at;
    for extent in y.shape().iter().rev() {
        index.push((rest % extent).to_string());
        rest /= extent;
    }
    index.reverse();
    let place = match index.is_empty() {
        true => String::new(),
        false => format!(" at [{}]", index.join(", ")),
    };
    // Returns the element of an operand from which the reported element was computed: the one at the same index for an
    // elementwise operation, or the only element.
    let same = |x: &Value| match x {
        Value::Array(x) if x.shape() == y.shape() => x.literal(at).ok(),
        Value::Array(x) if x.shape().is_empty() => x.literal(0).ok(),
        Value::Array(_) | Value::Tape(_) => None,
    };
    let given: Option<Vec<String>> = operands.iter().map(|x| same(x).map(number)).collect();
    let from = match given {
        Some(given) if !given.is_empty() => {
            format!(", from {}", given.join(" and "))
        }
        _ if operands.iter().any(|x| of_value(x) != Finite::Yes) => ", from infinite values".into(),
        _ => ", from finite values".into(),
    };
    let value = y.literal(at).map_or_else(|_| String::new(), number);
    let name = e.op.name();
    let message =
        format!("a value that is not finite first appeared: `{name}` gave {value}{place}{from}");
    let help = "if the operand may be outside the domain, choose before the operation: by `cond`, \
                which runs one side only, or by a `select` of an operand inside the domain";
    let location: Loc = f.location(i);
    let problem = Problem::new(Kind::NotFinite, message, help).at(location);
    Origin::Appeared(APPEARED.replace(APPEARED.get() + 1), Arc::new(problem))
}

/// Returns the text of a number, as Rust prints floats; `nan` for a nan.
fn number(x: Literal) -> String {
    let x = x.to_f64();
    if x.is_nan() { "nan".to_owned() } else { format!("{x:?}") }
}
