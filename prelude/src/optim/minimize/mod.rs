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
//! | [`levenberg_marquardt`] | `-(JᵀJ + λD²)⁻¹ Jᵀr` | sums of squares |
//!
//! [`curve_fit`] fits a model to data by the last one, with the standard deviations of the parameters.
//!
//! # Noisy losses
//! A loss that is itself the result of an iteration, such as the solution of a differential equation at a tolerance
//! of 1e-6, has noise of about that size. Below the noise, no step lowers the loss reliably, and the gradient does
//! not become small: the search ends with [`Status::NoDescent`] and `converged: false`, although the noise
//! hides any better point. Set [`ftol`](Minimizer::ftol) to the relative size of the noise: then a search also
//! converges when the loss no longer decreases by more than that.
//!
//! # Derivatives
//! The minimum is defined by the equation `∇f(p) = 0` and is differentiated by the implicit function theorem, like
//! all [solutions of equations](crate::implicit). The derivative with respect to any `Var` that the loss uses costs
//! a linear system with the Hessian; no residuals of the iterations are saved. The system is solved by conjugate
//! gradients, for [`levenberg_marquardt`] as a dense matrix. If the search did not converge, or if the Hessian at
//! the minimum is singular, the derivative is meaningless.
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
mod curve_fit;
mod descend;
mod lbfgs;
mod levenberg_marquardt;
mod newton_cg;
mod status;
mod trust;

pub use bfgs::{Bfgs, bfgs};
pub use curve_fit::{CurveFit, Fit, curve_fit, parameter_covariance};
pub use lbfgs::{Curvature, Lbfgs, lbfgs};
pub use levenberg_marquardt::{LevenbergMarquardt, levenberg_marquardt};
pub use newton_cg::{NewtonCg, newton_cg};
pub use status::Status;

use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::implicit::{Until, cg, custom_root};
use crate::linalg::solve;
use crate::ops::functions::{eye, select, stack};
use crate::staging::{Side, rebuild, require_floats};
use crate::transform::{grad, vmap};
use crate::tree::{Flat, flatten, ravel};
use crate::var::{caller, on_behalf, users_code};
use crate::{Tree, Var};
use std::cell::Cell;
use tapeloom_ir::trace::{self, Context, Diagnostic, Note};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

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
    /// The reason for the end of the search, as the number of a [`Status`] (i64).
    pub status: T,
    /// Whether the search converged (bool). This is the case if `status` is positive.
    pub converged: T,
}

/// The stopping criteria of a search.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The tolerance of the gradient; if not set, the default of the method.
    gtol: Option<f64>,
    /// The tolerance of the decrease of the loss; if not set, the default of the method.
    ftol: Option<f64>,
    /// The tolerance of the step, which only [`levenberg_marquardt`] tests.
    xtol: f64,
    iterations: u64,
}

/// A method with its stopping criteria, as returned by [`bfgs`], [`lbfgs`], [`newton_cg`], [`levenberg_marquardt`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a minimiser does nothing until it minimises"]
pub struct Minimizer<M> {
    method: M,
    limits: Limits,
}

/// Returns the larger of a tolerance and ten rounding errors of the dtype.
fn raised(tolerance: f64, dtype: Dtype) -> f64 {
    tolerance.max(10.0 * epsilon(dtype))
}

impl Limits {
    const DEFAULT: Limits = Limits { gtol: None, ftol: None, xtol: 1e-10, iterations: 1000 };

    /// Checks that no tolerance is negative or nan. Returns false and reports the first tolerance that is.
    fn are_valid(self, name: &'static str, at: Loc) -> bool {
        let [gtol, ftol] = [self.gtol, self.ftol].map(|given| given.unwrap_or(0.0));
        let all = [("gtol", gtol), ("ftol", ftol), ("xtol", self.xtol)];
        let Some((option, given)) = all.into_iter().find(|(_, x)| x.is_nan() || *x < 0.0) else {
            return true;
        };
        let message = format!("`{name}` with the tolerance `{option}` {given:?}");
        trace::record(
            Problem::new(Kind::Arguments, message, "give a number that is not negative"),
            &[],
            at,
        );
        false
    }
}

impl<M> Minimizer<M> {
    fn new(method: M) -> Minimizer<M> {
        Minimizer { method, limits: Limits::DEFAULT }
    }

    /// Sets the tolerance of the gradient. This is another name of [`gtol`](Minimizer::gtol).
    pub fn tolerance(self, tolerance: f64) -> Minimizer<M> {
        self.gtol(tolerance)
    }

    /// Sets the tolerance of the gradient: the search ends when the absolute values of all elements of the gradient are
    /// at most this number. The default is 1e-8. Values below ten rounding errors of the dtype are raised to that. The
    /// search also ends when the predicted decrease of a step is below the rounding errors of the loss, so the unit of
    /// the loss and a large constant in it do not matter.
    ///
    /// [`levenberg_marquardt`] compares, as MINPACK, the largest cosine of an angle between the residuals and a
    /// column of their Jacobian, which has no unit; its default is 0.
    ///
    /// A negative tolerance is an error `arguments` of the search.
    pub fn gtol(self, tolerance: f64) -> Minimizer<M> {
        Minimizer { limits: Limits { gtol: Some(tolerance), ..self.limits }, ..self }
    }

