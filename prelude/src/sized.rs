//! Functions whose number of results depends on the data, such as `nonzero` and `unique`. They take a fixed `size`:
//! results beyond it are dropped, and missing results are filled with a given value.
//!
//! The number of results is a run-time value, `x.count_nonzero()` or [`Unique::number`]. Shapes are fixed at
//! tracing, so this number cannot be an extent.

use crate::ops::functions::{arange, concat, full, iota, ones, select, stack, zeros};
use crate::ops::wrong;
use crate::var::{IntoVar, caller, on_behalf};
use crate::{Tree, Var};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Problem};

/// The distinct elements of an array, as returned by [`Var::unique`].
#[derive(Tree, Clone, Copy, Debug)]
pub struct Unique<T> {
    /// The distinct elements in ascending order, with nan last: `[size]`.
    pub values: T,
    /// The index of the first occurrence of each value among all elements in row-major order, `[size]` (i64). Entries
    /// beyond the number of values contain the index of the smallest element.
    pub first: T,
    /// For each element, the index of its value, in the shape of the array (i64). If `size` is large enough,
    /// `values.take(inverse, 0)` is the array again.
    pub inverse: T,
    /// The number of occurrences of each value, `[size]` (i64); 0 for entries beyond the number of values.
    pub counts: T,
    /// The number of distinct elements (i64), even if it exceeds `size`.
    pub number: T,
}

/// Selection of elements and indices by data.
impl Var {
    /// Returns the indices, in row-major order, of the first `size` nonzero elements (i64), padded with `fill`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let i = run(|x: Var| x.flatnonzero(3, -1), [0.0, 5.0, 0.0, 7.0])?;
    /// assert_eq!(i.to_vec::<i64>()?, [1, 3, -1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn flatnonzero(self, size: usize, fill: i64) -> Var {
        on_behalf("flatnonzero", caller(), || places(nonzero(self), size, fill))
    }

    /// Returns the positions of the first `size` nonzero elements, one row per element with an index for each axis,
    /// `[size, rank]` (i64), padded with rows of `fill`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let places = run(|x: Var| x.argwhere(3, -1), [[0.0, 5.0], [7.0, 0.0]])?;
    /// assert_eq!(places.to_vec::<i64>()?, [0, 1, 1, 0, -1, -1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn argwhere(self, size: usize, fill: i64) -> Var {
        on_behalf("argwhere", caller(), || {
            let axes = indices(self, size, fill);
            if axes.is_empty() { zeros([size, 0], Dtype::I64) } else { stack(&axes, 1) }
        })
    }

    /// Returns the positions of the first `size` nonzero elements: for each axis an array of indices (i64), padded
    /// with `fill`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| {
    ///     let places = x.nonzero(2, 0);
    ///     x.index((places[0], places[1]))
    /// };
    /// assert_eq!(run(f, [[0.0, 5.0], [7.0, 0.0]])?.to_vec::<f64>()?, [5.0, 7.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(self, size: usize, fill: i64) -> Vec<Var> {
        on_behalf("nonzero", caller(), || indices(self, size, fill))
    }

    /// Returns the first `size` elements, in row-major order, at which `condition`, an array of the same shape, is not
    /// zero. Missing elements are filled with `fill`.
    ///
    /// Errors: `shape` if the condition has another shape; `dtype` if `fill` is not representable in the dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.extract(x.gt(2.0), 3, 0.0), [1.0, 3.0, 2.0, 4.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 4.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "masked_select", alias = "boolean_indexing")]
    #[track_caller]
    pub fn extract(self, condition: Var, size: usize, fill: impl IntoVar) -> Var {
        let at = caller();
        let (ty, tc) = (self.ty(at), condition.ty(at));
        let fill = fill.beside(self, at);
        if ty.shape != tc.shape {
            let message = format!("`extract` of {ty} where {tc} is not zero");
            let guess = ArrayType::new(ty.dtype, [size]);
            let help = "give a condition of the array's shape";
            let problem = Problem::new(Kind::Shape, message, help);
            return wrong(problem, &[self, condition], guess, at);
        }
        on_behalf("extract", at, || {
            let places = places(nonzero(condition), size, -1);
            filled(self.flatten(), places, fill)
        })
    }

    /// Returns the first `size` distinct elements in ascending order, padded with `fill`; the index of the first
    /// occurrence of each; the number of its occurrences; and for each element the index of its value. All nans
    /// count as one value, the last.
    ///
    /// The derivative of a value is that of its first occurrence.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let u = run(|x: Var| x.unique(3, 0), [5i64, 2, 5, 5])?;
    /// assert_eq!(u.values.to_vec::<i64>()?, [2, 5, 0]);
    /// assert_eq!(u.first.to_vec::<i64>()?, [1, 0, 1]);
    /// assert_eq!(u.inverse.to_vec::<i64>()?, [1, 0, 1, 1]);
    /// assert_eq!(u.counts.to_vec::<i64>()?, [1, 3, 0]);
    /// assert_eq!(u.number.item::<i64>()?, 2);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "unique_values", alias = "unique_counts", alias = "unique_inverse")]
    #[track_caller]
    pub fn unique(self, size: usize, fill: impl IntoVar) -> Unique<Var> {
        let at = caller();
        let fill = fill.beside(self, at);
        on_behalf("unique", at, || different(self, size, fill))
    }

    /// Returns the first `size` distinct elements that occur in both arrays, in ascending order, padded with
    /// `fill`. All nans are equal.
    ///
    /// Errors: `dtype` if the dtypes of both arrays differ, or if `fill` is not representable in the dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, y): (Var, Var)| x.intersect1d(y, 3, -1);
    /// assert_eq!(run(f, ([5i64, 2, 7, 5], [1i64, 5, 2]))?.to_vec::<i64>()?, [2, 5, -1]);
    /// // The elements that occur only in x, and those that occur in x or y.
    /// let difference = |(x, y): (Var, Var)| x.extract(!x.is_in(y), 3, -1);
    /// assert_eq!(run(difference, ([5i64, 2, 7], [1i64, 5]))?.to_vec::<i64>()?, [2, 7, -1]);
    /// let union = |(x, y): (Var, Var)| concat(&[x, y], 0).unique(4, -1).values;
    /// assert_eq!(run(union, ([5i64, 2], [1i64, 5]))?.to_vec::<i64>()?, [1, 2, 5, -1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "setdiff1d", alias = "union1d")]
    #[track_caller]
    pub fn intersect1d(self, y: impl IntoVar, size: usize, fill: impl IntoVar) -> Var {
        let at = caller();
        let (y, fill) = (y.beside(self, at), fill.beside(self, at));
        let (tx, ty) = (self.ty(at), y.ty(at));
        if tx.dtype != ty.dtype {
            let message = format!("`intersect1d` of {tx} and {ty}");
            let help = format!("convert one of them, as in `y.convert(Dtype::{:?})`", tx.dtype);
            let guess = ArrayType::new(tx.dtype, [size]);
            return wrong(Problem::new(Kind::Dtype, message, help), &[self, y], guess, at);
        }
        on_behalf("intersect1d", at, || {
            let (x, y) = (self.flatten(), y.flatten());
            let (n, m) = (x.shape()[0], y.shape()[0]);
            let all = different(concat(&[x, y], 0), n + m, fill);
            let none = zeros([n + m], Dtype::Bool);
            let here = |of: Var| none.at(of).set(ones([of.shape()[0]], Dtype::Bool));
            let both = here(all.inverse.slice_axis(0, ..n)) & here(all.inverse.slice_axis(0, n..));
            filled(all.values, places(both, size, -1), fill)
        })
    }
}

