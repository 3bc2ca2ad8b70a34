//! Gradient descent, with momentum and Nesterov's momentum.

use super::{Moments, Number, Optimizer, Schedule, advanced, floats, same};
use crate::Var;
use crate::tree::{Tree, tree_map, tree_map2, zeros_like};
use crate::var::{caller, on_behalf};

/// Gradient descent, optionally with momentum, as returned by [`sgd`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Sgd {
    rate: Schedule,
    momentum: Number,
    nesterov: bool,
}

/// Returns gradient descent: a step from the parameters p is to `p - rate · g`, where g is the gradient.
///
/// ```
/// use tapeloom::prelude::*;
/// let sgd = optim::sgd(0.5);
/// let step = jit(|(p, g): (Var, Var)| sgd.step(&g, &sgd.init(&p), &p).0);
/// assert_eq!(step.call(([1.0, 2.0], [1.0, -1.0]))?.to_vec::<f64>()?, [0.5, 2.5]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "SGD", alias = "gradient_descent")]
pub fn sgd(rate: impl Into<Schedule>) -> Sgd {
    Sgd { rate: rate.into(), momentum: Number::Constant(0.0), nesterov: false }
}

impl Sgd {
    /// Uses a velocity `v ← momentum · v + g` and the step `p - rate · v`.
    pub fn momentum(self, momentum: impl Into<Number>) -> Sgd {
        Sgd { momentum: momentum.into(), ..self }
    }

    /// Uses Nesterov's momentum: the step is along `g + momentum · v`, with the updated v.
    ///
    /// Source: Sutskever et al., *On the importance of initialization and momentum in deep learning*
    /// (2013).
    pub fn nesterov(self) -> Sgd {
        Sgd { nesterov: true, ..self }
    }
}

/// The state is the number of steps and the velocity.
impl<P: Tree<Var>> Optimizer<P> for Sgd {
    type State = Moments<P, 1>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        (super::count(), [zeros_like(params)])
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, _: &P) -> (P, Self::State) {
        let at = caller();
        if let Err(poison) = floats("sgd", at, gradient, None) {
            return (poison, same(state));
        }
        let (count, [velocity]) = state;
        let rate = self.rate.at(*count);
        on_behalf("sgd", caller(), || {
            let keep = |v: Var, g: Var| self.momentum.like(v) * v + g;
            let velocity = tree_map2(keep, velocity, gradient);
            let along = if self.nesterov {
                tree_map2(keep, &velocity, gradient)
            } else {
                tree_map(|v| v, &velocity)
            };
            let rate = Number::Traced(rate);
            (tree_map(|v| -rate.like(v) * v, &along), (advanced(*count), [velocity]))
        })
    }
}
