//! Rewrites the forward and the linear function by the planner's choice: the linear function recomputes the values that
//! are not saved.
//!
//! ```text
//! fwd: x -> (y, saved)                 fwd': x -> (y, saved')
//! lin: (residuals; dx) -> dy           lin': (residuals'; dx) -> let recomputed = .. in lin (residuals; dx)
//! ```
//!
//! Equations are copied from the forward function, so recomputed values have the same bits. Recomputation runs in the
//! linear function: in reverse mode, right before the reverse pass of this function and after that of all later
//! functions. So in a chain of such functions, only one at a time has its values in memory.
//!
//! If the forward and the linear function will become parts of one function, recomputation reads its inputs through a
//! `barrier`. Without it, CSE would merge recomputed values with those of the forward pass, which would then stay
//! alive.

use crate::passes::live_equations::sweep;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{LinearizeOf, Residual};
use tapeloom_ir::prim::{Mark, Op, Regions};
use tapeloom_ir::{Atom, Builder, Draft, Function, Module, Problem, Type, ValueId, ValueRemap};

/// Rewrites the forward and the linear function so that the linear function recomputes the equations marked in
/// `recomputed` of the forward function `f`.
pub(super) fn rewrite(
    regions: &mut dyn Regions,
    module: &mut Module,
    of: &LinearizeOf,
    f: &Function,
    recomputed: &[bool],
    together: bool,
) -> Result<LinearizeOf, Problem> {
    let own = of.active_out.len();
    let lin = module.get(of.lin);
    // Values that the linear function can read though the forward function saves nothing for them: results and
    // parameters of the forward function.
    let mut there: SecondaryMap<ValueId, Option<Residual>> = SecondaryMap::new();
    for (i, v) in f.results[..own].iter().enumerate().filter_map(|(i, a)| Some((i, a.value()?))) {
        there[v].get_or_insert(Residual::Result(i));
    }
    for (i, p) in f.params.iter().enumerate() {
        there[*p] = Some(Residual::Parameter(i));
    }
    let mut forward = f.clone();
    forward.results.truncate(own);
    let mut residuals = Vec::new();
    let mut draft = Draft::new(lin.name.clone());
    // For each value that the linear function reads from the forward function: `read` has the parameter that holds the
    // value, for the original equations; `behind` has this parameter behind a barrier, for the recomputed equations.
    let [mut read, mut behind] = [ValueRemap::new(), ValueRemap::new()];
    let mut ask = |v: ValueId, read: &mut ValueRemap, draft: &mut Draft| {
        if read.knows(v) {
            return;
        }
        read.bind(v, draft.param(f.types[v].clone()));
        residuals.push(there[v].unwrap_or_else(|| {
            forward.results.push(wrong(f, v).unwrap_or(v).into());
            Residual::Kept(forward.results.len() - 1)
        }));
    };
    let mut computed: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let runs = || f.equations.iter().enumerate().filter(|(i, _)| recomputed[*i]);
    for (_, e) in runs() {
        for v in e.operands.iter().filter_map(|a| a.value()).filter(|v| !computed[*v]) {
            ask(v, &mut read, &mut draft);
            behind.bind(v, read.read(v.into()));
        }
        for o in &e.outputs {
            computed[*o] = true;
        }
    }
    let wanted = Residual::pick(
        &of.residuals,
        &f.params.iter().map(|p| Atom::Value(*p)).collect::<Vec<_>>(),
        &f.results,
    );
    for v in wanted.iter().filter_map(|a| a.value()).filter(|v| !computed[*v]) {
        ask(v, &mut read, &mut draft);
    }
    let dx: Vec<Atom> =
        lin.linear_params.iter().map(|p| draft.linear_param(lin.types[*p].clone())).collect();

    if together {
        let marked = |v: &ValueId| behind.knows(*v) && matches!(f.types[*v], Type::Array(_));
        let values: Vec<ValueId> = f.types.keys().filter(marked).collect();
        let b = Builder::new(module, &mut draft);
        for v in values {
            let mark = b.emit1(Op::barrier(Mark::Rematerialize), &[behind.read(v.into())]);
            behind.bind(v, mark);
        }
    }
    // An equation that the forward function runs and the linear function recomputes is labelled `rematerialized` in the
    // linear function.
    let mut phased = f.clone();
    let mut live: SecondaryMap<ValueId, bool> = SecondaryMap::with_capacity(f.types.len());
    forward.results.iter().filter_map(|a| a.value()).for_each(|v| live[v] = true);
    for (e, phase) in f.equations.iter().zip(&mut phased.phases).rev() {
        if e.outputs.iter().any(|o| live[*o]) {
            e.operands.iter().filter_map(|a| a.value()).for_each(|v| live[v] = true);
            *phase = phase.rematerialized();
        }
    }
    for (i, e) in runs() {
        let operands = behind.all(&e.operands);
        behind.define(e, draft.copy(&phased, i, operands));
    }
    let value = |a: &Atom| match a {
        Atom::Value(v) if computed[*v] => behind.read(*a),
        Atom::Value(_) => read.read(*a),
        Atom::Literal(_) => *a,
    };
    let mut args: Vec<Atom> = wanted.iter().map(value).collect();
    args.extend(dx);
    let dy = Builder::new(module, &mut draft).inline(of.lin, &args);
    let lin = draft.close(dy)?;
    let lin = sweep(regions, module, lin)?;
    let forward = sweep(regions, module, forward)?;
    let (fwd, lin) = (module.add(forward)?, module.add(lin)?);
    Ok(LinearizeOf { fwd, lin, active_out: of.active_out.clone(), residuals })
}

/// If tests have planted the fault `WrongCut`, returns a wrong value to save for `v`: an operand, of the same type, of
/// the equation that defines `v`.
fn wrong(f: &Function, v: ValueId) -> Option<ValueId> {
    if !planted(Fault::WrongCut) {
        return None;
    }
    let e = f.equations.iter().find(|e| e.outputs.contains(&v))?;
    e.operands.iter().filter_map(|a| a.value()).find(|x| f.types[*x] == f.types[v])
}
