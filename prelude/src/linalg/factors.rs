//! Decompositions of matrices: `lu`, `qr`, `eigh`, `svd`, `eig`, `schur`.

use super::{matrices, square, symmetric};
use crate::ops::functions::{arange, iota};
use crate::ops::{bounds, emit_all, wrong};
use crate::tree::Tree;
use crate::var::{caller, on_behalf};
use crate::{Policy, Var, checkpoint};
use std::ops::RangeBounds;
use tapeloom_derive::Tree;
use tapeloom_ir::prim::{Decomposition, Eig, Eigh, Lu, Qr, QrBasis, Schur, Svd, SvdVectors};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Loc, Problem, Shape};

/// The LU factors of a matrix with exchanged rows, as returned by [`lu_factor`]: `A[permutation] = L U`.
#[derive(Tree, Clone, Copy, Debug)]
pub struct LuFactors<T = Var> {
    /// `L` below the diagonal (the ones on its diagonal are not stored), and `U` on and above the diagonal: `[.., m,
    /// n]`.
    pub packed: T,
    /// The index of the row that was exchanged with row i in step i: i32 `[.., min(m, n)]`.
    pub pivots: T,
    /// The rows of `A` in their new order: i32 `[.., m]`.
    pub permutation: T,
}

/// Checks that `a` is an array of float matrices. If `only_square`, the matrices must also be square.
fn checked(name: &str, a: Var, only_square: bool, at: Loc) -> Result<(), Problem> {
    if only_square { square(name, a, at).map(drop) } else { matrices(name, a, at).map(drop) }
}

/// Returns the outputs of a decomposition. If `a` cannot be decomposed, reports that and returns placeholders of the
/// type of `a`.
fn outputs<const N: usize, P: Decomposition>(
    name: &'static str,
    p: P,
    a: Var,
    at: Loc,
) -> [Var; N] {
    if let Err(problem) = checked(name, a, P::SQUARE, at) {
        let ty = a.ty(at);
        let first = wrong(problem, &[a], ty.clone(), at);
        return std::array::from_fn(|n| if n == 0 { first } else { Var::poison(ty.clone(), at) });
    }
    let all = emit_all(p, &[a], at);
    let missing = || Var::poison(ArrayType::new(Dtype::F64, Shape::scalar()), at);
    std::array::from_fn(|n| all.get(n).copied().unwrap_or_else(missing))
}

/// Returns `f(a)`. In a define-by-run recording, `f` is emitted as one equation: the derivative of a decomposition
/// depends on which of its elements `f` reads, but derivative rules of a recording see one equation at a time. The
/// equation is a checkpoint, because a recording inlines plain calls.
fn as_one<T: Tree<Var>>(f: impl Fn(Var) -> T, a: Var) -> T {
    if trace::is_recording() { checkpoint(f, Policy::Planned)(a) } else { f(a) }
}

/// Returns the symmetric part of square matrices. If `a` is no array of square matrices, it is returned unchanged, and
/// a later check reports the error.
fn symmetric_or_same(name: &'static str, a: Var, at: Loc) -> Var {
    match square(name, a, at) {
        Ok(_) => on_behalf(name, at, || symmetric(a)),
        Err(_) => a,
    }
}

/// Returns the packed LU factors of matrices `a` of shape `[.., m, n]`, floats, for [`lu_solve`](super::lu_solve). Rows
/// are exchanged so that the pivot is the largest absolute value in its column. A singular matrix also has factors,
/// with zeros on the diagonal of `U`. Their derivatives are not finite. The derivative rule is that of de Hoog,
/// Anderssen and Lukas (2011).
///
/// ```
/// use tapeloom::prelude::*;
/// let f = run(|a: Var| linalg::lu_factor(a), [[1.0, 2.0], [4.0, 4.0]])?;
/// assert_eq!(f.packed.to_vec::<f64>()?, [4.0, 4.0, 0.25, 1.0]);
/// assert_eq!(f.permutation.to_vec::<i32>()?, [1, 0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn lu_factor(a: Var) -> LuFactors {
    let [packed, pivots, permutation] = outputs("lu_factor", Lu {}, a, caller());
    LuFactors { packed, pivots, permutation }
}

