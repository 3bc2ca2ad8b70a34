//! Determinants, and their signs and logarithms.
//!
//! The determinant is a polynomial of the elements, so it has derivatives of every order at every matrix. Its value
//! is the product of the pivots of an LU factorization. Derivatives have rules that do not differentiate a
//! factorization and do not divide by pivots:
//!
//! ```text
//! A = P D Q                       frozen: no derivative passes through the factors
//! X = P⁻¹ dA Q⁻¹                  so det (A + dA) = det P · det (D + X) · det Q
//!
//! D det(A)[dA]       = det P det Q Σ e[i] X[i, i]                                        e: products of all d but d[i]
//! D² det(A)[dA, dB]  = det P det Q Σ e[i, j] (X[i, i] Y[j, j] - X[i, j] Y[j, i])         all but d[i] and d[j]
//! ```
//!
//! These products have n - k factors, so a derivative of order k is in range where `|A|^(n - k)` is. The factors
//! are those of the elimination, `P = Π L`, `Q = D⁻¹ U`, with the pivots in `D`, or the singular vectors and
//! values, where `P` and `Q` would be ill-conditioned.
//!
//! Third and higher derivatives are those of a form that divides by no small number, for `A` divided by a power of
//! two near its largest element:
//!
//! ```text
//! A₀ = U S Vᵀ                     frozen
//! M = S + Uᵀ (A - A₀) V           so det A = det U · det M · det V
//! det M = det M₁₁ · det C         M₁₁: the rows and columns of large singular values
//! C = M₂₂ - M₂₁ M₁₁⁻¹ M₁₂         as large as the small ones; its determinant by Faddeev and LeVerrier's recurrence, without a division
//! ```

use super::chain::Point;
use super::factors::{LuFactors, lu_factor, svd};
use super::solve::{inv, solve};
use super::triangular::{Triangle, solve_triangular};
use super::{magnitude, square, transposed};
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

/// Returns the determinants `[..]` of square matrices `[.., n, n]` of floats.
///
/// The first derivative is the adjugate, also at singular matrices. Derivatives of every order are right at
/// matrices of every rank. The error of a derivative of order k is some rounding errors of the derivative or of
/// `|A|^(n - k)`, whichever is larger. Second derivatives have up to a quarter of the digits less at regular
/// matrices with condition numbers up to `1/ε^(1/4)` (8000 for f64, 54 for f32), where they are computed from an LU
/// factorization and not from singular values.
///
/// The determinant itself may be out of the range of the dtype. Derivatives of order k are right where
/// `|A|^(n - k)` is in range, those beyond the third where `|A|^(n - 3)` is, too.
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
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
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
        let f = ConstantFactors::of(a);
        f.derivative(Point { name: "det", at, constants: &[], a }, &[])
    })
}

/// Appends two axes of extent 1 to `x`.
fn wide(x: Var) -> Var {
    x.expand_dims(-1).expand_dims(-1)
}

/// Selects per matrix of a batch: elements of `x` if `on` (bool, one element per matrix) is true, else elements of `y`.
fn chosen(on: Var, x: Var, y: Var) -> Var {
    let wide = (on.rank()..x.rank()).fold(on, |on, _| on.expand_dims(-1));
    select(wide.broadcast_to(x.shape()), x, y)
}

/// Returns whether an element of `on` (bool, one element per matrix) is true.
fn any(on: Var) -> Var {
    if on.rank() == 0 { on } else { on.any() }
}

/// Returns the determinants, 1 or -1, of orthogonal matrices.
fn sign_of_orthogonal(q: Var) -> Var {
    let f = lu_factor(q);
    parity(f, q.dtype()) * f.packed.diagonal().signum().prod_axis(-1)
}

/// Derivatives of orders below this one have rules. Higher derivatives differentiate the program of [`higher`].
const RULES: usize = 3;

