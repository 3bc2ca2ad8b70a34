//! Sorting and functions based on it: largest elements, medians, quantiles.
//!
//! All of them read the array at the indices that [`Var::argsort`] returns. So they are differentiable: the
//! derivative of each result is that of the element that it is. Sorts are stable, -0 equals 0, and nan is larger
//! than any number.
//!
//! ```
//! use tapeloom::prelude::*;
//! let x = Tensor::from([3.0, 1.0, 2.0]);
//! assert_eq!(run(|x: Var| x.sort(0), &x)?.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
//! assert_eq!(run(|x: Var| x.median(), &x)?.item::<f64>()?, 2.0);
//! assert_eq!(run(grad(|x: Var| x.median()), &x)?.to_vec::<f64>()?, [0.0, 0.0, 1.0]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::axes::{Axes, Axis, resolve_axes, resolve_axis};
use super::composite::{along, list};
use super::{emit, insert_axis, move_axis, select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{ArgSort, Bounds, Gather};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Sorting along an axis.
impl Var {
    /// Returns the elements along `axis` in ascending order. The order of equal elements does not change. A nan comes
    /// last. [`sort_descending`](Var::sort_descending) sorts in the other direction.
    ///
    /// Rows are sorted by radix sort, in time proportional to their number of elements.
    ///
    /// Errors: `shape` if the axis does not exist.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.sort(-1), [[3.0, 1.0], [2.0, f64::NAN]])?.to_vec::<f64>()?;
    /// assert_eq!(y[..3], [1.0, 3.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "kthvalue")]
    #[doc(alias = "partition")]
    #[track_caller]
    pub fn sort(self, axis: impl Axis) -> Var {
        let at = caller();
        along("sort", self, axis, at, |x, axis| pick(x, order(x, axis, false, at), axis, at))
    }

    /// Returns the elements along `axis` in descending order. The order of equal elements does not change. A nan comes
    /// first.
    ///
    /// Errors: `shape` if the axis does not exist.
    #[track_caller]
    pub fn sort_descending(self, axis: impl Axis) -> Var {
        let at = caller();
        let sorted = |x, axis| pick(x, order(x, axis, true, at), axis, at);
        along("sort_descending", self, axis, at, sorted)
    }

    /// Returns the indices (i64) that sort the elements along `axis` in ascending order, to be used with
    /// [`take_along_axis`](Var::take_along_axis).
    ///
    /// Errors: `shape` if the axis does not exist.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let i = run(|x: Var| x.argsort(0), [3.0, 1.0, 3.0, 2.0])?;
    /// assert_eq!(i.to_vec::<i64>()?, [1, 3, 0, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(self, axis: impl Axis) -> Var {
        places("argsort", self, axis, false, caller())
    }

    /// Returns the indices (i64) that sort the elements along `axis` in descending order.
    ///
    /// Errors: `shape` if the axis does not exist.
    #[track_caller]
    pub fn argsort_descending(self, axis: impl Axis) -> Var {
        places("argsort_descending", self, axis, true, caller())
    }

    /// Returns the keys along `axis` in ascending order, and the values in the order of their keys.
    ///
    /// Errors: `shape` if the axis does not exist, or if the values have another shape than the keys.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (k, v) = run(|(k, v): (Var, Var)| k.sort_key_val(v, 0), ([2i64, 1], [0.5, 0.25]))?;
    /// assert_eq!((k.to_vec::<i64>()?, v.to_vec::<f64>()?), (vec![1, 2], vec![0.25, 0.5]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_key_val(self, values: Var, axis: impl Axis) -> (Var, Var) {
        let at = caller();
        let (ty, tv) = (self.ty(at), values.ty(at));
        let axis = match resolve_axis("sort_key_val", axis, &ty.shape) {
            Ok(axis) if ty.shape == tv.shape => axis,
            found => {
                let message = format!("`sort_key_val` of keys {ty} and values {tv}");
                let unequal = Problem::new(Kind::Shape, message, "give a key for each value");
                let guess = wrong(found.err().unwrap_or(unequal), &[self, values], ty, at);
                return (guess, Var::poison(tv, at));
            }
        };
        on_behalf("sort_key_val", at, || {
            let order = order(self, axis, false, at);
            (pick(self, order, axis, at), pick(values, order, axis, at))
        })
    }

    /// Returns the `k` largest elements along the last axis, the largest first, and their indices (i32). Equal elements
    /// are returned in the order of the array. A nan counts as the largest element.
    ///
    /// If k is small compared to the extent, each element is read once and compared with the smallest of the best k
    /// so far; the others are not sorted.
    ///
    /// Errors: `shape` if the last axis has fewer than `k` elements, or if there is no axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let (x, i) = run(|x: Var| x.top_k(2), [1.0, 5.0, 2.0, 5.0])?;
    /// assert_eq!((x.to_vec::<f64>()?, i.to_vec::<i32>()?), (vec![5.0, 5.0], vec![1, 3]));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "topk")]
    #[track_caller]
    pub fn top_k(self, k: usize) -> (Var, Var) {
        let at = caller();
        let ty = self.ty(at);
        let Some(axis) = ty.shape.len().checked_sub(1).filter(|a| k <= ty.shape[*a]) else {
            let problem = Problem::new(
                Kind::Shape,
                format!("`top_k` of {ty} for {k} elements"),
                "the last axis has at least as many elements",
            );
            let guess = wrong(problem, &[self], ty.clone(), at);
            return (guess, Var::poison(ArrayType::new(Dtype::I32, ty.shape), at));
        };
        on_behalf("top_k", at, || {
            let order = emit(ArgSort { axis, descending: true, first: k }, &[self], at);
            (pick(self, order, axis, at), order.convert(Dtype::I32))
        })
    }

    /// Returns the `q`-quantile of all elements, with linear interpolation between two elements. If any element is nan,
    /// the result is nan. `q` is between 0 and 1, a number or a vector. For a vector, the result has an additional
    /// first axis.
    ///
    /// Errors: `shape` if there is no element, or if q is neither a number nor a vector; `dtype` unless both are
    /// floats of one dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.quantile(0.25), [4.0, 1.0, 3.0, 2.0])?;
    /// assert_eq!(y.item::<f64>()?, 1.75);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile(self, q: impl IntoVar) -> Var {
        let at = caller();
        quantile("quantile", self, q.beside(self, at), &.., at)
    }

    /// Returns [`quantile`](Var::quantile) over `axes`, which are removed.
    ///
    /// Errors: `shape` if an axis does not exist; those of [`quantile`](Var::quantile).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, q): (Var, Var)| x.quantile_axis(q, 1));
    /// let y = f.call(([[1.0, 2.0], [5.0, 3.0]], [0.0, 0.5, 1.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 1.5, 4.0, 2.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn quantile_axis(self, q: impl IntoVar, axes: impl Axes) -> Var {
        let at = caller();
        quantile("quantile_axis", self, q.beside(self, at), &axes, at)
    }

    /// Returns [`quantile`](Var::quantile) with q in percent.
    ///
    /// Errors: those of [`quantile`](Var::quantile).
    #[track_caller]
    pub fn percentile(self, q: impl IntoVar) -> Var {
        let at = caller();
        let part = on_behalf("percentile", at, || q.beside(self, at) / 100.0);
        quantile("percentile", self, part, &.., at)
    }

    /// Returns [`quantile_axis`](Var::quantile_axis) with q in percent; the axes are removed.
    ///
    /// Errors: those of [`quantile_axis`](Var::quantile_axis).
    #[track_caller]
    pub fn percentile_axis(self, q: impl IntoVar, axes: impl Axes) -> Var {
        let at = caller();
        let part = on_behalf("percentile_axis", at, || q.beside(self, at) / 100.0);
        quantile("percentile_axis", self, part, &axes, at)
    }

    /// Returns the median of all elements. For an even number of elements, it is the mean of the middle two. If any
    /// element is nan, the result is nan.
    ///
    /// Errors: `shape` if there is no element; `dtype` if the elements are not floats.
    #[track_caller]
    pub fn median(self) -> Var {
        let at = caller();
        quantile("median", self, half(self, at), &.., at)
    }

    /// Returns the median over `axes`, which are removed.
    ///
    /// Errors: `shape` if an axis does not exist; those of [`median`](Var::median).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.median_axis(1), [[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn median_axis(self, axes: impl Axes) -> Var {
        let at = caller();
        quantile("median_axis", self, half(self, at), &axes, at)
    }
}

