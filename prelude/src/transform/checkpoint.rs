//! `checkpoint` makes a closure whose reverse pass saves or recomputes values by a policy. `checkpoint_carries` makes a
//! closure whose loops save a fixed number of carries.

use crate::Var;
use crate::function::{Function, one};
use crate::ops::emit;
use crate::staging::{Staged, Typed, rebuild, stage, with_chunks};
use crate::tree::Tree;
use crate::var::caller;
use std::cell::RefCell;
use tapeloom_ir::prim::{Call, Mark, Op};
use tapeloom_ir::{FuncId, Loc, Module, Policy, Problem};
use tapeloom_transforms as transforms;

/// Returns `f` as a checkpoint: reverse mode saves only those values of the forward pass of `f` that `policy` names:
/// `(A -> B) -> (A -> B)`.
///
/// The reverse pass recomputes every value that is not saved, right before it reads the value. This trades time for
/// memory. The additional time is at most one forward pass of `f`, and one more for each checkpoint around it; under
/// a byte budget, a loop runs as often as the budget requires. In a long chain of checkpointed segments, the
/// intermediate values of only one segment are in memory at a time; checkpoints inside checkpoints save more memory.
/// Arguments are always available, and values that the closure captures count as arguments.
///
/// Values and derivatives are those of `f`, in any mode and to any order; sums of floats may be computed in another
/// order. Random numbers are an exception: if `f` draws from a [`random::Rng`](crate::random::Rng) outside its
/// closure, it draws from a child of that generator, as in every transform, and so gets other numbers than without
/// `checkpoint`.
///
/// | policy | saved for the reverse pass |
/// |---|---|
/// | [`Policy::Nothing`] | the arguments |
/// | [`Policy::Dots`] | results of contractions |
/// | `Policy::Bytes(n)` | at most `n` bytes, by the cheapest such plan |
/// | `Policy::About(n)` | as `Policy::Bytes(n)`; if no plan is that small, by the smallest plan |
/// | `Policy::named(["h"])` | values marked by [`Var::named`] with one of the names |
/// | `Policy::except(["h"])` | every value that the reverse pass reads, except those with one of the names |
/// | [`Policy::Planned`] | values that are cheaper to save than to recompute |
/// | [`Policy::Everything`] | every value that the reverse pass reads |
/// | [`Policy::Aliased`] | for comparison: the values saved by a compiler that treats arrays as memory that may overlap |
/// | [`Policy::Disjoint`] | for comparison: as [`Policy::Aliased`], where arrays are known not to overlap |
/// | [`Policy::Rounded`] | as [`Policy::Planned`], with f64 as f32: half the bytes; derivatives have about seven digits |
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
/// Visible effects and calls of Rust functions are never repeated, whatever the policy: results of
/// [`callback`](crate::callback()) are saved, and nothing is printed twice.
///
/// A byte budget bounds the memory that is live between forward and reverse pass, and the residuals that inner loops
/// save while the reverse pass processes an outer iteration. Arguments, results, and the workspace of one iteration are
/// not counted. Loops save as many carries as fit and recompute the others by binomial checkpointing; if that does not
/// suffice, inner loops do the same.
///
/// The budget holds for the function as it is differentiated. In `vmap(grad(checkpoint(f, ..)))` it holds per batch
/// member, in `grad(checkpoint(vmap(f), ..))` for the whole batch. A checkpoint inside a loop body has the budget per
/// iteration, a checkpoint around the loop for all iterations together. A derivative of the gradient has a second
/// budget of the same size, with [`Policy::About`]: its reverse pass differentiates the first reverse pass, including
/// the carries that were saved there.
///
/// If the budget suffices for everything that would be saved without a budget, it has no effect. A loop whose trip
/// count is known only at run time is never assumed to fit, except for the budget `u64::MAX`: within any other budget
/// it saves carries and recomputes iterations.
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
/// If `f` computes a gradient of a loop whose trip count is known only at run time, that loop gets a third of the
/// budget; without a budget, its memory would have no bound. The derivative of `f` needs the rest: its own loop saves
/// carries while those of the gradient are still live.
///
/// Errors: those of `f`, once each. If no plan fits the budget, the derivative is an error
/// ([`Kind::Budget`](crate::Kind::Budget)). Its message states the size of the smallest tape that was found, in bytes.
/// If a derivative does not exist, the transform that needs it reports the error.
/// [`Kind::Arguments`](crate::Kind::Arguments) if no value of `f` has a name of the policy; the message lists the
/// existing names.
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
    let (staged, _, output) = in_budget(policy, || stage_whole("checkpoint", at, f, x));
    rebuild(&output, emit_checkpointed(&staged, policy), at)
}

thread_local! {
    /// The policy for gradients that are computed inside the closure of a checkpoint. It is set while that closure is
    /// traced.
    static BUDGET: RefCell<Option<Policy>> = const { RefCell::new(None) };
}