/// LU factors of a batch of matrices. Derivatives of all orders share these factors and treat them as constants.
#[derive(Clone, Copy)]
struct ConstantFactors {
    /// The matrices, `[.., n, n]`.
    a: Var,
    /// `L` below the diagonal, and `U` on and above it: `[.., n, n]`.
    packed: Var,
    /// The index, in the matrix, of each row of the product `L U`: `[.., n]`.
    permutation: Var,
    /// The diagonal of `U`, `[.., n]`.
    pivots: Var,
    /// The signs of the permutations, `[..]`.
    sign: Var,
}

impl ConstantFactors {
    fn of(a: Var) -> ConstantFactors {
        let a = a.stop_gradient();
        let f = lu_factor(a);
        let LuFactors { packed, permutation, .. } = f;
        ConstantFactors {
            a,
            packed,
            permutation,
            pivots: packed.diagonal(),
            sign: parity(f, a.dtype()),
        }
    }

    /// Returns the derivative of the determinant along `directions`. The order of the derivative is the number of
    /// directions; without directions, the determinant is returned.
    fn derivative(self, point: Point<'_>, directions: &[Var]) -> Var {
        if directions.len() >= RULES {
            return higher(point.a, directions);
        }
        let value = |_: &[Var], directions: &[Var]| match *directions {
            [x] => (self.slope() * x).sum_axis([-2, -1]),
            [x, y] => self.factors().second(x, y),
            _ => self.sign * self.pivots.prod_axis(-1),
        };
        let rule = |_: &[Var], a: Var, directions: &[Var], da: Var| {
            self.derivative(Point { a, ..point }, &[directions, &[da]].concat())
        };
        point.link(directions, &value, Some(&rule))
    }

    /// Returns the inverse of `P = Π L`, the left factor of the decomposition `A = P D Q`.
    fn left(self) -> Var {
        let own = iota(self.a.shape(), self.a.rank() - 1, Dtype::I32);
        let rows = self.permutation.expand_dims(-1).eq(own).convert(self.a.dtype());
        solve_triangular(self.packed, rows, Triangle::LOWER.unit_diagonal())
    }

    /// Returns the solution of `D⁻¹ U x = b`. Pivots of zero are replaced by 1, because `nan_check` must not report a
    /// division by zero here: derivatives at singular matrices are computed from singular values instead.
    fn upper_solution(self, b: Var) -> Var {
        let divisors = chosen(self.pivots.eq(0.0), self.pivots.ones_like(), self.pivots);
        let unit = self.packed / divisors.expand_dims(-1);
        solve_triangular(unit, b, Triangle::UPPER.unit_diagonal())
    }

    /// Returns the transposed adjugates, which are the gradients of the determinants. If a pivot is nearly zero,
    /// singular values replace the LU factors. Otherwise the adjugate from the LU factors is as accurate as these
    /// factors, for any condition number.
    fn slope(self) -> Var {
        let products = self.sign.expand_dims(-1) * products_without_one(self.pivots);
        let slope = transposed(self.upper_solution(products.expand_dims(-1) * self.left()));
        let on = self.has_nearly_zero_pivot();
        let some = |slope: Var| chosen(on, Factors::by_singular_values(self.a).slope(), slope);
        cond(any(on), some, |slope: Var| slope, slope)
    }

    /// Returns, per matrix, whether a pivot is at most √ε times the largest pivot (absolute values). Such a pivot costs
    /// half of the digits.
    fn has_nearly_zero_pivot(self) -> Var {
        let pivots = self.pivots.abs();
        pivots.min_axis(-1).le(pivots.max_axis(-1) * epsilon(pivots.dtype()).sqrt())
    }

