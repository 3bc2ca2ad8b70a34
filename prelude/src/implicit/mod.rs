//! Solutions of equations, differentiated through the equation instead of through the iterations of the solver.
//!
//! | function | result | solver |
//! |---|---|---|
//! | [`cg`], [`gmres`], [`bicgstab`] | `x` with `A x = b`, where `A` is a closure | products with `A` |
//! | [`custom_linear_solve`] | `x` with `A x = b`, where `A` is a closure | any closure |
//! | [`custom_root`] | `x` with `f(x) = 0` | any closure |
//! | [`fixed_point`] | `x` with `g(x) = x` | iteration of `x ← g(x)` |
//! | [`root_between`] | a number `x` with `f(x) = 0` between two others | interpolation and bisection |
//!
//! The closures may use any [`Var`] of the surrounding trace, and derivatives are with respect to these. By the
//! implicit function theorem, each tangent or cotangent costs one linear system, and no residuals of the solver's
//! iterations are saved. Derivatives of higher order are such systems again. Inside a solver, which is never
//! differentiated, [`cg`], [`gmres`] and [`bicgstab`] are their iterations alone.
//!
//! Source: JAX's `custom_linear_solve` and `custom_root`; Griewank and Walther, "Evaluating
//! Derivatives", chapter 15.

mod bracket;
mod krylov;

pub(crate) use bracket::between;
pub use bracket::root_between;
pub use krylov::{Krylov, Until, bicgstab, bicgstab_with, cg, cg_with, gmres, gmres_with};

use crate::Var;
use crate::control::{Shared, while_loop};
use crate::ops::functions::select;
use crate::prng::unmarked;
use crate::staging::{Side, Staged, handles, rebuild, require_floats, stage, stage_solver, vars};
use crate::transform::{jvp, linear_transpose, vjp};
use crate::tree::{Flat, Form, Tree, flatten, ravel, tree_map, tree_map2};
use crate::var::caller;
use std::cell::Cell;
use tapeloom_ir::prim::{LinearSolve, Op, Root};
use tapeloom_ir::trace::{self, Context, Diagnostic};
use tapeloom_ir::{ArrayType, Dtype, FuncId, Kind, Literal, Loc, Module, Problem};

/// Returns the solution `x` of `A x = b`. The closure `matvec` is the map `x ↦ A x`, and the closure `solve` computes
/// the solution: `(A, b) -> x`.
///
/// Reverse mode solves a system with the transpose. So `solve` is called with `matvec` and with its transpose, and
/// must use the map that it is given. If your solver works for `A` only (by a factorization or a formula), pass two
/// solvers to [`custom_linear_solve_with`].
///
/// ```
/// use tapeloom::prelude::*;
/// let solve = |(a, b): (Var, Var)| {
///     custom_linear_solve(|x: Var| a.dot(x), b, |a, b| gmres(a, b, Until::default()))
/// };
/// let (a, b) = ([[2.0, 1.0], [0.0, 4.0]], [4.0, 8.0]);
/// assert!(run(solve, (a, b))?.to_vec::<f64>()?.iter().zip([1.0, 2.0]).all(|(x, y)| (x - y).abs() < 1e-9));
/// check_grads(solve, (a, b), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `not-linear` if `matvec` is not linear; `rule` if the result of `matvec` or of the solver differs from
/// `b` in form or type; `not-differentiable` if `b` has leaves that are not floats.
#[track_caller]
pub fn custom_linear_solve<B: Tree<Var>>(
    matvec: impl Fn(B) -> B,
    b: B,
    solve: impl Fn(&dyn Fn(B) -> B, B) -> B,
) -> B {
    solve_either_way(caller(), &matvec, b, &solve)
}

/// Solves a system by `solve`. Reverse mode solves the system with the transposed map by the same solver.
fn solve_either_way<B: Tree<Var>>(
    at: Loc,
    matvec: &dyn Fn(B) -> B,
    b: B,
    solve: &Solver<'_, B>,
) -> B {
    let b = match floats("custom_linear_solve", at, b) {
        Ok(b) => b,
        Err(poison) => return poison,
    };
    let forward = |b: B| solve(matvec, b);
    let transposed = |c: B| solve(&linear_transpose(matvec, copy(&c)), c);
    linear_system("custom_linear_solve", at, matvec, b, &forward, &transposed)
}

