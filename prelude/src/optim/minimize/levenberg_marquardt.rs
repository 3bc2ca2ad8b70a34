//! Levenberg-Marquardt: damped Gauss-Newton steps for sums of squares.
//!
//! ```text
//! (JᵀJ + λ D) d = -Jᵀr      D = diag(JᵀJ), the largest so far
//! gain = (|r|² - |r(x + d)|²) / ⟨d, λ D d - Jᵀr⟩
//! gain > 0:  x ← x + d,  λ ← λ max(1/3, 1 - (2 gain - 1)³),  ν ← 2
//! else:      λ ← ν λ,  ν ← 2ν
//! ```

use super::{Found, Limits, Minimizer, Outcome, at_root, refused, small};
use crate::control::{cond, while_loop};
use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::linalg::{cho_solve, cholesky};
use crate::ops::functions::{eye, select};
use crate::staging::{Side, require_floats};
use crate::transform::jacfwd;
use crate::tree::{Flat, ravel};
use crate::var::{caller, on_behalf, users_code};
use crate::{Tree, Var, constant};
use std::cell::Cell;
use tapeloom_ir::trace::Context;
use tapeloom_ir::{ArrayType, Dtype};

/// Levenberg-Marquardt, as returned by [`levenberg_marquardt`].
#[derive(Clone, Copy, Debug)]
pub struct LevenbergMarquardt;

/// Returns the Levenberg-Marquardt method. It minimizes half the sum of squares of residuals, with their Jacobian
/// in forward mode.
///
/// ```
/// use tapeloom::prelude::*;
/// // y = a exp(b t) through four points.
/// let fit = jit(|(start, t, y): ((Var, Var), Var, Var)| {
///     let residuals = |(a, b): (Var, Var)| a * (b * t).exp() - y;
///     optim::levenberg_marquardt().minimize_squares(residuals, start)
/// });
/// let ((a, b), outcome) = fit.call(((1.0, 0.0), [0.0, 1.0, 2.0, 3.0], [2.0, 1.0, 0.5, 0.25]))?;
/// assert!((a.item::<f64>()? - 2.0).abs() < 1e-8 && (b.item::<f64>()? + 2f64.ln()).abs() < 1e-8);
/// assert!(outcome.converged.item::<bool>()?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Marquardt, *An algorithm for least-squares estimation of nonlinear parameters* (1963); λ as in
/// Nielsen, *Damping parameter in Marquardt's method* (1999).
#[doc(alias = "least_squares", alias = "curve_fit", alias = "gauss_newton", alias = "leastsq")]
pub fn levenberg_marquardt() -> Minimizer<LevenbergMarquardt> {
    Minimizer::new(LevenbergMarquardt)
}

impl Minimizer<LevenbergMarquardt> {
    /// Minimizes half the sum of the squares of all residuals, a tree of floats, from `start`. Returns the minimum
    /// and the outcome of the search.
    ///
    /// Errors: those of [`jacfwd`] of the residuals; `dtype` if the leaves of the parameters, or the leaves of the
    /// residuals, have different dtypes.
    #[track_caller]
    pub fn minimize_squares<P: Tree<Var>, R: Tree<Var>, F: Function<P, R, K>, K>(
        &self,
        residuals: F,
        start: P,
    ) -> (P, Outcome<Var>) {
        let (residuals, at) = (one(residuals), caller());
        let name = "levenberg_marquardt";
        if let Some(poison) = refused(name, at, &start) {
            return poison;
        }
        let reported = Cell::new(false);
        let (x, unravel) = on_behalf(name, at, || ravel(&start));
        let residuals = |x: Var| {
            let p = unravel(x);
            let r = users_code(|| residuals(p));
            // The closure is traced several times; report its error only once.
            let context = Context { transform: name, at };
            let Flat { form, leaves } = Flat::of(&r);
            if reported.get() || !require_floats(context, Side::Result, &form, &leaves) {
                reported.set(true);
                let elements = leaves.iter().map(|r| r.ty(at).shape.elements()).sum::<usize>();
                return Var::poison(ArrayType::new(x.dtype(), [elements]), at);
            }
            ravel(&r).0
        };
        let loss = |x: Var| 0.5 * residuals(x).square().sum();
        let search = |x: Var| searched(&residuals, x, self.limits);
        let (x, outcome) = at_root(name, at, &loss, x, &search);
        (on_behalf(name, at, || unravel(x)), outcome)
    }
}

/// A point of the search: x, the residuals and their Jacobian.
#[derive(Tree, Clone, Copy)]
struct Place<T> {
    x: T,
    residuals: T,
    jacobian: T,
}

