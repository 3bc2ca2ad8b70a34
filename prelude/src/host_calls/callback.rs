//! Results from Rust functions.

use crate::Var;
use crate::tree::{Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::Callback;
use tapeloom_ir::trace;
use tapeloom_ir::{Answer, ArrayType, Batch, Failure, Host, Loc, Problem, Tensor};

/// What a Rust function gives for `x` when the program runs: a pure function, whose result is of the
/// declared types.
///
/// `result` is a tree with an [`ArrayType`] for each array, `f` gives the same tree of tensors, and what
/// stands in the program is the same tree of `Var`s. `name` is for messages and for the text of programs.
///
/// ```
/// use tapeloom::{ArrayType, prelude::*};
/// // The Bessel function J₀, which tapeloom does not have.
/// fn j0(x: Var) -> Var {
///     callback("j0", x, x.array_type(), |x: Tensor| Ok(x.map_numbers(bessel)))
/// }
/// # fn bessel(x: f64) -> f64 { (0..20).rev().fold(1.0, |s, k| 1.0 - s * x * x / (4.0 * f64::from((k + 1) * (k + 1)))) }
/// let f = jit(|x: Var| 2.0 * j0(x));
/// assert!((f.call(1.0)?.item::<f64>()? - 1.530395373).abs() < 1e-9);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Nothing is known of the function, so it has no derivative; a rule stands around it:
///
/// ```
/// use tapeloom::{ArrayType, prelude::*};
/// let ln = |x: Var| callback("ln", x, x.array_type(), |x: Tensor| Ok(x.map_numbers(f64::ln)));
/// let with_rule = custom_jvp(ln, move |x: Var, dx: Var| (ln(x), dx / x));
/// let f = jit(grad(with_rule));
/// assert_eq!(f.call(4.0)?.item::<f64>()?, 0.25);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Under [`vmap`](crate::vmap()) it is called for each member, one after the other; [`callback_batched`]
/// says how to answer for all at once.
///
/// Errors: `not-differentiable` where its derivative is asked for and no rule stands around it. When the
/// program runs, `callback` if the function panics, returns an error, or gives something else than was
/// declared: the call of the program ends with it, at the line of this call.
#[track_caller]
#[doc(alias = "pure_callback")]
pub fn callback<A: Tree<Var>, R: Tree<ArrayType>>(
    name: &str,
    x: A,
    result: R,
    f: impl Fn(A::With<Tensor>) -> Result<R::With<Tensor>, Failure> + Send + Sync + 'static,
) -> R::With<Var> {
    let structure = x.structure();
    let one = move |_, x: &[Tensor]| leaves::<R>(f(tree::<A>(&structure, x)?)?);
    emit(Host::new(name, one, None), &x, &result, caller())
}

/// [`callback`] with a function of its own over a batch: `batch(n, x)` is given n members at once, each
/// array with them on axis 0, and gives the results in the same way.
///
/// ```
/// use tapeloom::{ArrayType, prelude::*};
/// let double = |x: Var| {
///     let one = |x: Tensor| Ok(x.map_numbers(|x| 2.0 * x));
///     callback_batched("double", x, x.array_type(), one, move |_, all: Tensor| one(all))
/// };
/// let f = jit(vmap(double));
/// assert_eq!(f.call([1.0, 2.0])?.to_vec::<f64>()?, [2.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: as for [`callback`].
#[track_caller]
pub fn callback_batched<A: Tree<Var>, R: Tree<ArrayType>>(
    name: &str,
    x: A,
    result: R,
    f: impl Fn(A::With<Tensor>) -> Result<R::With<Tensor>, Failure> + Send + Sync + 'static,
    batch: impl Fn(usize, A::With<Tensor>) -> Result<R::With<Tensor>, Failure> + Send + Sync + 'static,
) -> R::With<Var> {
    let (structure, same) = (x.structure(), x.structure());
    let one = move |_, x: &[Tensor]| leaves::<R>(f(tree::<A>(&structure, x)?)?);
    let batch: Batch = Box::new(move |n, x| leaves::<R>(batch(n, tree::<A>(&same, x)?)?));
    emit(Host::new(name, one, Some(batch)), &x, &result, caller())
}

/// The leaves of a result.
fn leaves<R: Tree<ArrayType>>(y: R::With<Tensor>) -> Answer {
    Ok(flatten(&y).1)
}

/// The argument of a Rust function.
pub(super) fn tree<A: Tree<Var>>(
    structure: &A::Structure,
    leaves: &[Tensor],
) -> Result<A::With<Tensor>, Problem> {
    let mut leaves = leaves.iter().cloned();
    let mut missing = None;
    let tree = A::with_leaves(structure, &mut || {
        leaves.next().unwrap_or_else(|| {
            missing = Some(Problem::internal("a callback is given too few arrays"));
            Tensor::scalar(f64::NAN)
        })
    });
    missing.map_or(Ok(tree), Err)
}

fn emit<A: Tree<Var>, R: Tree<ArrayType>>(host: Host, x: &A, result: &R, at: Loc) -> R::With<Var> {
    let (_, x) = flatten(x);
    let (structure, types) = flatten(result);
    let operands: Vec<_> = x.iter().map(|v| v.handle).collect();
    let y = trace::bind(Callback::new(host, types.clone()), &operands, at);
    let mut y = y.into_iter().map(Var::new);
    let mut types = types.into_iter();
    R::with_leaves(&structure, &mut || {
        let ty = types.next().unwrap_or(ArrayType::new(tapeloom_ir::Dtype::F64, []));
        y.next().unwrap_or_else(|| Var::poison(ty, at))
    })
}
