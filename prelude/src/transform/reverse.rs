//! Reverse mode: `vjp` and `linear_transpose`.

use super::forward::same_types;
use crate::Var;
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::staging::{Staged, rebuild, stage, stage_linearized, vars};
use crate::tree::{Flat, Tree};
use crate::var::caller;
use tapeloom_ir::ArrayType;
use tapeloom_ir::Loc;
use tapeloom_ir::lang::query::TransposeOf;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace;
use tapeloom_transforms::{self as transforms, VjpOf};

/// Returns a closure that computes the value of `f` and the pullback, the function from a cotangent of the result
/// to the cotangent of the argument: `(A -> B) -> (A -> (B, B -> A))`.
///
/// `f` is evaluated once, and its pullback can be applied to any number of cotangents.
///
/// Errors: as [`grad`](crate::grad), except that the result may be any tree of floats (the message has the path of
/// a leaf that is not a float); `shape` or `dtype` if a cotangent has another type than its result.
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
    let (f, at) = (one(f), caller());
    move |x| vjp_at(&f, at, x)
}

/// Computes the value and the pullback that [`vjp`] returns. `at` is the line of the user's call, for messages.
pub(crate) fn vjp_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    at: Loc,
    x: A,
) -> (B, Box<dyn Fn(B) -> A>) {
    let (staged, structure, output) = stage_linearized("vjp", at, f, x);
    let (y, pullback) = Pullback::of(staged);
    let pull = move |ct| rebuild(&structure, pullback.pull(Flat::of(&ct)), at);
    (rebuild(&output, y, at), Box::new(pull))
}

/// The reverse pass of a closure, which can be emitted for any number of cotangents.
struct Pullback {
    staged: Staged,
    /// The types of the arguments. They are stored, because the arguments may be out of scope when the pullback is
    /// called.
    arg_types: Vec<ArrayType>,
    /// The reverse derivative and its residuals; `None` after an error.
    of: Option<(VjpOf, Vec<Var>)>,
}

impl Pullback {
    /// Emits the forward pass. Returns the results of the closure and the pullback.
    fn of(staged: Staged) -> (Vec<Var>, Pullback) {
        let arg_types = staged.arg_types();
        let ok = staged.require_floats() & staged.require_float_results();
        let of = staged.derive(|module, f| super::checkpoint::vjp(module, f, &staged.all_args()));
        let Some(of) = of.filter(|_| ok) else {
            let y = staged.poison(&staged.result_types());
            return (y, Pullback { staged, arg_types, of: None });
        };
        let (y, residuals) = staged.first_half(of.fwd, &of.residuals);
        (y, Pullback { staged, arg_types, of: Some((of, residuals)) })
    }

    /// Emits the reverse pass for the cotangents `ct`, and returns the cotangents of the arguments.
    fn pull(&self, ct: Flat) -> Vec<Var> {
        let Pullback { staged, arg_types, of } = self;
        let Some((of, residuals)) = of else { return staged.poison(arg_types) };
        let types = staged.result_types();
        let ct = same_types(staged.context(), staged.output(), "cotangent", ct, &types);
        let Some(ct) = ct else { return staged.poison(arg_types) };
        let seeds = ct.iter().zip(&of.active_out).filter(|(_, on)| **on).map(|(v, _)| v);
        let operands: Vec<_> = residuals.iter().chain(seeds).map(|v| v.handle).collect();
        let found = trace::bind(Call::inline(of.bwd), &operands, staged.at);
        spread(arg_types, &of.nonzero, vars(&found), staged.at)
    }
}

/// Returns the transpose of a linear function: `((A -> B), example of A) -> (B -> A)`.
///
/// Only the structure, shapes and dtypes of `example` are used, not its values.
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
    let (staged, structure, _) = stage("linear_transpose", at, &f, example);
    let transpose = Transpose::of(staged);
    move |ct: B| rebuild(&structure, transpose.apply(Flat::of(&ct)), at)
}

/// The transpose of a linear function.
struct Transpose {
    staged: Staged,
    /// The types of the example. They are stored, because the example may be out of scope when the transpose is called.
    arg_types: Vec<ArrayType>,
    /// `None` after an error.
    of: Option<TransposeOf>,
}

impl Transpose {
    fn of(staged: Staged) -> Transpose {
        let (arg_types, ok) = (staged.arg_types(), staged.require_floats());
        let of = staged.derive(|module, f| {
            let f = transforms::as_linear(module, f, &staged.all_args())?;
            transforms::transpose(module, f, &vec![true; staged.result_types().len()])
        });
        Transpose { staged, arg_types, of: of.filter(|_| ok) }
    }

    /// Emits a call of the transposed function for the cotangents `ct`, and returns its results.
    fn apply(&self, ct: Flat) -> Vec<Var> {
        let Transpose { staged, arg_types, of } = self;
        let types = staged.result_types();
        let ct = same_types(staged.context(), staged.output(), "cotangent", ct, &types);
        let (Some(of), Some(ct)) = (of, ct) else { return staged.poison(arg_types) };
        let found = staged.call(of.function, &[], ct, false);
        spread(arg_types, &of.nonzero, found, staged.at)
    }
}

/// Returns one cotangent for each argument: the next cotangent of `found` if `nonzero` is true for this argument,
/// otherwise zeros.
fn spread(types: &[ArrayType], nonzero: &[bool], found: Vec<Var>, at: Loc) -> Vec<Var> {
    let mut found = found.into_iter();
    let one = |(ty, on): (&ArrayType, &bool)| {
        let next = if *on { found.next() } else { None };
        next.unwrap_or_else(|| zeros_like_type(ty, at))
    };
    types.iter().zip(nonzero).map(one).collect()
}
