//! Matrix functions, and polynomial fits.

use super::factors::lu_factor;
use super::solve::{lstsq, solve};
use super::square;
use crate::Var;
use crate::control::{fori_loop, while_loop};
use crate::ops::functions::{constant, eye};
use crate::ops::{number, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem};

/// The coefficients of the numerator of the Padé approximant of order 13 of the exponential. Those of the
/// denominator have alternating signs.
const PADE: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// The largest column-sum norm of a matrix for which the Padé approximant of its exponential has the accuracy of f64.
const PADE_NORM: f64 = 5.371_920_351_148_152;

/// Returns the exponential `Σ Aᵏ / k!` of square matrices `[.., n, n]`, floats.
///
/// It is computed by scaling and squaring with a Padé approximant of order 13 (Higham 2005); the number of
/// squarings of each matrix depends on its norm. Derivatives are those of the approximant, and are as accurate as
/// values.
///
/// ```
/// use tapeloom::prelude::*;
/// // A rotation by one radian.
/// let turn = run(linalg::expm, [[0.0, -1.0], [1.0, 0.0]])?.to_vec::<f64>()?;
/// assert!((turn[0] - 1f64.cos()).abs() < 1e-15 && (turn[2] - 1f64.sin()).abs() < 1e-15);
/// check_grads(linalg::expm, [[0.0, -1.0], [8.0, 0.5]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[doc(alias = "matrix_exp")]
#[track_caller]
pub fn expm(a: Var) -> Var {
    let at = caller();
    let n = match square("expm", a, at) {
        Ok(0) => return a,
        Ok(n) => n,
        Err(problem) => return wrong(problem, &[a], a.ty(at), at),
    };
    on_behalf("expm", at, || {
        let norm = a.stop_gradient().abs().sum_axis(-2).max_axis(-1);
        let doublings = (norm / PADE_NORM).log2().ceil();
        // A matrix with infinite or nan elements would have no finite number of squarings. It is not squared; its
        // exponential is nan anyway.
        let doublings = doublings.is_finite().select(doublings, doublings.zeros_like());
        let doublings = doublings.clamp(0.0, 1100.0).convert(Dtype::I64);
        let wide = |x: Var| x.expand_dims(-1).expand_dims(-1);
        let x = a * wide(number(a, 0.5).pow(doublings.convert(a.dtype())));
        let unit = eye(n, a.dtype()).broadcast_to(a.shape());
        let (x2, b) = (x.matmul(x), PADE);
        let x4 = x2.matmul(x2);
        let x6 = x4.matmul(x2);
        let series = |high: [f64; 3], low: [f64; 4]| {
            let first = x6.matmul(x6 * high[0] + x4 * high[1] + x2 * high[2]);
            first + x6 * low[0] + x4 * low[1] + x2 * low[2] + unit * low[3]
        };
        let odd = x.matmul(series([b[13], b[11], b[9]], [b[7], b[5], b[3], b[1]]));
        let even = series([b[12], b[10], b[8]], [b[6], b[4], b[2], b[0]]);
        let first = solve(even - odd, even + odd);
        let most = if doublings.rank() == 0 { doublings } else { doublings.max() };
        // The loop runs as often as the member with the most halvings needs. Each member of a batch is squared only as
        // often as it was halved.
        let square = |(i, y): (Var, Var)| {
            let on = wide(i.lt(doublings)).broadcast_to(y.shape());
            on.select(y.matmul(y), y)
        };
        fori_loop(most, square, first)
    })
}

/// If all elements of the iterate `M` of [`sqrtm`] differ from those of the identity by at most this number, the
/// remaining steps converge without scaling.
const NEAR: f64 = 1e-3;

/// The number of unscaled steps of [`sqrtm`], once `M` is within [`NEAR`] of the identity. The error of the root is
/// 1e-7 after the first of these steps, then 1e-14 and 1e-28; the error of a derivative of order k is k steps behind.
const LAST_STEPS: usize = 4;

/// The largest number of scaled steps of [`sqrtm`]. A matrix that has a root needs fewer: the number grows as the
/// logarithm of the angle between an eigenvalue and the negative axis.
const MOST_STEPS: i64 = 60;

