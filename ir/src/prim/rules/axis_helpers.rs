//! Operations along an axis: rows, and arrays whose elements are computed one after the other.

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

/// Emits `x` shifted by one along the axis: each element's predecessor, and `first` for the first element.
pub(crate) fn before(b: &Builder<'_>, x: Atom, axis: usize, reverse: bool, first: Literal) -> Atom {
    let rank = b.shape_of(x).len();
    let mut pad = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
    let by = if reverse { -1 } else { 1 };
    (pad.low[axis], pad.high[axis]) = (by, -by);
    b.emit1(pad, &[x, first.into()])
}

/// Returns, for every row along an axis, the row-major positions of its elements in order.
pub(crate) fn rows(ty: &ArrayType, axis: usize) -> impl Iterator<Item = Vec<usize>> {
    let (n, inner) = (ty.shape[axis], ty.shape.strides()[axis]);
    // An array without elements has no rows, whatever its other extents are.
    let rows = ty.shape.elements().checked_div(n).unwrap_or(0);
    (0..rows).map(move |row| {
        let start = row / inner * inner * n + row % inner;
        (0..n).map(|i| start + i * inner).collect()
    })
}

/// Returns an array of type `ty` whose elements are computed one after the other along an axis, each from its
/// position and the element before it.
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
