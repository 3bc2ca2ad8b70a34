//! Random numbers as pure functions of keys: keys, bits and samples.
//!
//! A *key* is a `u64`. Every sampling function takes a key and returns the same numbers for the same key, on every
//! machine. For other numbers, make other keys with [`split`] and [`fold_in`]. So transforms have no state to pass
//! along: a sample inside [`grad`](crate::grad), [`vmap`](crate::vmap) or a loop is the same as outside, and the
//! same when it is recomputed.
//!
//! ```
//! use tapeloom::prelude::*;
//! let noisy = jit(|(seed, x): (Var, Var)| {
//!     let [first, second] = random::split(random::key(seed));
//!     let noise = random::normal(first, x.shape(), Dtype::F64);
//!     select(random::bernoulli(second, 0.5, x.shape()), x + 0.1 * noise, x)
//! });
//! let x = Tensor::from([1.0, 2.0, 3.0]);
//! assert_eq!(noisy.call((7i64, &x))?, noisy.call((7i64, &x))?);
//!
//! // One key for each member of a batch.
//! let rows = jit(|seed: Var| {
//!     vmap(|key: Var| random::uniform(key, [3], Dtype::F64))(random::split_n(random::key(seed), 2))
//! });
//! assert_eq!(rows.call(7i64)?.shape(), [2, 3]);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Samples are differentiable with respect to the parameters of their distribution (reparameterisation): the
//! derivative of a normal number with respect to its mean is 1. Bits, keys and choices have no derivative.
//!
//! The module [`stats`](crate::stats) has the densities of these distributions.
//!
//! [`Rng`] is a generator with state that passes keys along: each draw returns new numbers, in loops and in the
//! closures of transforms, too.
//!
//! **Use each key only once.** Samples from the same key are equal or correlated, even for different distributions.
//!
//! Bits are those of JAX (Threefry-2x32, `jax_threefry_partitionable`), and so are keys, uniform numbers,
//! [`bernoulli`], [`randint`] and [`permutation`], bit by bit. A key of JAX consists of the two halves of a key of
//! tapeloom, the high half first.

pub use crate::distributions::*;
pub use crate::prng::{
    Rng, bernoulli, bits, categorical, choice, exponential, fold_in, gumbel, key, laplace,
    logistic, normal, permutation, rademacher, randint, shuffle, split, split_n, threefry2x32,
    truncated_normal, uniform, uniform_between,
};
