//! Adam and its variants: steps along the mean of the gradients, divided by the root of the mean of their squares.
//!
//! ```text
//! m ← β₁ m + (1 - β₁) g          v ← β₂ v + (1 - β₂) g²
//! u = m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + ε) + decay · p
//! p ← p - rate · u                adam, adamw
//! p ← p - rate · (|p| / |u|) u    lamb, with the norms of each leaf
//! ```

use super::{Moments, Number, Optimizer, Schedule, advanced, count, floats, same};
use crate::Var;
use crate::ops::select;
use crate::tree::{Length, Tree, tree_map2, tree_map3, zeros_like};
use crate::var::{caller, on_behalf};

/// Adam, optionally with decoupled weight decay, as returned by [`adam`], [`adamw`] and [`lamb`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Adam {
    rate: Schedule,
    betas: [Number; 2],
    epsilon: Number,
    decay: Number,
    nesterov: bool,
    trust: bool,
}

/// Returns Adam: the step of each parameter has about the size of the rate, independent of the scale of its gradient.
///
/// Source: Kingma and Ba, *Adam: a method for stochastic optimization* (2015).
///
/// ```
/// use tapeloom::prelude::*;
/// let adam = optim::adam(0.1);
/// let first = jit(|(p, g): (Var, Var)| adam.step(&g, &adam.init(&p), &p).0);
/// let p = first.call(([1.0, 1.0], [1e-3, -1e3]))?.to_vec::<f64>()?;
/// assert!((p[0] - 0.9).abs() < 1e-5 && (p[1] - 1.1).abs() < 1e-5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn adam(rate: impl Into<Schedule>) -> Adam {
    adamw(rate, 0.0)
}

/// Returns [`adam`] with decoupled weight decay: each step also subtracts `rate · decay · p` from the parameters.
///
/// Source: Loshchilov and Hutter, *Decoupled weight decay regularization* (2019).
#[doc(alias = "AdamW")]
pub fn adamw(rate: impl Into<Schedule>, decay: impl Into<Number>) -> Adam {
    Adam {
        rate: rate.into(),
        betas: [0.9.into(), 0.999.into()],
        epsilon: 1e-8.into(),
        decay: decay.into(),
        nesterov: false,
        trust: false,
    }
}

/// Returns [`adamw`] with a step whose norm, for each leaf, is the rate times the norm of the leaf: for large
/// batches. If the norm of a leaf or of its step is 0, the step is that of `adamw`. The default of ε is 1e-6.
///
/// Source: You et al., *Large batch optimization for deep learning: training BERT in 76 minutes* (2020).
///
/// ```
/// use tapeloom::prelude::*;
/// let lamb = optim::lamb(0.01, 0.0);
/// let step = jit(|(p, g): (Var, Var)| lamb.step(&g, &lamb.init(&p), &p).0);
/// let p = step.call(([3.0, 4.0], [1.0, 1.0]))?.to_vec::<f64>()?;
/// let moved = (p[0] - 3.0).hypot(p[1] - 4.0);
/// assert!((moved - 0.01 * 5.0).abs() < 1e-12);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn lamb(rate: impl Into<Schedule>, decay: impl Into<Number>) -> Adam {
    Adam { trust: true, epsilon: 1e-6.into(), ..adamw(rate, decay) }
}

impl Adam {
    /// Sets the decay factors of the mean of gradients and of the mean of their squares. The defaults are 0.9 and
    /// 0.999.
    pub fn betas(self, mean: impl Into<Number>, square: impl Into<Number>) -> Adam {
        Adam { betas: [mean.into(), square.into()], ..self }
    }

    /// Sets ε, which is added to the root of the mean of squares. The default is 1e-8.
    pub fn epsilon(self, epsilon: impl Into<Number>) -> Adam {
        Adam { epsilon: epsilon.into(), ..self }
    }

    /// Uses Nesterov's momentum: the step is along the mean of gradients that the next step would have if its gradient
    /// were the same.
    ///
    /// Source: Dozat, *Incorporating Nesterov momentum into Adam* (2016).
    #[doc(alias = "nadam", alias = "nadamw")]
    pub fn nesterov(self) -> Adam {
        Adam { nesterov: true, ..self }
    }
}

/// The state is the number of steps, the mean of gradients and the mean of their squares.
///
/// As long as all gradients have been 0, a step consists of the weight decay only, and the derivative of the step is
/// that of the weight decay.
impl<P: Tree<Var>> Optimizer<P> for Adam {
    type State = Moments<P, 2>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        (count(), [zeros_like(params), zeros_like(params)])
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, params: &P) -> (P, Self::State) {
        let at = caller();
        if let Err(poison) = floats("adam", at, gradient, Some(params)) {
            return (poison, same(state));
        }
        let (count, [mean, square]) = state;
        let rate = Number::Traced(self.rate.at(*count));
        on_behalf("adam", caller(), || {
            let t = advanced(*count);
            let [b1, b2] = self.betas;
            let mean = tree_map2(|m, g| moving_average(b1, m, g), mean, gradient);
            let square = tree_map2(|v, g| moving_average(b2, v, g * g), square, gradient);
            // The sum of the weights of all gradients so far. A mean that starts at zero is too small by this factor.
            let full = |beta: Number, t: Var, x: Var| 1.0 - beta.like(x).pow(t.convert(x.dtype()));
            let ahead = |m: Var, g: Var| {
                let b1 = b1.like(m);
                b1 * m / full(self.betas[0], t + 1, m) + (1.0 - b1) * g / full(self.betas[0], t, m)
            };
            let along = if self.nesterov {
                tree_map2(ahead, &mean, gradient)
            } else {
                tree_map2(|m, _| m / full(b1, t, m), &mean, gradient)
            };
            let direction = |p: Var, m: Var, v: Var| {
                let root = positive_root(v / full(b2, t, v)) + self.epsilon.like(p);
                let none = m.eq(0.0) & root.eq(0.0);
                let u = select(none, 0.0, m / select(none, 1.0, root)) + self.decay.like(p) * p;
                let u = if self.trust { ratio(p, u) * u } else { u };
                -rate.like(p) * u
            };
            let updates = tree_map3(direction, params, &along, &square);
            (updates, (t, [mean, square]))
        })
    }
}

/// Returns `β old + (1 - β) new`.
pub(super) fn moving_average(beta: Number, old: Var, new: Var) -> Var {
    let beta = beta.like(old);
    beta * old + (1.0 - beta) * new
}

/// Returns √x, with derivative 0 at x = 0.
pub(super) fn positive_root(x: Var) -> Var {
    let zero = x.eq(0.0);
    select(zero, 0.0, select(zero, 1.0, x).sqrt())
}

/// Returns the ratio of norms |p| / |u| of a leaf and its step, or 1 if a norm is 0.
fn ratio(p: Var, u: Var) -> Var {
    let [p, u] = [p, u].map(|x| Length::of(&[x], x.dtype(), caller()));
    let none = p.squares.eq(0.0) | u.squares.eq(0.0);
    let [p_root, u_root] = [p.squares, u.squares].map(|x| select(none, 1.0, x).sqrt());
    select(none, 1.0, p_root / u_root * (u.by / p.by))
}
