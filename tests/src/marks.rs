//! A check that barriers are opaque: a pass must assume that a `barrier` returns an unknown function of its operand.
//!
//! A `barrier` returns its operand, so a pass that looks through it changes no values and is not noticed. Therefore
//! the test replaces every barrier by another function, once before a pass and once after it, and compares the two
//! programs. If the pass folded, bypassed or rewrote across a barrier, their results differ.

use crate::Failure;
use tapeloom_ir::{FuncId, Module, Op, Problem, Scalar, Type, rebuild};

/// Returns the function `id` with every barrier, in called functions too, replaced by another function of its operand.
///
/// # Errors
/// None for a well-formed module.
pub fn replaced(m: &mut Module, id: FuncId) -> Result<FuncId, Failure> {
    let f = m.get(id);
    let other = rebuild(&f, |draft, i, operands| {
        let mut inner = |g| replaced(m, g).map_err(|e| Problem::internal(e.to_string()));
        let op: Op = match &f.equations[i].op {
            Op::Barrier(_) => match draft.type_of(operands[0]) {
                Type::Array(x) if x.dtype.is_float() || x.dtype.is_signed() => Scalar::Neg.into(),
                Type::Array(_) | Type::Tape(_) => Scalar::Not.into(),
            },
            op => {
                let regions = op.regions();
                let inner: Result<Vec<FuncId>, _> =
                    regions.iter().map(|r| inner(r.function)).collect();
                op.with_regions(&inner?)
            }
        };
        Ok(draft.copy_as(op, &f, i, operands))
    })?;
    Ok(m.add(other)?)
}