/// Returns the indices (i64) that sort entries with several keys along `axis`. Entries are compared by the last key; if
/// the last keys are equal, by the key before it, and so on, as in numpy.
///
/// Errors: `shape` if there are no keys, if the axis does not exist, or if the shapes of the keys differ.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(last, first): (Var, Var)| lexsort(&[first, last], 0));
/// assert_eq!(f.call(([2i64, 1, 2], [0.0, 1.0, -1.0]))?.to_vec::<i64>()?, [1, 2, 0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn lexsort(keys: &[Var], axis: impl Axis) -> Var {
    let at = caller();
    let types: Vec<ArrayType> = keys.iter().map(|k| k.ty(at)).collect();
    let shape = types.first().map_or(Shape::scalar(), |t| t.shape.clone());
    let problem = match resolve_axis("lexsort", axis, &shape) {
        Ok(axis) if types.iter().all(|t| t.shape == shape) => {
            return on_behalf("lexsort", at, || {
                let mut found: Option<Var> = None;
                for key in keys {
                    found = Some(match found {
                        None => order(*key, axis, false, at),
                        Some(so_far) => {
                            let next = order(pick(*key, so_far, axis, at), axis, false, at);
                            pick(so_far, next, axis, at)
                        }
                    });
                }
                // Since the axis of the keys exists and is resolved, there is at least one key, and `found` is `Some`.
                found.unwrap_or_else(|| Var::poison(ArrayType::new(Dtype::I64, shape.clone()), at))
            });
        }
        Ok(_) => Problem::new(
            Kind::Shape,
            format!("`lexsort` of keys {}", list(&types)),
            "give keys of one shape",
        ),
        Err(problem) => problem,
    };
    wrong(problem, keys, ArrayType::new(Dtype::I64, shape), at)
}

