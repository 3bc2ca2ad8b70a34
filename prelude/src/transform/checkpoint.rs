//! `checkpoint`: a closure of which reverse mode keeps the arguments only.

use crate::Var;
use crate::closure::{rebuild, stage};
use crate::function::{Function, one};
use crate::tree::Tree;
use crate::var::caller;
use tapeloom_ir::Policy;
use tapeloom_ir::prim::Call;

/// The same function, of which reverse mode keeps nothing but the arguments: `(A -> B) -> (A -> B)`.
///
/// The backward pass computes the rest again, right before it needs it, so that memory is traded for
/// time: at most one more forward pass of `f`, and one more for each checkpoint that it lies in. In a
/// long chain of checkpointed pieces only one at a time has its intermediate values in memory; pieces of
/// pieces go further. What the closure captures counts as
/// an argument. Values and derivatives are those of `f`, to any order and in any mode (sums of floats may
/// be taken in another order).
///
/// ```
/// use tapeloom::prelude::*;
/// let layer = |x: Var| x.dot(x.t()).tanh().dot(x);
/// let deep = |f: &dyn Fn(Var) -> Var, x: Var| (0..8).fold(x, |x, _| f(x)).sum();
/// let x = Tensor::full(&[32, 4], 0.1)?;
/// let all = jit(grad(|x| deep(&layer, x)));
/// let less = jit(grad(|x| deep(&checkpoint(layer), x)));
/// assert!(3 * less.explain(&x)?.workspace_bytes() < all.explain(&x)?.workspace_bytes());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of `f`, once each. There is none of its own: what has no derivative is an error of
/// the transform that asks for one.
///
/// Source: Griewank and Walther, "Evaluating Derivatives", chapter 12; JAX's `checkpoint`.
#[track_caller]
pub fn checkpoint<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> impl Fn(A) -> B {
    let f = one(f);
    let at = caller();
    move |x| {
        let (staged, _) = stage("checkpoint", at, &f, x);
        let results = match staged.function() {
            Some(function) => {
                let call = Call::checkpoint(function, Policy::Nothing);
                staged.bind(call, &staged.args, [])
            }
            None => staged.poison(&staged.result_types()),
        };
        rebuild(staged.output(), results, at)
    }
}
