//! The pass `ranges`: what integers can only be, they are.
//!
//! ```text
//! func @iteration(%0: i64[], %1: f64[10]) ..        %0 the number of one of ten iterations
//!   %2: bool[] = lt %0, 0                        false
//!   %3: i64[] = add %0, 10
//!   %4: i64[] = select %2, %3, %0                %0
//! ```
//!
//! So indices that count from the end where they are negative cost nothing where they never are, and are
//! sums for whoever asks where a loop reads and writes. And a loop that has no iteration gives what it begins with:
//! reverse mode keeps nothing for it.

use super::integer_facts::Known;
use super::loop_editor::Looped;
use super::region_rewriter::{Better, Pass, inside_out};
use tapeloom_ir::prim::{Effects, Lowering, TripCount, instantiate};
use tapeloom_ir::{Atom, Builder, Code, Equation, FuncId, Module, Op, Problem};

/// The same function, with integers and truth values that can only be one thing replaced by it, and without loops
/// that have no iteration.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn ranges(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    let f = inside_out(module, f, Pass::Leaves(only))?;
    inside_out(module, f, Pass::Loops(|b, op, operands, _, _| idle(b, op, operands)))
}

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

fn idle(b: &Builder<'_>, op: &Op, operands: &[Atom]) -> Better {
    let at = Looped::of(b, op, operands, &[]).filter(|at| at.spec.trip == TripCount::Static(0));
    Ok(at.map(|at| {
        let results = at.body.result_types().into_iter().enumerate();
        let first = |r: usize| at.operand(at.spec.carrier(r)?).map(|k| at.operands[k]);
        results.map(|(r, ty)| instantiate(b, first(r), &at.spec.output(r, &ty))).collect()
    }))
}
