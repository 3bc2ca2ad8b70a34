//! Random numbers without state: keys, bits and samples.
//!
//! A *key* is a `u64`. Every function that samples takes one and gives the same numbers for it, always
//! and on every machine; other numbers need another key, which [`split`] and [`fold_in`] make. So there
//! is no state to carry through transforms: a sample inside [`grad`](crate::grad),
//! [`vmap`](crate::vmap) or a loop is what it is outside, and is the same when it is computed again.
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
//! // One key for each row of a batch.
//! let rows = jit(|seed: Var| {
//!     vmap(|key: Var| random::uniform(key, [3], Dtype::F64))(random::split_n(random::key(seed), 2))
//! });
//! assert_eq!(rows.call(7i64)?.shape(), [2, 3]);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Samples move with the parameters of their distribution: the derivative of a normal number in its
//! mean is 1 (reparameterisation). Bits, keys and choices have no derivative.
//!
//! Where keys are too much to carry by hand, [`Rng`] carries them: a generator with state, which draws
//! other numbers every time, in loops and in the closures of transforms, too.
//!
//! **A key is used once.** Two samples of one key are equal or alike, whatever their distributions are.
//!
//! Bits are those of JAX (Threefry-2x32, `jax_threefry_partitionable`), and so are keys, uniform
//! numbers, [`bernoulli`], [`randint`] and [`permutation`], bit by bit; a key of JAX is the two halves
//! of ours, the high one first.

pub use crate::distributions::*;
pub use crate::prng::{
    Rng, bernoulli, bits, categorical, choice, exponential, fold_in, gumbel, key, laplace, normal,
    permutation, rademacher, randint, shuffle, split, split_n, threefry2x32, truncated_normal,
    uniform, uniform_between,
};
