//! The polar factors of rectangular matrices, and the nuclear norm, whose gradient is a polar factor.
//!
//! ```text
//! A = Q H        Q = U Vᵀ,  H = V diag(s) Vᵀ        of A = U diag(s) Vᵀ, with at least as many rows as columns
//!
//! dQ = Q Ω + (dA - Q Qᵀ dA) H⁻¹                     H Ω + Ω H = Qᵀ dA - dAᵀ Q
//! ```
//!
//! The derivative of `Q` solves an equation for `Ω`. In the coordinates of the singular vectors, its solution divides
//! by sums `s[i] + s[j]` of singular values. This equation and the division by `H` are emitted as linear systems
//! ([`custom_linear_solve_with`]), which are differentiated as equations. So derivatives of all orders are free of
//! divisions by differences of singular values.
//!
//! Source: N. Higham, *Functions of Matrices* (2008), theorem 8.9; C. Kenney and A. Laub, *Polar decomposition and
//! matrix sign function condition estimates* (1991).

use super::{CLOSED, ORDERS, each_matrix};
use crate::Var;
use crate::dtype::epsilon;
use crate::implicit::custom_linear_solve_with;
use crate::linalg::chain::Point;
use crate::linalg::factors::svd;
use crate::linalg::{matrices, symmetric, transposed};
use crate::ops::functions::{constant, select};
use crate::ops::wrong;
use crate::var::{caller, on_behalf};
use tapeloom_ir::Loc;

/// Returns `(Q, H)` with `A = Q H`, the polar decomposition of matrices `a` `[.., m, n]`, floats. `Q` `[.., m, n]`
/// has orthonormal columns (rows if `m < n`) and is the nearest such matrix. `H = QᵀA` `[.., n, n]` is symmetric
/// without negative eigenvalues.
///
/// Derivatives of three orders are right for all singular values except 0, including equal ones. If a singular
/// value is 0, `Q` is not unique and has no derivative: derivatives are nan if the smallest singular value is
/// within rounding errors of the largest one.
///
/// ```
/// use tapeloom::prelude::*;
/// let (q, h) = run(|a: Var| linalg::polar(a), [[0.0, -2.0], [2.0, 0.0]])?;
/// assert_eq!(q.to_vec::<f64>()?, [0.0, -1.0, 1.0, 0.0]);
/// assert_eq!(h.to_vec::<f64>()?, [2.0, 0.0, 0.0, 2.0]);
/// check_grads(linalg::polar, [[0.0, -2.0], [2.0, 0.0], [0.0, 0.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats; `not-differentiable` if a
/// derivative of fourth order is needed.
#[track_caller]
pub fn polar(a: Var) -> (Var, Var) {
    let (name, at) = ("polar", caller());
    match matrices(name, a, at) {
        Ok([m, n]) => on_behalf(name, at, || {
            let of_one = |a: Var| match m >= n {
                true => factor(point(name, at, a, &vectors(a)), ORDERS),
                false => {
                    let a = transposed(a);
                    transposed(factor(point(name, at, a, &vectors(a)), ORDERS))
                }
            };
            let q = if m.min(n) == 0 { a } else { each_matrix(a, &of_one) };
            (q, symmetric(transposed(q).matmul(a)))
        }),
        Err(problem) => {
            let ty = a.ty(at);
            (wrong(problem, &[a], ty.clone(), at), Var::poison(ty, at))
        }
    }
}

/// Returns the sum of the singular values, `[..]`, of nonempty matrices `[.., m, n]`. Its gradient is the polar
/// factor `Q`.
pub(in crate::linalg) fn nuclear_norm(name: &'static str, a: Var, at: Loc) -> Var {
    let shape = a.shape();
    let a = if shape[shape.len() - 2] < shape[shape.len() - 1] { transposed(a) } else { a };
    let of_one = |a: Var| {
        let value = |c: &[Var], _: &[Var]| match c {
            [_, s, ..] => s.sum(),
            _ => constant(f64::NAN),
        };
        let rule = |c: &[Var], a: Var, _: &[Var], da: Var| {
            (factor(point(name, at, a, c), ORDERS - 1) * da).sum()
        };
        point(name, at, a, &vectors(a)).link(&[], &value, Some(&rule))
    };
    each_matrix(a, &of_one)
}

fn point<'a>(name: &'static str, at: Loc, a: Var, constants: &'a [Var]) -> Point<'a> {
    Point { name, at, constants, a }
}

/// Returns the singular value decomposition `[U, s, Vᵀ]` of `a`, as constants for derivatives.
fn vectors(a: Var) -> [Var; 3] {
    let (u, s, vt) = svd(a.stop_gradient());
    [u, s, vt]
}

/// Returns the polar factor `Q` of a matrix with at least as many rows as columns. The result has derivatives up to
/// order `orders`.
fn factor(point: Point<'_>, orders: usize) -> Var {
    let value = |c: &[Var], _: &[Var]| match c {
        [u, _, vt] => u.matmul(*vt),
        _ => constant(f64::NAN),
    };
    let rule = |c: &[Var], a: Var, _: &[Var], da: Var| match *c {
        [_, s, vt] => {
            let q = factor(Point { constants: c, a, ..point }, orders - 1);
            moved(q, a, da, s, vt)
        }
        _ => da,
    };
    point.link(&[], &value, if orders > 0 { Some(&rule) } else { None })
}

/// Returns the tangent `dQ` of the polar factor for the tangent `da` of the matrix.
fn moved(q: Var, a: Var, da: Var, s: Var, vt: Var) -> Var {
    let [m, n] = [0, 1].map(|axis| a.shape()[axis]);
    let open = s.min().gt(s.max() * (CLOSED * epsilon(s.dtype())));
    let s = select(open, s, f64::NAN);
    let (qt, v) = (transposed(q), transposed(vt));
    let h = symmetric(qt.matmul(a));
    let turned = qt.matmul(da);
    let sums = s.expand_dims(1) + s;
    let by_sums = |b: Var| v.matmul(vt.matmul(b).matmul(v) / sums).matmul(vt);
    let omega = custom_linear_solve_with(
        |x: Var| h.matmul(x) + x.matmul(h),
        turned - transposed(turned),
        by_sums,
        by_sums,
    );
    let within = q.matmul(omega);
    if m == n {
        return within;
    }
    let by_h = |b: Var| (b.matmul(v) / s).matmul(vt);
    let beyond = da - q.matmul(turned);
    within + custom_linear_solve_with(|x: Var| x.matmul(h), beyond, by_h, by_h)
}
