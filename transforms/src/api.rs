//! The public transforms and passes. The internal versions take more arguments, which derivative rules pass.

use crate::dispatch::Transforms;
use crate::passes::egraph::{self, Options};
use crate::passes::pass::Pass;
use crate::passes::simplification::Simplified;
use crate::pipeline::{BEFORE_REVERSE, List, Observed};
use tapeloom_ir::lang::query::{BatchOf, JvpOf, LinearizeOf, PruneOf, TransposeOf, UnzipOf};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Module, PlanRequest, Policy, Problem, fingerprint};

/// Derives the forward derivative of `f`: `(x.., dx of the active) -> (y.., dy of the active outputs)`.
///
/// Linear parameters of `f` become ordinary ones.
///
/// # Errors
/// A derivative that does not exist, with the user's line.
pub fn jvp(module: &mut Module, f: FuncId, active: &[bool]) -> Result<JvpOf, Problem> {
    Transforms.jvp(module, f, active, &[])
}

/// Derives the linearization of `f` (a forward function and a linear function) with respect to the `active` parameters,
/// planned by `Policy::Planned`.
///
/// # Errors
/// A derivative that does not exist, with the user's line.
pub fn linearize(module: &mut Module, f: FuncId, active: &[bool]) -> Result<LinearizeOf, Problem> {
    let f = BEFORE_REVERSE.run(module, f)?;
    let of = Transforms.linearize(module, f, active, &[], &[])?;
    Transforms.plan(module, of, PlanRequest::call(Policy::Planned))
}

/// Returns `f` with the ordinary parameters marked `linear` made linear parameters (which come last), and with
/// calls inlined.
///
/// # Errors
/// [`Kind::NotLinear`](tapeloom_ir::Kind::NotLinear) with the line of the nonlinear primitive, if `f` is not
/// linear in them.
pub fn as_linear(module: &mut Module, f: FuncId, linear: &[bool]) -> Result<FuncId, Problem> {
    tapeloom_ir::prim::as_linear(&mut Transforms, module, f, linear, 0)
}

/// Derives the transpose of a linear function: `(k..; ct of the results marked nonzero) -> ct of the linear
/// parameters`. Cotangents that are zero are left out.
///
/// # Errors
/// [`Kind::NotLinear`](tapeloom_ir::Kind::NotLinear) if a primitive is not linear in values that depend on the
/// linear parameters.
pub fn transpose(module: &mut Module, f: FuncId, nonzero: &[bool]) -> Result<TransposeOf, Problem> {
    Transforms.transpose(module, f, nonzero, &[])
}

/// Derives the function that computes `f` for a batch of `size` members: parameters marked `batched` get a new axis
/// 0 of extent `size`. If members run loops of different lengths, a module that divides batches
/// ([`Module::divide_batches`]) runs them in chunks.
///
/// # Errors
/// Any error of a batching rule.
pub fn batch(
    module: &mut Module,
    f: FuncId,
    size: usize,
    batched: &[bool],
) -> Result<BatchOf, Problem> {
    match crate::ad::chunked_batch::derive(&mut Transforms, module, f, size, batched)? {
        Some(of) => Ok(of),
        None => Transforms.batch(module, f, size, batched, &[]),
    }
}

/// Returns `f` reduced to the results marked `used`, and which of its parameters these results still need.
///
/// # Errors
/// None for a well-formed module.
pub fn prune(module: &mut Module, f: FuncId, used: &[bool]) -> Result<PruneOf, Problem> {
    Transforms.prune(module, f, used, &[])
}

/// Splits `f` into two functions: the equations that depend on the `known` parameters alone, and the other
/// equations.
///
/// # Errors
/// None for a well-formed module.
pub fn unzip(module: &mut Module, f: FuncId, known: &[bool]) -> Result<UnzipOf, Problem> {
    Transforms.unzip(module, f, known)
}

/// Simplifies `f` by equality saturation; returns the simplified function with a report.
///
/// # Errors
/// None for a well-formed module.
pub fn simplify_with(
    module: &mut Module,
    f: FuncId,
    options: &Options,
) -> Result<Simplified, Problem> {
    egraph::simplify_with(&mut Transforms, module, f, options)
}

impl Pass {
    /// Runs the pass on `f` and on all functions that `f` runs (bodies of loops, branches). A debug build verifies
    /// the result.
    ///
    /// # Errors
    /// Any error of the pass; [`tapeloom_ir::Kind::Internal`] if the verifier rejects the result.
    pub fn apply(&self, module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
        Ok(self.run(&mut Transforms, module, f)?.function)
    }
}

impl List {
    /// Runs the passes of the list in order; returns the resulting function.
    ///
    /// # Errors
    /// Errors of [`Pass::apply`].
    pub fn run(&self, module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
        self.run_with(&mut Transforms, module, f, &mut |_| {})
    }

    /// Runs the passes of the list in order, as the compiler does: calls `after` with the resulting function after
    /// each step, and logs the [`fingerprint`]s of the first and of the last function.
    ///
    /// ```
    /// use tapeloom_ir::parse_module;
    /// use tapeloom_transforms::BEFORE_RELAXED_CODE;
    /// let mut module = parse_module("func @f(%a: f64[], %b: f64[], %c: f64[]) -> (f64[]) {
    ///   %x: f64[] = mul %a, %b
    ///   %y: f64[] = mul %c, %a
    ///   %z: f64[] = add %x, %y
    ///   return %z
    /// }").map_err(|e| e[0].clone())?;
    /// let f = module.iter().next().map(|(id, _)| id).ok_or("no function")?;
    /// let mut rules = Vec::new();
    /// BEFORE_RELAXED_CODE.observed(&mut module, f, &mut |done| {
    ///     rules.extend(done.simplification.iter().flat_map(|s| s.rules.keys().copied()));
    /// })?;
    /// assert_eq!(rules, ["add-factor"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Errors of [`List::run`].
    pub fn observed(
        &self,
        module: &mut Module,
        f: FuncId,
        after: &mut dyn FnMut(Observed<'_>),
    ) -> Result<FuncId, Problem> {
        let made = self.run_with(&mut Transforms, module, f, after)?;
        let of = |f| fingerprint::function(module, f);
        fingerprint::record("passes", || of(f), || of(made));
        Ok(made)
    }
}
