//! Writes scatters, which combine windows with an array at computed positions.
//!
//! If several updates overwrite one position, the last of them must remain; StableHLO leaves open which one remains. So
//! all updates of a position except the last are dropped: first the numbers of the updates are scattered with `max`.
//! Then each update whose number is not the one at its position is moved to a position outside of the array, where
//! StableHLO ignores it.

use super::gather::{self, Addressing};
use super::types::list;
use super::writer::{Value, Writer};
use super::{codes, reduce, sharding};
use tapeloom_ir::prim::{Bounds, Combine};
use tapeloom_ir::{ArrayType, Code, Dtype, Literal, Problem, Shape};

/// Appends the scatter of updates into `x`. Returns the result.
pub(super) fn scatter(
    w: &mut Writer,
    combine: Combine,
    of: &Addressing<'_>,
    [x, indices, updates]: [&Value; 3],
) -> Result<Value, Problem> {
    if x.ty.shape.elements() == 0 || updates.ty.shape.elements() == 0 {
        return Ok(x.clone());
    }
    let places = indices.ty.shape.len() - 1;
    if of.axes.is_empty() {
        return onto_all(w, combine, of.batch..places, x, updates);
    }
    let (inside, mask) = of.inside(w, &x.ty.shape, indices);
    let count: usize = indices.ty.shape[of.batch..places].iter().product();
    let kept = match combine {
        Combine::Set if count > 1 => {
            let last = last_writes(w, of, x, &inside, mask.as_ref())?;
            Some(match mask {
                Some(mask) => w.same("stablehlo.and", &[&mask, &last]),
                None => last,
            })
        }
        Combine::Set | Combine::Add | Combine::Mul | Combine::Max | Combine::Min => mask,
    };
    let inside = match kept {
        Some(mask) => outside_unless(w, &inside, &mask),
        None => inside,
    };
    apply(w, combine.code(), of, [x, &inside, updates])
}

/// Appends a scatter without indexed axes, in which each update is combined with the whole array. Returns the result.
/// `places` are the axes of `updates` along which the updates are numbered.
fn onto_all(
    w: &mut Writer,
    combine: Combine,
    places: std::ops::Range<usize>,
    x: &Value,
    updates: &Value,
) -> Result<Value, Problem> {
    let Some(code) = combine.code() else {
        let last = |(axis, n): (usize, &usize)| match places.contains(&axis) {
            true => (n - 1, *n, 1),
            false => (0, *n, 1),
        };
        let ranges: Vec<(usize, usize, usize)> =
            updates.ty.shape.iter().enumerate().map(last).collect();
        let update = w.slice(updates, &ranges);
        return Ok(w.reshape(&update, x.ty.shape.clone()));
    };
    let axes: Vec<usize> = places.collect();
    let neutral = code.neutral(x.ty.dtype);
    let neutral =
        neutral.ok_or_else(|| Problem::internal("a scatter combines by a code that is no fold"))?;
    let all = reduce::reduce(w, code, neutral, &axes, updates)?;
    codes::emit(w, code, &[x.clone(), all], false)
}

/// Returns the indices, with -1 at the positions for which `mask` is false.
fn outside_unless(w: &mut Writer, indices: &Value, mask: &Value) -> Value {
    let axes: Vec<usize> = (0..mask.ty.shape.len()).collect();
    let mask = w.broadcast(mask, &axes, &indices.ty.shape);
    let outside = w.number(-1.0, indices);
    w.select(&mask, indices, &outside)
}

/// Returns, for each position `[B.., I..]` (batch axes, other axes of the indices), whether its update is the last one
/// to its element, so that its value remains in the result.
fn last_writes(
    w: &mut Writer,
    of: &Addressing<'_>,
    x: &Value,
    indices: &Value,
    mask: Option<&Value>,
) -> Result<Value, Problem> {
    let last = indices.ty.shape.len() - 1;
    // Number the updates of each batch member.
    let shape = indices.ty.shape.without(&[last]);
    let own: Shape = shape[of.batch..].iter().copied().collect();
    let count = own.elements();
    let numbers = w.iota(ArrayType::new(Dtype::I64, [count]), 0);
    let numbers = w.reshape(&numbers, own);
    let numbers = w.broadcast(&numbers, &(of.batch..last).collect::<Vec<_>>(), &shape);
    // The array of the numbers of the last updates has the batch axes and the indexed axes of x, because each window is
    // overwritten as a whole.
    let extents = (0..of.batch).chain(of.axes.iter().copied()).map(|axis| x.ty.shape[axis]);
    let none = w.constant(Literal::i64(-1), &extents.collect());
    let axes: Vec<usize> = (of.batch..of.batch + of.axes.len()).collect();
    let places = Addressing { batch: of.batch, axes: &axes, bounds: Bounds::Clip };
    let written = match mask {
        Some(mask) => outside_unless(w, indices, mask),
        None => indices.clone(),
    };
    let winners = apply(w, Some(Code::Max), &places, [&none, &written, &numbers])?;
    let winner = gather::gather(w, &places, &winners, indices, &numbers.ty);
    Ok(w.compare("EQ", &winner, &numbers))
}

/// Appends the scatter at indices of dtype i64, and returns the result. Updates at indices outside the array are
/// dropped. Without a code, updates overwrite elements; then no two of them may have the same position.
fn apply(
    w: &mut Writer,
    code: Option<Code>,
    of: &Addressing<'_>,
    [x, indices, updates]: [&Value; 3],
) -> Result<Value, Problem> {
    let places = indices.ty.shape.len() - 1;
    let batch: Vec<usize> = (0..of.batch).collect();
    let numbers = format!(
        "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, input_batching_dims = {batch:?}, scatter_indices_batching_dims = {batch:?}, scatter_dims_to_operand_dims = {}, index_vector_dim = {places}>",
        list(places..updates.ty.shape.len()),
        list(of.axes),
        list(of.axes),
    );
    let unique = code.is_none();
    let operands = [x.clone(), sharding::whole_positions(w, indices), updates.clone()];
    let open = w.open("stablehlo.scatter", &operands, vec![x.ty.clone()]);
    let scalar = ArrayType::new(x.ty.dtype, Shape::scalar());
    let pair = w.block(&[scalar.clone(), scalar]);
    let y = match code {
        Some(code) => codes::emit(w, code, &pair, false)?,
        None => pair[1].clone(),
    };
    w.returns(&[y]);
    let attributes = format!(
        "{{scatter_dimension_numbers = {numbers}, indices_are_sorted = false, unique_indices = {unique}}}"
    );
    Ok(w.close(open, &attributes).remove(0))
}
