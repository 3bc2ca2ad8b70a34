//! Solutions of linear systems and inverses.

use super::factors::{LuFactors, lu_factor, svd};
use super::triangular::{Triangle, solve_triangular};
use super::{System, magnitude, matrices, square, transposed};
use crate::Var;
use crate::dtype::epsilon;
use crate::implicit::custom_linear_solve_with;
use crate::ops::functions::{eye, select};
use crate::ops::wrong;
use crate::transform::custom_jvp;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Solves `A x = b` by the LU factors of `A`; if `transpose`, solves `Aᵀ x = b`. `b` is an array of matrices with the
/// leading axes of the factors.
fn by_factors(f: LuFactors, b: Var, transpose: bool) -> Var {
    let rows = |order: Var, x: Var| x.take_along_axis(order.expand_dims(-1), -2);
    let (unit, upper) = (Triangle::LOWER.unit_diagonal(), Triangle::UPPER);
    if transpose {
        // Aᵀ x = Uᵀ Lᵀ x[p], where p is the permutation of the rows.
        let y = solve_triangular(f.packed, b, upper.transposed());
        let y = solve_triangular(f.packed, y, unit.transposed());
        return rows(f.permutation.argsort(-1), y);
    }
    let y = solve_triangular(f.packed, rows(f.permutation, b), unit);
    solve_triangular(f.packed, y, upper)
}

/// Broadcasts the LU factors of a matrix to the leading axes of the right-hand sides, and solves the system with them.
fn solution(system: &System, f: LuFactors, transpose: bool, at: Loc) -> Var {
    let lead = &system.right.ty(at).shape;
    let spread = |x: Var, last: usize| {
        let own = x.ty(at).shape;
        let shape = [&lead[..lead.len() - 2], &own[own.len() - last..]].concat();
        x.broadcast_to(&shape[..])
    };
    let (packed, pivots) = (spread(f.packed, 2), spread(f.pivots, 1));
    let f = LuFactors { packed, pivots, permutation: spread(f.permutation, 1) };
    system.solved(by_factors(f, system.right, transpose), at)
}

/// Returns the solution `x` of `A x = b`, given the factors that [`lu_factor`] returns for square matrices `A` `[.., n,
/// n]`. `b` has the shape `[n]` or `[.., n, columns]` and the dtype of the factors; leading axes are broadcast. The
/// result has the shape of `b`.
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(a, b): (Var, Var)| linalg::lu_solve(linalg::lu_factor(a), b);
/// let (a, b) = ([[1.0, 2.0], [4.0, 4.0]], [5.0, 12.0]);
/// assert_eq!(run(solve, (a, b))?.to_vec::<f64>()?, [1.0, 2.0]);
/// check_grads(solve, (a, b), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the factors are not of square matrices or `b` does not fit, `dtype` if dtypes differ.
#[track_caller]
pub fn lu_solve(factors: LuFactors, b: impl IntoVar) -> Var {
    let at = caller();
    let b = b.beside(factors.packed, at);
    match System::of("lu_solve", factors.packed, b, at) {
        Ok(system) => on_behalf("lu_solve", at, || solution(&system, factors, false, at)),
        Err(problem) => wrong(problem, &[factors.packed, b], b.ty(at), at),
    }
}

/// Returns the solution `x` of `A x = b` for square matrices `a` `[.., n, n]`, floats, and `b` of shape `[n]` or
/// `[.., n, columns]`, of their dtype; leading axes are broadcast. The result has the shape of `b`.
///
/// It is computed by an LU factorization; derivatives of every order are systems with the same factors
/// ([`custom_linear_solve`](crate::custom_linear_solve)). For a singular matrix, the solution is inf or nan, and
/// other members of a batch are not affected; [`solve_checked`] also returns which matrices are regular.
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(a, b): (Var, Var)| linalg::solve(a, b);
/// let (a, b) = ([[1.0, 2.0], [4.0, 4.0]], [5.0, 12.0]);
/// assert_eq!(run(solve, (a, b))?.to_vec::<f64>()?, [1.0, 2.0]);
/// check_grads(solve, (a, b), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` is not square or `b` does not fit, `dtype` if they are not floats of one dtype.
#[track_caller]
pub fn solve(a: Var, b: impl IntoVar) -> Var {
    let at = caller();
    let b = b.beside(a, at);
    match System::of("solve", a, b, at) {
        Ok(system) => {
            on_behalf("solve", at, || implicit(a, &system, lu_factor(a.stop_gradient()), at))
        }
        Err(problem) => wrong(problem, &[a, b], b.ty(at), at),
    }
}

