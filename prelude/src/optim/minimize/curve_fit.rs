//! Fits of models to data, with the standard deviations of the parameters.

use super::levenberg_marquardt::{joined, minimum};
use super::{Limits, Outcome, are_floats, refused, spoiled, trust};
use crate::function::{Function, one};
use crate::linalg::{Triangle, qr, solve_triangular};
use crate::ops::functions::{eye, select, zeros};
use crate::ops::wrong;
use crate::transform::jacfwd;
use crate::tree::{different, flatten, ravel, tree_map};
use crate::var::{IntoVar, caller, on_behalf, users_code};
use crate::{Tree, Var};
use std::cell::Cell;
use std::fmt;
use tapeloom_ir::trace::{self, Diagnostic, Note};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

const NAME: &str = "curve_fit";

/// The result of a fit, besides the parameters and their standard deviations.
#[derive(Tree, Clone, Debug)]
pub struct Fit<T> {
    /// The covariance of the n parameters: `[n, n]`, with rows and columns in the order of the leaves.
    pub covariance: T,
    /// The sum of the squares of the residuals. If a sigma is set, the residuals are divided by it.
    pub residual_sum: T,
    /// The outcome of the search. Its value is half of `residual_sum`.
    pub outcome: Outcome<T>,
}

/// A fit before it is computed, as returned by [`curve_fit`].
#[must_use = "a fit does nothing until `fit` is called"]
pub struct CurveFit<'a, P> {
    model: Box<dyn Fn(P) -> Var + 'a>,
    y: Var,
    start: P,
    sigma: Option<Var>,
    absolute: bool,
    bounds: Option<(P, P)>,
    limits: Limits,
    at: Loc,
}

impl<P: fmt::Debug> fmt::Debug for CurveFit<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CurveFit { model: _, y, start, sigma, absolute, bounds, limits, at: _ } = self;
        f.debug_struct("CurveFit")
            .field("y", y)
            .field("start", start)
            .field("sigma", sigma)
            .field("absolute_sigma", absolute)
            .field("bounds", bounds)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

/// Prepares the least squares fit of `model` to the data `y`. The fit determines the parameters p, a tree of floats,
/// for which the sum of squares of `model(p, x) - y` is smallest. [`fit`](CurveFit::fit) searches for them by
/// [`levenberg_marquardt`](super::levenberg_marquardt), from `start`.
///
/// `x` is any tree. The model returns an array of the shape and dtype of `y`.
///
/// ```
/// use tapeloom::prelude::*;
/// let decay = |((a, b), t): ((Var, Var), Var)| a * (-b * t).exp();
/// let fit = jit(move |(start, t, y): ((Var, Var), Var, Var)| {
///     optim::curve_fit(decay, t, y, start).fit()
/// });
/// let t = [0.0, 1.0, 2.0, 3.0, 4.0];
/// let ((a, b), (da, db), fit) = fit.call(((1.0, 0.0), t, [2.02, 1.2, 0.75, 0.44, 0.28]))?;
/// assert!((a.item::<f64>()? - 2.0).abs() < 2.0 * da.item::<f64>()?);
/// assert!((b.item::<f64>()? - 0.5).abs() < 2.0 * db.item::<f64>()?);
/// assert_eq!(fit.covariance.shape(), [2, 2]);
/// assert!(fit.outcome.converged.item::<bool>()?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Model: SciPy's `curve_fit`.
#[doc(alias = "nonlinear_regression", alias = "nls", alias = "lmfit", alias = "Model")]
#[track_caller]
pub fn curve_fit<'a, P, X, F, K>(model: F, x: X, y: impl IntoVar, start: P) -> CurveFit<'a, P>
where
    P: Tree<Var> + 'a,
    X: Tree<Var> + 'a,
    F: Function<(P, X), Var, K> + 'a,
    K: 'a,
{
    let (model, at) = (one(model), caller());
    let dtype = flatten(&start).1.first().map_or(Dtype::F64, |v| v.ty(at).dtype);
    CurveFit {
        model: Box::new(move |p| model((p, tree_map(|v| v, &x)))),
        y: y.into_var(dtype, at),
        start,
        sigma: None,
        absolute: false,
        bounds: None,
        limits: Limits::DEFAULT,
        at,
    }
}

