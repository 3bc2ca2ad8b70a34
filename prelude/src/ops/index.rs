//! Reading and writing parts of an array.
//!
//! An index may be a Rust integer, known at tracing: a negative one counts from the end, and one out of range is an
//! error. It may also be an integer `Var`, known at run time: as in JAX, a read out of range returns the nearest
//! element, and a write out of range is dropped. An index array reads or writes several elements at once.
//!
//! ```
//! use tapeloom::prelude::*;
//! let f = jit(|(x, i): (Var, Var)| (x.index(-1), x.index(i), x.at(i).add(10.0)));
//! let (last, some, updated) = f.call(([1.0, 2.0, 3.0], 1i64))?;
//! assert_eq!(last.item::<f64>()?, 3.0);
//! assert_eq!(some.item::<f64>()?, 2.0);
//! assert_eq!(updated.to_vec::<f64>()?, [1.0, 12.0, 3.0]);
//! # Ok::<(), tapeloom::Error>(())
//! ```

use super::axes::{Axis, position, resolve_axis};
use super::shape::{insert_axis, move_axis, permute, reshape, slice_axis};
use super::{binary, broadcast_together, broadcast_var, emit, wrong};
use crate::Var;
use crate::var::{IntoVar, caller};
use std::ops::{Bound, RangeBounds};
use tapeloom_ir::prim::{
    ArgReduce, Bounds, Combine, Concatenate, Convert, DynamicSlice, DynamicUpdateSlice, Extremum,
    Gather, Iota, Scatter, Slice,
};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Scalar, Shape};

/// An index along one axis.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub enum Position {
    /// An index known at tracing.
    Static(i64),
    /// An index known at run time: an integer scalar or array.
    Dynamic(Var),
}

/// One index: a Rust integer or an integer `Var`.
pub trait Index: Copy {
    /// Returns the index.
    #[doc(hidden)]
    fn position(self) -> Position;
}

impl Index for Var {
    fn position(self) -> Position {
        Position::Dynamic(self)
    }
}

macro_rules! index {
    ($($t:ty),*) => {$(
        impl Index for $t {
            fn position(self) -> Position {
                Position::Static(i64::try_from(self).unwrap_or(i64::MAX))
            }
        }
    )*};
}
index!(i32, i64, usize);

/// Indices of the leading axes: one index, an array of indices, or a tuple.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no index, nor a tuple of indices",
    label = "an integer, an integer `Var`, or up to three of them in a tuple",
    note = "for one place of another axis than the leading ones, `x.index_axis(1, i)`; for a range, \
            `x.slice_axis(1, a..b)`"
)]
pub trait Indices {
    /// Returns one index per leading axis.
    #[doc(hidden)]
    fn positions(&self) -> Vec<Position>;
}

impl<I: Index> Indices for I {
    fn positions(&self) -> Vec<Position> {
        vec![self.position()]
    }
}

impl<I: Index, const N: usize> Indices for [I; N] {
    fn positions(&self) -> Vec<Position> {
        self.iter().map(|i| i.position()).collect()
    }
}

impl<I: Index, J: Index> Indices for (I, J) {
    fn positions(&self) -> Vec<Position> {
        vec![self.0.position(), self.1.position()]
    }
}

impl<I: Index, J: Index, K: Index> Indices for (I, J, K) {
    fn positions(&self) -> Vec<Position> {
        vec![self.0.position(), self.1.position(), self.2.position()]
    }
}

/// Ranges of the leading axes, one per axis. They are an array of ranges of one type, as in `[0..2, 1..3]`, or a tuple
/// of ranges of any types, as in `(1.., ..2, ..)`.
pub trait Ranges {
    /// Returns the bounds of each range.
    #[doc(hidden)]
    fn bounds(&self) -> Vec<(Bound<usize>, Bound<usize>)>;
}

fn both_ends(range: &impl RangeBounds<usize>) -> (Bound<usize>, Bound<usize>) {
    (range.start_bound().cloned(), range.end_bound().cloned())
}

impl<R: RangeBounds<usize>, const N: usize> Ranges for [R; N] {
    fn bounds(&self) -> Vec<(Bound<usize>, Bound<usize>)> {
        self.iter().map(both_ends).collect()
    }
}

