//! Helpers for primitives along an axis: the rows of an array, and arrays computed element after
//! element.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::ArrayType;
use crate::prim::Pad;
use crate::tensor::Tensor;

/// Checks that `axis` is an axis of `x`, the operand of the primitive `name`; returns the type of `x`.
pub(crate) fn along(name: &str, axis: usize, x: &ArrayType) -> Result<ArrayType> {
    if axis < x.shape.len() {
        return Ok(x.clone());
    }
    Err(Problem::new(
        Kind::Shape,
        format!("`{name}` along axis {axis} of {x}"),
        "the axis is smaller than the rank",
    ))
}

/// Emits `x` shifted by one along `axis`: each element is replaced by its predecessor (its successor
/// with `reverse`), and the first (last) one by `first`.
pub(crate) fn before(b: &Builder<'_>, x: Atom, axis: usize, reverse: bool, first: Literal) -> Atom {
    let rank = b.shape_of(x).len();
    let mut pad = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
    let by = if reverse { -1 } else { 1 };
    (pad.low[axis], pad.high[axis]) = (by, -by);
    b.emit1(pad, &[x, first.into()])
}

/// Returns, for every row of an array along `axis`, the row-major positions of the row's elements in
/// ascending order.
pub(crate) fn rows(ty: &ArrayType, axis: usize) -> impl Iterator<Item = Vec<usize>> {
    let (n, inner) = (ty.shape[axis], ty.shape.strides()[axis]);
    // An array without elements has no rows, even if `n` is 0 and the other extents are large.
    let rows = ty.shape.elements().checked_div(n).unwrap_or(0);
    (0..rows).map(move |row| {
        let start = row / inner * inner * n + row % inner;
        (0..n).map(|i| start + i * inner).collect()
    })
}

/// Returns an array of type `ty` whose elements `next` computes one after the other along `axis` (from the end with
/// `reverse`). For each element, `next` gets its row-major position and the preceding element of its row.
pub(crate) fn walk(
    ty: &ArrayType,
    axis: usize,
    reverse: bool,
    mut next: impl FnMut(usize, Option<Literal>) -> Literal,
) -> Result<Tensor> {
    let mut y = Tensor::zeros_of(ty)?;
    for mut row in rows(ty, axis) {
        if reverse {
            row.reverse();
        }
        let mut last = None;
        for at in row {
            let value = next(at, last);
            y.put(at, value);
            last = Some(value);
        }
    }
    Ok(y)
}