    /// Returns the factors for second derivatives. These are the LU factors, unless the condition number of the matrix
    /// is so large that second derivatives would lose more than a quarter of the digits; then they are the singular
    /// vectors and values.
    fn factors(self) -> Factors {
        let dtype = self.a.dtype();
        let unit = eye(self.a.shape()[self.a.rank() - 1], dtype).broadcast_to(self.a.shape());
        let (left, right) = (self.left(), self.upper_solution(unit));
        // Ill-conditioned matrices may have no small pivot (Kahan 1966), so the condition number is computed from the
        // inverse.
        let norm = |x: Var| x.abs().sum_axis(-2).max_axis(-1);
        let inverse = right.matmul(left / self.pivots.expand_dims(-1));
        let size = norm(self.a);
        let on = size.is_finite() & !(size * norm(inverse)).le(epsilon(dtype).powf(-0.25));
        let some = |(left, d, right, sign): (Var, Var, Var, Var)| {
            let f = Factors::by_singular_values(self.a);
            let choose = |x: Var, y: Var| chosen(on, x, y);
            (choose(f.left, left), choose(f.d, d), choose(f.right, right), choose(f.sign, sign))
        };
        let all = (left, self.pivots, right, self.sign);
        let (left, d, right, sign) = cond(any(on), some, |all: (Var, Var, Var, Var)| all, all);
        Factors { left, d, right, sign }
    }
}

/// Returns, for each element of the last axis, the product of all other elements of that axis, computed without a
/// division.
fn products_without_one(x: Var) -> Var {
    grad(|x: Var| x.prod_axis(-1).sum())(x)
}

/// The factors of matrices `A = P D Q`, where `D` is diagonal. Derivatives treat the factors as constants.
#[derive(Clone, Copy)]
struct Factors {
    /// `P⁻¹`, `[.., n, n]`.
    left: Var,
    /// The diagonal of `D`, `[.., n]`.
    d: Var,
    /// `Q⁻¹`, `[.., n, n]`.
    right: Var,
    /// The determinants of `P Q`, 1 or -1, `[..]`.
    sign: Var,
}

impl Factors {
    /// Returns the factors of the singular value decomposition: `P = U`, `D = S`, `Q = Vᵀ`.
    fn by_singular_values(a: Var) -> Factors {
        let scale = magnitude(a);
        let (u, s, vt) = svd(a / scale);
        let d = s * scale.sum_axis(-1);
        let sign = sign_of_orthogonal(u) * sign_of_orthogonal(vt);
        Factors { left: transposed(u), d, right: transposed(vt), sign }
    }

    /// Returns the transposed adjugates.
    fn slope(self) -> Var {
        let products = self.sign.expand_dims(-1) * products_without_one(self.d);
        transposed(self.right.matmul(products.expand_dims(-1) * self.left))
    }

    /// Returns the second derivative along two directions, by the formula in the documentation of this module.
    fn second(self, x: Var, y: Var) -> Var {
        let n = self.d.shape()[self.d.rank() - 1];
        let inside = |x: Var| self.left.matmul(x).matmul(self.right);
        let (x, y) = (inside(x), inside(y));
        let diagonal = eye(n, x.dtype()).ne(0.0).broadcast_to(x.shape());
        // Row i of `rows` is `d` with a 1 in place of d[i], so element (i, j) of `products` is the product of `d`
        // without d[i] and d[j]. On the diagonal the minors vanish but the products may be infinite, so these products
        // are set to 0.
        let rows = self.d.expand_dims(-2).broadcast_to(x.shape());
        let rows = select(diagonal, rows.ones_like(), rows);
        let products = select(diagonal, rows.zeros_like(), products_without_one(rows));
        let minors =
            x.diagonal().expand_dims(-1) * y.diagonal().expand_dims(-2) - x * transposed(y);
        self.sign * (products * minors).sum_axis([-2, -1])
    }
}

