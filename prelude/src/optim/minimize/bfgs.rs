//! BFGS: quasi-Newton descent with an inverse Hessian that is estimated from the steps.
//!
//! ```text
//! H ← (I - ρ s yᵀ) H (I - ρ y sᵀ) + ρ s sᵀ       s = x' - x, y = g' - g, ρ = 1 / ⟨s, y⟩
//! ```

use super::descend::{Change, Descent, FirstTrial, Point, descend};
use super::{Found, Limits, Minimizer, Search};
use crate::Var;
use crate::dtype::epsilon;
use crate::ops::functions::{eye, select};

/// BFGS, as returned by [`bfgs`].
#[derive(Clone, Copy, Debug)]
pub struct Bfgs;

/// Returns BFGS: quasi-Newton descent with a dense inverse Hessian, of `n²` numbers for n parameters.
///
/// ```
/// use tapeloom::prelude::*;
/// let find = jit(|start: Var| optim::bfgs().minimize(|x: Var| (x - 1.0).cosh().sum(), start));
/// let (x, outcome) = find.call([0.0, 3.0])?;
/// assert!(x.to_vec::<f64>()?.iter().all(|x| (x - 1.0).abs() < 1e-7));
/// assert_eq!(outcome.value.item::<f64>()?, 2.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Nocedal and Wright, *Numerical Optimization*, algorithm 6.1.
#[doc(alias = "quasi_newton")]
pub fn bfgs() -> Minimizer<Bfgs> {
    Minimizer::new(Bfgs)
}

impl Search for Bfgs {
    fn name(&self) -> &'static str {
        "bfgs"
    }

    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found {
        let unknown = eye(x.shape()[0], x.dtype()) * 0.0;
        let direction = |_: &dyn Fn(Var) -> Var, p: &Point<Var>, h: &Var| -h.dot(p.gradient);
        let method = Descent {
            known: unknown,
            direction: &direction,
            learn: &|h, _, change| learned(h, change),
            first: FirstTrial::LastDecrease,
        };
        descend(loss, x, limits, method)
    }
}

/// Updates the estimate `h` of the inverse Hessian after a step `s` in which the gradient changed by `y`. Before the
/// first step `h` is 0, and the step is along the negative gradient.
///
/// The first step measures `⟨s, y⟩ / ⟨y, y⟩`, which is about the inverse of the largest curvature. As the scale of the
/// first estimate this is much too small along all directions of small curvature, and BFGS corrects small estimates
/// slowly, because a step of length 1 along these directions always lowers the loss enough. An estimate that is too
/// large is corrected by the first line search along its direction. So the first estimate is larger by `ε^(-1/3)`, for
/// the rounding error ε: 2e5 in f64, 200 in f32. A larger factor would leave rounding errors of the first estimate in
/// the updated one.
fn learned(h: Var, Change { x: s, gradient: y }: &Change) -> Var {
    let (s, y) = (*s, *y);
    let (sy, yy) = (s.dot(y), y.dot(y));
    // If the slope does not increase along a step (⟨s, y⟩ ≤ 0), skip the update: the updated matrix would not be
    // positive definite.
    let good = sy.gt(0.0);
    let rho = 1.0 / select(good, sy, 1.0);
    let scale = epsilon(h.dtype()).powf(-1.0 / 3.0) * sy / select(good, yy, 1.0);
    let fresh = h.diagonal().sum().eq(0.0);
    let identity = eye(h.shape()[0], h.dtype());
    let h0 = select(fresh.broadcast_to(h.shape()), scale * identity, h);
    let hy = h0.dot(y);
    let outer = |a: Var, b: Var| a.expand_dims(1) * b.expand_dims(0);
    let next =
        h0 - rho * (outer(s, hy) + outer(hy, s)) + rho * (1.0 + rho * y.dot(hy)) * outer(s, s);
    select(good.broadcast_to(h.shape()), next, h)
}
