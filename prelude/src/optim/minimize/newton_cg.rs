//! Newton's method with conjugate gradients: directions `-H⁻¹ g` from products with the Hessian.

use super::descend::{Change, Descent, FirstTrial, Point, descend};
use super::{Found, Limits, Minimizer, Search};
use crate::Var;
use crate::control::while_loop;
use crate::ops::functions::select;
use crate::transform::{grad, jvp};
use crate::{Tree, constant};

/// Newton's method with conjugate gradients, as returned by [`newton_cg`].
#[derive(Clone, Copy, Debug)]
pub struct NewtonCg;

/// Returns Newton's method with conjugate gradients. The linear system with the Hessian is solved inexactly: until
/// the residual is at most `min(1/2, √|g|)` times the gradient, or until a direction of negative curvature is
/// found.
///
/// ```
/// use tapeloom::prelude::*;
/// let find = jit(|start: Var| {
///     let weight = 10.0 * arange(50, Dtype::F64) + 1.0;
///     optim::newton_cg().minimize(|x: Var| (weight * (x - 2.0).square()).sum(), start)
/// });
/// let (x, outcome) = find.call(vec![0.0; 50])?;
/// assert!(x.to_vec::<f64>()?.iter().all(|x| (x - 2.0).abs() < 1e-8));
/// assert!(outcome.converged.item::<bool>()?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Nocedal and Wright, *Numerical Optimization*, algorithm 7.1.
#[doc(alias = "truncated_newton", alias = "trust_ncg")]
pub fn newton_cg() -> Minimizer<NewtonCg> {
    Minimizer::new(NewtonCg)
}

impl Search for NewtonCg {
    fn name(&self) -> &'static str {
        "newton_cg"
    }

    fn search(&self, loss: &dyn Fn(Var) -> Var, x: Var, limits: Limits) -> Found {
        let direction = |loss: &dyn Fn(Var) -> Var, p: &Point<Var>, (): &()| {
            let product = |v: Var| jvp(grad(loss))((p.x, v)).1;
            -solved(&product, p.gradient)
        };
        let (learn, first) = (|(): (), _: &Point<Var>, _: &Change| (), FirstTrial::One);
        descend(loss, x, limits, Descent { known: (), direction: &direction, learn: &learn, first })
    }
}

/// The state of conjugate gradients for `H d = g`.
#[derive(Tree, Clone, Copy)]
struct Iterate<T> {
    d: T,
    residual: T,
    direction: T,
    /// The squared length of `residual`, which is `g - H d`.
    size: T,
    count: T,
    /// Whether the curvature `⟨p, H p⟩` has been positive along all directions p so far.
    convex: T,
}

fn solved(product: &dyn Fn(Var) -> Var, g: Var) -> Var {
    let size = g.dot(g);
    let root = select(size.gt(0.0), size, 1.0).sqrt();
    let share = root.sqrt().minimum(0.5);
    let limit = share * share * size;
    // In exact arithmetic, n iterations would suffice for n parameters. Allow more because of rounding errors.
    let most = i64::try_from(2 * g.shape()[0] + 10).unwrap_or(i64::MAX);
    let count = constant(0i64);
    let start =
        Iterate { d: g.zeros_like(), residual: g, direction: g, size, count, convex: count.eq(0) };
    let going = |i: Iterate<Var>| i.convex & i.size.gt(limit) & i.count.lt(most);
    let next = |i: Iterate<Var>| {
        let hp = product(i.direction);
        let curvature = i.direction.dot(hp);
        let convex = curvature.gt(0.0);
        let alpha = select(convex, i.size / select(convex, curvature, 1.0), 0.0);
        let (d, residual) = (i.d + alpha * i.direction, i.residual - alpha * hp);
        let size = residual.dot(residual);
        let direction = residual + size / i.size * i.direction;
        Iterate { d, residual, direction, size, count: i.count + 1, convex }
    };
    let end = while_loop(going, next, start);
    // If the curvature is not positive along the first direction, `d` is still 0. Use the gradient instead.
    let none = end.d.dot(g).eq(0.0);
    select(none.broadcast_to(g.shape()), g, end.d)
}
