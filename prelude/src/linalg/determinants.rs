//! Determinants, and their signs and logarithms.
//!
//! The determinant is a polynomial of the elements, so it has derivatives of every order at every matrix. Its value is
//! the product of the pivots of an LU factorization. Derivatives of that product divide by pivots, so they lose digits
//! near singular matrices: the relative error of a derivative of order k is the rounding error times the (k - 1)th
//! power of the condition number. Near singular matrices, derivatives are computed from another form, which divides by
//! no small number:
//!
//! ```text
//! A₀ = U S Vᵀ                     frozen: no derivative passes through the factors
//! M = S + Uᵀ (A - A₀) V           so det A = det U · det M · det V
//! det M = det M₁₁ · det C         M₁₁: the rows and columns of large singular values
//! C = M₂₂ - M₂₁ M₁₁⁻¹ M₁₂         as large as the small ones; its determinant by Faddeev and LeVerrier's recurrence, without a division
//! ```

use super::factors::{LuFactors, lu_factor, svd};
use super::solve::{inv, solve};
use super::{square, transposed};
use crate::Var;
use crate::control::{cond, fori_loop};
use crate::dtype::epsilon;
use crate::ops::functions::{eye, iota, ones, select};
use crate::ops::wrong;
use crate::transform::{custom_jvp, grad, jvp};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype};

/// Returns the sign of the permutation of rows, 1 or -1, in dtype `dtype`.
fn parity(f: LuFactors, dtype: Dtype) -> Var {
    let pivots = f.pivots;
    let shape = pivots.shape();
    let own = iota(shape.clone(), shape.len() - 1, Dtype::I32);
    let exchanges = pivots.ne(own).convert(Dtype::I32).sum_axis(-1);
    (1 - 2 * (exchanges % 2)).convert(dtype)
}

/// Returns the type of an array with one number per matrix.
fn number_each(ty: &ArrayType) -> ArrayType {
    ArrayType::new(ty.dtype, &ty.shape[..ty.shape.len().saturating_sub(2)])
}

/// The determinants `[..]` of square matrices `[.., n, n]`, floats.
///
/// The first derivative is the adjugate, also at singular matrices. Derivatives of every order are right at matrices
/// of every rank. A second form is used where a pivot is nearly zero, and for second and higher derivatives also where
/// the condition number exceeds `1/ε^(1/4)` (8000 for f64, 54 for f32). The error of its derivative of order k is some
/// rounding errors of the determinant or of `|A|^(n - k)`, whichever is larger. Both hold while `|A|^n` lies within the
/// range of the dtype; divide a matrix of very large or very small elements by its scale first.
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(linalg::det, [[1.0, 2.0], [4.0, 4.0]])?.item::<f64>()?, -4.0);
/// check_grads(linalg::det, [[1.0, 2.0], [4.0, 4.0]], 2)?;
/// let singular = [[1.0, 2.0], [2.0, 4.0]];
/// let adjugate = run(grad(linalg::det), singular)?.to_vec::<f64>()?;
/// assert!(adjugate.iter().zip([4.0, -2.0, -2.0, 1.0]).all(|(x, y)| (x - y).abs() < 1e-13));
/// check_grads(linalg::det, singular, 2)?;
/// // det diag(t, 2t, 3) = 6 t².
/// let along = |t: Var| linalg::det(stack(&[t, 2.0 * t, 3.0 * t.ones_like()], 0).diag(0));
/// assert!((run(grad(grad(along)), 0.0)?.item::<f64>()? - 12.0).abs() < 1e-13);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not of floats.
#[track_caller]
pub fn det(a: Var) -> Var {
    let at = caller();
    let n = match square("det", a, at) {
        Ok(n) => n,
        Err(problem) => return wrong(problem, &[a], number_each(&a.ty(at)), at),
    };
    on_behalf("det", at, || {
        let ty = number_each(&a.ty(at));
        if n == 0 {
            return ones(ty.shape, ty.dtype);
        }
        // The factors and the value are constants, so that the derivatives of all orders share one copy of them.
        let f = lu_factor(a.stop_gradient());
        let value = product_of_pivots(f, ty.dtype);
        // If no pivot vanishes, the adjugate from the factors is as accurate as the factors, for any condition number.
        let first = |a: Var| polynomial(a, value, nearly_zero_pivots(f));
        let second = |a: Var| polynomial(a, value, ill_conditioned(a.stop_gradient()));
        let adjugate = |on: &dyn Fn(Var) -> Var, a: Var| grad(|a: Var| on(a).sum())(a);
        let value_with_derivatives =
            custom_jvp(|_: Var| value, |a: Var, da: Var| jvp(second)((a, da)));
        let slope = custom_jvp(
            |a: Var| adjugate(&first, a),
            |a: Var, da: Var| jvp(|a: Var| adjugate(&second, a))((a, da)),
        );
        let rule =
            |a: Var, da: Var| (value_with_derivatives(a), (slope(a) * da).sum_axis([-2, -1]));
        custom_jvp(|_: Var| value, rule)(a)
    })
}

/// Returns the determinant as the product of the pivots.
fn product_of_pivots(f: LuFactors, dtype: Dtype) -> Var {
    parity(f, dtype) * f.packed.diagonal().prod_axis(-1)
}

/// Returns, per matrix, whether a pivot is zero or smaller than √ε times another one, which costs half of the digits.
fn nearly_zero_pivots(f: LuFactors) -> Var {
    let pivots = f.packed.diagonal().abs();
    pivots.min_axis(-1).le(pivots.max_axis(-1) * epsilon(pivots.dtype()).sqrt())
}

