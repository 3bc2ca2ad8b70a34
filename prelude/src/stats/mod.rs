//! Log densities, entropies and Kullback-Leibler divergences of the distributions of [`random`](crate::random).
//!
//! | distribution | log density | entropy | divergence |
//! |---|---|---|---|
//! | normal | [`normal_logpdf`] | [`normal_entropy`] | [`normal_kl`] |
//! | normal, truncated | [`truncated_normal_logpdf`] | [`truncated_normal_entropy`] | [`truncated_normal_kl`] |
//! | normal, of vectors | [`linalg::multivariate_normal_logpdf`] | [`linalg::multivariate_normal_entropy`] | [`linalg::multivariate_normal_kl`] |
//! | uniform | [`uniform_logpdf`] | [`uniform_entropy`] | [`uniform_kl`] |
//! | Laplace | [`laplace_logpdf`] | [`laplace_entropy`] | [`laplace_kl`] |
//! | logistic | [`logistic_logpdf`] | [`logistic_entropy`] | |
//! | Gumbel | [`gumbel_logpdf`] | [`gumbel_entropy`] | [`gumbel_kl`] |
//! | Cauchy | [`cauchy_logpdf`] | [`cauchy_entropy`] | [`cauchy_kl`] |
//! | Student's t | [`student_t_logpdf`] | [`student_t_entropy`] | |
//! | von Mises | [`von_mises_logpdf`] | [`von_mises_entropy`] | [`von_mises_kl`] |
//! | exponential | [`exponential_logpdf`] | [`exponential_entropy`] | [`exponential_kl`] |
//! | gamma, χ² | [`gamma_logpdf`], [`chisquare_logpdf`] | [`gamma_entropy`] | [`gamma_kl`] |
//! | beta, Dirichlet | [`beta_logpdf`], [`dirichlet_logpdf`] | [`beta_entropy`], [`dirichlet_entropy`] | [`beta_kl`], [`dirichlet_kl`] |
//! | Bernoulli, categorical | [`bernoulli_logpmf`], [`categorical_logpmf`] | [`bernoulli_entropy`], [`categorical_entropy`] | [`bernoulli_kl`], [`categorical_kl`] |
//! | binomial, Poisson | [`binomial_logpmf`], [`poisson_logpmf`] | [`binomial_entropy`], [`poisson_entropy`] | [`poisson_kl`] |
//!
//! An empty field means that the function is absent: divergences of logistic distributions of different scales and of
//! Student's t have no closed form. Integrate `p ln (p / q)` by [`quad`](crate::quad), or average `ln (p / q)` over
//! samples of p. The divergence of two binomial distributions of n trials is n times [`bernoulli_kl`].
//!
//! All are functions of arrays that are broadcast together, with derivatives of every order in x and in each
//! parameter. With `loc` and `scale`, the distribution is that of `loc + scale * sample`, so `scale` is 1 / rate
//! where another library has a rate. Entropies and divergences are in nats.
//!
//! * Outside of the support, a log density is -inf with derivatives of 0. At its edge, derivatives are one-sided
//!   limits.
//! * For parameters outside of their domain, such as a negative scale, the result is nan.
//! * Terms that cancel are combined, so that in f32, too, a log density is accurate for large parameters.
//!
//! Errors of all: `dtype` if the arguments are not floats of one dtype (a count may be an integer or a bool);
//! `shape` if they do not broadcast.
//!
//! ```
//! use tapeloom::prelude::*;
//! // The maximum of the likelihood of a normal distribution is at the mean and the deviation of the data.
//! let data = Tensor::from([1.0, 3.0, 4.0, 8.0]);
//! let loss = |(m, s): (Var, Var)| stats::normal_logpdf(&data, m, s).sum();
//! let (dm, ds) = run(grad(loss), (4.0, 6.5f64.sqrt()))?;
//! assert!(dm.item::<f64>()?.abs() < 1e-14 && ds.item::<f64>()?.abs() < 1e-14);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! [`linalg::multivariate_normal_logpdf`]: crate::linalg::multivariate_normal_logpdf
//! [`linalg::multivariate_normal_entropy`]: crate::linalg::multivariate_normal_entropy
//! [`linalg::multivariate_normal_kl`]: crate::linalg::multivariate_normal_kl

/// Converts operands to an array of `Var`s. A Rust number gets the dtype of the first operand that has a dtype.
macro_rules! operands {
    ($at:ident, $($x:expr),+) => {{
        let dtype = None$(.or($x.firm_dtype($at)))+.unwrap_or(tapeloom_ir::Dtype::F64);
        [$($x.into_var(dtype, $at)),+]
    }};
}

mod circular;
mod counts;
mod gamma;
mod location;
mod relative_entropy;
mod stirling;

pub use circular::{von_mises_entropy, von_mises_kl, von_mises_logpdf};
pub use counts::{
    bernoulli_entropy, bernoulli_kl, bernoulli_logpmf, binomial_entropy, binomial_logpmf,
    categorical_entropy, categorical_kl, categorical_logpmf, poisson_entropy, poisson_kl,
    poisson_logpmf,
};
pub use gamma::{
    beta_entropy, beta_kl, beta_logpdf, chisquare_logpdf, dirichlet_entropy, dirichlet_kl,
    dirichlet_logpdf, exponential_entropy, exponential_kl, exponential_logpdf, gamma_entropy,
    gamma_kl, gamma_logpdf,
};
pub use location::{
    cauchy_entropy, cauchy_kl, cauchy_logpdf, gumbel_entropy, gumbel_kl, gumbel_logpdf,
    laplace_entropy, laplace_kl, laplace_logpdf, logistic_entropy, logistic_logpdf, normal_entropy,
    normal_kl, normal_logpdf, student_t_entropy, student_t_logpdf, truncated_normal_entropy,
    truncated_normal_kl, truncated_normal_logpdf, uniform_entropy, uniform_kl, uniform_logpdf,
};

use crate::Var;
use crate::ops::{broadcast_shapes, misshapen, number, of_floats, select};
use tapeloom_ir::{Loc, Shape};

/// Broadcasts the operands to one shape and evaluates a formula over their last axis. If all operands are scalars,
/// reports an error.
fn of_rows<const N: usize>(
    name: &'static str,
    operands: [Var; N],
    at: Loc,
    body: impl FnOnce([Var; N]) -> Var,
) -> Var {
    let mut shapes = operands.iter().map(|x| x.ty(at).shape);
    let shape = shapes.try_fold(Shape::scalar(), |all, one| broadcast_shapes(&all, &one));
    if let (Some(shape), Some(first)) = (&shape, operands.first())
        && shape.is_empty()
    {
        let message = format!("`{name}` of scalars");
        let help = "give vectors: the distribution is that of the numbers along the last axis";
        return misshapen(message, help, &operands, first.ty(at), at);
    }
    of_floats(name, operands, at, |all| {
        body(all.map(|x| shape.clone().map_or(x, |shape| x.broadcast_to(shape))))
    })
}

/// Returns a log density: nan where the parameters are invalid (`sound` is false), otherwise -inf outside of the
/// support (`outside` is true), otherwise `log`.
fn density(log: Var, outside: Var, sound: Var) -> Var {
    checked(select(outside, f64::NEG_INFINITY, log), sound)
}

/// Returns `y`, replaced by nan where the parameters are invalid (`sound` is false).
fn checked(y: Var, sound: Var) -> Var {
    select(sound, y, number(y, f64::NAN))
}