/// Returns `(P, L, U)` with `A = P L U`: a permutation matrix `[.., m, m]`, a lower triangular matrix `[.., m, k]`
/// with ones on its diagonal and an upper triangular matrix `[.., k, n]`, for `a` of shape `[.., m, n]`, floats,
/// where `k = min(m, n)`.
///
/// ```
/// use tapeloom::prelude::*;
/// let (p, l, u) = run(|a: Var| linalg::lu(a), [[1.0, 2.0], [4.0, 4.0]])?;
/// assert_eq!(p.to_vec::<f64>()?, [0.0, 1.0, 1.0, 0.0]);
/// assert_eq!(l.to_vec::<f64>()?, [1.0, 0.0, 0.25, 1.0]);
/// assert_eq!(u.to_vec::<f64>()?, [4.0, 4.0, 0.0, 1.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn lu(a: Var) -> (Var, Var, Var) {
    let at = caller();
    let [m, n] = match matrices("lu", a, at) {
        Ok(extents) => extents,
        Err(problem) => {
            let ty = a.ty(at);
            let poison = || Var::poison(ty.clone(), at);
            return (wrong(problem, &[a], ty.clone(), at), poison(), poison());
        }
    };
    let LuFactors { packed, permutation, .. } = lu_factor(a);
    on_behalf("lu", at, || {
        let (k, dtype) = (m.min(n), a.dtype());
        let rank = a.rank();
        let first = |x: Var, axis: usize, extent: usize| x.slice_axis(axis, 0..extent);
        let lower = first(packed, rank - 1, k).tril(-1) + on_diagonal(m, k, dtype);
        let upper = first(packed, rank - 2, k).triu(0);
        // Row i of A[p] is row p[i] of A, so P has a 1 in row p[i] of column i.
        let rows = arange(m, Dtype::I32).expand_dims(1);
        let p = permutation.expand_dims(-2).eq(rows).convert(dtype);
        (p, lower, upper)
    })
}

/// Returns the `m` by `n` matrix with ones on its main diagonal and zeros elsewhere.
fn on_diagonal(m: usize, n: usize, dtype: Dtype) -> Var {
    iota([m, n], 0, Dtype::I64).eq(iota([m, n], 1, Dtype::I64)).convert(dtype)
}

/// Returns `(Q, R)` with `A = Q R`: the columns of `Q` `[.., m, k]` are orthonormal, and `R` `[.., k, n]` is upper
/// triangular with a nonnegative diagonal, for `a` of shape `[.., m, n]`, floats, where `k = min(m, n)`.
///
/// If nothing reads `Q`, only `R` is computed, with half the operations.
///
/// With this sign, the factors are unique if `a` has full rank. Otherwise they have no finite derivative. The
/// derivative rule is that of Walter and Lehmann (2010), and for matrices with more columns than rows that of Liao,
/// Liu, Wang and Xiang (2019).
///
/// ```
/// use tapeloom::prelude::*;
/// let (q, r) = run(|a: Var| linalg::qr(a), [[3.0, 1.0], [4.0, 2.0]])?;
/// assert!((r.to_vec::<f64>()?[0] - 5.0).abs() < 1e-14 && (q.to_vec::<f64>()?[0] - 0.6).abs() < 1e-14);
/// check_grads(linalg::qr, [[3.0, 1.0], [4.0, 2.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn qr(a: Var) -> (Var, Var) {
    let [q, r] = outputs("qr", Qr { basis: QrBasis::Thin }, a, caller());
    (q, r)
}