/// Returns the solution of [`custom_linear_solve`], given two solvers: one for `A x = b` and one for `Aᵀ u = c`.
///
/// ```
/// use tapeloom::prelude::*;
/// // The matrix is s times a lower triangle of ones; its inverse takes differences.
/// let solve = |(s, b): (Var, Var)| custom_linear_solve_with(
///     |x: Var| s * x.cumsum(0),
///     b,
///     |b| (b - b.pad(&[(1, -1)], 0.0)) / s,
///     |c| (c - c.pad(&[(-1, 1)], 0.0)) / s,
/// );
/// let x = run(solve, (0.5, [1.0, 3.0, 6.0]))?;
/// assert_eq!(x.to_vec::<f64>()?, [2.0, 4.0, 6.0]);
/// check_grads(solve, (0.5, [1.0, 3.0, 6.0]), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`custom_linear_solve`].
#[track_caller]
pub fn custom_linear_solve_with<B: Tree<Var>>(
    matvec: impl Fn(B) -> B,
    b: B,
    solve: impl Fn(B) -> B,
    transpose_solve: impl Fn(B) -> B,
) -> B {
    linear_system("custom_linear_solve_with", caller(), &matvec, b, &solve, &transpose_solve)
}

/// Returns the `x` with `f(x) = 0` that `solve` finds from `init`: `(f, init) -> x`.
///
/// `tangent_solve` solves the linear systems of derivatives, `(A, b) -> v` with `A v = b`, where `A` is the
/// Jacobian of `f` at the solution, or its transpose. The derivative with respect to `init` is 0.
///
/// ```
/// use tapeloom::prelude::*;
/// // The root of x³ + x = a, by Newton's method until x does not change.
/// let root = |a: Var| custom_root(
///     |x: Var| x * x * x + x - a,
///     a,
///     |f, x| while_loop(
///         |(_, step): (Var, Var)| step.abs().gt(1e-12),
///         |(x, _)| {
///             let (y, slope) = jvp(f)((x, x.ones_like()));
///             (x - y / slope, y / slope)
///         },
///         (x, x.ones_like()),
///     ).0,
///     |a, b| b / a(b.ones_like()),
/// );
/// assert!((run(root, 10.0)?.item::<f64>()? - 2.0).abs() < 1e-12);
/// let slope = run(grad(root), 10.0)?.item::<f64>()?;
/// assert!((slope - 1.0 / 13.0).abs() < 1e-12);
/// check_grads(root, 10.0, 3)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `rule` if the result of the equation or of a solver differs from `init` in form or type;
/// `not-differentiable` if `init` has leaves that are not floats.
#[doc(alias = "fsolve", alias = "optimize.root")]
#[track_caller]
pub fn custom_root<X: Tree<Var>>(
    f: impl Fn(X) -> X,
    init: X,
    solve: impl Fn(&dyn Fn(X) -> X, X) -> X,
    tangent_solve: impl Fn(&dyn Fn(X) -> X, X) -> X,
) -> X {
    let at = caller();
    match floats("custom_root", at, init) {
        Ok(init) => root("custom_root", at, &f, init, &solve, &tangent_solve),
        Err(poison) => poison,
    }
}

/// Returns the fixed point `x = g(x)` of a contraction `g`, to which the iteration `x ← g(x)` converges from `init`.
///
/// The iteration ends when a step moves `x` by no more than its rounding errors, when `x` is not finite, or after
/// ten thousand steps. The linear systems of derivatives are solved by the same kind of iteration, and converge at
/// the same rate.
///
/// ```
/// use tapeloom::prelude::*;
/// // Kepler's equation: x = m + e sin x.
/// let kepler = |(m, e): (Var, Var)| fixed_point(|x: Var| m + e * x.sin(), m);
/// let x = run(kepler, (1.0, 0.5))?.item::<f64>()?;
/// assert!((x - 0.5 * x.sin() - 1.0).abs() < 1e-14);
/// check_grads(kepler, (1.0, 0.5), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`custom_root`]; `dtype` if the leaves have different dtypes.
#[track_caller]
pub fn fixed_point<X: Tree<Var>>(g: impl Fn(X) -> X, init: X) -> X {
    fixed(&g, init, caller())
}