/// Solves `a x = b` as [`solve`] does, with the factors of `a` that [`lu_factor`] has already computed. Derivatives
/// treat the factors as constants.
#[track_caller]
pub(crate) fn solve_factored(a: Var, factors: LuFactors, b: Var) -> Var {
    let at = caller();
    match System::of("solve", a, b, at) {
        Ok(system) => on_behalf("solve", at, || implicit(a, &system, factors, at)),
        Err(problem) => wrong(problem, &[a, b], b.ty(at), at),
    }
}

/// Solves a system by the LU factors of its matrix. The derivative is that of the equation `a x = b`; the factors are
/// constants for derivatives.
fn implicit(a: Var, system: &System, f: LuFactors, at: Loc) -> Var {
    let of = |right: Var| System { matrix: system.matrix, right, solution: right.ty(at) };
    let x = custom_linear_solve_with(
        |x: Var| a.matmul(x),
        system.right,
        |b: Var| solution(&of(b), f, false, at),
        |c: Var| solution(&of(c), f, true, at),
    );
    system.solved(x, at)
}

/// Returns `(x, ok)`: the solution of [`solve`], and for each matrix (bool `[..]`) whether it is regular, that is,
/// whether its elements are finite and no pivot is zero.
///
/// ```
/// use tapeloom::prelude::*;
/// let a = [[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]];
/// let (x, ok) = run(|(a, b): (Var, Var)| linalg::solve_checked(a, b), (a, [2.0, 4.0]))?;
/// assert_eq!(ok.to_vec::<bool>()?, [false, true]);
/// assert_eq!(x.to_vec::<f64>()?[2..], [1.0, 2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`solve`].
#[track_caller]
pub fn solve_checked(a: Var, b: impl IntoVar) -> (Var, Var) {
    let at = caller();
    let b = b.beside(a, at);
    match System::of("solve_checked", a, b, at) {
        Ok(system) => on_behalf("solve_checked", at, || {
            let f = lu_factor(a.stop_gradient());
            let pivots = f.packed.diagonal();
            let regular = pivots.is_finite() & pivots.ne(0.0);
            (implicit(a, &system, f, at), regular.all_axis(-1))
        }),
        Err(problem) => {
            let unknown = Var::poison(ArrayType::new(Dtype::Bool, Shape::scalar()), at);
            (wrong(problem, &[a, b], b.ty(at), at), unknown)
        }
    }
}

/// Returns the inverses of square matrices `[.., n, n]`, floats. The inverse of a singular matrix is inf or nan. To
/// solve a system, [`solve`] is faster and more accurate.
///
/// ```
/// use tapeloom::prelude::*;
/// let inverse = run(linalg::inv, [[1.0, 2.0], [4.0, 4.0]])?;
/// assert_eq!(inverse.to_vec::<f64>()?, [-1.0, 0.5, 1.0, -0.25]);
/// check_grads(linalg::inv, [[1.0, 2.0], [4.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[doc(alias = "inverse")]
#[track_caller]
pub fn inv(a: Var) -> Var {
    let at = caller();
    match square("inv", a, at) {
        Ok(n) => on_behalf("inv", at, || solve(a, eye(n, a.dtype()).broadcast_to(a.shape()))),
        Err(problem) => wrong(problem, &[a], a.ty(at), at),
    }
}

/// Returns `max(m, n) ε`, where ε is the rounding error of the dtype. If a singular value is below this multiple of the
/// largest one, it counts as zero.
pub(super) fn cutoff(m: usize, n: usize, dtype: Dtype) -> f64 {
    m.max(n) as f64 * epsilon(dtype)
}

/// Returns the pseudo-inverses (Moore and Penrose) `[.., n, m]` of matrices `a` `[.., m, n]`, floats, by their singular
/// values. Singular values below `max(m, n) ε` times the largest one count as zero, where ε is the rounding error of
/// the dtype.
///
/// The derivative is taken among matrices of the same rank (Golub and Pereyra 1973), because a change of the rank has
/// no finite derivative: `dA⁺ = -A⁺ dA A⁺ + A⁺A⁺ᵀ dAᵀ (1 - AA⁺) + (1 - A⁺A) dAᵀ A⁺ᵀA⁺`. This rule is used for
/// derivatives up to the third order; higher ones are those of the singular values and vectors.
///
/// ```
/// use tapeloom::prelude::*;
/// let tall = [[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]];
/// let inverse = run(linalg::pinv, tall)?;
/// assert!(inverse.to_vec::<f64>()?.iter().zip([1.0, 0.0, 0.0, 0.0, 0.5, 0.0]).all(|(x, y)| (x - y).abs() < 1e-15));
/// check_grads(linalg::pinv, tall, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[doc(alias = "pinverse")]
#[track_caller]
pub fn pinv(a: Var) -> Var {
    let at = caller();
    match matrices("pinv", a, at) {
        Ok(_) => on_behalf("pinv", at, || ruled_pinv(a, 3)),
        Err(problem) => wrong(problem, &[a], a.ty(at), at),
    }
}

