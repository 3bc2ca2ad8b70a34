//! Recomputation: the linear half computes again what it would have read from the tape.
//!
//! ```text
//! fwd: x -> (y, kept)                  fwd': x -> y
//! lin: (residuals; dx) -> dy           lin': (x; dx) -> let (y, kept) = fwd (keep x) in lin (residuals; dx)
//! ```
//!
//! The whole of `fwd` that the residuals need runs once more, so the extra work is at most that of the
//! forward pass, and it runs where the linear half stands: in reverse mode, right before the backward
//! pass of this function and after that of everything behind it. So of a chain of such functions one at
//! a time has its residuals in memory.
//!
//! Model: Griewank and Walther, "Revolve" (ACM TOMS 2000), at its simplest; JAX's `checkpoint`.

use tapeloom_ir::prim::{Effects, Regions};
use tapeloom_ir::question::{LinearizeOf, Residual};
use tapeloom_ir::{Atom, Builder, Draft, Module, Op, Problem};

/// The same derivative, with parameters as its only residuals.
///
/// What a user can see happens once: a function with ordered effects keeps its residuals.
pub(super) fn from_parameters(
    regions: &mut dyn Regions,
    module: &mut Module,
    of: LinearizeOf,
) -> Result<LinearizeOf, Problem> {
    let (fwd, lin) = (module.get(of.fwd), module.get(of.lin));
    let computed = |r: &Residual| match r {
        Residual::Parameter(_) => None,
        Residual::Result(i) | Residual::Kept(i) => Some(*i),
    };
    let mut needed = vec![false; fwd.results.len()];
    for i in of.residuals.iter().filter_map(computed) {
        needed[i] = true;
    }
    if !needed.contains(&true) || module.effects(of.fwd) == Effects::Ordered {
        return Ok(of);
    }
    let results: Vec<bool> = (0..needed.len()).map(|i| i < of.active_out.len()).collect();
    let every = vec![true; fwd.params.len()];
    let forward = regions.prune(module, of.fwd, &results, &every)?.function;
    let again = regions.prune(module, of.fwd, &needed, &[])?;

    let mut draft = Draft::new(lin.name.clone());
    let mut residuals = Vec::new();
    let mut x: Vec<Option<Atom>> = vec![None; fwd.params.len()];
    for (i, p) in fwd.params.iter().enumerate() {
        let residual = Residual::Parameter(i);
        if again.params[i] || of.residuals.contains(&residual) {
            x[i] = Some(draft.param(fwd.types[*p].clone()));
            residuals.push(residual);
        }
    }
    let dx: Vec<Atom> =
        lin.linear_params.iter().map(|p| draft.linear_param(lin.types[*p].clone())).collect();
    let b = Builder::new(module, &mut draft);
    let read = x.iter().zip(&again.params).filter(|(_, on)| **on).filter_map(|(x, _)| *x);
    let behind: Vec<Atom> = read.map(|x| b.emit1(Op::keep("recompute"), &[x])).collect();
    // The values computed again, by their positions among the outputs of the forward half.
    let mut values = b.inline(again.function, &behind).into_iter();
    let outputs: Vec<Option<Atom>> =
        needed.iter().map(|on| if *on { values.next() } else { None }).collect();
    let mut args: Vec<Atom> =
        Residual::pick(&of.residuals, &x, &outputs).into_iter().flatten().collect();
    args.extend(dx);
    let dy = b.inline(of.lin, &args);
    let lin = draft.finish(module, dy)?;
    Ok(LinearizeOf { fwd: forward, lin, active_out: of.active_out, residuals })
}
