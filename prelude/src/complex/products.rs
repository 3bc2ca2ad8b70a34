//! Products of complex arrays. Each is computed by four real products, or by two if one of the arrays is real.

use super::{Complex, IntoComplex};
use crate::ops::functions::concat;
use crate::ops::{Factor, einsum_of, wrong};
use crate::var::{caller, on_behalf};
use crate::{Var, linalg};

/// Returns the product of two complex arrays, for any bilinear product `times` of real arrays.
fn product(z: Complex, (re, im): (Var, Option<Var>), times: impl Fn(Var, Var) -> Var) -> Complex {
    match im {
        Some(im) => {
            Complex { re: times(z.re, re) - times(z.im, im), im: times(z.re, im) + times(z.im, re) }
        }
        None => Complex { re: times(z.re, re), im: times(z.im, re) },
    }
}

impl Factor for Complex {
    fn real(x: Var) -> Complex {
        Complex { re: x, im: x.zeros_like() }
    }

    fn real_part(self) -> Var {
        self.re
    }

    fn map(self, f: impl FnMut(Var) -> Var) -> Complex {
        Complex::map(self, f)
    }

    fn times(self, w: Complex, times: impl Fn(Var, Var) -> Var) -> Complex {
        product(self, (w.re, Some(w.im)), times)
    }
}

/// Products that sum over axes.
impl Complex {
    /// Returns the product that [`Var::dot`] defines: the sum over the last axis of `self` and over the only axis of a
    /// vector, or the last axis but one of an array with more axes. Nothing is conjugated; [`vdot`](Complex::vdot)
    /// conjugates.
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

    /// Computes products and sums in Einstein's notation; see [`einsum`](crate::einsum). No operand is conjugated.
    ///
    /// Each product of two arrays is computed by four real ones.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The expected value of an observable, zᴴ A z.
    /// let f = |(a, z): (Complex, Complex)| Complex::einsum("i,ij,j->", &[z.conj(), a, z]);
    /// let z = Complex::from([(1.0, 0.0), (0.0, 1.0)]);
    /// let zero = (0.0, 0.0);
    /// let a = Complex::from([zero, (0.0, -1.0), (0.0, 1.0), zero]).reshaped(&[2, 2])?;
    /// assert_eq!(run(f, (&a, &z))?.to_pairs::<f64>()?, [(2.0, 0.0)]);
    /// check_grads(f, (&a, &z), 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `shape` if the specification does not fit the operands.
    #[must_use]
    #[track_caller]
    pub fn einsum(spec: &str, operands: &[Complex]) -> Complex {
        let at = caller();
        on_behalf("einsum", at, || einsum_of(spec, operands, at))
    }

    /// Returns Kronecker's product: each element of `self` is replaced by a block, the product of this element and `w`;
    /// see [`Var::kron`].
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(z, w): (Complex, Complex)| z.kron(w);
    /// let (z, w) = (Complex::from([(1.0, 0.0), (0.0, 1.0)]), Complex::from([(1.0, 0.0), (0.0, 2.0)]));
    /// let y = run(f, (z, w))?.to_pairs::<f64>()?;
    /// assert_eq!(y, [(1.0, 0.0), (0.0, 2.0), (0.0, 1.0), (-2.0, 0.0)]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn kron(self, w: impl IntoComplex) -> Complex {
        let at = caller();
        let w = w.into_parts(at);
        on_behalf("kron", at, || product(self, w, |x, y| x.kron(y)))
    }

    /// Returns the exponential `Σ Aᵏ / k!` of square matrices `[.., n, n]`. It is computed as the exponential of real
    /// matrices of twice the size; see [`linalg::expm`].
    ///
    /// Errors: `shape` if the matrices are not square.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // exp(-i t σx) = cos t - i sin t σx.
    /// let turn = |t: Var| Complex { re: zeros([2, 2], Dtype::F64), im: -t * eye(2, Dtype::F64).flip(0) }.expm();
    /// let y = run(turn, 0.5)?.to_pairs::<f64>()?;
    /// assert!((y[0].0 - 0.5f64.cos()).abs() < 1e-15 && (y[1].1 + 0.5f64.sin()).abs() < 1e-15);
    /// check_grads(turn, 0.5, 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "matrix_exp")]
    #[must_use]
    #[track_caller]
    pub fn expm(self) -> Complex {
        let at = caller();
        // Check the shapes here: an error of the real `expm` would name matrices of twice the size.
        let square = self.uniform("expm", at).and_then(|z| linalg::square("expm", z.re, at));
        if let Err(problem) = square {
            let y = wrong(problem, &[self.re, self.im], self.re.ty(at), at);
            return Complex { re: y, im: y };
        }
        on_behalf("expm", at, || {
            let y = linalg::expm(self.embedded());
            match y.split(2, -1)[..] {
                [left, _] => match left.split(2, -2)[..] {
                    [re, im] => Complex { re, im },
                    _ => Complex { re: left, im: left },
                },
                // After an error, the result is a placeholder of another shape and cannot be split into two parts.
                _ => Complex { re: y, im: y },
            }
        })
    }

    /// Returns the real matrices `[[A, -B], [B, A]]` of twice the size, for matrices `A + i B`: their products with `x`
    /// stacked on `y` are those of the complex matrices with `x + i y`.
    fn embedded(self) -> Var {
        let rows = |left: Var, right: Var| concat(&[left, right], -1);
        concat(&[rows(self.re, -self.im), rows(self.im, self.re)], -2)
    }

    /// Returns the sum of the diagonal of each matrix of `[.., n, m]`; see [`Var::trace`].
    ///
    /// Errors: `shape` if there are fewer than two axes.
    #[must_use]
    #[track_caller]
    pub fn trace(self) -> Complex {
        on_behalf("trace", caller(), || self.map(Var::trace))
    }

    /// Returns the solution `x` of `A x = b` for square matrices `A` (`self`) of shape `[.., n, n]` and `b` of shape
    /// `[n]` or `[.., n, columns]`, as the solution of a real system of twice the size; see [`linalg::solve`]. Leading
    /// axes are broadcast together.
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
        // Check the shapes here: an error of the real `solve` would name systems of twice the size.
        let whole = self.uniform("solve", at).and_then(|_| b.uniform("solve", at));
        if let Err(problem) = whole.and_then(|_| linalg::solution_type("solve", self.re, b.re, at))
        {
            let x = wrong(problem, &[self.re, self.im, b.re, b.im], b.re.ty(at), at);
            return Complex { re: x, im: x };
        }
        on_behalf("solve", at, || {
            // (A + i B) (x + i y) = (A x - B y) + i (B x + A y), so stack the imaginary parts of `b` below the real
            // parts.
            let axis = if b.re.rank() < 2 { -1 } else { -2 };
            let x = linalg::solve(self.embedded(), concat(&[b.re, b.im], axis));
            match x.split(2, axis)[..] {
                [re, im] => Complex { re, im },
                // After an error, the result is a placeholder of another shape and cannot be split into two parts.
                _ => Complex { re: x, im: x },
            }
        })
    }
}