impl<P: Tree<Var>> CurveFit<'_, P> {
    /// Sets the standard deviations of `y`, floats that broadcast to its shape: residuals are divided by them. By
    /// default they are only weights, and a common factor has no effect. See
    /// [`absolute_sigma`](CurveFit::absolute_sigma).
    #[track_caller]
    pub fn sigma(self, sigma: impl IntoVar) -> Self {
        let sigma = Some(sigma.beside(self.y, caller()));
        CurveFit { sigma, ..self }
    }

    /// Uses sigma (1 if it is not set) as the standard deviations of `y`. Without this call, the covariance is
    /// multiplied by the mean square of the residuals, which estimates a common factor.
    pub fn absolute_sigma(self) -> Self {
        CurveFit { absolute: true, ..self }
    }

    /// Sets the smallest and the largest value of each parameter: trees with the structure and types of the start,
    /// whose values may be infinite. A start outside of the bounds is moved to the nearest bound.
    ///
    /// Steps are projected onto the bounds. While a parameter is at a bound beyond which the sum descends, it does not
    /// take part in steps (Bertsekas, *Projected Newton methods for optimization problems with simple constraints*,
    /// 1982). At the minimum, such a parameter has the derivative of its bound. As in SciPy, the covariance ignores
    /// bounds.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let line = |((a, b), x): ((Var, Var), Var)| a + b * x;
    /// let fit = |most: Var| {
    ///     let none = constant(f64::NEG_INFINITY);
    ///     let (start, high) = ((constant(0.0), constant(0.0)), (constant(f64::INFINITY), most));
    ///     let (x, y) = (constant([0.0, 1.0, 2.0]), constant([1.0, 3.0, 5.0]));
    ///     optim::curve_fit(line, x, y, start).bounds((none, none), high).fit().0
    /// };
    /// let (a, b) = run(fit, 1.5)?;
    /// assert!((a.item::<f64>()? - 1.5).abs() < 1e-9 && b.item::<f64>()? == 1.5);
    /// // The offset follows the bound of the slope.
    /// assert!((run(grad(|most| fit(most).0), 1.5)?.item::<f64>()? + 1.0).abs() < 1e-9);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    pub fn bounds(self, low: P, high: P) -> Self {
        CurveFit { bounds: Some((low, high)), ..self }
    }

    /// Sets the tolerance of the sum of squares. It has the meaning and the default of
    /// [`Minimizer::ftol`](super::Minimizer::ftol).
    pub fn ftol(self, tolerance: f64) -> Self {
        CurveFit { limits: Limits { ftol: Some(tolerance), ..self.limits }, ..self }
    }

    /// Sets the tolerance of the step. It has the meaning and the default of
    /// [`Minimizer::xtol`](super::Minimizer::xtol).
    pub fn xtol(self, tolerance: f64) -> Self {
        CurveFit { limits: Limits { xtol: tolerance, ..self.limits }, ..self }
    }

    /// Sets the tolerance of the gradient. It has the meaning and the default of
    /// [`Minimizer::gtol`](super::Minimizer::gtol).
    pub fn gtol(self, tolerance: f64) -> Self {
        CurveFit { limits: Limits { gtol: Some(tolerance), ..self.limits }, ..self }
    }

    /// Sets the largest number of steps. The default is 1,000.
    #[doc(alias = "maxfev", alias = "max_nfev")]
    pub fn iterations(self, iterations: u64) -> Self {
        CurveFit { limits: Limits { iterations, ..self.limits }, ..self }
    }

    /// Computes the fit. Returns the parameters, their standard deviations (a tree of the same structure), and the
    /// covariance with the outcome of the search.
    ///
    /// If the Jacobian of the model has not full rank, or if there are not more data than parameters, the covariance
    /// and the standard deviations are infinite, as in SciPy. With [`absolute_sigma`](CurveFit::absolute_sigma), only
    /// the rank matters.
    ///
    /// Parameters are differentiated by the implicit function theorem, like all
    /// [minima](crate::optim::minimize#derivatives).
    ///
    /// Errors, at the line of [`curve_fit`]: `not-differentiable` if the parameters are not floats; `dtype` if `y`, the
    /// result of the model, sigma or bounds have another dtype; `shape` if the result of the model has another shape
    /// than `y`, if sigma does not broadcast to it, or if the bounds differ from the start; `arguments` if a tolerance
    /// is negative, if sigma is known and not positive, or if the bounds are known and a lower one is above the upper
    /// one.
    pub fn fit(self) -> (P, P, Fit<Var>) {
        let at = self.at;
        let placeholder = |outcome| {
            let n = flatten(&self.start).1.iter().map(|v| v.ty(at).shape.elements()).sum::<usize>();
            let of = |shape: &[usize]| Var::poison(ArrayType::new(Dtype::F64, shape), at);
            let fit = Fit { covariance: of(&[n, n]), residual_sum: of(&[]), outcome };
            (spoiled(&self.start, at), spoiled(&self.start, at), fit)
        };
        if let Some((_, outcome)) = refused(NAME, at, &self.start, self.limits) {
            return placeholder(outcome);
        }
        if !self.is_valid() {
            return placeholder(Outcome::poison(at));
        }
        on_behalf(NAME, at, || self.fitted())
    }

    fn fitted(self) -> (P, P, Fit<Var>) {
        let CurveFit { model, y, start, sigma, absolute, bounds, limits, at } = self;
        let (x, unravel) = ravel(&start);
        // Bounds may be values of the run. Where a lower bound is above the upper one, replace the lower bound by nan,
        // so that the search ends before its first step.
        let bounds = bounds.map(|(low, high)| {
            let (low, high) = (ravel(&low).0, ravel(&high).0);
            (select(low.le(high), low, f64::NAN), high)
        });
        let reported = Cell::new(false);
        let residuals = joined(NAME, at, |x: Var| {
            let p = unravel(x);
            let found = users_code(|| model(p));
            let r = matched(found, y, &reported, at) - y;
            sigma.map_or(r, |sigma| r / sigma)
        });
        let (x, outcome) = minimum((NAME, at), &residuals, x, limits, bounds);
        let covariance = covariance_of(&residuals, x, absolute);
        let deviations = covariance.diagonal().sqrt();
        let residual_sum = 2.0 * outcome.value;
        (unravel(x), unravel(deviations), Fit { covariance, residual_sum, outcome })
    }

    /// Checks data, sigma and bounds, and reports the first error.
    fn is_valid(&self) -> bool {
        let (at, y) = (self.at, self.y.ty(self.at));
        let report = |kind, message: String, help: &str, v: Var| {
            wrong(Problem::new(kind, message, help), &[v], v.ty(at), at);
            false
        };
        let dtype = flatten(&self.start).1.first().map_or(y.dtype, |v| v.ty(at).dtype);
        if y.dtype != dtype {
            let message = format!("`{NAME}` of parameters of {dtype} to data of type {y}");
            return report(
                Kind::Dtype,
                message,
                "convert the data to the dtype of the parameters",
                self.y,
            );
        }
        if let Some(sigma) = self.sigma {
            let ty = sigma.ty(at);
            let message = format!("`{NAME}` with a sigma of type {ty} for data of type {y}");
            if ty.dtype != y.dtype {
                return report(
                    Kind::Dtype,
                    message,
                    "convert sigma to the dtype of the data",
                    sigma,
                );
            }
            if !broadcasts(ty.shape.as_ref(), y.shape.as_ref()) {
                let help = "give one standard deviation for each element of the data";
                return report(Kind::Shape, message, help, sigma);
            }
            if let Some(given) = sigma.known().filter(|x| x.is_nan() || *x <= 0.0) {
                let message = format!("`{NAME}` with the sigma {given:?}");
                return report(Kind::Arguments, message, "standard deviations are positive", sigma);
            }
        }
        let Some((low, high)) = &self.bounds else { return true };
        are_floats(NAME, at, low)
            && are_floats(NAME, at, high)
            && [low, high].into_iter().all(|bound| same_types(bound, &self.start, at))
            && ordered(low, high, at)
    }
}

