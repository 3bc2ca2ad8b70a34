//! Marks are opaque: what a `barrier` gives back could be any function of its operand.
//!
//! That it is the operand itself hides every pass that looks through a mark, for the values are the
//! same. So the law puts another function in place of every mark, before a pass and after it, and
//! both programs must agree: a pass that has folded, bypassed or rewritten through a mark has lost
//! what the other one computes there.

use crate::Failure;
use tapeloom_ir::{FuncId, Module, Op, Problem, Scalar, Type, rebuild};

/// The function with another function of the operand in place of every mark, also in what it calls.
///
/// # Errors
/// None that a well-formed module can cause.
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
