//! Linear algebra to measure: factorizations and solves of several orders, single and batched, with their gradients;
//! the likelihood of a Gaussian process; and the likelihood of a Kalman filter. `tests/peers/linalg.py` measures the
//! same in JAX and numpy.

use tapeloom::prelude::*;

/// A measured scalar function of symmetric positive definite matrices `[.., n, n]`.
pub type Loss = fn(Var) -> Var;

/// Returns `Σ x³ + x`: a cheap scalar function of all elements whose derivative is not constant.
fn cubed(x: Var) -> Var {
    ((x * x + 1.0) * x).sum()
}

/// The measured routines, each with a scalar function of all its results.
pub const ROUTINES: [(&str, Loss); 5] = [
    ("cholesky", |a| cubed(linalg::cholesky(a))),
    ("solve", |a| cubed(linalg::solve(a, a.slice_axis(-1, 0..1)))),
    ("qr", |a| {
        let (q, r) = linalg::qr(a);
        cubed(q) + cubed(r)
    }),
    ("eigh", |a| {
        let (w, v) = linalg::eigh(a);
        cubed(w) + cubed(v)
    }),
    ("svd", |a| {
        let (u, s, vt) = linalg::svd(a);
        cubed(u) + cubed(s) + cubed(vt)
    }),
];

/// The measured sizes: the number of matrices in a batch, if any, and the order of the matrices.
pub const SIZES: [(Option<usize>, usize); 7] = [
    (None, 4),
    (None, 16),
    (None, 64),
    (None, 256),
    (None, 1024),
    (Some(1000), 4),
    (Some(1000), 16),
];

/// Returns one positive definite matrix of order n, or a batch of them: the symmetric part of
/// `A[i, j] = cos(i j + b) / n`, with i + 2 added to the diagonal.
///
/// # Errors
/// The errors of a call.
pub fn matrices(batch: Option<usize>, n: usize) -> Result<Tensor, tapeloom::Error> {
    let shape: Vec<usize> = batch.into_iter().chain([n, n]).collect();
    run(
        move |()| {
            let rank = shape.len();
            let count = |axis| iota(&shape[..], axis, Dtype::F64);
            let (i, j) = (count(rank - 2), count(rank - 1));
            let member = if rank == 3 { count(0) } else { zeros(&shape[..], Dtype::F64) };
            let spread = (i * j + member).cos() / n as f64;
            (spread + spread.swap_axes(-2, -1)) * 0.5 + i.eq(j).convert(Dtype::F64) * (i + 2.0)
        },
        (),
    )
}

/// Returns `-ln p(y)` of a Gaussian process with observations y at n points x, up to a constant. `length` and `noise`
/// are logarithms of the length scale and of the noise.
pub fn gaussian_process((length, noise, x, y): (Var, Var, Var, Var)) -> Var {
    let distance = (x.expand_dims(1) - x) / length.exp();
    let unit = eye(x.len(), Dtype::F64);
    let l = linalg::cholesky((-0.5 * distance.square()).exp() + noise.exp().square() * unit);
    let white = linalg::solve_triangular(l, y, Triangle::LOWER);
    0.5 * white.square().sum() + l.diagonal().ln().sum()
}

/// Returns the arguments of [`gaussian_process`] for `n` points.
///
/// # Errors
/// The errors of a call.
pub fn gaussian_process_arguments(n: usize) -> Result<(f64, f64, Tensor, Tensor), tapeloom::Error> {
    let (x, y) = run(
        move |()| {
            let x = arange(n, Dtype::F64) * (10.0 / n as f64);
            (x, x.sin())
        },
        (),
    )?;
    Ok((0.0, -1.0, x, y))
}

/// Returns `-ln p(observations)` of a Kalman filter, up to a constant: the state of four numbers moves by the matrix
/// `f` and is observed through the matrix `h`.
pub fn kalman((f, h, observations): (Var, Var, Var)) -> Var {
    let (n, m) = (f.shape()[0], h.shape()[0]);
    let unit = |n| eye(n, Dtype::F64);
    let step = |((x, p), y): ((Var, Var), Var)| {
        let (x, p) = (f.dot(x), f.matmul(p).matmul(f.t()) + unit(n) * 0.1);
        let seen = h.matmul(p);
        let l = linalg::cholesky(seen.matmul(h.t()) + unit(m) * 0.5);
        let off = y - h.dot(x);
        let gain = linalg::cho_solve(l, seen).t();
        let white = linalg::solve_triangular(l, off, Triangle::LOWER);
        let loss = 0.5 * white.square().sum() + l.diagonal().ln().sum();
        ((x + gain.dot(off), p - gain.matmul(seen)), loss)
    };
    scan(step, (zeros([n], Dtype::F64), unit(n)), observations).1.sum()
}

/// Returns the arguments of [`kalman`] for `steps` observations.
///
/// # Errors
/// The errors of a call.
pub fn kalman_arguments(steps: usize) -> Result<(Tensor, Tensor, Tensor), tapeloom::Error> {
    run(
        move |()| {
            let count = |shape: [usize; 2], axis| iota(shape, axis, Dtype::F64);
            let f =
                0.9 * eye(4, Dtype::F64) + 0.05 * (count([4, 4], 0) * 3.0 + count([4, 4], 1)).sin();
            let h = (count([2, 4], 0) * 4.0 + count([2, 4], 1)).cos();
            let y = (count([steps, 2], 0) * 0.1 + count([steps, 2], 1)).sin();
            (f, h, y)
        },
        (),
    )
}
