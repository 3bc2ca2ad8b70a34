//! Inlining of library functions (such as `exp`) from their recordings: lists of the operations that compute them.

use super::form::{Binary, Lane, Logic, Order, Reg, Ty, Unary};
use super::select::Select;
use tapeloom_ir::Dtype;
use tapeloom_ir::math::{Noted, Operation, Recording};
use tapeloom_ir::prim::Library;

/// Emits the recorded operations of a library function. Returns the result, and the mask of elements for which the
/// result is valid (`None`: for all). Returns nothing if the function has no recording.
pub(super) fn inline_recording(
    s: &mut Select<'_>,
    library: Library,
    dtype: Dtype,
    ty: Ty,
    x: &[Reg],
) -> Option<(Reg, Option<Reg>)> {
    let recording = library.recording(dtype)?;
    let always = matches!(at(recording, recording.inside), Operation::Always(true));
    // The integer type of the floats' width, for operations on their bits.
    let bits = Ty { lane: if ty.lane == Lane::F32 { Lane::I32 } else { Lane::I64 }, n: ty.n };
    let mut made: Vec<Reg> = Vec::with_capacity(recording.list.len());
    for (operation, extreme) in recording.list.iter().zip(extremes(recording)) {
        let of = |n: Noted| made[n.0 as usize];
        let reg = match (*operation, extreme) {
            (Operation::Pick(_, x, y), Some(op)) => s.binary(op, ty, of(x), of(y)),
            // No instruction reads this comparison, so any register stands for it.
            (Operation::Lt(x, _), Some(_)) => of(x),
            (operation, _) => one(s, operation, ty, bits, x, &of),
        };
        made.push(reg);
    }
    let of = |n: Noted| made[n.0 as usize];
    Some((of(recording.result), (!always).then(|| of(recording.inside))))
}

/// Emits one recorded operation on the registers that `of` returns for its operands.
fn one(
    s: &mut Select<'_>,
    operation: Operation,
    ty: Ty,
    bits: Ty,
    x: &[Reg],
    of: &dyn Fn(Noted) -> Reg,
) -> Reg {
    match operation {
        Operation::Argument(i) => x[usize::from(i)],
        Operation::Constant(value) => s.constant(ty.lane, value),
        Operation::Add(x, y) => s.binary(Binary::Add, ty, of(x), of(y)),
        Operation::Sub(x, y) => s.binary(Binary::Sub, ty, of(x), of(y)),
        Operation::Mul(x, y) => s.binary(Binary::Mul, ty, of(x), of(y)),
        Operation::Div(x, y) => s.binary(Binary::Div, ty, of(x), of(y)),
        Operation::Fma(x, y, z) => s.fma(ty, of(x), of(y), of(z)),
        Operation::Sqrt(x) => s.unary(Unary::Sqrt, ty, of(x)),
        Operation::Lt(x, y) => s.compare(Order::Lt, true, ty, of(x), of(y)),
        Operation::Le(x, y) => s.compare(Order::Le, true, ty, of(x), of(y)),
        Operation::Eq(x, y) => s.compare(Order::Eq, true, ty, of(x), of(y)),
        Operation::Always(holds) => s.all(holds),
        Operation::Both(x, y) => s.logic(Logic::And, of(x), of(y)),
        Operation::Either(x, y) => s.logic(Logic::Or, of(x), of(y)),
        Operation::Not(x) => s.not(of(x)),
        Operation::Pick(mask, x, y) => s.pick(ty, of(mask), of(x), of(y)),
        Operation::PlusBits(x, y) => s.binary(Binary::Add, bits, of(x), of(y)),
        Operation::And(x, y) => s.binary(Binary::And, bits, of(x), of(y)),
        Operation::Or(x, y) => s.binary(Binary::Or, bits, of(x), of(y)),
        Operation::Xor(x, y) => s.binary(Binary::Xor, bits, of(x), of(y)),
        Operation::ShiftLeft(x, by) => s.unary(Unary::ShiftLeft(by as u8), bits, of(x)),
        Operation::ShiftRight(x, by) => s.unary(Unary::ShiftRight(by as u8), bits, of(x)),
    }
}

/// Returns, for each pick `x < y ? x : y` or `x < y ? y : x`, the instruction that compares and picks, and for a comparison
/// that is only used by such picks, any of these instructions. Other operations have `None`.
fn extremes(recording: &Recording) -> Vec<Option<Binary>> {
    let of_pick = |operation: &Operation| match *operation {
        Operation::Pick(mask, first, second) => match at(recording, mask) {
            Operation::Lt(x, y) if (x, y) == (first, second) => Some(Binary::FirstIfLess),
            Operation::Lt(x, y) if (y, x) == (first, second) => Some(Binary::FirstIfGreater),
            _ => None,
        },
        _ => None,
    };
    let mut found: Vec<Option<Binary>> = recording.list.iter().map(of_pick).collect();
    for (place, operation) in recording.list.iter().enumerate() {
        let mask = Noted(place as u32);
        let reads = |operation: &Operation| match *operation {
            Operation::Both(x, y) | Operation::Either(x, y) => x == mask || y == mask,
            Operation::Not(x) | Operation::Pick(x, ..) => x == mask,
            _ => false,
        };
        let mut uses = recording.list.iter().zip(&found).filter(|(operation, _)| reads(operation));
        let is_read = recording.inside == mask || uses.any(|(_, op)| op.is_none());
        if matches!(operation, Operation::Lt(..)) && !is_read {
            found[place] = Some(Binary::FirstIfLess);
        }
    }
    found
}

fn at(recording: &Recording, place: Noted) -> Operation {
    recording.list[place.0 as usize]
}

#[cfg(test)]
mod tests {
    use super::{Binary, extremes};
    use tapeloom_ir::math::{Erf, Operation, Recording, Tanh};

    /// `erf` in f32 clamps its argument between two bounds, and `tanh` clamps from above.
    #[test]
    fn a_clamp_is_one_instruction_for_each_bound() {
        let picks = |recording: &Recording| -> Vec<Binary> {
            let all = recording.list.iter().zip(extremes(recording));
            all.filter(|(o, _)| matches!(o, Operation::Pick(..))).filter_map(|(_, op)| op).collect()
        };
        let erf = Recording::of::<Erf>(true);
        assert_eq!(picks(&erf), [Binary::FirstIfLess, Binary::FirstIfGreater]);
        assert_eq!(picks(&Recording::of::<Tanh>(false)), [Binary::FirstIfLess]);
    }
}
