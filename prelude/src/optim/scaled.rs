//! RMSprop and Adagrad, whose steps are divided by the root of a mean or sum of squared gradients; Lion, whose
//! steps use only the sign.

use super::adam::moving_average;
use super::{Moments, Number, Optimizer, Schedule, advanced, count, floats, same};
use crate::Var;
use crate::tree::{Tree, tree_map, tree_map2, tree_map3, zeros_like};
use crate::var::{caller, on_behalf};

/// RMSprop, as returned by [`rmsprop`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Rmsprop {
    rate: Schedule,
    decay: Number,
    epsilon: Number,
    momentum: Number,
}

/// Returns RMSprop: `v ← decay · v + (1 - decay) g²` for the gradient g, and the step subtracts `rate · g / √(v + ε)`.
/// The default of `decay` is 0.9, that of ε is 1e-8.
///
/// ```
/// use tapeloom::prelude::*;
/// let rmsprop = optim::rmsprop(0.1).decay(0.75).epsilon(0.0);
/// let step = jit(|(p, g): (Var, Var)| rmsprop.step(&g, &rmsprop.init(&p), &p).0);
/// assert_eq!(step.call(([1.0, 1.0], [3.0, -5.0]))?.to_vec::<f64>()?, [0.8, 1.2]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Tieleman and Hinton, *Lecture 6.5* (2012); with momentum as in PyTorch.
#[doc(alias = "RMSprop", alias = "scale_by_rms")]
pub fn rmsprop(rate: impl Into<Schedule>) -> Rmsprop {
    let zero = Number::Constant(0.0);
    Rmsprop { rate: rate.into(), decay: 0.9.into(), epsilon: 1e-8.into(), momentum: zero }
}

impl Rmsprop {
    /// Sets the decay factor of the mean of squares.
    pub fn decay(self, decay: impl Into<Number>) -> Rmsprop {
        Rmsprop { decay: decay.into(), ..self }
    }

    /// Sets ε, which is added to the mean of squares.
    pub fn epsilon(self, epsilon: impl Into<Number>) -> Rmsprop {
        Rmsprop { epsilon: epsilon.into(), ..self }
    }

    /// Uses a velocity, to which each step adds the scaled gradient, and which decays by the factor `momentum` per
    /// step.
    pub fn momentum(self, momentum: impl Into<Number>) -> Rmsprop {
        Rmsprop { momentum: momentum.into(), ..self }
    }
}

/// The state is the number of steps, the mean of squares and the velocity.
impl<P: Tree<Var>> Optimizer<P> for Rmsprop {
    type State = Moments<P, 2>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        (count(), [zeros_like(params), zeros_like(params)])
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, _: &P) -> (P, Self::State) {
        let at = caller();
        if let Err(poison) = floats("rmsprop", at, gradient, None) {
            return (poison, same(state));
        }
        let (count, [square, velocity]) = state;
        let rate = Number::Traced(self.rate.at(*count));
        on_behalf("rmsprop", caller(), || {
            let square = tree_map2(|v, g| moving_average(self.decay, v, g * g), square, gradient);
            let push =
                |u: Var, g: Var, v: Var| self.momentum.like(u) * u + scaled(g, v, self.epsilon);
            let velocity = tree_map3(push, velocity, gradient, &square);
            let updates = tree_map(|u| -rate.like(u) * u, &velocity);
            (updates, (advanced(*count), [square, velocity]))
        })
    }
}

/// Returns `g / √(v + ε)`; if g, v and ε are all 0, returns 0.
fn scaled(g: Var, v: Var, epsilon: Number) -> Var {
    let v = v + epsilon.like(v);
    let zero = v.eq(0.0) & g.eq(0.0);
    zero.select(0.0, g * zero.select(1.0, v).rsqrt())
}

/// Adagrad, as returned by [`adagrad`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Adagrad {
    rate: Schedule,
    start: f64,
    epsilon: Number,
}

