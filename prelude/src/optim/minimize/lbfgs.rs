//! L-BFGS: quasi-Newton descent with curvature estimated from the last few steps.
//!
//! ```text
//! d = -H g        H: the inverse Hessian that maps y to s for the last pairs s = x - x', y = g - g'
//! x ← x + t d     t = 1, 1/2, 1/4, .. until  f(x + t d) ≤ f(x) + 1e-4 t ⟨g, d⟩
//! ```
//!
//! The product `H g` of the estimated inverse Hessian and the gradient is computed by two loops over the pairs
//! (Nocedal's recursion), without a matrix. A pair with `⟨s, y⟩ ≤ 0`, which cannot occur for a convex function, is
//! discarded.

use super::descend::{Change, Descent, FirstTrial, Point, descend};
use super::{Found, Limits, Minimizer, Search, are_floats};
use crate::control::{scan, scan_reverse, while_loop};
use crate::function::{Function, one};
use crate::ops::functions::{concat, select, zeros};
use crate::staging::rebuild;
use crate::transform::value_and_grad;
use crate::tree::{flatten, ravel};
use crate::var::{caller, on_behalf, users_code};
use crate::{Tree, Var, constant};
use tapeloom_ir::{ArrayType, Dtype};

/// The fraction of the predicted decrease that a step must achieve.
const ARMIJO: f64 = 1e-4;
/// The largest number of times that a step is halved.
const HALVINGS: i64 = 30;

/// L-BFGS, as returned by [`lbfgs`]. `memory` is the number of remembered steps.
#[derive(Clone, Copy, Debug)]
pub struct Lbfgs {
    memory: usize,
}

/// The curvature estimate of L-BFGS. All n parameters are one vector.
#[derive(Tree, Clone, Debug)]
pub struct Curvature<T> {
    /// The last steps, the newest one last: `[memory, n]`.
    pub steps: T,
    /// The change of the gradient in each step of `steps`: `[memory, n]`.
    pub changes: T,
    /// `1 / ⟨step, change⟩` for each remembered step, 0 for entries that are not filled yet: `[memory]`.
    pub weights: T,
    /// The factor by which H, the estimate of the inverse Hessian, multiplies directions that are orthogonal to all
    /// remembered steps; 0 before the first step.
    pub scale: T,
    /// The parameters before the last step.
    pub position: T,
    /// The gradient at `position`.
    pub gradient: T,
}

/// Returns L-BFGS with `memory` remembered steps, usually about ten. It is for smooth functions without noise: a
/// step is nearly as good as one of Newton's method, and costs one gradient and one or two values of the loss.
///
/// ```
/// use tapeloom::prelude::*;
/// let rosenbrock = |(x, y): (Var, Var)| (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
/// let minimum = jit(move |p: (Var, Var)| {
///     let lbfgs = optim::lbfgs(10);
///     let step = |(_, (p, c)): (Var, ((Var, Var), optim::Curvature<Var>))| {
///         lbfgs.step(rosenbrock, &p, &c)
///     };
///     fori_loop(60, step, (p, lbfgs.start(&p))).0
/// });
/// let (x, y) = minimum.call((-1.2, 1.0))?;
/// assert!((x.item::<f64>()? - 1.0).abs() < 1e-8 && (y.item::<f64>()? - 1.0).abs() < 1e-8);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Nocedal, *Updating quasi-Newton matrices with limited storage* (1980); Nocedal and Wright,
/// *Numerical Optimization*, algorithms 7.4 and 3.1.
#[doc(alias = "LBFGS")]
#[doc(alias = "l_bfgs", alias = "quasi_newton")]
pub fn lbfgs(memory: usize) -> Minimizer<Lbfgs> {
    Minimizer::new(Lbfgs { memory })
}

impl Minimizer<Lbfgs> {
    /// Returns the curvature estimate before the first step from the parameters `p`.
    ///
    /// Errors: `dtype` if the leaves have different dtypes or are not floats.
    #[track_caller]
    pub fn start<P: Tree<Var>>(&self, p: &P) -> Curvature<Var> {
        let at = caller();
        if !are_floats("lbfgs", at, p) {
            let elements = flatten(p).1.iter().map(|v| v.ty(at).shape.elements()).sum::<usize>();
            let none = Var::poison(ArrayType::new(Dtype::F64, [elements]), at);
            return on_behalf("lbfgs", at, || self.method.unknown(none));
        }
        on_behalf("lbfgs", at, || self.method.unknown(ravel(p).0))
    }

    /// Returns the parameters after a step that lowers `loss`, and the updated curvature estimate. The step is halved
    /// until the loss decreases enough. If it does not decrease for any step size tried, as at a minimum, the
    /// parameters do not change.
    ///
    /// Derivatives go through the direction of the step; the choice of its length is a constant.
    ///
    /// Errors: those of [`grad`](crate::grad) of the loss; `dtype` if the leaves have different dtypes; `shape` if
    /// `known` belongs to other parameters.
    #[track_caller]
    pub fn step<P: Tree<Var>, F: Function<P, Var, M>, M>(
        &self,
        loss: F,
        p: &P,
        known: &Curvature<Var>,
    ) -> (P, Curvature<Var>) {
        let (loss, at) = (one(loss), caller());
        let (structure, leaves) = flatten(p);
        if !are_floats("lbfgs", at, p) {
            let poison = leaves.iter().map(|v| Var::poison(v.ty(at), at)).collect();
            return (rebuild(&structure, poison, at), known.clone());
        }
        on_behalf("lbfgs", at, || {
            let (x, unravel) = ravel(p);
            let loss = |x: Var| {
                let p = unravel(x);
                users_code(|| loss(p))
            };
            let (x, known) = self.method.step_of_vector(&loss, x, known);
            (unravel(x), known)
        })
    }
}

