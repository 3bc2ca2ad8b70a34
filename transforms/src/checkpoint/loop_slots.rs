//! Loops of which reverse mode keeps a number of carries, whatever the number of their iterations.
//!
//! ```text
//! loop{body=@step, trip=682, ..}       loop{body=@step, trip=682, .., carries=36}
//! ```
//!
//! The carries between are made again, by the schedule that runs iterations least often
//! ([`tapeloom_ir::revolve`]). What the loop says is followed wherever a derivative meets it, inside
//! other loops and in derivatives of derivatives, too; how stands with the primitive. Where a carry is kept
//! for a block of iterations only, the loop is one over blocks.

use crate::passes::inline::inline;
use tapeloom_ir::prim::Keeps;
use tapeloom_ir::{Builder, FuncId, Kind, Module, Problem, rebuild};

/// The same function, of whose loops reverse mode keeps so many carries each, one for each block of so
/// many iterations, and what a block needs while it is undone. A loop in a body of another one is a part of
/// that one's iterations. Where only the run knows the number of iterations, a block is one.
///
/// # Errors
/// [`Kind::Arguments`] for no carry or no iteration of a block.
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
                "a loop keeps one carry at least, for a block of one iteration or more; got {carries} carries \
                 for blocks of {block}"
            ),
            "`Policy::Bytes(n)` finds numbers that keep so many bytes",
        ));
    }
    let f = inline(module, f)?;
    let f = module.get(f);
    let keeps = Keeps { carries, block, last: 0 };
    let marked = rebuild(&f, |draft, i, operands| {
        let b = Builder::new(module, draft);
        b.at(f.origin(i));
        Ok(f.equations[i].op.emit_keeping(&b, &operands, keeps).into())
    })?;
    module.add(marked)
}
