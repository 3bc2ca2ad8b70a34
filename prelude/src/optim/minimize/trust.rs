//! The step p of the Levenberg-Marquardt method: the solution of a least squares problem within a trust region of
//! radius Δ.
//!
//! ```text
//! p = argmin |r + J p|   with |D p| ≤ Δ
//!   = -(JᵀJ + λD²)⁻¹ Jᵀr   with λ = 0, or |D p| = Δ
//! ```
//!
//! Given J = Q R, the system for one λ is the least squares problem of R stacked on √λ D. It is solved by another QR
//! factorization. So no product JᵀJ is formed, whose condition number is the square of that of J. λ is found by
//! Newton's method for `1/|D p| = 1/Δ`, within bounds.
//!
//! Source: Moré, *The Levenberg-Marquardt algorithm: implementation and theory* (1978); MINPACK's `lmpar`. Instead of
//! exchanging columns, a matrix R of deficient rank gets a λ above 0.

use super::levenberg_marquardt::Place;
use crate::control::while_loop;
use crate::dtype::epsilon;
use crate::linalg::{Triangle, qr, solve_triangular};
use crate::ops::functions::{concat, eye, select, zeros};
use crate::{Tree, Var, constant};
use tapeloom_ir::Dtype;

/// A damping parameter λ is accepted if the scaled length |D p| of its step differs from the radius Δ by at most this
/// multiple of Δ.
const SLACK: f64 = 0.1;
/// The largest number of damping parameters λ that are tried.
const TRIALS: i64 = 10;

/// Returns a positive number near the smallest number of the dtype. It replaces a damping parameter λ of 0.
pub(super) fn tiny(dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { 1e-37 } else { 1e-300 }
}

/// Returns the Euclidean lengths of the columns of a matrix. The result is right even if squares of elements overflow
/// or underflow.
pub(super) fn lengths(columns: Var) -> Var {
    if columns.shape()[0] == 0 {
        return columns.sum_axis(0);
    }
    let size = columns.abs().max_axis(0);
    let scale = select(size.gt(0.0) & size.is_finite(), size, 1.0);
    scale * (columns / scale).square().sum_axis(0).sqrt()
}

/// Returns the Euclidean length of a vector.
pub(super) fn length(v: Var) -> Var {
    lengths(v.expand_dims(1)).index(0)
}

/// Returns R and `Qᵀ r` for a matrix Q R with at least as many rows as columns: the least squares problem `matrix · p ≈
/// r`, reduced to a triangular system.
pub(super) fn reduced(matrix: Var, r: Var) -> (Var, Var) {
    let n = matrix.shape()[1];
    let both = qr(concat(&[matrix, r.expand_dims(1)], 1)).1.slice_axis(0, 0..n);
    (both.slice_axis(1, 0..n), both.slice_axis(1, n..).squeeze(1))
}

/// Returns whether the factor R of a matrix with the given number of rows is singular up to rounding errors.
pub(super) fn is_deficient(factor: Var, rows: usize) -> Var {
    let n = factor.shape()[1];
    let rounding = epsilon(factor.dtype()) * rows.max(10 * n) as f64;
    factor.diagonal().abs().le(rounding * lengths(factor)).any()
}

/// The state of the search for the damping parameter λ.
#[derive(Tree, Clone, Copy)]
struct Trial<T> {
    lambda: T,
    low: T,
    high: T,
    p: T,
    /// The scaled length |D p| of the step `p`, minus the radius Δ of the trust region.
    excess: T,
    count: T,
    done: T,
}

/// Returns λ and the step p from a point, where D has the diagonal `d` and Δ is `radius`. The search for λ starts at
/// `lambda`, the λ of the previous step.
pub(super) fn step(place: &Place<Var>, d: Var, radius: Var, lambda: Var) -> (Var, Var) {
    let (r, q) = (place.factor, place.rotated);
    let (n, dtype) = (q.shape()[0], q.dtype());
    let tiny = tiny(dtype);
    let free = -solve_triangular(r, q, Triangle::UPPER);
    let size = length(d * free);
    let regular = !is_deficient(r, n);
    // Returns Newton's correction of λ, given the step `p` for this λ, its length `size`, and the triangle `t` of the
    // system that determines `p`.
    let correction = |t: Var, p: Var, size: Var| {
        let w = solve_triangular(t, d * (d * p / size), Triangle::UPPER.transposed());
        (size - radius) / radius / length(w).square()
    };
    let slope = length(select(place.free, place.gradient, 0.0) / d);
    let high = slope / radius;
    let high = select(high.gt(0.0), high, tiny / radius.minimum(0.1));
    let low = select(regular, correction(r, free, size).maximum(0.0), 0.0);
    let first = lambda.maximum(low).minimum(high);
    let guess = select(regular, slope / size, 1e-3 * high);
    let count = constant(0i64);
    let start = Trial {
        lambda: select(first.gt(0.0), first, guess),
        low,
        high,
        p: free,
        excess: select(regular, size - radius, f64::INFINITY),
        count,
        done: regular & (size - radius).le(SLACK * radius),
    };
    let again = |t: Trial<Var>| !t.done & t.count.lt(TRIALS);
    let next = |t: Trial<Var>| {
        let lambda = select(t.lambda.gt(0.0), t.lambda, (1e-3 * t.high).maximum(tiny));
        let damping = eye(n, dtype) * (lambda.sqrt() * d);
        let (r, q) = reduced(concat(&[r, damping], 0), concat(&[q, zeros([n], dtype)], 0));
        let p = -solve_triangular(r, q, Triangle::UPPER);
        let size = length(d * p);
        let excess = size - radius;
        // If `r` is singular and the steps of all tried `lambda` are shorter than the radius, accept the longest of
        // these steps.
        let longest = t.low.eq(0.0) & excess.le(t.excess) & t.excess.lt(0.0);
        let done = excess.abs().le(SLACK * radius) | longest;
        let low = select(excess.gt(0.0), t.low.maximum(lambda), t.low);
        let high = select(excess.lt(0.0), t.high.minimum(lambda), t.high);
        let better = (lambda + correction(r, p, size)).maximum(low);
        let last = done | t.count.eq(TRIALS - 1);
        let lambda = select(last, lambda, better);
        Trial { lambda, low, high, p, excess, count: t.count + 1, done }
    };
    let end = while_loop(again, next, start);
    let damped = end.count.gt(0);
    (select(damped, end.lambda, 0.0), select(place.free, end.p, 0.0))
}