impl Search for Lbfgs {
    fn name(&self) -> &'static str {
        "lbfgs"
    }

    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found {
        let direction = |_: &dyn Fn(Var) -> Var, p: &Point<Var>, known: &Curvature<Var>| {
            -known.times(p.gradient)
        };
        let learn = |known: Curvature<Var>, _: &Point<Var>, change: &Change| {
            self.with_pair(&known, change.x, change.gradient)
        };
        let known = self.unknown(x);
        let first = FirstTrial::One;
        descend(loss, x, limits, Descent { known, direction: &direction, learn: &learn, first })
    }
}

impl Lbfgs {
    fn unknown(self, x: Var) -> Curvature<Var> {
        let (n, dtype) = (x.shape()[0], x.dtype());
        let pairs = zeros([self.memory, n], dtype);
        Curvature {
            steps: pairs,
            changes: pairs,
            weights: zeros([self.memory], dtype),
            scale: zeros([], dtype),
            position: x,
            gradient: x.zeros_like(),
        }
    }

    /// Takes one step of [`Minimizer::step`] from the parameters `x`, joined into one vector. Returns the next
    /// parameters and the updated curvature estimate.
    fn step_of_vector(
        self,
        loss: &dyn Fn(Var) -> Var,
        x: Var,
        known: &Curvature<Var>,
    ) -> (Var, Curvature<Var>) {
        let (value, g) = value_and_grad(loss)(x);
        let known = self.learned(known, x, g);
        let d = -known.times(g);
        let t = length(loss, value, (x, g, d));
        (x + t * d, known)
    }

    /// Updates the curvature estimate with the gradient `g` at the parameters `x`, which the last step has reached.
    fn learned(self, before: &Curvature<Var>, x: Var, g: Var) -> Curvature<Var> {
        // Before the first step nothing is known of the curvature. The scale is chosen so that the first direction has
        // length 1.
        let started = before.scale.gt(0.0);
        let length = g.dot(g);
        let some = length.gt(0.0);
        let first = select(some, 1.0 / select(some, length, 1.0).sqrt(), 1.0);
        let known = self.with_pair(before, x - before.position, g - before.gradient);
        let scale = select(started, known.scale, first);
        Curvature { scale, position: x, gradient: g, ..known }
    }

    /// Adds a pair to the estimate: a step `s` and the change `y` of the gradient in that step. If ⟨s, y⟩ is not
    /// positive, the estimate does not change. If the memory is full, the oldest pair is dropped.
    fn with_pair(self, before: &Curvature<Var>, s: Var, y: Var) -> Curvature<Var> {
        let (sy, yy) = (s.dot(y), y.dot(y));
        let good = sy.gt(0.0);
        let push = |old: Var, new: Var| {
            if self.memory == 0 {
                return old;
            }
            let all = concat(&[old.slice_axis(0, 1..), new.expand_dims(0)], 0);
            select(good.broadcast_to(all.shape()), all, old)
        };
        Curvature {
            steps: push(before.steps, s),
            changes: push(before.changes, y),
            weights: push(before.weights, 1.0 / select(good, sy, 1.0)),
            scale: select(good, sy / select(good, yy, 1.0), before.scale),
            position: before.position,
            gradient: before.gradient,
        }
    }
}

/// A remembered step, the change of the gradient in that step, and the weight of this pair.
type Pair = (Var, (Var, Var));

impl Curvature<Var> {
    /// Returns `H g`, where H is the estimate of the inverse Hessian: two loops over the remembered pairs.
    fn times(&self, g: Var) -> Var {
        let pairs = || (self.steps, (self.changes, self.weights));
        let down = |(q, (s, (y, w))): (Var, Pair)| {
            let a = w * s.dot(q);
            (q - a * y, a)
        };
        let (q, parts) = scan_reverse(down, g, pairs());
        let up = |(r, ((s, (y, w)), a)): (Var, (Pair, Var))| (r + s * (a - w * y.dot(r)), ());
        scan(up, self.scale * q, (pairs(), parts)).0
    }
}

/// Returns the first step size t among 1, 1/2, 1/4, .. for which `x + t d` lowers the loss enough. If no t tried does,
/// returns 0.
fn length(loss: &dyn Fn(Var) -> Var, value: Var, (x, g, d): (Var, Var, Var)) -> Var {
    let [value, x, g, d] = [value, x, g, d].map(Var::stop_gradient);
    let slope = g.dot(d);
    let lower = |t: Var| loss(x + t * d).stop_gradient().le(value + ARMIJO * t * slope);
    let one = value.ones_like();
    let none = constant(0i64);
    let short = |(_, n, done): (Var, Var, Var)| !done & n.lt(HALVINGS);
    let halve = |(t, n, _): (Var, Var, Var)| (0.5 * t, n + 1, lower(0.5 * t));
    let (t, _, done) = while_loop(short, halve, (one, none, lower(one)));
    select(done, t, 0.0)
}
