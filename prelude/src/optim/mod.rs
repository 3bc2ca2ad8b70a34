//! Optimisers: pure functions from gradients, state and parameters to steps and the next state. Minimisers:
//! functions that iterate until the gradient is small.
//!
//! An [`Optimizer`] returns a step for a gradient. The parameters are any tree, and the state is a tree as well,
//! which the program passes along like any other value. Rates and other settings are `f64`s or `Var`s; a rate can
//! also be a [`Schedule`]. Everything is differentiable and can be batched: to differentiate the loss after some
//! steps with respect to their rate, apply `grad` to a closure that takes the rate.
//!
//! ```
//! use tapeloom::prelude::*;
//!
//! type Line<T> = (T, T);
//! let loss = |(slope, offset): Line<Var>, x: Var, y: Var| (slope * x + offset - y).square().mean();
//! let adam = (optim::clip_by_global_norm(10.0), optim::adam(optim::cosine_decay(0.2, 300)));
//! type State = optim::State<(optim::ClipByGlobalNorm, optim::Adam), Line<Var>>;
//!
//! let step = jit(|(p, state, x, y): (Line<Var>, State, Var, Var)| {
//!     let gradient = grad(|p| loss(p, x, y))(p);
//!     adam.step(&gradient, &state, &p)
//! });
//! let mut p = (Tensor::from(0.0), Tensor::from(0.0));
//! let mut state = run(|p: Line<Var>| adam.init(&p), &p)?;
//! for _ in 0..300 {
//!     (p, state) = step.call((&p, &state, [0.0, 1.0, 2.0], [1.0, 3.0, 5.0]))?;
//! }
//! let (slope, offset) = p;
//! assert!((slope.item::<f64>()? - 2.0).abs() < 1e-2 && (offset.item::<f64>()? - 1.0).abs() < 1e-2);
//!
//! // The derivative of the loss after three steps with respect to their rate.
//! let after = |rate: Var| {
//!     let sgd = optim::sgd(rate).momentum(0.9);
//!     let mut x = constant(1.0);
//!     let mut state = sgd.init(&x);
//!     for _ in 0..3 {
//!         (x, state) = sgd.step(&(2.0 * x), &state, &x);
//!     }
//!     x.square()
//! };
//! assert!(run(grad(after), 0.01)?.item::<f64>()? < 0.0, "a larger rate would be better");
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! | constructor | step |
//! |---|---|
//! | [`sgd`] | `rate · g`, with momentum and Nesterov's momentum |
//! | [`adam`], [`adamw`], [`lamb`] | mean of gradients over the root of the mean of their squares |
//! | [`rmsprop`], [`adagrad`] | the gradient over the root of the mean, or of the sum, of squares |
//! | [`lion`] | the sign of the mean of gradients |
//! | [`clip`], [`clip_by_global_norm`], [`decay_weights`], [`scale`] | building blocks, for tuples |
//! | [`accumulate`] | one step for several gradients |
//! | [`ema`] | the exponential moving average of gradients or parameters |
//!
//! A tuple of optimisers applies them one after the other. For a loss that is available as a whole and without
//! noise, [`minimize`](mod@minimize) has methods that choose their step sizes themselves; [`curve_fit`] fits models to
//! data.
//!
//! Model: optax.

mod adam;
mod descent;
pub mod minimize;
mod number;
mod parts;
mod scaled;

pub use adam::{Adam, adam, adamw, lamb};
pub use descent::{Sgd, sgd};
pub use minimize::{
    Bfgs, Curvature, CurveFit, Fit, Lbfgs, LevenbergMarquardt, Minimizer, NewtonCg, Outcome,
    Status, bfgs, curve_fit, lbfgs, levenberg_marquardt, newton_cg, parameter_covariance,
};
pub use number::{
    Number, Schedule, cosine_decay, exponential_decay, linear_schedule, piecewise_constant,
    schedule,
};
pub use parts::{
    Accumulate, Clip, ClipByGlobalNorm, DecayWeights, Ema, Scale, accumulate, clip,
    clip_by_global_norm, decay_weights, ema, scale,
};
pub use scaled::{Adagrad, Lion, Rmsprop, adagrad, lion, rmsprop};

use crate::Var;
use crate::ops::wrong;
use crate::staging::rebuild;
use crate::tree::{Flat, Tree, flatten, tree_map, tree_map2};
use crate::var::{caller, for_either, on_behalf};
use tapeloom_ir::trace;
use tapeloom_ir::{Kind, Literal, Loc, Problem, Tensor};