fn order(x: Var, axis: usize, descending: bool, at: Loc) -> Var {
    let first = x.ty(at).shape[axis];
    emit(ArgSort { axis, descending, first }, &[x], at)
}

fn places(name: &'static str, x: Var, axis: impl Axis, descending: bool, at: Loc) -> Var {
    let ty = x.ty(at);
    match resolve_axis(name, axis, &ty.shape) {
        Ok(axis) => on_behalf(name, at, || order(x, axis, descending, at)),
        Err(problem) => wrong(problem, &[x], ArrayType::new(Dtype::I64, ty.shape), at),
    }
}

/// Returns the elements at the given indices along an axis. All indices must be in range, and the other axes of `x` and
/// of the indices must have equal extents.
fn pick(x: Var, places: Var, axis: usize, at: Loc) -> Var {
    let last = x.ty(at).shape.len() - 1;
    let gather = Gather { batch: last, axes: vec![last], bounds: Bounds::Clip };
    let places = insert_axis(move_axis(places, axis, last, at), last + 1, at);
    move_axis(emit(gather, &[move_axis(x, axis, last, at), places], at), last, axis, at)
}

/// Returns 1/2 as a `Var` of the dtype of x. If x is not of floats, reports an error.
fn half(x: Var, at: Loc) -> Var {
    0.5.beside(x, at)
}

fn quantile(name: &'static str, x: Var, q: Var, axes: &impl Axes, at: Loc) -> Var {
    let (ty, tq) = (x.ty(at), q.ty(at));
    let (axes, kept) = match resolve_axes(name, axes, &ty.shape) {
        Ok(axes) => {
            let kept: Vec<usize> = (0..ty.shape.len()).filter(|a| !axes.contains(a)).collect();
            (axes, kept)
        }
        Err(problem) => return wrong(problem, &[x, q], ty, at),
    };
    let n: usize = axes.iter().map(|a| ty.shape[*a]).product();
    let rest: Shape = kept.iter().map(|a| ty.shape[*a]).collect();
    let guess =
        ArrayType::new(ty.dtype, tq.shape.iter().chain(rest.iter()).copied().collect::<Shape>());
    if n == 0 || tq.shape.len() > 1 {
        let message = format!("`{name}` of {ty} at {tq} over axes {axes:?}");
        let help = "give at least one element, and a number or a vector of them between 0 and 1";
        return wrong(Problem::new(Kind::Shape, message, help), &[x, q], guess, at);
    }
    if !ty.dtype.is_float() || tq.dtype != ty.dtype {
        let message = format!("`{name}` of {ty} at {tq}");
        let help = "convert both to floats of one dtype";
        return wrong(Problem::new(Kind::Dtype, message, help), &[x, q], guess, at);
    }
    on_behalf(name, at, || {
        let front: Vec<usize> = axes.iter().chain(&kept).copied().collect();
        let rows = x.permute(front).reshape(rest.with_leading(n));
        let sorted = pick(rows, order(rows, 0, false, at), 0, at);
        // The position of the quantile among the sorted elements, and the elements below and above it.
        let place = (q * (n as f64 - 1.0)).clamp(0.0, n as f64 - 1.0);
        let (low, high) = (place.floor(), place.ceil());
        let weight = (place - low)
            .reshape(tq.shape.iter().copied().chain(rest.iter().map(|_| 1)).collect::<Shape>());
        let at_place = |i: Var| sorted.index(i.convert(Dtype::I64));
        let (below, above) = (at_place(low), at_place(high));
        // If the position is exactly that of an element, select this element: it may be infinite, and then the weighted
        // mean is nan.
        let between = below * (1.0 - weight) + above * weight;
        let value = select(weight.eq(0.0), below, between);
        // Sorting puts nan last, so it suffices to test the last element.
        let last = sorted.index(n - 1).stop_gradient();
        select(last.is_nan(), last, value)
    })
}
