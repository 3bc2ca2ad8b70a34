//! Initial weights: random numbers with a variance that preserves the variance of activations or gradients through
//! a layer.
//!
//! A weight `[.., inputs, outputs]` sums over its inputs, and over all axes before them, as the kernel of a
//! convolution does. n is the number of terms of such a sum, and m the number of sums to which an input
//! contributes:
//!
//! | | variance |
//! |---|---|
//! | `lecun` | 1 / n |
//! | `he` | 2 / n, for [`relu`](crate::Var::relu) |
//! | `glorot` | 2 / (n + m) |
//!
//! Bits are those of `jax.nn.initializers`, up to rounding.

use crate::Var;
use crate::linalg;
use crate::ops::wrong;
use crate::prng::{truncated_normal, uniform_between};
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// The rule that determines the variance of weights from the numbers of inputs and outputs.
#[derive(Clone, Copy)]
enum Variance {
    Lecun,
    He,
    Glorot,
}

impl Variance {
    fn of(self, shape: &[usize]) -> Option<f64> {
        let [places @ .., inputs, outputs] = shape else { return None };
        let places: usize = places.iter().product();
        let (n, m) = ((places * inputs) as f64, (places * outputs) as f64);
        Some(match self {
            Variance::Lecun => 1.0 / n,
            Variance::He => 2.0 / n,
            Variance::Glorot => 2.0 / (n + m),
        })
    }
}

/// The standard deviation of a standard normal number after truncation to [-2, 2].
const TRUNCATED: f64 = 0.879_625_661_034_239_8;

fn normal(name: &'static str, key: Var, shape: Shape, dtype: Dtype, of: Variance, at: Loc) -> Var {
    weights(name, key, &shape, dtype, of, at, |variance| {
        let [low, high] = [-2.0, 2.0].map(|x| Var::literal(tapeloom_ir::Literal::of(dtype, x), at));
        truncated_normal(key, &shape[..], low, high) * (variance.sqrt() / TRUNCATED)
    })
}

fn uniform(name: &'static str, key: Var, shape: Shape, dtype: Dtype, of: Variance, at: Loc) -> Var {
    weights(name, key, &shape, dtype, of, at, |variance| {
        let [low, high] = [-1.0, 1.0].map(|x| Var::literal(tapeloom_ir::Literal::of(dtype, x), at));
        uniform_between(key, &shape[..], low, high) * (3.0 * variance).sqrt()
    })
}

fn weights(
    name: &'static str,
    key: Var,
    shape: &Shape,
    dtype: Dtype,
    of: Variance,
    at: Loc,
    sample: impl FnOnce(f64) -> Var,
) -> Var {
    let guess = ArrayType::new(dtype, shape.clone());
    let problem = match of.of(shape) {
        Some(variance) if dtype.is_float() => return on_behalf(name, at, || sample(variance)),
        Some(_) => {
            Problem::new(Kind::Dtype, format!("`{name}` in {dtype}"), "weights are f32 or f64")
        }
        None => {
            let message = format!("`{name}` of shape {shape}");
            Problem::new(Kind::Shape, message, "weights are [.., inputs, outputs]")
        }
    };
    wrong(problem, &[key], guess, at)
}

