//! Reductions over segments: elements with the same number are combined, whatever their order.
//!
//! ```
//! use tapeloom::prelude::*;
//! // Messages along the edges of a graph, summed at their targets.
//! let step = |(x, source, target): (Var, Var, Var)| x.take(source, 0).segment_sum(target, 3);
//! let y = run(step, ([1.0, 10.0, 100.0], [0i64, 0, 1, 2], [1i64, 2, 2, 0]))?;
//! assert_eq!(y.to_vec::<f64>()?, [100.0, 1.0, 11.0]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::create::full_var;
use super::{select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::Reducer;
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Reductions over segments. `ids` are integers whose shape is that of the first axes of this array: element i of these
/// axes belongs to segment `ids[i]`. The result is `[segments, rest..]` with the remaining axes of this array. Elements
/// whose id is not one of 0, 1, .. `segments` - 1 are dropped, also if the id is negative, as in JAX.
///
/// Errors: `shape` if the shape of the ids is not that of the first axes; `dtype` if the ids are not integers, or the
/// elements not numbers.
impl Var {
    /// Returns the sum of each segment. A segment without elements has the sum 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, ids): (Var, Var)| x.segment_sum(ids, 3);
    /// let y = run(f, ([1.0, 2.0, 3.0, 4.0], [2i64, 0, 2, -1]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 0.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "scatter_reduce", alias = "unsorted_segment_sum", alias = "reduceat")]
    #[track_caller]
    pub fn segment_sum(self, ids: impl IntoVar, segments: usize) -> Var {
        segment("segment_sum", Reducer::Sum, self, ids, segments, caller())
    }

    /// Returns the product of each segment. A segment without elements has the product 1.
    #[track_caller]
    pub fn segment_prod(self, ids: impl IntoVar, segments: usize) -> Var {
        segment("segment_prod", Reducer::Prod, self, ids, segments, caller())
    }

    /// Returns the largest element of each segment. For a segment without elements, it is -inf or the smallest integer
    /// of the dtype. Elements that are equally large share the derivative evenly.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, ids): (Var, Var)| x.segment_max(ids, 2);
    /// let y = run(f, ([[1.0, 5.0], [3.0, 4.0]], [1i64, 1]))?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f64>()?[2..], [3.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn segment_max(self, ids: impl IntoVar, segments: usize) -> Var {
        segment("segment_max", Reducer::Max, self, ids, segments, caller())
    }

    /// Returns the smallest element of each segment. For a segment without elements, it is inf or the largest integer
    /// of the dtype. Elements that are equally small share the derivative evenly.
    #[track_caller]
    pub fn segment_min(self, ids: impl IntoVar, segments: usize) -> Var {
        segment("segment_min", Reducer::Min, self, ids, segments, caller())
    }

    /// Returns the mean of each segment of floats. A segment without elements has the mean 0. Sums and numbers of
    /// elements are computed in f64.
    #[track_caller]
    pub fn segment_mean(self, ids: impl IntoVar, segments: usize) -> Var {
        let at = caller();
        let ids = ids.into_var(Dtype::I64, at);
        of_segments("segment_mean", Dtype::is_float, self, ids, segments, at, |ids, shape| {
            // An f32 sum of equal numbers stops growing after 2²⁴ numbers, so add in f64.
            let wide = self.convert(Dtype::F64);
            let sum = combined(Reducer::Sum, wide, ids, shape.clone(), at);
            let rest = vec![1; shape.len() - 1];
            let one = ids.ones_like().convert(Dtype::F64);
            let count = combined(Reducer::Sum, one, ids, [segments].into(), at).maximum(1.0);
            let mean = sum / count.reshape([&[segments][..], &rest].concat());
            mean.convert(self.dtype())
        })
    }

    /// Returns the softmax over each segment, in the shape of this array: for each element x, eˣ divided by the sum of
    /// eˣ over its segment. Elements whose ids are out of range get 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, ids): (Var, Var)| x.segment_softmax(ids, 2);
    /// let y = run(f, ([0.0, 7.0, 0.0, 800.0], [0i64, 1, 0, 2]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.5, 1.0, 0.5, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn segment_softmax(self, ids: impl IntoVar, segments: usize) -> Var {
        let at = caller();
        let ids = ids.into_var(Dtype::I64, at);
        of_segments("segment_softmax", Dtype::is_float, self, ids, segments, at, |ids, shape| {
            if segments == 0 {
                return self.zeros_like();
            }
            let outside = ids.ge(i64::try_from(segments).unwrap_or(i64::MAX));
            let of_element = |y: Var| y.take(select(outside, 0, ids), 0);
            let most = combined(Reducer::Max, self.stop_gradient(), ids, shape.clone(), at);
            let most = of_element(select(most.is_finite(), most, 0.0));
            let rest = vec![1; shape.len() - 1];
            let outside = outside.reshape([&*ids.shape(), &rest].concat());
            let power = select(outside, 0.0, select(outside, 0.0, self - most).exp());
            let sum = of_element(combined(Reducer::Sum, power, ids, shape, at));
            power / select(outside, 1.0, sum)
        })
    }
}

