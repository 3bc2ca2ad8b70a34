//! Eigenvalues and eigenvectors of Hermitian matrices.
//!
//! ```text
//! H V = V diag(w)        dw[j] = Re(v[j]ᴴ dH v[j])        dv[j] = Σ v[i] (v[i]ᴴ dH v[j]) / (w[j] - w[i]) + i φ[j] v[j]
//! ```
//!
//! In the derivative of the eigenvector v[j], the sum is over all i ≠ j. An eigenvector is determined up to its phase.
//! The phase is chosen so that the component of largest absolute value is positive, and the real number `φ[j]` keeps
//! the imaginary part of this component zero.
//!
//! **Values.** Householder reflections make H tridiagonal and real, and the real `eigh` of order n decomposes the
//! result. The symmetric matrix `[[A, -B], [B, A]]` of order 2n has each eigenvalue of `A + i B` twice, so its vectors
//! would have no derivatives, and n independent ones would have to be selected among 2n.
//!
//! **Derivatives.** The vectors are the solution of an equation, one system for each column, whose derivatives of every
//! order are those of the implicit function theorem:
//!
//! ```text
//! c (|v|² - 1) / 2 = 0        H v - w v + i c v̂ Im v[k] = 0
//! ```
//!
//! `k` is the position of the component of largest absolute value, the positive one, `v̂` is `v` as a constant, and `c`
//! is the largest |w|, a constant too. The last term chooses the phase. The system is diagonal in the coordinates of
//! the eigenvectors. The derivative of the eigenvalues is not divided by differences of eigenvalues, so it is a rule of
//! its own, which reads the vectors.

use super::Complex;
use crate::Var;
use crate::control::fori_loop;
use crate::dtype::epsilon;
use crate::implicit::Equation;
use crate::linalg;
use crate::ops::functions::{eye, iota, select};
use crate::ops::{bounds, wrong};
use crate::transform::{custom_jvp, linear_transpose, vmap};
use crate::var::{caller, on_behalf};
use std::ops::{Range, RangeBounds};
use tapeloom_ir::{Dtype, Loc, Problem};

/// Eigenvalues count as equal if they differ by at most this many rounding errors of the largest one, as in the real
/// `eigh`.
const CLOSE: f64 = 64.0;

/// Eigenvalues of Hermitian matrices.
impl Complex {
    /// Returns `(w, V)` with `H V = V diag(w)` for Hermitian matrices `H` of shape `[.., n, n]`: ascending real
    /// eigenvalues `[.., n]` and orthonormal eigenvectors in the columns of `V` `[.., n, n]`.
    ///
    /// `H` is the Hermitian part of `self`, as in JAX. In each vector, the first component of the largest absolute
    /// value (up to rounding, any of several) is real and positive; derivatives are those of vectors with this phase.
    /// (JAX's are orthogonal to the vector, so they agree up to the phase.)
    ///
    /// If eigenvalues are equal up to rounding, their eigenvectors are an arbitrary basis of their space, and the
    /// derivative of such vectors is nan, even for functions that do not depend on the basis. In reverse mode, the
    /// gradient of a function of `V` is nan if any eigenvalues are equal; a program that reads some of the vectors gets
    /// them from [`eigh_range`](Complex::eigh_range). The first derivatives of equal eigenvalues are those along their
    /// basis, which are right for functions that treat these eigenvalues alike, such as a sum. Second derivatives of
    /// eigenvalues contain the derivatives of the vectors.
    ///
    /// Source of the rule: Giles (2008), *An extended collection of matrix derivative results*.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The Pauli matrix σy has the eigenvalues -1 and 1.
    /// let zero = (0.0, 0.0);
    /// let h = Complex::from([zero, (0.0, -1.0), (0.0, 1.0), zero]).reshaped(&[2, 2])?;
    /// let (w, v) = run(|h: Complex| h.eigh(), &h)?;
    /// assert!((w.to_vec::<f64>()?[0] + 1.0).abs() < 1e-15);
    /// assert!((v.re.to_vec::<f64>()?[0] - 0.5f64.sqrt()).abs() < 1e-15);
    /// let h = Complex::from([(1.0, 0.0), (2.0, -1.0), (2.0, 1.0), (3.0, 0.0)]).reshaped(&[2, 2])?;
    /// check_grads(|h: Complex| h.eigh(), &h, 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
    #[must_use]
    #[track_caller]
    pub fn eigh(self) -> (Var, Complex) {
        spectrum("eigh", self, |n| Ok(0..n), caller())
    }

