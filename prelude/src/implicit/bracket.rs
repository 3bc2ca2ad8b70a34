//! `root_between`: the root of a function of one number between two points where its signs differ.

use super::{krylov, root};
use crate::Var;
use crate::control::while_loop;
use crate::ops::functions::{constant, select};
use crate::ops::{number, wrong};
use crate::prng::unmarked;
use crate::staging::{Staged, stage};
use crate::var::{IntoVar, caller, on_behalf, pair};
use tapeloom_derive::Tree;
use tapeloom_ir::trace::Diagnostic;
use tapeloom_ir::{Kind, Loc, Problem};

/// The largest number of evaluations of the function. It suffices to bisect from the largest float down to the smallest
/// one, even if every second step is an interpolation that gains nothing.
const MOST_ITERATIONS: i64 = 5000;

/// Returns an `x` between `a` and `b` with `f(x) = 0`, accurate to its last bits. The signs of `f(a)` and `f(b)` must
/// differ.
///
/// `f` is a continuous function of one float and may use any [`Var`] of the surrounding trace. The derivative is
/// with respect to these, by the implicit function theorem; `a` and `b` have no derivative. The root is nan if the
/// signs are equal, if f is nan, or if a or b is not finite. If there are several roots, one of them is returned.
/// For many roots at once, use [`vmap`](crate::vmap), under which each member ends its own search.
///
/// ```
/// use tapeloom::prelude::*;
/// // x eˣ = c
/// let lambert = |c: Var| root_between(|x: Var| x * x.exp() - c, 0.0, 2.0);
/// let x = run(lambert, 1.0)?.item::<f64>()?;
/// assert!((x - 0.567143290409783873).abs() < 1e-15);
/// check_grads(lambert, 1.0, 2)?;
/// assert_eq!(run(vmap(lambert), [0.5, 1.0, 2.0])?.to_vec::<f64>()?[1], x);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `shape` or `dtype` if a, b and the value of f are not single floats of one dtype.
///
/// Source: Chandrupatla, *A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
/// without using derivatives* (1997). It uses inverse quadratic interpolation where that is safe and bisection
/// elsewhere, and takes fewer evaluations than Brent's method.
#[doc(
    alias = "brentq",
    alias = "brenth",
    alias = "root_scalar",
    alias = "find_root",
    alias = "bisect",
    alias = "fzero"
)]
#[track_caller]
pub fn root_between(f: impl Fn(Var) -> Var, a: impl IntoVar, b: impl IntoVar) -> Var {
    let at = caller();
    let (a, b) = pair(a, b, at);
    if let Err(problem) = checked(a, b, at) {
        return wrong(problem, &[a, b], a.ty(at), at);
    }
    let (staged, ..) = unmarked(|| stage::<Var, Var>("root_between", at, &f, a));
    of_staged(&staged, a, b)
}

/// Returns an error unless `a` and `b` are single floats of one dtype.
fn checked(a: Var, b: Var, at: Loc) -> Result<(), Problem> {
    let (ta, tb) = (a.ty(at), b.ty(at));
    let message = || format!("`root_between` {ta} and {tb}");
    if !ta.dtype.is_float() || ta.dtype != tb.dtype {
        return Err(Problem::new(Kind::Dtype, message(), "give floats of one dtype"));
    }
    if ta.shape.is_empty() && tb.shape.is_empty() {
        return Ok(());
    }
    let help = "give two numbers; `vmap` finds a root for each member of a batch";
    Err(Problem::new(Kind::Shape, message(), help))
}

fn of_staged(staged: &Staged, a: Var, b: Var) -> Var {
    let at = staged.at;
    let want = a.ty(at);
    let found = staged.result_types();
    let Some(function) = staged.function() else { return Var::poison(want, at) };
    if found != [want.clone()] {
        let found = found.first().map(ToString::to_string).unwrap_or_default();
        let message = format!("`root_between` needs a function that gives {want}, got {found}");
        let problem =
            Problem::new(Kind::Shape, message, "it has the shape and dtype of its argument");
        staged.report(Diagnostic::new(problem, at));
        return Var::poison(want, at);
    }
    let f = |x: Var| staged.call(function, &[x], [], false).first().copied().unwrap_or(x);
    on_behalf("root_between", at, || between(&f, a, b, at))
}

