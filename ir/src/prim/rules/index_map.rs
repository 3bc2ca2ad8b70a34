//! Addressing of gather and scatter: the positions in an array that their integer indices denote.
//!
//! The operands are an array `[B.., D..]` and integer indices `[B.., I.., n]`. The first `batch` axes `B` belong to
//! both. The last axis of the indices holds one index for each of the `n` axes of the array that `axes` lists. The
//! remaining axes of the array at that position form the *window* that is read or written.

use super::slice_access::Start;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Shape, Type};
use crate::prim::syntax::Word;
use crate::tensor::Tensor;

/// The treatment of an index outside the array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Bounds {
    /// The index is clamped to the nearest one inside the array.
    Clip,
    /// A read at an index outside the array gives zero; a write there is dropped.
    Drop,
}

impl Word for Bounds {
    const ALL: &'static [Bounds] = &[Bounds::Clip, Bounds::Drop];

    fn word(self) -> &'static str {
        match self {
            Bounds::Clip => "clip",
            Bounds::Drop => "drop",
        }
    }
}

/// The attributes that gather and scatter share: they map indices to positions in the array.
#[derive(Clone, Copy)]
pub(crate) struct Addressing<'a> {
    pub(crate) batch: usize,
    pub(crate) axes: &'a [usize],
    pub(crate) bounds: Bounds,
}

impl Addressing<'_> {
    /// If the indices denote a single position, returns the start of its window along each axis of the
    /// array, and the window's size along each axis; otherwise `None`.
    pub(crate) fn one_place(&self, operands: &[Type]) -> Option<(Vec<Start>, Vec<usize>)> {
        let shape = |i: usize| Some(&operands.get(i)?.as_array()?.shape);
        if self.batch != 0 || shape(1)?[..] != [self.axes.len()] {
            return None;
        }
        let mut sizes = shape(0)?.to_vec();
        let mut starts = vec![Start::Number(0); sizes.len()];
        for (component, axis) in self.axes.iter().enumerate() {
            (starts[*axis], sizes[*axis]) = (Start::Given { operand: 1, component }, 1);
        }
        Some((starts, sizes))
    }

    /// Returns the shape `[B.., I.., remaining D..]` of all windows together, or the error in the
    /// operands.
    pub(crate) fn windows(
        &self,
        name: &str,
        array: &ArrayType,
        indices: &ArrayType,
    ) -> Result<Shape> {
        let shape = |message: String, help: &str| Err(Problem::new(Kind::Shape, message, help));
        if !indices.dtype.is_integer() {
            return Err(Problem::new(
                Kind::Dtype,
                format!("`{name}` needs integer indices, got {indices}"),
                "convert the indices to i64",
            ));
        }
        let (batch, n) = (self.batch, self.axes.len());
        let ascending = self.axes.windows(2).all(|w| w[0] < w[1]);
        if !ascending || self.axes.iter().any(|a| *a < batch || *a >= array.shape.len()) {
            return shape(
                format!(
                    "`{name}` indexes axes {:?} of {array} after {batch} batch axes",
                    self.axes
                ),
                "indexed axes are ascending, within the rank, and follow the batch axes",
            );
        }
        if indices.shape.len() <= batch || indices.shape.last() != Some(&n) {
            return shape(
                format!(
                    "`{name}` with {batch} batch axes and {n} indexed axes cannot use indices {indices}"
                ),
                "the last axis of the indices holds one index per indexed axis",
            );
        }
        if array.shape.len() < batch || array.shape[..batch] != indices.shape[..batch] {
            return shape(
                format!("`{name}` of {array} at {indices}: the {batch} batch axes differ"),
                "the leading batch axes have equal extents",
            );
        }
        let places = Shape::from(&indices.shape[..indices.shape.len() - 1]);
        let nowhere = self.axes.iter().any(|a| array.shape[*a] == 0);
        if self.bounds == Bounds::Clip && nowhere && !places.contains(&0) {
            return shape(
                format!("`{name}` clips indices into {array}, which has no element to clip to"),
                "index an axis that is not empty, or use the bounds `drop`",
            );
        }
        let kept = (batch..array.shape.len()).filter(|a| !self.axes.contains(a));
        Ok(places.iter().copied().chain(kept.map(|a| array.shape[a])).collect())
    }

    /// Returns, for concrete indices, the row-major position in the array at which each window starts, and the
    /// positions of a window's elements relative to its start. The position is `None` if the index is out of range and
    /// dropped.
    pub(crate) fn places(
        &self,
        array: &[usize],
        indices: &Tensor,
    ) -> (Vec<Option<usize>>, Vec<usize>) {
        let strides = Shape::from(array).strides();
        let n = self.axes.len();
        let outer = &indices.shape()[..indices.shape().len() - 1];
        let mut at = vec![0; outer.len()];
        let mut starts = Vec::new();
        for place in 0..Shape::from(outer).elements() {
            let mut start: Option<usize> = Some((0..self.batch).map(|b| at[b] * strides[b]).sum());
            for (j, axis) in self.axes.iter().enumerate() {
                let index = self.within(indices.at(place * n + j).to_i128(), array[*axis]);
                start = start.zip(index).map(|(s, i)| s + i * strides[*axis]);
            }
            starts.push(start);
            crate::tensor::step_index(&mut at, outer);
        }
        let kept: Vec<usize> =
            (self.batch..array.len()).filter(|a| !self.axes.contains(a)).collect();
        let window: Shape = kept.iter().map(|a| array[*a]).collect();
        let mut at = vec![0; kept.len()];
        let mut offsets = Vec::new();
        for _ in 0..window.elements() {
            offsets.push(at.iter().zip(&kept).map(|(i, a)| i * strides[*a]).sum());
            crate::tensor::step_index(&mut at, &window);
        }
        (starts, offsets)
    }

    /// Returns the position along an axis of this extent that `index` denotes after clamping; `None` if
    /// the index is outside and dropped.
    fn within(&self, index: i128, extent: usize) -> Option<usize> {
        match self.bounds {
            Bounds::Drop => usize::try_from(index).ok().filter(|i| *i < extent),
            Bounds::Clip => usize::try_from(index.clamp(0, extent as i128 - 1)).ok(),
        }
    }
}
