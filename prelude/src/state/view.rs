//! Views: parts of an array, and how they are read and written.
//!
//! A view is a box of the array (a range of indices along each axis), whose start is known at tracing or at run time.
//! Some of its axes may be removed. A view of a view is another box, because starts are added. Index arrays, which
//! select no box, come last. So an access costs as much as the viewed part is large, independent of the number of
//! nested views, and all views of an array refer to its current value.

use crate::Var;
use crate::ops::{
    At, Axis, Position, binary, bounds, elementwise, emit, from_front, materialize, position,
    reshape, resolve_axis, widened,
};
use std::ops::RangeBounds;
use tapeloom_ir::prim::{Combine, DynamicSlice, DynamicUpdateSlice, Slice};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Kind, Literal, Loc, Problem, Scalar, Shape};

/// A part of an array.
pub(super) struct View {
    /// The viewed range of each axis of the array.
    axes: Vec<ViewedAxis>,
    /// Indices, among them index arrays, for the first of the axes that the view has not removed. Empty if there are no
    /// index arrays.
    points: Vec<Position>,
    /// The axes that the index arrays add in front of the remaining axes.
    lead: Shape,
    /// The user's line that made the view.
    pub(super) born: Loc,
}

/// The viewed range of one axis.
#[derive(Clone, Copy)]
struct ViewedAxis {
    /// The start of the range.
    start: Start,
    /// The length of the range.
    extent: usize,
    /// The extent of the axis in the array.
    of: usize,
    seen: Seen,
}

#[derive(Clone, Copy)]
enum Start {
    Known(usize),
    /// A start that is known at run time, an `i64` scalar.
    Run(Var),
}

#[derive(Clone, Copy)]
enum Seen {
    /// The whole range.
    All,
    /// One element, at an index known at tracing; the axis is removed.
    One,
    /// One element, at a run-time index as the user gave it: counted from the start or the end, and possibly out of
    /// range. The axis is removed.
    Index(Var),
}

impl View {
    /// Returns the view of a whole array.
    pub(super) fn whole(ty: &ArrayType, born: Loc) -> View {
        let all =
            |n: &usize| ViewedAxis { start: Start::Known(0), extent: *n, of: *n, seen: Seen::All };
        let axes = ty.shape.iter().map(all).collect();
        View { axes, points: Vec::new(), lead: Shape::scalar(), born }
    }

    /// Returns the type of the view of an array of type `base`.
    pub(super) fn ty(&self, base: &ArrayType) -> ArrayType {
        let left = self.left();
        let rest = left.skip(self.points.len()).map(|axis| self.axes[axis].extent);
        let shape: Shape = self.lead.iter().copied().chain(rest).collect();
        ArrayType { dtype: base.dtype, shape }
    }

