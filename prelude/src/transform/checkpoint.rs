//! `checkpoint`: a closure of which reverse mode keeps what a policy says; `checkpoint_carries`: one of
//! whose loops it keeps some carries.

use crate::Var;
use crate::function::{Function, one};
use crate::ops::emit;
use crate::staging::{Staged, rebuild, stage};
use crate::tree::Tree;
use crate::var::caller;
use std::cell::RefCell;
use tapeloom_ir::prim::{Call, Mark, Op};
use tapeloom_ir::{FuncId, Loc, Module, Policy, Problem};
use tapeloom_transforms as transforms;

/// The same function, of which reverse mode keeps what `policy` says: `(A -> B) -> (A -> B)`.
///
/// What is not kept the backward pass computes again, right before it needs it, so that memory is traded
/// for time: at most one more forward pass of `f`, and one more for each checkpoint that it lies in (under a
/// budget of bytes as many passes of a loop as the budget takes). In a long chain of checkpointed pieces only one at a time has its intermediate values in memory; pieces of
/// pieces go further. Arguments are there anyway, and what the closure captures counts as an argument.
/// Values and derivatives are those of `f`, to any order and in any mode (sums of floats may be taken in
/// another order). But for what `f` draws from a [`random::Rng`](crate::random::Rng) around it: as the closure of every
/// transform, it draws from a child of that generator, and so other numbers than without `checkpoint`.
///
/// | policy | keeps |
/// |---|---|
/// | [`Policy::Nothing`] | the arguments |
/// | [`Policy::Dots`] | what contractions give |
/// | `Policy::Bytes(n)` | so many bytes, by the cheapest plan that has no more |
/// | `Policy::About(n)` | the same, or as few bytes as there are where that is more |
/// | `Policy::named(["h"])` | values marked by [`Var::named`] with one of the names |
/// | `Policy::except(["h"])` | what the backward pass reads, but for those |
/// | [`Policy::Planned`] | what is cheaper to keep than to compute again |
/// | [`Policy::Everything`] | what the backward pass reads |
/// | [`Policy::Aliased`] | what a compiler keeps that takes arrays for memory; to be compared with |
/// | [`Policy::Disjoint`] | the same, where arrays are known not to overlap |
/// | [`Policy::Rounded`] | as planned, f64 as f32: half the bytes, and derivatives to some seven digits |
///
/// ```
/// use tapeloom::prelude::*;
/// let layer = |x: Var| x.dot(x.t()).tanh().dot(x);
/// let deep = |f: &dyn Fn(Var) -> Var, x: Var| (0..8).fold(x, |x, _| f(x)).sum();
/// let x = Tensor::full(&[32, 4], 0.1)?;
/// let all = jit(grad(|x| deep(&layer, x)));
/// let less = jit(grad(|x| deep(&checkpoint(layer, Policy::Nothing), x)));
/// assert!(3 * less.explain(&x)?.workspace_bytes() < all.explain(&x)?.workspace_bytes());
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// What a user can see, or what Rust functions gave, is not done again, whatever the policy: results of
/// [`callback`](crate::callback()) are kept, and nothing is printed twice.
///
/// A budget bounds what is alive between the forward pass and the way back, and what inner loops record
/// while an outer iteration is undone: not arguments, results, and what one iteration works in. Loops keep as many
/// carries as fit and make the others again, by binomial schedules; loops within loops do, too, where that
/// is not enough. It holds for the function as it is differentiated: `vmap(grad(checkpoint(f, ..)))` has so
/// many bytes for each member, `grad(checkpoint(vmap(f), ..))` for all; in a body of a loop it is for each
/// iteration, around the loop for all of them. A derivative of the gradient has [`Policy::About`] as many once more:
/// its way back goes through the first one, with the carries that are kept there.
///
/// A budget that has room for all that would be kept without one changes nothing. Of a loop of which only the run knows
/// how many iterations there are, none is known to have room but `u64::MAX`: within others it keeps carries, and runs its
/// iterations again.
///
/// ```
/// use tapeloom::prelude::*;
/// let swing = |(x, v): (Var, Var)| (x + v * 0.01, v - x.sin() * 0.01);
/// let run = move |x: Var| fori_loop(682, |(_, s): (Var, (Var, Var))| swing(s), (x, x.zeros_like())).0.sum();
/// let x = Tensor::full(&[100], 0.5)?;
/// let few = jit(grad(checkpoint(run, Policy::Bytes(64_000))));
/// assert!(few.explain(&x)?.tape().bytes() <= 64_000);
/// assert_eq!(few.call(&x)?, jit(grad(run)).call(&x)?);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// If `f` takes a gradient of a loop whose number of iterations is not known before the run, that loop gets a third of
/// the budget; its record would have no bound otherwise. The derivative of `f` needs the rest: the loop of the derivative
/// keeps its own carries beside those of the gradient.
///
/// Errors: those of `f`, once each. A budget that no plan meets is one of the derivative
/// ([`Kind::Budget`](crate::Kind::Budget)), and says the least that there is. What has no derivative is an
/// error of the transform that asks for one. [`Kind::Arguments`](crate::Kind::Arguments): a name that no value
/// of `f` has; the message says which there are.
///
/// Source: Griewank and Walther, "Evaluating Derivatives", chapter 12; JAX's `checkpoint`.
#[track_caller]
pub fn checkpoint<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    f: F,
    policy: Policy,
) -> impl Fn(A) -> B {
    let (f, at) = (one(f), caller());
    move |x| checkpoint_at(&f, &policy, at, x)
}

