//! Loops of which reverse mode keeps a number of carries, whatever the number of their rounds.
//!
//! ```text
//! loop{body=@step, trip=682, ..}       loop{body=@step, trip=682, .., carries=36}
//! ```
//!
//! The carries between are made again, by the schedule that runs rounds least often
//! ([`tapeloom_ir::schedule`]). What the loop says is followed wherever a derivative meets it, inside
//! other loops and in derivatives of derivatives, too; how stands with the primitive.

use tapeloom_ir::{FuncId, Module, Problem, rebuild};

/// The same function, of whose loops reverse mode keeps so many carries each, and what a round needs
/// while it is undone. A loop in a body of another one is a part of that one's rounds.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn keep_carries(module: &mut Module, f: FuncId, carries: usize) -> Result<FuncId, Problem> {
    let f = crate::inline(module, f)?;
    let f = module.get(f);
    let marked = rebuild(&f, |draft, i, operands| {
        let op = &f.equations[i].op;
        let op = op.keeping(carries).unwrap_or_else(|| op.clone());
        Ok(draft.copy_as(op, &f, i, operands))
    })?;
    module.add(marked)
}