/// Returns the factors of [`qr`] with a square `Q` `[.., m, m]` and `R` `[.., m, n]`. The additional columns of `Q`
/// are an arbitrary orthonormal basis of the complement.
///
/// Errors: those of [`qr`]; `not-differentiable` if a derivative is needed and `m > n`.
#[track_caller]
pub fn qr_full(a: Var) -> (Var, Var) {
    let [q, r] = outputs("qr_full", Qr { basis: QrBasis::Full }, a, caller());
    (q, r)
}

/// Returns `(w, V)` with `A V = V diag(w)` for symmetric matrices `a` `[.., n, n]`, floats: ascending eigenvalues
/// `[.., n]` and orthonormal eigenvectors in the columns of `V` `[.., n, n]`.
///
/// `A` is the symmetric part of `a`, as in JAX. In each vector, the first component of the largest absolute value
/// is positive.
///
/// If eigenvalues are equal up to rounding, their eigenvectors are an arbitrary basis of their space. The derivative of
/// such vectors is nan, even for functions that do not depend on the basis. Derivatives of every order are right if the
/// program reads only other vectors, by slices of `V` with static bounds or by [`eigh_range`] (in a
/// [recording](crate::record) only by the latter). The first derivatives of equal eigenvalues are those along their
/// basis, which are right for functions that treat these eigenvalues alike, such as a sum. Second derivatives of
/// eigenvalues contain the derivatives of the vectors. The derivative rule is that of Giles (2008).
///
/// ```
/// use tapeloom::prelude::*;
/// let (w, v) = run(|a: Var| linalg::eigh(a), [[2.0, 1.0], [1.0, 2.0]])?;
/// assert!((w.to_vec::<f64>()?[0] - 1.0).abs() < 1e-14);
/// assert!((v.to_vec::<f64>()?[0] - 0.5f64.sqrt()).abs() < 1e-14);
/// check_grads(linalg::eigh, [[2.0, 1.0], [1.0, 3.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn eigh(a: Var) -> (Var, Var) {
    let at = caller();
    let [w, v] = outputs("eigh", Eigh { vectors: true }, symmetric_or_same("eigh", a, at), at);
    (w, v)
}

/// Returns a part of the results of [`eigh`]: the eigenvalues `[.., m]` and eigenvectors `[.., n, m]` at the m
/// positions `range`, counted in ascending order of the eigenvalues.
///
/// Derivatives of every order are right if the eigenvalues in the range differ from one another and from all
/// others. The others may be equal among themselves.
///
/// ```
/// use tapeloom::prelude::*;
/// // The projector on the vector of the largest eigenvalue of [[1, 0, 0], [0, 1, 0], [0, 0, 3]].
/// let projector = |a: Var| {
///     let (_, v) = linalg::eigh_range(a, 2..);
///     v.matmul(v.t())
/// };
/// let a = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]];
/// assert_eq!(run(projector, a)?.to_vec::<f64>()?, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
/// check_grads(projector, a, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`eigh`]; `shape` if the range is not within `0..n`.
#[doc(alias = "subset_by_index")]
#[track_caller]
pub fn eigh_range(a: Var, range: impl RangeBounds<usize>) -> (Var, Var) {
    let at = caller();
    let places = square("eigh_range", a, at).and_then(|n| {
        let what = || format!("the eigenvalues of {}", a.ty(at));
        bounds("eigh_range", &range, n, 1, what)
    });
    match places {
        Ok((from, to)) => on_behalf("eigh_range", at, || {
            let part = move |a: Var| {
                let (w, v) = eigh(a);
                (w.slice_axis(-1, from..to), v.slice_axis(-1, from..to))
            };
            as_one(part, a)
        }),
        Err(problem) => {
            let ty = a.ty(at);
            (wrong(problem, &[a], ty.clone(), at), Var::poison(ty, at))
        }
    }
}

