//! Piecewise cubic curves, defined by values and slopes at points.

use crate::Var;
use crate::ops::functions::{constant, select};
use crate::ops::wrong;
use crate::var::{IntoVar, caller, on_behalf, pair};
use tapeloom_derive::Tree;
use tapeloom_ir::{Kind, Loc, Problem};

/// A piecewise cubic curve, defined by values and slopes at points, as returned by
/// [`cubic_spline`](super::cubic_spline) and [`pchip`](super::pchip).
#[derive(Tree, Clone, Copy, Debug)]
pub struct Curve<T> {
    /// The points: `[n]`, ascending.
    pub points: T,
    /// The values at the points: `[n, ..]`.
    pub values: T,
    /// The slopes at the points: `[n, ..]`.
    pub slopes: T,
}

impl Curve<Var> {
    /// Returns the values of the curve at the given places. The shape is that of `places`, followed by that of a
    /// value. Outside the points, the first and the last cubic are extrapolated.
    ///
    /// For derivatives of the curve, use [`jvp`](crate::jvp()) or [`grad`](crate::grad()).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let curve = |p: Var| interpolate::pchip(constant([0.0, 1.0, 2.0]), constant([0.0, 1.0, 1.0])).at(p);
    /// let y = run(curve, [0.0, 1.0, 1.5])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 1.0, 1.0]); // no overshoot
    /// let (_, slope) = run(jvp(curve), ([0.0, 1.0, 1.5], [1.0, 1.0, 1.0]))?;
    /// assert_eq!(slope.to_vec::<f64>()?, [1.5, 0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `dtype` if the places do not have the dtype of the points.
    #[track_caller]
    pub fn at(&self, places: impl IntoVar) -> Var {
        let at = caller();
        let places = places.beside(self.points, at);
        if let Err(problem) = self.fits(places, at) {
            return wrong(problem, &[places, self.points, self.values], places.ty(at), at);
        }
        on_behalf("at", at, || {
            let n = self.points.len();
            let i = self.points.searchsorted_right(places).clamp(1, n as i64 - 1);
            let column = |x: Var| {
                let mut shape = x.shape().to_vec();
                shape.resize(shape.len() + self.values.rank() - 1, 1);
                x.reshape(shape)
            };
            let (left, right) = (self.points.take(i - 1, 0), self.points.take(i, 0));
            let h = column(right - left);
            let t = column(places - left) / h;
            let two = |x: Var| (x.take(i - 1, 0), x.take(i, 0));
            let ((y0, y1), (s0, s1)) = (two(self.values), two(self.slopes));
            let (rise, s0, s1) = (y1 - y0, h * s0, h * s1);
            y0 + t * (s0 + t * (3.0 * rise - 2.0 * s0 - s1 + t * (s0 + s1 - 2.0 * rise)))
        })
    }

    fn fits(&self, places: Var, at: Loc) -> Result<(), Problem> {
        let (tp, ty) = (self.points.ty(at), places.ty(at));
        if tp.dtype == ty.dtype {
            return samples("at", self.points, self.values, at);
        }
        let help = crate::dtype::conversions(tp.dtype, ty.dtype);
        Err(Problem::new(Kind::Dtype, format!("a curve through points {tp} at places {ty}"), help))
    }
}

/// Converts the points `x` and the values `y` of the user to `Var`s. If one of them is a number, it gets the dtype of
/// the other.
pub(super) fn given(x: impl IntoVar, y: impl IntoVar, at: Loc) -> (Var, Var) {
    pair(x, y, at)
}

/// Checks that there are at least two points and an equal number of values, of one dtype.
pub(super) fn samples(name: &str, x: Var, y: Var, at: Loc) -> Result<(), Problem> {
    let (tx, ty) = (x.ty(at), y.ty(at));
    let message = format!("`{name}` through values {ty} at points {tx}");
    if !tx.dtype.is_float() || tx.dtype != ty.dtype {
        return Err(Problem::new(
            Kind::Dtype,
            message,
            "points and values are floats of one dtype",
        ));
    }
    match (&tx.shape[..], ty.shape.first()) {
        ([n], Some(m)) if n == m && *n >= 2 => Ok(()),
        _ => {
            let help = "give a vector of at least two points, and a value for each along axis 0";
            Err(Problem::new(Kind::Shape, message, help))
        }
    }
}

/// Returns the slopes of a curve. If its points `x` do not ascend strictly, the slopes are replaced by nan.
pub(super) fn checked(slopes: Var, x: Var) -> Var {
    let ascending = x.stop_gradient().diff(0).gt(0.0).all();
    // Multiply by nan instead of selecting it, so that derivatives are nan, too.
    slopes * select(ascending, constant(1.0).convert(x.dtype()), f64::NAN)
}

/// Reports an error, and returns a placeholder for a curve.
pub(super) fn poison(problem: Problem, x: Var, y: Var, at: Loc) -> Curve<Var> {
    let values = wrong(problem, &[x, y], y.ty(at), at);
    Curve { points: x, values, slopes: Var::poison(y.ty(at), at) }
}
