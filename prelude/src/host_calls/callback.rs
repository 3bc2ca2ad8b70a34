//! Calls of Rust functions that return results.

use crate::Var;
use crate::tree::{Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::Callback;
use tapeloom_ir::trace;
use tapeloom_ir::{Answer, ArrayType, Batch, Failure, Host, Loc, Problem, Tensor};

/// Calls a Rust function when the program runs, and returns its result. The function must be pure, and its result must
/// have the declared types.
///
/// `result` is a tree with an [`ArrayType`] for each array; `f` returns the same tree of tensors, and `callback`
/// the same tree of `Var`s. `name` appears in messages and in the text of programs.
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
/// The function is opaque, so it has no derivative. For derivatives, wrap it in a custom rule:
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
/// Under [`vmap`](crate::vmap()), the function is called once for each member, one after the other; with
/// [`callback_batched`] it is called once for all members.
///
/// Errors: `not-differentiable` if the derivative is needed and the call is not wrapped in a rule. At run time,
/// `callback` if the function panics, returns an error, or returns another type than declared: the call of the
/// program ends with this error, which has the line of the `callback`.
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

/// Calls a Rust function as [`callback`] does. Under `vmap`, `batch(n, x)` is called instead: it gets all n members at
/// once, stacked along axis 0 of each array, and returns its results in the same layout.
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

/// Returns the leaves of the result of a Rust function.
fn leaves<R: Tree<ArrayType>>(y: R::With<Tensor>) -> Answer {
    Ok(flatten(&y).1)
}

/// Builds the tree that is passed to a Rust function, from its leaves.
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
