//! User-defined derivative rules.
//!
//! [`custom_jvp`] replaces the forward derivative of a closure, [`custom_vjp`] the reverse derivative, and
//! [`custom_rules`] both. A missing rule is derived from the given one: a jvp rule is transposed for reverse mode,
//! and a vjp rule is transposed for forward mode. Rules are ordinary closures, which transforms differentiate, batch
//! and compile, so derivatives of every order use them. [`check_rule`](crate::check_rule) compares a rule with the
//! derivative of the function.
//!
//! A rule defines the derivative with respect to the closure's argument only. Derivatives with respect to values that
//! the closure captures are computed by automatic differentiation; the total derivative is the sum of both parts.
//!
//! ```
//! use tapeloom::prelude::*;
//! // ln(1 + eˣ) with a derivative that does not overflow.
//! let log1pexp = custom_jvp(
//!     |x: Var| (1.0 + x.exp()).ln(),
//!     |x: Var, dx: Var| ((1.0 + x.exp()).ln(), dx * (1.0 - 1.0 / (1.0 + x.exp()))),
//! );
//! let slope = jit(grad(log1pexp));
//! assert_eq!(slope.call(1000.0)?.item::<f64>()?, 1.0);
//! # Ok::<(), tapeloom::Error>(())
//! ```
//!
//! Model: JAX's `custom_jvp` and `custom_vjp`; unlike in JAX, one function can have both rules.

use crate::Var;
use crate::ops::zeros_like_type;
use crate::prng::unmarked;
use crate::staging::{apply, array, handles, like, rebuild, vars};
use crate::tree::{Flat, Form, Tree, flatten};
use crate::var::caller;
use tapeloom_ir::prim::CustomCall;
use tapeloom_ir::trace::{self, Closed, Context, Diagnostic, Handle, Opened, Param};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, FuncId, Kind, Literal, Loc, Module, Problem, Scalar, Type,
};
use tapeloom_transforms as transforms;

/// Returns `f` with the forward rule `(x, dx) -> (y, dy)`, which must be linear in `dx`.
///
/// If a leaf is not a float, its tangent is passed as zeros, and the tangent that the rule returns for it is ignored.
///
/// Errors: `rule` if the types of the rule's results are not those of the results of `f`; `not-linear` in reverse
/// mode if the rule is not linear in `dx`.
#[track_caller]
pub fn custom_jvp<A: Tree<Var>, B: Tree<Var>>(
    f: impl Fn(A) -> B,
    jvp: impl Fn(A, A) -> (B, B),
) -> impl Fn(A) -> B {
    let at = caller();
    move |x| {
        let custom = Custom::new("custom_jvp", at, &f, x);
        let jvp = custom.jvp(&jvp);
        custom.emit(Some(jvp), None)
    }
}

/// Returns `f` with a reverse rule of two functions. `fwd: x -> (y, residuals)` runs in place of `f` if a derivative is
/// needed, and `bwd: (residuals, cotangent of y) -> cotangent of x` is the reverse pass.
///
/// If a leaf is not a float, its cotangent is passed as zeros, and the cotangent that the rule returns for it is
/// ignored.
///
/// Errors: `rule` if the types of the rules' results are not those of the argument and result of `f`.
///
/// ```
/// use tapeloom::prelude::*;
/// // The identity; its cotangent is clipped.
/// let clip = custom_vjp(|x: Var| x, |x: Var| (x, ()), |(), ct: Var| ct.clamp(-1.0, 1.0));
/// let g = run(grad(|x: Var| 10.0 * clip(x)), 2.0)?;
/// assert_eq!(g.item::<f64>()?, 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn custom_vjp<A: Tree<Var>, B: Tree<Var>, R: Tree<Var>>(
    f: impl Fn(A) -> B,
    fwd: impl Fn(A) -> (B, R),
    bwd: impl Fn(R, B) -> A,
) -> impl Fn(A) -> B {
    let at = caller();
    move |x| {
        let custom = Custom::new("custom_vjp", at, &f, x);
        let halves = custom.vjp(&fwd, &bwd);
        custom.emit(None, Some(halves))
    }
}

