//! Operations on shapes, indices and sums, applied to the real and to the imaginary part alike.

use super::Complex;
use crate::Var;
use crate::ops::functions::{concat, stack};
use crate::ops::{Axes, Axis, Indices, Ranges};
use crate::var::{caller, on_behalf};
use std::ops::RangeBounds;
use tapeloom_ir::{Dtype, Shape};

/// Operations that are applied to the real and to the imaginary part alike.
impl Complex {
    /// Applies `f` to the real and to the imaginary part. `f` moves elements, or is linear with real coefficients.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.map(|x| x.flip(0)), Complex::from([(1.0, 2.0), (3.0, 4.0)]))?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(3.0, 4.0), (1.0, 2.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    pub fn map(self, mut f: impl FnMut(Var) -> Var) -> Complex {
        Complex { re: f(self.re), im: f(self.im) }
    }

    /// Returns the extents, outermost first.
    #[must_use]
    #[track_caller]
    pub fn shape(self) -> Shape {
        self.re.ty(caller()).shape
    }

    /// Returns the dtype of both parts.
    #[must_use]
    #[track_caller]
    pub fn dtype(self) -> Dtype {
        self.re.ty(caller()).dtype
    }

    /// Returns the elements, in row-major order, in another shape; see [`Var::reshape`].
    ///
    /// Errors: `shape` if the number of elements differs.
    #[must_use]
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Complex {
        let (at, shape) = (caller(), shape.into());
        on_behalf("reshape", at, || self.map(|x| x.reshape(&shape)))
    }

    /// Returns the subarray at the given indices of the leading axes; see [`Var::index`].
    ///
    /// Errors: `shape` if there are more indices than axes, `bounds` if a number is out of range.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.index(1), Complex::from([(1.0, 2.0), (3.0, 4.0)]))?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(3.0, 4.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn index(self, indices: impl Indices + Clone) -> Complex {
        let at = caller();
        on_behalf("index", at, || self.map(|x| x.index(indices.clone())))
    }

    /// Returns a range of one axis; see [`Var::slice_axis`].
    ///
    /// Errors: `shape` if the axis does not exist, `bounds` if the range is not within it.
    #[must_use]
    #[track_caller]
    pub fn slice_axis(self, axis: impl Axis, range: impl RangeBounds<usize> + Clone) -> Complex {
        let at = caller();
        on_behalf("slice_axis", at, || self.map(|x| x.slice_axis(axis, range.clone())))
    }

    /// Returns ranges of the leading axes; see [`Var::slice`].
    ///
    /// Errors: `shape` if there are more ranges than axes, `bounds` if a range is not within its axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let z = Complex { re: Tensor::from([[1.0, 2.0], [3.0, 4.0]]), im: Tensor::from([[0.0; 2]; 2]) };
    /// let y = run(|z: Complex| z.slice((1.., ..1)), &z)?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(3.0, 0.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn slice(self, ranges: impl Ranges + Clone) -> Complex {
        let at = caller();
        on_behalf("slice", at, || self.map(|x| x.slice(ranges.clone())))
    }

    /// Repeats the array along new leading axes and along axes of extent 1; see [`Var::broadcast_to`].
    ///
    /// Errors: `shape` if the array does not broadcast to `shape`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|z: Complex| z.broadcast_to([2, 2]), Complex::from([(1.0, 2.0), (3.0, 4.0)]))?;
    /// assert_eq!(y.to_pairs::<f64>()?, [(1.0, 2.0), (3.0, 4.0), (1.0, 2.0), (3.0, 4.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn broadcast_to(self, shape: impl Into<Shape>) -> Complex {
        let (at, shape) = (caller(), shape.into());
        on_behalf("broadcast_to", at, || self.map(|x| x.broadcast_to(&shape)))
    }

    /// Joins arrays along an axis; see [`concat()`].
    ///
    /// Errors: `shape` if there is no array, or if extents of other axes differ; `dtype` if dtypes differ.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |z: Complex| (Complex::concat(&[z, z.conj()], 0), Complex::stack(&[z, z.conj()], 0));
    /// let (joined, stacked) = run(f, Complex::from([(1.0, 2.0)]))?;
    /// assert_eq!(joined.to_pairs::<f64>()?, [(1.0, 2.0), (1.0, -2.0)]);
    /// assert_eq!(stacked.re.shape(), [2, 1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn concat(parts: &[Complex], axis: impl Axis) -> Complex {
        let at = caller();
        on_behalf("concat", at, || joined(parts, |parts| concat(parts, axis)))
    }

    /// Joins arrays of one shape along a new axis; see [`stack`].
    ///
    /// Errors: `shape` if there is no array, or if shapes differ; `dtype` if dtypes differ.
    #[must_use]
    #[track_caller]
    pub fn stack(parts: &[Complex], axis: impl Axis) -> Complex {
        let at = caller();
        on_behalf("stack", at, || joined(parts, |parts| stack(parts, axis)))
    }

    /// Reverses the order of all axes: the transpose of a matrix, without conjugation.
    #[must_use]
    #[track_caller]
    pub fn t(self) -> Complex {
        let at = caller();
        on_behalf("t", at, || self.map(Var::t))
    }

    /// Returns the sum of all elements.
    #[must_use]
    #[track_caller]
    pub fn sum(self) -> Complex {
        let at = caller();
        on_behalf("sum", at, || self.map(Var::sum))
    }

    /// Returns the sum over `axes`, which are removed.
    ///
    /// Errors: `shape` if an axis does not exist or is repeated.
    #[must_use]
    #[track_caller]
    pub fn sum_axis(self, axes: impl Axes + Clone) -> Complex {
        let at = caller();
        on_behalf("sum_axis", at, || self.map(|x| x.sum_axis(axes.clone())))
    }

    /// Returns the mean of all elements.
    #[must_use]
    #[track_caller]
    pub fn mean(self) -> Complex {
        let at = caller();
        on_behalf("mean", at, || self.map(Var::mean))
    }
}

/// Joins the real parts of the arrays by `join`, and the imaginary parts in the same way.
fn joined(parts: &[Complex], join: impl Fn(&[Var]) -> Var) -> Complex {
    let of = |part: fn(&Complex) -> Var| join(&parts.iter().map(part).collect::<Vec<Var>>());
    Complex { re: of(|z| z.re), im: of(|z| z.im) }
}
