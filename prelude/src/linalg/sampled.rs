//! Random vectors with a covariance, and random rotations.

use super::{Triangle, cholesky, qr, solve_triangular};
use crate::Var;
use crate::ops::wrong;
use crate::prng::normal;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Checks that a mean has the shape `[n]`, a covariance the shape `[n, n]`, and both one float dtype. Returns an error
/// if not.
fn misfit(name: &str, mean: &ArrayType, covariance: &ArrayType) -> Option<Problem> {
    let message = format!("`{name}` of a mean {mean} and a covariance {covariance}");
    if !mean.dtype.is_float() || mean.dtype != covariance.dtype {
        return Some(Problem::new(Kind::Dtype, message, "both must be floats of one type"));
    }
    match (&mean.shape[..], &covariance.shape[..]) {
        ([n], [rows, columns]) if n == rows && n == columns => None,
        _ => Some(Problem::new(Kind::Shape, message, "a mean [n] and a covariance [n, n]")),
    }
}

/// Draws vectors of the normal distribution with the given mean `[n]` and covariance `[n, n]`: `[shape.., n]`, of
/// their float dtype.
///
/// A vector is `mean + L z`, where `L` is the Cholesky factor and `z` is a standard normal vector, so it is
/// differentiable with respect to mean and covariance. If the covariance is not positive definite, the result is
/// nan.
///
/// Errors: `shape` if mean and covariance do not fit, `dtype` if they are not floats of one dtype; `dtype` or
/// `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let (mean, covariance) = ([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]);
/// let draw = |(m, c): (Var, Var)| linalg::multivariate_normal(random::key(3), m, c, [2000]);
/// let x = run(draw, (mean, covariance))?;
/// let center = run(|x: Var| x.mean_axis(0), &x)?.to_vec::<f64>()?;
/// assert!((center[0] - 1.0).abs() < 0.1 && (center[1] + 1.0).abs() < 0.1);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "MultivariateNormal")]
#[track_caller]
pub fn multivariate_normal(
    key: Var,
    mean: impl IntoVar,
    covariance: Var,
    shape: impl Into<Shape>,
) -> Var {
    let at = caller();
    let mean = mean.beside(covariance, at);
    let (tm, tc) = (mean.ty(at), covariance.ty(at));
    let n = tm.shape.first().copied().unwrap_or(1);
    let mut all = shape.into().to_vec();
    all.push(n);
    if let Some(problem) = misfit("multivariate_normal", &tm, &tc) {
        let guess = ArrayType::new(tm.dtype, &all[..]);
        return wrong(problem, &[mean, covariance], guess, at);
    }
    on_behalf("multivariate_normal", at, || {
        let z = normal(key, &all[..], tm.dtype);
        mean + z.dot(cholesky(covariance).t())
    })
}

/// Returns the logarithm of the density of the normal distribution with the given mean `[n]` and covariance
/// `[n, n]` at `x` of shape `[.., n]`, all of one float dtype; the result is `[..]`.
///
/// Errors: `shape` if the arguments do not fit, `dtype` if they are not floats of one dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let log = |(x, m, c): (Var, Var, Var)| linalg::multivariate_normal_logpdf(x, m, c);
/// let y = run(log, ([1.0, 2.0], [0.0, 0.0], [[1.0, 0.0], [0.0, 4.0]]))?.item::<f64>()?;
/// assert!((y - (-1.0 - 2f64.ln() - (2.0 * std::f64::consts::PI).ln())).abs() < 1e-14);
/// check_grads(log, ([1.0, 2.0], [0.5, 0.0], [[1.0, 0.25], [0.25, 4.0]]), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "multivariate_normal.logpdf")]
#[track_caller]
pub fn multivariate_normal_logpdf(x: Var, mean: impl IntoVar, covariance: Var) -> Var {
    let at = caller();
    let mean = mean.beside(x, at);
    let (tx, tm, tc) = (x.ty(at), mean.ty(at), covariance.ty(at));
    let name = "multivariate_normal_logpdf";
    let fits = tx.dtype == tm.dtype && tx.shape.last() == tm.shape.first();
    let problem = misfit(name, &tm, &tc).or((!fits).then(|| {
        let message = format!("`{name}` at {tx} with a mean {tm}");
        Problem::new(Kind::Shape, message, "the last axis of x is that of the mean, of one dtype")
    }));
    if let Some(problem) = problem {
        let guess = ArrayType::new(tx.dtype, &tx.shape[..tx.shape.len().saturating_sub(1)]);
        return wrong(problem, &[x, mean, covariance], guess, at);
    }
    on_behalf(name, at, || log_density(x - mean, covariance, at))
}

/// Returns `-½ |L⁻¹ d|² - Σ ln L[i, i] - ½ n ln 2π`, where `L` is the Cholesky factor of `covariance` and `d` are the
/// deviations from the mean.
fn log_density(d: Var, covariance: Var, at: Loc) -> Var {
    let shape = d.ty(at).shape;
    let n = shape[shape.len() - 1];
    let l = cholesky(covariance);
    let columns = d.reshape([shape.elements() / n.max(1), n]).t();
    let white = solve_triangular(l, columns, Triangle::LOWER).square().sum_axis(0);
    let constant = l.diagonal().ln().sum() + 0.5 * n as f64 * (2.0 * std::f64::consts::PI).ln();
    (-0.5 * white - constant).reshape(&shape[..shape.len() - 1])
}