/// Returns `f` with a forward rule and a reverse rule, as in [`custom_jvp`] and [`custom_vjp`].
///
/// Forward mode uses `jvp`, and reverse mode uses `fwd` and `bwd`. The rules need not be transposes of each other.
///
/// Errors: those of [`custom_jvp`] and [`custom_vjp`].
///
/// ```
/// use tapeloom::prelude::*;
/// // The identity: its cotangent is clipped, its tangent is not.
/// let clip = |x: Var| {
///     let bwd = |(), ct: Var| ct.clamp(-1.0, 1.0);
///     custom_rules(|x: Var| x, |x: Var, dx: Var| (x, dx), |x: Var| (x, ()), bwd)(x)
/// };
/// let f = |x: Var| 10.0 * clip(x);
/// assert_eq!(run(grad(f), 2.0)?.item::<f64>()?, 1.0);
/// assert_eq!(run(jacfwd(f), 2.0)?.item::<f64>()?, 10.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn custom_rules<A: Tree<Var>, B: Tree<Var>, R: Tree<Var>>(
    f: impl Fn(A) -> B,
    jvp: impl Fn(A, A) -> (B, B),
    fwd: impl Fn(A) -> (B, R),
    bwd: impl Fn(R, B) -> A,
) -> impl Fn(A) -> B {
    let at = caller();
    move |x| {
        let custom = Custom::new("custom_rules", at, &f, x);
        let jvp = custom.jvp(&jvp);
        let halves = custom.vjp(&fwd, &bwd);
        custom.emit(Some(jvp), Some(halves))
    }
}

/// A call of a user's function with derivative rules, before it is emitted.
struct Custom<A: Tree<Var>, B: Tree<Var>> {
    structure: A::Structure,
    output: B::Structure,
    of: Applied,
}

/// The part of [`Custom`] that does not depend on the types of its trees.
struct Applied {
    transform: &'static str,
    at: Loc,
    args: Vec<Var>,
    /// The tree structure of the argument.
    form: Form,
    /// The types of the argument's leaves.
    types: Vec<ArrayType>,
    /// The tree structure of the result.
    output: Form,
    /// The types of the result's leaves.
    results: Vec<ArrayType>,
    function: Closed,
}

/// The two functions of a reverse rule, traced.
struct Halves {
    fwd: Closed,
    bwd: Closed,
}

impl<A: Tree<Var>, B: Tree<Var>> Custom<A, B> {
    /// Traces `f` itself.
    fn new(transform: &'static str, at: Loc, f: &dyn Fn(A) -> B, x: A) -> Custom<A, B> {
        let (structure, args) = flatten(&x);
        let types = args.iter().map(|v| v.ty(at)).collect();
        let frame = trace::frame(transform, at, &like(&args, at));
        let (results, output) = apply(f, &structure, frame.params(), at);
        let function = frame.close(&results);
        let results = function.types.iter().map(array).collect();
        let (form, of) = (Form::of::<A>(&structure), Form::of::<B>(&output));
        let of = Applied { transform, at, args, form, types, output: of, results, function };
        Custom { structure, output, of }
    }

    fn argument(&self, leaves: &[Handle]) -> A {
        rebuild(&self.structure, vars(leaves), self.of.at)
    }

    /// Traces the forward rule as a function `(x.., dx..) -> (y.., dy..)` of leaves, in which only leaves that are
    /// floats have a `dx` or `dy`.
    fn jvp(&self, rule: &dyn Fn(A, A) -> (B, B)) -> Closed {
        let frame = self.of.open_jvp();
        let (x, dx) = frame.params().split_at(self.of.types.len());
        let dx = rebuild(&self.structure, fill(&self.of.types, dx, self.of.at), self.of.at);
        let (y, dy) = rule(self.argument(x), dx);
        self.of.close_jvp(frame, Flat::of(&y), Flat::of(&dy))
    }

    /// Traces the two functions of the reverse rule, `x.. -> (y.., residuals..)` and `(residuals.., ct of y..) -> ct of
    /// x..`. Only leaves that are floats have a cotangent `ct`.
    fn vjp<R: Tree<Var>>(&self, fwd: &dyn Fn(A) -> (B, R), bwd: &dyn Fn(R, B) -> A) -> Halves {
        let at = self.of.at;
        let frame = self.of.open_fwd();
        let (y, residuals) = fwd(self.argument(frame.params()));
        let (structure, residuals) = flatten(&residuals);
        let fwd = self.of.close_fwd(frame, Flat::of(&y), &residuals);

        let frame = self.of.open_bwd(&fwd);
        let (r, ct) = frame.params().split_at(residuals.len());
        let r = rebuild::<R>(&structure, vars(r), at);
        let ct = rebuild::<B>(&self.output, fill(&self.of.results, ct, at), at);
        // The reverse rule may draw the same random numbers as its function, so its draws must not count as a second
        // use of a key.
        let back = unmarked(|| bwd(r, ct));
        let bwd = self.of.close_bwd(frame, Flat::of(&back));
        Halves { fwd, bwd }
    }

