//! Statistics of samples: weighted means, covariances, counts in bins.

use super::axes::{Axes, resolve_axes};
use super::composite::{misshapen, of_floats, of_integers};
use super::{select, wrong, zeros};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Shape};

/// Statistics of samples.
impl Var {
    /// Returns the weighted mean Σ w x / Σ w over `axes`, which are removed. The weights have the shape of x, or
    /// the shape of these axes in their order.
    ///
    /// Errors: `shape` if the weights have another shape, or if an axis does not exist.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, w): (Var, Var)| x.average(w, 1));
    /// let y = f.call(([[1.0, 3.0], [5.0, 9.0]], [3.0, 1.0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.5, 6.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn average(self, weights: impl IntoVar, axes: impl Axes) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let weights = weights.beside(self, at);
        let axes = match resolve_axes("average", &axes, &ty.shape) {
            Ok(axes) => axes,
            Err(problem) => return wrong(problem, &[self, weights], ty, at),
        };
        let own = weights.ty(at).shape;
        let along: Shape = axes.iter().map(|a| ty.shape[*a]).collect();
        let spread = if own == along && own != ty.shape {
            let mut shape = Shape::from(vec![1; ty.shape.len()]);
            for a in &axes {
                shape[*a] = ty.shape[*a];
            }
            on_behalf("average", at, || weights.reshape(shape))
        } else {
            weights
        };
        of_floats("average", [self, spread], at, |[x, w]| {
            if x.shape() != ty.shape {
                let message = format!("`average` of {ty} with weights of shape {own}");
                let help = "give weights of the array's shape, or one per element of the axis";
                return misshapen(message, help, &[self, weights], ty, at);
            }
            let w = w.broadcast_to(x.shape());
            (x * w).sum_axis(axes.as_slice()) / w.sum_axis(axes.as_slice())
        })
    }

    /// Returns the covariances between variables. The array has one row for each variable and one column for each
    /// sample. For a single variable, given as a vector, the result is its variance. The divisor is the number of
    /// samples minus one.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let c = run(|x: Var| x.cov(), [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])?;
    /// assert_eq!(c.to_vec::<f64>()?, [1.0, -1.0, -1.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn cov(self) -> Var {
        let at = caller();
        of_floats("cov", [self], at, |[x]| {
            let ty = x.ty(at);
            if !matches!(ty.shape.len(), 1 | 2) {
                let help = "give a vector, or a matrix with one variable per row";
                return misshapen(format!("`cov` of {ty}"), help, &[x], ty, at);
            }
            let off = x - x.mean_keepdims(-1);
            let n = ty.shape[ty.shape.len() - 1] as f64;
            off.dot(off.t()) / (n - 1.0)
        })
    }

    /// Returns the correlations between variables, one variable per row: the [covariance](Var::cov) of two variables
    /// divided by both standard deviations. Correlations are between -1 and 1.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let c = run(|x: Var| x.corrcoef(), [[1.0, 2.0, 3.0], [9.0, 6.0, 3.0]])?;
    /// assert!(c.to_vec::<f64>()?.iter().zip([1.0, -1.0, -1.0, 1.0]).all(|(x, y)| (x - y).abs() < 1e-15));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn corrcoef(self) -> Var {
        let at = caller();
        of_floats("corrcoef", [self], at, |[x]| {
            let cov = x.cov();
            let matrix = cov.rank() == 2;
            let deviation = if matrix { cov.diagonal() } else { cov }.sqrt();
            let other = if matrix { deviation.expand_dims(1) } else { deviation };
            (cov / other / deviation).clamp(-1.0, 1.0)
        })
    }

    /// Returns the number of occurrences (i64) of each of the integers 0, 1, .. `length` - 1. Other integers are not
    /// counted.
    ///
    /// To sum weights instead, use `zeros([length], dtype).at(i).add(w)`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|i: Var| i.bincount(3), [2i64, 0, 2, 7])?;
    /// assert_eq!(n.to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(self, length: usize) -> Var {
        of_integers("bincount", [self], caller(), |[i]| count(i.flatten(), length))
    }

    /// Returns the number (i64) of elements in each bin between neighbouring `edges`, which ascend. Each bin
    /// includes its lower edge, and the last bin its upper edge, too. Other elements are not counted.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let n = run(|(x, e): (Var, Var)| x.histogram(e), ([0.0, 0.5, 1.0, 2.0, 9.0], [0.0, 1.0, 2.0]))?;
    /// assert_eq!(n.to_vec::<i64>()?, [2, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "histc")]
    #[track_caller]
    pub fn histogram(self, edges: impl IntoVar) -> Var {
        let at = caller();
        let edges = edges.beside(self, at);
        let ty = edges.ty(at);
        if ty.shape.len() != 1 || ty.shape[0] < 2 {
            let guess = ArrayType::new(Dtype::I64, [0]);
            let message = format!("`histogram` of {} with edges {ty}", self.ty(at));
            return misshapen(message, "give at least two edges", &[self, edges], guess, at);
        }
        let bins = ty.shape[0] - 1;
        on_behalf("histogram", at, || {
            let x = self.flatten();
            let place = edges.searchsorted_right(x) - 1;
            let last = x.eq(edges.index(-1));
            count(select(last, bins - 1, place), bins)
        })
    }

    /// Returns the number (i64) of points in each bin of a grid: `[n, m]` for the n bins of this array of coordinates
    /// between neighbouring `edges`, and the m bins of the second coordinates `y` between `y_edges`. Bins are those of
    /// [`histogram`](Var::histogram).
    ///
    /// Errors: `shape` if the coordinates differ in shape, or edges are not vectors of at least two; `dtype` if they
    /// have not one dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, y): (Var, Var)| x.histogram2d(y, constant([0.0, 1.0, 2.0]), constant([0.0, 5.0, 9.0]));
    /// let n = run(f, ([0.5, 1.5, 2.0, 3.0], [1.0, 7.0, 9.0, 1.0]))?;
    /// assert_eq!(n.to_vec::<i64>()?, [1, 0, 0, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "histogramdd")]
    #[track_caller]
    pub fn histogram2d(self, y: impl IntoVar, edges: impl IntoVar, y_edges: impl IntoVar) -> Var {
        let at = caller();
        let [y, edges, y_edges] =
            [y.beside(self, at), edges.beside(self, at), y_edges.beside(self, at)];
        let types = [self, y, edges, y_edges].map(|v| v.ty(at));
        let guess = ArrayType::new(Dtype::I64, [0, 0]);
        let [tx, ty, first, second] = &types;
        let message = format!("`histogram2d` of {tx} and {ty} with edges {first} and {second}");
        let vectors = [first, second].iter().all(|t| t.shape.len() == 1 && t.shape[0] >= 2);
        let operands = [self, y, edges, y_edges];
        if types.iter().any(|t| t.dtype != tx.dtype) {
            let problem = Problem::new(Kind::Dtype, message, "all have one dtype");
            return wrong(problem, &operands, guess, at);
        }
        if tx.shape != ty.shape || !vectors {
            let help = "the coordinates have one shape, and edges are vectors of at least two";
            return misshapen(message, help, &operands, guess, at);
        }
        let [n, m] = [first.shape[0] - 1, second.shape[0] - 1];
        on_behalf("histogram2d", at, || {
            let bin = |x: Var, edges: Var, bins: usize| {
                let x = x.flatten();
                let place = edges.searchsorted_right(x) - 1;
                let place = select(x.eq(edges.index(-1)), bins - 1, place);
                (place, place.lt(0) | place.ge(bins))
            };
            let ((i, off), (j, far)) = (bin(self, edges, n), bin(y, y_edges, m));
            count(select(off | far, -1, i * m + j), n * m).reshape([n, m])
        })
    }
}

/// Returns how often each of the integers 0, 1, .. `length` - 1 occurs in a vector.
fn count(i: Var, length: usize) -> Var {
    // Scatter would count a negative index from the end, so replace it by an index that is out of range.
    let i = i.convert(Dtype::I64);
    zeros([length], Dtype::I64).at(select(i.lt(0), length, i)).add(1)
}
