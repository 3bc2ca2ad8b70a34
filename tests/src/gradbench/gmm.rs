//! `gmm`: the log-posterior of a mixture of Gaussians with a Wishart prior, and its gradient.
//!
//! The inverse covariance of component k is `Q_kᵀ Q_k`, with `Q_k` lower triangular. Its diagonal is `exp q_k`, its
//! strictly lower part is `l_k`, column by column.

use super::{Answer, Eval, Failure, matrix, measure, natural, numbers, rows};
use serde_json::{Value, json};
use std::f64::consts::{LN_2, PI};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "gmm", functions: &[("objective", value), ("jacobian", jacobian)] };

/// The parameters of a mixture of k Gaussians in d dimensions.
#[derive(Clone, Tree)]
pub struct Mixture<T> {
    /// The logarithms of the components' mixture weights, up to a common constant: `[k]`.
    pub alpha: T,
    /// Means, `[k, d]`.
    pub mu: T,
    /// The logarithms of the diagonals of the matrices Q (Cholesky factors of inverse covariances): `[k, d]`.
    pub q: T,
    /// The entries below the diagonals of the matrices Q (Cholesky factors of inverse covariances):
    /// `[k, d (d - 1) / 2]`.
    pub l: T,
}

/// Returns for each entry of a `d` by `d` matrix its position in the list of the strictly lower entries, column by
/// column. All other entries get the position after the end of the list, where a zero is appended.
fn lower_positions(d: usize) -> Tensor {
    let none = d * d.saturating_sub(1) / 2;
    let mut position = vec![none as i64; d * d];
    let mut next = 0;
    for column in 0..d {
        for row in column + 1..d {
            position[row * d + column] = next;
            next += 1;
        }
    }
    Tensor::from(position)
}

/// Returns the lower triangular matrices Q of all components, `[k, d, d]`.
fn triangular(p: &Mixture<Var>) -> Var {
    let (k, d) = (p.q.shape()[0], p.q.shape()[1]);
    let padded = concat(&[p.l, zeros([k, 1], p.q.dtype())], 1);
    let lower = padded.take(constant(lower_positions(d)), 1).reshape([k, d, d]);
    lower + p.q.exp().reshape([k, d, 1]) * eye(d, p.q.dtype())
}

/// Returns the log-posterior of the mixture at the points `x`, `[n, d]`, with a Wishart prior of parameters `gamma` and
/// `m`.
pub fn objective(p: &Mixture<Var>, x: Var, gamma: f64, m: usize) -> Var {
    let (n, d, k) = (x.shape()[0], x.shape()[1], p.alpha.len());
    let sum_q = p.q.sum_axis(1);
    let centered = x.reshape([n, 1, d]) - p.mu;
    let scaled = einsum("kij,nkj->nki", &[triangular(p), centered]);
    let beta = p.alpha + sum_q - 0.5 * scaled.square().sum_axis(2);
    let likelihood = beta.logsumexp_axis(1).sum() - n as f64 * p.alpha.logsumexp();

    let prior = 0.5 * gamma * gamma * ((2.0 * p.q).exp().sum() + p.l.square().sum())
        - m as f64 * sum_q.sum();
    likelihood - prior + constant_part(n, d, k, gamma, m)
}

/// Returns the sum of the terms of the log-posterior that do not depend on the parameters of the mixture.
fn constant_part(n: usize, d: usize, k: usize, gamma: f64, m: usize) -> f64 {
    let nu = (d + m + 1) as f64;
    let (n, d, k) = (n as f64, d as f64, k as f64);
    let multigamma = 0.25 * d * (d - 1.0) * PI.ln()
        + (1..=d as usize)
            .map(|j| tapeloom_ir::math::lgamma(0.5 * nu + 0.5 * (1.0 - j as f64)))
            .sum::<f64>();
    -0.5 * n * d * (2.0 * PI).ln() + k * (nu * d * (gamma.ln() - 0.5 * LN_2) - multigamma)
}

struct Input {
    mixture: Mixture<Tensor>,
    x: Tensor,
    gamma: f64,
    m: usize,
}

fn read(input: &Value) -> Result<Input, Failure> {
    let (k, d) = (natural(&input["k"])?, natural(&input["d"])?);
    let table = |name: &str, columns: usize| -> Result<Tensor, Failure> {
        Ok(Tensor::new(&[k, columns], matrix(&input[name])?.0)?)
    };
    let (x, n, _) = matrix(&input["x"])?;
    Ok(Input {
        mixture: Mixture {
            alpha: Tensor::from(numbers(&input["alpha"])?),
            mu: table("mu", d)?,
            q: table("q", d)?,
            l: table("l", d * (d - 1) / 2)?,
        },
        x: Tensor::new(&[n, d], x)?,
        gamma: input["gamma"].as_f64().ok_or("gamma is missing")?,
        m: natural(&input["m"])?,
    })
}

fn value(input: &Value) -> Result<Answer, Failure> {
    let Input { mixture, x, gamma, m } = read(input)?;
    let f = jit(move |(p, x): (Mixture<Var>, Var)| objective(&p, x, gamma, m));
    measure(
        input,
        || f.explain((&mixture, &x)),
        || f.call((&mixture, &x)),
        |y| Ok(json!(y.item::<f64>()?)),
    )
}

fn jacobian(input: &Value) -> Result<Answer, Failure> {
    let Input { mixture, x, gamma, m } = read(input)?;
    let f = jit(move |(p, x): (Mixture<Var>, Var)| {
        grad(|p: Mixture<Var>| objective(&p, x, gamma, m))(p)
    });
    measure(
        input,
        || f.explain((&mixture, &x)),
        || f.call((&mixture, &x)),
        |g| {
            Ok(json!({
                "alpha": g.alpha.as_slice::<f64>()?,
                "mu": rows(&g.mu)?,
                "q": rows(&g.q)?,
                "l": rows(&g.l)?,
            }))
        },
    )
}
