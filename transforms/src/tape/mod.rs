//! The tape: what reverse mode keeps of the forward pass, decided.
//!
//! Single functions, bodies of loops and branches share one object: a forward half, a linear half, and
//! what the second reads of the first ([`LinearizeOf`]). So planning is a map on that object, under a
//! policy that is plain data ([`Policy`]):
//!
//! ```text
//! plan: LinearizeOf -> LinearizeOf            same function, same derivative
//! ```
//!
//! | policy | keeps | file |
//! |---|---|---|
//! | `everything` | what the linear half reads | |
//! | `nothing` | the function's arguments | `recompute` |
//!
//! What is not kept is computed again from what is, behind [`keep`](tapeloom_ir::prim::Keep), without
//! which common subexpressions would be merged back into the forward pass and kept after all.

mod recompute;

use tapeloom_ir::prim::Regions;
use tapeloom_ir::question::LinearizeOf;
use tapeloom_ir::{Module, Policy, Problem};

/// The same derivative, with what `policy` keeps as residuals.
pub(crate) fn plan(
    regions: &mut dyn Regions,
    module: &mut Module,
    of: LinearizeOf,
    policy: Policy,
) -> Result<LinearizeOf, Problem> {
    match policy {
        Policy::Everything => Ok(of),
        Policy::Nothing => recompute::from_parameters(regions, module, of),
    }
}
