//! Linear algebra: decompositions of matrices and solutions of systems, for one matrix or many.
//!
//! Matrices are the last two axes of an array. All axes before them are a batch. So every function here works on one
//! matrix and on a stack of matrices, under [`vmap`](crate::vmap) and in loops, and has derivatives of every order.
//!
//! ```
//! use tapeloom::prelude::*;
//! // The logarithm of the density of a normal distribution with covariance A.
//! let density = |(a, x): (Var, Var)| {
//!     let l = linalg::cholesky(a);
//!     let white = linalg::solve_triangular(l, x, Triangle::LOWER);
//!     -0.5 * white.dot(white) - l.diagonal().ln().sum()
//! };
//! let (a, x) = ([[2.0, 0.5], [0.5, 1.0]], [1.0, -1.0]);
//! assert!((run(density, (a, x))?.item::<f64>()? + 1.4226650).abs() < 1e-6);
//! check_grads(density, (a, x), 2)?;
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! A failure is a value, not an error: for instance, the Cholesky factor of a matrix that is not positive definite
//! is nan, and other members of a batch are not affected. [`Jit::nan_check`](crate::Jit::nan_check) reports the
//! line.

mod chain;
mod cholesky;
mod determinants;
mod distances;
mod factors;
mod functions;
mod measures;
mod sampled;
mod solve;
mod spectral;
mod triangular;
mod tridiagonal;

pub use cholesky::{cho_solve, cholesky, cholesky_checked};
pub use determinants::{det, slogdet};
pub use distances::cdist;
pub use factors::{
    LuFactors, eig, eigh, eigh_range, eigvals, eigvalsh, lu, lu_factor, qr, qr_full, schur, svd,
    svd_full, svd_truncated, svdvals,
};
pub use functions::{expm, polyfit, sqrtm};
pub use measures::{MatrixNorm, cond_number, cond_number_by, matrix_norm, matrix_rank};
pub use sampled::{
    multivariate_normal, multivariate_normal_entropy, multivariate_normal_kl,
    multivariate_normal_logpdf, orthogonal,
};
pub(crate) use solve::solve_factored;
pub use solve::{inv, lstsq, lu_solve, pinv, solve, solve_checked};
pub use spectral::{
    inv_sqrtm_psd, logm_psd, matrix_function, polar, spectral_projector, spectral_sum, sqrtm_psd,
};
pub use triangular::{Triangle, solve_triangular};
pub use tridiagonal::tridiagonal_solve;

use crate::Var;
use crate::ops::{broadcast_shapes, broadcast_var, reshape};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Returns the extents of the matrices of an operand, or an error if it is not an array of float matrices.
fn matrices(name: &str, x: Var, at: Loc) -> Result<[usize; 2], Problem> {
    let ty = x.ty(at);
    if !ty.dtype.is_float() {
        let help = "convert first, as in `x.convert(Dtype::F64)`";
        return Err(Problem::new(Kind::Dtype, format!("`{name}` needs floats, got {ty}"), help));
    }
    match ty.shape[..] {
        [.., rows, columns] => Ok([rows, columns]),
        _ => {
            let help = "the last two axes are the rows and columns of a matrix";
            Err(Problem::new(Kind::Shape, format!("`{name}` needs a matrix, got {ty}"), help))
        }
    }
}

/// Returns the number of rows of square matrices. Returns an error if the operand is not an array of float matrices, or
/// if the matrices are not square.
pub(crate) fn square(name: &str, x: Var, at: Loc) -> Result<usize, Problem> {
    let [rows, columns] = matrices(name, x, at)?;
    if rows == columns {
        return Ok(rows);
    }
    let message = format!("`{name}` needs square matrices, got {}", x.ty(at));
    Err(Problem::new(Kind::Shape, message, "the last two axes must have one extent"))
}

/// Returns `x` with its last two axes exchanged.
fn transposed(x: Var) -> Var {
    x.swap_axes(-2, -1)
}

