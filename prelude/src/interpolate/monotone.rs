//! Monotone piecewise cubic curves.

use super::curve::{Curve, checked, given, poison, samples};
use crate::Var;
use crate::ops::functions::{concat, select};
use crate::var::{IntoVar, caller, on_behalf};

/// Returns the monotone curve through values `y` `[n, ..]` at ascending points `x` `[n]`. It has one continuous
/// derivative, and between two points its values are between the values at these points. If the points do not ascend
/// strictly, the slopes of the curve are nan.
///
/// The slope at a point is a harmonic mean of the slopes of the polygon on both sides, and zero if their signs
/// differ. If one of them is zero, the derivative of the slope is one-sided.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = |(x, y, p): (Var, Var, Var)| interpolate::pchip(x, y).at(p);
/// let (x, y) = ([0.0, 1.0, 2.0, 4.0], [0.0, 0.5, 3.0, 3.5]);
/// let p = Tensor::from((0..40).map(|i| f64::from(i) / 10.0).collect::<Vec<f64>>());
/// assert!(run(f, (x, y, &p))?.to_vec::<f64>()?.is_sorted());
/// check_grads(f, (x, y, [0.3, 1.7, 3.0]), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if x is not a vector of at least two points or y has another number of values, `dtype` if they
/// are not floats of one dtype.
///
/// Source: Fritsch and Butland, *A method for constructing local monotone piecewise cubic interpolants* (1984),
/// with the ends of Moler, *Numerical computing with MATLAB* (2004).
#[doc(alias = "PchipInterpolator", alias = "pchip_interpolate", alias = "monotone")]
#[track_caller]
pub fn pchip(x: impl IntoVar, y: impl IntoVar) -> Curve<Var> {
    let at = caller();
    let (x, y) = given(x, y, at);
    if let Err(problem) = samples("pchip", x, y, at) {
        return poison(problem, x, y, at);
    }
    on_behalf("pchip", at, || {
        let n = x.len();
        let mut shape = vec![1; y.rank()];
        shape[0] = n - 1;
        let h = x.diff(0).reshape(shape);
        let polygon = y.diff(0) / h;
        Curve { points: x, values: y, slopes: checked(slopes(h, polygon), x) }
    })
}

/// Returns the slopes of the curve at the points, given the length of each interval and the slope of the polygon there.
/// Intervals are along axis 0.
fn slopes(h: Var, polygon: Var) -> Var {
    let n = polygon.len();
    if n == 1 {
        return concat(&[polygon, polygon], 0);
    }
    let sides = |v: Var| (v.slice_axis(0, ..n - 1), v.slice_axis(0, 1..));
    let ((h0, h1), (d0, d1)) = (sides(h), sides(polygon));
    let alike = (d0.signum() * d1.signum()).gt(0.0);
    let safe = |d: Var| select(alike, d, 1.0);
    let (w0, w1) = (2.0 * h1 + h0, h1 + 2.0 * h0);
    let mean = (w0 + w1) / (w0 / safe(d0) + w1 / safe(d1));
    let inside = select(alike, mean, 0.0);
    let of = |v: Var, i: usize| v.slice_axis(0, i..=i);
    let end = |i: usize, j: usize| end(of(h, i), of(h, j), of(polygon, i), of(polygon, j));
    concat(&[end(0, 1), inside, end(n - 1, n - 2)], 0)
}

/// Returns the slope of the curve at an end: the slope of the parabola through the three outermost points, limited so
/// that the curve is monotone. `h0` and `d0` are the length and slope of the outermost interval, `h1` and `d1` those of
/// the next one.
fn end(h0: Var, h1: Var, d0: Var, d1: Var) -> Var {
    let slope = ((2.0 * h0 + h1) * d0 - h0 * d1) / (h0 + h1);
    let turned = slope.signum().ne(d0.signum());
    let steep = d0.signum().ne(d1.signum()) & slope.abs().gt(3.0 * d0.abs());
    select(turned, 0.0, select(steep, 3.0 * d0, slope))
}
