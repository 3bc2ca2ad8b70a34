//! Reverse mode: `vjp : (x -> y) -> (x, ct of y) -> (y, ct of x)`.
//!
//! Reverse mode is not a transform of its own. It is linearize, then transpose:
//!
//! ```text
//! y, saved = f.fwd x
//! ct of x = f.bwd residuals, ct of y      the residuals are among x, y and the saved values
//! ```

use tapeloom_ir::lang::query::{Residual, TransposeOf};
use tapeloom_ir::prim::Op;
use tapeloom_ir::{Builder, Draft, FuncId, Kind, Module, Policy, Problem};

/// A function's reverse derivative: as one function, and split into a forward and a reverse function.
#[derive(Clone, Debug)]
pub struct VjpOf {
    /// The whole derivative: `(x.., ct of the active outputs) -> (y.., ct of the inputs marked in nonzero)`.
    pub function: FuncId,
    /// The forward function: `x.. -> (y.., saved..)`.
    pub fwd: FuncId,
    /// The reverse function: `(residuals..; ct of the active outputs) -> ct of the inputs marked in nonzero`.
    pub bwd: FuncId,
    /// Per residual: whether it is a parameter, a result or a saved value of `fwd`.
    pub residuals: Vec<Residual>,
    /// Per output: whether it depends on the active inputs, so that its cotangent is a parameter.
    pub active_out: Vec<bool>,
    /// Per input: whether its cotangent is a result. The cotangents of other inputs are zero.
    pub nonzero: Vec<bool>,
}

/// Derives the reverse derivative of `f` with respect to the `active` parameters.
///
/// # Errors
/// A derivative that does not exist, with the user's line.
pub fn vjp(module: &mut Module, f: FuncId, active: &[bool]) -> Result<VjpOf, Problem> {
    let of = crate::linearize(module, f, active)?;
    let every = vec![true; module.function(of.lin).results.len()];
    let back = match !module.function(of.lin).linear_params.is_empty() {
        true => crate::transpose(module, of.lin, &every)?,
        // Without linear parameters no cotangent goes in and none comes out, so the linear function is its own
        // transpose.
        false => TransposeOf { function: of.lin, nonzero: Vec::new() },
    };

    let mut nonzero = vec![false; active.len()];
    let types = module.function(f).param_types();
    let slots = (0..active.len()).filter(|i| active[*i] && types[*i].has_tangent());
    for (slot, on) in slots.zip(&back.nonzero) {
        nonzero[slot] = *on;
    }
    let (fwd, bwd) = (of.fwd, back.function);
    let mut of = VjpOf {
        function: fwd,
        fwd,
        bwd,
        residuals: of.residuals,
        active_out: of.active_out,
        nonzero,
    };
    of.function = compose(module, f, &of)?;
    Ok(of)
}

/// Derives the reverse derivative as [`vjp`] does, for a function inside a checkpoint whose policy is a byte budget. If
/// a loop with a dynamic trip count saves its residuals on a dynamic tape, no plan for the derivative of the derivative
/// meets a budget, since its loops read and write tapes of unbounded size. In that case the function itself is planned
/// within the budget.
///
/// # Errors
/// Errors of [`vjp`].
pub fn vjp_within(
    module: &mut Module,
    f: FuncId,
    active: &[bool],
    policy: &Policy,
) -> Result<VjpOf, Problem> {
    let whole = vjp(module, f, active)?;
    if module.function(whole.fwd).result_types().iter().all(|ty| ty.as_array().is_some()) {
        return Ok(whole);
    }
    let of = module.get(f);
    let mut draft = Draft::new(of.name.clone());
    let x: Vec<_> = of.param_types().into_iter().map(|ty| draft.param(ty)).collect();
    let y = Builder::new(module, &mut draft).emit(Op::checkpoint(f, policy.clone()), &x);
    let within = draft.finish(module, y.to_vec())?;
    match vjp(module, within, active) {
        // If no plan meets the budget here, return the unplanned derivative: its own derivative then reports the
        // problem.
        Err(problem) if problem.kind == Kind::Budget => Ok(whole),
        found => found,
    }
}

/// Adds the function `(x, ct) -> let y = fwd x in (y, bwd residuals ct)`.
fn compose(module: &mut Module, f: FuncId, of: &VjpOf) -> Result<FuncId, Problem> {
    let (forward, backward) = (module.get(of.fwd), module.get(of.bwd));
    let mut draft = Draft::new(format!("{}.vjp", module.get(f).name));
    let x: Vec<_> = forward.param_types().into_iter().map(|t| draft.param(t)).collect();
    let seeds = backward.linear_params.iter().map(|p| backward.types[*p].clone());
    let ct: Vec<_> = seeds.map(|t| draft.param(t)).collect();
    let b = Builder::new(module, &mut draft);
    let mut y = b.inline(of.fwd, &x);
    let residuals = Residual::pick(&of.residuals, &x, &y);
    y.truncate(of.active_out.len());
    y.extend(b.inline(of.bwd, &[residuals, ct].concat()));
    draft.finish(module, y)
}
