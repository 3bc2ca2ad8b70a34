//! Reverse mode: cotangents pulled back.

use super::forward::same_types;
use crate::Var;
use crate::closure::{rebuild, stage};
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::tree::Tree;
use crate::var::caller;
use tapeloom_ir::ArrayType;
use tapeloom_ir::Loc;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace;
use tapeloom_transforms as transforms;

/// The value and the pullback: `(A -> B) -> (A -> (B, B -> A))`.
///
/// `f` is evaluated once; the pullback can be applied to many cotangents.
///
/// Errors: as [`grad`](crate::grad), except that the result is any tree of floats, whose other leaves
/// are named by path; `shape` or `dtype` if a cotangent's type is not that of its result.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| {
///     let (y, pull) = vjp(|x: Var| x * x)(x);
///     (y, pull(ones([2], Dtype::F64)))
/// });
/// let (y, ct) = f.call([3.0, 4.0])?;
/// assert_eq!(y.to_vec::<f64>()?, [9.0, 16.0]);
/// assert_eq!(ct.to_vec::<f64>()?, [6.0, 8.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn vjp<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    f: F,
) -> impl Fn(A) -> (B, Box<dyn Fn(B) -> A>) {
    vjp_at(one(f), caller())
}

/// [`vjp`] that was asked for at that line.
pub(crate) fn vjp_at<A: Tree<Var>, B: Tree<Var>>(
    f: impl Fn(A) -> B,
    at: Loc,
) -> impl Fn(A) -> (B, Box<dyn Fn(B) -> A>) {
    move |x| {
        let (staged, structure) = stage("vjp", at, &f, x);
        let (types, arg_types) = (staged.result_types(), staged.arg_types());
        let ok = staged.require_floats::<A>(&structure) & staged.require_float_results::<B>();
        let of = staged.derive(|module, f| {
            transforms::vjp(module, f, &staged.mask(staged.args.iter().map(|_| true)))
        });
        let Some(of) = of.filter(|_| ok) else {
            let y = rebuild(staged.output(), staged.poison(&types), at);
            let pull = move |_| rebuild(&structure, staged.poison(&arg_types), at);
            return (y, Box::new(pull));
        };
        let (y, residuals) = staged.first_half(of.fwd, &of.residuals);
        let y = rebuild(staged.output(), y, at);
        let pull = move |ct: B| {
            let Some(ct) =
                same_types::<B>(staged.context(), staged.output(), "cotangent", ct, &types)
            else {
                return rebuild(&structure, staged.poison(&arg_types), at);
            };
            let seeds = ct.iter().zip(&of.active_out).filter(|(_, on)| **on).map(|(v, _)| v);
            let operands: Vec<_> = residuals.iter().chain(seeds).map(|v| v.handle).collect();
            let call = Call::inline(of.bwd);
            let found = trace::bind(call, &operands, at).into_iter().map(Var::new);
            let cotangents = spread(&arg_types, &of.nonzero, found, at);
            rebuild(&structure, cotangents, at)
        };
        (y, Box::new(pull))
    }
}

/// The transpose of a linear function: `((A -> B), example of A) -> (B -> A)`.
///
/// `example` gives shapes and dtypes; its values are not used.
///
/// Errors: `not-linear` if `f` is not linear in its argument.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| linear_transpose(|v: Var| (3.0 * v).sum(), x)(full([], 2.0)), [1.0, 1.0])?;
/// assert_eq!(y.to_vec::<f64>()?, [6.0, 6.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn linear_transpose<A: Tree<Var>, B: Tree<Var>, F: Fn(A) -> B>(
    f: F,
    example: A,
) -> impl Fn(B) -> A {
    let at = caller();
    let (staged, structure) = stage("linear_transpose", at, f, example);
    let (types, arg_types) = (staged.result_types(), staged.arg_types());
    let ok = staged.require_floats::<A>(&structure);
    let of = staged.derive(|module, f| {
        let linear = staged.mask(staged.args.iter().map(|_| true));
        let f = transforms::as_linear(module, f, &linear)?;
        transforms::transpose(module, f, &vec![true; types.len()])
    });
    let of = of.filter(|_| ok);
    move |ct: B| {
        let ct = same_types::<B>(staged.context(), staged.output(), "cotangent", ct, &types);
        let (Some(of), Some(ct)) = (&of, ct) else {
            return rebuild(&structure, staged.poison(&arg_types), at);
        };
        let found = staged.call(of.function, &[], ct, false).into_iter();
        rebuild(&structure, spread(&arg_types, &of.nonzero, found, at), at)
    }
}

/// One cotangent per argument: those that are not zero, and zeros.
fn spread(
    types: &[ArrayType],
    nonzero: &[bool],
    mut found: impl Iterator<Item = Var>,
    at: Loc,
) -> Vec<Var> {
    let one = |(ty, on): (&ArrayType, &bool)| {
        let next = if *on { found.next() } else { None };
        next.unwrap_or_else(|| zeros_like_type(ty, at))
    };
    types.iter().zip(nonzero).map(one).collect()
}