macro_rules! ranges {
    ($($r:ident $i:tt),*) => {
        impl<$($r: RangeBounds<usize>),*> Ranges for ($($r,)*) {
            fn bounds(&self) -> Vec<(Bound<usize>, Bound<usize>)> {
                vec![$(both_ends(&self.$i)),*]
            }
        }
    };
}
ranges!(A 0);
ranges!(A 0, B 1);
ranges!(A 0, B 1, C 2);
ranges!(A 0, B 1, C 2, D 3);
ranges!(A 0, B 1, C 2, D 3, E 4);
ranges!(A 0, B 1, C 2, D 3, E 4, F 5);

/// Elements of an array to be read or written, as returned by [`Var::at`].
#[derive(Clone, Debug)]
#[must_use = "places do nothing until they are read or written"]
pub struct At {
    array: Var,
    positions: Vec<Position>,
}

/// Parts of an array: reading and writing by indices, slices and windows.
impl Var {
    /// Returns the element or subarray at the given indices of the leading axes, which are removed.
    ///
    /// Errors: `shape` if a static index is out of range or there are more indices than axes; `dtype` if an index
    /// is not an integer.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| (x.index(1), x.index((1, 0)), x.index(arange(2, Dtype::I64))));
    /// let (row, element, rows) = f.call([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])?;
    /// assert_eq!(row.to_vec::<f64>()?, [3.0, 4.0]);
    /// assert_eq!(element.item::<f64>()?, 3.0);
    /// assert_eq!(rows.to_vec::<f64>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn index(self, indices: impl Indices) -> Var {
        read(self, &indices.positions(), caller())
    }

    /// Returns the subarray at an index of one axis, which is removed.
    #[doc(alias = "dynamic_index_in_dim")]
    #[track_caller]
    pub fn index_axis(self, axis: impl Axis, index: impl Index) -> Var {
        let at = caller();
        let ty = self.ty(at);
        match resolve_axis("index_axis", axis, &ty.shape) {
            Ok(axis) => read(move_axis(self, axis, 0, at), &[index.position()], at),
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Selects the elements at the given indices of the leading axes, to be used as `x.at(i).set(v)`, `.add(v)`,
    /// `.get()`.
    #[doc(alias = "scatter", alias = "gather", alias = "index_update")]
    pub fn at(self, indices: impl Indices) -> At {
        At { array: self, positions: indices.positions() }
    }

    /// Returns the part of an array within a range of one axis. The range is known at tracing.
    ///
    /// Errors: `shape` if the range is not within the axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let steps = run(|x: Var| x.slice_axis(0, 1..) - x.slice_axis(0, ..2), [1.0, 4.0, 9.0])?;
    /// assert_eq!(steps.to_vec::<f64>()?, [3.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "narrow")]
    #[doc(alias = "slice_in_dim")]
    #[track_caller]
    pub fn slice_axis(self, axis: impl Axis, range: impl RangeBounds<usize>) -> Var {
        let at = caller();
        strided("slice_axis", self, axis, &range, 1, at)
    }

    /// Returns every `step`-th element of a range of an axis.
    #[track_caller]
    pub fn slice_step(self, axis: impl Axis, range: impl RangeBounds<usize>, step: usize) -> Var {
        let at = caller();
        strided("slice_step", self, axis, &range, step, at)
    }

    /// Returns the part of an array within a range of each leading axis. The ranges are known at tracing: an array of
    /// ranges, or a tuple of ranges of several types.
    ///
    /// Errors: `shape` if a range is not within its axis, or there are more ranges than axes.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.slice((1.., ..2)), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [4.0, 5.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(self, ranges: impl Ranges) -> Var {
        let at = caller();
        let mut y = self;
        for (axis, range) in ranges.bounds().iter().enumerate() {
            y = strided("slice", y, axis, range, 1, at);
        }
        y
    }

    /// Returns the box with extents `sizes` that begins at `starts` (integer scalars, one per axis; negative ones
    /// count from the end). If the box does not fit at that position, it is moved until it fits.
    #[track_caller]
    pub fn dynamic_slice<I: Index>(self, starts: &[I], sizes: impl Into<Shape>) -> Var {
        let at = caller();
        let operands: Vec<Var> = [self].into_iter().chain(starts_in(self, starts, at)).collect();
        emit(DynamicSlice { sizes: sizes.into().to_vec() }, &operands, at)
    }

    /// Returns the array with `update` written at `starts` (integer scalars, one per axis; negative ones count from
    /// the end). If `update` does not fit at that position, it is moved until it fits.
    #[track_caller]
    pub fn dynamic_update_slice<I: Index>(self, update: impl IntoVar, starts: &[I]) -> Var {
        let at = caller();
        let update = update.beside(self, at);
        let operands: Vec<Var> =
            [self, update].into_iter().chain(starts_in(self, starts, at)).collect();
        emit(DynamicUpdateSlice, &operands, at)
    }

    /// Returns the subarrays at an array of indices of one axis. The axes of the indices replace that axis; if the
    /// index is a number, the axis is removed.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|(x, i): (Var, Var)| x.take(i, -1), ([[1.0, 2.0], [3.0, 4.0]], [1i64, 1, 0]))?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 2.0, 1.0, 4.0, 4.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "embedding")]
    #[doc(alias = "index_select")]
    #[track_caller]
    pub fn take(self, indices: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let indices = indices.into_var(Dtype::I64, at);
        let ty = self.ty(at);
        let axis = match resolve_axis("take", axis, &ty.shape) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self, indices], ty, at),
        };
        let k = indices.ty(at).shape.len();
        let indices = insert_axis(from_front(indices, ty.shape[axis], at), k, at);
        let gather = Gather { batch: 0, axes: vec![axis], bounds: Bounds::Clip };
        let y = trace::within("take", || emit(gather, &[self, indices], at));
        // The result of the gather begins with the axes of the indices. Move them to the position of the axis that they
        // replace.
        let order = (k..k + axis).chain(0..k).chain(k + axis..k + ty.shape.len() - 1).collect();
        permute(y, order, at)
    }

    /// Returns the index of the largest element along an axis (i64). Of equal elements, the index of the first is
    /// returned. A nan counts as the largest element.
    #[track_caller]
    pub fn argmax(self, axis: impl Axis) -> Var {
        arg_reduce(Extremum::Max, self, axis, caller())
    }

    /// Returns the index of the smallest element along an axis (i64). Of equal elements, the index of the first is
    /// returned. A nan counts as the smallest element.
    #[track_caller]
    pub fn argmin(self, axis: impl Axis) -> Var {
        arg_reduce(Extremum::Min, self, axis, caller())
    }

    /// Returns, for each integer i, the unit vector with a 1 at index i, of extent `n`, along a new last axis. For an
    /// integer out of range, the vector is zero.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|i: Var| i.one_hot(3, Dtype::F64), [2i64, 0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(self, n: usize, dtype: Dtype) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let column = insert_axis(self, ty.shape.len(), at);
        let count = emit(Iota { shape: [n].into(), axis: 0, dtype: ty.dtype }, &[], at);
        let hit = binary(Scalar::Eq, column, count, at);
        if dtype == Dtype::Bool { hit } else { emit(Convert { to: dtype }, &[hit], at) }
    }
}