    /// Returns the axes of the array that the view does not remove.
    fn left(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.axes.len()).filter(|axis| matches!(self.axes[*axis].seen, Seen::All))
    }

    fn inner(&self) -> Shape {
        self.left().map(|axis| self.axes[axis].extent).collect()
    }

    // -- Views of views --------------------------------------------------------------------------

    /// Returns the part of this view at the given indices of its leading axes.
    pub(super) fn at(&self, indices: &[Position], at: Loc) -> Result<View, Problem> {
        let shape = self.narrowed()?;
        let array = |p: &Position| match p {
            Position::Dynamic(v) => !v.ty(at).shape.is_empty(),
            Position::Static(_) => false,
        };
        if indices.len() > shape.len() {
            return Err(Problem::new(
                Kind::Shape,
                format!("{} indices into a `Ref` of shape {shape}", indices.len()),
                "give at most one index per axis",
            ));
        }
        if indices.iter().any(array) {
            let lead = At::lead(&shape, indices, at)?;
            return Ok(View { points: indices.to_vec(), lead, ..self.copied() });
        }
        indices.iter().try_fold(self.copied(), |view, index| view.at_axis(0, *index, at))
    }

    /// Returns the part of this view at an index of one of its axes.
    pub(super) fn at_axis(
        &self,
        axis: impl Axis,
        index: Position,
        at: Loc,
    ) -> Result<View, Problem> {
        let shape = self.narrowed()?;
        let number = resolve_axis("at_axis", axis, &shape)?;
        let extent = shape[number];
        let mut view = self.copied();
        let along = self.along(&mut view, number);
        match index {
            Position::Static(i) => {
                let i = position(i, extent).ok_or_else(|| {
                    Problem::new(
                        Kind::Shape,
                        format!("index {i} is out of range for a `Ref` of shape {shape}"),
                        "indices run from 0, or from the end with negative numbers",
                    )
                })?;
                along.start = along.start.plus(Start::Known(i), at);
                along.seen = Seen::One;
            }
            Position::Dynamic(_) if extent == 0 => {
                let message =
                    format!("an index into a `Ref` of shape {shape}, which has no elements");
                return Err(Problem::new(Kind::Shape, message, "check `shape` first"));
            }
            Position::Dynamic(i) => along.seen = Seen::Index(scalar_index(i, at)?),
        }
        Ok(view)
    }

    /// Returns the part of this view within a range of one of its axes.
    pub(super) fn slice(
        &self,
        name: &str,
        axis: impl Axis,
        range: &impl RangeBounds<usize>,
        at: Loc,
    ) -> Result<View, Problem> {
        let shape = self.narrowed()?;
        let number = resolve_axis(name, axis, &shape)?;
        let what = || format!("axis {number} of a `Ref` of shape {shape}");
        let (start, limit) = bounds(name, range, shape[number], 1, what)?;
        let mut view = self.copied();
        let along = self.along(&mut view, number);
        along.start = along.start.plus(Start::Known(start), at);
        along.extent = limit - start;
        Ok(view)
    }

    /// Returns the part of this view that is a box with extents `sizes`. If the box does not fit at its start, it is
    /// moved until it fits.
    pub(super) fn dynamic_slice(
        &self,
        starts: &[Position],
        sizes: &Shape,
        at: Loc,
    ) -> Result<View, Problem> {
        let shape = self.narrowed()?;
        let fits = sizes.iter().zip(shape.iter()).all(|(size, extent)| size <= extent);
        if !fits || sizes.len() != shape.len() || starts.len() != shape.len() {
            let n = starts.len();
            return Err(Problem::new(
                Kind::Shape,
                format!(
                    "`dynamic_slice` with {n} starts and sizes {sizes} of a `Ref` of shape {shape}"
                ),
                "give one start and one size per axis, and no size beyond its extent",
            ));
        }
        let mut view = self.copied();
        for (number, (start, size)) in starts.iter().zip(sizes.iter()).enumerate() {
            let extent = shape[number];
            let most = extent - size;
            let start = match start {
                Position::Static(i) => {
                    let i = if *i < 0 { i.saturating_add_unsigned(extent as u64) } else { *i };
                    Start::Known(i.clamp(0, most as i64) as usize)
                }
                Position::Dynamic(v) => {
                    let start = counted(scalar_index(*v, at)?, extent, at);
                    Start::Run(clamped(start, most, at))
                }
            };
            let along = self.along(&mut view, number);
            along.start = along.start.plus(start, at);
            along.extent = *size;
        }
        Ok(view)
    }

    /// Returns the shape of this view, for making a view of this view. Returns an error if the view has index arrays,
    /// because such a view has no views of its own.
    fn narrowed(&self) -> Result<Shape, Problem> {
        if !self.points.is_empty() {
            return Err(Problem::new(
                Kind::Shape,
                "a view of a view that has index arrays",
                "index the `Ref` with all indices at once, or read it by `get` and index the value",
            ));
        }
        Ok(self.inner())
    }

    fn copied(&self) -> View {
        View { axes: self.axes.clone(), points: Vec::new(), lead: Shape::scalar(), born: self.born }
    }

    /// Returns the range in `copy` that belongs to axis `number` of this view. Axes that the view has removed are not
    /// counted.
    fn along<'v>(&self, copy: &'v mut View, number: usize) -> &'v mut ViewedAxis {
        let axis = self.left().nth(number).unwrap_or(0);
        &mut copy.axes[axis]
    }

    // -- Reading and writing ---------------------------------------------------------------------

    /// Returns the viewed part of `base`.
    pub(super) fn read(&self, base: Var, at: Loc) -> Var {
        if let Some(positions) = self.positions() {
            return At::of(base, positions).read(at);
        }
        let part = reshape(self.part(base, at), self.inner(), at);
        match self.points.is_empty() {
            true => part,
            false => At::of(part, self.points.clone()).read(at),
        }
    }

    /// Returns `base` with the viewed part combined with `value`, which has the type of the view.
    pub(super) fn write(&self, base: Var, combine: Combine, value: Var, at: Loc) -> Var {
        if let Some(positions) = self.positions() {
            return At::of(base, positions).write(combine, value, at);
        }
        let new = if self.points.is_empty() {
            let value = reshape(value, self.sizes(), at);
            let hit = self.hit(at);
            if let (Combine::Set, None) = (combine, hit) {
                value
            } else {
                let old = self.part(base, at);
                let new = combined(combine, old, value, at);
                hit.map_or(new, |hit| {
                    let hit = materialize(hit, &self.sizes(), at);
                    emit(Scalar::Select, &[hit, new, old], at)
                })
            }
        } else {
            let part = reshape(self.part(base, at), self.inner(), at);
            let part = At::of(part, self.points.clone()).write(combine, value, at);
            reshape(part, self.sizes(), at)
        };
        let operands: Vec<Var> = [base, new].into_iter().chain(self.starts(at)).collect();
        emit(DynamicUpdateSlice, &operands, at)
    }

    /// Returns whether all run-time indices are in range, or `None` if there are none. A write out of range must be
    /// dropped.
    fn hit(&self, at: Loc) -> Option<Var> {
        let inside = self.axes.iter().filter_map(|along| match along.seen {
            Seen::Index(i) => {
                let i = counted(i, along.extent, at);
                let from = binary(Scalar::Le, literal(0, at), i, at);
                let to = binary(Scalar::Lt, i, literal(along.extent, at), at);
                Some(binary(Scalar::And, from, to, at))
            }
            Seen::All | Seen::One => None,
        });
        inside.reduce(|x, y| binary(Scalar::And, x, y, at))
    }

    /// Returns the viewed box of `base`. Axes that the view removes have extent 1.
    fn part(&self, base: Var, at: Loc) -> Var {
        let sizes = self.sizes();
        let known = self.axes.iter().map(|along| match (along.start, along.seen) {
            (Start::Known(start), Seen::All | Seen::One) => Some(start),
            (Start::Known(_), Seen::Index(_)) | (Start::Run(_), _) => None,
        });
        match known.collect::<Option<Vec<usize>>>() {
            Some(starts) => {
                let limits =
                    starts.iter().zip(sizes.iter()).map(|(start, size)| start + size).collect();
                emit(Slice::dense(starts, limits), &[base], at)
            }
            None => {
                let operands: Vec<Var> = [base].into_iter().chain(self.starts(at)).collect();
                emit(DynamicSlice { sizes: sizes.to_vec() }, &operands, at)
            }
        }
    }

    /// Returns the extents of the viewed box; they are 1 for axes that the view removes.
    fn sizes(&self) -> Shape {
        let size = |along: &ViewedAxis| match along.seen {
            Seen::All => along.extent,
            Seen::One | Seen::Index(_) => 1,
        };
        self.axes.iter().map(size).collect()
    }

    /// Returns the start of the viewed box along each axis of the array. An index out of range is clamped.
    fn starts(&self, at: Loc) -> Vec<Var> {
        let start = |along: &ViewedAxis| {
            let start = match along.seen {
                Seen::All | Seen::One => along.start,
                Seen::Index(i) => {
                    let i = counted(i, along.extent, at);
                    along.start.plus(Start::Run(clamped(i, along.extent - 1, at)), at)
                }
            };
            match start {
                Start::Known(start) => literal(start, at),
                Start::Run(v) => v,
            }
        };
        self.axes.iter().map(start).collect()
    }

    /// If the view consists of indices of leading axes and of whole axes, returns these indices. Such a view is read by
    /// one gather and written by one scatter, without copying a box.
    fn positions(&self) -> Option<Vec<Position>> {
        let gone = self.axes.iter().take_while(|along| !matches!(along.seen, Seen::All)).count();
        let whole =
            |along: &ViewedAxis| matches!(along.start, Start::Known(0)) && along.extent == along.of;
        let (front, rest) = self.axes.split_at(gone);
        if !rest.iter().all(|along| matches!(along.seen, Seen::All) && whole(along)) {
            return None;
        }
        let front = front.iter().map(|along| match (along.seen, along.start) {
            (Seen::Index(i), _) if whole(along) => Some(Position::Dynamic(i)),
            (Seen::One, Start::Known(start)) => Some(Position::Static(start as i64)),
            (Seen::One, Start::Run(start)) => Some(Position::Dynamic(start)),
            (Seen::Index(_) | Seen::All, _) => None,
        });
        let front: Option<Vec<Position>> = front.collect();
        // The indices of removed axes are followed by the index arrays, which apply to the first remaining axes. Gather
        // and scatter accept a mixture of scalars and arrays.
        front
            .map(|front| front.into_iter().chain(self.points.iter().copied()).collect())
            .filter(|positions: &Vec<Position>| !positions.is_empty())
    }

    /// Returns an error if an index of the view belongs to a closure that has returned.
    pub(super) fn scope_error(&self) -> Option<Problem> {
        let starts = self.axes.iter().filter_map(|along| match along.start {
            Start::Run(v) => Some(v),
            Start::Known(_) => None,
        });
        let indices = self.axes.iter().filter_map(|along| match along.seen {
            Seen::Index(v) => Some(v),
            Seen::All | Seen::One => None,
        });
        let points = self.points.iter().filter_map(|position| match position {
            Position::Dynamic(v) => Some(*v),
            Position::Static(_) => None,
        });
        let from = starts.chain(indices).chain(points).find_map(|v| trace::gone(v.handle))?;
        let made = self.born.map_or(String::new(), |at| format!(" made at {at}"));
        Some(Problem::new(
            Kind::Escaped,
            format!(
                "a view{made} is used where its index does not exist: the index belongs to {from}"
            ),
            "make the view where it is used, from the `Ref` and an index that exists there",
        ))
    }
}