/// Returns the pseudo-inverse. Derivatives up to order `orders` use the formula for matrices of constant rank. Higher
/// derivatives differentiate `plain_pinv`.
fn ruled_pinv(a: Var, orders: usize) -> Var {
    if orders == 0 || a.shape().elements() == 0 {
        return plain_pinv(a);
    }
    let rule = move |a: Var, da: Var| {
        let value = ruled_pinv(a, orders - 1);
        // The formula is evaluated for A / c and c A⁺, where c is a power of two near the largest element of A, so that
        // products of three matrices do not overflow.
        let c = magnitude(a);
        let (p, a, da) = (value * c, a / c, da / c);
        let (pt, dat) = (transposed(p), transposed(da));
        // The first of the two projections, dAᵀ (1 - AA⁺), is computed as dAᵀ - (dAᵀ A) A⁺, without a product of rows
        // by rows.
        let beyond = p.matmul(pt).matmul(dat - dat.matmul(a).matmul(p));
        let rest = dat - p.matmul(a.matmul(dat));
        let dp = beyond + rest.matmul(pt).matmul(p) - p.matmul(da).matmul(p);
        (value, dp / c)
    };
    custom_jvp(plain_pinv, rule)(a)
}

/// Returns the pseudo-inverse `V diag(1/s) Uᵀ`, without the singular values that count as zero. Derivatives of the
/// result go through the singular value decomposition.
fn plain_pinv(a: Var) -> Var {
    let shape = a.shape();
    let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    if m == 0 || n == 0 {
        return transposed(a);
    }
    let (u, s, vt) = svd(a);
    let kept = s.gt(s.slice_axis(-1, 0..1) * cutoff(m, n, a.dtype()));
    let inverse = select(kept, 1.0 / select(kept, s, s.ones_like()), s.zeros_like());
    (transposed(vt) * inverse.expand_dims(-2)).matmul(transposed(u))
}

/// Returns the least squares solution of `A x = b`: among all `x` with the smallest `|A x - b|`, the shortest one. `a`
/// has the shape `[m, n]` and floats, `b` is `[m]` or `[m, columns]`, and the result is `[n]` or `[n, columns]`.
/// Matrices may have any rank. The solution and its derivative are computed by [`pinv`].
///
/// ```
/// use tapeloom::prelude::*;
/// let fit = |(a, b): (Var, Var)| linalg::lstsq(a, b);
/// let (a, b) = ([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0]);
/// let line = run(fit, (a, b))?.to_vec::<f64>()?;
/// assert!((line[0] - 1.0).abs() < 1e-14 && (line[1] - 2.0).abs() < 1e-14);
/// check_grads(fit, (a, b), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` is not a matrix or `b` does not fit, `dtype` if they are not floats of one dtype.
#[track_caller]
pub fn lstsq(a: Var, b: impl IntoVar) -> Var {
    let at = caller();
    let b = b.beside(a, at);
    let (ta, tb) = (a.ty(at), b.ty(at));
    let fits = matrices("lstsq", a, at).and_then(|[m, _]| {
        let message = format!("`lstsq` of {ta} and {tb}");
        if ta.dtype != tb.dtype {
            let help = crate::dtype::conversions(ta.dtype, tb.dtype);
            return Err(Problem::new(Kind::Dtype, message, help));
        }
        match (ta.shape.len(), &tb.shape[..]) {
            (2, [rows] | [rows, _]) if *rows == m => Ok(()),
            _ => {
                let help =
                    "one matrix [m, n], and right sides [m] or [m, columns]; `vmap` over more";
                Err(Problem::new(Kind::Shape, message, help))
            }
        }
    });
    match fits {
        Ok(()) => on_behalf("lstsq", at, || ruled_pinv(a, 3).matmul(b)),
        Err(problem) => wrong(problem, &[a, b], tb, at),
    }
}