    /// Returns the eigenvalues `[.., m]` and eigenvectors `[.., n, m]` of [`eigh`](Complex::eigh) at the m positions
    /// `range`, counted in ascending order of the eigenvalues.
    ///
    /// Derivatives of every order are right if the eigenvalues in the range differ from one another and from all
    /// others. The others may be equal among themselves.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// // The lowest level of a ring of three places: the two higher levels are equal.
    /// let ring = |phase: Var| {
    ///     let hop = Complex::from_polar(phase.ones_like(), phase);
    ///     let hops = Complex::stack(&[hop; 3], 0).map(|x| x.diag(0).roll(1, 1));
    ///     -(hops + hops.conj().t())
    /// };
    /// let lowest = |phase: Var| {
    ///     let (w, v) = ring(phase).eigh_range(..1);
    ///     w.sum() + v.abs2().square().sum()
    /// };
    /// check_grads(lowest, 0.0, 2)?;
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: those of [`eigh`](Complex::eigh); `shape` if the range is not within `0..n`.
    #[must_use]
    #[track_caller]
    pub fn eigh_range(self, range: impl RangeBounds<usize>) -> (Var, Complex) {
        let at = caller();
        let places = |n| {
            let what = || format!("the eigenvalues of {}", self.re.ty(at));
            bounds("eigh_range", &range, n, 1, what).map(|(from, to)| from..to)
        };
        spectrum("eigh_range", self, places, at)
    }

    /// Returns the ascending eigenvalues `[.., n]` of Hermitian matrices `[.., n, n]`: [`eigh`](Complex::eigh) without
    /// the vectors.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let h = Complex::from([(1.0, 0.0), (2.0, -1.0), (2.0, 1.0), (3.0, 0.0)]).reshaped(&[2, 2])?;
    /// let w = run(|h: Complex| h.eigvalsh(), &h)?.to_vec::<f64>()?;
    /// assert!((w[0] - (2.0 - 6f64.sqrt())).abs() < 1e-14);
    /// // Both eigenvalues are 1: the derivative of their sum is that of the trace.
    /// let unit = Complex { re: Tensor::from([[1.0, 0.0], [0.0, 1.0]]), im: Tensor::from([[0.0; 2]; 2]) };
    /// let slope = run(grad(|h: Complex| h.eigvalsh().sum()), &unit)?;
    /// assert!(slope.re.numbers().zip([1.0, 0.0, 0.0, 1.0]).all(|(x, y)| (x - y).abs() < 1e-15));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: those of [`eigh`](Complex::eigh).
    #[must_use]
    #[track_caller]
    pub fn eigvalsh(self) -> Var {
        spectrum("eigvalsh", self, |n| Ok(0..n), caller()).0
    }
}

/// Returns the eigenvalues and eigenvectors of the Hermitian parts of matrices, at the positions `places(n)` in
/// ascending order of the eigenvalues, where n is the number of rows.
fn spectrum(
    name: &'static str,
    z: Complex,
    places: impl Fn(usize) -> Result<Range<usize>, Problem>,
    at: Loc,
) -> (Var, Complex) {
    let found = z.uniform(name, at).and_then(|z| linalg::square(name, z.re, at));
    let found = found.and_then(|n| Ok((n, places(n)?)));
    let (n, places) = match found {
        Ok(found) => found,
        Err(problem) => {
            let poison = wrong(problem, &[z.re, z.im], z.re.ty(at), at);
            return (poison, Complex { re: poison, im: poison });
        }
    };
    on_behalf(name, at, || {
        if n == 0 {
            return (z.re.sum_axis(-1), z);
        }
        let shape = z.re.shape();
        let lead = &shape[..shape.len() - 2];
        if lead.is_empty() {
            return of_matrix(z, &places, at);
        }
        let members = lead.iter().product::<usize>();
        let z = z.map(|x| x.reshape([members, n, n]));
        let (w, v) = vmap(|z: Complex| of_matrix(z, &places, at))(z);
        let whole = |x: Var| x.reshape([lead, &x.shape()[1..]].concat());
        (whole(w), v.map(whole))
    })
}

