//! `fold_ranges`: what integers can only be, they are.
//!
//! ```text
//! func @iteration(%0: i64[], %1: f64[10]) ..        %0 the number of one of ten iterations
//!   %2: bool[] = lt %0, 0                        false
//!   %3: i64[] = add %0, 10
//!   %4: i64[] = select %2, %3, %0                %0
//! ```
//!
//! So indices that count from the end where they are negative cost nothing where they never are, and are
//! sums for whoever asks where a loop reads and writes.

use super::integer_facts::Known;
use super::region_rewriter::{Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Effects, Exactness, Lowering};
use tapeloom_ir::{Atom, Code, Equation, Module};

/// The pass as a row.
pub(crate) const PASS: Pass = Pass {
    name: "fold_ranges",
    about: "integers and truth values that can only be one thing are that",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Leaves(only))),
};

fn only(module: &Module, known: &Known<'_>, e: &Equation, operands: &[Atom]) -> Option<Atom> {
    let ([y], Effects::Pure) = (e.outputs.as_slice(), e.op.effects(module)) else { return None };
    if let Some(x) = known.only(*y) {
        return Some(x.into());
    }
    let Lowering::Elementwise(Code::Select) = known.lowering(module, e) else { return None };
    let which = known.range(e.operands[0]).only()?;
    let arm = operands[if which == 0 { 2 } else { 1 }];
    // A literal has no shape.
    (matches!(arm, Atom::Value(_)) || known.is_scalar(*y)).then_some(arm)
}
