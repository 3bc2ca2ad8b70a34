//! Cubic splines.
//!
//! The slopes s of the spline at the points are determined by the condition that second derivatives are continuous.
//! With the lengths h of the intervals and the slopes Δ of the polygon, this is:
//!
//! ```text
//! hᵢ sᵢ₋₁ + 2 (hᵢ₋₁ + hᵢ) sᵢ + hᵢ₋₁ sᵢ₊₁ = 3 (hᵢ Δᵢ₋₁ + hᵢ₋₁ Δᵢ)
//! ```
//!
//! A further row for each end has the condition at that end. The result is one tridiagonal system.

use super::curve::{Curve, checked, given, poison, samples};
use crate::Var;
use crate::linalg::tridiagonal_solve;
use crate::ops::functions::concat;
use crate::var::{IntoVar, caller, on_behalf};

/// The condition of a spline at its ends.
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    /// The first two cubics are the same polynomial, and so are the last two. Use this condition if nothing is known
    /// about the ends. If the values are those of a cubic polynomial, the spline is that polynomial.
    NotAKnot,
    /// The second derivative is zero.
    Natural,
    /// The slopes are given, each with the shape of a value.
    Clamped(Var, Var),
}

/// Returns the cubic spline through values `y` `[n, ..]` at ascending points `x` `[n]`, which has two continuous
/// derivatives. If the points do not ascend strictly, the slopes of the spline are nan.
///
/// ```
/// use tapeloom::prelude::*;
/// use interpolate::{Ends, cubic_spline};
/// let x: Vec<f64> = (0..9).map(|i| f64::from(i) / 8.0 * std::f64::consts::PI).collect();
/// let y: Vec<f64> = x.iter().map(|x| x.sin()).collect();
/// let ends = || Ends::Clamped(constant(1.0), constant(-1.0));
/// let f = |(x, y, p): (Var, Var, Var)| cubic_spline(x, y, ends()).at(p);
/// let (x, y) = (Tensor::from(x), Tensor::from(y));
/// assert!((run(f, (&x, &y, 1.0))?.item::<f64>()? - 1f64.sin()).abs() < 1e-4);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if x is not a vector of at least two points, if y has another number of values, or if slopes at
/// the ends do not have the shape of a value; `dtype` if they are not floats of one dtype.
#[doc(alias = "CubicSpline", alias = "spline", alias = "make_interp_spline")]
#[track_caller]
pub fn cubic_spline(x: impl IntoVar, y: impl IntoVar, ends: Ends) -> Curve<Var> {
    let at = caller();
    let (x, y) = given(x, y, at);
    if let Err(problem) = samples("cubic_spline", x, y, at) {
        return poison(problem, x, y, at);
    }
    on_behalf("cubic_spline", at, || {
        let n = x.len();
        let rest = y.shape()[1..].to_vec();
        let columns = rest.iter().product();
        let flat = y.reshape([n, columns]);
        let ends = match ends {
            Ends::Clamped(left, right) => {
                let row = |s: Var| s.broadcast_to(rest.clone()).reshape([1, columns]);
                Rows::Clamped(row(left), row(right))
            }
            Ends::Natural => Rows::Natural,
            Ends::NotAKnot => Rows::NotAKnot,
        };
        let slopes = slopes(x, flat, ends).reshape(y.shape());
        Curve { points: x, values: y, slopes: checked(slopes, x) }
    })
}

/// The conditions of [`Ends`], with slopes reshaped to rows `[1, columns]`.
enum Rows {
    NotAKnot,
    Natural,
    Clamped(Var, Var),
}

/// Returns the slopes of the spline at the points, given the points `x` `[n]` and values `y` `[n, columns]`.
fn slopes(x: Var, y: Var, ends: Rows) -> Var {
    let n = x.len();
    let h = x.diff(0);
    let column = |v: Var| v.expand_dims(1);
    let polygon = y.diff(0) / column(h);
    let of = |v: Var, i: usize| v.slice_axis(0, i..=i);
    let one = of(h, 0).ones_like();
    let first = of(polygon, 0);
    if let (Rows::NotAKnot, 2 | 3) = (&ends, n) {
        // The not-a-knot condition does not determine a spline of fewer than four points. For two points use the
        // straight line, for three the parabola.
        if n == 2 {
            return concat(&[first, first], 0);
        }
        let second = of(polygon, 1);
        let [h0, h1] = [0, 1].map(|i| column(of(h, i)));
        let bend = (second - first) / (h0 + h1);
        return concat(&[first - bend * h0, first + bend * h0, second + bend * h1], 0);
    }
    // For the first and for the last row of the tridiagonal system: the diagonal element, the element beside it, and
    // the right-hand side.
    let ends = match ends {
        Rows::Clamped(left, right) => [(one, one * 0.0, left), (one, one * 0.0, right)],
        Rows::Natural => {
            [(2.0 * one, one, 3.0 * first), (2.0 * one, one, 3.0 * of(polygon, n - 2))]
        }
        Rows::NotAKnot => [[0, 1], [n - 2, n - 3]].map(|[i, j]| {
            let (outer, inner) = (of(h, i), of(h, j));
            let both = outer + inner;
            let (wide, o, k) = (column(both), column(outer), column(inner));
            let right = ((o + 2.0 * wide) * k * of(polygon, i) + o * o * of(polygon, j)) / wide;
            (inner, both, right)
        }),
    };
    let [(d0, u0, r0), (d1, l1, r1)] = ends;
    let (before, after) = (h.slice_axis(0, ..n - 2), h.slice_axis(0, 1..));
    let (p, q) = (polygon.slice_axis(0, ..n - 2), polygon.slice_axis(0, 1..));
    let right = 3.0 * (column(after) * p + column(before) * q);
    let zero = one * 0.0;
    tridiagonal_solve(
        concat(&[zero, after, l1], 0),
        concat(&[d0, 2.0 * (before + after), d1], 0),
        concat(&[u0, before, zero], 0),
        concat(&[r0, right, r1], 0),
    )
}