fn checkpoint_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    policy: &Policy,
    at: Loc,
    x: A,
) -> B {
    let (staged, _, output) = in_budget(policy, || stage("checkpoint", at, f, x));
    rebuild(&output, kept(&staged, policy), at)
}

thread_local! {
    /// The budget of gradients in the closure of a checkpoint, while the closure is being traced.
    static BUDGET: RefCell<Option<Policy>> = const { RefCell::new(None) };
}

/// Traces the closure of a checkpoint, with a third of its bytes as the budget of gradients in it: while the derivative
/// of a gradient is computed, the loops of the gradient and those of the derivative keep carries at the same time, the
/// latter with a tangent each.
fn in_budget<T>(policy: &Policy, trace: impl FnOnce() -> T) -> T {
    /// Restores the policy, also if the closure panics.
    struct Restore(Option<Policy>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUDGET.set(self.0.take());
        }
    }
    let own = policy.bytes().map(|bytes| match bytes {
        // No bound.
        u64::MAX => policy.clone(),
        _ => Policy::Bytes(bytes / 3),
    });
    let _restore = Restore(BUDGET.replace(own));
    trace()
}

/// Returns the reverse derivative of a function. If the derivative is taken inside a checkpoint with a budget, loops
/// of unknown length in the function get a part of the budget.
pub(super) fn vjp(
    module: &mut Module,
    f: FuncId,
    active: &[bool],
) -> Result<transforms::VjpOf, Problem> {
    match BUDGET.with_borrow(Clone::clone) {
        None => transforms::vjp(module, f, active),
        Some(policy) => transforms::vjp_within(module, f, active, &policy),
    }
}

/// The results of a call of which reverse mode keeps what a policy says.
fn kept(staged: &Staged, policy: &Policy) -> Vec<Var> {
    let known = |m: &mut Module, f| tapeloom_transforms::known_names(m, f, policy).map(|()| f);
    match staged.derive(known) {
        Some(function) => staged.bind(Call::checkpoint(function, policy.clone()), &staged.args, []),
        None => staged.poison(&staged.result_types()),
    }
}

