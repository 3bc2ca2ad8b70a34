//! Minimisers: methods that choose their step sizes themselves and iterate until the gradient is small.
//!
//! ```
//! use tapeloom::prelude::*;
//! let rosenbrock = |(x, y): (Var, Var)| (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
//! let find = jit(move |p: (Var, Var)| optim::bfgs().minimize(rosenbrock, p));
//! let ((x, y), outcome) = find.call((-1.2, 1.0))?;
//! assert!((x.item::<f64>()? - 1.0).abs() < 1e-8 && (y.item::<f64>()? - 1.0).abs() < 1e-8);
//! assert!(outcome.converged.item::<bool>()? && outcome.iterations.item::<i64>()? < 50);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! | constructor | direction | for |
//! |---|---|---|
//! | [`bfgs`] | `-H g`, with a matrix H estimated from the steps | up to a few hundred parameters |
//! | [`lbfgs`] | `-H g`, with H estimated from the last few steps, without a matrix | many parameters |
//! | [`newton_cg`] | `-H⁻¹ g` by conjugate gradients, with products of the Hessian H | many parameters, ill-conditioned |
//! | [`levenberg_marquardt`] | `-(JᵀJ + λD)⁻¹ Jᵀr` | sums of squares |
//!
//! # Derivatives
//! The minimum is defined by the equation `∇f(p) = 0` and is differentiated by the implicit function theorem, like
//! all [solutions of equations](crate::implicit). The derivative with respect to any `Var` that the loss uses costs
//! a linear system with the Hessian, solved by conjugate gradients; no residuals of the iterations are saved. If
//! the search did not converge, or if the Hessian at the minimum is singular, the derivative is meaningless.
//!
//! ```
//! use tapeloom::prelude::*;
//! // The derivative of the minimum of (x - a)⁴ + (x - 3a)² with respect to a.
//! let minimum = |a: Var| {
//!     let loss = |x: Var| (x - a).powi(4) + (x - 3.0 * a).powi(2);
//!     optim::newton_cg().minimize(loss, constant(0.0)).0
//! };
//! check_grads(minimum, 0.7, 2)?;
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Model: `scipy.optimize.minimize` and `least_squares`.

mod bfgs;
mod descend;
mod lbfgs;
mod levenberg_marquardt;
mod newton_cg;

pub use bfgs::{Bfgs, bfgs};
pub use lbfgs::{Curvature, Lbfgs, lbfgs};
pub use levenberg_marquardt::{LevenbergMarquardt, levenberg_marquardt};
pub use newton_cg::{NewtonCg, newton_cg};

use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::implicit::{Until, cg, custom_root};
use crate::ops::functions::stack;
use crate::staging::{Side, rebuild, require_floats};
use crate::transform::grad;
use crate::tree::{Flat, flatten, ravel};
use crate::var::{caller, on_behalf, users_code};
use crate::{Tree, Var};
use tapeloom_ir::trace::Context;
use tapeloom_ir::{ArrayType, Dtype, Loc};

/// The outcome of a search for a minimum. All fields are scalars.
#[derive(Tree, Clone, Debug)]
pub struct Outcome<T> {
    /// The loss at the minimum.
    pub value: T,
    /// The largest absolute value of an element of the gradient at the minimum (f64).
    pub gradient: T,
    /// The number of steps (i64).
    pub iterations: T,
    /// The number of evaluations of the loss and its gradient, or of the residuals of [`levenberg_marquardt`] (i64).
    pub evaluations: T,
    /// Whether the search converged (bool): the gradient is within the tolerance, or the predicted decrease of the
    /// next step is below the rounding errors of the loss. If false, the iterations were used up, or no step along
    /// the direction lowered the loss.
    pub converged: T,
}

/// The stopping criteria of a search.
#[derive(Clone, Copy, Debug)]
struct Limits {
    tolerance: f64,
    iterations: u64,
}

/// A method with its stopping criteria, as returned by [`bfgs`], [`lbfgs`], [`newton_cg`], [`levenberg_marquardt`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a minimiser does nothing until it minimises"]
pub struct Minimizer<M> {
    method: M,
    limits: Limits,
}

impl Limits {
    fn tolerance_in(self, dtype: Dtype) -> f64 {
        self.tolerance.max(10.0 * epsilon(dtype))
    }
}

impl<M> Minimizer<M> {
    fn new(method: M) -> Minimizer<M> {
        Minimizer { method, limits: Limits { tolerance: 1e-8, iterations: 1000 } }
    }

    /// Sets the tolerance: the search ends when no element of the gradient is larger. The default is 1e-8; values
    /// below ten rounding errors of the dtype are raised to that. The search also ends when the predicted decrease
    /// of a step is below the rounding errors of the loss, so the unit of the loss and a large constant in it do
    /// not matter. [`levenberg_marquardt`] also ends when the cosine of the angle between the residuals and each
    /// column of their Jacobian is at most the tolerance (as in MINPACK).
    pub fn tolerance(self, tolerance: f64) -> Minimizer<M> {
        Minimizer { limits: Limits { tolerance, ..self.limits }, ..self }
    }

