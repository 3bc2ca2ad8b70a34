//! Levenberg-Marquardt: damped Gauss-Newton steps for sums of squares, within a trust region.
//!
//! ```text
//! p    = argmin |r + J p|  with |D p| ≤ Δ            D: the lengths of the columns of J, the largest so far
//! gain = (|r|² - |r(x + p)|²) / (|r|² - |r + J p|²)
//! gain > 1e-4:  x ← x + p
//! gain < 1/4:   Δ smaller          gain > 3/4:  Δ ← 2 |D p|
//! ```
//!
//! Near the minimum, half of the digits of x are still unknown when the sum of squares already changes by less than its
//! rounding errors. From there on, the sum of squares does not decide which of two points is better. Then a step is
//! also accepted if it reduces `|Qᵀr| / |r|`, the sine of the angle between r and the normal space of the model (J = Q
//! R), which has no such cancellation (Bates and Watts, *A relative offset orthogonality convergence criterion for
//! nonlinear least squares*, 1981). The search ends when neither number becomes smaller.

use super::{Found, Limits, Minimizer, Outcome, Status, Tangents, at_root, raised, refused, trust};
use crate::control::{cond, while_loop};
use crate::dtype::epsilon;
use crate::function::{Function, one};
use crate::ops::functions::{concat, eye, select, zeros};
use crate::staging::{Side, require_floats};
use crate::transform::jacfwd;
use crate::tree::{Flat, ravel, tree_map2};
use crate::var::{caller, on_behalf, users_code};
use crate::{Tree, Var, constant};
use std::cell::Cell;
use tapeloom_ir::trace::Context;
use tapeloom_ir::{ArrayType, Dtype, Loc};

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
/// # End of the search
/// The search ends by one of the tests of MINPACK. [`Outcome::status`] says by which one.
///
/// | option | test | status |
/// |---|---|---|
/// | `gtol` | the largest cosine of an angle between the residuals and a column of their Jacobian | [`Status::Gradient`] |
/// | `ftol` | the decrease and the predicted decrease of the sum of squares, as multiples of it | [`Status::Loss`] |
/// | `xtol` | the radius of the trust region, as a multiple of the scaled length of the parameters | [`Status::Step`] |
///
/// The defaults are 0, 0 and 1e-10: the search continues until a step no longer improves the parameters, which takes
/// few additional steps. It also ends, with [`Status::Loss`], when the predicted decrease of a step is below the
/// rounding errors of the sum and the step is not accepted.
///
/// Model: `scipy.optimize.least_squares` with `method="lm"`. Source: Moré, *The Levenberg-Marquardt algorithm:
/// implementation and theory* (1978); MINPACK's `lmder`. The Jacobian is factored by QR without exchanges of columns.
#[doc(alias = "least_squares", alias = "gauss_newton", alias = "leastsq", alias = "lmder")]
pub fn levenberg_marquardt() -> Minimizer<LevenbergMarquardt> {
    Minimizer::new(LevenbergMarquardt)
}

impl Minimizer<LevenbergMarquardt> {
    /// Sets the tolerance of the step: the search ends when the radius of the trust region is at most this multiple of
    /// the length of the parameters, both scaled by the columns of the Jacobian. The default is 1e-10. Values below ten
    /// rounding errors of the dtype are raised to that.
    ///
    /// A negative tolerance is an error `arguments` of the search.
    pub fn xtol(self, tolerance: f64) -> Minimizer<LevenbergMarquardt> {
        Minimizer { limits: Limits { xtol: tolerance, ..self.limits }, ..self }
    }

