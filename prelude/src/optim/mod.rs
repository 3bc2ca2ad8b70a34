//! Optimisers: pure functions from parameters, gradients and state to the next of both.
//!
//! Parameters are any tree, and the state is trees of the same form, which the program carries like any
//! other value. Rates and other numbers may be `Var`s, and everything is differentiable: the gradient of
//! the loss after some steps in the rate of those steps is `grad` of a closure that takes them.
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! let loss = |(slope, offset): (Var, Var), x: Var, y: Var| (slope * x + offset - y).square().mean();
//! let step = jit(|(p, state, t, x, y): ((Var, Var), [(Var, Var); 2], Var, Var, Var)| {
//!     let gradient = grad(|p| loss(p, x, y))(p);
//!     optim::adam(0.1).update(&p, &gradient, &state, t)
//! });
//! let p = (Tensor::from(0.0), Tensor::from(0.0));
//! let mut carried = (p.clone(), [zeros_like(&p), zeros_like(&p)]);
//! for t in 1..=300 {
//!     carried = step.call((&carried.0, &carried.1, f64::from(t), [0.0, 1.0, 2.0], [1.0, 3.0, 5.0]))?;
//! }
//! let (slope, offset) = carried.0;
//! assert!((slope.item::<f64>()? - 2.0).abs() < 1e-2 && (offset.item::<f64>()? - 1.0).abs() < 1e-2);
//!
//! // How the loss after three steps moves with their rate.
//! let after = |rate: Var| {
//!     let (mut x, mut velocity) = (full([], 1.0), full([], 0.0));
//!     for _ in 0..3 {
//!         (x, velocity) = optim::sgd(rate).momentum(0.9).update(&x, &(2.0 * x), &velocity);
//!     }
//!     x.square()
//! };
//! assert!(run(grad(after), 0.01)?.item::<f64>()? < 0.0, "a larger rate would be better");
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Model: optax.

mod lbfgs;

pub use lbfgs::{Curvature, Lbfgs, lbfgs};

use crate::Var;
use crate::ops::select;
use crate::tree::{Tree, tree_map2, tree_map3};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::Dtype;

/// A number of an optimiser: f64 or a `Var`; each leaf takes it in its own dtype.
#[track_caller]
fn number(x: impl IntoVar) -> Var {
    x.into_var(Dtype::F64, caller())
}

/// Gradient descent, with momentum if asked. Made by [`sgd`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Sgd {
    rate: Var,
    momentum: Var,
}

/// Gradient descent: `p - rate · g`.
///
/// ```
/// use tapeloom::prelude::*;
/// let step = jit(|(p, g): (Var, Var)| optim::sgd(0.5).update(&p, &g, &zeros_like(&p)).0);
/// assert_eq!(step.call(([1.0, 2.0], [1.0, -1.0]))?.to_vec::<f64>()?, [0.5, 2.5]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn sgd(rate: impl IntoVar) -> Sgd {
    Sgd { rate: number(rate), momentum: number(0.0) }
}

impl Sgd {
    /// With a velocity that keeps that part of itself: `v ← momentum · v + g`, `p - rate · v`.
    #[track_caller]
    pub fn momentum(self, momentum: impl IntoVar) -> Sgd {
        Sgd { momentum: number(momentum), ..self }
    }

    /// Parameters and velocity after a step; the first velocity is [`zeros_like`](crate::zeros_like)
    /// the parameters.
    ///
    /// Errors: `shape` if the trees differ in form or their leaves do not broadcast, `dtype` if they differ
    /// in dtype.
    #[track_caller]
    pub fn update<P: Tree<Var>>(self, p: &P, g: &P, velocity: &P) -> (P, P) {
        on_behalf("sgd", caller(), || {
            let of = |x: Var, leaf: Var| x.convert(leaf.dtype());
            let velocity = tree_map2(|v, g| of(self.momentum, v) * v + g, velocity, g);
            (tree_map2(|p, v| p - of(self.rate, p) * v, p, &velocity), velocity)
        })
    }
}

/// Adam, with weights that decay by themselves if asked. Made by [`adam`] and [`adamw`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Adam {
    rate: Var,
    betas: [Var; 2],
    epsilon: Var,
    decay: Var,
}

/// Adam: steps of about the rate in every direction, whatever the gradient's scale is there.
///
/// Source: Kingma and Ba, *Adam: a method for stochastic optimization* (2015).
///
/// ```
/// use tapeloom::prelude::*;
/// let first = jit(|(p, g): (Var, Var)| {
///     let nothing = [zeros_like(&p), zeros_like(&p)];
///     optim::adam(0.1).update(&p, &g, &nothing, 1.0).0
/// });
/// let p = first.call(([1.0, 1.0], [1e-3, -1e3]))?.to_vec::<f64>()?;
/// assert!((p[0] - 0.9).abs() < 1e-5 && (p[1] - 1.1).abs() < 1e-5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn adam(rate: impl IntoVar) -> Adam {
    adamw(rate, 0.0)
}

/// [`adam`] with weights that shrink by `rate · decay · p` in each step, beside the gradient.
///
/// Source: Loshchilov and Hutter, *Decoupled weight decay regularization* (2019).
#[track_caller]
pub fn adamw(rate: impl IntoVar, decay: impl IntoVar) -> Adam {
    let betas = [number(0.9), number(0.999)];
    Adam { rate: number(rate), betas, epsilon: number(1e-8), decay: number(decay) }
}

impl Adam {
    /// What part of themselves the means of gradients and of their squares keep; 0.9 and 0.999 if not
    /// said.
    #[track_caller]
    pub fn betas(self, mean: impl IntoVar, square: impl IntoVar) -> Adam {
        Adam { betas: [number(mean), number(square)], ..self }
    }

    /// What is added to the root of the squares; 1e-8 if not said.
    #[track_caller]
    pub fn epsilon(self, epsilon: impl IntoVar) -> Adam {
        Adam { epsilon: number(epsilon), ..self }
    }

    /// Parameters and means (of gradients, of their squares) after step `t`, which counts from 1. The
    /// first means are [`zeros_like`](crate::zeros_like) the parameters.
    ///
    /// Where all gradients so far were 0 a step is 0, and so is its derivative.
    ///
    /// Errors: `shape` if the trees differ in form or their leaves do not broadcast, `dtype` if they differ
    /// in dtype.
    #[track_caller]
    pub fn update<P: Tree<Var>>(
        self,
        p: &P,
        g: &P,
        [mean, square]: &[P; 2],
        t: impl IntoVar,
    ) -> (P, [P; 2]) {
        let t = number(t);
        on_behalf("adam", caller(), || {
            let of = |x: Var, leaf: Var| x.convert(leaf.dtype());
            let kept = |beta: Var, old: Var, new: Var| {
                let beta = of(beta, old);
                beta * old + (1.0 - beta) * new
            };
            let [b1, b2] = self.betas;
            let mean = tree_map2(|m, g| kept(b1, m, g), mean, g);
            let square = tree_map2(|v, g| kept(b2, v, g * g), square, g);
            let next = tree_map3(
                |p, m, v| {
                    // Means that began at zero are too small by this.
                    let full = |beta: Var| 1.0 - of(beta, p).pow(of(t, p));
                    let v = v / full(b2);
                    let still = v.eq(0.0);
                    let root = select(still, 0.0, select(still, 1.0, v).sqrt());
                    let step = m / full(b1) / (root + of(self.epsilon, p));
                    p - of(self.rate, p) * (step + of(self.decay, p) * p)
                },
                p,
                &mean,
                &square,
            );
            (next, [mean, square])
        })
    }
}