/// Returns, per matrix, whether second derivatives from the factors would lose more than a quarter of the digits. The
/// condition number is computed from the inverse, since ill-conditioned matrices may have no small pivot (Kahan 1966).
fn ill_conditioned(a: Var) -> Var {
    let norm = |x: Var| x.abs().sum_axis(-2).max_axis(-1);
    let size = norm(a);
    let well = (size * norm(inv(a))).le(epsilon(a.dtype()).powf(-0.25));
    size.is_finite() & !well
}

/// Returns the determinant, from singular values for matrices marked in `on` and from pivots for the others. `value`
/// is the determinant of all of them.
fn polynomial(a: Var, value: Var, on: Var) -> Var {
    // Both forms are evaluated for all matrices. Each matrix is replaced by a harmless one in the form that is not its
    // own, whose derivatives may not be finite.
    let safe = |on: Var, x: Var| {
        let on = on.expand_dims(-1).expand_dims(-1).broadcast_to(x.shape());
        let n = x.shape().last().copied().unwrap_or(0);
        let other = (iota([n], 0, x.dtype()) + 1.0).diag(0).broadcast_to(x.shape());
        select(on, other, x)
    };
    let regular = safe(on, a);
    let by_pivots = product_of_pivots(lu_factor(regular), a.dtype());
    let any = if on.rank() == 0 { on } else { on.any() };
    cond(
        any,
        |(a, by_pivots): (Var, Var)| {
            let by_values = by_singular_values(safe(!on, a));
            // Keep the value of the factors, which is exactly zero where a pivot is zero.
            let moved = value + (by_values - by_values.stop_gradient());
            select(on, moved, by_pivots)
        },
        |(_, by_pivots): (Var, Var)| by_pivots,
        (a, by_pivots),
    )
}

/// Singular values at most this share of the largest are small. The block of the large ones has a condition number
/// below 8, so its factors lose at most one digit.
const SMALL: f64 = 0.125;

/// Returns the determinant by the form in the documentation of this module.
fn by_singular_values(a: Var) -> Var {
    let wide = |x: Var| x.expand_dims(-1).expand_dims(-1);
    let (dtype, frozen) = (a.dtype(), a.stop_gradient());
    let n = a.shape().last().copied().unwrap_or(0);
    let (u, s, vt) = svd(frozen);
    let sign = |q: Var| {
        let f = lu_factor(q);
        parity(f, dtype) * f.packed.diagonal().signum().prod_axis(-1)
    };
    let is_small = s.le(s.slice_axis(-1, 0..1) * SMALL);
    let small = is_small.convert(dtype);
    let large = 1.0 - small;
    // Returns `x` with zeros outside of the given rows and columns.
    let block =
        |x: Var, rows: Var, columns: Var| x * rows.expand_dims(-1) * columns.expand_dims(-2);
    let unit = eye(n, dtype);
    let x = transposed(u).matmul(a - frozen).matmul(transposed(vt));
    let m = unit * s.expand_dims(-2) + x;
    let first = block(m, large, large) + unit * small.expand_dims(-2);
    let between = solve(first, block(x, large, small));
    let rest = block(m, small, small) - block(x, small, large).matmul(between);
    // N ← c - C N, c ← tr(C N) / k, beginning with N = 0, c = 1. After r steps c is the determinant of a block of
    // order r. Each matrix of a batch has its own r.
    let count = is_small.convert(Dtype::I64).sum_axis(-1);
    let most = if count.rank() == 0 { count } else { count.max() };
    let step = |(k, (sum, c)): (Var, (Var, Var))| {
        let next = unit * wide(c) * small.expand_dims(-2) - rest.matmul(sum);
        let trace = rest.matmul(next).diagonal().sum_axis(-1);
        let on = k.lt(count);
        let spread = wide(on).broadcast_to(sum.shape());
        (spread.select(next, sum), on.select(trace / (k + 1).convert(dtype), c))
    };
    let start = (a.zeros_like(), sign(u).ones_like());
    let (_, c) = fori_loop(most, step, start);
    sign(u) * sign(vt) * product_of_pivots(lu_factor(first), dtype) * c
}

/// Returns `(sign, ln |det|)`, each `[..]`, of square matrices `[.., n, n]`, floats. Use it where the determinant
/// overflows or underflows. A singular matrix gives `(0, -inf)`. The derivative of the logarithm is `A⁻ᵀ`.
///
/// ```
/// use tapeloom::prelude::*;
/// let (sign, log) = run(|a: Var| linalg::slogdet(a), [[1.0, 2.0], [4.0, 4.0]])?;
/// assert_eq!((sign.item::<f64>()?, log.item::<f64>()?), (-1.0, 4f64.ln()));
/// check_grads(|a: Var| linalg::slogdet(a).1, [[1.0, 2.0], [4.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not of floats.
#[doc(alias = "logdet")]
#[track_caller]
pub fn slogdet(a: Var) -> (Var, Var) {
    let at = caller();
    if let Err(problem) = square("slogdet", a, at) {
        let ty = number_each(&a.ty(at));
        return (wrong(problem, &[a], ty.clone(), at), Var::poison(ty, at));
    }
    on_behalf("slogdet", at, || {
        let f = lu_factor(a.stop_gradient());
        let sign = parity(f, a.dtype()) * f.packed.diagonal().signum().prod_axis(-1);
        let log = |a: Var| lu_factor(a).packed.diagonal().abs().ln().sum_axis(-1);
        let rule = move |a: Var, da: Var| (log(a), (transposed(inv(a)) * da).sum_axis([-2, -1]));
        (sign, custom_jvp(log, rule)(a))
    })
}
