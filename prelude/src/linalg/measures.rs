//! Ranks, condition numbers and norms of matrices.

use super::factors::svdvals;
use super::solve::{cutoff, inv};
use super::spectral::nuclear_norm;
use super::{matrices, square};
use crate::Var;
use crate::ops::functions::select;
use crate::ops::wrong;
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// A norm of matrices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixNorm {
    /// The root of the sum of the squares of all elements (Frobenius norm).
    Frobenius,
    /// The sum of the singular values (nuclear norm).
    Nuclear,
    /// The largest singular value (spectral norm, order 2).
    Spectral,
    /// The smallest singular value (order -2).
    SmallestValue,
    /// The largest sum of the absolute values of a column (order 1).
    Columns,
    /// The smallest sum of the absolute values of a column (order -1).
    SmallestColumn,
    /// The largest sum of the absolute values of a row (order infinity).
    Rows,
    /// The smallest sum of the absolute values of a row (order minus infinity).
    SmallestRow,
}

/// Returns one number for each matrix of the operand, computed by a closure. If the operand is not an array of float
/// matrices, or not of square ones where required, reports an error and returns a placeholder.
fn each(
    name: &'static str,
    a: Var,
    dtype: Dtype,
    fits: Result<(), Problem>,
    at: Loc,
    of: impl FnOnce() -> Var,
) -> Var {
    match fits {
        Ok(()) => on_behalf(name, at, of),
        Err(problem) => {
            let shape = a.ty(at).shape;
            let ty = ArrayType::new(dtype, &shape[..shape.len().saturating_sub(2)]);
            wrong(problem, &[a], ty, at)
        }
    }
}

/// Returns the norm `[..]` of matrices `a` `[.., m, n]`, floats. `m` and `n` must be at least 1, except for the
/// Frobenius and nuclear norms, which are 0 for matrices without elements.
///
/// If several elements or singular values are extreme, they share the derivative equally, as in `max` and `min`. The
/// Frobenius norm is not differentiable at zero matrices; there the value and first derivatives are 0, and second
/// derivatives are nan. Norms based on singular values are not differentiable if such a value is 0; then the first
/// derivative is that of one choice of its vectors. The gradient of the nuclear norm is [`polar`](super::polar). Its
/// second derivatives are right for equal singular values, and nan if a singular value is 0; a fourth derivative is an
/// error.
///
/// ```
/// use tapeloom::prelude::*;
/// let a = [[3.0, 0.0], [0.0, -4.0]];
/// let norm = |of: MatrixNorm| move |a: Var| linalg::matrix_norm(a, of);
/// assert_eq!(run(norm(MatrixNorm::Frobenius), a)?.item::<f64>()?, 5.0);
/// assert_eq!(run(norm(MatrixNorm::Nuclear), a)?.item::<f64>()?, 7.0);
/// assert_eq!(run(norm(MatrixNorm::Spectral), a)?.item::<f64>()?, 4.0);
/// assert_eq!(run(norm(MatrixNorm::SmallestRow), a)?.item::<f64>()?, 3.0);
/// check_grads(norm(MatrixNorm::Nuclear), a, 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes or no elements, `dtype` if it is not of floats.
#[track_caller]
pub fn matrix_norm(a: Var, of: MatrixNorm) -> Var {
    let at = caller();
    let fits = matrices("matrix_norm", a, at).and_then(|extents| match extents {
        [m, n] if m.min(n) > 0 => Ok(()),
        _ if matches!(of, MatrixNorm::Frobenius | MatrixNorm::Nuclear) => Ok(()),
        _ => {
            let message = format!("`matrix_norm` of {}: matrices without elements", a.ty(at));
            Err(Problem::new(Kind::Shape, message, "a norm is of one row and one column at least"))
        }
    });
    each("matrix_norm", a, a.ty(at).dtype, fits, at, || match of {
        MatrixNorm::Frobenius => {
            // Compute |A| as s |A / s|, where s is the largest absolute value of an element, so that squares neither
            // overflow nor underflow.
            let largest = a.stop_gradient().abs().max_axis([-2, -1]);
            let scaled = largest.gt(0.0) & largest.is_finite();
            let scale = scaled.select(largest, largest.ones_like());
            let rows = a / scale.expand_dims(-1).expand_dims(-1);
            let square = (rows * rows).sum_axis([-2, -1]);
            // `square.gt(0.0)` would be false for nan and select the path for zeros. With `ne`, a nan in the matrix
            // gives nan in the norm and in its derivative.
            let positive = square.ne(0.0);
            // √ has no derivative at 0. For zeros, compute the norm as a sum of `hypot(x, 0)`: the value and the
            // first derivative are 0, and the second derivative is nan.
            let safe = positive.select(square, square.ones_like());
            let wide = positive.expand_dims(-1).expand_dims(-1).broadcast_to(rows.shape());
            let zeros = select(wide, 1.0, rows).hypot(0.0).sum_axis([-2, -1]);
            positive.select(scale * safe.sqrt(), zeros)
        }
        MatrixNorm::Nuclear => match a.shape() {
            shape if shape.elements() == 0 => a.sum_axis([-2, -1]),
            _ => nuclear_norm("matrix_norm", a, at),
        },
        MatrixNorm::Spectral => extreme_values(a)[0],
        MatrixNorm::SmallestValue => extreme_values(a)[1],
        MatrixNorm::Columns => a.abs().sum_axis(-2).max_axis(-1),
        MatrixNorm::SmallestColumn => a.abs().sum_axis(-2).min_axis(-1),
        MatrixNorm::Rows => a.abs().sum_axis(-1).max_axis(-1),
        MatrixNorm::SmallestRow => a.abs().sum_axis(-1).min_axis(-1),
    })
}

