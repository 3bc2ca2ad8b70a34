//! Forward mode: derivatives along a direction.

use crate::Var;
use crate::closure::{rebuild, stage};
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::tree::{Tree, different, flatten, leaf_paths};
use crate::var::caller;
use tapeloom_ir::trace::{self, Context, Diagnostic, Note};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};
use tapeloom_transforms as transforms;

/// Value and derivative along a tangent: `(A -> B) -> ((A, A) -> (B, B))`.
///
/// The cost is about twice that of `f`. Results that do not depend on the argument, and results that
/// are not floats, have tangent zero.
///
/// Errors: `not-differentiable` if a leaf of the argument is not a float; `shape` or `dtype` if a
/// tangent's type is not that of its primal.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, dx): (Var, Var)| jvp(|x: Var| x * x)((x, dx)));
/// let (y, dy) = f.call((3.0, 1.0))?;
/// assert_eq!((y.item::<f64>()?, dy.item::<f64>()?), (9.0, 6.0));
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn jvp<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(f: F) -> impl Fn((A, A)) -> (B, B) {
    let f = one(f);
    let at = caller();
    move |(x, dx)| {
        let (staged, structure) = stage("jvp", at, &f, x);
        let types = staged.result_types();
        let dx = same_types::<A>(staged.context(), &structure, "tangent", dx, &staged.arg_types());
        let ok = staged.require_floats::<A>(&structure);
        let of = staged.derive(|module, f| {
            transforms::jvp(module, f, &staged.mask(staged.args.iter().map(|_| true)))
        });
        let (y, dy) = match (of, dx) {
            (Some(of), Some(dx)) if ok => {
                let mut y = staged.call(of.function, &staged.args, dx, false);
                let dy = y.split_off(types.len().min(y.len()));
                (y, tangents(&types, &of.active_out, dy, at))
            }
            _ => (staged.poison(&types), staged.poison(&types)),
        };
        (rebuild(staged.output(), y, at), rebuild(staged.output(), dy, at))
    }
}

/// The value and the derivative as a linear function: `(A -> B) -> (A -> (B, A -> B))`.
///
/// `f` is evaluated once; the pushforward can be applied to many tangents.
///
/// Errors: as [`jvp`].
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| {
///     let (_, push) = linearize(|x: Var| x.sin())(x);
///     push(ones([], Dtype::F64)) + push(full([], 2.0))
/// });
/// assert_eq!(f.call(0.0)?.item::<f64>()?, 3.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn linearize<A: Tree<Var>, B: Tree<Var>, F: Function<A, B, M>, M>(
    f: F,
) -> impl Fn(A) -> (B, Box<dyn Fn(A) -> B>)
where
    B::Structure: 'static,
{
    let f = one(f);
    let at = caller();
    move |x| {
        let (staged, structure) = stage("linearize", at, &f, x);
        let types = staged.result_types();
        let ok = staged.require_floats::<A>(&structure);
        let of = staged.derive(|module, f| {
            transforms::linearize(module, f, &staged.mask(staged.args.iter().map(|_| true)))
        });
        let Some(of) = of.filter(|_| ok) else {
            let poison = move || rebuild::<B>(staged.output(), staged.poison(&types), at);
            return (poison(), Box::new(move |_| poison()));
        };
        let (y, residuals) = staged.first_half(of.fwd, &of.residuals);
        let y = rebuild(staged.output(), y, at);
        let push = move |dx: A| {
            let Some(dx) =
                same_types::<A>(staged.context(), &structure, "tangent", dx, &staged.arg_types())
            else {
                return rebuild(staged.output(), staged.poison(&types), at);
            };
            let operands: Vec<_> = residuals.iter().chain(&dx).map(|v| v.handle).collect();
            let call = tapeloom_ir::prim::Call::inline(of.lin);
            let dy = trace::bind(call, &operands, at).into_iter().map(Var::new).collect();
            rebuild(staged.output(), tangents(&types, &of.active_out, dy, at), at)
        };
        (y, Box::new(push))
    }
}

/// One tangent per result: those that were computed, and zeros.
pub(super) fn tangents(types: &[ArrayType], active: &[bool], found: Vec<Var>, at: Loc) -> Vec<Var> {
    let mut found = found.into_iter();
    let one = |(ty, on): (&ArrayType, &bool)| {
        let next = if *on { found.next() } else { None };
        next.unwrap_or_else(|| zeros_like_type(ty, at))
    };
    types.iter().zip(active).map(one).collect()
}

/// The leaves of a tree that must have the structure and the types of another one; what differs is
/// reported by path.
pub(crate) fn same_types<A: Tree<Var>>(
    context: Context,
    structure: &A::Structure,
    what: &str,
    tree: A,
    types: &[ArrayType],
) -> Option<Vec<Var>> {
    let at = context.at;
    let (given, leaves) = flatten(&tree);
    if given != *structure {
        let problem = other_structure::<A>(structure, &given, what);
        trace::report(Diagnostic::new(problem, at), Some(context));
        return None;
    }
    let mut ok = true;
    let paths = leaf_paths::<Var, A>(structure, what);
    for ((v, want), path) in leaves.iter().zip(types).zip(paths) {
        let got = v.ty(at);
        if got == *want {
            continue;
        }
        ok = false;
        if trace::is_poison(v.handle, at) {
            continue;
        }
        let problem = other_type(&path, want, &got);
        let notes = vec![Note { role: path, what: got.to_string(), born: v.handle.born() }];
        trace::report(Diagnostic { problem, at, notes, context: Vec::new() }, Some(context));
    }
    ok.then_some(leaves)
}

/// What is wrong with a tangent or a cotangent that is a tree of another structure than its primal.
pub(crate) fn other_structure<A: Tree<Var>>(
    structure: &A::Structure,
    given: &A::Structure,
    what: &str,
) -> Problem {
    let differ = different::<Var, A>(structure, given, what, ["its primal", "it"]);
    Problem::new(
        Kind::Shape,
        format!("the {what} is a tree of another structure than its primal: {differ}"),
        "build it with the same lengths, options and static fields",
    )
}

/// What is wrong with a leaf of it that has another type.
pub(crate) fn other_type(path: &str, want: &ArrayType, got: &ArrayType) -> Problem {
    let kind = if got.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
    let message = format!("`{path}` must have its primal's type {want}, got {got}");
    Problem::new(kind, message, "give it the primal's shape and dtype")
}
