//! Places in sorted vectors, by bisection.
//!
//! All queries take the same number of steps, log2 n + 1 for a vector of n elements. A step reads one
//! element a query (a gather), compares it and moves the query's place forward by a selection, so that
//! queries are searched for side by side in vector lanes, and batches need no rule of their own. The
//! steps are written one after the other; there is no loop whose carry would lie in memory.
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

/// The longest vector of which every element is compared with every query: a bisection takes half of that
/// time for 16 elements, and as much for these.
const ALL_PAIRS: usize = 8;

/// Searches in sorted vectors.
impl Var {
    /// The number (i64) of the bin of each element, given the edges of bins, ascending or descending:
    /// of ascending ones how many are not above it, of descending ones how many are above it; nan counts as largest.
    ///
    /// An element takes log2 n + 1 steps for n edges.
    ///
    /// Errors: `shape` unless the edges are a vector; `dtype` if they have another dtype.
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
        let Some(edges) = sorted("digitize", edges, self) else { return nowhere(self, at) };
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

    /// Where in this ascending vector each element of `x` belongs (i64), before equal ones: the number
    /// of elements below it; nan counts as largest. If the vector does not ascend, the result is some
    /// place of it.
    ///
    /// A search takes log2 n + 1 steps, several searches side by side.
    ///
    /// Errors: `shape` if this is no vector; `dtype` if `x` has another dtype.
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
        let Some(vector) = sorted("searchsorted", self, x) else { return nowhere(x, at) };
        on_behalf("searchsorted", at, || {
            place(vector, x, at, &|v, x, is_nan| {
                let below = v.lt(x);
                is_nan.map_or(below, |is_nan| below | (is_nan & v.eq(v)))
            })
        })
    }

    /// Where in this ascending vector each element of `x` belongs (i64), behind equal ones: the number
    /// of elements not above it; nan counts as largest. If the vector does not ascend, the result is
    /// some place of it.
    ///
    /// A search takes log2 n + 1 steps, several searches side by side.
    ///
    /// Errors: `shape` if this is no vector; `dtype` if `x` has another dtype.
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
        let Some(vector) = sorted("searchsorted_right", self, x) else { return nowhere(x, at) };
        on_behalf("searchsorted_right", at, || {
            place(vector, x, at, &|v, x, is_nan| {
                let not_above = v.le(x);
                is_nan.map_or(not_above, |is_nan| not_above | is_nan)
            })
        })
    }
}

/// Whether an element of a vector comes before a query, given both and whether the query is nan (if it
/// may be).
type Before<'a> = &'a dyn Fn(Var, Var, Option<Var>) -> Var;

/// Returns how many elements of an ascending vector come before each query.
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
    // The number lies between `found` and `found + rest`. If the element in the middle does not come
    // before the query, the upper bound falls below that, and `found + rest` is still one.
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

/// What a search in something that is no vector gives: indices in the shape of x.
fn nowhere(x: Var, at: Loc) -> Var {
    Var::poison(ArrayType::new(Dtype::I64, x.ty(at).shape), at)
}

/// The vector, if it is one.
#[track_caller]
fn sorted(name: &str, vector: Var, x: Var) -> Option<Var> {
    let at = caller();
    let ty = vector.ty(at);
    if ty.shape.len() == 1 {
        return Some(vector);
    }
    let message = format!("`{name}` needs a sorted vector, got {ty}");
    let problem = Problem::new(Kind::Shape, message, "give an array with one axis");
    wrong(problem, &[vector, x], ty, at);
    None
}
