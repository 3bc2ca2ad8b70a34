//! Building blocks of optimisers: operations on the gradients before an optimiser or on the steps after it; tuples,
//! which apply their parts one after the other. One step from the gradients of several batches.

use super::adam::moving_average;
use super::{Moments, Number, Optimizer, Schedule, advanced, count, floats, same};
use crate::Var;
use crate::control::cond;
use crate::tree::{Tree, tree_map, tree_map2, zeros_like};
use crate::var::{caller, for_either, on_behalf};

macro_rules! chain {
    ($($O:ident $i:tt),+) => {
        /// Applies the optimisers of the tuple one after the other: the step of each optimiser is passed to the next
        /// one as its gradient.
        impl<P: Tree<Var>, $($O: Optimizer<P>),+> Optimizer<P> for ($($O,)+) {
            type State = ($($O::State,)+);

            #[track_caller]
            fn init(&self, params: &P) -> Self::State {
                let at = caller();
                ($(for_either(at, || self.$i.init(params)),)+)
            }

            #[track_caller]
            fn update(&self, gradient: &P, state: &Self::State, params: &P) -> (P, Self::State) {
                let at = caller();
                let updates = tree_map(|g| g, gradient);
                $(
                    #[allow(non_snake_case, reason = "named as its type")]
                    let (updates, $O) =
                        for_either(at, || self.$i.update(&updates, &state.$i, params));
                )+
                (updates, ($($O,)+))
            }
        }
    };
}
chain!(A 0, B 1);
chain!(A 0, B 1, C 2);
chain!(A 0, B 1, C 2, D 3);
chain!(A 0, B 1, C 2, D 3, E 4);

/// A part that bounds the norm of gradients, as returned by [`clip_by_global_norm`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct ClipByGlobalNorm(Number);

/// Returns a part that scales gradients down if their norm over all leaves exceeds `most`. Place it before an optimiser
/// in a tuple. The function on trees is [`clip_by_global_norm`](crate::clip_by_global_norm).
#[doc(alias = "clip_grad_norm_")]
pub fn clip_by_global_norm(most: impl Into<Number>) -> ClipByGlobalNorm {
    ClipByGlobalNorm(most.into())
}

impl<P: Tree<Var>> Optimizer<P> for ClipByGlobalNorm {
    type State = ();

    fn init(&self, _: &P) {}

    #[track_caller]
    fn update(&self, gradient: &P, (): &(), _: &P) -> (P, ()) {
        let at = caller();
        if let Err(poison) = floats("clip_by_global_norm", at, gradient, None) {
            return (poison, ());
        }
        let clipped = match self.0 {
            Number::Constant(most) => crate::tree::clip_by_global_norm(gradient, most),
            Number::Traced(most) => crate::tree::clip_by_global_norm(gradient, most),
        };
        (clipped, ())
    }
}

/// A part that bounds the elements of gradients, as returned by [`clip`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Clip(Number);

/// Returns a part that clamps every element of the gradient to `-most ..= most`.
#[doc(alias = "clip_grad_value_")]
pub fn clip(most: impl Into<Number>) -> Clip {
    Clip(most.into())
}

impl<P: Tree<Var>> Optimizer<P> for Clip {
    type State = ();

    fn init(&self, _: &P) {}

    #[track_caller]
    fn update(&self, gradient: &P, (): &(), _: &P) -> (P, ()) {
        let at = caller();
        if let Err(poison) = floats("clip", at, gradient, None) {
            return (poison, ());
        }
        on_behalf("clip", caller(), || {
            let clip = |g: Var| g.clamp(-self.0.like(g), self.0.like(g));
            (tree_map(clip, gradient), ())
        })
    }
}

/// A part that adds a multiple of the parameters to gradients, as returned by [`decay_weights`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct DecayWeights(Number);

