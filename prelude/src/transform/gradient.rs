//! Gradients of functions with a scalar result.

use crate::Var;
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::staging::{Staged, rebuild, stage_linearized};
use crate::tree::{Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::StopGradient;
use tapeloom_ir::trace::{Diagnostic, Note};
use tapeloom_ir::{Kind, Literal, Loc, Problem};

/// Returns a closure that computes the gradient of `f`, whose result is a scalar: `(A -> Var) -> (A -> A)`.
///
/// The gradient is computed in reverse mode, so its cost is a small multiple of the cost of `f`, independent of the
/// size of `A`. The gradient has the structure and shapes of the argument. To differentiate with respect to some
/// arguments only, capture the others in the closure.
///
/// Errors: `shape` if the result is not a scalar; `not-differentiable` if a leaf of the argument is not a float
/// (the message has the path of the leaf) or if an operation has no derivative (the message has its line).
///
/// ```
/// use tapeloom::prelude::*;
/// let slope = jit(grad(|x: Var| x.sin()));
/// assert_eq!(slope.call(0.0)?.item::<f64>()?, 1.0);
/// let third = jit(grad(grad(grad(|x: Var| x.powi(5)))));
/// assert_eq!(third.call(2.0)?.item::<f64>()?, 240.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "backward")]
#[doc(alias = "requires_grad")]
#[track_caller]
pub fn grad<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn(A) -> A {
    let (f, at) = (one(f), caller());
    move |x| value_and_grad_at("grad", &f, at, x).1
}

/// Returns a closure that computes value and gradient, at the cost of the gradient: `(A -> Var) -> (A -> (Var, A))`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(value_and_grad(|(x, y): (Var, Var)| x * x * y));
/// let (value, (dx, dy)) = f.call((3.0, 2.0))?;
/// assert_eq!(value.item::<f64>()?, 18.0);
/// assert_eq!((dx.item::<f64>()?, dy.item::<f64>()?), (12.0, 9.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: as [`grad`].
#[track_caller]
pub fn value_and_grad<A: Tree<Var>, F: Function<A, Var, M>, M>(f: F) -> impl Fn(A) -> (Var, A) {
    let (f, at) = (one(f), caller());
    move |x| value_and_grad_at("value_and_grad", &f, at, x)
}

/// Returns a closure that computes the gradient of the first result of `f` and passes the second result through
/// without differentiating it: `(A -> (Var, B)) -> (A -> (A, B))`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(grad_aux(|x: Var| (x.square(), x + 1.0)));
/// let (slope, next) = f.call(3.0)?;
/// assert_eq!((slope.item::<f64>()?, next.item::<f64>()?), (6.0, 4.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: as [`grad`].
#[doc(alias = "has_aux")]
#[track_caller]
pub fn grad_aux<A: Tree<Var>, B: Tree<Var>, F: Function<A, (Var, B), M>, M>(
    f: F,
) -> impl Fn(A) -> (A, B) {
    let (f, at) = (one(f), caller());
    move |x| {
        let ((_, aux), dx) = differentiate("grad_aux", &f, at, x);
        (dx, aux)
    }
}

/// Returns a closure that computes both results of `f` and the gradient of the first one:
/// `(A -> (Var, B)) -> (A -> ((Var, B), A))`.
///
/// Errors: as [`grad`].
#[track_caller]
pub fn value_and_grad_aux<A: Tree<Var>, B: Tree<Var>, F: Function<A, (Var, B), M>, M>(
    f: F,
) -> impl Fn(A) -> ((Var, B), A) {
    let (f, at) = (one(f), caller());
    move |x| differentiate("value_and_grad_aux", &f, at, x)
}

/// Computes the value and the gradient of `f` at `x`. `transform` and `at` are the name and the line of the user's
/// call, for messages.
pub(crate) fn value_and_grad_at<A: Tree<Var>>(
    transform: &'static str,
    f: &dyn Fn(A) -> Var,
    at: Loc,
    x: A,
) -> (Var, A) {
    let ((y, ()), dx) = differentiate(transform, &|x| (f(x), ()), at, x);
    (y, dx)
}

/// Computes all results of `f` and the gradient of the first one, by reverse mode with the cotangent 1. The other
/// results are constants for derivatives.
fn differentiate<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    f: &dyn Fn(A) -> (Var, B),
    at: Loc,
    x: A,
) -> ((Var, B), A) {
    let inactive = |x| {
        let (y, aux) = f(x);
        let (structure, leaves) = flatten(&aux);
        (y, rebuild(&structure, stop_gradients(leaves, at), at))
    };
    let (staged, structure, output) = stage_linearized::<A, (Var, B)>(transform, at, &inactive, x);
    let (results, cotangents) = cotangents(&staged, transform);
    (rebuild(&output, results, at), rebuild(&structure, cotangents, at))
}

/// Emits forward and reverse pass. Returns the results, and the cotangents of the arguments for the cotangent 1 of the
/// first result.
fn cotangents(staged: &Staged, transform: &str) -> (Vec<Var>, Vec<Var>) {
    let (types, at) = (staged.result_types(), staged.at);
    let ok = scalar_result(staged, transform) & staged.require_floats();
    let of = staged.derive(|module, f| super::checkpoint::vjp(module, f, &staged.all_args()));
    match of {
        Some(of) if ok => {
            let seed = Var::literal(Literal::one(types[0].dtype), at);
            let seeds = of.active_out.iter().filter(|on| **on).map(|_| seed);
            let mut results = staged.call(of.function, &staged.args, seeds, false);
            let mut nonzero = results.split_off(types.len().min(results.len())).into_iter();
            let cotangents = staged.arg_types().into_iter().zip(of.nonzero).map(|(ty, on)| {
                let found = if on { nonzero.next() } else { None };
                found.unwrap_or_else(|| zeros_like_type(&ty, at))
            });
            (results, cotangents.collect())
        }
        Some(_) | None => (staged.poison(&types), staged.poison(&staged.arg_types())),
    }
}

/// Wraps float leaves in `StopGradient`; other leaves have no derivative anyway.
fn stop_gradients(leaves: Vec<Var>, at: Loc) -> Vec<Var> {
    let stopped = leaves.into_iter().map(|v| {
        let active = v.handle.as_literal().is_none() && v.ty(at).dtype.is_float();
        if active { crate::ops::emit(StopGradient, &[v], at) } else { v }
    });
    stopped.collect()
}

/// Checks that the first result is a float scalar. Otherwise reports an error and returns false.
fn scalar_result(staged: &Staged, transform: &str) -> bool {
    let types = staged.result_types();
    let Some(ty) = types.first() else { return false };
    let poisoned = staged.poisoned_results().first() == Some(&true);
    let problem = if !ty.shape.is_empty() {
        Problem::new(
            Kind::Shape,
            format!("`{transform}` needs a scalar result, the closure returns {ty}"),
            "reduce it, for instance with `.sum()`, or use `vjp` or `jacrev`",
        )
    } else if !ty.dtype.is_float() {
        Problem::new(
            Kind::NotDifferentiable,
            format!("`{transform}` needs a float result, the closure returns {ty}"),
            "only floats have derivatives",
        )
    } else {
        return true;
    };
    if !poisoned {
        let note =
            Note { role: "result".into(), what: ty.to_string(), born: staged.result_born(0) };
        let notes = vec![note];
        staged.report(Diagnostic { problem, at: staged.at, notes, context: Vec::new() });
    }
    false
}
