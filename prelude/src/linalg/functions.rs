//! Functions of matrices, and fits.

use super::solve::{lstsq, solve};
use super::square;
use crate::Var;
use crate::control::fori_loop;
use crate::ops::functions::eye;
use crate::ops::{number, wrong};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem};

/// The coefficients of the numerator of the Padé approximant of order 13 of the exponential; those of the denominator have
/// alternating signs.
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

/// The approximant has the accuracy of f64 for norms up to this.
const PADE_NORM: f64 = 5.371_920_351_148_152;

/// The exponential `Σ Aᵏ / k!` of square matrices `[.., n, n]`, floats.
///
/// By scaling and squaring with a Padé approximant of order 13 (Higham 2005); each matrix is squared as often as its norm says. Derivatives are those of the approximant, which has their accuracy, too.
///
/// ```
/// use tapeloom::prelude::*;
/// // A turn by one radian.
/// let turn = run(linalg::expm, [[0.0, -1.0], [1.0, 0.0]])?.to_vec::<f64>()?;
/// assert!((turn[0] - 1f64.cos()).abs() < 1e-15 && (turn[2] - 1f64.sin()).abs() < 1e-15);
/// check_grads(linalg::expm, [[0.0, -1.0], [8.0, 0.5]], 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` if the matrices are not square, `dtype` if they are not of floats.
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
        // A matrix that is not finite is not squared; its exponential is nan as it is.
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
        // A member of a batch is squared as often as it was halved, whatever the others are.
        let square = |(i, y): (Var, Var)| {
            let on = wide(i.lt(doublings)).broadcast_to(y.shape());
            on.select(y.matmul(y), y)
        };
        fori_loop(most, square, first)
    })
}

/// The coefficients of the polynomial of that degree that is nearest to points `(x, y)` by the sum of squares, the highest power
/// first: `[degree + 1]`, for vectors `x` and `y` of one length and a float dtype.
///
/// Columns are scaled before they are solved for, as in numpy.
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
/// Errors: `shape` if they are not vectors of one length, `dtype` if they are not floats of one type.
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
        return wrong(problem, &[x, y], ArrayType::new(tx.dtype, [degree + 1]), at);
    }
    on_behalf("polyfit", at, || {
        let powers = x.vander(degree + 1);
        let scale = (powers * powers).sum_axis(0).sqrt();
        lstsq(powers / scale, y) / scale
    })
}
