//! `fold_ranges`: folds integers and truth values that can only have one value.
//!
//! ```text
//! func @iteration(%0: i64[], %1: f64[10]) ..       %0 in 0..=9, the iteration number
//!   %2: bool[] = lt %0, 0                        false
//!   %3: i64[] = add %0, 10
//!   %4: i64[] = select %2, %3, %0                %0
//! ```
//!
//! A negative index counts from the end, so a `select` adds the extent to negative indices. If an index is never
//! negative, the pass removes this `select`, and the index is an affine form, as the analysis of accesses requires.

use super::integer_facts::ValueFacts;
use super::region_rewriter::{Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Effects, Exactness, Lowering};
use tapeloom_ir::{Atom, Code, Equation, Module};

/// The entry of the pass `fold_ranges` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "fold_ranges",
    about: "integers and truth values with one possible value become constants",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| inside_out(module, f, Rewrite::Leaves(only))),
};

fn only(module: &Module, known: &ValueFacts<'_>, e: &Equation, operands: &[Atom]) -> Option<Atom> {
    let ([y], Effects::Pure) = (e.outputs.as_slice(), e.op.effects(module)) else { return None };
    if let Some(x) = known.only(*y) {
        return Some(x.into());
    }
    let Lowering::Elementwise(Code::Select) = known.lowering(module, e) else { return None };
    let which = known.range(e.operands[0]).only()?;
    let arm = operands[if which == 0 { 2 } else { 1 }];
    // An arm of `select` that is a literal has no shape, so it can replace a scalar output only.
    (matches!(arm, Atom::Value(_)) || known.is_scalar(*y)).then_some(arm)
}
