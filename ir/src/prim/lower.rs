//! Lowerings: what a backend has to do, in about ten target-neutral shapes.
//!
//! A backend never sees a primitive. It matches on [`Lowering`], which says in terms of loops and
//! indices what the primitive means: apply scalar code, read elsewhere, reduce, contract, ...

use super::{Bounds, Code, Combine};
use crate::function::FuncId;
use crate::literal::Literal;

/// What to do for an equation with one output (or, for a call, many).
#[derive(Clone, Debug)]
pub enum Lowering {
    /// `y[i] = code(x0[i], x1[i], ..)`; literals and only literals are without shape.
    Elementwise(Code),
    /// `y[i]` is an element of one of the operands, found by index arithmetic: broadcast, permute,
    /// slice, rev, pad, concatenate. The first piece that contains `i` gives the element; where none
    /// does, the scalar operand `fill` is taken.
    View {
        /// Where elements come from.
        pieces: Vec<Piece>,
        /// The operand (a scalar) for all other elements.
        fill: Option<usize>,
    },
    /// The same elements in row-major order under another shape.
    Reshape,
    /// The operand itself.
    Alias,
    /// `y[i]` is the index along `axis`, in the output's dtype.
    Iota {
        /// The axis counted along.
        axis: usize,
    },
    /// `y[kept] = fold(code, identity, x[kept, axes])`, in row-major order of the operand.
    Reduce {
        /// The combining operation, associative and commutative in exact arithmetic.
        code: Code,
        /// What an empty reduction gives.
        identity: Literal,
        /// Axes folded, ascending.
        axes: Vec<usize>,
    },
    /// Index (i64) of the first extremum along `axis`; nan counts as extreme.
    ArgReduce {
        /// The axis searched.
        axis: usize,
        /// Maximum or minimum.
        largest: bool,
    },
    /// `y[batch, m, n] = sum_k x0[batch, m, k] x1[batch, k, n]`; pairs are (axis of x0, axis of x1).
    Contract {
        /// Axes shared and kept.
        batch: Vec<(usize, usize)>,
        /// Axes shared and summed.
        contract: Vec<(usize, usize)>,
    },
    /// `y[i] = x0[start + i]`; operands after the first are the scalar starts, clamped to fit.
    DynamicSlice,
    /// `y = x0` with `x1` written at `start`; operands after the second are the scalar starts,
    /// clamped to fit.
    DynamicUpdateSlice,
    /// See [`super::Gather`]: operands (array, indices).
    Gather {
        /// Leading axes shared by array and indices.
        batch: usize,
        /// Axes of the array that the last axis of the indices addresses.
        axes: Vec<usize>,
        /// Out-of-range indices.
        bounds: Bounds,
    },
    /// See [`super::Scatter`]: operands (array, indices, updates), combined in row-major order of
    /// the updates.
    Scatter {
        /// How an update meets what is there.
        combine: Combine,
        /// Leading axes shared by array, indices and updates.
        batch: usize,
        /// Axes of the array that the last axis of the indices addresses.
        axes: Vec<usize>,
        /// Out-of-range indices.
        bounds: Bounds,
    },
    /// Run that function on the operands.
    Call(FuncId),
}

/// One source of a view: an operand and, for each of its axes, which index is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The operand.
    pub operand: usize,
    /// One map per axis of the operand.
    pub axes: Vec<AxisMap>,
}

/// The index along one axis of the operand as a function of the output's index `o`:
/// `(o[axis] * scale + offset) / divisor`. The element belongs to the piece only where the division
/// is exact and the index is within the operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisMap {
    /// Output axis; `None` means `o = 0`.
    pub axis: Option<usize>,
    /// Factor (negative for a reversed axis).
    pub scale: i64,
    /// Offset.
    pub offset: i64,
    /// Divisor, at least 1.
    pub divisor: i64,
}

impl AxisMap {
    /// The operand's index is the output's index along `axis`.
    pub fn same(axis: usize) -> AxisMap {
        AxisMap { axis: Some(axis), scale: 1, offset: 0, divisor: 1 }
    }
    /// The operand's index is always 0.
    pub fn zero() -> AxisMap {
        AxisMap { axis: None, scale: 0, offset: 0, divisor: 1 }
    }
    /// The operand's index for an output index, if it lies in `0..extent`.
    pub fn apply(&self, output: &[usize], extent: usize) -> Option<usize> {
        let o = self.axis.map_or(0, |a| output[a] as i64);
        let n = o * self.scale + self.offset;
        if n.rem_euclid(self.divisor) != 0 {
            return None;
        }
        usize::try_from(n.div_euclid(self.divisor)).ok().filter(|i| *i < extent)
    }
}

/// The meaning of [`Lowering::View`] on concrete operands.
pub(crate) fn eval_view(
    operands: &[crate::tensor::Tensor],
    pieces: &[Piece],
    fill: Option<usize>,
    shape: &crate::types::Shape,
) -> crate::tensor::Tensor {
    use crate::types::ArrayType;
    let dtype = pieces
        .first()
        .map(|p| p.operand)
        .or(fill)
        .map_or(crate::types::Dtype::Bool, |i| operands[i].dtype());
    let mut y = crate::tensor::Tensor::zeros(&ArrayType::new(dtype, shape.clone()));
    let strides: Vec<_> = operands.iter().map(|t| t.ty().shape.strides()).collect();
    let mut index = vec![0usize; shape.len()];
    for flat in 0..y.elements() {
        let found = pieces.iter().find_map(|piece| {
            let x = &operands[piece.operand];
            let mut at = 0;
            for (axis, map) in piece.axes.iter().enumerate() {
                at += map.apply(&index, x.shape()[axis])? * strides[piece.operand][axis];
            }
            Some(x.get(at))
        });
        let value = found.or(fill.map(|f| operands[f].get(0)));
        y.set(flat, value.unwrap_or(Literal::zero(dtype)));
        step(&mut index, shape);
    }
    y
}

/// Advances a row-major index; wraps to zero at the end.
pub(crate) fn step(index: &mut [usize], shape: &[usize]) {
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return;
        }
        index[axis] = 0;
    }
}