fn segment(
    name: &'static str,
    reducer: Reducer,
    x: Var,
    ids: impl IntoVar,
    segments: usize,
    at: Loc,
) -> Var {
    let ids = ids.into_var(Dtype::I64, at);
    let numbers = |dtype: Dtype| dtype != Dtype::Bool;
    of_segments(name, numbers, x, ids, segments, at, |ids, shape| {
        combined(reducer, x, ids, shape, at)
    })
}

/// Checks the arguments and evaluates `body`. Its first argument is the ids, where an id out of range is replaced by
/// `segments`. Its second argument is the shape of the result, with axis 0 for the segments.
fn of_segments(
    name: &'static str,
    fits: fn(Dtype) -> bool,
    x: Var,
    ids: Var,
    segments: usize,
    at: Loc,
    body: impl FnOnce(Var, Shape) -> Var,
) -> Var {
    let (ty, ti) = (x.ty(at), ids.ty(at));
    let n = ti.shape.len();
    let rest = ty.shape.get(n..).unwrap_or_default();
    let shape: Shape = [segments].iter().chain(rest).copied().collect();
    let message = || format!("`{name}` of {ty} with ids {ti}");
    let problem = if !ti.dtype.is_integer() {
        Problem::new(Kind::Dtype, message(), "the ids are integers: write `.convert(Dtype::I64)`")
    } else if !fits(ty.dtype) {
        let help = "convert the elements first, as in `x.convert(Dtype::F64)`";
        Problem::new(Kind::Dtype, message(), help)
    } else if ty.shape.get(..n) != Some(&*ti.shape) {
        Problem::new(Kind::Shape, message(), "give an id for each element of the first axes")
    } else {
        return on_behalf(name, at, || {
            // Scatter would count a negative id from the end, so replace it by an id that is out of range.
            let ids = super::widened(ids, at);
            // Segment numbers are i64. If `segments` does not fit in an i64, the result is too large for memory, and
            // its creation reports the error.
            let beyond = i64::try_from(segments).unwrap_or(i64::MAX);
            body(select(ids.lt(0) | ids.ge(beyond), beyond, ids), shape)
        });
    };
    wrong(problem, &[x, ids], ArrayType::new(ty.dtype, shape), at)
}

/// Combines the elements of each segment by scattering them to the identity of the reducer. Elements with ids out of
/// range are dropped.
fn combined(reducer: Reducer, x: Var, ids: Var, shape: Shape, at: Loc) -> Var {
    let start = full_var(&shape, reducer.identity(x.ty(at).dtype), at);
    let place = start.at(ids);
    match reducer {
        Reducer::Prod => place.mul(x),
        Reducer::Max | Reducer::Or => place.max(x),
        Reducer::Min | Reducer::And => place.min(x),
        Reducer::Sum => place.add(x),
    }
}