fn fixed<X: Tree<Var>>(g: &dyn Fn(X) -> X, init: X, at: Loc) -> X {
    let init =
        match floats("fixed_point", at, init).and_then(|x| of_one_dtype("fixed_point", at, x)) {
            Ok(init) => init,
            Err(poison) => return poison,
        };
    let (structure, leaves) = flatten(&init);
    let types: Vec<ArrayType> = leaves.iter().map(|v| v.ty(at)).collect();
    let form = Form::of::<X>(&structure);
    // The function is traced several times; report its error only once.
    let reported = Cell::new(false);
    let g = &|x: X| {
        let y = g(x);
        let found = Flat::of(&y);
        let Some(problem) = changed(&form, &types, &found, at) else { return y };
        let poisoned = found.leaves.iter().any(|v| trace::is_poison(v.handle, at));
        if !reported.replace(true) && !poisoned {
            trace::report(Diagnostic::new(problem, at), None);
        }
        rebuild(&structure, types.iter().map(|ty| Var::poison(ty.clone(), at)).collect(), at)
    };
    let difference = |x: X| tree_map2(|x, y| x - y, &x, &g(copy(&x)));
    let iterate = |_: &dyn Fn(X) -> X, x: X| until_still(g, x, at);
    // Solve A v = b as the fixed point of v ← b + (v - A v), where v - A v is the product of the Jacobian of g with v.
    let neumann = |a: &dyn Fn(X) -> X, b: X| {
        let next = |v: X| {
            let rest = tree_map2(|b, av| b - av, &b, &a(copy(&v)));
            tree_map2(|v, rest| v + rest, &v, &rest)
        };
        until_still(&next, copy(&b), at)
    };
    root("fixed_point", at, &difference, init, &iterate, &neumann)
}

/// Returns an error if the result `found` of the function of a fixed point differs in form or types from its argument.
fn changed(form: &Form, types: &[ArrayType], found: &Flat, at: Loc) -> Option<Problem> {
    let help = "the function of `fixed_point` returns a tree of the form and types of its argument";
    if found.form != *form {
        let differ = form.different(&found.form, "it", ["the start", "the function's result"]);
        let message = format!("`fixed_point` of a function that changes the tree: {differ}");
        return Some(Problem::new(Kind::Rule, message, help));
    }
    let mut leaves = found.leaves.iter().zip(types);
    let (v, want) = leaves.find(|(v, want)| v.ty(at) != **want)?;
    let message = format!("`fixed_point` of a function that returns {} for {want}", v.ty(at));
    Some(Problem::new(Kind::Rule, message, help))
}

/// Returns the tree if its leaves are floats. Otherwise reports the leaves that are not, and returns a placeholder
/// for the solution.
fn floats<X: Tree<Var>>(transform: &'static str, at: Loc, x: X) -> Result<X, X> {
    let (structure, leaves) = flatten(&x);
    let context = Context { transform, at };
    match require_floats(context, Side::Argument, &Form::of::<X>(&structure), &leaves) {
        true => Ok(x),
        false => Err(spoiled::<X>(&structure, &leaves, at)),
    }
}

/// Returns the tree if its leaves have one dtype. Otherwise reports that, and returns a placeholder for the solution.
fn of_one_dtype<X: Tree<Var>>(transform: &'static str, at: Loc, x: X) -> Result<X, X> {
    let (structure, leaves) = flatten(&x);
    let dtypes: Vec<Dtype> = leaves.iter().map(|v| v.ty(at).dtype).collect();
    let Some(other) = dtypes.iter().find(|dtype| **dtype != dtypes[0]) else { return Ok(x) };
    let message = format!("`{transform}` of leaves of {} and of {other}", dtypes[0]);
    let help = format!("convert them to one dtype, as in `x.convert(Dtype::{:?})`", dtypes[0]);
    trace::report(Diagnostic::new(Problem::new(Kind::Dtype, message, help), at), None);
    Err(spoiled::<X>(&structure, &leaves, at))
}