/// Returns the derivative of the determinant along three or more `directions`. The result may be differentiated
/// further.
fn higher(a: Var, directions: &[Var]) -> Var {
    fn along(directions: &[Var], a: Var) -> Var {
        match directions.split_last() {
            Some((last, others)) => jvp(|a: Var| along(others, a))((a, *last)).1,
            None => by_singular_values(a),
        }
    }
    let n = a.shape()[a.rank() - 1];
    let scale = magnitude(a);
    let derivative = along(directions, a / scale);
    // The derivative was computed for `a / scale`. The determinant is homogeneous of degree n, and each derivative
    // lowers the degree by 1, so multiply by `scale` to that degree.
    match n.checked_sub(directions.len()).map(i32::try_from) {
        Some(power) => derivative * scale.sum_axis([-2, -1]).powi(power.unwrap_or(i32::MAX)),
        None => derivative.zeros_like(),
    }
}

/// A singular value counts as small if it is at most this multiple of the largest singular value. The block of the
/// large singular values has a condition number below 8, so its LU factors lose at most one digit.
const SMALL: f64 = 0.125;

/// Returns the determinant as `det U · det M₁₁ · det C · det V`, for the singular vectors U and V, the block M₁₁ of the
/// large singular values, and its Schur complement C.
fn by_singular_values(a: Var) -> Var {
    let (dtype, frozen) = (a.dtype(), a.stop_gradient());
    let n = a.shape().last().copied().unwrap_or(0);
    let (u, s, vt) = svd(frozen);
    let sign = sign_of_orthogonal(u) * sign_of_orthogonal(vt);
    let is_small = s.le(s.slice_axis(-1, 0..1) * SMALL);
    let small = is_small.convert(dtype);
    let large = 1.0 - small;
    // Sets the elements of `x` outside of the given rows and columns to 0. `rows` and `columns` are vectors of ones and
    // zeros.
    let block =
        |x: Var, rows: Var, columns: Var| x * rows.expand_dims(-1) * columns.expand_dims(-2);
    let unit = eye(n, dtype);
    let x = transposed(u).matmul(a - frozen).matmul(transposed(vt));
    let m = unit * s.expand_dims(-2) + x;
    let first = block(m, large, large) + unit * small.expand_dims(-2);
    let between = solve(first, block(x, large, small));
    let rest = block(m, small, small) - block(x, small, large).matmul(between);
    // Faddeev and LeVerrier's recurrence for det C: N ← c I - C N, c ← tr(C N) / k in step k, starting from c = 1
    // and N = 0. If the block C has r rows, c is its determinant after r steps. Each matrix of a batch has its own r.
    let count = is_small.convert(Dtype::I64).sum_axis(-1);
    let most = if count.rank() == 0 { count } else { count.max() };
    let step = |(k, (sum, c)): (Var, (Var, Var))| {
        let next = unit * wide(c) * small.expand_dims(-2) - rest.matmul(sum);
        let trace = rest.matmul(next).diagonal().sum_axis(-1);
        let on = k.lt(count);
        let spread = wide(on).broadcast_to(sum.shape());
        (spread.select(next, sum), on.select(trace / (k + 1).convert(dtype), c))
    };
    let start = (a.zeros_like(), sign.ones_like());
    let (_, c) = fori_loop(most, step, start);
    let f = lu_factor(first);
    sign * parity(f, dtype) * f.packed.diagonal().prod_axis(-1) * c
}

/// Returns `(sign, ln |det|)`, each `[..]`, of square matrices `[.., n, n]` of floats. Use it if the determinant
/// overflows or underflows. For a singular matrix, the result is `(0, -inf)`. The derivative of the logarithm is
/// `A⁻ᵀ`.
///
/// ```
/// use tapeloom::prelude::*;
/// let (sign, log) = run(|a: Var| linalg::slogdet(a), [[1.0, 2.0], [4.0, 4.0]])?;
/// assert_eq!((sign.item::<f64>()?, log.item::<f64>()?), (-1.0, 4f64.ln()));
/// check_grads(|a: Var| linalg::slogdet(a).1, [[1.0, 2.0], [4.0, 4.0]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
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
