//! Converts linear systems whose unknown is a tree to systems whose unknown is one vector. Derivatives go through the
//! iterations of the solver or through the equation.
//!
//! The map is traced once, as a function, which the system and its solver call. The solver of the transposed system
//! calls the transpose of that function by a [`LinearCall`] without `apply`; the transpose is derived only if reverse
//! mode needs it.

use super::methods::{Map, Method, System};
use super::{Krylov, Until};
use crate::Var;
use crate::control::Shared;
use crate::implicit::{Equation, linear_system, misfit, same};
use crate::ops::wrong;
use crate::prng::unmarked;
use crate::staging::{Staged, handles, rebuild, stage, vars};
use crate::tree::{Flat, Form, Parts, Tree, flatten, tree_map};
use crate::var::{on_behalf, users_code};
use tapeloom_ir::prim::{Call, LinearCall, Op};
use tapeloom_ir::trace::{self, Diagnostic, Handle};
use tapeloom_ir::{ArrayType, FuncId, Kind, Loc, Problem};

/// Solves `matvec(x) = b` for a tree x. `method` solves the same system for the leaves of x joined into one vector.
pub(super) fn solved<B: Tree<Var>>(
    method: &Method,
    at: Loc,
    matvec: &dyn Fn(B) -> B,
    b: B,
    how: Krylov<'_, B>,
) -> B {
    let Krylov { until, start, precondition, through_iterations } = how;
    let near = precondition.as_deref();
    let (structure, leaves) = flatten(&b);
    let tree = |leaves: Vec<Var>| rebuild::<B>(&structure, leaves, at);
    // A tree without leaves has no unknowns, so there is nothing to solve.
    if leaves.is_empty() {
        return b;
    }
    let form = Form::of::<B>(&structure);
    let start = start.map(|x| Flat::of(&x));
    let Some(unknown) = Unknown::of(method, at, Flat { form, leaves }, until, start) else {
        return tree(Unknown::poison(&flatten(&b).1, at));
    };
    // The functions of an outer solver are never differentiated. Inside such a function no derivative rule is needed,
    // so emit the iterations alone.
    let found = if through_iterations || trace::solving() {
        let of = |map: &dyn Fn(B) -> B, v| Flat::of(&users_code(|| unmarked(|| map(tree(v)))));
        let near = near.map(|near| move |v| of(near, v));
        let near = near.as_ref().map(|near| near as &dyn Fn(Vec<Var>) -> Flat);
        unknown.by_iterations(&|v| of(matvec, v), near)
    } else {
        let staged = |map| unmarked(|| stage::<B, B>(method.name, at, map, tree_map(|v| v, &b)).0);
        unknown.by_equation(&staged(matvec), near.map(staged).as_ref())
    };
    tree(found)
}

/// A linear system whose unknown is a tree: the form and types of the tree, with the method and the right side.
struct Unknown<'a> {
    method: &'a Method,
    at: Loc,
    form: Form,
    types: Vec<ArrayType>,
    /// The right side, its leaves joined into one vector.
    b: Var,
    /// The layout by which a vector is split into the leaves of the tree.
    parts: Parts,
    start: Option<Var>,
    bounds: (f64, i64),
    rounding: f64,
}

