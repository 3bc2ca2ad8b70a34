//! Loops of which reverse mode keeps a number of carries, whatever the number of their rounds.
//!
//! ```text
//! loop{body=@step, trip=682, ..}       loop{body=@step, trip=682, .., carries=36}
//! ```
//!
//! The carries between are made again, by the schedule that runs rounds least often
//! ([`tapeloom_ir::schedule`]). What the loop says is followed wherever a derivative meets it, inside
//! other loops and in derivatives of derivatives, too; how stands with the primitive. Where a carry is kept
//! for a block of rounds only, the loop is one over blocks.

use tapeloom_ir::{Builder, FuncId, Module, Problem, rebuild};

/// The same function, of whose loops reverse mode keeps so many carries each, one for each block of so
/// many rounds, and what a block needs while it is undone. A loop in a body of another one is a part of
/// that one's rounds. Where only the run knows the number of rounds, a block is one.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn keep_carries(
    module: &mut Module,
    f: FuncId,
    carries: usize,
    block: usize,
) -> Result<FuncId, Problem> {
    let f = crate::inline(module, f)?;
    let f = module.get(f);
    let marked = rebuild(&f, |draft, i, operands| {
        let b = Builder::new(module, draft);
        b.at(f.location(i));
        Ok(f.equations[i].op.emit_keeping(&b, &operands, carries, block).into())
    })?;
    module.add(marked)
}
