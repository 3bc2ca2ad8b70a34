//! Sampled functions and polynomials: differences, integrals, linear interpolation.

use super::axes::Axis;
use super::composite::{along, misshapen, of_floats};
use super::shape::few;
use super::{concat, select, stack, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf, pair};
use tapeloom_ir::{ArrayType, Dtype, Loc};

/// Sampled functions and polynomials.
impl Var {
    /// Returns the differences of neighbours along an axis, which becomes shorter by one. (numpy's `ediff1d` is `diff`
    /// of `flatten()`.)
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.diff(0), [1.0, 4.0, 9.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "ediff1d")]
    #[track_caller]
    pub fn diff(self, axis: impl Axis) -> Var {
        differences("diff", self, 1, axis, caller())
    }

    /// Returns the result of applying [`diff`](Var::diff) `order` times along an axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.diff_n(2, 0), [1.0, 4.0, 9.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn diff_n(self, order: usize, axis: impl Axis) -> Var {
        differences("diff_n", self, order, axis, caller())
    }

    /// Returns the derivative of a function sampled at distance `spacing` along an axis: inside, half the difference of
    /// the two neighbours, divided by `spacing`; at either end, the difference of the last two elements at that end,
    /// divided by `spacing`. (numpy's `gradient`; [`grad`](crate::grad) differentiates a closure.)
    ///
    /// Errors: `shape` for fewer than two elements.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.central_diff(1.0, 0), [1.0, 4.0, 9.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "gradient")]
    #[track_caller]
    pub fn central_diff(self, spacing: f64, axis: impl Axis) -> Var {
        let at = caller();
        along("central_diff", self, axis, at, |x, axis| {
            let ty = x.ty(at);
            let n = ty.shape[axis];
            if n < 2 {
                let message = format!("`central_diff` along axis {axis} of {ty}");
                return misshapen(message, "give at least two samples", &[x], ty, at);
            }
            let step = x.diff(axis);
            let middle = 0.5 * (x.slice_axis(axis, 2..) - x.slice_axis(axis, ..n - 2));
            let (first, last) = (step.slice_axis(axis, ..1), step.slice_axis(axis, n - 2..));
            concat(&[first, middle, last], axis) / spacing
        })
    }

    /// Returns the integral along an axis by the trapezoidal rule; the axis is removed. `points` is the distance of
    /// the samples (a number) or their positions (a vector along the axis, or an array of the same shape).
    ///
    /// Errors: `shape` if the points fit neither way.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let area = run(|(y, x): (Var, Var)| y.trapezoid(x, 0), ([1.0, 3.0, 3.0], [0.0, 1.0, 3.0]))?;
    /// assert_eq!(area.item::<f64>()?, 8.0);
    /// let area = run(|y: Var| y.trapezoid(0.5, 0), [1.0, 3.0, 3.0])?;
    /// assert_eq!(area.item::<f64>()?, 2.5);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "trapz")]
    #[track_caller]
    pub fn trapezoid(self, points: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let points = points.beside(self, at);
        along("trapezoid", self, axis, at, |y, axis| {
            let (ty, tp) = (y.ty(at), points.ty(at));
            let n = ty.shape[axis];
            let wide = match tp.shape.len() {
                0 => points,
                1 if tp.shape[0] == n => {
                    let mut shape = vec![1; ty.shape.len()];
                    shape[axis] = n;
                    points.reshape(shape).diff(axis)
                }
                _ if tp.shape == ty.shape => points.diff(axis),
                _ => {
                    let message = format!("`trapezoid` along axis {axis} of {ty} at points {tp}");
                    let help = "give one point per sample, or the distance of the samples";
                    let guess = ArrayType::new(ty.dtype, ty.shape.without(&[axis]));
                    return misshapen(message, help, &[y, points], guess, at);
                }
            };
            let end = n.saturating_sub(1);
            let pairs = y.slice_axis(axis, n.min(1)..) + y.slice_axis(axis, ..end);
            of_floats("trapezoid", [pairs, wide], at, |[pairs, wide]| {
                (0.5 * wide * pairs).sum_axis(axis)
            })
        })
    }

    /// Returns the coefficients of the polynomial whose roots are the elements of this vector, beginning with the
    /// highest power. The first coefficient is 1, and there is one more coefficient than roots.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let p = run(|x: Var| x.poly_from_roots(), [1.0, 2.0])?;
    /// assert_eq!(p.to_vec::<f64>()?, [1.0, -3.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "poly")]
    #[track_caller]
    pub fn poly_from_roots(self) -> Var {
        let at = caller();
        of_floats("poly_from_roots", [self], at, |[roots]| {
            let ty = roots.ty(at);
            if ty.shape.len() != 1 {
                let message = format!("`poly_from_roots` of {ty}");
                return misshapen(message, "give a vector of roots", &[roots], ty, at);
            }
            let one = super::ones([1], ty.dtype);
            roots
                .unstack(0)
                .into_iter()
                .fold(one, |p, root| p.pad(&[(0, 1)], 0.0) - root * p.pad(&[(1, 0)], 0.0))
        })
    }

    /// Returns the powers xⁿ⁻¹, .., x, 1 along a new last axis of extent n: Vandermonde's matrix, if x is a vector.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let v = run(|x: Var| x.vander(3), [2.0, 3.0])?;
    /// assert_eq!(v.to_vec::<f64>()?, [4.0, 2.0, 1.0, 9.0, 3.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn vander(self, n: usize) -> Var {
        let at = caller();
        super::composite::of_numbers("vander", [self], at, |[x]| {
            if n == 0 {
                let shape = x.shape().iter().copied().chain([0]).collect::<Vec<_>>();
                return super::zeros(shape, x.dtype());
            }
            if let Err(problem) = few("vander", n) {
                return wrong(problem, &[x], x.ty(at), at);
            }
            let mut powers = vec![x.ones_like()];
            for i in 1..n {
                powers.push(powers[i - 1] * x);
            }
            powers.reverse();
            stack(&powers, -1)
        })
    }
}

