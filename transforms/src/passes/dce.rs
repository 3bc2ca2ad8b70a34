//! Dead code: equations whose outputs nobody reads are dropped.
//!
//! A call of which only some outputs are read is replaced by a call of a function that computes only
//! those.

use crate::dispatch::Transforms;
use crate::passes::live_equations::sweep;
use tapeloom_ir::{FuncId, Module, Problem};

/// The same function without dead equations.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn dce(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let function = sweep(&mut Transforms, module, (*module.get(f)).clone())?;
    module.add(function)
}