/// Returns the largest and the smallest singular value. They are read at their positions, so that derivatives depend on
/// the singular vectors of these two values only: other singular values may be equal, and their vectors have no
/// derivative.
fn extreme_values(a: Var) -> [Var; 2] {
    let s = svdvals(a);
    let n = s.shape()[s.rank() - 1];
    if n == 0 {
        // Without singular values, `max_axis` and `min_axis` report the error of an extremum over an empty axis.
        return [s.max_axis(-1), s.min_axis(-1)];
    }
    [0, n - 1].map(|i| s.slice_axis(-1, i..=i).squeeze(-1))
}

/// Returns the condition numbers `[..]` of matrices `a` `[.., m, n]`, floats: the largest singular value divided by the
/// smallest one. The condition number of a singular matrix is infinite.
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(linalg::cond_number, [[3.0, 0.0], [0.0, -4.0]])?.item::<f64>()?, 4.0 / 3.0);
/// check_grads(linalg::cond_number, [[3.0, 1.0], [0.5, -4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn cond_number(a: Var) -> Var {
    let at = caller();
    let fits = matrices("cond_number", a, at).map(drop);
    each("cond_number", a, a.ty(at).dtype, fits, at, || {
        let [most, least] = extreme_values(a);
        // A zero matrix is singular, too, but its quotient is 0/0. Divide 1 by 0 instead, which is infinite.
        least.eq(0.0).select(most.ones_like(), most) / least
    })
}

/// Returns the condition numbers of square matrices for another norm: `|A| |A⁻¹|`. For a singular matrix, whose
/// computed inverse is infinite or nan, the condition number is infinite or nan, too.
///
/// ```
/// use tapeloom::prelude::*;
/// let by_rows = |a: Var| linalg::cond_number_by(a, MatrixNorm::Rows);
/// assert_eq!(run(by_rows, [[1.0, 2.0], [4.0, 4.0]])?.item::<f64>()?, 12.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn cond_number_by(a: Var, norm: MatrixNorm) -> Var {
    let at = caller();
    let fits = square("cond_number_by", a, at).map(drop);
    each("cond_number_by", a, a.ty(at).dtype, fits, at, || {
        matrix_norm(a, norm) * matrix_norm(inv(a), norm)
    })
}

/// Returns the ranks `[..]`, i64, of matrices `a` `[.., m, n]`, floats: the number of singular values that are larger
/// than `max(m, n) ε` times the largest one, where ε is the rounding error of the dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// assert_eq!(run(linalg::matrix_rank, [[1.0, 2.0], [2.0, 4.0]])?.item::<i64>()?, 1);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `a` has fewer than two axes, `dtype` if it is not of floats.
#[track_caller]
pub fn matrix_rank(a: Var) -> Var {
    let at = caller();
    let extents = matrices("matrix_rank", a, at);
    let [m, n] = extents.clone().unwrap_or_default();
    each("matrix_rank", a, Dtype::I64, extents.map(drop), at, || {
        let s = svdvals(a.stop_gradient());
        if m.min(n) == 0 {
            return s.convert(Dtype::I64).sum_axis(-1);
        }
        let least = s.slice_axis(-1, 0..1) * cutoff(m, n, a.dtype());
        s.gt(least).convert(Dtype::I64).sum_axis(-1)
    })
}
