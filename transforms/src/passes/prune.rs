//! Pruning: derives a function with only some of its results, and without the parameters that only the dropped
//! results need.
//!
//! ```text
//! func @f(%0: f64[], %1: f64[]) -> (f64[], f64[]) {   func @f(%0: f64[]) -> (f64[]) {
//!   %2: f64[] = sin %0                                  %1: f64[] = sin %0
//!   %3: f64[] = cos %1                                  return %1
//!   return %2, %3                                     }
//! }
//! ```

use crate::passes::live_equations::sweep;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{Prune, PruneOf};
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Module, Problem, rebuild};

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    Prune { used, kept }: &Prune,
) -> Result<PruneOf, Problem> {
    let mut function = (*module.get(f)).clone();
    let mut keep = used.iter();
    function.results.retain(|_| keep.next() == Some(&true));
    let mut function = sweep(regions, module, function)?;
    let (uses, types) = (function.use_counts(), function.param_types());
    let mut params: Vec<bool> =
        function.all_params().zip(kept).map(|(p, kept)| *kept || uses[p] > 0).collect();
    let mut stays = params.iter();
    function.params.retain(|_| stays.next() == Some(&true));
    function.linear_params.retain(|_| stays.next() == Some(&true));
    if planted(Fault::PruneMask) {
        for i in 1..params.len() {
            if params[i] != params[i - 1] && types[i] == types[i - 1] {
                params.swap(i, i - 1);
                break;
            }
        }
    }
    // Renumber the values, since dropped parameters left gaps in the numbering.
    let copy = rebuild(&function, |draft, i, operands| Ok(draft.copy(&function, i, operands)))?;
    Ok(PruneOf { function: module.add(copy)?, params })
}