/// The values that change from step to step.
#[derive(Tree, Clone, Copy)]
struct Progress<T> {
    place: Place<T>,
    lambda: T,
    nu: T,
    /// The largest value so far of each diagonal element of JᵀJ.
    diagonal: T,
    iterations: T,
    evaluations: T,
    /// Whether the last step changed x by more than its rounding errors.
    moving: T,
}

impl Place<Var> {
    fn at(residuals: &dyn Fn(Var) -> Var, x: Var) -> Place<Var> {
        Place { x, residuals: residuals(x), jacobian: jacfwd(residuals)(x) }
    }

    fn gradient(&self) -> Var {
        self.residuals.dot(self.jacobian)
    }

    fn loss(&self) -> Var {
        0.5 * self.residuals.dot(self.residuals)
    }

    /// Returns whether the gradient is small, or the residuals are orthogonal to every column of the Jacobian.
    fn is_minimum(&self, limits: Limits) -> Var {
        let (loss, gradient) = (self.loss(), self.gradient());
        let lengths = (self.jacobian.square().sum_axis(0) * (2.0 * loss)).sqrt();
        let square = gradient.abs().le(limits.tolerance_in(loss.dtype()) * lengths).all();
        small(limits, loss, gradient).1 | (square & loss.is_finite())
    }
}

fn searched(residuals: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found {
    let place = Place::at(residuals, x);
    let one = place.loss().ones_like();
    let count = constant(0i64);
    let most = i64::try_from(limits.iterations).unwrap_or(i64::MAX);
    let start = Progress {
        diagonal: place.jacobian.square().sum_axis(0),
        lambda: 1e-3 * one,
        nu: 2.0 * one,
        iterations: count,
        evaluations: count + 1,
        moving: count.eq(0),
        place,
    };
    let going = |p: Progress<Var>| {
        let tried = p.evaluations.lt(most.saturating_mul(2).saturating_add(1));
        p.moving & tried & p.iterations.lt(most) & !p.place.is_minimum(limits)
    };
    let end = while_loop(going, |p: Progress<Var>| stepped(residuals, p), start);
    // If the last step was nearly undamped and did not change x, the search is over, too.
    let free = !end.moving & end.lambda.le(1.0) & end.place.loss().is_finite();
    let (size, _) = small(limits, end.place.loss(), end.place.gradient());
    let gradient = (size, free | end.place.is_minimum(limits));
    Found { x: end.place.x, gradient, iterations: end.iterations, evaluations: end.evaluations }
}

fn stepped(residuals: &dyn Fn(Var) -> Var, p: Progress<Var>) -> Progress<Var> {
    let (j, g, n) = (p.place.jacobian, p.place.gradient(), p.place.x.shape()[0]);
    let tiny = if g.dtype() == Dtype::F32 { 1e-30 } else { 1e-200 };
    // A parameter on which no residual depends yet does not change, and its damping is 1, so that the system is
    // regular.
    let diagonal = select(p.diagonal.gt(tiny), p.diagonal, 1.0);
    let damped = eye(n, g.dtype()) * (p.lambda * diagonal).expand_dims(1);
    let d = -cho_solve(cholesky(j.matrix_transpose().dot(j) + damped), g);
    let x = p.place.x + d;
    let r = residuals(x);
    let gained = p.place.loss() - 0.5 * r.dot(r);
    let promised = 0.5 * d.dot(p.lambda * diagonal * d - g);
    let gain = gained / select(promised.gt(0.0), promised, 1.0);
    // The comparisons are false for nan, so such a step is rejected.
    let better = gained.gt(0.0) & promised.gt(0.0);
    let there = |(x, _): (Var, Place<Var>)| Place::at(residuals, x);
    let place = cond(better, there, |(_, place): (Var, Place<Var>)| place, (x, p.place));
    let trust = (1.0 - (2.0 * select(better, gain, 1.0) - 1.0).powi(3)).maximum(1.0 / 3.0);
    let seen = d.abs().gt(epsilon(g.dtype()) * p.place.x.abs()).any();
    Progress {
        lambda: p.lambda * select(better, trust, p.nu),
        nu: select(better, 2.0, 2.0 * p.nu),
        diagonal: p.diagonal.maximum(place.jacobian.square().sum_axis(0)),
        iterations: p.iterations + better.convert(Dtype::I64),
        evaluations: p.evaluations + 1,
        moving: seen | !d.is_finite().all(),
        place,
    }
}