/// Returns whether a shape broadcasts to another one.
fn broadcasts(from: &[usize], to: &[usize]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(a, b)| a == b || *a == 1)
}

/// Returns `found`, the result of the model. If its type differs from that of the data `y`, reports that and returns a
/// placeholder.
fn matched(found: Var, y: Var, reported: &Cell<bool>, at: Loc) -> Var {
    let (ty, want) = (found.ty(at), y.ty(at));
    if ty == want {
        return found;
    }
    // The model is traced several times; report its error only once.
    if !reported.replace(true) && !trace::is_poison(found.handle, at) {
        let kind = if ty.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
        let message = format!(
            "the model of `{NAME}` must return {want}, the type of the data `y`, and it returns {ty}"
        );
        let help = "the model returns one element for each element of `y`: check the shapes of `x`, of `y`, and of the \
                    start, which is the shape of the parameters";
        let note = |role: &str, v: Var| Note {
            role: role.to_owned(),
            what: v.ty(at).to_string(),
            born: v.handle.born(),
        };
        let notes = vec![note("model", found), note("data", y)];
        let problem = Problem::new(kind, message, help);
        trace::report(Diagnostic { problem, at, notes, context: Vec::new() }, None);
    }
    Var::poison(want, at)
}

/// Checks that bounds have the structure and types of the start, and reports the first difference.
fn same_types<P: Tree<Var>>(bound: &P, start: &P, at: Loc) -> bool {
    let (structure, leaves) = flatten(start);
    let (found, bounds) = flatten(bound);
    let report = |kind, message: String| {
        let help =
            "give a value for each element of the parameters, infinite where there is no bound";
        trace::record(Problem::new(kind, message, help), &[], at);
        false
    };
    if !bound.has_structure(&structure) {
        let sides = ["the start", "a bound"];
        let differ = different::<Var, P>(&structure, &found, "", sides);
        return report(Kind::Shape, format!("bounds of `{NAME}` with another structure: {differ}"));
    }
    for (bound, x) in bounds.iter().zip(&leaves) {
        let (found, want) = (bound.ty(at), x.ty(at));
        if found != want {
            let kind = if found.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
            return report(kind, format!("`{NAME}` with a bound of type {found} for {want}"));
        }
    }
    true
}