macro_rules! initial {
    ($($(#[$doc:meta])* $name:ident: $sample:ident $of:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Errors: `shape` for fewer than two axes; `dtype` if `dtype` is not a float; `dtype` or `shape` if `key`
        /// is not a single key.
        #[track_caller]
        pub fn $name(key: Var, shape: impl Into<Shape>, dtype: Dtype) -> Var {
            $sample(stringify!($name), key, shape.into(), dtype, Variance::$of, caller())
        }
    )*};
}

initial! {
    /// Returns weights `[.., inputs, outputs]`, uniformly distributed with variance 2 / (n + m); see
    /// [`nn`](crate::nn).
    ///
    /// Source: Glorot and Bengio, *Understanding the difficulty of training deep feedforward neural
    /// networks* (2010).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let w = run(|()| nn::glorot_uniform(random::key(0), [300, 100], Dtype::F64), ())?;
    /// let bound = (6.0f64 / 400.0).sqrt();
    /// assert!(w.to_vec::<f64>()?.iter().all(|w| w.abs() <= bound));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "xavier_uniform", alias = "GlorotUniform")]
    #[doc(alias = "xavier_uniform_")]
    glorot_uniform: uniform Glorot;
    /// Returns weights `[.., inputs, outputs]`, normally distributed, truncated at two standard deviations, with
    /// variance 2 / (n + m); see [`nn`](crate::nn).
    #[doc(alias = "xavier_normal", alias = "GlorotNormal")]
    #[doc(alias = "xavier_normal_")]
    glorot_normal: normal Glorot;
    /// Returns weights `[.., inputs, outputs]`, uniformly distributed with variance 2 / n; see [`nn`](crate::nn).
    ///
    /// Source: He et al., *Delving deep into rectifiers* (2015).
    #[doc(alias = "kaiming_uniform", alias = "HeUniform")]
    #[doc(alias = "kaiming_uniform_")]
    he_uniform: uniform He;
    /// Returns weights `[.., inputs, outputs]`, normally distributed, truncated at two standard deviations, with
    /// variance 2 / n; see [`nn`](crate::nn).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let w = run(|()| nn::he_normal(random::key(0), [3, 3, 8, 100], Dtype::F64), ())?;
    /// let squares: f64 = w.to_vec::<f64>()?.iter().map(|w| w * w).sum();
    /// assert!((squares / 7200.0 - 2.0 / 72.0).abs() < 1e-3);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "kaiming_normal", alias = "HeNormal")]
    #[doc(alias = "kaiming_normal_")]
    he_normal: normal He;
    /// Returns weights `[.., inputs, outputs]`, uniformly distributed with variance 1 / n; see [`nn`](crate::nn).
    lecun_uniform: uniform Lecun;
    /// Returns weights `[.., inputs, outputs]`, normally distributed, truncated at two standard deviations, with
    /// variance 1 / n; see [`nn`](crate::nn).
    ///
    /// Source: LeCun et al., *Efficient backprop* (1998).
    lecun_normal: normal Lecun;
}

/// Returns weights `[inputs, outputs]` with orthonormal columns (orthonormal rows if there are fewer rows than
/// columns), times `scale`.
///
/// Errors: `shape` unless there are exactly two axes; `dtype` if `dtype` is not a float; `dtype` or `shape` if
/// `key` is not a single key.
///
/// Source: Saxe, McClelland and Ganguli, *Exact solutions to the nonlinear dynamics of learning in deep
/// linear neural networks* (2014).
///
/// ```
/// use tapeloom::prelude::*;
/// let square = run(|()| {
///     let w = nn::orthogonal(random::key(0), [3, 2], 2.0, Dtype::F64);
///     w.t().dot(w)
/// }, ())?.to_vec::<f64>()?;
/// assert!(square.iter().zip([4.0, 0.0, 0.0, 4.0]).all(|(x, y)| (x - y).abs() < 1e-14));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "orthogonal_", alias = "delta_orthogonal")]
#[track_caller]
pub fn orthogonal(key: Var, shape: impl Into<Shape>, scale: f64, dtype: Dtype) -> Var {
    let (shape, at) = (shape.into(), caller());
    let [inputs, outputs] = shape[..] else {
        let message = format!("`orthogonal` of shape {shape}");
        let problem = Problem::new(Kind::Shape, message, "weights are [inputs, outputs]");
        return wrong(problem, &[key], ArrayType::new(dtype, shape), at);
    };
    on_behalf("orthogonal", at, || {
        let (long, short) = (inputs.max(outputs), inputs.min(outputs));
        let q = linalg::qr(crate::prng::normal(key, [long, short], dtype)).0;
        scale * if inputs < outputs { q.t() } else { q }
    })
}