    /// Emits the call with its rules.
    fn emit(self, jvp: Option<Closed>, halves: Option<Halves>) -> B {
        let results = self.of.emit(jvp.as_ref(), halves.as_ref());
        rebuild(&self.output, results, self.of.at)
    }
}

impl Applied {
    fn open_jvp(&self) -> Opened {
        let tangents = floats(&self.types).map(|t| Param::new(t.clone(), self.at));
        let params: Vec<Param> = like(&self.args, self.at).into_iter().chain(tangents).collect();
        trace::frame(self.transform, self.at, &params)
    }

    fn close_jvp(&self, frame: Opened, y: Flat, dy: Flat) -> Closed {
        let mut leaves = self.leaves("value", y, &self.output, &self.results);
        let dy = self.leaves("tangent", dy, &self.output, &self.results);
        leaves.extend(keep_floats(&self.results, dy));
        frame.close(&handles(&leaves))
    }

    fn open_fwd(&self) -> Opened {
        trace::frame(self.transform, self.at, &like(&self.args, self.at))
    }

    fn close_fwd(&self, frame: Opened, y: Flat, residuals: &[Var]) -> Closed {
        let mut leaves = self.leaves("value", y, &self.output, &self.results);
        leaves.extend(residuals);
        frame.close(&handles(&leaves))
    }

    fn open_bwd(&self, fwd: &Closed) -> Opened {
        let residuals = fwd.types[self.results.len()..].iter().map(array);
        let params = residuals.chain(floats(&self.results).cloned());
        let params: Vec<Param> = params.map(|t| Param::new(t, self.at)).collect();
        trace::frame(self.transform, self.at, &params)
    }

    fn close_bwd(&self, frame: Opened, back: Flat) -> Closed {
        let back = self.leaves("cotangent", back, &self.form, &self.types);
        let back: Vec<Var> = keep_floats(&self.types, back).collect();
        frame.close(&handles(&back))
    }

    /// Checks the leaves of a rule's result against the expected structure and types, and returns them. For each leaf
    /// of another type, reports an error and returns a placeholder.
    fn leaves(&self, what: &str, given: Flat, form: &Form, types: &[ArrayType]) -> Vec<Var> {
        if given.form != *form || given.leaves.len() != types.len() {
            let differ = form.different(&given.form, what, ["the function", "the rule"]);
            let problem = Problem::new(
                Kind::Rule,
                format!("the rule's {what} is a tree of another structure than expected: {differ}"),
                "return trees of the same lengths, options and static fields as the function",
            );
            trace::report(Diagnostic::new(problem, self.at), None);
            return self.poison(types);
        }
        let check = |(v, want): (Var, &ArrayType)| {
            let got = v.ty(self.at);
            // The tangent or cotangent of a leaf that is not a float is ignored, so it may have any type.
            if got == *want || (what != "value" && !want.dtype.is_float()) {
                return v;
            }
            let problem = Problem::new(
                Kind::Rule,
                format!("the rule's {what} must be {want}, got {got}"),
                "a tangent or cotangent has the shape and dtype of its primal",
            );
            trace::record(problem, &[v.handle], self.at);
            Var::poison(want.clone(), self.at)
        };
        given.leaves.into_iter().zip(types).map(check).collect()
    }

    /// Emits the call with its rules.
    fn emit(&self, jvp: Option<&Closed>, halves: Option<&Halves>) -> Vec<Var> {
        let at = self.at;
        let mut union: Vec<Handle> = Vec::new();
        let rules = jvp.into_iter().chain(halves.iter().flat_map(|h| [&h.fwd, &h.bwd]));
        for h in self.function.captures.iter().chain(rules.flat_map(|c| &c.captures)) {
            if !union.iter().any(|u| u.is_same(*h)) {
                union.push(*h);
            }
        }
        let outer: Vec<Type> = union.iter().map(|h| trace::type_of(*h, at)).collect();
        let active = |(h, ty): (&Handle, &Type)| ty.has_tangent() && !trace::is_data(*h);
        let active: Vec<bool> = union.iter().zip(&outer).map(active).collect();
        let (args, results) = (&self.types[..], &self.results[..]);
        let wide = CommonOperands { args, union: &union, outer: &outer, active: &active, results };
        match trace::with_module(|m| wide.build(m, &self.function, jvp, halves)) {
            Some(Ok(Some(op))) => {
                let operands = [handles(&self.args), union].concat();
                vars(&trace::bind(op, &operands, at))
            }
            Some(Err(problem)) => {
                let context = Context { transform: self.transform, at };
                trace::report(Diagnostic::new(problem, at), Some(context));
                self.poison(&self.results)
            }
            Some(Ok(None)) | None => self.poison(&self.results),
        }
    }