/// Returns a part that adds `decay · p`, the gradient of the penalty `decay · |p|² / 2`, to the gradient. Place it
/// before an optimiser in a tuple.
#[doc(alias = "add_decayed_weights", alias = "weight_decay", alias = "l2")]
pub fn decay_weights(decay: impl Into<Number>) -> DecayWeights {
    DecayWeights(decay.into())
}

impl<P: Tree<Var>> Optimizer<P> for DecayWeights {
    type State = ();

    fn init(&self, _: &P) {}

    #[track_caller]
    fn update(&self, gradient: &P, (): &(), params: &P) -> (P, ()) {
        let at = caller();
        if let Err(poison) = floats("decay_weights", at, gradient, Some(params)) {
            return (poison, ());
        }
        on_behalf("decay_weights", caller(), || {
            (tree_map2(|g, p| g + self.0.like(p) * p, gradient, params), ())
        })
    }
}

/// A part that multiplies gradients or steps by a number, as returned by [`scale`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Scale(Schedule);

/// Returns a part that multiplies gradients or steps by a number or a schedule. `scale(-0.1)` alone is gradient descent
/// with rate 0.1.
#[doc(alias = "scale_by_schedule", alias = "scale_by_learning_rate")]
pub fn scale(by: impl Into<Schedule>) -> Scale {
    Scale(by.into())
}

/// The state is the number of steps.
impl<P: Tree<Var>> Optimizer<P> for Scale {
    type State = Var;

    #[track_caller]
    fn init(&self, _: &P) -> Var {
        count()
    }

    #[track_caller]
    fn update(&self, gradient: &P, count: &Var, _: &P) -> (P, Var) {
        let at = caller();
        if let Err(poison) = floats("scale", at, gradient, None) {
            return (poison, *count);
        }
        let by = Number::Traced(self.0.at(*count));
        on_behalf("scale", caller(), || (tree_map(|g| by.like(g) * g, gradient), advanced(*count)))
    }
}

/// An optimiser that takes one step for several gradients, as returned by [`accumulate`].
#[derive(Clone, Debug)]
#[must_use = "an optimiser does nothing until it updates"]
pub struct Accumulate<O> {
    every: u64,
    inner: O,
}

/// Returns an optimiser for batches that do not fit in memory. After each `every` gradients, it takes one step of
/// `inner` with the mean of these gradients; all other steps are zero. `inner` counts its own steps only.
///
/// ```
/// use tapeloom::prelude::*;
/// let descent = optim::accumulate(2, optim::sgd(1.0));
/// let all = jit(|(p, g): (Var, Var)| {
///     let step = |(p, s): (Var, optim::State<optim::Accumulate<optim::Sgd>, Var>), g: Var| {
///         descent.step(&g, &s, &p)
///     };
///     let start = (p, descent.init(&p));
///     scan(|(carry, g)| { let (p, s) = step(carry, g); ((p, s), p) }, start, g).1
/// });
/// let p = all.call((0.0, [1.0, 3.0, 5.0, 7.0]))?;
/// assert_eq!(p.to_vec::<f64>()?, [0.0, -2.0, -2.0, -8.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "MultiSteps", alias = "gradient_accumulation")]
pub fn accumulate<O>(every: u64, inner: O) -> Accumulate<O> {
    Accumulate { every: every.max(1), inner }
}

/// The state is the number of gradients since the last step of `inner`, their sum, and the state of `inner`.
impl<P: Tree<Var>, O: Optimizer<P>> Optimizer<P> for Accumulate<O> {
    type State = (Var, P, O::State);

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        let at = caller();
        (count(), zeros_like(params), for_either(at, || self.inner.init(params)))
    }

    #[track_caller]
    fn update(
        &self,
        gradient: &P,
        (count, sum, inner): &Self::State,
        params: &P,
    ) -> (P, Self::State) {
        let at = caller();
        let inner = tree_map(|x| x, inner);
        if let Err(poison) = floats("accumulate", at, gradient, None) {
            return (poison, (*count, same(sum), inner));
        }
        let own = |body: &dyn Fn() -> P| on_behalf("accumulate", at, body);
        let sum = own(&|| tree_map2(|s, g| s + g, sum, gradient));
        let full = advanced(*count);
        for_either(at, || {
            let whole = full.ge(self.every as i64);
            let step = |(sum, inner): (P, O::State)| {
                let mean = own(&|| tree_map(|s| s / self.every as f64, &sum));
                let (updates, inner) = self.inner.update(&mean, &inner, params);
                (updates, (own(&|| zeros_like(&sum)), inner))
            };
            let wait = |(sum, inner): (P, O::State)| (own(&|| zeros_like(&sum)), (sum, inner));
            let (updates, (sum, inner)) = cond(whole, step, wait, (sum, inner));
            (updates, (whole.select(0, full), sum, inner))
        })
    }
}