#[allow(clippy::should_implement_trait, reason = "`x.at(i).add(v)` is how the field writes it")]
impl At {
    /// Returns the selected elements.
    #[doc(alias = "gather")]
    #[track_caller]
    pub fn get(self) -> Var {
        self.read(caller())
    }

    /// Returns the array with the selected elements replaced by `value`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.at(0).set(7.0), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [7.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn set(self, value: impl IntoVar) -> Var {
        self.write(Combine::Set, value, caller())
    }

    /// Returns the array with `value` added to the selected elements. An index that occurs several times adds
    /// several times.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let count = run(|i: Var| zeros([3], Dtype::I64).at(i).add(1), [0i64, 2, 0])?;
    /// assert_eq!(count.to_vec::<i64>()?, [2, 0, 1]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "index_add")]
    #[doc(alias = "scatter_add")]
    #[track_caller]
    pub fn add(self, value: impl IntoVar) -> Var {
        self.write(Combine::Add, value, caller())
    }

    /// Returns the array with the selected elements multiplied by `value`.
    #[doc(alias = "scatter_mul")]
    #[track_caller]
    pub fn mul(self, value: impl IntoVar) -> Var {
        self.write(Combine::Mul, value, caller())
    }

    /// Returns the array with each selected element replaced by the larger one of itself and `value`.
    #[doc(alias = "scatter_max")]
    #[track_caller]
    pub fn max(self, value: impl IntoVar) -> Var {
        self.write(Combine::Max, value, caller())
    }

    /// Returns the array with each selected element replaced by the smaller one of itself and `value`.
    #[doc(alias = "scatter_min")]
    #[track_caller]
    pub fn min(self, value: impl IntoVar) -> Var {
        self.write(Combine::Min, value, caller())
    }

    pub(crate) fn of(array: Var, positions: Vec<Position>) -> At {
        At { array, positions }
    }

    /// Returns the axes of the index arrays, which come first in the result. Returns an error if an index is invalid.
    pub(crate) fn lead(shape: &Shape, positions: &[Position], at: Loc) -> Result<Shape, Problem> {
        resolve(shape, positions, at).map(|resolved| resolved.lead)
    }

    pub(crate) fn read(self, at: Loc) -> Var {
        read(self.array, &self.positions, at)
    }

    pub(crate) fn write(self, combine: Combine, value: impl IntoVar, at: Loc) -> Var {
        let ty = self.array.ty(at);
        let value = value.beside(self.array, at);
        let resolved = match resolve(&ty.shape, &self.positions, at) {
            Ok(resolved) => resolved,
            Err(problem) => return wrong(problem, &[self.array], ty, at),
        };
        let n = self.positions.len();
        let shape: Shape = resolved.lead.iter().chain(&ty.shape[n..]).copied().collect();
        let own = value.ty(at).shape;
        if super::broadcast_shapes(&own, &shape).as_ref() != Some(&shape) {
            let message = format!("a value of shape {own} cannot be written to places of {shape}");
            let help = "aligned at the last axis, extents must be equal or 1";
            let problem = Problem::new(Kind::Shape, message, help);
            return wrong(problem, &[self.array, value], ty, at);
        }
        if let (Some(starts), Combine::Set) = (&resolved.fixed, combine) {
            // The elements are one box at a position known at tracing, which `DynamicUpdateSlice` overwrites without
            // indices.
            let update: Shape =
                std::iter::repeat_n(1, n).chain(ty.shape[n..].iter().copied()).collect();
            let value = reshape(materialize(value, &shape, at), update, at);
            let literal = |i: usize| Var::literal(Literal::i64(i as i64), at);
            let starts = starts.iter().copied().chain(std::iter::repeat_n(0, ty.shape.len() - n));
            let operands: Vec<Var> =
                [self.array, value].into_iter().chain(starts.map(literal)).collect();
            return emit(DynamicUpdateSlice, &operands, at);
        }
        // With a single index, no element is written twice. Then combine the value with the old element first, and
        // overwrite this element: reverse mode saves the old element instead of the whole array.
        let extremum = match combine {
            Combine::Max | Combine::Min => elementwise(combine, ty.dtype),
            Combine::Set | Combine::Add | Combine::Mul => None,
        };
        let (combine, value) = match extremum.filter(|_| resolved.lead.is_empty()) {
            Some(extremum) => {
                let old = read(self.array, &self.positions, at);
                (Combine::Set, binary(extremum, old, value, at))
            }
            None => (combine, value),
        };
        let scatter = Scatter { combine, batch: 0, axes: (0..n).collect(), bounds: Bounds::Drop };
        let value = materialize(value, &shape, at);
        emit(scatter, &[self.array, resolved.indices(at), value], at)
    }
}

