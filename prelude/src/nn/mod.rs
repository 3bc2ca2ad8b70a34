//! Neural networks: functions of several operations or with a state. A layer is a line of array operations, for
//! instance `x.dot(w) + b`. Parameters are any tree.
//!
//! | feature | location |
//! |---|---|
//! | activations, normalizations over axes, losses | methods of [`Var`]: [`relu`](crate::Var::relu), [`layer_norm`](crate::Var::layer_norm), [`cross_entropy`](crate::Var::cross_entropy) |
//! | attention | [`dot_product_attention`](crate::dot_product_attention) |
//! | convolutions and pools | [`conv`](crate::conv) |
//! | optimisers | [`optim`](crate::optim) |
//! | initial weights | [`glorot_uniform`], [`he_normal`] and others |
//! | batch normalization with running means | [`BatchNorm`] |
//! | recurrent cells | [`lstm_cell`], [`gru_cell`] |
//! | dropout | [`dropout`] |
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! #[derive(Tree, Clone)]
//! struct Net<T> { first: T, norm: nn::Running<T>, last: T }
//!
//! let start = |seed: Var| {
//!     let [first, last] = random::split(random::key(seed));
//!     let f32 = Dtype::F32;
//!     Net {
//!         first: nn::he_normal(first, [4, 16], f32),
//!         norm: nn::Running::new(16, f32),
//!         last: nn::glorot_uniform(last, [16, 2], f32),
//!     }
//! };
//! let scores = |net: Net<Var>, x: Var, key: Var| {
//!     let (h, norm) = nn::BatchNorm::new(-1).train(x.dot(net.first), &net.norm);
//!     let h = nn::dropout(key, h.relu(), 0.1);
//!     (h.dot(net.last), norm)
//! };
//! let net = run(start, 0i64)?;
//! let f = jit(|(net, x, key): (Net<Var>, Var, Var)| scores(net, x, random::key(key)));
//! let (y, norm) = f.call((&net, [[1f32, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0]], 1i64))?;
//! assert_eq!((y.shape(), norm.mean.shape()), (&[2, 2][..], &[16][..]));
//! # Ok::<(), tapeloom::Error>(())
//! ```

pub(crate) mod attention;
mod batch_norm;
mod initial;
mod recurrent;

pub use batch_norm::{BatchNorm, Running};
pub use initial::{
    glorot_normal, glorot_uniform, he_normal, he_uniform, lecun_normal, lecun_uniform, orthogonal,
};
pub use recurrent::{CellWeights, gru_cell, lstm_cell};

use crate::Var;
use crate::ops::functions::select;
use crate::ops::wrong;
use crate::prng::bernoulli;
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::{ArrayType, Kind, Literal, Problem};

/// Sets each element to 0 with probability `rate`, and divides all other elements by `1 - rate`, so that the expected
/// value does not change. The key must not be used again. In inference, do not apply dropout.
///
/// Errors: `dtype` if x is not of floats; `dtype` or `shape` if `key` is not a single key; `shape` if a rate that
/// is an array does not broadcast; `arguments` if a rate that is a number is not between 0 and 1.
///
/// Source: Srivastava et al., *Dropout: a simple way to prevent neural networks from overfitting* (2014).
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| nn::dropout(random::key(0), x, 0.25), vec![3.0; 1000])?.to_vec::<f64>()?;
/// let kept = y.iter().filter(|y| **y == 4.0).count();
/// assert!((700..800).contains(&kept) && y.iter().filter(|y| **y == 0.0).count() == 1000 - kept);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "Dropout")]
#[track_caller]
pub fn dropout(key: Var, x: Var, rate: impl IntoVar) -> Var {
    let at = caller();
    let ty = x.ty(at);
    if !ty.dtype.is_float() {
        let message = format!("`dropout` of {ty}");
        let problem = Problem::new(Kind::Dtype, message, "convert it to a float");
        return wrong(problem, &[key, x], ArrayType::new(ty.dtype, ty.shape), at);
    }
    let keep = rate.beside(x, at);
    if let Some(rate) = keep.handle.as_literal().map(Literal::to_f64)
        && !(0.0..=1.0).contains(&rate)
    {
        let message = format!("`dropout` with a rate of {rate}");
        let problem = Problem::new(Kind::Arguments, message, "a rate is a number from 0 to 1");
        return wrong(problem, &[key, x], ArrayType::new(ty.dtype, ty.shape), at);
    }
    on_behalf("dropout", at, || {
        let keep = 1.0 - keep;
        let kept = bernoulli(key, keep.stop_gradient(), ty.shape);
        // If the rate is 1, all elements become 0; avoid the division by 0.
        let some = keep.gt(0.0);
        let factor = select(some, 1.0 / select(some, keep, 1.0), 0.0);
        select(kept, x * factor, 0.0)
    })
}