    fn poison(&self, types: &[ArrayType]) -> Vec<Var> {
        types.iter().map(|t| Var::poison(t.clone(), self.at)).collect()
    }
}

/// The common operands of a function and its rules: the arguments, then the captures of the function and of all rules.
struct CommonOperands<'a> {
    args: &'a [ArrayType],
    union: &'a [Handle],
    outer: &'a [Type],
    /// For each capture, whether it may have a derivative. Captured data has none.
    active: &'a [bool],
    results: &'a [ArrayType],
}

impl CommonOperands<'_> {
    /// Builds the primitive, whose function and rules all take the common operands. Returns `None` if an error was
    /// reported while one of them was traced.
    fn build(
        &self,
        m: &mut Module,
        f: &Closed,
        jvp: Option<&Closed>,
        halves: Option<&Halves>,
    ) -> Result<Option<CustomCall>, Problem> {
        let Some(function) = f.function else { return Ok(None) };
        let name = "custom";
        let function = self.define(m, name, &[], |b, x, outer, _| {
            Ok(b.inline(function, &[x, &self.pick(outer, &f.captures)].concat()))
        })?;
        let mut op = CustomCall { function, jvp: None, fwd: None, bwd: None };
        if let Some(rule) = jvp {
            let Some(g) = rule.function else { return Ok(None) };
            op.jvp = Some(self.forward(m, function, g, &rule.captures)?);
        }
        if let Some(Halves { fwd, bwd }) = halves {
            let (Some(first), Some(second)) = (fwd.function, bwd.function) else { return Ok(None) };
            // If `bwd` has captures, or captures have derivatives, `bwd` needs all operands. Then they become
            // residuals, too.
            let keep = !bwd.captures.is_empty() || self.active.contains(&true);
            op.fwd = Some(self.define(m, "custom.fwd", &[], |b, x, outer, _| {
                let own = self.pick(outer, &fwd.captures);
                let mut results = b.inline(first, &[x, &own].concat());
                if keep {
                    results.extend(x.iter().chain(outer));
                }
                Ok(results)
            })?);
            op.bwd = Some(self.backward(m, function, fwd, bwd, second, keep)?);
        }
        Ok(Some(op))
    }

    /// Builds the forward rule `(x.., u.., dx.., du..) -> (y.., dy..)`, where u are the captures. A tangent dy is that
    /// of the user's rule for dx, plus that of the function for du.
    fn forward(
        &self,
        m: &mut Module,
        function: FuncId,
        rule: FuncId,
        captures: &[Handle],
    ) -> Result<FuncId, Problem> {
        let all = self.operand_types();
        let tangents: Vec<Type> = all.iter().filter_map(Type::tangent).collect();
        let through = self.derive_captures(|active| transforms::jvp(m, function, active))?;
        let own = floats(self.args).count();
        self.define(m, "custom.jvp", &tangents, |b, x, outer, d| {
            let (dx, du) = d.split_at(own);
            let mut results = b.inline(rule, &[x, dx, &self.pick(outer, captures)].concat());
            if let Some(of) = &through {
                let floats = self.outer.iter().zip(self.active).filter(|(ty, _)| ty.has_tangent());
                let active = du.iter().zip(floats).filter(|(_, (_, on))| **on);
                let du: Vec<Atom> = active.map(|(du, _)| *du).collect();
                let mut more = b.inline(of.function, &[x, outer, &du].concat());
                let more = more.split_off(self.results.len());
                let mut more = more.into_iter();
                let mut slot = self.results.len();
                for (ty, on) in self.results.iter().zip(&of.active_out) {
                    if *on && let Some(extra) = more.next() {
                        results[slot] = b.emit1(Scalar::Add, &[results[slot], extra]);
                    }
                    slot += usize::from(ty.dtype.is_float());
                }
            }
            Ok(results)
        })
    }

    /// Builds the reverse function `(residuals.., [x.., u..], ct..) -> (ct of x.., ct of u..)`, where u are the
    /// captures. `x` and `u` are parameters only if `keep` is true.
    fn backward(
        &self,
        m: &mut Module,
        function: FuncId,
        fwd: &Closed,
        bwd: &Closed,
        second: FuncId,
        keep: bool,
    ) -> Result<FuncId, Problem> {
        let through = self.derive_captures(|active| transforms::vjp(m, function, active))?;
        let residuals = &fwd.types[self.results.len()..];
        let mut draft = Draft::new("custom.bwd");
        let r: Vec<Atom> = residuals.iter().map(|t| draft.param(t.clone())).collect();
        let kept: Vec<Atom> = if keep {
            self.operand_types().into_iter().map(|t| draft.param(t)).collect()
        } else {
            Vec::new()
        };
        let ct: Vec<Atom> = floats(self.results).map(|t| draft.param(t.clone().into())).collect();
        let b = Builder::new(m, &mut draft);
        let (x, outer) = kept.split_at(self.args.len().min(kept.len()));
        let own = if keep { self.pick(outer, &bwd.captures) } else { Vec::new() };
        let mut results = b.inline(second, &[&r[..], &ct, &own].concat());
        let (mut found, mut nonzero) = (Vec::new(), vec![false; self.outer.len()]);
        if let Some(of) = &through {
            let float = self.results.iter().zip(&of.active_out).filter(|(t, _)| t.dtype.is_float());
            let seeds = float.zip(&ct).filter(|((_, on), _)| **on).map(|(_, ct)| *ct);
            let operands: Vec<Atom> = kept.iter().copied().chain(seeds).collect();
            found = b.inline(of.function, &operands).split_off(self.results.len());
            nonzero = of.nonzero[x.len()..].to_vec();
        }
        let mut found = found.into_iter();
        for (ty, on) in self.outer.iter().zip(nonzero).filter(|(t, _)| t.has_tangent()) {
            let next = if on { found.next() } else { None };
            let zeros = || tapeloom_ir::prim::elementwise::zeros(&b, &array(ty));
            results.push(next.unwrap_or_else(zeros));
        }
        draft.finish(m, results)
    }

    /// Applies a transform that differentiates with respect to the captures only. Returns `None` if no capture has a
    /// derivative.
    fn derive_captures<T>(
        &self,
        transform: impl FnOnce(&[bool]) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        if !self.active.contains(&true) {
            return Ok(None);
        }
        let args = self.args.iter().map(|_| false);
        let active: Vec<bool> = args.chain(self.active.iter().copied()).collect();
        transform(&active).map(Some)
    }

    fn operand_types(&self) -> Vec<Type> {
        let args = self.args.iter().map(|t| Type::from(t.clone()));
        args.chain(self.outer.iter().cloned()).collect()
    }

    /// Defines a function whose parameters are the common operands, followed by parameters of the types `more`.
    fn define(
        &self,
        m: &mut Module,
        name: &str,
        more: &[Type],
        body: impl FnOnce(&Builder<'_>, &[Atom], &[Atom], &[Atom]) -> Result<Vec<Atom>, Problem>,
    ) -> Result<FuncId, Problem> {
        let mut draft = Draft::new(name);
        let x: Vec<Atom> = self.args.iter().map(|t| draft.param(t.clone().into())).collect();
        let outer: Vec<Atom> = self.outer.iter().map(|t| draft.param(t.clone())).collect();
        let more: Vec<Atom> = more.iter().map(|t| draft.param(t.clone())).collect();
        let results = body(&Builder::new(m, &mut draft), &x, &outer, &more)?;
        draft.finish(m, results)
    }

    /// Returns the parameters `outer` that stand for the given captures, in the order of `captures`.
    fn pick(&self, outer: &[Atom], captures: &[Handle]) -> Vec<Atom> {
        let find = |h: &Handle| self.union.iter().position(|u| u.is_same(*h)).map(|i| outer[i]);
        // Every capture is in `union`. If one were missing, the verifier would reject this literal.
        captures.iter().map(|h| find(h).unwrap_or(Literal::bool(false).into())).collect()
    }
}

fn floats(types: &[ArrayType]) -> impl Iterator<Item = &ArrayType> {
    types.iter().filter(|t| t.dtype.is_float())
}

/// Returns one leaf for each type: for a float the next leaf of `given`, for another type zeros.
fn fill(types: &[ArrayType], given: &[Handle], at: Loc) -> Vec<Var> {
    let mut given = given.iter();
    let one = |ty: &ArrayType| {
        let next = if ty.dtype.is_float() { given.next() } else { None };
        next.map_or_else(|| zeros_like_type(ty, at), |h| Var::new(*h))
    };
    types.iter().map(one).collect()
}

/// Returns the leaves whose types are floats.
fn keep_floats(types: &[ArrayType], leaves: Vec<Var>) -> impl Iterator<Item = Var> {
    let float: Vec<bool> = types.iter().map(|t| t.dtype.is_float()).collect();
    leaves.into_iter().zip(float).filter(|(_, on)| *on).map(|(v, _)| v)
}