/// Returns the ascending eigenvalues `[.., n]` of symmetric matrices `a` `[.., n, n]`, floats: [`eigh`] without the
/// vectors.
///
/// ```
/// use tapeloom::prelude::*;
/// let w = run(linalg::eigvalsh, [[2.0, 1.0], [1.0, 2.0]])?;
/// assert!((w.to_vec::<f64>()?[1] - 3.0).abs() < 1e-14);
/// check_grads(linalg::eigvalsh, [[2.0, 1.0], [1.0, 3.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn eigvalsh(a: Var) -> Var {
    let at = caller();
    let [w] =
        outputs("eigvalsh", Eigh { vectors: false }, symmetric_or_same("eigvalsh", a, at), at);
    w
}

/// Returns `(U, s, Vᵀ)` with `A = U diag(s) Vᵀ`: descending singular values `[.., k]` and orthonormal vectors in
/// the columns of `U` `[.., m, k]` and the rows of `Vᵀ` `[.., k, n]`, for `a` of shape `[.., m, n]`, floats, where
/// `k = min(m, n)`.
///
/// In each column of `U`, the first component of the largest absolute value is positive.
///
/// Singular vectors are an arbitrary basis of their space if their values are equal up to rounding, or if their
/// value is 0 and the matrix is not square. The derivative of such vectors is nan, even for functions that do not
/// depend on the basis. Derivatives of every order are right if the program reads only other vectors, by slices of
/// `U` and `Vᵀ` with static bounds or by [`svd_truncated`]. The derivative rule is that of Townsend (2016).
///
/// ```
/// use tapeloom::prelude::*;
/// let (_, s, _) = run(|a: Var| linalg::svd(a), [[3.0, 0.0], [0.0, -4.0]])?;
/// assert_eq!(s.to_vec::<f64>()?, [4.0, 3.0]);
/// check_grads(linalg::svd, [[3.0, 1.0], [0.5, -4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn svd(a: Var) -> (Var, Var, Var) {
    let [u, s, vt] = outputs("svd", Svd { vectors: SvdVectors::Thin }, a, caller());
    (u, s, vt)
}

/// Returns a part of the results of [`svd`]: the `k` largest singular values `[.., k]`, with their vectors `[.., m, k]`
/// and `[.., k, n]`, in the order `(U, s, Vᵀ)`.
///
/// Derivatives of every order are right if these values differ from one another and from all others. The others may
/// be equal among themselves.
///
/// ```
/// use tapeloom::prelude::*;
/// // The best approximation of rank one.
/// let nearest = |a: Var| {
///     let (u, s, vt) = linalg::svd_truncated(a, 1);
///     (u * s).matmul(vt)
/// };
/// let a = [[3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
/// assert_eq!(run(nearest, a)?.to_vec::<f64>()?, [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
/// check_grads(nearest, a, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`svd`]; `shape` if there are fewer than `k` values.
#[track_caller]
pub fn svd_truncated(a: Var, k: usize) -> (Var, Var, Var) {
    let at = caller();
    let fits = matrices("svd_truncated", a, at).and_then(|[m, n]| {
        let what = || format!("the singular values of {}", a.ty(at));
        bounds("svd_truncated", &(..k), m.min(n), 1, what)
    });
    match fits {
        Ok(_) => on_behalf("svd_truncated", at, || {
            let part = move |a: Var| {
                let (u, s, vt) = svd(a);
                (u.slice_axis(-1, ..k), s.slice_axis(-1, ..k), vt.slice_axis(-2, ..k))
            };
            as_one(part, a)
        }),
        Err(problem) => {
            let ty = a.ty(at);
            let poison = || Var::poison(ty.clone(), at);
            (wrong(problem, &[a], ty.clone(), at), poison(), poison())
        }
    }
}

/// Returns the decomposition of [`svd`] with square matrices of vectors: `U` `[.., m, m]` and `Vᵀ` `[.., n, n]`.
/// The additional vectors are an arbitrary orthonormal basis of the complement.
///
/// Errors: those of [`svd`]; `not-differentiable` if a derivative is needed and `m` is not `n`.
#[track_caller]
pub fn svd_full(a: Var) -> (Var, Var, Var) {
    let [u, s, vt] = outputs("svd_full", Svd { vectors: SvdVectors::Full }, a, caller());
    (u, s, vt)
}