/// Returns `(x + xᵀ) / 2`, in a form in which the sum does not overflow and a symmetric `x` keeps its bits.
fn symmetric(x: Var) -> Var {
    x + (transposed(x) - x) * 0.5
}

/// Returns, for each matrix, a power of two near its largest absolute value: `[.., 1, 1]`, a constant for derivatives.
/// For zero matrices and for matrices that are not finite, the result is 1. After a division by this power, the squares
/// of large elements neither overflow nor underflow.
pub(crate) fn magnitude(a: Var) -> Var {
    let largest = a.stop_gradient().abs().max_axis([-2, -1]);
    let some = largest.gt(0.0) & largest.is_finite();
    let exponent = some.select(largest, largest.ones_like()).log2().floor();
    // `log2` of the largest numbers is rounded up to the exponent at which `exp2` overflows, so limit the exponent.
    let most = if a.dtype() == Dtype::F32 { f32::MAX_EXP } else { f64::MAX_EXP };
    let power = exponent.minimum(f64::from(most - 1)).exp2();
    power.expand_dims(-1).expand_dims(-1)
}

/// A checked linear system: the matrices and the right-hand sides, broadcast to the same leading axes, and the type of
/// the solution. Right-hand sides are matrices with `n` rows. A vector becomes a matrix of one column.
struct System {
    matrix: Var,
    right: Var,
    solution: ArrayType,
}

/// Returns the type of the solution of a linear system, or an error if the dtypes or shapes of matrices and right-hand
/// sides do not fit.
pub(crate) fn solution_type(
    name: &str,
    matrix: Var,
    right: Var,
    at: Loc,
) -> Result<ArrayType, Problem> {
    let n = square(name, matrix, at)?;
    let (tm, tr) = (matrix.ty(at), right.ty(at));
    if tr.dtype != tm.dtype {
        let help = crate::dtype::conversions(tm.dtype, tr.dtype);
        let message = format!("`{name}` needs operands of one dtype, got {tm} and {tr}");
        return Err(Problem::new(Kind::Dtype, message, help));
    }
    let (own, last) = match tr.shape[..] {
        [rows] if rows == n => (&[][..], &tr.shape[..]),
        [.., rows, _] if rows == n => tr.shape.split_at(tr.shape.len() - 2),
        _ => {
            let help = format!("right sides are [{n}] or [.., {n}, columns]");
            let message = format!("`{name}` of {tm} and {tr}");
            return Err(Problem::new(Kind::Shape, message, help));
        }
    };
    let lead = broadcast_shapes(&tm.shape[..tm.shape.len() - 2], own).ok_or_else(|| {
        let message = format!("`{name}` of {tm} and {tr}: the axes in front do not broadcast");
        let help = "aligned at the last of them, extents must be equal or 1";
        Problem::new(Kind::Shape, message, help)
    })?;
    Ok(ArrayType::new(tm.dtype, Shape::from(&[&lead[..], last].concat()[..])))
}

impl System {
    fn of(name: &str, matrix: Var, right: Var, at: Loc) -> Result<System, Problem> {
        let solution = solution_type(name, matrix, right, at)?;
        let (mut right, mut columns) = (right, solution.shape.to_vec());
        if let [n] = right.ty(at).shape[..] {
            right = reshape(right, [n, 1].into(), at);
            columns.push(1);
        }
        let right = broadcast_var(right, &columns[..].into(), at);
        if let [.., n, m] = &mut columns[..] {
            *m = *n;
        }
        let matrix = broadcast_var(matrix, &columns.into(), at);
        Ok(System { matrix, right, solution })
    }

    /// Reshapes a solution `x`, whose columns are an axis, to the shape of the user's right-hand side, which may be a
    /// vector.
    fn solved(&self, x: Var, at: Loc) -> Var {
        reshape(x, self.solution.shape.clone(), at)
    }
}