    /// Sets the largest number of steps. The default is 1,000.
    pub fn iterations(self, iterations: u64) -> Minimizer<M> {
        Minimizer { limits: Limits { iterations, ..self.limits }, ..self }
    }
}

/// The result of a search: the last point and three numbers.
struct Found {
    x: Var,
    /// The largest element of the gradient, and whether the search converged.
    gradient: (Var, Var),
    iterations: Var,
    evaluations: Var,
}

/// A method that minimizes a loss of a vector.
trait Search {
    fn name(&self) -> &'static str;
    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found;
}

#[allow(private_bounds, reason = "the methods are those of this module")]
impl<S: Search> Minimizer<S> {
    /// Minimizes the loss, a float scalar, from `start`. Returns the minimum and the outcome of the search.
    ///
    /// Errors: those of [`grad`] of the loss; `dtype` if the leaves have different dtypes.
    #[doc(alias = "fmin", alias = "fmin_bfgs", alias = "fmin_l_bfgs_b", alias = "optimize")]
    #[track_caller]
    pub fn minimize<P: Tree<Var>, F: Function<P, Var, K>, K>(
        &self,
        loss: F,
        start: P,
    ) -> (P, Outcome<Var>) {
        let (loss, at) = (one(loss), caller());
        let name = self.method.name();
        if let Some(poison) = refused(name, at, &start) {
            return poison;
        }
        let (x, unravel) = on_behalf(name, at, || ravel(&start));
        let loss = |x: Var| {
            let p = unravel(x);
            users_code(|| loss(p))
        };
        let search = |x: Var| self.method.search(&loss, x, self.limits);
        let (x, outcome) = at_root(name, at, &loss, x, &search);
        (on_behalf(name, at, || unravel(x)), outcome)
    }
}

/// Checks that parameters are floats, and reports the paths of those that are not.
fn are_floats<P: Tree<Var>>(name: &'static str, at: Loc, params: &P) -> bool {
    let Flat { form, leaves } = Flat::of(params);
    require_floats(Context { transform: name, at }, Side::Argument, &form, &leaves)
}

/// Reports a search whose start is not a tree of floats, and returns a placeholder for its result.
fn refused<P: Tree<Var>>(name: &'static str, at: Loc, start: &P) -> Option<(P, Outcome<Var>)> {
    if are_floats(name, at, start) {
        return None;
    }
    let (structure, leaves) = flatten(start);
    let poison = leaves.iter().map(|v| Var::poison(v.ty(at), at)).collect();
    Some((rebuild(&structure, poison, at), Outcome::poison(at)))
}

impl Outcome<Var> {
    /// Returns a placeholder for an outcome after an error.
    fn poison(at: Loc) -> Outcome<Var> {
        let of = |dtype| Var::poison(ArrayType::new(dtype, []), at);
        Outcome {
            value: of(Dtype::F64),
            gradient: of(Dtype::F64),
            iterations: of(Dtype::I64),
            evaluations: of(Dtype::I64),
            converged: of(Dtype::Bool),
        }
    }
}

/// Returns the result of a search. Its derivative is defined by the equation that the gradient is 0.
fn at_root(
    name: &'static str,
    at: Loc,
    loss: &dyn Fn(Var) -> Var,
    start: Var,
    search: &dyn Fn(Var) -> Found,
) -> (Var, Outcome<Var>) {
    on_behalf(name, at, || {
        // The log of the search is part of the unknowns, with derivative 0. The gradient is computed on behalf of
        // the minimiser, because the solver of the linear system would otherwise report its errors as errors in the
        // user's code.
        let slope = |x: Var| on_behalf(name, at, || grad(loss)(x));
        let equation = |(x, log): (Var, Var)| (slope(x), log);
        let solve = |_: &dyn Fn((Var, Var)) -> (Var, Var), (x, _): (Var, Var)| {
            let found = search(x);
            let (size, small) = found.gradient;
            let log = [size, found.iterations, found.evaluations, small];
            (found.x, stack(&log.map(|x| x.convert(Dtype::F64)), 0))
        };
        let tangent = |a: &dyn Fn((Var, Var)) -> (Var, Var), (b, log): (Var, Var)| {
            let still = log.zeros_like();
            (cg(|v: Var| a((v, still)).0, b, Until::default()), log)
        };
        let none = crate::ops::functions::zeros([4], Dtype::F64);
        let (x, log) = custom_root(equation, (start, none), solve, tangent);
        let count = |i: i64| log.index(i).convert(Dtype::I64);
        let outcome = Outcome {
            value: loss(x),
            gradient: log.index(0),
            iterations: count(1),
            evaluations: count(2),
            converged: log.index(3).ne(0.0),
        };
        (x, outcome)
    })
}

/// Returns the largest element of a gradient, and whether it is within the tolerance and the loss is finite.
fn small(limits: Limits, value: Var, gradient: Var) -> (Var, Var) {
    // With no parameters, the search is over.
    let size = match gradient.shape()[0] {
        0 => value.zeros_like(),
        _ => gradient.abs().max(),
    };
    (size, value.is_finite() & size.le(limits.tolerance_in(value.dtype())))
}