impl Start {
    fn plus(self, other: Start, at: Loc) -> Start {
        let sum = |x, y| Start::Run(binary(Scalar::Add, x, y, at));
        match (self, other) {
            (Start::Known(a), Start::Known(b)) => Start::Known(a + b),
            (Start::Known(0), other) => other,
            (Start::Known(a), Start::Run(v)) | (Start::Run(v), Start::Known(a)) => {
                sum(v, literal(a, at))
            }
            (Start::Run(a), Start::Run(b)) => sum(a, b),
        }
    }
}

/// Returns `old` combined with `value`, element by element.
pub(super) fn combined(combine: Combine, old: Var, value: Var, at: Loc) -> Var {
    match elementwise(combine, old.dtype()) {
        None => value,
        Some(scalar) => binary(scalar, old, value, at),
    }
}

/// Converts a run-time index to an `i64` that is counted from the front.
fn counted(i: Var, extent: usize, at: Loc) -> Var {
    let signed = i.ty(at).dtype.is_signed();
    let wide = widened(i, at);
    if signed { from_front(wide, extent, at) } else { wide }
}

/// Checks that a run-time index of one axis is an integer scalar.
fn scalar_index(i: Var, at: Loc) -> Result<Var, Problem> {
    let ty = i.ty(at);
    if trace::is_poison(i.handle, at) || ty.dtype.is_integer() && ty.shape.is_empty() {
        return Ok(i);
    }
    Err(Problem::new(
        if ty.dtype.is_integer() { Kind::Shape } else { Kind::Dtype },
        format!("an index of one axis must be an integer, got {ty}"),
        "convert it, as in `i.convert(Dtype::I64)`; index arrays go to `at`",
    ))
}

/// Returns `clamp(i, 0, most)`.
fn clamped(i: Var, most: usize, at: Loc) -> Var {
    let above = binary(Scalar::Max, i, literal(0, at), at);
    binary(Scalar::Min, above, literal(most, at), at)
}

fn literal(i: usize, at: Loc) -> Var {
    Var::literal(Literal::i64(i as i64), at)
}
