//! Minimisers: they choose their steps themselves, and go on until the gradient is small.
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
//! | made by | direction | for |
//! |---|---|---|
//! | [`bfgs`] | `-H g`, with a matrix H learned from the steps | up to a few hundred parameters |
//! | [`lbfgs`] | the same from the last few steps, without a matrix | many parameters |
//! | [`newton_cg`] | `-H g` by conjugate gradients, from products with the Hessian | many, curved unlike |
//! | [`levenberg_marquardt`] | `-(JᵀJ + λD)⁻¹ Jᵀr` | sums of squares |
//!
//! # Derivatives
//! The minimum is given by the equation `∇f(p) = 0`, and is differentiated through it, like all
//! [values given by equations](crate::implicit): the derivative with respect to any `Var` that the loss
//! uses costs a linear system with the Hessian, solved by conjugate gradients, and nothing of the
//! iterations is kept. Where the search did not converge, or the Hessian at the minimum is singular,
//! that derivative means nothing.
//!
//! ```
//! use tapeloom::prelude::*;
//! // The minimum of (x - a)⁴ + (x - 3a)² moves with a.
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

/// How a search for a minimum went; all scalars.
#[derive(Tree, Clone, Debug)]
pub struct Outcome<T> {
    /// The loss at the minimum.
    pub value: T,
    /// The largest element of the gradient there, in absolute value (f64).
    pub gradient: T,
    /// The steps taken (i64).
    pub iterations: T,
    /// How often the loss and its gradient were computed, or the residuals of
    /// [`levenberg_marquardt`] (i64).
    pub evaluations: T,
    /// Whether the gradient is as small as was asked, or nothing more can be gained: what the next step
    /// promises is less than the rounding errors of the loss (bool). Where neither holds, the iterations
    /// were used up, or no step along the direction lowered the loss any more.
    pub converged: T,
}

/// When a search stops.
#[derive(Clone, Copy, Debug)]
struct Limits {
    tolerance: f64,
    iterations: u64,
}

/// A method, and when it stops. Made by [`bfgs`], [`lbfgs`], [`newton_cg`], [`levenberg_marquardt`].
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

    /// The search ends where no element of the gradient is larger than this; 1e-8 if not said, and no less
    /// than ten rounding errors of the dtype. It ends before that where a step promises less than the
    /// rounding errors of the loss, so that the units of a loss, and a large constant in it, do not matter.
    /// [`levenberg_marquardt`] ends, too, where the cosine between the residuals and each column of their
    /// Jacobian is no larger (as MINPACK does).
    pub fn tolerance(self, tolerance: f64) -> Minimizer<M> {
        Minimizer { limits: Limits { tolerance, ..self.limits }, ..self }
    }

    /// The most steps; 1,000 if not said.
    pub fn iterations(self, iterations: u64) -> Minimizer<M> {
        Minimizer { limits: Limits { iterations, ..self.limits }, ..self }
    }
}

/// What a search gives: where it ended, and three numbers of how it went.
struct Found {
    x: Var,
    /// The largest element of the gradient, and whether the search is over.
    gradient: (Var, Var),
    iterations: Var,
    evaluations: Var,
}

/// A way to search for a minimum of a loss of a vector.
trait Search {
    fn name(&self) -> &'static str;
    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found;
}

#[allow(private_bounds, reason = "the methods are those of this module")]
impl<S: Search> Minimizer<S> {
    /// Where the loss, a float scalar, is smallest near `start`, and how the search went.
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

/// The result of a search, given by the equation that the gradient is 0 there.
fn at_root(
    name: &'static str,
    at: Loc,
    loss: &dyn Fn(Var) -> Var,
    start: Var,
    search: &dyn Fn(Var) -> Found,
) -> (Var, Outcome<Var>) {
    on_behalf(name, at, || {
        // How the search went stands beside x, as a value whose derivative is 0.
        // The solver of a linear system runs its map as code of the user, and this one is not.
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

/// The largest element of a gradient, and whether it is small at a loss that is a number.
fn small(limits: Limits, value: Var, gradient: Var) -> (Var, Var) {
    // A search among no parameters is over.
    let size = match gradient.shape()[0] {
        0 => value.zeros_like(),
        _ => gradient.abs().max(),
    };
    (size, value.is_finite() & size.le(limits.tolerance_in(value.dtype())))
}