    /// Minimizes half the sum of the squares of all residuals, a tree of floats, from `start`. Returns the minimum
    /// and the outcome of the search.
    ///
    /// Errors: those of [`jacfwd`] of the residuals; `dtype` if the leaves of the parameters, or the leaves of the
    /// residuals, have different dtypes; `arguments` if a tolerance is negative.
    #[track_caller]
    pub fn minimize_squares<P: Tree<Var>, R: Tree<Var>, F: Function<P, R, K>, K>(
        &self,
        residuals: F,
        start: P,
    ) -> (P, Outcome<Var>) {
        let (residuals, at) = (one(residuals), caller());
        let name = "levenberg_marquardt";
        if let Some(poison) = refused(name, at, &start, self.limits) {
            return poison;
        }
        let (x, unravel) = on_behalf(name, at, || ravel(&start));
        let residuals = joined(name, at, |x: Var| {
            let p = unravel(x);
            users_code(|| residuals(p))
        });
        let (x, outcome) = minimum((name, at), &residuals, x, self.limits, None);
        (on_behalf(name, at, || unravel(x)), outcome)
    }
}

/// Returns a closure that joins the residuals into one vector. If residuals are not floats, the closure reports that
/// and returns a placeholder.
pub(super) fn joined<R: Tree<Var>>(
    name: &'static str,
    at: Loc,
    residuals: impl Fn(Var) -> R,
) -> impl Fn(Var) -> Var {
    // The closure is traced several times; report its error only once.
    let reported = Cell::new(false);
    move |x: Var| {
        let r = residuals(x);
        let context = Context { transform: name, at };
        let Flat { form, leaves } = Flat::of(&r);
        if reported.get() || !require_floats(context, Side::Result, &form, &leaves) {
            reported.set(true);
            let elements = leaves.iter().map(|r| r.ty(at).shape.elements()).sum::<usize>();
            return Var::poison(ArrayType::new(x.dtype(), [elements]), at);
        }
        ravel(&r).0
    }
}

