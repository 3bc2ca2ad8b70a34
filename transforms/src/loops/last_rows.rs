//! The pass `last_rows`: loops of which only the last row is read carry rows, and other loops give what they fill.

use super::integer_facts::Fact;
use super::region_rewriter::{Pass, inside_out};
use super::rolling_buffer::rolled;
use super::stack_outputs::filled;
use super::uses::Behind;
use crate::passes::dce::dce;
use tapeloom_ir::{Atom, Builder, FuncId, Module, Op, Problem};

/// The same function, whose loops carry rows in place of arrays of which the last row is all that is read behind
/// them, which are then nowhere in memory.
/// A function without such a loop stays as it is; in one with such a loop all others give what they fill, too.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn last_rows(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let given = filled(module, f)?;
    let given = dce(module, given)?;
    let last = |b: &Builder<'_>, op: &Op, operands: &[Atom], facts: &[Fact], read: &Behind<'_>| {
        rolled(b, op, operands, facts, Some(read))
    };
    let rows = inside_out(module, given, Pass::Loops(last))?;
    if rows == given { Ok(f) } else { dce(module, rows) }
}