    /// Sets the tolerance of the loss. The search ends when a step lowers the loss by at most this multiple of the
    /// loss. If no step lowers the loss, the predicted decrease is compared instead. Set it to the relative noise of
    /// the loss; see [Noisy losses](self#noisy-losses). The default is 0, which is not tested.
    ///
    /// [`levenberg_marquardt`] compares, as MINPACK, the decrease and the predicted decrease of the sum of squares.
    ///
    /// A negative tolerance is an error `arguments` of the search.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // A loss with a noise of 1e-6, which its gradient does not have.
    /// let noise = |x: Var| 1e-6 * (1e9 * x.sum()).sin().stop_gradient();
    /// let loss = |x: Var| x.cosh().sum() + noise(x);
    /// let outcome = run(|x: Var| optim::bfgs().minimize(loss, x).1, [3.0, -4.0])?;
    /// assert_eq!(optim::Status::of(&outcome.status)?, optim::Status::NoDescent);
    /// let outcome = run(|x: Var| optim::bfgs().ftol(1e-6).minimize(loss, x).1, [3.0, -4.0])?;
    /// assert_eq!(optim::Status::of(&outcome.status)?, optim::Status::Loss);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn ftol(self, tolerance: f64) -> Minimizer<M> {
        Minimizer { limits: Limits { ftol: Some(tolerance), ..self.limits }, ..self }
    }

    /// Sets the largest number of steps. The default is 1,000.
    pub fn iterations(self, iterations: u64) -> Minimizer<M> {
        Minimizer { limits: Limits { iterations, ..self.limits }, ..self }
    }
}

/// The result of a search: the last parameters `x`, the size of the gradient there, the status and two counts.
struct Found {
    x: Var,
    /// The largest absolute value of the elements of the gradient at `x`.
    gradient: Var,
    /// The number of the [`Status`].
    status: Var,
    iterations: Var,
    evaluations: Var,
}

/// A method of minimization. The parameters are joined into one vector `x`.
trait Search {
    fn name(&self) -> &'static str;
    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found;
}

#[allow(private_bounds, reason = "the methods are those of this module")]
impl<S: Search> Minimizer<S> {
    /// Minimizes the loss, a float scalar, from `start`. Returns the minimum and the outcome of the search.
    ///
    /// Errors: those of [`grad`] of the loss; `dtype` if the leaves have different dtypes; `arguments` if a tolerance
    /// is negative.
    #[doc(alias = "fmin", alias = "fmin_bfgs", alias = "fmin_l_bfgs_b", alias = "optimize")]
    #[track_caller]
    pub fn minimize<P: Tree<Var>, F: Function<P, Var, K>, K>(
        &self,
        loss: F,
        start: P,
    ) -> (P, Outcome<Var>) {
        let (loss, at) = (one(loss), caller());
        let name = self.method.name();
        if let Some(poison) = refused(name, at, &start, self.limits) {
            return poison;
        }
        let (x, unravel) = on_behalf(name, at, || ravel(&start));
        let reported = Cell::new(false);
        let loss = |x: Var| {
            let p = unravel(x);
            scalar(name, users_code(|| loss(p)), &reported, at)
        };
        let search = |x: Var| self.method.search(&loss, x, self.limits);
        let (x, outcome) = at_root(name, at, &loss, x, &search, &Tangents::Iterative);
        (on_behalf(name, at, || unravel(x)), outcome)
    }
}

/// Returns the loss `y`. If it is not a float scalar, reports that and returns a placeholder.
fn scalar(name: &'static str, y: Var, reported: &Cell<bool>, at: Loc) -> Var {
    let ty = y.ty(at);
    if ty.shape.is_empty() && ty.dtype.is_float() {
        return y;
    }
    // The loss is traced several times; report its error only once.
    if !reported.replace(true) && !trace::is_poison(y.handle, at) {
        let (kind, help) = if ty.dtype.is_float() {
            let help = "reduce it, for instance with `.sum()`; the method for a sum of squares of residuals is \
                        `levenberg_marquardt`";
            (Kind::Shape, help)
        } else {
            (Kind::NotDifferentiable, "only floats have derivatives")
        };
        let message = format!("the loss of `{name}` must be a float scalar, and it is {ty}");
        let notes = vec![Note { role: "loss".into(), what: ty.to_string(), born: y.handle.born() }];
        let problem = Problem::new(kind, message, help);
        trace::report(Diagnostic { problem, at, notes, context: Vec::new() }, None);
    }
    let dtype = if ty.dtype.is_float() { ty.dtype } else { Dtype::F64 };
    Var::poison(ArrayType::new(dtype, []), at)
}

