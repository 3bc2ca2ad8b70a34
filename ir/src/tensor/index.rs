//! Reading and writing parts of a tensor.
//!
//! A part is a tensor of its own: its elements are copied.
//!
//! ```
//! use tapeloom_ir::Tensor;
//! let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
//! assert_eq!(t.get::<i32>(&[1, 0])?, 4);
//! assert_eq!(t.row(0)?, Tensor::from([1, 2, 3]));
//! assert_eq!(t.slice_axis(-1, 1..)?, Tensor::from([[2, 3], [5, 6]]));
//! let sums: Result<Vec<i32>, _> = t.rows().map(|r| Ok(r.iter::<i32>()?.sum())).collect();
//! assert_eq!(sums?, [6, 15]);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use super::convert::read;
use super::line::Line;
use super::row_major::step;
use super::{Buffer, Element, Tensor};
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem};
use crate::lang::types::{ArrayType, Dtype, Shape};
use std::ops::{Bound, Range, RangeBounds};

impl Tensor {
    /// Returns the element at `index`, which has one number per axis.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is no such element, [`Kind::Dtype`] when `T` is not the tensor's
    /// element type.
    ///
    /// ```
    /// use tapeloom_ir::{Kind, Tensor};
    /// let t = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(t.get::<f64>(&[1, 0])?, 3.0);
    /// assert_eq!(t.get::<f64>(&[0, 2]).unwrap_err().kind, Kind::Shape);
    /// assert_eq!(t.get::<f32>(&[0, 0]).unwrap_err().kind, Kind::Dtype);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn get<T: Element>(&self, index: &[usize]) -> Result<T, Problem> {
        self.expect_dtype(T::DTYPE)?;
        let position = self.position(index)?;
        Ok(T::load(self.stored::<T>()[position]))
    }

    /// Overwrites the element at `index`, which has one number per axis; first copies the buffer if another tensor
    /// shares it.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is no such element, [`Kind::Dtype`] when `T` is not the tensor's
    /// element type.
    ///
    /// ```
    /// use tapeloom_ir::{Kind, Tensor};
    /// let mut t = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let before = t.clone();
    /// t.set(&[0, 1], 9.0)?;
    /// assert_eq!(t, Tensor::from([[1.0, 9.0], [3.0, 4.0]]));
    /// assert_eq!(before.get::<f64>(&[0, 1])?, 2.0);
    /// assert_eq!(t.set(&[0, 1], 9).unwrap_err().kind, Kind::Dtype);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn set<T: Element>(&mut self, index: &[usize], x: T) -> Result<(), Problem> {
        self.expect_dtype(T::DTYPE)?;
        let position = self.position(index)?;
        self.stored_mut::<T>()[position] = x.store();
        Ok(())
    }

    /// Returns the element at a row-major position, as a literal, for any dtype.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is no such element.
    pub fn literal(&self, position: usize) -> Result<Literal, Problem> {
        if position < self.elements() { Ok(self.at(position)) } else { Err(self.nowhere(position)) }
    }

    /// Returns the element as a constant for a program, if the tensor is a scalar and no other tensor shares its
    /// buffer; else `None`. A tensor just made from a Rust number is of this kind.
    #[doc(hidden)]
    pub fn number(&self) -> Option<Literal> {
        let alone = self.ty.shape.is_empty() && !self.lines.is_shared();
        alone.then(|| self.at(0))
    }

    /// Overwrites the element at a row-major position; first copies the buffer if another tensor shares it.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is no such element, [`Kind::Dtype`] when the literal is of another dtype, or
    /// is a `bool` with bits other than 0 and 1.
    ///
    /// ```
    /// use tapeloom_ir::{Dtype, Kind, Literal, Tensor};
    /// let mut t = Tensor::from([false, false]);
    /// t.set_literal(1, Literal::bool(true))?;
    /// assert_eq!(t, Tensor::from([false, true]));
    /// assert_eq!(t.set_literal(2, Literal::bool(true)).unwrap_err().kind, Kind::Shape);
    /// assert_eq!(t.set_literal(0, Literal::f64(1.0)).unwrap_err().kind, Kind::Dtype);
    /// let neither = Literal { dtype: Dtype::Bool, bits: 2 };
    /// assert_eq!(t.set_literal(0, neither).unwrap_err().kind, Kind::Dtype);
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn set_literal(&mut self, position: usize, x: Literal) -> Result<(), Problem> {
        self.expect_dtype(x.dtype)?;
        expect_bits(x)?;
        if position >= self.elements() {
            return Err(self.nowhere(position));
        }
        self.put(position, x);
        Ok(())
    }

    /// Returns the subtensor at `index` along the first axis, without that axis: a row of a matrix.
    ///
    /// # Errors
    /// [`Kind::Shape`] for a scalar and for an index out of range.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.row(1)?, Tensor::from([3, 4]));
    /// assert!(t.row(2).is_err());
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn row(&self, index: usize) -> Result<Tensor, Problem> {
        match self.shape() {
            [extent, rest @ ..] if index < *extent => {
                let shape = Shape::from(rest);
                let size = shape.elements() * self.dtype().bytes();
                Ok(Tensor::copied(
                    ArrayType::new(self.dtype(), shape),
                    [&self.bytes()[index * size..][..size]],
                ))
            }
            [] => Err(Problem::new(
                Kind::Shape,
                format!("row {index} of {}, which is a scalar", self.ty()),
                "read it with `item`",
            )),
            [extent, ..] => Err(Problem::new(
                Kind::Shape,
                format!("row {index} of {}, which has {extent}", self.ty()),
                "rows are counted from 0",
            )),
        }
    }

    /// Iterates over the subtensors along the first axis, in order; a scalar has none.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let rows: Vec<Tensor> = Tensor::from([[1, 2], [3, 4]]).rows().collect();
    /// assert_eq!(rows, [Tensor::from([1, 2]), Tensor::from([3, 4])]);
    /// ```
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Tensor> + '_ {
        let extent = self.shape().first().copied().unwrap_or(0);
        (0..extent).filter_map(|i| self.row(i).ok())
    }

    /// Returns the part of the tensor whose indices along `axis` lie in `range`. A negative axis counts from the
    /// last.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there is no such axis, or the range does not lie within it.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(t.slice_axis(1, ..2)?, Tensor::from([[1, 2], [4, 5]]));
    /// assert!(t.slice_axis(0, 1..=usize::MAX).is_err());
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn slice_axis(
        &self,
        axis: isize,
        range: impl RangeBounds<usize>,
    ) -> Result<Tensor, Problem> {
        let rank = self.shape().len();
        let from_front = if axis < 0 { axis.saturating_add_unsigned(rank) } else { axis };
        let Some(axis) = usize::try_from(from_front).ok().filter(|a| *a < rank) else {
            return Err(Problem::new(
                Kind::Shape,
                format!("axis {axis} of {}, which has no such axis", self.ty()),
                "axes are counted from 0, or from the end with negative numbers",
            ));
        };
        let mut ranges: Vec<Range<usize>> = self.shape().iter().map(|n| 0..*n).collect();
        ranges[axis] = within(&range, self.shape()[axis]).ok_or_else(|| self.outside(axis))?;
        Ok(self.part(&ranges))
    }

    /// Returns the part of the tensor whose indices along the first axes lie in `ranges`, one range per axis.
    ///
    /// # Errors
    /// [`Kind::Shape`] when there are more ranges than axes, or one does not lie within its axis.
    ///
    /// ```
    /// use tapeloom_ir::Tensor;
    /// let t = Tensor::from([[1, 2, 3], [4, 5, 6], [7, 8, 9]]);
    /// assert_eq!(t.slice(&[1..3, 0..2])?, Tensor::from([[4, 5], [7, 8]]));
    /// assert_eq!(t.slice(&[2..])?, Tensor::from([[7, 8, 9]]));
    /// # Ok::<(), tapeloom_ir::Problem>(())
    /// ```
    pub fn slice<R: RangeBounds<usize>>(&self, ranges: &[R]) -> Result<Tensor, Problem> {
        if ranges.len() > self.shape().len() {
            return Err(Problem::new(
                Kind::Shape,
                format!("{} ranges of {}", ranges.len(), self.ty()),
                "give at most one range per axis",
            ));
        }
        let mut all: Vec<Range<usize>> = self.shape().iter().map(|n| 0..*n).collect();
        for (axis, range) in ranges.iter().enumerate() {
            all[axis] = within(range, self.shape()[axis]).ok_or_else(|| self.outside(axis))?;
        }
        Ok(self.part(&all))
    }

    /// Returns the element at a row-major position, which must be below the number of elements.
    pub(crate) fn at(&self, position: usize) -> Literal {
        let size = self.dtype().bytes();
        read(self.dtype(), &self.bytes()[position * size..][..size])
    }

    /// Overwrites the element at a row-major position, which must be below the number of elements; `x` must have
    /// the tensor's dtype.
    pub(crate) fn put(&mut self, position: usize, x: Literal) {
        debug_assert_eq!(self.dtype(), x.dtype);
        let size = x.dtype.bytes();
        self.bytes_mut()[position * size..][..size].copy_from_slice(&x.bits.to_le_bytes()[..size]);
    }

    /// Returns a copy of the box with these ranges, one per axis, which must lie within the tensor.
    fn part(&self, ranges: &[Range<usize>]) -> Tensor {
        let shape: Shape = ranges.iter().map(Range::len).collect();
        let ty = ArrayType::new(self.dtype(), shape);
        if ty.shape.elements() == 0 {
            return Tensor::copied(ty, []);
        }
        // From the last axis that the box does not cover completely, the elements of the box are contiguous, so copy
        // runs of them.
        let cut = ranges.iter().zip(self.shape()).rposition(|(r, n)| r.len() != *n).unwrap_or(0);
        let strides = self.ty().shape.strides();
        let size = self.dtype().bytes();
        let (outer, inner) = (&ranges[..cut], ranges.get(cut).cloned().unwrap_or(0..1));
        let stride = strides.get(cut).copied().unwrap_or(1);
        let first: usize = outer.iter().zip(&strides).map(|(r, s)| r.start * s).sum();
        let counts: Vec<usize> = outer.iter().map(Range::len).collect();
        let mut index = vec![0; cut];
        let runs = (0..counts.iter().product()).map(|_| {
            let offset: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
            let from = (first + offset + inner.start * stride) * size;
            step(&mut index, &counts);
            &self.bytes()[from..][..inner.len() * stride * size]
        });
        Tensor::copied(ty, runs)
    }

    /// Makes a tensor of type `ty` from runs of bytes, without a check for memory: the new tensor must be no larger
    /// than an existing one.
    fn copied<'a>(ty: ArrayType, runs: impl IntoIterator<Item = &'a [u8]>) -> Tensor {
        let lines = Buffer::zeros(ty.bytes().div_ceil(size_of::<Line>()));
        let mut t = Tensor { ty, lines };
        let mut to = t.bytes_mut();
        for run in runs {
            let (here, rest) = to.split_at_mut(run.len());
            here.copy_from_slice(run);
            to = rest;
        }
        t
    }

    /// Returns the row-major position of the element at an index. An index outside the tensor is an error.
    fn position(&self, index: &[usize]) -> Result<usize, Problem> {
        let shape = self.shape();
        if index.len() == shape.len() && index.iter().zip(shape).all(|(i, n)| i < n) {
            return Ok(index.iter().zip(self.ty().shape.strides()).map(|(i, s)| i * s).sum());
        }
        Err(Problem::new(
            Kind::Shape,
            format!("{} has no element at index {}", self.ty(), Shape::from(index)),
            "give one index per axis, from 0 to its extent less one",
        ))
    }

    fn nowhere(&self, position: usize) -> Problem {
        let message = format!("{} has no element at position {position}", self.ty());
        Problem::new(
            Kind::Shape,
            message,
            "positions run from 0 to the number of elements less one",
        )
    }

    fn outside(&self, axis: usize) -> Problem {
        let message = format!("a range that does not lie within axis {axis} of {}", self.ty());
        Problem::new(Kind::Shape, message, "a range begins and ends within 0 and the extent")
    }
}

/// Checks that an element of the literal's dtype may have the literal's bits: for a `bool`, 0 or 1.
pub(super) fn expect_bits(x: Literal) -> Result<(), Problem> {
    let largest = match x.dtype {
        Dtype::Bool => 1,
        Dtype::I32 | Dtype::U32 | Dtype::F32 => u64::from(u32::MAX),
        Dtype::I64 | Dtype::U64 | Dtype::F64 => u64::MAX,
    };
    if x.bits <= largest {
        return Ok(());
    }
    let message = format!("the bits {:#x} are no {}", x.bits, x.dtype);
    Err(Problem::new(Kind::Dtype, message, "a bool is 0 or 1"))
}

/// Returns the indices of `range` as a half-open range, if it lies within an axis of that extent.
fn within(range: &impl RangeBounds<usize>, extent: usize) -> Option<Range<usize>> {
    let start = match range.start_bound() {
        Bound::Included(i) => *i,
        Bound::Excluded(i) => i.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(i) => i.checked_add(1)?,
        Bound::Excluded(i) => *i,
        Bound::Unbounded => extent,
    };
    (start <= end && end <= extent).then_some(start..end)
}