/// Returns the root of a function of one float, for callers inside the library. Both ends are constants for
/// derivatives.
pub(crate) fn between(f: &dyn Fn(Var) -> Var, a: Var, b: Var, at: Loc) -> Var {
    let (a, b) = (a.stop_gradient(), b.stop_gradient());
    let solve = |f: &dyn Fn(Var) -> Var, _: Var| chandrupatla(f, a, b);
    let divide = |slope: &dyn Fn(Var) -> Var, y: Var| y / slope(y.ones_like());
    root("root_between", at, f, a, &solve, &divide)
}

/// The state of the search.
#[derive(Tree, Clone, Debug)]
struct Search<T> {
    /// Three points: the newest one, the other end of the bracket, and the point that was removed last.
    x: [T; 3],
    /// The values of the function at the three points `x`.
    y: [T; 3],
    /// The next point, as a fraction of the distance from `x[0]` to `x[1]`.
    part: T,
    /// The number of evaluated points.
    n: T,
}

/// Returns the end of the bracket with the smaller |f|, its value, and the width of the bracket at which the search
/// ends.
fn best(s: &Search<Var>) -> (Var, Var, Var) {
    let first = s.y[0].abs().le(s.y[1].abs());
    let x = select(first, s.x[0], s.x[1]);
    let epsilon = krylov::epsilon(&x);
    let tiny = if epsilon < 1e-10 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    (x, select(first, s.y[0], s.y[1]), x.abs() * (2.0 * epsilon) + number(x, tiny))
}

fn chandrupatla(f: &dyn Fn(Var) -> Var, a: Var, b: Var) -> Var {
    let (fa, fb) = (f(a), f(b));
    let begin = Search { x: [a, b, a], y: [fa, fb, fa], part: number(a, 0.5), n: constant(0i64) };
    let finite = a.is_finite() & b.is_finite();
    let opposed = finite & (fa.signum() * fb.signum()).le(0.0);
    let end = while_loop(
        |s: Search<Var>| {
            let (_, y, least) = best(&s);
            let wide = (s.x[1] - s.x[0]).abs().gt(2.0 * least);
            opposed & wide & y.ne(0.0) & s.n.lt(MOST_ITERATIONS)
        },
        |s: Search<Var>| {
            let ([x1, x2, _], [y1, y2, _]) = (s.x, s.y);
            // If the ends are large and of opposite signs, their distance overflows. Then use a weighted mean of the
            // ends.
            let far = x2 - x1;
            let mixed = (1.0 - s.part) * x1 + s.part * x2;
            let x = select(far.is_finite(), x1 + s.part * far, mixed);
            let y = f(x);
            // If the values at the new point and at the previous newest point x1 have the same sign, the root is
            // between the new point and the other end x2, and x1 is removed. Otherwise x2 is removed.
            let same = y.signum().eq(y1.signum());
            let pick = |yes: Var, no: Var| select(same, yes, no);
            let s = Search {
                x: [x, pick(x2, x1), pick(x1, x2)],
                y: [y, pick(y2, y1), pick(y1, y2)],
                n: s.n + 1,
                ..s
            };
            let (_, _, least) = best(&s);
            let ([x1, x2, x3], [y1, y2, y3]) = (s.x, s.y);
            let (xi, phi) = ((x1 - x2) / (x3 - x2), (y1 - y2) / (y3 - y2));
            let safe = phi.square().lt(xi) & (1.0 - phi).square().lt(1.0 - xi);
            let inverse = y1 / (y2 - y1) * y3 / (y2 - y3)
                + (x3 - x1) / (x2 - x1) * y1 / (y3 - y1) * y2 / (y3 - y2);
            let edge = (least / (x2 - x1).abs()).minimum(0.5);
            let part = select(safe & inverse.is_finite(), inverse, 0.5).clamp(edge, 1.0 - edge);
            Search { part, ..s }
        },
        begin,
    );
    let (x, ..) = best(&end);
    // If f is nan at an end of the bracket, no root was found, and the result is nan.
    select(opposed & !(end.y[0].is_nan() | end.y[1].is_nan()), x, f64::NAN)
}
