//! Rewrites sums over windows so that terms that multiply zeros between elements are left out.
//!
//! ```text
//! y[i] = Σ_k x[(i - k) / 2] w[k]      ->      y[2 j + r] = Σ_q x[j - q] w[2 q + r]
//! ```
//!
//! The transpose of a strided convolution or pool is one sum over windows of an array with zeros between its
//! elements. This form is short, and its derivatives have the same form. The replacement is defined beside the
//! primitive (`ir/src/prim/array/polyphase`).

use crate::passes::live_equations::sweep;
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Exactness, Regions, WindowSums};
use tapeloom_ir::{Atom, Builder, FuncId, Module, Problem, ValueRemap};

/// The entry of the pass `polyphase` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "polyphase",
    about: "sums over windows skip zeros between elements: one sum for each remainder",
    exactness: Exactness::Reassociates,
    run: Run::Function(polyphase),
};

fn polyphase(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
) -> Result<FuncId, Problem> {
    let f = module.get(id).clone();
    if !f.equations.iter().any(|e| WindowSums::may_be_in(&e.op)) {
        return Ok(id);
    }
    let (mut draft, mut map) = ValueRemap::same_signature(&f);
    let (mut sums, mut changed) = (WindowSums::default(), false);
    for (i, e) in f.equations.iter().enumerate() {
        let operands = map.all(&e.operands);
        let b = Builder::new(module, &mut draft);
        b.at(f.origin(i));
        let written = sums.rewritten(&b, &e.op, &operands);
        changed |= written.is_some();
        let outputs: Vec<Atom> = match written {
            Some(sum) => vec![sum],
            None => b.copy(&f, i, operands.clone()).to_vec(),
        };
        sums.note(&e.op, &operands, &outputs);
        map.define(e, outputs);
    }
    if !changed {
        return Ok(id);
    }
    // Drop the equations of the original windows, which are not read any more.
    let made = sweep(regions, module, draft.close(map.results(&f))?)?;
    module.add(made)
}