/// Returns the descending singular values `[.., min(m, n)]` of matrices `a` `[.., m, n]`, floats: [`svd`] without
/// the vectors.
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(linalg::svdvals, [[3.0, 0.0], [0.0, -4.0]])?.to_vec::<f64>()?, [4.0, 3.0]);
/// check_grads(linalg::svdvals, [[3.0, 1.0], [0.5, -4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn svdvals(a: Var) -> Var {
    let [s] = outputs("svdvals", Svd { vectors: SvdVectors::None }, a, caller());
    s
}

/// Returns the eigenvalues and eigenvectors of general square matrices `a` `[.., n, n]`, floats: the real and
/// imaginary parts of the values `[.., n]`, then those of the vectors, in the columns of `[.., n, n]`.
///
/// Conjugate eigenvalues are neighbours, the one with the positive imaginary part first. Each vector has norm 1,
/// and its first component of the largest absolute value is real and positive. Equal eigenvalues have no finite
/// derivative. The derivative rule is that of Boeddeker and others (2017).
///
/// ```
/// use tapeloom::prelude::*;
/// // The eigenvalues of a rotation by 90 degrees are i and -i.
/// let ((re, im), _) = run(|a: Var| linalg::eig(a), [[0.0, -1.0], [1.0, 0.0]])?;
/// assert!(re.to_vec::<f64>()?[0].abs() < 1e-15 && (im.to_vec::<f64>()?[0] - 1.0).abs() < 1e-15);
/// check_grads(linalg::eig, [[0.5, -1.0], [2.0, 0.25]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn eig(a: Var) -> ((Var, Var), (Var, Var)) {
    let [re, im, v_re, v_im] = outputs("eig", Eig { vectors: true }, a, caller());
    ((re, im), (v_re, v_im))
}

/// Returns the eigenvalues of general square matrices, as real and imaginary parts `[.., n]`: [`eig`] without the
/// vectors.
///
/// ```
/// use tapeloom::prelude::*;
/// let (re, _) = run(|a: Var| linalg::eigvals(a), [[1.0, 2.0], [0.0, 3.0]])?;
/// assert!((re.sum_of_elements() - 4.0).abs() < 1e-14);
/// check_grads(linalg::eigvals, [[0.5, -1.0], [2.0, 0.25]], 2)?;
/// # trait Sum { fn sum_of_elements(&self) -> f64; }
/// # impl Sum for Tensor { fn sum_of_elements(&self) -> f64 { self.to_vec::<f64>().unwrap_or_default().iter().sum() } }
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn eigvals(a: Var) -> (Var, Var) {
    let [re, im] = outputs("eigvals", Eig { vectors: false }, a, caller());
    (re, im)
}

/// Returns `(T, Z)` with `A = Z T Zᵀ`, the real Schur form of square matrices `a` `[.., n, n]`, floats: `Z` is
/// orthogonal, and `T` is upper triangular except for 2 by 2 blocks of conjugate eigenvalues.
///
/// ```
/// use tapeloom::prelude::*;
/// let (t, _) = run(|a: Var| linalg::schur(a), [[1.0, 2.0], [0.0, 3.0]])?;
/// assert!((t.to_vec::<f64>()?[0] - 1.0).abs() < 1e-14);
/// let error = run(grad(|a: Var| linalg::schur(a).0.sum()), [[1.0, 2.0], [0.0, 3.0]]).unwrap_err();
/// assert!(error.to_string().contains("`schur` has no derivative"));
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats; `not-differentiable` if a
/// derivative is needed, because the order of the eigenvalues is arbitrary.
#[track_caller]
pub fn schur(a: Var) -> (Var, Var) {
    let [t, z] = outputs("schur", Schur {}, a, caller());
    (t, z)
}
