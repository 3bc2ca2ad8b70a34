//! Scans, of which StableHLO has none.
//!
//! A fold, and every recurrence whose steps compose exactly, takes `⌈log₂ n⌉` rounds on whole arrays (Hillis and Steele,
//! *Data parallel algorithms*, 1986). In round k, each element is combined with the one `d = 2ᵏ` before it, so that it then
//! covers 2d elements:
//!
//! ```text
//! y[i] = y[i - d] ∘ y[i]    for i ≥ d
//! ```
//!
//! The steps of a recurrence on floats are not composed: the product of many factors may overflow where no element of the
//! result does. There a `while` computes one element after the other.

use super::codes;
use super::writer::{Value, Writer};
use tapeloom_ir::prim::Step;
use tapeloom_ir::{Code, Problem, Shape};

/// Appends a scan along `axis`.
pub(super) fn scan(
    w: &mut Writer,
    axis: usize,
    reverse: bool,
    step: Step,
    x: &[Value],
) -> Result<Value, Problem> {
    let last = &x[x.len() - 1];
    if last.ty.shape[axis] < 2 || last.ty.shape.elements() == 0 {
        return Ok(last.clone());
    }
    let turned =
        |w: &mut Writer, x: &Value| if reverse { w.reverse(x, &[axis]) } else { x.clone() };
    let x: Vec<Value> = x.iter().map(|x| turned(w, x)).collect();
    let y = match (step, x.as_slice()) {
        (Step::Fold(code), [x]) => rounds(w, axis, [x.clone()], |w, [before], [own]| {
            Ok([codes::emit(w, code, &[before, own], false)?])
        })?[0]
            .clone(),
        (Step::Segments, [goes_on, x]) => {
            let start = [goes_on.clone(), x.clone()];
            rounds(w, axis, start, |w, [goes_on_before, before], [goes_on, own]| {
                let sum = w.same("stablehlo.add", &[&before, &own]);
                let sum = w.select(&goes_on, &sum, &own);
                Ok([w.same("stablehlo.and", &[&goes_on_before, &goes_on]), sum])
            })?[1]
                .clone()
        }
        (Step::Affine, [a, x]) if !x.ty.dtype.is_float() => {
            rounds(w, axis, [a.clone(), x.clone()], |w, [a_before, before], [a, own]| {
                let handed_on = codes::emit(w, Code::Mul, &[a.clone(), before], false)?;
                let sum = codes::emit(w, Code::Add, &[handed_on, own], false)?;
                Ok([codes::emit(w, Code::Mul, &[a, a_before], false)?, sum])
            })?[1]
                .clone()
        }
        (Step::Affine, [a, x]) => one_by_one(w, axis, a, x),
        (Step::Fold(_) | Step::Segments | Step::Affine, _) => {
            return Err(Problem::internal("a scan has other operands than its step"));
        }
    };
    Ok(turned(w, &y))
}

/// Appends the rounds of a scan; `combine` gets the arrays of elements before, and those of the elements themselves.
fn rounds<const N: usize>(
    w: &mut Writer,
    axis: usize,
    mut y: [Value; N],
    mut combine: impl FnMut(&mut Writer, [Value; N], [Value; N]) -> Result<[Value; N], Problem>,
) -> Result<[Value; N], Problem> {
    let n = y[0].ty.shape[axis];
    let mut distance = 1;
    while distance < n {
        let rest = n - distance;
        let first = y.each_ref().map(|y| w.part(y, axis, 0, distance));
        let before = y.each_ref().map(|y| w.part(y, axis, 0, rest));
        let own = y.each_ref().map(|y| w.part(y, axis, distance, rest));
        let combined = combine(w, before, own)?;
        let joined = first.iter().zip(&combined);
        let joined: Vec<Value> = joined.map(|(a, b)| w.concatenate(&[a, b], axis)).collect();
        y = joined.try_into().unwrap_or(combined);
        distance *= 2;
    }
    Ok(y)
}

/// Appends `y[i] = a[i] y[i - 1] + x[i]` along `axis`, one element after the other.
fn one_by_one(w: &mut Writer, axis: usize, a: &Value, x: &Value) -> Value {
    let n = x.ty.shape[axis];
    let first = w.part(x, axis, 0, 1);
    let start = w.index(1);
    let state = [start, first, x.clone(), a.clone(), x.clone()];
    let types = state.each_ref().map(|x| x.ty.clone());
    let open = w.open("stablehlo.while", &state, types.to_vec());
    let block = w.block(&types);
    let end = w.index(n);
    let goes_on = w.compare("LT", &block[0], &end);
    w.returns(&[goes_on]);
    let block = w.next_block(&types);
    let [i, before, y, a, x] = [0, 1, 2, 3, 4].map(|k| block[k].clone());
    let zero = w.index(0);
    let starts: Vec<&Value> =
        (0..x.ty.shape.len()).map(|k| if k == axis { &i } else { &zero }).collect();
    let sizes: Shape = super::types::with_extent(&x.ty.shape, axis, 1);
    let [factor, own] = [&a, &x].map(|of| w.dynamic_slice(of, &starts, &sizes));
    let handed_on = w.same("stablehlo.multiply", &[&factor, &before]);
    let element = w.same("stablehlo.add", &[&handed_on, &own]);
    let y = w.dynamic_update(&y, &element, &starts);
    let one = w.index(1);
    let next = w.same("stablehlo.add", &[&i, &one]);
    w.returns(&[next, element, y, a, x]);
    w.close(open, "").remove(2)
}