/// Evaluates the polynomial with these coefficients (a vector, highest power first) at x, by Horner's rule.
///
/// Errors: `shape` if the coefficients are not a vector; `dtype` if they do not have the dtype of x.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(p, x): (Var, Var)| polyval(p, x));
/// let y = f.call(([1.0, -3.0, 2.0], [1.0, 4.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 6.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn polyval(coefficients: impl IntoVar, x: impl IntoVar) -> Var {
    let at = caller();
    let (p, x) = pair(coefficients, x, at);
    let ty = p.ty(at);
    if ty.shape.len() != 1 {
        let message = format!("`polyval` with coefficients {ty}");
        return misshapen(message, "give a vector of coefficients", &[p, x], x.ty(at), at);
    }
    if ty.dtype != x.ty(at).dtype {
        return super::composite::of_numbers("polyval", [p, x], at, |[_, x]| x);
    }
    on_behalf("polyval", at, || {
        let mut coefficients = p.unstack(0).into_iter();
        let Some(first) = coefficients.next() else { return x.zeros_like() };
        coefficients.fold(x.zeros_like() + first, |sum, c| sum * x + c)
    })
}

/// Interpolates linearly: returns the value at x of the polygon through the points (xp, fp), where xp ascends.
/// Outside the points, the result is the first or last element of fp.
///
/// Smooth curves are in [`interpolate`](crate::interpolate). At a corner, the derivative is that of the right side.
/// For n points, each element takes log2 n + 1 steps of a bisection.
///
/// Errors: `shape` if xp and fp are not nonempty vectors of the same extent.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, xp, fp): (Var, Var, Var)| interp(x, xp, fp));
/// let y = f.call(([-1.0, 0.5, 2.0], [0.0, 1.0, 3.0], [0.0, 10.0, 30.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [0.0, 5.0, 20.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "interp1d")]
#[track_caller]
pub fn interp(x: impl IntoVar, xp: impl IntoVar, fp: impl IntoVar) -> Var {
    let at = caller();
    let (xp, fp) = pair(xp, fp, at);
    let x = x.beside(xp, at);
    let (tp, tf) = (xp.ty(at), fp.ty(at));
    if tp.shape != tf.shape || tp.shape.len() != 1 || tp.shape[0] == 0 {
        let message = format!("`interp` between points at {tp} with values {tf}");
        let help = "give two vectors of one extent, with at least one point";
        return misshapen(message, help, &[x, xp, fp], x.ty(at), at);
    }
    let n = tp.shape[0];
    // Each element of x is looked up separately. So x may have any shape, and only the dtypes of the operands must
    // agree.
    let (first, last) = on_behalf("interp", at, || (xp.index(0), fp.index(-1)));
    of_floats("interp", [x, first, last], at, |[x, _, _]| {
        if n == 1 {
            return select(x.is_nan(), x, fp.squeeze(0));
        }
        let i = xp.searchsorted_right(x).clamp(1, n as i64 - 1);
        let (x0, x1) = (xp.index(i - 1), xp.index(i));
        let (f0, f1) = (fp.index(i - 1), fp.index(i));
        let wide = x1 - x0;
        let flat = wide.le(0.0);
        let inside = f0 + (x - x0) / select(flat, 1.0, wide) * select(flat, 0.0, f1 - f0);
        let inside = select(x.lt(xp.index(0)), fp.index(0), inside);
        select(x.gt(xp.index(-1)), fp.index(-1), inside)
    })
}

/// Computes the differences of neighbours along an axis, `order` times in succession.
fn differences(name: &'static str, x: Var, order: usize, axis: impl Axis, at: Loc) -> Var {
    along(name, x, axis, at, |x, axis| {
        let bool = x.dtype() == Dtype::Bool;
        if let Err(problem) = few(name, order.min(x.shape()[axis])) {
            return wrong(problem, &[x], x.ty(at), at);
        }
        let mut y = x;
        for _ in 0..order {
            let n = y.shape()[axis];
            if n == 0 {
                return y;
            }
            let (next, this) = (y.slice_axis(axis, 1..), y.slice_axis(axis, ..n - 1));
            y = if bool { next.ne(this) } else { next - this };
        }
        y
    })
}