/// Returns a placeholder for a solution after an error.
fn spoiled<X: Tree<Var>>(structure: &X::Structure, leaves: &[Var], at: Loc) -> X {
    rebuild(structure, leaves.iter().map(|v| Var::poison(v.ty(at), at)).collect(), at)
}

/// The largest number of iterations of the search for a fixed point.
const MOST_ITERATIONS: i64 = 10_000;

/// Iterates `x ← g(x)` until a step changes x by at most 8 rounding errors of its length.
fn until_still<X: Tree<Var>>(g: &dyn Fn(X) -> X, x: X, at: Loc) -> X {
    let within = 8.0 * krylov::epsilon(&x);
    let moved = Var::literal(Literal::f64(f64::INFINITY), at);
    let (x, _, _) = while_loop(
        |(_, moved, n): (X, Var, Var)| moved.gt(within) & n.lt(MOST_ITERATIONS),
        |(x, _, n): (X, Var, Var)| {
            let next = g(copy(&x));
            let length = |x: &X| krylov::norm(ravel(x).0);
            let step = length(&tree_map2(|y, x| y - x, &next, &x));
            // The step is measured relative to the length of x. If this length is 0, use the absolute length of the
            // step.
            let size = length(&next);
            let moved = step / select(size.gt(0.0), size, size.ones_like());
            (next, moved.convert(Dtype::F64), n + 1)
        },
        (x, moved, Var::literal(Literal::i64(0), at)),
    );
    x
}

fn linear_system<B: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    matvec: &dyn Fn(B) -> B,
    b: B,
    solve: &dyn Fn(B) -> B,
    transposed: &dyn Fn(B) -> B,
) -> B {
    // A tree without leaves has no unknowns.
    if flatten(&b).1.is_empty() {
        return b;
    }
    let again = copy(&b);
    let (matvec, ..) = unmarked(|| stage::<B, B>(transform, at, matvec, copy(&b)));
    let (solve, structure, _) = unmarked(|| stage_solver::<B, B>(transform, at, solve, b));
    let (transposed, ..) = unmarked(|| stage_solver::<B, B>(transform, at, transposed, again));
    let functions = [
        ("the solver", solve),
        ("the solver of the transpose", transposed),
        ("the linear map", matvec),
    ];
    rebuild(&structure, emit_linear_solve(at, functions), at)
}

fn emit_linear_solve(at: Loc, functions: [(&'static str, Staged); 3]) -> Vec<Var> {
    emit(at, functions, |[solve, transposed, matvec]| {
        LinearSolve { solve, transposed, matvec }.into()
    })
}

/// A solver. Its arguments are the function of the equation, and a starting point or a right-hand side; its result is
/// the solution.
type Solver<'a, X> = dyn Fn(&dyn Fn(X) -> X, X) -> X + 'a;

fn root<X: Tree<Var>>(
    transform: &'static str,
    at: Loc,
    f: &dyn Fn(X) -> X,
    init: X,
    solve: &Solver<'_, X>,
    tangent_solve: &Solver<'_, X>,
) -> X {
    let equation = Equation {
        solve: &|x| solve(f, x),
        residual: &|(_, x)| f(x),
        tangent: &|(_, x, b)| tangent_solve(&|v| jvp(f)((copy(&x), v)).1, b),
        cotangent: &|(_, x, c)| {
            let (_, pull) = vjp(f)(x);
            tangent_solve(&pull, c)
        },
    };
    equation.solution(transform, at, init)
}

/// The functions that define an equation, its solver and its derivatives. Their arguments are, in this order, the
/// starting point, the solution, and a right-hand side; `solve` and `residual` have fewer arguments.
pub(crate) struct Equation<'a, X> {
    pub(crate) solve: &'a dyn Fn(X) -> X,
    pub(crate) residual: &'a dyn Fn((X, X)) -> X,
    pub(crate) tangent: &'a dyn Fn((X, X, X)) -> X,
    pub(crate) cotangent: &'a dyn Fn((X, X, X)) -> X,
}

impl<X: Tree<Var>> Equation<'_, X> {
    /// Returns the solution that `solve` finds from `init`. `transform` is the name of the user's call in messages.
    pub(crate) fn solution(&self, transform: &'static str, at: Loc, init: X) -> X {
        let Equation { solve, residual, tangent, cotangent } = *self;
        let like = || copy(&init);
        let three = || (like(), like(), like());
        let of_three =
            |solver| unmarked(|| stage_solver::<(X, X, X), X>(transform, at, solver, three())).0;
        let (residual, ..) =
            unmarked(|| stage::<(X, X), X>(transform, at, residual, (like(), like())));
        let (tangent, cotangent) = (of_three(tangent), of_three(cotangent));
        let (solve, structure, _) = unmarked(|| stage_solver::<X, X>(transform, at, solve, init));
        let functions = [
            ("the solver", solve),
            ("the equation", residual),
            ("the solver of tangents", tangent),
            ("the solver of cotangents", cotangent),
        ];
        rebuild(&structure, emit_root(at, functions), at)
    }
}

