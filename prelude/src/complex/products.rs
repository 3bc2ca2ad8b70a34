//! Products of complex arrays: four real products each, or two if one array is real.

use super::{Complex, IntoComplex};
use crate::ops::functions::concat;
use crate::var::{caller, on_behalf};
use crate::{Var, linalg};

/// Computes a bilinear product of complex arrays from the real product `times`.
fn product(z: Complex, (re, im): (Var, Option<Var>), times: impl Fn(Var, Var) -> Var) -> Complex {
    match im {
        Some(im) => {
            Complex { re: times(z.re, re) - times(z.im, im), im: times(z.re, im) + times(z.im, re) }
        }
        None => Complex { re: times(z.re, re), im: times(z.im, re) },
    }
}

/// Products that sum over axes.
impl Complex {
    /// Returns the product summed over the last axis of `self` and the first axis of a vector, or the last but one
    /// axis of another array, as [`Var::dot`]. Nothing is conjugated; [`vdot`](Complex::vdot) conjugates.
    ///
    /// Errors: `shape` if the extents of these axes differ, or if an operand is a scalar.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(a, z): (Complex, Complex)| (z.dot(z), a.dot(z), z.vdot(z));
    /// let z = Complex::from([(1.0, 1.0), (0.0, 2.0)]);
    /// let a = Complex::from([(0.0, 1.0), (1.0, 0.0), (1.0, 0.0), (0.0, 0.0)]).reshaped(&[2, 2])?;
    /// let (square, image, size) = run(f, (&a, &z))?;
    /// assert_eq!(square.to_pairs::<f64>()?, [(-4.0, 2.0)]);
    /// assert_eq!(image.to_pairs::<f64>()?, [(-1.0, 3.0), (1.0, 1.0)]);
    /// assert_eq!(size.to_pairs::<f64>()?, [(6.0, 0.0)]);
    /// check_grads(f, (&a, &z), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn dot(self, w: impl IntoComplex) -> Complex {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("dot", at, || product(self, w, |x, y| x.dot(y)))
    }

    /// Returns the matrix product over the last two axes; the other axes are broadcast together as batches, as in
    /// [`Var::matmul`].
    ///
    /// Errors: `shape` if inner extents differ or batches do not broadcast.
    #[must_use]
    #[track_caller]
    pub fn matmul(self, w: impl IntoComplex) -> Complex {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("matmul", at, || product(self, w, |x, y| x.matmul(y)))
    }

    /// Returns the sum of `conj(z) w` over all elements of two arrays of the same size.
    ///
    /// Errors: `shape` if the numbers of elements differ.
    #[must_use]
    #[track_caller]
    pub fn vdot(self, w: impl IntoComplex) -> Complex {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("vdot", at, || product(self.conj(), w, |x, y| x.vdot(y)))
    }

    /// Returns the solution `x` of `A x = b` for square matrices `A` (`self`) of shape `[.., n, n]` and `b` of
    /// shape `[n]` or `[.., n, columns]`, by the real system of twice the size; see [`linalg::solve`]. The result
    /// has the shape of `b`.
    ///
    /// Errors: `shape` if the matrices are not square or `b` does not fit, `dtype` if they are not floats of one
    /// dtype.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(a, b): (Complex, Complex)| a.solve(b);
    /// let a = Complex::from([(0.0, 1.0), (0.0, 0.0), (1.0, 0.0), (2.0, 0.0)]).reshaped(&[2, 2])?;
    /// let b = Complex::from([(0.0, 1.0), (3.0, 2.0)]);
    /// assert_eq!(run(f, (&a, &b))?.to_pairs::<f64>()?, [(1.0, 0.0), (1.0, 1.0)]);
    /// check_grads(f, (&a, &b), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn solve(self, b: impl IntoComplex) -> Complex {
        let at = caller();
        let b = Complex::of(b.into_parts(at));
        on_behalf("solve", at, || {
            // A + i B applied to x + i y is (A x - B y) + i (B x + A y).
            let rows = |left: Var, right: Var| concat(&[left, right], -1);
            let (above, below) = (rows(self.re, -self.im), rows(self.im, self.re));
            let axis = if b.re.rank() < 2 { -1 } else { -2 };
            let x = linalg::solve(concat(&[above, below], -2), concat(&[b.re, b.im], axis));
            match x.split(2, axis)[..] {
                [re, im] => Complex { re, im },
                // After an error, the result cannot be split.
                _ => Complex { re: x, im: x },
            }
        })
    }
}
