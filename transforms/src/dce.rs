//! Dead code: equations whose outputs nobody reads are dropped.
//!
//! A call of which only some outputs are read is replaced by a call of a function that computes only
//! those ([`prune`]).

use crate::regions::Transforms;
use crate::sweep::sweep;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Derived, FuncId, Key, Module, Problem, rebuild};

/// The same function without dead equations.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn dce(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let function = sweep(&mut Transforms, module, (*module.get(f)).clone())?;
    module.add(function)
}

/// `f` with only the results marked `used`, and which of its parameters are still read.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn prune(
    module: &mut Module,
    f: FuncId,
    used: &[bool],
) -> Result<(FuncId, Vec<bool>), Problem> {
    let key = Key::masked("prune", f, used);
    if let Some(Derived { functions, mask }) = module.recall(&key) {
        return Ok((functions[0], mask.clone()));
    }
    let mut function = (*module.get(f)).clone();
    let mut keep = used.iter();
    function.results.retain(|_| keep.next() == Some(&true));
    let mut function = sweep(&mut Transforms, module, function)?;
    let uses = function.use_counts();
    let mut mask: Vec<bool> = function.all_params().map(|p| uses[p] > 0).collect();
    if planted(Fault::PruneMask) {
        let types = function.param_types();
        for i in 1..mask.len() {
            if mask[i] != mask[i - 1] && types[i] == types[i - 1] {
                mask.swap(i, i - 1);
                break;
            }
        }
    }
    function.params.retain(|p| uses[*p] > 0);
    function.linear_params.retain(|p| uses[*p] > 0);
    // Close the gaps that dropped parameters left in the numbering.
    let function = rebuild(&function, |draft, i, operands| Ok(draft.copy(&function, i, operands)))?;
    let id = module.add(function)?;
    module.remember(key, Derived { functions: vec![id], mask: mask.clone() });
    Ok((id, mask))
}