/// Returns the entropy of the normal distribution with covariance `[n, n]`, ½ ln det(2πe covariance).
///
/// Errors: `shape` if the covariance is not a square matrix, `dtype` if it is not of floats.
///
/// ```
/// use tapeloom::prelude::*;
/// let h = run(linalg::multivariate_normal_entropy, [[4.0, 0.0], [0.0, 0.25]])?;
/// assert!((h.item::<f64>()? - (2.0 * std::f64::consts::PI).ln() - 1.0).abs() < 1e-15);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn multivariate_normal_entropy(covariance: Var) -> Var {
    let at = caller();
    let name = "multivariate_normal_entropy";
    let tc = covariance.ty(at);
    let square = matches!(&tc.shape[..], [rows, columns] if rows == columns);
    let message = || format!("`{name}` of a covariance {tc}");
    let problem = if !tc.dtype.is_float() {
        Problem::new(Kind::Dtype, message(), "a covariance is of floats")
    } else if square {
        return on_behalf(name, at, || {
            let half = 0.5 * tc.shape[0] as f64 * (1.0 + (2.0 * std::f64::consts::PI).ln());
            cholesky(covariance).diagonal().ln().sum() + half
        });
    } else {
        Problem::new(Kind::Shape, message(), "a covariance is [n, n]")
    };
    wrong(problem, &[covariance], ArrayType::new(tc.dtype, []), at)
}

/// Returns the divergence KL(p ‖ q) of two normal distributions of vectors, each given as a mean `[n]` and a covariance
/// `[n, n]`, all of one float dtype.
///
/// Errors: `shape` if the arguments do not fit, `dtype` if they are not floats of one dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let kl = |(m, c): (Var, Var)| linalg::multivariate_normal_kl((m, c), (m + 1.0, 2.0 * c));
/// let y = run(kl, ([0.0, 3.0], [[2.0, 0.0], [0.0, 2.0]]))?.item::<f64>()?;
/// assert!((y - (0.25 - 0.5 + 2f64.ln())).abs() < 1e-15);
/// check_grads(kl, ([0.0, 3.0], [[2.0, 0.5], [0.5, 1.0]]), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn multivariate_normal_kl(
    (mean, covariance): (impl IntoVar, Var),
    (other_mean, other_covariance): (impl IntoVar, Var),
) -> Var {
    let at = caller();
    let name = "multivariate_normal_kl";
    let (mean, other_mean) = (mean.beside(covariance, at), other_mean.beside(covariance, at));
    let [tm, tc] = [mean, covariance].map(|x| x.ty(at));
    let [other_tm, other_tc] = [other_mean, other_covariance].map(|x| x.ty(at));
    let problem = misfit(name, &tm, &tc).or(misfit(name, &other_tm, &other_tc)).or_else(|| {
        let message = format!("`{name}` of means {tm} and {other_tm}");
        let help = "both are vectors of one length and one dtype";
        let kind = if tm.dtype == other_tm.dtype { Kind::Shape } else { Kind::Dtype };
        (tm != other_tm).then(|| Problem::new(kind, message, help))
    });
    if let Some(problem) = problem {
        let operands = [mean, covariance, other_mean, other_covariance];
        return wrong(problem, &operands, ArrayType::new(tm.dtype, []), at);
    }
    on_behalf(name, at, || {
        let [l, other] = [covariance, other_covariance].map(cholesky);
        // The divergence is ½ (|K⁻¹ L|² + |K⁻¹ d|² - n) + ln det K - ln det L, where L and K are the Cholesky factors
        // of the covariances of p and q, d is the difference of the means, and n is the dimension.
        let ratio = solve_triangular(other, l, Triangle::LOWER).square().sum();
        let shift = solve_triangular(other, mean - other_mean, Triangle::LOWER).square().sum();
        let log = (other.diagonal().ln() - l.diagonal().ln()).sum();
        0.5 * (ratio + shift - tm.shape[0] as f64) + log
    })
}

/// Draws random orthogonal matrices `[shape.., n, n]`, uniformly distributed over the orthogonal group (Haar
/// measure): the orthogonal factors of normal matrices whose triangular factors have positive diagonals (Stewart
/// 1980).
///
/// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
///
/// ```
/// use tapeloom::prelude::*;
/// let square = run(|()| {
///     let q = linalg::orthogonal(random::key(5), 3, [], Dtype::F64);
///     q.matmul(q.t())
/// }, ())?;
/// let unit = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
/// assert!(square.to_vec::<f64>()?.iter().zip(unit).all(|(x, y)| (x - y).abs() < 1e-14));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn orthogonal(key: Var, n: usize, shape: impl Into<Shape>, dtype: Dtype) -> Var {
    let at = caller();
    let mut all = shape.into().to_vec();
    all.extend([n, n]);
    on_behalf("orthogonal", at, || qr(normal(key, &all[..], dtype)).0)
}