/// Returns the scalar operation that combines two elements; for replacement there is none. The maximum of bools is
/// `or`, their minimum is `and`.
pub(crate) fn elementwise(combine: Combine, dtype: Dtype) -> Option<Scalar> {
    let truth = dtype == Dtype::Bool;
    match combine {
        Combine::Set => None,
        Combine::Add => Some(Scalar::Add),
        Combine::Mul => Some(Scalar::Mul),
        Combine::Max => Some(if truth { Scalar::Or } else { Scalar::Max }),
        Combine::Min => Some(if truth { Scalar::And } else { Scalar::Min }),
    }
}

/// Resolved indices.
struct ResolvedIndices {
    /// The axes of the index arrays, which come first in the result.
    lead: Shape,
    /// One index per leading axis, counted from the front.
    each: Vec<Var>,
    /// The indices counted from the front, if all are known at tracing.
    fixed: Option<Vec<usize>>,
}

impl ResolvedIndices {
    /// Returns the operand of indices for gather and scatter, `[lead.., n]` for n indexed axes.
    fn indices(&self, at: Loc) -> Var {
        let column: Shape = self.lead.iter().copied().chain([1]).collect();
        let columns: Vec<Var> = self
            .each
            .iter()
            .map(|v| reshape(materialize(*v, &self.lead, at), column.clone(), at))
            .collect();
        match columns.as_slice() {
            [one] => *one,
            many => emit(Concatenate { axis: self.lead.len() }, many, at),
        }
    }
}

