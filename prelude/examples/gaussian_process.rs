//! Regression with a Gaussian process: predictions by conjugate gradients, and a length scale found
//! by the derivative of what they miss on points left out.
//!
//! ```text
//! cargo run --release --example gaussian_process
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// Logarithms of the length scale and of the noise.
#[derive(Tree, Clone)]
struct Kernel<T> {
    length: T,
    noise: T,
}

/// Covariances of the values at x and at y, [x, y].
fn covariance(k: &Kernel<Var>, x: Var, y: Var) -> Var {
    (-0.5 * ((x.expand_dims(1) - y) / k.length.exp()).square()).exp()
}

/// The x with A x = b, for A symmetric and positive (Hestenes and Stiefel, 1952).
fn conjugate_gradients(a: Var, b: Var, iterations: usize) -> Var {
    let (mut x, mut r, mut p) = (b.zeros_like(), b, b);
    for _ in 0..iterations {
        let (ap, rr) = (a.dot(p), r.dot(r));
        let alpha = rr / (p.dot(ap) + 1e-30);
        (x, r) = (x + alpha * p, r - alpha * ap);
        p = r + r.dot(r) / (rr + 1e-30) * p;
    }
    x
}

/// The mean at `at`, given values y at x.
fn predict(k: &Kernel<Var>, (x, y): (Var, Var), at: Var) -> Var {
    let noise = k.noise.exp().square() * eye(x.len(), Dtype::F64);
    covariance(k, at, x).dot(conjugate_gradients(covariance(k, x, x) + noise, y, 20))
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let points =
        |start: f64, n: i32| (0..n).map(|i| start + 0.5 * f64::from(i)).collect::<Vec<_>>();
    let f = |x: Var| x.sin() + 0.3 * (2.0 * x).cos();
    let (x, left_out) = (Tensor::from(points(0.0, 14)), Tensor::from(points(0.25, 13)));
    let (y, truth) = run(|(x, z): (Var, Var)| (f(x), f(z)), (&x, &left_out))?;

    let step = jit(|(k, data, at, truth): (Kernel<Var>, (Var, Var), Var, Var)| {
        let missed = |k: Kernel<Var>| (predict(&k, data, at) - truth).square().mean().ln();
        let (loss, g) = value_and_grad(missed)(k.clone());
        (loss, tree_map2(|k, g| k - 0.05 * g, &k, &clip_by_global_norm(&g, 1.0)))
    });
    let mut k = Kernel { length: Tensor::from(-1.0), noise: Tensor::from(-2.0) };
    let (mut first, mut loss) = (None, Tensor::from(0.0));
    for _ in 0..60 {
        (loss, k) = step.call((&k, (&x, &y), &left_out, &truth))?;
        first.get_or_insert(loss.item::<f64>()?);
    }
    let mean = |(k, data, at): (Kernel<Var>, (Var, Var), Var)| predict(&k, data, at);
    let found = run(mean, (&k, (&x, &y), &left_out))?;
    println!("log length {:.3}, log noise {:.3}, log of the error {loss:.2}", k.length, k.noise);
    println!("truth {truth:.3}\nfound {found:.3}");
    assert!(Some(loss.item::<f64>()? + 3.0) < first);
    Ok(())
}
