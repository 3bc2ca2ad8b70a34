//! Dead code elimination: drops equations whose outputs are not read.
//!
//! A call of which only some outputs are read is replaced by a call of a function that computes only these.

use crate::passes::live_equations::sweep;
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, Regions};
use tapeloom_ir::{FuncId, Module, Problem};

/// The entry of the pass `dce` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "dce",
    about: "equations without readers are dropped",
    exactness: Exactness::Exact,
    run: Run::Function(dce),
};

/// Returns a copy of `f` without the equations that no result and no effect depends on.
pub(crate) fn dce(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
) -> Result<FuncId, Problem> {
    let function = sweep(regions, module, (*module.get(f)).clone())?;
    module.add(function)
}
