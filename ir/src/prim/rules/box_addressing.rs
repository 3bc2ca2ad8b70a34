//! Boxes: parts of an array that start at computed indices, for `dynamic_slice` and
//! `dynamic_update_slice`.

use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::{
    Bounds, Broadcast, Combine, Concatenate, Convert, Gather, Iota, Operand, Permute, Scalar,
    Scatter,
};
use crate::tensor::Tensor;

/// Checks that `starts` has one integer scalar per axis of `x`.
pub(crate) fn check_starts(name: &str, x: &ArrayType, starts: &[Operand<'_>]) -> Result<()> {
    if starts.len() != x.shape.len() {
        let (want, got) = (x.shape.len(), starts.len());
        return Err(Problem::new(
            Kind::Arguments,
            format!("`{name}` of {x} needs {want} starts, found {got}"),
            "give one start per axis",
        ));
    }
    let bad = |t: &Type| !t.as_array().is_some_and(|a| a.shape.is_empty() && a.dtype.is_integer());
    if let Some((axis, start)) = starts.iter().enumerate().find(|(_, s)| bad(s.ty)) {
        return Err(Problem::new(
            Kind::Dtype,
            format!("`{name}`: the start along axis {axis} is {}", start.ty),
            "starts are integer scalars",
        ));
    }
    Ok(())
}

/// Checks that a box (a range of indices along each axis) of extents `sizes` fits into `x`: equal rank, and no extent
/// larger than that of `x`.
pub(crate) fn check_fits(name: &str, x: &ArrayType, sizes: &[usize]) -> Result<()> {
    if sizes.len() == x.shape.len() && sizes.iter().zip(x.shape.iter()).all(|(s, n)| s <= n) {
        return Ok(());
    }
    Err(Problem::new(
        Kind::Shape,
        format!("`{name}`: a box of extents {sizes:?} does not fit into {x}"),
        "the box has the array's rank, and along no axis more than the array's extent",
    ))
}

/// Returns the start of a box of extents `sizes` along each axis, clamped so that the box lies within
/// an array of extents `x`.
pub(crate) fn clamped(x: &[usize], sizes: &[usize], starts: &[Tensor]) -> Vec<usize> {
    let start = |((n, size), start): ((&usize, &usize), &Tensor)| {
        let start = start.at(0).to_i128();
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX);
        start.min(n - size)
    };
    x.iter().zip(sizes).zip(starts).map(start).collect()
}

/// One box of an array per batch member, as the indices of a `gather` or `scatter`.
///
/// Axes along which the box has the array's extent need no index. Along each other axis, all indices are listed, from
/// the clamped start on.
pub(crate) struct Boxes {
    /// The indexed axes of the array, numbered without the batch axis.
    axes: Vec<usize>,
    /// The indices of the box's elements along the indexed axes, an i64 array of shape `[batch, extents of the box
    /// along the axes.., number of axes]`.
    indices: Atom,
    /// The permutation of axes from (batch, indexed axes, other axes) to the order of the array.
    order: Permute,
}

impl Boxes {
    /// Creates the boxes of extents `sizes` in arrays of extents `x`; `None` if each box is the whole
    /// array.
    pub(crate) fn new(
        b: &Builder<'_>,
        batch: usize,
        x: &[usize],
        sizes: &[usize],
        starts: &[Atom],
        batched: &[bool],
    ) -> Option<Boxes> {
        let (axes, others): (Vec<usize>, Vec<usize>) =
            (0..x.len()).partition(|axis| sizes[*axis] < x[*axis]);
        let extents = [batch].into_iter().chain(axes.iter().map(|a| sizes[*a])).chain([1]);
        let shape: Shape = extents.collect();
        let index = |(at, axis): (usize, &usize)| {
            let start = clamp(b, starts[*axis], x[*axis] - sizes[*axis]);
            let dims = if batched[*axis] { vec![0] } else { vec![] };
            let start = b.emit1(Broadcast { shape: shape.clone(), dims }, &[start]);
            let offset = Iota { shape: shape.clone(), axis: at + 1, dtype: Dtype::I64 };
            b.emit1(Scalar::Add, &[start, b.emit1(offset, &[])])
        };
        let columns: Vec<Atom> = axes.iter().enumerate().map(index).collect();
        let indices = match columns.as_slice() {
            [] => return None,
            [one] => *one,
            all => b.emit1(Concatenate { axis: shape.len() - 1 }, all),
        };
        let grouped = [0].into_iter().chain(axes.iter().chain(&others).map(|a| a + 1));
        let order = Permute { permutation: grouped.collect() }.inverse();
        Some(Boxes { axes, indices, order })
    }

    /// Emits the boxes, one per batch member, read from one array `x` or (if `batched`) from one array
    /// per member.
    pub(crate) fn read(&self, b: &Builder<'_>, x: Atom, batched: bool) -> Atom {
        let bounds = Bounds::Clip;
        let gather = Gather { batch: usize::from(batched), axes: self.axes_of(batched), bounds };
        self.order.apply(b, b.emit1(gather, &[x, self.indices]))
    }

    /// Emits the arrays `x`, one per batch member, with `updates` written into their boxes.
    pub(crate) fn write(&self, b: &Builder<'_>, x: Atom, updates: Atom) -> Atom {
        let updates = self.order.inverse().apply(b, updates);
        let bounds = Bounds::Clip;
        let scatter = Scatter { combine: Combine::Set, batch: 1, axes: self.axes_of(true), bounds };
        b.emit1(scatter, &[x, self.indices, updates])
    }

    /// Returns the positions of the indexed axes in the array. If `batched`, axis 0 of the array is the batch axis.
    fn axes_of(&self, batched: bool) -> Vec<usize> {
        self.axes.iter().map(|a| a + usize::from(batched)).collect()
    }
}

/// Emits `clamp(start, 0, last)` as i64, for a start of any integer dtype.
fn clamp(b: &Builder<'_>, start: Atom, last: usize) -> Atom {
    let dtype = b.dtype_of(start);
    let mut start = b.emit1(Scalar::Max, &[start, Literal::zero(dtype).into()]);
    // If `start`'s dtype cannot represent `last`, no value of that dtype exceeds `last`, so no minimum
    // is needed.
    if let Some(last) = Literal::exact_integer(dtype, last as i128) {
        start = b.emit1(Scalar::Min, &[start, last.into()]);
    }
    match dtype {
        Dtype::I64 => start,
        _ => b.emit1(Convert { to: Dtype::I64 }, &[start]),
    }
}

/// Returns the operands of the batched primitive if all members share their starts: a start of 0 is
/// inserted for the batch axis, along which the box has the array's extent.
pub(crate) fn with_first_start(arrays: &[Atom], starts: &[Atom]) -> Vec<Atom> {
    let zero = Atom::Literal(Literal::i64(0));
    arrays.iter().copied().chain([zero]).chain(starts.iter().copied()).collect()
}