/// Returns the eigenvalues and eigenvectors of one matrix, with their derivatives.
fn of_matrix(z: Complex, places: &Range<usize>, at: Loc) -> (Var, Complex) {
    let h = hermitian(z);
    let all = decomposition(h.map(Var::stop_gradient));
    let read = |x: Var| x.slice_axis(-1, places.clone());
    let (w, v, largest) = (read(all.w), all.v.map(read), read(all.largest));
    let point = &Point { all, first: places.start as i64, w, v, largest, at };
    let rule = |h: Complex, dh: Complex| {
        // Second derivatives differentiate both results of the rule. So the eigenvalues returned here must depend on
        // `h`, too, not only their tangents.
        let (w, v) = point.values_and_vectors(h);
        let moved = dh.matmul(v);
        (w, (v.re * moved.re + v.im * moved.im).sum_axis(0))
    };
    let w = custom_jvp(|_: Complex| point.w, rule)(h);
    (w, point.values_and_vectors(h).1)
}

/// Returns the conjugate transpose `zᴴ` of a matrix.
fn adjoint(z: Complex) -> Complex {
    Complex { re: z.re.t(), im: -z.im.t() }
}

/// Returns the Hermitian part `(z + zᴴ) / 2`, in a form that keeps the bits of a Hermitian matrix.
fn hermitian(z: Complex) -> Complex {
    z + (adjoint(z) - z) * 0.5
}

/// The eigenvalues and eigenvectors of a matrix, as constants for derivatives.
#[derive(Clone, Copy)]
struct Decomposition {
    /// All eigenvalues `[n]`, ascending.
    w: Var,
    /// All eigenvectors, as the columns of a matrix `[n, n]`.
    v: Complex,
    /// A mask `[n, n]` with one true element per column, which marks the component of the eigenvector with the largest
    /// absolute value. This component is positive.
    largest: Var,
}

/// The point at which some of the eigenvectors are differentiated. All arrays are constants for derivatives.
struct Point {
    all: Decomposition,
    /// The index in `all` of the first eigenvector that the caller reads.
    first: i64,
    /// The eigenvalues that the caller reads.
    w: Var,
    /// The eigenvectors that the caller reads, as columns.
    v: Complex,
    /// The columns of `all.largest` that belong to the eigenvectors `v`.
    largest: Var,
    at: Loc,
}

impl Point {
    /// Returns the eigenvalues `w` and eigenvectors `v` of this point as functions of the matrix `h`. If one of these
    /// eigenvalues is not simple, its eigenvector has no derivative. In reverse mode, all gradients through this
    /// function are then nan, also those of eigenvalues.
    fn values_and_vectors(&self, h: Complex) -> (Var, Complex) {
        type Unknown = (Var, Complex);
        let c = self.scale();
        let residual = |(_, (w, v)): (Unknown, Unknown)| {
            let image = h.matmul(v);
            let turned = c * select(self.largest, v.im, 0.0).sum_axis(0);
            let length = 0.5 * c * (v.abs2().sum_axis(0) - 1.0);
            let re = image.re - v.re * w - self.v.im * turned;
            let im = image.im - v.im * w + self.v.re * turned;
            (length, Complex { re, im })
        };
        let equation = Equation {
            solve: &|x: Unknown| x,
            residual: &residual,
            tangent: &|(_, _, right): (Unknown, Unknown, Unknown)| self.solution(right),
            cotangent: &|(_, x, ct): (Unknown, Unknown, Unknown)| {
                linear_transpose(|right| self.solution(right), x)(ct)
            },
        };
        equation.solution("eigh", self.at, (self.w, self.v))
    }

    /// Returns the largest absolute value of the eigenvalues; 1 for a zero matrix.
    fn scale(&self) -> Var {
        let c = self.all.w.abs().max();
        select(c.eq(0.0), c.ones_like(), c)
    }

    /// Solves the linearized eigenvalue equation: returns the tangents `(dw, dv)` for the right-hand sides `length` of
    /// the normalization and `right` of `H v = w v`.
    fn solution(&self, (length, right): (Var, Complex)) -> (Var, Complex) {
        let (Point { all, w, v, largest, .. }, c) = (self, self.scale());
        // The coordinates of the right-hand sides in the basis of all eigenvectors. `own` marks, in each column, the
        // coordinate along the eigenvector of that column.
        let x = adjoint(all.v).matmul(right);
        let gaps = all.w.expand_dims(1) - *w;
        let position = |axis| iota(gaps.shape(), axis, Dtype::I64);
        let own = position(0).eq(position(1) + self.first);
        let alone = |x: Var| select(own, x, 0.0).sum_axis(0);
        let close = gaps.abs().le(c * (CLOSE * epsilon(c.dtype())));
        let divisor = select(own, 1.0, select(close, f64::NAN, gaps));
        let others = x.map(|x| select(own, 0.0, x / divisor));
        let beside = all.v.matmul(others);
        let turned = select(*largest, beside.im, 0.0).sum_axis(0);
        let component = select(*largest, v.re, 0.0).sum_axis(0);
        let (stretch, turn) = (length / c, (alone(x.im) / c - turned) / component);
        let dv = Complex {
            re: beside.re + v.re * stretch - v.im * turn,
            im: beside.im + v.im * stretch + v.re * turn,
        };
        (-alone(x.re), dv)
    }
}