fn resolve(shape: &Shape, positions: &[Position], at: Loc) -> Result<ResolvedIndices, Problem> {
    if positions.len() > shape.len() {
        return Err(Problem::new(
            Kind::Shape,
            format!("{} indices into an array of shape {shape}", positions.len()),
            "give at most one index per axis",
        ));
    }
    let mut each = Vec::new();
    let mut fixed = Some(Vec::new());
    for (axis, p) in positions.iter().enumerate() {
        match p {
            Position::Static(i) => {
                let found = position(*i, shape[axis]).ok_or_else(|| {
                    Problem::new(
                        Kind::Shape,
                        format!("index {i} is out of range for axis {axis} of shape {shape}"),
                        "indices run from 0, or from the end with negative numbers",
                    )
                })?;
                each.push(Var::literal(Literal::i64(found as i64), at));
                if let Some(fixed) = &mut fixed {
                    fixed.push(found);
                }
            }
            Position::Dynamic(v) => {
                let ty = v.ty(at);
                if !ty.dtype.is_integer() {
                    return Err(Problem::new(
                        Kind::Dtype,
                        format!("an index must be an integer, got {ty}"),
                        "convert it, as in `i.convert(Dtype::I64)`; for a mask use `select`",
                    ));
                }
                let wide = widened(*v, at);
                let signed = ty.dtype.is_signed();
                each.push(if signed { from_front(wide, shape[axis], at) } else { wide });
                fixed = None;
            }
        }
    }
    let (_, lead) = broadcast_together("index", &each, at)?;
    Ok(ResolvedIndices { lead, each, fixed })
}

fn read(x: Var, positions: &[Position], at: Loc) -> Var {
    let ty = x.ty(at);
    let n = positions.len();
    let resolved = match resolve(&ty.shape, positions, at) {
        Ok(resolved) => resolved,
        Err(problem) => {
            let shape = ty.shape.get(n..).unwrap_or_default().into();
            return wrong(problem, &[x], ArrayType { dtype: ty.dtype, shape }, at);
        }
    };
    match &resolved.fixed {
        Some(fixed) => {
            let starts = fixed.iter().copied().chain(std::iter::repeat_n(0, ty.shape.len() - n));
            let limits = fixed.iter().map(|i| i + 1).chain(ty.shape[n..].iter().copied());
            let part = emit(Slice::dense(starts.collect(), limits.collect()), &[x], at);
            reshape(part, ty.shape[n..].into(), at)
        }
        None => {
            let gather = Gather { batch: 0, axes: (0..n).collect(), bounds: Bounds::Clip };
            emit(gather, &[x, resolved.indices(at)], at)
        }
    }
}

/// Converts negative indices, which count from the end, to indices from the front. Unsigned indices are returned
/// unchanged.
pub(crate) fn from_front(index: Var, extent: usize, at: Loc) -> Var {
    let dtype = index.ty(at).dtype;
    if !dtype.is_signed() || dtype.is_float() {
        return index;
    }
    // If the dtype of the index cannot represent the extent, convert the index to i64 first.
    let Some(extent) = Literal::exact_integer(dtype, extent as i128) else {
        let wide = widened(index, at);
        return if dtype == Dtype::I64 { wide } else { from_front(wide, extent, at) };
    };
    let negative = binary(Scalar::Lt, index, Var::literal(Literal::zero(dtype), at), at);
    let moved = binary(Scalar::Add, index, Var::literal(extent, at), at);
    emit(Scalar::Select, &[negative, moved, index], at)
}