/// An exponential moving average of trees, as returned by [`ema`].
#[derive(Clone, Copy, Debug)]
#[must_use = "an average does nothing until it is taken"]
pub struct Ema(Number);

/// Returns an average of trees over steps. The weight of a tree is `decay` times that of the next tree, and all weights
/// sum to 1, so the first average is the first tree.
///
/// [`average`](Ema::average) averages parameters beside an optimiser, for evaluation. In a tuple of optimisers, it
/// averages gradients.
///
/// ```
/// use tapeloom::prelude::*;
/// let (sgd, ema) = (optim::sgd(0.1), optim::ema(0.5));
/// let step = jit(|(p, seen): (Var, optim::State<optim::Ema, Var>)| {
///     let p = sgd.step(&(2.0 * p), &sgd.init(&p), &p).0;
///     let (mean, seen) = ema.average(&p, &seen);
///     (p, mean, seen)
/// });
/// let seen = run(|p: Var| ema.init(&p), 1.0)?;
/// let (p, mean, seen) = step.call((1.0, &seen))?;
/// assert!((mean.item::<f64>()? - 0.8).abs() < 1e-15);
/// let (p, mean, _) = step.call((p, &seen))?;
/// // The weights of 0.8 and 0.64 are 1/3 and 2/3.
/// assert!((mean.item::<f64>()? - 2.08 / 3.0).abs() < 1e-15 && p.item::<f64>()? < 0.65);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Model: optax's `ema` with `debias`; PyTorch's `AveragedModel` begins with the first parameters instead.
#[doc(alias = "AveragedModel", alias = "swa_utils", alias = "moving_average", alias = "polyak")]
pub fn ema(decay: impl Into<Number>) -> Ema {
    Ema(decay.into())
}

impl Ema {
    /// Returns the average of `tree` and all previous trees, and the next state. For the first tree, pass the state of
    /// [`init`](Optimizer::init).
    ///
    /// Errors: `dtype` if a leaf is not of floats; `shape` if the trees differ in form.
    #[track_caller]
    pub fn average<P: Tree<Var>>(&self, tree: &P, state: &Moments<P, 1>) -> (P, Moments<P, 1>) {
        let at = caller();
        if let Err(poison) = floats("ema", at, tree, None) {
            return (poison, same(state));
        }
        let (count, [sum]) = state;
        on_behalf("ema", at, || {
            let t = advanced(*count);
            let sum = tree_map2(|old, new| moving_average(self.0, old, new), sum, tree);
            // The sum of the weights of all trees so far. A mean that starts at zero is too small by this factor, so
            // divide by it.
            let full = |x: Var| 1.0 - self.0.like(x).pow(t.convert(x.dtype()));
            (tree_map(|x| x / full(x), &sum), (t, [sum]))
        })
    }
}

/// The state is the number of trees and their weighted sum.
impl<P: Tree<Var>> Optimizer<P> for Ema {
    type State = Moments<P, 1>;

    #[track_caller]
    fn init(&self, params: &P) -> Self::State {
        (count(), [zeros_like(params)])
    }

    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, _: &P) -> (P, Self::State) {
        let at = caller();
        for_either(at, || self.average(gradient, state))
    }
}
