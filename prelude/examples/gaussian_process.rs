//! Regression with a Gaussian process: length scale and noise by maximum likelihood, then predictions with their
//! standard deviations.
//!
//! ```text
//! cargo run --release --example gaussian_process
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// The logarithms of the length scale and of the noise.
#[derive(Tree, Clone)]
struct Kernel<T> {
    length: T,
    noise: T,
}

/// Returns the covariances between the values at x and at y, [x, y].
fn covariance(k: &Kernel<Var>, x: Var, y: Var) -> Var {
    (-0.5 * ((x.expand_dims(1) - y) / k.length.exp()).square()).exp()
}

/// Returns the Cholesky factor of the covariance of observations at x.
fn factor(k: &Kernel<Var>, x: Var) -> Var {
    linalg::cholesky(covariance(k, x, x) + k.noise.exp().square() * eye(x.len(), Dtype::F64))
}

/// Returns the negative logarithm of the probability density of the observations y at x, up to a constant.
fn misfit(k: &Kernel<Var>, (x, y): (Var, Var)) -> Var {
    let l = factor(k, x);
    let white = linalg::solve_triangular(l, y, Triangle::LOWER);
    0.5 * white.square().sum() + l.diagonal().ln().sum()
}

/// Returns the predicted mean and standard deviation at the points `at`, given observations y at x.
fn predict(k: &Kernel<Var>, (x, y): (Var, Var), at: Var) -> (Var, Var) {
    let (l, across) = (factor(k, x), covariance(k, at, x));
    let white = linalg::solve_triangular(l, across.t(), Triangle::LOWER);
    (across.dot(linalg::cho_solve(l, y)), (1.0 - white.square().sum_axis(0)).sqrt())
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let points = |start, n| (0..n).map(|i| start + 0.5 * f64::from(i)).collect::<Tensor>();
    let f = |x: Var| x.sin() + 0.3 * (2.0 * x).cos();
    let (x, left_out) = (points(0.0, 14), points(0.25, 13));
    let (y, truth) = run(|(x, z): (Var, Var)| (f(x), f(z)), (&x, &left_out))?;

    let fit = jit(|(k, data): (Kernel<Var>, (Var, Var))| {
        let before = misfit(&k, data);
        let (k, outcome) = optim::bfgs().minimize(|k: Kernel<Var>| misfit(&k, data), k);
        (k, before, outcome.value)
    });
    let start = Kernel { length: Tensor::from(-1.0), noise: Tensor::from(-2.0) };
    let (k, before, after) = fit.call((&start, (&x, &y)))?;
    let predicted = |(k, data, at): (Kernel<Var>, (Var, Var), Var)| predict(&k, data, at);
    let (found, deviation) = run(predicted, (&k, (&x, &y), &left_out))?;
    println!("log length {:.3}, log noise {:.3}", k.length, k.noise);
    println!(
        "misfit {before:.2} to {after:.2}\ntruth {truth:.3}\nfound {found:.3}\n  +-  {deviation:.3}"
    );
    assert!(after.item::<f64>()? + 3.0 < before.item::<f64>()?);
    let missed = run(|(x, y): (Var, Var)| (x - y).abs().max(), (&found, &truth))?;
    assert!(missed.item::<f64>()? < 0.1);
    Ok(())
}