/// Converts integers to i64. A u64 that does not fit in an i64 is out of range for every axis. It is clamped, so that
/// it does not become negative.
pub(crate) fn widened(index: Var, at: Loc) -> Var {
    let dtype = index.ty(at).dtype;
    let within = match Literal::exact_integer(dtype, i64::MAX.into()) {
        Some(most) if dtype == Dtype::U64 => binary(Scalar::Min, index, Var::literal(most, at), at),
        _ => index,
    };
    if dtype == Dtype::I64 { within } else { emit(Convert { to: Dtype::I64 }, &[within], at) }
}

/// Broadcasts a `Var` to a shape. A literal becomes an array filled with it.
pub(crate) fn materialize(x: Var, shape: &Shape, at: Loc) -> Var {
    match x.handle.as_literal() {
        Some(l) => super::full_var(shape, l, at),
        None => broadcast_var(x, shape, at),
    }
}

/// Returns the start indices of a box in `x`. A negative start is converted to count from the front, as in JAX.
fn starts_in<I: Index>(x: Var, starts: &[I], at: Loc) -> Vec<Var> {
    let shape = x.ty(at).shape;
    let extents = shape.iter().copied().chain(std::iter::repeat(0));
    let start = |(i, extent): (&I, usize)| match i.position() {
        Position::Static(i) if i < 0 => Var::literal(Literal::i64(i + extent as i64), at),
        Position::Static(i) => Var::literal(Literal::i64(i), at),
        Position::Dynamic(v) => from_front(v, extent, at),
    };
    starts.iter().zip(extents).map(start).collect()
}

fn strided(
    name: &str,
    x: Var,
    axis: impl Axis,
    range: &impl RangeBounds<usize>,
    step: usize,
    at: Loc,
) -> Var {
    let ty = x.ty(at);
    let axis = match resolve_axis(name, axis, &ty.shape) {
        Ok(axis) => axis,
        Err(problem) => return wrong(problem, &[x], ty, at),
    };
    let what = || format!("axis {axis} of {ty}");
    let (start, limit) = match bounds(name, range, ty.shape[axis], step, what) {
        Ok(bounds) => bounds,
        Err(problem) => return wrong(problem, &[x], ty, at),
    };
    if step == 1 {
        return slice_axis(x, axis, start, limit, at);
    }
    let mut slice = Slice::dense(vec![0; ty.shape.len()], ty.shape.to_vec());
    (slice.start[axis], slice.limit[axis], slice.strides[axis]) = (start, limit, step);
    emit(slice, &[x], at)
}

/// Returns the first index of a range of an axis and the index behind its last one. Returns an error if the range is
/// not within the axis. `what` names the axis in messages.
pub(crate) fn bounds(
    name: &str,
    range: &impl RangeBounds<usize>,
    extent: usize,
    step: usize,
    what: impl Fn() -> String,
) -> Result<(usize, usize), Problem> {
    let start = match range.start_bound() {
        Bound::Included(i) => *i,
        Bound::Excluded(i) => i.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let limit = match range.end_bound() {
        // If the sum saturates, the result is out of range, as the exact sum would be.
        Bound::Included(i) => i.saturating_add(1),
        Bound::Excluded(i) => *i,
        Bound::Unbounded => extent,
    };
    if start <= limit && limit <= extent && step > 0 {
        return Ok((start, limit));
    }
    let message = format!("`{name}` of {start}..{limit} by {step} along {}", what());
    let help = "the range must lie within the axis, and the step be at least 1";
    Err(Problem::new(Kind::Shape, message, help))
}

fn arg_reduce(extremum: Extremum, x: Var, axis: impl Axis, at: Loc) -> Var {
    let ty = x.ty(at);
    let name = match extremum {
        Extremum::Max => "argmax",
        Extremum::Min => "argmin",
    };
    match resolve_axis(name, axis, &ty.shape) {
        Ok(axis) => emit(ArgReduce { axis, extremum }, &[x], at),
        Err(problem) => wrong(problem, &[x], ArrayType::new(Dtype::I64, ty.shape), at),
    }
}