/// The same function, of whose loops reverse mode keeps `carries` carries each, one for each `block` of
/// iterations: `(A -> B) -> (A -> B)`.
///
/// A loop that is differentiated keeps what the backward pass needs of every iteration. Of one in this
/// function it keeps as many carries as are said here, the first among them, however many iterations there
/// are; the backward pass makes the others again from the last one before it that is there, in the order
/// that runs the fewest iterations twice. With `s` carries `(s + 1)(s + 2) / 2` blocks run twice forward, and a
/// third time where each is undone: 36 carries for 703 iterations, a thousand for half a million. While a block
/// is undone, its iterations keep what they need; larger blocks take fewer carries, or less time. The number of
/// iterations may be known only when the program runs, and a loop may be one on a condition; then blocks are
/// of one iteration. Values and derivatives are those of `f`, in every bit where no sum of floats is taken in
/// another order.
///
/// ```
/// use tapeloom::prelude::*;
/// let swing = |(x, v): (Var, Var)| (x + v * 0.01, v - x.sin() * 0.01);
/// let run = move |x: Var| fori_loop(682, |(_, s): (Var, (Var, Var))| swing(s), (x, x.zeros_like())).0.sum();
/// let x = Tensor::full(&[100], 0.5)?;
/// let all = jit(grad(run));
/// let bytes = all.explain(&x)?.workspace_bytes();
/// for (carries, block) in [(36, 1), (22, 31)] {
///     let few = jit(grad(checkpoint_carries(carries, block, run)));
///     assert_eq!(few.call(&x)?, all.call(&x)?);
///     assert!(8 * few.explain(&x)?.workspace_bytes() < bytes);
/// }
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Derivatives along a direction of the gradient ([`hvp`](crate::hvp), [`hessian`](crate::hessian)) and
/// gradients of such derivatives keep as many carries, each with its tangent. The gradient of a gradient
/// keeps what every iteration needs.
///
/// What is kept of a loop inside an iteration of another one is a part of that iteration: it is there while the
/// iteration is undone. Iterations that run again print nothing. A loop whose iterations take what Rust gives
/// ([`callback`](crate::callback)) keeps what every iteration needs: it is asked once.
///
/// Errors: those of `f`, once each; no carry, or blocks of no iteration.
///
/// Source: Griewank and Walther, "Revolve" (ACM TOMS 2000).
#[track_caller]
pub fn checkpoint_carries<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    carries: usize,
    block: usize,
    f: F,
) -> impl Fn(A) -> B {
    let (f, at) = (one(f), caller());
    move |x| checkpoint_carries_at(&f, [carries, block], at, x)
}

fn checkpoint_carries_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    [carries, block]: [usize; 2],
    at: Loc,
    x: A,
) -> B {
    let (staged, _, output) = stage("checkpoint_carries", at, f, x);
    rebuild(&output, carried(&staged, carries, block), at)
}

/// The results of a call of whose loops reverse mode keeps some carries.
fn carried(staged: &Staged, carries: usize, block: usize) -> Vec<Var> {
    let marked = staged.derive(|m, f| tapeloom_transforms::keep_carries(m, f, carries, block));
    match marked {
        Some(function) => staged.bind(Call::inline(function), &staged.args, []),
        None => staged.poison(&staged.result_types()),
    }
}

impl Var {
    /// The same values under a name, by which the policies of [`checkpoint`] call them.
    ///
    /// A name is a word of letters, digits, `_` and `.` that begins with a letter. Nothing is computed or
    /// copied; but what reads the named value does not see how it was made, so that sums and products are
    /// not simplified across the name.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| x.dot(x).named("s").tanh().dot(x);
    /// let g = jit(grad(|x: Var| checkpoint(f, Policy::named(["s"]))(x).sum()));
    /// assert!(g.explain(Tensor::full(&[100, 100], 0.1)?)?.to_string().contains("kept named s"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: a name that is no word.
    ///
    /// Source: JAX's `checkpoint_name`.
    #[doc(alias = "checkpoint_name")]
    #[track_caller]
    pub fn named(self, name: &str) -> Var {
        let at = caller();
        emit(Op::barrier(Mark::Named(name.into())), &[self], at)
    }
}