/// Returns Adagrad: `v ← v + g²` for the gradient g, and the step subtracts `rate · g / √(v + ε)`. The default of the
/// initial v is 0.1, that of ε is 1e-7.
///
/// ```
/// use tapeloom::prelude::*;
/// let adagrad = optim::adagrad(1.0).start(0.0).epsilon(0.0);
/// let step = jit(|(p, g): (Var, Var)| adagrad.step(&g, &adagrad.init(&p), &p).0);
/// assert_eq!(step.call(([1.0, 1.0], [3.0, -5.0]))?.to_vec::<f64>()?, [0.0, 2.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Duchi, Hazan and Singer, *Adaptive subgradient methods for online learning and stochastic
/// optimization* (2011).
#[doc(alias = "Adagrad", alias = "scale_by_rss")]
pub fn adagrad(rate: impl Into<Schedule>) -> Adagrad {
    Adagrad { rate: rate.into(), start: 0.1, epsilon: 1e-7.into() }
}

impl Adagrad {
    /// Sets the initial value of the sum of squares.
    pub fn start(self, start: f64) -> Adagrad {
        Adagrad { start, ..self }
    }

    /// Sets ε, which is added to the sum of squares.
    pub fn epsilon(self, epsilon: impl Into<Number>) -> Adagrad {
        Adagrad { epsilon: epsilon.into(), ..self }
    }
}

/// The state is the number of steps and the sum of squares.
impl<P: Tree<Var>> Optimizer<P> for Adagrad {
    type State = Moments<P, 1>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        on_behalf("adagrad", caller(), || {
            (count(), [tree_map(|p| p.full_like(self.start), params)])
        })
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, _: &P) -> (P, Self::State) {
        let at = caller();
        if let Err(poison) = floats("adagrad", at, gradient, None) {
            return (poison, same(state));
        }
        let (count, [sum]) = state;
        let rate = Number::Traced(self.rate.at(*count));
        on_behalf("adagrad", caller(), || {
            let sum = tree_map2(|v, g| v + g * g, sum, gradient);
            let updates =
                tree_map2(|g, v| -rate.like(g) * scaled(g, v, self.epsilon), gradient, &sum);
            (updates, (advanced(*count), [sum]))
        })
    }
}

/// Lion, as returned by [`lion`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Lion {
    rate: Schedule,
    decay: Number,
    betas: [Number; 2],
}

/// Returns Lion: a step subtracts `rate` times the sign of `β₁ m + (1 - β₁) g`, plus weight decay. Then the mean of
/// gradients is updated: `m ← β₂ m + (1 - β₂) g`. The defaults of β₁ and β₂ are 0.9 and 0.99.
///
/// Source: Chen et al., *Symbolic discovery of optimization algorithms* (2023).
///
/// ```
/// use tapeloom::prelude::*;
/// let lion = optim::lion(0.5, 0.0);
/// let step = jit(|(p, g): (Var, Var)| lion.step(&g, &lion.init(&p), &p).0);
/// assert_eq!(step.call(([1.0, 1.0], [3.0, -1e-9]))?.to_vec::<f64>()?, [0.5, 1.5]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn lion(rate: impl Into<Schedule>, decay: impl Into<Number>) -> Lion {
    Lion { rate: rate.into(), decay: decay.into(), betas: [0.9.into(), 0.99.into()] }
}

impl Lion {
    /// Sets β₁, the weight of the mean in the direction of the step, and β₂, the decay factor of the mean.
    pub fn betas(self, step: impl Into<Number>, mean: impl Into<Number>) -> Lion {
        Lion { betas: [step.into(), mean.into()], ..self }
    }
}

/// The state is the number of steps and the mean of gradients.
impl<P: Tree<Var>> Optimizer<P> for Lion {
    type State = Moments<P, 1>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        (count(), [zeros_like(params)])
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, params: &P) -> (P, Self::State) {
        let at = caller();
        if let Err(poison) = floats("lion", at, gradient, Some(params)) {
            return (poison, same(state));
        }
        let (count, [mean]) = state;
        let rate = Number::Traced(self.rate.at(*count));
        on_behalf("lion", caller(), || {
            let [b1, b2] = self.betas;
            let direction = |p: Var, m: Var, g: Var| {
                -rate.like(p) * (moving_average(b1, m, g).signum() + self.decay.like(p) * p)
            };
            let updates = tree_map3(direction, params, mean, gradient);
            let mean = tree_map2(|m, g| moving_average(b2, m, g), mean, gradient);
            (updates, (advanced(*count), [mean]))
        })
    }
}