/// Searches for the minimum of half the sum of squares, within bounds if there are any. Returns the parameters at the
/// minimum and the outcome of the search.
pub(super) fn minimum(
    (name, at): (&'static str, Loc),
    residuals: &dyn Fn(Var) -> Var,
    x: Var,
    limits: Limits,
    bounds: Option<(Var, Var)>,
) -> (Var, Outcome<Var>) {
    let loss = |x: Var| 0.5 * residuals(x).square().sum();
    let search = |x: Var| searched(residuals, x, limits, bounds);
    at_root(name, at, &loss, x, &search, &Tangents::Dense(bounds))
}

/// A point of the search: the parameters x, the length of the vector r of residuals, and the factors of their Jacobian
/// J = Q R.
#[derive(Tree, Clone, Copy)]
pub(super) struct Place<T> {
    x: T,
    size: T,
    /// The factor R. For each parameter that is not free, its row and column are replaced by those of the identity.
    pub(super) factor: T,
    /// The vector Qᵀ r; its elements are 0 for parameters that are not free.
    pub(super) rotated: T,
    /// `Jᵀ r`, the gradient of half the sum of squares.
    pub(super) gradient: T,
    /// The lengths of the columns of J.
    lengths: T,
    /// Per parameter, whether the next step may change it. A parameter is not free if its column of J is 0, or if it is
    /// at a bound and the loss descends towards the outside of that bound.
    pub(super) free: T,
}

/// The state of the search between two steps.
#[derive(Tree, Clone, Copy)]
struct Progress<T> {
    place: Place<T>,
    lambda: T,
    /// The radius Δ of the trust region.
    radius: T,
    /// The diagonal of D, which scales the parameters: a step p is in the trust region if |D p| ≤ Δ.
    scale: T,
    iterations: T,
    evaluations: T,
    /// The reason of the end, as the number of a [`Status`]; that of [`Status::TooManySteps`] while the search
    /// continues.
    status: T,
}

impl Place<Var> {
    fn at(residuals: &dyn Fn(Var) -> Var, x: Var, bounds: Option<(Var, Var)>) -> Place<Var> {
        let (r, j) = (residuals(x), jacfwd(residuals)(x));
        let (n, dtype) = (x.shape()[0], x.dtype());
        let (gradient, lengths) = (r.dot(j), trust::lengths(j));
        let mut free = lengths.gt(0.0);
        if let Some((low, high)) = bounds {
            free = free & !(x.le(low) & gradient.gt(0.0)) & !(x.ge(high) & gradient.lt(0.0));
        }
        // For each parameter that is not free, set its column to 0 and append a row of the identity. Then its step is
        // 0, and its zero column does not make the matrix singular.
        let masked = select(free.expand_dims(0).broadcast_to(j.shape()), j, 0.0);
        let fixed = eye(n, dtype) * (!free).convert(dtype);
        let (factor, rotated) =
            trust::reduced(concat(&[masked, fixed], 0), concat(&[r, zeros([n], dtype)], 0));
        Place { x, size: trust::length(r), factor, rotated, gradient, lengths, free }
    }

    /// Returns the largest absolute cosine of the angles between the vector of residuals and the columns of their
    /// Jacobian. It is 0 at a minimum.
    fn cosine(&self) -> Var {
        let product = self.size * self.lengths;
        let some = self.free & product.gt(0.0);
        let cosines = self.gradient.abs() / select(some, product, 1.0);
        select(some, cosines, 0.0).max()
    }

    /// Returns the length of the projection of the residuals onto the columns of their Jacobian, relative to the length
    /// of the residuals. It is 0 at a minimum.
    fn offset(&self) -> Var {
        trust::length(self.rotated) / select(self.size.gt(0.0), self.size, 1.0)
    }

    fn is_finite(&self) -> Var {
        self.size.is_finite() & self.lengths.is_finite().all() & self.gradient.is_finite().all()
    }
}

fn searched(
    residuals: &dyn Fn(Var) -> Var,
    x: Var,
    limits: Limits,
    bounds: Option<(Var, Var)>,
) -> Found {
    let [zero, done] = [0, Status::Gradient as i64].map(constant);
    if x.shape()[0] == 0 {
        let gradient = x.sum();
        return Found { x, gradient, status: done, iterations: zero, evaluations: zero + 1 };
    }
    let x = bounds.map_or(x, |(low, high)| x.maximum(low).minimum(high));
    let place = Place::at(residuals, x, bounds);
    let most = i64::try_from(limits.iterations).unwrap_or(i64::MAX);
    let scale = select(place.lengths.gt(0.0), place.lengths, 1.0);
    let radius = 100.0 * trust::length(scale * x);
    let radius = select(radius.gt(0.0), radius, 100.0);
    // If the start is near 0 and the residuals are large, the predicted decrease of a step within this radius would be
    // below the rounding errors, which would end the search.
    let radius = radius.maximum(1e-3 * place.size);
    let [more, failed] = [Status::TooManySteps, Status::NotFinite].map(|s| s as i64);
    let square = place.cosine().le(raised(limits.gtol.unwrap_or(0.0), x.dtype()));
    let start = Progress {
        lambda: radius.zeros_like(),
        radius,
        scale,
        iterations: zero,
        evaluations: zero + 1,
        status: select(place.is_finite(), select(square, done, more), failed),
        place,
    };
    let going = |p: Progress<Var>| {
        let tried = p.evaluations.lt(most.saturating_mul(2).saturating_add(1));
        p.status.eq(more) & tried & p.iterations.lt(most)
    };
    let next = |p: Progress<Var>| stepped(residuals, p, limits, bounds);
    let end = while_loop(going, next, start);
    Found {
        x: end.place.x,
        gradient: end.place.gradient.abs().max(),
        status: end.status,
        iterations: end.iterations,
        evaluations: end.evaluations,
    }
}

fn stepped(
    residuals: &dyn Fn(Var) -> Var,
    before: Progress<Var>,
    limits: Limits,
    bounds: Option<(Var, Var)>,
) -> Progress<Var> {
    let Progress { place, scale, iterations, .. } = before;
    let (lambda, step) = trust::step(&place, scale, before.radius, before.lambda);
    let aim = place.x + step;
    let x = bounds.map_or(aim, |(low, high)| aim.maximum(low).minimum(high));
    let p = if bounds.is_some() { x - place.x } else { step };
    // The radius is updated from the length of the step before it is cut off at bounds, because the cut may leave a
    // step of length 0.
    let length = trust::length(scale * step);
    // The initial radius is a guess, so reduce it to the length of the first step.
    let radius = select(iterations.eq(0), before.radius.minimum(length), before.radius);
    let size = trust::length(residuals(x));

    // The gains below are decreases of the sum of squares divided by |r|², so that they neither overflow nor underflow.
    // If the new residuals are nan, `ratio.lt(10.0)` is false and the step is rejected.
    let ratio = size / place.size;
    let gained = select(ratio.lt(10.0), (1.0 - ratio) * (1.0 + ratio), -1.0);
    let change = place.factor.dot(p) / place.size;
    let linear = (place.rotated / place.size).dot(change);
    let promised = if bounds.is_some() {
        -2.0 * linear - change.dot(change)
    } else {
        // Without bounds the step is not cut off. Then this sum equals the difference in the other branch and loses no
        // digits by cancellation.
        change.dot(change) + 2.0 * lambda * (length / place.size).square()
    };
    let gain = select(promised.gt(0.0), gained / select(promised.gt(0.0), promised, 1.0), 0.0);

    let better = gain.ge(1e-4);
    // Residuals are differences of numbers that may be much larger, so the noise of their length exceeds the rounding
    // error of the length.
    let noise = epsilon(p.dtype()).powf(2.0 / 3.0);
    let level = promised.abs().le(noise) & gained.abs().le(noise);
    let there = |(x, place): (Var, Place<Var>)| {
        let next = Place::at(residuals, x, bounds);
        let straighter = next.offset().lt(0.9 * place.offset());
        let good = next.is_finite() & (better | straighter);
        let pick = |a: Var, b: Var| select(good.broadcast_to(a.shape()), a, b);
        (tree_map2(pick, &next, &place), good)
    };
    let here = |(_, place): (Var, Place<Var>)| (place, constant(false));
    let (next, moved) = cond(better | level, there, here, (x, place));
    let failed = better & !moved;
    let gain = select(failed, -1.0, select(level & moved, 1.0, gain));
    let gained = select(failed, -1.0, gained);

    // The minimum, as a fraction of this step, of the parabola through the loss at both ends of the step with the slope
    // of the loss at its start.
    let parabola = 0.5 * linear / (linear + 0.5 * gained);
    let shorter = select(gained.ge(0.0), 0.5, parabola);
    let within = ratio.lt(10.0) & shorter.ge(0.1);
    let shorter = select(within, shorter.minimum(0.5), 0.1);
    let longer = lambda.eq(0.0) | gain.ge(0.75);
    let bad = gain.le(0.25);
    let kept = select(longer, 2.0 * length, radius);
    let radius = select(bad, shorter * radius.minimum(10.0 * length), kept);
    let lambda = select(bad, lambda / shorter, select(longer, 0.5 * lambda, lambda));

    // A step that is cut off at a bound may have no predicted decrease although a shorter step would. Such a step must
    // not end the search.
    let promises = if bounds.is_some() { promised.gt(0.0) } else { promised.ge(0.0) };
    let within = |ftol: f64| promises & gained.abs().le(ftol) & promised.le(ftol);
    let exhausted = within(noise) & !moved;
    let ended = exhausted | (within(limits.ftol.unwrap_or(0.0)) & gain.le(2.0));
    let xtol = raised(limits.xtol, p.dtype());
    let still = radius.le(xtol * trust::length(scale * next.x));
    let gtol = raised(limits.gtol.unwrap_or(0.0), p.dtype());
    let square = next.cosine().le(gtol) & moved;
    let number = |status: Status| status as i64;
    let status = select(square, number(Status::Gradient), number(Status::TooManySteps));
    let status = select(still, number(Status::Step), status);
    let both = select(still, number(Status::LossAndStep), number(Status::Loss));
    Progress {
        place: next,
        lambda,
        radius,
        scale: scale.maximum(next.lengths),
        iterations: iterations + moved.convert(Dtype::I64),
        evaluations: before.evaluations + 1,
        status: select(ended, both, status),
    }
}