/// Computes the eigenvalues and eigenvectors of a Hermitian matrix. No derivative goes through this computation.
fn decomposition(h: Complex) -> Decomposition {
    let (n, dtype) = (h.re.shape()[0], h.re.dtype());
    // Divide by a power of two, so that squares of large elements neither overflow nor underflow.
    let scale = linalg::magnitude(h.re.abs().maximum(h.im.abs()));
    let start = (h.map(|x| x / scale), Complex::from(eye(n, dtype)));
    let reduced = |(k, (h, q)): (Var, (Complex, Complex))| reflected(k, h, q);
    let (h, q) = fori_loop(n - 1, reduced, start);
    // After the reductions the matrix is real and tridiagonal up to rounding errors, so read only these three
    // diagonals.
    let position = |axis| iota([n, n], axis, Dtype::I64);
    let near = (position(0) - position(1)).abs().le(1);
    let (w, z) = linalg::eigh(select(near, h.re, 0.0));
    let v = q.map(|x| x.matmul(z));
    // Multiply each vector by a phase that makes its largest component positive.
    let largest = v.abs2().argmax(0).eq(position(0));
    let chosen = v.map(|x| select(largest, x, 0.0).sum_axis(0));
    let turned = v * (chosen.conj() / chosen.abs());
    let v = Complex { re: turned.re, im: select(largest, 0.0, turned.im) };
    Decomposition { w: w * scale.reshape([1]), v, largest }
}

/// Returns `(Uᴴ H U, Q U)`, one step of the reduction of `H` to a real tridiagonal matrix. The unitary `U`, a
/// reflection and a phase, makes column `k` zero below row `k + 1`, and the component in row `k + 1` real and not
/// negative.
///
/// Source: A. Householder (1958); Golub and Van Loan, *Matrix Computations*, 8.3.
fn reflected(k: Var, h: Complex, q: Complex) -> (Complex, Complex) {
    let (n, dtype) = (h.re.len(), h.re.dtype());
    let row = iota([n], 0, Dtype::I64);
    let (below, next) = (row.gt(k), row.eq(k + 1));
    let x = h.map(|x| select(below, x.index_axis(1, k), 0.0));
    let size = x.abs2().sum().sqrt();
    // If the squares of a column underflow, its computed reflection would not be unitary. Such a column counts as zero
    // and is not reflected.
    let least = if dtype == Dtype::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE };
    let some = size.gt(8.0 * least.sqrt());
    let x = x.map(|x| x / select(some, size, 1.0));
    let first = x.map(|x| select(next, x, 0.0).sum());
    let length = first.abs();
    let turned = some & length.gt(0.0);
    let unit =
        |part: Var, otherwise: f64| select(turned, part / select(turned, length, 1.0), otherwise);
    let phase = Complex { re: unit(first.re, 1.0), im: unit(first.im, 0.0) };
    // The reflection is 1 - factor v vᴴ with v = x + phase e, where x is the column of length 1 and e the unit vector
    // of row k + 1. |v|² = 2 (1 + |first|), so factor = 2 / |v|².
    let v =
        Complex { re: x.re + select(next, phase.re, 0.0), im: x.im + select(next, phase.im, 0.0) };
    let factor = select(some, 1.0 / (1.0 + length), 0.0);
    // The reflection maps x to -phase e. A factor of -phase in row and column k + 1 makes this component real and
    // positive.
    let turn = Complex {
        re: select(next & some, -phase.re, 1.0),
        im: select(next & some, -phase.im, 0.0),
    };
    let column = |z: Complex| z.map(|x| x.expand_dims(1));
    let of_columns = |z: Complex| {
        let along = column(z.dot(v)) * v.conj();
        (z - along * factor) * turn
    };
    (of_columns(adjoint(of_columns(h))), of_columns(q))
}
