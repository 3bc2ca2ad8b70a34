//! Forward mode: `jvp` and `linearize`.

use crate::Var;
use crate::function::{Function, one};
use crate::ops::zeros_like_type;
use crate::staging::{Staged, handles, rebuild, stage, stage_linearized, vars};
use crate::tree::{Flat, Form, Tree};
use crate::var::caller;
use tapeloom_ir::lang::query::LinearizeOf;
use tapeloom_ir::prim::Call;
use tapeloom_ir::trace::{self, Context, Diagnostic, Note};
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};
use tapeloom_transforms as transforms;

/// Returns a closure that computes the value of `f` and its derivative along a tangent:
/// `(A -> B) -> ((A, A) -> (B, B))`.
///
/// The cost is about twice that of `f`. The tangent of a result is zero if the result does not depend on the
/// argument or is not a float.
///
/// Errors: `not-differentiable` if a leaf of the argument is not a float; `shape` or `dtype` if a tangent has
/// another type than its primal.
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
    let (f, at) = (one(f), caller());
    move |(x, dx)| jvp_at(&f, at, x, &dx)
}

/// Computes the value and the derivative that [`jvp`] returns. `at` is the line of the user's call, for messages.
pub(super) fn jvp_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    at: Loc,
    x: A,
    dx: &A,
) -> (B, B) {
    let (staged, _, output) = stage("jvp", at, f, x);
    let (y, dy) = derivative(&staged, Flat::of(dx));
    (rebuild(&output, y, at), rebuild(&output, dy, at))
}

/// Emits a call of the closure's forward derivative, and returns the values and the tangents of the results.
fn derivative(staged: &Staged, dx: Flat) -> (Vec<Var>, Vec<Var>) {
    let types = staged.result_types();
    let dx = same_types(staged.context(), staged.form(), "tangent", dx, &staged.arg_types());
    let ok = staged.require_floats();
    let of = staged.derive(|module, f| transforms::jvp(module, f, &staged.all_args()));
    match (of, dx) {
        (Some(of), Some(dx)) if ok => {
            let mut y = staged.call(of.function, &staged.args, dx, false);
            let dy = y.split_off(types.len().min(y.len()));
            (y, tangents(&types, &of.active_out, dy, staged.at))
        }
        _ => (staged.poison(&types), staged.poison(&types)),
    }
}

/// Returns a closure that computes the value of `f` and the pushforward, the linear function from a tangent of the
/// argument to the tangent of the result: `(A -> B) -> (A -> (B, A -> B))`.
///
/// `f` is evaluated once, and its pushforward can be applied to any number of tangents.
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
    let (f, at) = (one(f), caller());
    move |x| linearize_at(&f, at, x)
}

fn linearize_at<A: Tree<Var>, B: Tree<Var>>(
    f: &dyn Fn(A) -> B,
    at: Loc,
    x: A,
) -> (B, Box<dyn Fn(A) -> B>) {
    let (staged, _, output) = stage_linearized("linearize", at, f, x);
    let (y, pushforward) = Pushforward::of(staged);
    let y = rebuild(&output, y, at);
    (y, Box::new(move |dx| rebuild(&output, pushforward.apply(Flat::of(&dx)), at)))
}

/// A linearized closure: the linear function from tangents of arguments to tangents of results, with the values of its
/// residuals.
struct Pushforward {
    staged: Staged,
    /// The linearization and its residuals; `None` after an error.
    of: Option<(LinearizeOf, Vec<Var>)>,
}

impl Pushforward {
    /// Emits a call of the forward function of a linearization. Returns the closure's results and the pushforward.
    fn of(staged: Staged) -> (Vec<Var>, Pushforward) {
        let ok = staged.require_floats();
        let of = staged.derive(|module, f| transforms::linearize(module, f, &staged.all_args()));
        let Some(of) = of.filter(|_| ok) else {
            return (staged.poison(&staged.result_types()), Pushforward { staged, of: None });
        };
        let (y, residuals) = staged.first_half(of.fwd, &of.residuals);
        (y, Pushforward { staged, of: Some((of, residuals)) })
    }

    /// Emits a call of the linear function for the tangents `dx`, and returns the tangents of the results.
    fn apply(&self, dx: Flat) -> Vec<Var> {
        let Pushforward { staged, of } = self;
        let types = staged.result_types();
        let Some((of, residuals)) = of else { return staged.poison(&types) };
        let dx = same_types(staged.context(), staged.form(), "tangent", dx, &staged.arg_types());
        let Some(dx) = dx else { return staged.poison(&types) };
        let operands = handles(&[&residuals[..], &dx].concat());
        let dy = vars(&trace::bind(Call::inline(of.lin), &operands, staged.at));
        tangents(&types, &of.active_out, dy, staged.at)
    }
}

/// Returns one tangent for each result: the next tangent of `found` if `active` is true for this result, otherwise
/// zeros.
pub(super) fn tangents(types: &[ArrayType], active: &[bool], found: Vec<Var>, at: Loc) -> Vec<Var> {
    let mut found = found.into_iter();
    let one = |(ty, on): (&ArrayType, &bool)| {
        let next = if *on { found.next() } else { None };
        next.unwrap_or_else(|| zeros_like_type(ty, at))
    };
    types.iter().zip(active).map(one).collect()
}

/// Returns the leaves of `given` if it has the structure `form` and the leaf types `types`. Otherwise reports each
/// difference with its path and returns `None`.
pub(crate) fn same_types(
    context: Context,
    form: &Form,
    what: &str,
    given: Flat,
    types: &[ArrayType],
) -> Option<Vec<Var>> {
    let at = context.at;
    if given.form != *form {
        let problem = other_structure(form, &given.form, what);
        trace::report(Diagnostic::new(problem, at), Some(context));
        return None;
    }
    let mut ok = true;
    let paths = form.paths(what);
    for ((v, want), path) in given.leaves.iter().zip(types).zip(paths) {
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
    ok.then_some(given.leaves)
}

/// Returns the error for a tangent or cotangent whose tree structure differs from that of its primal.
pub(crate) fn other_structure(form: &Form, given: &Form, what: &str) -> Problem {
    let differ = form.different(given, what, ["its primal", "it"]);
    Problem::new(
        Kind::Shape,
        format!("the {what} is a tree of another structure than its primal: {differ}"),
        "build it with the same lengths, options and static fields",
    )
}

/// Returns the error for a tangent or cotangent leaf whose type differs from that of its primal.
pub(crate) fn other_type(path: &str, want: &ArrayType, got: &ArrayType) -> Problem {
    let kind = if got.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
    let message = format!("`{path}` must have its primal's type {want}, got {got}");
    Problem::new(kind, message, "give it the primal's shape and dtype")
}
