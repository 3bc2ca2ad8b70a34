//! Linearization: splits the forward derivative of a function into a forward function, which returns the results and
//! the residuals, and a linear function from residuals and tangents `dx` to `dy`. As a type,
//! `linearize : (x -> y) -> (x -> (y, residuals)), ((residuals; dx) -> dy)`.
//!
//! Linearization is a jvp that is split in two. Every equation that the rules emit is either independent of the
//! tangents, and goes to the forward function, or linear in them, and goes to the linear function. The values of the
//! forward function that the linear function reads are the *residuals* ([`crate::unzip`] splits the function).
//! Residuals that are neither parameters nor results are saved: they are the tape. [`crate::checkpoint`] decides
//! afterwards which of them stay saved, by the policy of the caller.
//!
//! ```text
//! func @f(%0: f64[]) -> (f64[]) {  func @f.fwd(%0: f64[]) -> (f64[], f64[]) {  func @f.lin(%0: f64[]; %1: f64[]) -> (f64[]) {
//!   %1: f64[] = sin %0               %1: f64[] = sin %0                          %2: f64[] = mul %1, %0
//!   return %1                        %2: f64[] = cos %0                          return %2
//! }                                  return %1, %2                             }
//!                                  }
//! ```
//!
//! Source: Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (POPL 2023).

use crate::ad::jvp::{Mode, forward};
use crate::ad::unzip::{Half, Halves, SplitParts, cut};
use crate::passes::inline::inline;
use crate::passes::live_equations::sweep;
use tapeloom_ir::lang::query::{Linearize, LinearizeOf};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Module, Problem};

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    Linearize { active, forced, shares }: &Linearize,
) -> Result<LinearizeOf, Problem> {
    // Inline calls before linearizing. Some checkpoint plans inline calls and others do not. If only some plans inlined
    // them, cotangents would be added in another order, and the plans' gradients would differ in their last bits.
    let id = inline(module, id)?;
    let f = module.get(id);
    // Do not ask the derivative to materialize zero tangents: the loop below does so, once it is known which output
    // tangents are zero.
    let none = vec![false; f.results.len()];
    let (both, mut active_out) =
        forward(regions, module, id, active, &none, Mode::Linearize { shares })?;
    let both = sweep(regions, module, both)?;
    let known: Vec<bool> = (0..both.params.len()).map(|i| i < active.len()).collect();
    let halves = Halves::new(module, &both, &known);
    let (y, dy) = both.results.split_at(f.results.len());
    if y.iter().any(|a| halves.of(*a) == Half::Rest) {
        return Err(Problem::internal(format!("a rule mixed values and tangents in @{}", f.name)));
    }
    let mut tangents = dy.iter();
    let mut rest = Vec::new();
    for (i, on) in active_out.iter_mut().enumerate() {
        let tangent = if *on { tangents.next().copied() } else { None };
        // An output tangent that depends on no input tangent is zero, since the function is linear in the input tangents.
        let tangent = tangent.filter(|t| halves.of(*t) == Half::Rest);
        let ty = f.type_of(f.results[i]).tangent();
        let ty = ty.filter(|_| tangent.is_some() || forced[i]);
        *on = ty.is_some();
        rest.extend(ty.map(|ty| (tangent, ty)));
    }
    let names = ["fwd", "lin"].map(|half| format!("{}.{half}", f.name));
    let ([fwd, lin], residuals) = cut(
        regions,
        module,
        &both,
        &halves,
        SplitParts { names, known: y, rest: &rest, linear: true },
    )?;
    Ok(LinearizeOf { fwd, lin, active_out, residuals })
}
