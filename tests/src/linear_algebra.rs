//! Linear algebra to be measured: factorizations and solutions of several orders, alone and in batches, with their
//! gradients; the likelihood of a Gaussian process; that of a Kalman filter. `tests/peers/linalg.py` measures the
//! same in JAX and numpy.

use tapeloom::prelude::*;

/// What is measured: from matrices `[.., n, n]`, symmetric and positive definite, to a number.
pub type Loss = fn(Var) -> Var;

/// A number of all elements that costs little and whose derivative is no constant: `Σ x³ + x`.
fn cubed(x: Var) -> Var {
    ((x * x + 1.0) * x).sum()
}

/// The routines, with functions of all of their results.
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

/// A batch, or none, and an order.
pub const SIZES: [(Option<usize>, usize); 7] = [
    (None, 4),
    (None, 16),
    (None, 64),
    (None, 256),
    (None, 1024),
    (Some(1000), 4),
    (Some(1000), 16),
];

/// A batch of positive definite matrices of order n, or one without a batch: `A[i, j] = cos(i j + b) / n`, its symmetric
/// part, with i + 2 added to the diagonal.
///
/// # Errors
/// Those of a call.
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

/// `-ln p(y)`, but for a constant, of a Gaussian process at n points with logarithms of a length scale and of a noise.
pub fn gaussian_process((length, noise, x, y): (Var, Var, Var, Var)) -> Var {
    let distance = (x.expand_dims(1) - x) / length.exp();
    let unit = eye(x.len(), Dtype::F64);
    let l = linalg::cholesky((-0.5 * distance.square()).exp() + noise.exp().square() * unit);
    let white = linalg::solve_triangular(l, y, Triangle::LOWER);
    0.5 * white.square().sum() + l.diagonal().ln().sum()
}

/// The arguments of [`gaussian_process`] for so many points.
///
/// # Errors
/// Those of a call.
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

/// `-ln p(observations)`, but for a constant: a state of four numbers that moves by `f` is seen through `h`.
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

/// The arguments of [`kalman`] for so many steps.
///
/// # Errors
/// Those of a call.
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
