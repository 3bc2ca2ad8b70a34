//! Forward mode: `jvp : (x -> y) -> (x, dx) -> (y, dy)`.
//!
//! One walk over the equations replaces each by the equations that its primitive's rule emits. A value that
//! does not depend on the active inputs, or on which no result depends, has no tangent at all (not a zero one),
//! so nothing is computed for it; [`crate::activity`] finds these values.
//!
//! ```text
//! func @f(%0: f64[]) -> (f64[]) {          func @f.jvp(%0: f64[], %1: f64[]) -> (f64[], f64[]) {
//!   %1: f64[] = sin %0                       %2: f64[] = sin %0
//!   return %1                                %3: f64[] = cos %0
//! }                                          %4: f64[] = mul %1, %3
//!                                            return %2, %4
//!                                          }
//! ```

use crate::ad::activity::activity;
use crate::ad::amortization::ReadCosts;
use crate::ad::reads::{ReadsOf, reads};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::lang::query::{Jvp, JvpOf};
use tapeloom_ir::prim::{Dual, Reads, Regions, RuleCx, instantiate};
use tapeloom_ir::{
    Amortization, Atom, Builder, Draft, FuncId, Function, Module, Problem, ValueId, ValueRemap,
};

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    Jvp { active, forced }: &Jvp,
) -> Result<JvpOf, Problem> {
    let (function, active_out) = forward(regions, module, f, active, forced, Mode::Jvp)?;
    Ok(JvpOf { function: module.add(function)?, active_out })
}

/// The derivative rule of a primitive that the walk applies to every equation: `jvp` or `linearize`.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// The jvp rule, which may emit any equations.
    Jvp,
    /// The linearize rule: every equation that it emits is independent of the tangents or linear in them.
    Linearize {
        /// Per parameter: the cost, for the linear function, of reading the parameter as a residual.
        shares: &'a [Amortization],
    },
}

/// Derives the forward derivative of a function by one walk over its equations, shared by jvp and linearize.
/// Returns the function `(x.., dx..) -> (y.., dy..)` and, per result, whether it has a tangent.
pub(crate) fn forward(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    active: &[bool],
    forced: &[bool],
    mode: Mode<'_>,
) -> Result<(Function, Vec<bool>), Problem> {
    let f = module.get(id);
    let mut draft = Draft::new(format!("{}.jvp", f.name));
    let mut primal = ValueRemap::with(&f, f.param_types().into_iter().map(|ty| draft.param(ty)));
    let mut tangent: SecondaryMap<ValueId, Option<Atom>> = SecondaryMap::new();
    for (p, on) in f.all_params().zip(active) {
        let ty = f.types[p].tangent().filter(|_| *on);
        tangent[p] = ty.map(|ty| draft.param(ty));
    }
    let activity = activity(&f, active);
    let reads: Option<ReadsOf> = reads(module, &f, &activity);
    let again = match mode {
        Mode::Linearize { shares } => ReadCosts::new(module, &f, shares),
        Mode::Jvp => ReadCosts::default(),
    };
    let b = Builder::new(module, &mut draft);
    for (i, e) in f.equations.iter().enumerate() {
        b.at(f.origin(i));
        let x = primal.all(&e.operands);
        let dx: Vec<Option<Atom>> =
            e.operands.iter().map(|a| a.value().and_then(|v| tangent[v])).collect();
        let wanted = e.outputs.iter().any(|o| activity.is_active(*o));
        if !wanted || dx.iter().all(Option::is_none) {
            primal.define(e, b.copy(&f, i, x));
            continue;
        }
        let shares: Vec<Amortization> = match e.op.regions().is_empty() {
            true => Vec::new(),
            false => e.operands.iter().map(|a| again.share(*a)).collect(),
        };
        let read: Vec<Option<Reads>> = match &reads {
            Some(reads) if e.op.needs_reads() => {
                e.outputs.iter().map(|o| reads[*o].clone()).collect()
            }
            _ => Vec::new(),
        };
        let mut cx = RuleCx { b: &b, regions: &mut *regions, shares: &shares, reads: &read };
        let Dual { y, dy } = match mode {
            Mode::Jvp => e.op.jvp(&mut cx, &x, &dx),
            Mode::Linearize { .. } => e.op.linearize(&mut cx, &x, &dx),
        }
        .map_err(|p| p.at(f.location(i)))?;
        primal.define(e, y);
        for (old, dy) in e.outputs.iter().zip(dy) {
            tangent[*old] = dy.filter(|_| f.types[*old].has_tangent());
        }
    }
    let tangent = |(r, forced): (&Atom, &bool)| {
        let found = r.value().and_then(|v| tangent[v]);
        let zeros = || Some(instantiate(&b, None, &f.type_of(*r).tangent()?));
        found.or_else(|| if *forced { zeros() } else { None })
    };
    let tangents: Vec<Option<Atom>> = f.results.iter().zip(forced).map(tangent).collect();
    let mut results = primal.results(&f);
    results.extend(tangents.iter().flatten());
    Ok((draft.close(results)?, tangents.iter().map(Option::is_some).collect()))
}