/// Checks that all leaves of the parameters are floats. If not, reports the paths of the leaves that are not, and
/// returns false.
fn are_floats<P: Tree<Var>>(name: &'static str, at: Loc, params: &P) -> bool {
    let Flat { form, leaves } = Flat::of(params);
    require_floats(Context { transform: name, at }, Side::Argument, &form, &leaves)
}

/// Checks the start and the tolerances of a search. If the start is not a tree of floats, or a tolerance is invalid,
/// reports that and returns a placeholder for the result.
fn refused<P: Tree<Var>>(
    name: &'static str,
    at: Loc,
    start: &P,
    limits: Limits,
) -> Option<(P, Outcome<Var>)> {
    if are_floats(name, at, start) & limits.are_valid(name, at) {
        return None;
    }
    Some((spoiled(start, at), Outcome::poison(at)))
}

/// Returns a placeholder for a tree of parameters after an error.
fn spoiled<P: Tree<Var>>(p: &P, at: Loc) -> P {
    let (structure, leaves) = flatten(p);
    rebuild(&structure, leaves.iter().map(|v| Var::poison(v.ty(at), at)).collect(), at)
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
            status: of(Dtype::I64),
            converged: of(Dtype::Bool),
        }
    }
}

/// The equation that a minimum satisfies, and the solver of the linear systems of the derivatives of the minimum.
enum Tangents {
    /// The equation says that the gradient is 0. Linear systems are solved by conjugate gradients.
    Iterative,
    /// The equation says, for each parameter, that its component of the gradient is 0 or that the parameter is at a
    /// bound, if there are bounds. Linear systems are solved with a dense matrix.
    Dense(Option<(Var, Var)>),
}

impl Tangents {
    /// Returns the residual of the equation at the parameters `x`, given the gradient `slope` there.
    fn equation(&self, x: Var, slope: Var) -> Var {
        let Tangents::Dense(Some((low, high))) = *self else { return slope };
        let inside = select((x - slope).gt(high), x - high, slope);
        select((x - slope).lt(low), x - low, inside)
    }

    /// Returns the solution `v` of the linear system `a(v) = b`.
    fn solved(&self, a: &dyn Fn(Var) -> Var, b: Var) -> Var {
        if let Tangents::Iterative = self {
            return cg(a, b, Until::default());
        }
        let (n, dtype) = (b.shape()[0], b.dtype());
        if n == 0 {
            return b;
        }
        let columns = vmap(a)(eye(n, dtype));
        // If the loss does not depend on a parameter, the row of its equation is 0. A 1 on the diagonal makes the
        // matrix regular and the derivative of the parameter 0.
        let unused = columns.abs().max_axis(0).eq(0.0).convert(dtype);
        solve(columns.matrix_transpose() + eye(n, dtype) * unused, b)
    }
}

/// Returns the minimum that a search finds, and its outcome. Derivatives of the minimum are defined by the equation of
/// `tangents`, not by the steps of the search.
fn at_root(
    name: &'static str,
    at: Loc,
    loss: &dyn Fn(Var) -> Var,
    start: Var,
    search: &dyn Fn(Var) -> Found,
    tangents: &Tangents,
) -> (Var, Outcome<Var>) {
    on_behalf(name, at, || {
        // The counts and the status of the search are part of the unknowns of the equation, with derivative 0. The
        // gradient is computed on behalf of the minimiser, because the solver of the linear system would otherwise
        // report its errors as errors in the user's code.
        let slope = |x: Var| on_behalf(name, at, || tangents.equation(x, grad(loss)(x)));
        let equation = |(x, log): (Var, Var)| (slope(x), log);
        let solve = |_: &dyn Fn((Var, Var)) -> (Var, Var), (x, _): (Var, Var)| {
            let found = search(x);
            let log = [found.gradient, found.iterations, found.evaluations, found.status];
            (found.x, stack(&log.map(|x| x.convert(Dtype::F64)), 0))
        };
        let tangent = |a: &dyn Fn((Var, Var)) -> (Var, Var), (b, log): (Var, Var)| {
            let still = log.zeros_like();
            (tangents.solved(&|v: Var| a((v, still)).0, b), log)
        };
        let none = crate::ops::functions::zeros([4], Dtype::F64);
        let (x, log) = custom_root(equation, (start, none), solve, tangent);
        let count = |i: i64| log.index(i).convert(Dtype::I64);
        let outcome = Outcome {
            value: loss(x),
            gradient: log.index(0),
            iterations: count(1),
            evaluations: count(2),
            status: count(3),
            converged: log.index(3).gt(0.0),
        };
        (x, outcome)
    })
}

/// Returns the largest absolute value of the elements of a gradient, 0 if there are none.
fn largest_slope(gradient: Var) -> Var {
    // The maximum over no elements would be an error. The sum is 0, which ends the search.
    match gradient.shape()[0] {
        0 => gradient.sum(),
        _ => gradient.abs().max(),
    }
}
