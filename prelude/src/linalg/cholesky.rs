//! The Cholesky factor, and the solution of linear systems with it.

use super::triangular::{Triangle, solve_triangular};
use super::{System, square, symmetric};
use crate::Var;
use crate::ops::{emit, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::Cholesky;
use tapeloom_ir::{ArrayType, Dtype, Shape};

/// Returns the lower triangular `L` with `L Lᵀ = A`, for symmetric positive definite matrices `a` of shape
/// `[.., n, n]` and a float dtype. The result has the same type, with zeros above the diagonal.
///
/// `A` is the symmetric part `(a + aᵀ) / 2` of `a`, so derivatives with respect to `a` are symmetric, too (as in JAX).
/// If a matrix is not positive definite, its factor is nan on and below the diagonal; other members of a batch are not
/// affected. The derivative rule is that of Murray (2016).
///
/// ```
/// use tapeloom::prelude::*;
/// let a = [[4.0, 2.0], [2.0, 5.0]];
/// assert_eq!(run(linalg::cholesky, a)?.to_vec::<f64>()?, [2.0, 0.0, 1.0, 2.0]);
/// check_grads(linalg::cholesky, a, 2)?;
/// let none = run(linalg::cholesky, [[1.0, 2.0], [2.0, 1.0]])?;
/// assert!(none.to_vec::<f64>()?[3].is_nan());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[doc(alias = "cho_factor")]
#[track_caller]
pub fn cholesky(a: Var) -> Var {
    let at = caller();
    match square("cholesky", a, at) {
        Ok(_) => on_behalf("cholesky", at, || emit(Cholesky {}, &[symmetric(a)], at)),
        Err(problem) => wrong(problem, &[a], a.ty(at), at),
    }
}

/// Returns `(L, ok)`: the factor of [`cholesky`], and for each matrix (bool `[..]`) whether it is positive definite.
///
/// ```
/// use tapeloom::prelude::*;
/// let a = [[[1.0, 2.0], [2.0, 1.0]], [[4.0, 2.0], [2.0, 5.0]]];
/// let (l, ok) = run(|a: Var| linalg::cholesky_checked(a), a)?;
/// assert_eq!(ok.to_vec::<bool>()?, [false, true]);
/// assert_eq!(l.to_vec::<f64>()?[4..], [2.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`cholesky`].
#[track_caller]
pub fn cholesky_checked(a: Var) -> (Var, Var) {
    let at = caller();
    let l = cholesky(a);
    match square("cholesky_checked", a, at) {
        Ok(_) => on_behalf("cholesky_checked", at, || (l, l.diagonal().is_finite().all_axis(-1))),
        Err(_) => (l, Var::poison(ArrayType::new(Dtype::Bool, Shape::scalar()), at)),
    }
}

/// Returns the solution `x` of `L Lᵀ x = b`, where `l` is the factor `L` returned by [`cholesky`]. `l` has the shape
/// `[.., n, n]`, `b` has the shape `[n]` or `[.., n, columns]`, and both have one float dtype; leading axes are
/// broadcast. The result has the shape of `b`.
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(a, b): (Var, Var)| linalg::cho_solve(linalg::cholesky(a), b);
/// let (a, b) = ([[4.0, 2.0], [2.0, 5.0]], [8.0, 12.0]);
/// assert_eq!(run(solve, (a, b))?.to_vec::<f64>()?, [1.0, 2.0]);
/// check_grads(solve, (a, b), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `l` is not square or `b` does not fit, `dtype` if they are not floats of one dtype.
#[doc(alias = "cholesky_solve")]
#[track_caller]
pub fn cho_solve(l: Var, b: impl IntoVar) -> Var {
    let at = caller();
    let b = b.beside(l, at);
    match System::of("cho_solve", l, b, at) {
        Ok(_) => on_behalf("cho_solve", at, || {
            let y = solve_triangular(l, b, Triangle::LOWER);
            solve_triangular(l, y, Triangle::LOWER.transposed())
        }),
        Err(problem) => wrong(problem, &[l, b], b.ty(at), at),
    }
}