/// Returns a vector of bools: for each element, in row-major order, whether it is not zero.
#[track_caller]
fn nonzero(x: Var) -> Var {
    let x = x.flatten();
    if x.dtype() == Dtype::Bool {
        x
    } else {
        x.ne(Var::literal(Literal::zero(x.dtype()), caller()))
    }
}

/// Returns the indices of the first `size` true elements of a vector, padded with `fill`.
fn places(which: Var, size: usize, fill: i64) -> Var {
    let n = which.shape()[0];
    // The position of a true element is the number of true elements before it. False elements and those beyond `size`
    // have a position beyond the end, and scatter drops them.
    let place = select(which, running(which) - 1, size as i64);
    full([size], fill).at(place).set(arange(n, Dtype::I64))
}

/// Returns, for each position, the number of true elements up to it, including the element at that position.
fn running(which: Var) -> Var {
    which.convert(Dtype::I64).cumsum(0)
}

/// Returns the elements at the given indices, and `fill` where the index is -1.
fn filled(x: Var, places: Var, fill: Var) -> Var {
    if x.shape()[0] == 0 {
        return fill.broadcast_to(places.shape());
    }
    select(places.lt(0), fill, x.take(places.maximum(0), 0))
}

/// Returns the indices of nonzero elements, one array per axis.
fn indices(x: Var, size: usize, fill: i64) -> Vec<Var> {
    let shape = x.shape();
    let flat = places(nonzero(x), size, -1);
    let mut rest: i64 = shape.iter().map(|n| *n as i64).product();
    let index = |n: &usize| {
        rest /= (*n as i64).max(1);
        let i = flat.div_floor(rest.max(1)).mod_floor((*n as i64).max(1));
        select(flat.lt(0), fill, i)
    };
    shape.iter().map(index).collect()
}

fn different(x: Var, size: usize, fill: Var) -> Unique<Var> {
    let shape = x.shape();
    let x = x.flatten();
    let n = shape.elements();
    if n == 0 {
        let none = zeros([size], Dtype::I64);
        let (values, inverse) = (fill.broadcast_to([size]), zeros(shape, Dtype::I64));
        return Unique {
            values,
            first: none,
            inverse,
            counts: none,
            number: zeros([], Dtype::I64),
        };
    }
    let order = x.argsort(0);
    let sorted = x.take(order, 0);
    let (before, after) = (sorted.slice_axis(0, ..n - 1), sorted.slice_axis(0, 1..));
    let mut changes = after.ne(before);
    if x.dtype().is_float() {
        changes = changes & !(after.is_nan() & before.is_nan());
    }
    let group = concat(&[zeros([1], Dtype::I64), running(changes)], 0);
    let number = group.index(-1) + 1;
    let inverse = zeros([n], Dtype::I64).at(order).set(group).reshape(shape);
    // Groups beyond `size` have an index beyond the end of the results, and scatter drops them.
    let starts = concat(&[ones([1], Dtype::Bool), changes], 0);
    let smallest = order.index(0).broadcast_to([size]);
    let first = smallest.at(select(starts, group, size as i64)).set(order);
    let counts = zeros([size], Dtype::I64).at(group).add(ones([n], Dtype::I64));
    let there = iota([size], 0, Dtype::I64).lt(number);
    Unique { values: select(there, x.take(first, 0), fill), first, inverse, counts, number }
}
