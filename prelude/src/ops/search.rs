//! Search in sorted vectors, by bisection.
//!
//! All queries take the same number of steps, log2 n + 1 for a vector of n elements. A step reads one element per
//! query (a gather), compares it, and advances the query's position by a selection. So queries are searched in
//! parallel vector lanes, and batches need no rule of their own. The steps are unrolled; there is no loop whose
//! carry would be in memory.
//!
//! ```
//! use tapeloom::prelude::*;
//! let f = jit(|(v, x): (Var, Var)| (v.searchsorted(x), v.searchsorted_right(x)));
//! let (before, behind) = f.call(([1.0, 2.0, 2.0], [0.0, 2.0, 3.0]))?;
//! assert_eq!(before.to_vec::<i64>()?, [0, 1, 3]);
//! assert_eq!(behind.to_vec::<i64>()?, [0, 3, 3]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::{emit, insert_axis, select, wrong, zeros};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::{Bounds, Gather};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// The largest length of a vector for which every element is compared with every query. At this length bisection takes
/// the same time; for 16 elements it takes half the time.
const ALL_PAIRS: usize = 8;

/// Search in sorted vectors.
impl Var {
    /// Returns the number (i64) of the bin of each element, for ascending or descending edges of bins. For ascending
    /// edges, it is the number of edges that are at most the element. For descending edges, it is the number of edges
    /// above the element. A nan counts as largest.
    ///
    /// For n edges, each element takes log2 n + 1 steps.
    ///
    /// Errors: `shape` if the edges are not a vector; `dtype` if they have another dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|(x, e): (Var, Var)| x.digitize(e), ([0.5, 1.0, 7.0], [1.0, 2.0]))?;
    /// assert_eq!(n.to_vec::<i64>()?, [0, 1, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "bucketize")]
    #[track_caller]
    pub fn digitize(self, edges: impl IntoVar) -> Var {
        let at = caller();
        let edges = edges.beside(self, at);
        let Some(edges) = sorted("digitize", edges, self) else { return placeholder(self, at) };
        on_behalf("digitize", at, || {
            let n = edges.len();
            if n == 0 {
                return edges.searchsorted_right(self);
            }
            let (first, last) = (edges.index(0), edges.index(-1));
            let falls = first.gt(last) | (first.is_nan() & !last.is_nan());
            let place = select(falls, edges.flip(0), edges).searchsorted_right(self);
            select(falls, n as i64 - place, place)
        })
    }

    /// Returns the position (i64) of each element of `x` in this ascending vector, before equal elements: the number of
    /// elements of the vector that are smaller. A nan counts as largest. If the vector does not ascend, the result is
    /// some position in it.
    ///
    /// A search takes log2 n + 1 steps; several searches run in parallel.
    ///
    /// Errors: `shape` if this is not a vector; `dtype` if `x` has another dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let i = run(|(v, x): (Var, Var)| v.searchsorted(x), ([1.0, 2.0, 2.0], [0.0, 2.0, 3.0]))?;
    /// assert_eq!(i.to_vec::<i64>()?, [0, 1, 3]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(self, x: impl IntoVar) -> Var {
        let at = caller();
        let x = x.beside(self, at);
        let Some(vector) = sorted("searchsorted", self, x) else { return placeholder(x, at) };
        on_behalf("searchsorted", at, || {
            place(vector, x, at, &|v, x, is_nan| {
                let below = v.lt(x);
                is_nan.map_or(below, |is_nan| below | (is_nan & v.eq(v)))
            })
        })
    }

    /// Returns the position (i64) of each element of `x` in this ascending vector, after equal elements: the number of
    /// elements of the vector that are smaller or equal. A nan counts as largest. If the vector does not ascend, the
    /// result is some position in it.
    ///
    /// A search takes log2 n + 1 steps; several searches run in parallel.
    ///
    /// Errors: `shape` if this is not a vector; `dtype` if `x` has another dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let i = run(|(v, x): (Var, Var)| v.searchsorted_right(x), ([1.0, 2.0, 2.0], [0.0, 2.0, 3.0]))?;
    /// assert_eq!(i.to_vec::<i64>()?, [0, 3, 3]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted_right(self, x: impl IntoVar) -> Var {
        let at = caller();
        let x = x.beside(self, at);
        let Some(vector) = sorted("searchsorted_right", self, x) else { return placeholder(x, at) };
        on_behalf("searchsorted_right", at, || {
            place(vector, x, at, &|v, x, is_nan| {
                let not_above = v.le(x);
                is_nan.map_or(not_above, |is_nan| not_above | is_nan)
            })
        })
    }
}

/// A function that returns whether an element of a vector comes before a query. The arguments are the element, the
/// query, and a bool, whether the query is nan (`None` for integers).
type Before<'a> = &'a dyn Fn(Var, Var, Option<Var>) -> Var;

/// Returns, for each query, the number of elements of an ascending vector that come before it.
fn place(vector: Var, x: Var, at: Loc, before: Before<'_>) -> Var {
    let n = vector.len();
    let is_nan = |x: Var| x.dtype().is_float().then(|| x.ne(x));
    if n <= ALL_PAIRS {
        let x = x.expand_dims(-1);
        return before(vector, x, is_nan(x)).count_true_axis(-1);
    }
    let is_nan = is_nan(x);
    let gather = Gather { batch: 0, axes: vec![0], bounds: Bounds::Clip };
    let column = x.rank();
    // The result is between `found` and `found + rest`. All queries share one `rest`: if the middle element does not
    // come before the query, a smaller upper bound than `found + rest` is known, but `found + rest` remains valid.
    let (mut found, mut rest) = (zeros(x.shape(), Dtype::I64), n);
    while rest > 0 {
        let half = rest.div_ceil(2);
        let middle = if rest == n {
            vector.index(half - 1)
        } else {
            emit(gather.clone(), &[vector, insert_axis(found + (half as i64 - 1), column, at)], at)
        };
        found = select(before(middle, x, is_nan), found + half as i64, found);
        rest -= half;
    }
    found
}

/// Returns a placeholder for the result of a search after an error: indices in the shape of x.
fn placeholder(x: Var, at: Loc) -> Var {
    Var::poison(ArrayType::new(Dtype::I64, x.ty(at).shape), at)
}

/// Checks that the searched array is a vector of the dtype of `x`, and returns it. Otherwise reports an error.
#[track_caller]
fn sorted(name: &str, vector: Var, x: Var) -> Option<Var> {
    let at = caller();
    let (ty, tx) = (vector.ty(at), x.ty(at));
    let problem = if ty.shape.len() != 1 {
        let message = format!("`{name}` needs a sorted vector, got {ty}");
        Problem::new(Kind::Shape, message, "give an array with one axis")
    } else if ty.dtype != tx.dtype {
        let message = format!("`{name}` needs operands of one dtype, got {ty} and {tx}");
        Problem::new(Kind::Dtype, message, crate::dtype::conversions(ty.dtype, tx.dtype))
    } else {
        return Some(vector);
    };
    wrong(problem, &[vector, x], ty, at);
    None
}