/// An optimiser: a pure function from gradients, state and parameters to steps and the next state. See the
/// [module](self).
///
/// Errors of all methods: `shape` if the trees differ in form or their leaves do not broadcast; `dtype` if their
/// dtypes differ or are not floats.
#[doc(alias = "GradientTransformation", alias = "chain")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no optimiser of `{P}`",
    label = "no optimiser",
    note = "make an optimiser by `optim::sgd`, `optim::adam` or another function of `optim`, or \
            pass a tuple of optimisers"
)]
pub trait Optimizer<P: Tree<Var>> {
    /// The values that each step passes to the next one, such as means of gradients.
    type State: Tree<Var>;

    /// Returns the state before the first step.
    #[track_caller]
    fn init(&self, params: &P) -> Self::State;

    /// Returns the step and the next state. The caller adds the step to the parameters, or calls
    /// [`step`](Optimizer::step) instead.
    #[track_caller]
    fn update(&self, gradient: &P, state: &Self::State, params: &P) -> (P, Self::State);

    /// Returns the parameters after a step, and the next state.
    #[track_caller]
    fn step(&self, gradient: &P, state: &Self::State, params: &P) -> (P, Self::State) {
        let at = caller();
        let (updates, state) = for_either(at, || self.update(gradient, state, params));
        (on_behalf("step", at, || tree_map2(|p, u| p + u, params, &updates)), state)
    }
}

/// The state of an optimiser `O` for parameters `P`: `optim::State<optim::Adam, Params<Var>>`.
pub type State<O, P> = <O as Optimizer<P>>::State;

/// The state of an optimiser `O` for parameters `P`, outside of closures: if a closure returns a `State`, `run` and
/// `jit` return a `Saved`, as in `optim::Saved<optim::Adam, Params<Var>>`.
///
/// `L` is the leaf: [`Tensor`], or the parameter of a struct that holds a state among its fields.
///
/// ```
/// use tapeloom::{prelude::*, tree::Leaf};
///
/// /// Everything of a training that changes from step to step.
/// #[derive(Tree, Clone)]
/// struct Progress<T: Leaf> {
///     w: T,
///     state: optim::Saved<optim::Adam, Var, T>,
/// }
/// let adam = optim::adam(0.1);
/// let step = jit(|p: Progress<Var>| {
///     let (w, state) = adam.step(&(2.0 * p.w), &p.state, &p.w);
///     Progress { w, state }
/// });
/// let state: optim::Saved<optim::Adam, Var> = run(|w: Var| adam.init(&w), 1.0)?;
/// let progress: Progress<Tensor> = step.call(Progress { w: Tensor::from(1.0), state })?;
/// assert!(progress.w.item::<f64>()? < 1.0);
/// assert_eq!(tree_paths(&progress), ["w", "state.0", "state.1[0]", "state.1[1]"]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub type Saved<O, P, L = Tensor> = <State<O, P> as Tree<Var>>::With<L>;

/// A state of an optimiser: the number of steps, and `N` trees with the structure of the parameters.
pub type Moments<P, const N: usize> = (Var, [P; N]);

/// Checks that all leaves of the gradient and of the parameters are floats. Otherwise reports the first leaf that is
/// not, and returns placeholders for the steps as the error value.
fn floats<P: Tree<Var>>(
    name: &'static str,
    at: Loc,
    gradient: &P,
    params: Option<&P>,
) -> Result<(), P> {
    let (structure, leaves) = flatten(gradient);
    let of = |tree: &P| Flat::of(tree);
    let trees = [("gradient", Some(of(gradient))), ("params", params.map(of))];
    let all = trees.into_iter().filter_map(|(root, tree)| Some((root, tree?)));
    if all_floats(name, at, all) {
        return Ok(());
    }
    let poison = leaves.iter().map(|v| Var::poison(v.ty(at), at)).collect();
    Err(rebuild(&structure, poison, at))
}

fn all_floats<'a>(name: &str, at: Loc, trees: impl Iterator<Item = (&'a str, Flat)>) -> bool {
    for (root, Flat { form, leaves }) in trees {
        for (v, path) in leaves.into_iter().zip(form.paths(root)) {
            let ty = v.ty(at);
            if ty.dtype.is_float() || trace::is_poison(v.handle, at) {
                continue;
            }
            let message = format!("`{name}` steps by floats, and `{path}` is {ty}");
            let help = "convert it, as in `x.convert(Dtype::F64)`";
            wrong(Problem::new(Kind::Dtype, message, help), &[v], ty, at);
            return false;
        }
    }
    true
}

/// Returns a copy of a tree.
fn same<P: Tree<Var>>(tree: &P) -> P {
    tree_map(|v| v, tree)
}

/// Returns the number of steps before the first step: 0.
#[track_caller]
fn count() -> Var {
    Var::literal(Literal::i64(0), caller())
}

/// Returns the step count plus one.
#[track_caller]
fn advanced(count: Var) -> Var {
    on_behalf("step", caller(), || count + 1)
}