/// Returns the principal square roots of square matrices `[.., n, n]`, floats: the real `X` with `X X = A` whose
/// eigenvalues have positive real parts. A matrix with a negative eigenvalue has no such root, and the root of a
/// singular matrix has no derivative. In both cases the result is nan, and other members of a batch are not affected.
/// (For a symmetric matrix that may be singular, use [`sqrtm_psd`](super::sqrtm_psd).)
///
/// It is computed by the product form of the iteration of Denman and Beavers, scaled by determinants (N. Higham,
/// *Functions of Matrices* (2008), 6.29):
///
/// ```text
/// M ← (1 + (μ² M + μ⁻² M⁻¹) / 2) / 2        X ← μ X (1 + μ⁻² M⁻¹) / 2        M = X = A at first, μ = |det M|^(-1/2n)
/// ```
///
/// `M` equals `X A⁻¹ X` in every step, for any scaling, so `μ` is a constant for derivatives. Derivatives are those
/// of the iteration. They converge to the solution `dX` of `X dX + dX X = dA` as fast as `X` converges to the root,
/// because `X` and `dX` together are the iterate of the block matrix `A, dA` over `0, A`.
///
/// ```
/// use tapeloom::prelude::*;
/// let a = [[33.0, 24.0], [48.0, 57.0]];
/// let root = run(linalg::sqrtm, a)?.to_vec::<f64>()?;
/// assert!(root.iter().zip([5.0, 2.0, 4.0, 7.0]).all(|(x, want)| (x - want).abs() < 1e-13));
/// check_grads(linalg::sqrtm, a, 2)?;
/// // This matrix has a negative eigenvalue.
/// assert!(run(linalg::sqrtm, [[-1.0, 0.0], [0.0, 4.0]])?.to_vec::<f64>()?[0].is_nan());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not floats.
#[track_caller]
pub fn sqrtm(a: Var) -> Var {
    let at = caller();
    let n = match square("sqrtm", a, at) {
        Ok(0) => return a,
        Ok(n) => n,
        Err(problem) => return wrong(problem, &[a], a.ty(at), at),
    };
    on_behalf("sqrtm", at, || {
        let unit = eye(n, a.dtype()).broadcast_to(a.shape());
        let wide = |x: Var| x.expand_dims(-1).expand_dims(-1);
        let step = |(x, m): (Var, Var), mu: Option<Var>| {
            let inverse = solve(m, unit);
            match mu {
                None => ((x + x.matmul(inverse)) * 0.5, (unit + (m + inverse) * 0.5) * 0.5),
                Some(mu) => {
                    let (square, inverse) = (mu * mu, inverse / (mu * mu));
                    let m = (unit + (square * m + inverse) * 0.5) * 0.5;
                    (mu * (x + x.matmul(inverse)) * 0.5, m)
                }
            }
        };
        let off = |m: Var| (m - unit).stop_gradient().abs().max_axis([-2, -1]);
        // A comparison with nan is false, so an iterate of nan does not count as far and ends the iteration.
        let far = move |m: Var| off(m).gt(NEAR);
        let any = |x: Var| if x.rank() == 0 { x } else { x.any() };
        let scaled = |(x, m, i): (Var, Var, Var)| {
            let pivots = lu_factor(m.stop_gradient()).packed.diagonal();
            let mu = wide((pivots.abs().ln().mean_axis(-1) * -0.5).exp());
            // The loop runs until all members of a batch have converged. Members that have converged are not changed
            // any more.
            let on = wide(far(m)).broadcast_to(a.shape());
            let (next, new) = step((x, m), Some(mu));
            (on.select(next, x), on.select(new, m), i + 1)
        };
        let going = |(_, m, i): (Var, Var, Var)| any(far(m)) & i.lt(MOST_STEPS);
        let (x, m, _) = while_loop(going, scaled, (a, a, constant(0i64)));
        let found = wide(off(m).le(NEAR)).broadcast_to(a.shape());
        let (x, _) = (0..LAST_STEPS).fold((x, m), |state, _| step(state, None));
        // Where no root was found, multiply by nan instead of selecting nan, so that derivatives are nan as well.
        x * found.select(x.ones_like(), f64::NAN)
    })
}

/// Fits a polynomial of degree `degree` to points `(x, y)` by least squares. Returns its coefficients, the highest
/// power first: `[degree + 1]`, for vectors `x` and `y` of the same length and float dtype.
///
/// Columns of the system are scaled before it is solved, as in numpy.
///
/// ```
/// use tapeloom::prelude::*;
/// let fit = |(x, y): (Var, Var)| linalg::polyfit(x, y, 2);
/// let (x, y) = ([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 5.0, 10.0]);
/// let parabola = run(fit, (x, y))?.to_vec::<f64>()?;
/// assert!(parabola.iter().zip([1.0, 0.0, 1.0]).all(|(c, want)| (c - want).abs() < 1e-13));
/// check_grads(fit, (x, y), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if `x` and `y` are not vectors of the same length, `dtype` if they are not floats of one dtype.
#[track_caller]
pub fn polyfit(x: Var, y: Var, degree: usize) -> Var {
    let at = caller();
    let (tx, ty) = (x.ty(at), y.ty(at));
    let message = format!("`polyfit` of {tx} and {ty}");
    let wanted = if tx.dtype != ty.dtype || !tx.dtype.is_float() {
        Some(Problem::new(Kind::Dtype, message, "both must be floats of one type"))
    } else if tx.shape.len() != 1 || tx.shape != ty.shape {
        Some(Problem::new(Kind::Shape, message, "both must be vectors of one length"))
    } else {
        None
    };
    if let Some(problem) = wanted {
        return wrong(problem, &[x, y], ArrayType::new(tx.dtype, [degree.saturating_add(1)]), at);
    }
    on_behalf("polyfit", at, || {
        let powers = x.vander(degree.saturating_add(1));
        let scale = (powers * powers).sum_axis(0).sqrt();
        lstsq(powers / scale, y) / scale
    })
}