/// Returns false and reports an error if a lower bound is nan or above its upper bound. Only bounds that are known
/// during tracing are checked.
fn ordered<P: Tree<Var>>(low: &P, high: &P, at: Loc) -> bool {
    for (low, high) in flatten(low).1.iter().zip(&flatten(high).1) {
        let (Some(least), Some(most)) = (low.known(), high.known()) else { continue };
        if least.is_nan() || most.is_nan() || least > most {
            let message = format!("`{NAME}` with the bounds {least:?} and {most:?}");
            let help = "give the lower bound first, as in `bounds(low, high)`";
            trace::record(Problem::new(Kind::Arguments, message, help), &[], at);
            return false;
        }
    }
    true
}

/// Returns the covariance `(JᵀJ)⁻¹ s²` `[n, n]` of the n parameters `p` of a least squares fit, in the order of their
/// leaves. J is the Jacobian of the m residuals at p, and s² is the sum of the squares of the residuals divided by m -
/// n. The square roots of the diagonal are the standard deviations of the parameters.
///
/// It is for fits by [`levenberg_marquardt`](super::levenberg_marquardt), whose residuals may be any tree of floats;
/// [`curve_fit`] computes it itself. `(JᵀJ)⁻¹ = R⁻¹R⁻ᵀ` is computed from J = Q R. If J has not full rank, or if there
/// are not more residuals than parameters, all elements are infinite, as in SciPy.
///
/// ```
/// use tapeloom::prelude::*;
/// // The mean of four numbers, and the variance of the mean.
/// let spread = |(mean, y): (Var, Var)| optim::parameter_covariance(|m: Var| m - y, mean);
/// let variance = run(spread, (4.0, [1.0, 3.0, 5.0, 7.0]))?;
/// assert!((variance.to_vec::<f64>()?[0] - 20.0 / 3.0 / 4.0).abs() < 1e-14);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`jacfwd`] of the residuals; `dtype` if the leaves of the parameters, or those of the residuals,
/// have different dtypes or are not floats.
#[doc(alias = "pcov", alias = "cov_x", alias = "standard_errors")]
#[track_caller]
pub fn parameter_covariance<P: Tree<Var>, R: Tree<Var>, F: Function<P, R, K>, K>(
    residuals: F,
    p: P,
) -> Var {
    let (residuals, at) = (one(residuals), caller());
    let name = "parameter_covariance";
    if !are_floats(name, at, &p) {
        let n = flatten(&p).1.iter().map(|v| v.ty(at).shape.elements()).sum::<usize>();
        return Var::poison(ArrayType::new(Dtype::F64, [n, n]), at);
    }
    on_behalf(name, at, || {
        let (x, unravel) = ravel(&p);
        let residuals = joined(name, at, |x: Var| {
            let p = unravel(x);
            users_code(|| residuals(p))
        });
        covariance_of(&residuals, x, false)
    })
}

/// Returns the covariance of the parameters: `(JᵀJ)⁻¹`, where J is the Jacobian of the residuals. If sigma is not
/// absolute, this is multiplied by the mean square of the residuals.
fn covariance_of(residuals: &dyn Fn(Var) -> Var, x: Var, absolute: bool) -> Var {
    let (r, j) = (residuals(x), jacfwd(residuals)(x));
    let ([m, n], dtype) = ([r.shape()[0], x.shape()[0]], x.dtype());
    if n == 0 || m < n || (m == n && !absolute) {
        return zeros([n, n], dtype) + f64::INFINITY;
    }
    // Scale the columns of J to length 1, because parameters may have different units, and J would be ill-conditioned.
    // In exact arithmetic the covariance does not depend on the scale.
    let lengths = trust::lengths(j).stop_gradient();
    let lengths = select(lengths.gt(0.0), lengths, 1.0);
    let factor = qr(j / lengths).1;
    let inverse = solve_triangular(factor, eye(n, dtype), Triangle::UPPER) / lengths.expand_dims(1);
    let covariance = inverse.dot(inverse.matrix_transpose());
    let deficient = trust::is_deficient(factor, m);
    let covariance = select(deficient.broadcast_to(covariance.shape()), f64::INFINITY, covariance);
    if absolute {
        return covariance;
    }
    let freedom = (m - n) as f64;
    covariance * (r.dot(r) / freedom)
}