/// Traces the closure of a checkpoint, in which batches are not divided into chunks: the number of residuals of a loop of
/// unknown length inside another loop has no bound that a policy could obey.
fn stage_whole<A: Tree<Var>, B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    f: &dyn Fn(A) -> B,
    x: A,
) -> Typed<A, B> {
    with_chunks(|_| 0, || stage(transform, at, f, x))
}

/// Traces the closure of a checkpoint. A gradient that the closure computes gets a third of the checkpoint's bytes as
/// its budget. When this gradient is differentiated in turn, three sets of carries are live at once: those of the
/// gradient's loops, those of the derivative's loops, and the tangents of the latter.
fn in_budget<T>(policy: &Policy, trace: impl FnOnce() -> T) -> T {
    /// Restores the previous policy, even if the closure panics.
    struct Restore(Option<Policy>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUDGET.set(self.0.take());
        }
    }
    let own = policy.bytes().map(|bytes| match bytes {
        // `u64::MAX` means that there is no bound.
        u64::MAX => policy.clone(),
        _ => Policy::Bytes(bytes / 3),
    });
    let _restore = Restore(BUDGET.replace(own));
    trace()
}

/// Derives the reverse mode of a function. Inside a checkpoint with a budget, the residuals of loops of unknown trip
/// count are saved within a third of this budget.
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

/// Emits a call of a closure whose residuals are chosen by `policy`, and returns its results.
fn emit_checkpointed(staged: &Staged, policy: &Policy) -> Vec<Var> {
    let known = |m: &mut Module, f| tapeloom_transforms::known_names(m, f, policy).map(|()| f);
    match staged.derive(known) {
        Some(function) => staged.bind(Call::checkpoint(function, policy.clone()), &staged.args, []),
        None => staged.poison(&staged.result_types()),
    }
}

/// Returns `f`, each of whose loops saves `carries` carries for the reverse pass, each at the start of a block of
/// `block` iterations: `(A -> B) -> (A -> B)`.
///
/// Usually, a differentiated loop saves residuals of every iteration. The loops of this function save `carries`
/// carries instead, however many iterations there are; the initial carry is one of them. The reverse pass recomputes
/// the other carries from the last saved one before them, in the order with the fewest repeated iterations (binomial
/// checkpointing). With `s` carries, `(s + 1)(s + 2) / 2` blocks can be differentiated if each block runs at most
/// twice forward, and a third time right before its reverse pass: 36 carries suffice for 703 blocks, a thousand for
/// half a million.
///
/// During the reverse pass of a block, all iterations of the block save their residuals. Larger blocks need fewer
/// carries or less time. The trip count may be known only at run time, and the loop may be a `while_loop`; then each
/// block has one iteration. Values and derivatives are those of `f`, bit by bit except for sums of floats that are
/// computed in another order.
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
/// Directional derivatives of the gradient ([`hvp`](crate::hvp), [`hessian`](crate::hessian)) and gradients of these
/// save the same number of carries, each with its tangent. The gradient of a gradient saves residuals of every
/// iteration.
///
/// If a loop is nested in another loop, its carries are residuals of the outer iteration: they are live during the
/// reverse pass of that iteration only. Recomputed iterations print nothing. A loop that calls
/// [`callback`](crate::callback) saves residuals of every iteration, because each Rust function is called only once.
///
/// Errors: those of `f`, once each; `carries` or `block` is zero.
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
    let (staged, _, output) = stage_whole("checkpoint_carries", at, f, x);
    rebuild(&output, carried(&staged, carries, block), at)
}

/// Emits a call of a closure whose loops save `carries` carries for the reverse pass, and returns its results.
fn carried(staged: &Staged, carries: usize, block: usize) -> Vec<Var> {
    let marked = staged.derive(|m, f| tapeloom_transforms::keep_carries(m, f, carries, block));
    match marked {
        Some(function) => staged.bind(Call::inline(function), &staged.args, []),
        None => staged.poison(&staged.result_types()),
    }
}

/// Names for policies of memory.
impl Var {
    /// Returns the array unchanged, under a name to which the policies of [`checkpoint`] can refer.
    ///
    /// A name begins with a letter and consists of letters, digits, `_` and `.`. Naming computes and copies
    /// nothing, but it is a barrier for simplification: sums and products are not simplified across the name.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |x: Var| x.dot(x).named("s").tanh().dot(x);
    /// let g = jit(grad(|x: Var| checkpoint(f, Policy::named(["s"]))(x).sum()));
    /// assert!(g.explain(Tensor::full(&[100, 100], 0.1)?)?.to_string().contains("kept named s"));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    ///
    /// Errors: `name` is not of that form.
    ///
    /// Source: JAX's `checkpoint_name`.
    #[doc(alias = "checkpoint_name")]
    #[track_caller]
    pub fn named(self, name: &str) -> Var {
        let at = caller();
        emit(Op::barrier(Mark::Named(name.into())), &[self], at)
    }
}
