//! Loops that save a fixed number of carries in reverse mode, for any trip count.
//!
//! ```text
//! loop{body=@step, trip=682, ..}       loop{body=@step, trip=682, .., carries=36}
//! ```
//!
//! The carries in between are recomputed, by the schedule with the fewest forward iterations
//! ([`tapeloom_ir::revolve`]). All derivative rules of the loop primitive obey this attribute, also inside other loops
//! and in derivatives of derivatives. If one carry is saved for each block of iterations, the loop becomes a loop over
//! blocks.

use crate::passes::inline::inline;
use tapeloom_ir::prim::CheckpointPlan;
use tapeloom_ir::{Builder, FuncId, Kind, Module, Problem, rebuild};

/// Returns a copy of `f` in which every loop has the attribute `carries`: in reverse mode the loop saves `carries`
/// carries, one for each block of `block` iterations. The iterations of a block save their residuals while the block is
/// reversed. A loop in the body of another loop belongs to that loop's iterations, and gets no attribute. If the trip
/// count is dynamic, a block is one iteration.
///
/// # Errors
/// [`Kind::Arguments`] if `carries` or `block` is 0.
pub fn keep_carries(
    module: &mut Module,
    f: FuncId,
    carries: usize,
    block: usize,
) -> Result<FuncId, Problem> {
    if carries == 0 || block == 0 {
        return Err(Problem::new(
            Kind::Arguments,
            format!(
                "a loop saves at least one carry, and a block has at least one iteration; got \
                 {carries} carries for blocks of {block}"
            ),
            "`Policy::Bytes(n)` chooses these numbers for a byte budget",
        ));
    }
    let f = inline(module, f)?;
    let f = module.get(f);
    let keeps = CheckpointPlan { carries, block, last: 0 };
    let marked = rebuild(&f, |draft, i, operands| {
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        Ok(f.equations[i].op.emit_checkpointed(&b, &operands, keeps).into())
    })?;
    module.add(marked)
}