fn emit_root(at: Loc, functions: [(&'static str, Staged); 4]) -> Vec<Var> {
    emit(at, functions, |[solve, residual, tangent, cotangent]| {
        Root { solve, residual, tangent, cotangent }.into()
    })
}

/// Emits a primitive with `N` functions. Each function takes the captures of all functions, then its own arguments. The
/// operands of the primitive are these captures and the arguments of the first function. The results of all functions
/// must have the form and types of these arguments.
fn emit<const N: usize>(
    at: Loc,
    functions: [(&'static str, Staged); N],
    op: fn([FuncId; N]) -> Op,
) -> Vec<Var> {
    let first = &functions[0].1;
    let types = first.arg_types();
    let fits = first.require_floats()
        & functions.iter().all(|(what, f)| same(what, f, first.form(), &types));
    let taken: Vec<_> = functions.iter().map(|(_, f)| f.taken()).collect();
    let shared = Shared::of(&taken, at);
    let whole = |m: &mut Module| {
        let mut all = Vec::with_capacity(N);
        for (i, (_, f)) in functions.iter().enumerate() {
            let Some(function) = f.function() else { return Ok(None) };
            all.push(shared.led(m, function, f.args.len(), i)?);
        }
        Ok(<[FuncId; N]>::try_from(all).ok())
    };
    let found = if fits { trace::with_module(whole) } else { None };
    match found {
        Some(Ok(Some(functions))) => {
            let operands = [&shared.captures[..], &handles(&first.args)].concat();
            vars(&trace::bind(op(functions), &operands, at))
        }
        Some(Err(problem)) => {
            first.report(Diagnostic::new(problem, at));
            first.poison(&types)
        }
        Some(Ok(None)) | None => first.poison(&types),
    }
}

/// Checks that the result of a closure has the form and types of the unknown. Otherwise reports an error and returns
/// false.
fn same(what: &str, staged: &Staged, form: &Form, types: &[ArrayType]) -> bool {
    let given = (staged.output(), &staged.result_types()[..], staged.poisoned_results());
    let Some(problem) = misfit(what, (form, types), given) else { return true };
    staged.report(Diagnostic::new(problem, staged.at));
    false
}

/// Returns an error if the tree that a closure returns differs from the unknown in form or types. Leaves that are
/// placeholders after an earlier error are not checked.
fn misfit(
    what: &str,
    (form, types): (&Form, &[ArrayType]),
    (given, found, poisoned): (&Form, &[ArrayType], &[bool]),
) -> Option<Problem> {
    let message = if given != form {
        let differ = form.different(given, "it", ["the unknown", what]);
        format!("{what} returns a tree of another form than the unknown: {differ}")
    } else {
        let mut wrong = found.iter().zip(types).zip(poisoned);
        let ((found, want), _) =
            wrong.find(|((found, want), poison)| found != want && !**poison)?;
        format!("{what} returns {found}, and the unknown is {want}")
    };
    let help = "the unknown, its equation and its solvers have one form and type";
    Some(Problem::new(Kind::Rule, message, help))
}

/// Returns a copy of the tree.
fn copy<B: Tree<Var>>(x: &B) -> B {
    tree_map(|v| v, x)
}