impl<'a> Unknown<'a> {
    /// Returns the system, or, if the right side or the start is invalid, reports the reason and returns `None`.
    fn of(
        method: &'a Method,
        at: Loc,
        b: Flat,
        until: Until,
        start: Option<Flat>,
    ) -> Option<Unknown<'a>> {
        let types: Vec<ArrayType> = b.leaves.iter().map(|v| v.ty(at)).collect();
        let mut fits = true;
        for ((v, ty), path) in b.leaves.iter().zip(&types).zip(b.form.paths("b")) {
            if !ty.dtype.is_float() {
                fits = false;
                let message = format!("`{}` solves for floats: `{path}` is {ty}", method.name);
                let help = "convert it, as in `b.convert(Dtype::F64)`";
                wrong(Problem::new(Kind::Dtype, message, help), &[*v], ty.clone(), at);
            }
        }
        let form = b.form.clone();
        let (b, parts) = on_behalf(method.name, at, || Parts::of(b, at));
        let rounding = crate::dtype::epsilon(b.ty(at).dtype);
        let bounds = until.bounds(rounding);
        let unknown = Unknown { method, at, form, types, b, parts, start: None, bounds, rounding };
        let start = start.map(|x| unknown.vector(None, x));
        fits &= !matches!(start, Some(None));
        fits.then_some(Unknown { start: start.flatten(), ..unknown })
    }

    /// Returns placeholders for the solution after an error.
    fn poison(b: &[Var], at: Loc) -> Vec<Var> {
        b.iter().map(|v| Var::poison(v.ty(at), at)).collect()
    }

    /// Returns a tree as a vector. If the tree (the start, or the result of a map) does not have the form of b,
    /// reports the difference and returns `None`.
    fn vector(&self, map: Option<&str>, x: Flat) -> Option<Var> {
        let at = self.at;
        let found: Vec<ArrayType> = x.leaves.iter().map(|v| v.ty(at)).collect();
        let poisoned: Vec<bool> = x.leaves.iter().map(|v| trace::is_poison(v.handle, at)).collect();
        let (want, given) = ((&self.form, &self.types[..]), (&x.form, &found[..], &poisoned[..]));
        let problem = match map {
            Some(map) => misfit(map, want, given),
            None => start_misfit(self.method.name, want, given),
        };
        match problem {
            None => Some(on_behalf(self.method.name, at, || Parts::of(x, at)).0),
            Some(problem) => {
                wrong(problem, &x.leaves, self.b.ty(at), at);
                None
            }
        }
    }

    fn system<'s>(
        &self,
        (a, near): (&'s Map<'s>, Option<&'s Map<'s>>),
        (b, start): (Var, Option<Var>),
    ) -> Var {
        let Unknown { bounds, rounding, .. } = *self;
        (self.method.solve)(&System { a, near, b, start, bounds, rounding })
    }

    /// Returns the leaves of the solution. Its derivatives differentiate the iterations.
    fn by_iterations(
        &self,
        a: &dyn Fn(Vec<Var>) -> Flat,
        near: Option<&dyn Fn(Vec<Var>) -> Flat>,
    ) -> Vec<Var> {
        let of = |what: &str, map: &dyn Fn(Vec<Var>) -> Flat, v: Var| {
            let found = self.vector(Some(what), map(self.parts.leaves(v)));
            found.unwrap_or_else(|| Var::poison(self.b.ty(self.at), self.at))
        };
        let a = |v: Var| of(MATVEC, a, v);
        let near = near.map(|near| move |v: Var| of(NEAR, near, v));
        let near = near.as_ref().map(|near| near as &Map<'_>);
        on_behalf(self.method.name, self.at, || {
            self.parts.leaves(self.system((&a, near), (self.b, self.start)))
        })
    }

    /// Returns the leaves of the solution. Its derivatives are defined by the equation.
    fn by_equation(&self, a: &Staged, near: Option<&Staged>) -> Vec<Var> {
        let Unknown { at, b, .. } = *self;
        let fits = |what: &str, map: &Staged| same(what, map, &self.form, &self.types);
        let ok = fits(MATVEC, a) & near.is_none_or(|near| fits(NEAR, near));
        let of = |map: &Staged| if ok { LinearMap::of(map) } else { None };
        let (Some(map), Some(near)) = (of(a), near.map_or(Some(None), |near| of(near).map(Some)))
        else {
            return self.types.iter().map(|ty| Var::poison(ty.clone(), at)).collect();
        };
        let apply = |map: &LinearMap, side: Side, v: Var| {
            let form = self.form.clone();
            Parts::of(Flat { form, leaves: map.apply(side, &self.parts.leaves(v), at) }, at).0
        };
        let solve = |side: Side, b: Var, start: Option<Var>| {
            let near = near.as_ref().map(|near| move |v: Var| apply(near, side, v));
            let near = near.as_ref().map(|near| near as &Map<'_>);
            self.system((&|v| apply(&map, side, v), near), (b, start))
        };
        let product = |v: Var| apply(&map, Side::Itself, v);
        on_behalf(self.method.name, at, || {
            let x = match self.start {
                None => {
                    let forward = |b: Var| solve(Side::Itself, b, None);
                    let transposed = |c: Var| solve(Side::Transposed, c, None);
                    linear_system(self.method.name, at, &product, b, &forward, &transposed)
                }
                // A linear solve uses one solver for values and derivatives. But the systems of derivatives must begin
                // at 0, not at this start, so emit a root of the equation, which has separate solvers for derivatives.
                Some(start) => Equation {
                    solve: &|x: Var| solve(Side::Itself, b, Some(x)),
                    residual: &|(_, x): (Var, Var)| product(x) - b,
                    tangent: &|(_, _, b): (Var, Var, Var)| solve(Side::Itself, b, None),
                    cotangent: &|(_, _, c): (Var, Var, Var)| solve(Side::Transposed, c, None),
                }
                .solution(self.method.name, at, start),
            };
            self.parts.leaves(x)
        })
    }
}

/// Names of the closures in messages.
const MATVEC: &str = "the linear map";
const NEAR: &str = "the preconditioner";

/// Returns an error if the form, shapes or dtypes of a start differ from those of b.
fn start_misfit(
    name: &str,
    (form, types): (&Form, &[ArrayType]),
    (given, found, poisoned): (&Form, &[ArrayType], &[bool]),
) -> Option<Problem> {
    let help = "begin at a tree of the form, shapes and dtypes of the right side";
    if given != form {
        let differ = form.different(given, "it", ["the right side", "the start"]);
        let message = format!("the start of `{name}` is no tree as the right side is: {differ}");
        return Some(Problem::new(Kind::Shape, message, help));
    }
    let mut wrong = found.iter().zip(types).zip(poisoned);
    let ((found, want), _) = wrong.find(|((found, want), poison)| found != want && !**poison)?;
    let kind = if found.dtype == want.dtype { Kind::Shape } else { Kind::Dtype };
    let message = format!("the start of `{name}` has {found} where the right side has {want}");
    Some(Problem::new(kind, message, help))
}

/// The choice between a linear map and its transpose.
#[derive(Clone, Copy)]
enum Side {
    Itself,
    Transposed,
}

/// A linear map that was traced once. Its transpose is derived only if a derivative needs it. So a map without a
/// transpose can be used if no derivative is computed.
struct LinearMap {
    captures: Vec<Handle>,
    /// The IR function of the map: takes the captures and the leaves of `v`, and returns the leaves of `A v`.
    function: FuncId,
}

impl LinearMap {
    /// Returns the map for a traced closure, or `None` after an error.
    fn of(staged: &Staged) -> Option<LinearMap> {
        let shared = Shared::of(&[staged.taken()], staged.at);
        let (function, args) = (staged.function()?, staged.args.len());
        match trace::with_module(|m| shared.led(m, function, args, 0))? {
            Ok(function) => Some(LinearMap { captures: shared.captures, function }),
            Err(problem) => {
                staged.report(Diagnostic::new(problem, staged.at));
                None
            }
        }
    }

    fn apply(&self, side: Side, v: &[Var], at: Loc) -> Vec<Var> {
        let op: Op = match side {
            Side::Itself => Call::inline(self.function).into(),
            Side::Transposed => {
                let (map, residuals) = (self.function, self.captures.len());
                LinearCall { apply: None, transpose: Some(map), residuals }.into()
            }
        };
        vars(&trace::bind(op, &[&self.captures[..], &handles(v)].concat(), at))
    }
}
