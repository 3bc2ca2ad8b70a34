//! Shape operations: reshaping, reordering, repeating, padding, joining and splitting.
//!
//! These operations do no arithmetic. Compiled code turns them into index computations.

use super::axes::{Axes, Axis, resolve_axes, resolve_axis};
use super::{broadcast_var, emit, wrong};
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::prim::{Broadcast, Concatenate, Pad, Permute, Reshape, Rev, Slice};
use tapeloom_ir::trace;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem, Shape};

/// Shapes and axes: reshaping, reordering, repeating, padding and splitting.
impl Var {
    /// Returns the same elements, in row-major order, in another shape.
    ///
    /// Errors: `shape` if the number of elements differs.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.reshape([3, 2]).sum_axis(1), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 7.0, 11.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "unflatten")]
    #[track_caller]
    pub fn reshape(self, shape: impl Into<Shape>) -> Var {
        reshape(self, shape.into(), caller())
    }

    /// Returns all elements as a vector, in row-major order.
    #[doc(alias = "ravel")]
    #[track_caller]
    pub fn flatten(self) -> Var {
        let at = caller();
        reshape(self, [self.ty(at).shape.elements()].into(), at)
    }

    /// Reverses the order of all axes; for a matrix, returns its transpose.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.t(), [[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "transpose")]
    #[track_caller]
    pub fn t(self) -> Var {
        let at = caller();
        permute(self, (0..self.ty(at).shape.len()).rev().collect(), at)
    }

    /// Reorders the axes: axis i of the result is axis `order[i]` of this array (numpy's `transpose(order)`).
    ///
    /// Errors: `shape` if `order` does not contain every axis once.
    #[doc(alias = "transpose")]
    #[track_caller]
    pub fn permute(self, order: impl Axes) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let rank = ty.shape.len();
        let order = order.numbers(rank);
        let resolved: Vec<usize> =
            order.iter().filter_map(|a| super::axes::position(*a, rank)).collect();
        let complete = (0..rank).all(|a| resolved.contains(&a));
        if order.len() != rank || !complete {
            let message = format!("`permute` of {ty} is given the order {order:?}");
            let problem = Problem::new(Kind::Shape, message, "name every axis once");
            return wrong(problem, &[self], ty, at);
        }
        permute(self, resolved, at)
    }

    /// Exchanges two axes.
    #[doc(alias = "swapdims")]
    #[doc(alias = "swapaxes")]
    #[track_caller]
    pub fn swap_axes(self, i: impl Axis, j: impl Axis) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let find = |a| resolve_axis("swap_axes", a, &ty.shape);
        match find(i.number()).and_then(|i| Ok((i, find(j.number())?))) {
            Ok((i, j)) => {
                let mut order: Vec<usize> = (0..ty.shape.len()).collect();
                order.swap(i, j);
                permute(self, order, at)
            }
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Moves one axis to another position; the order of the others does not change.
    #[doc(alias = "movedim")]
    #[doc(alias = "moveaxis")]
    #[doc(alias = "rollaxis")]
    #[track_caller]
    pub fn move_axis(self, from: impl Axis, to: impl Axis) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let find = |a| resolve_axis("move_axis", a, &ty.shape);
        match find(from.number()).and_then(|i| Ok((i, find(to.number())?))) {
            Ok((from, to)) => move_axis(self, from, to, at),
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Inserts an axis of extent 1 at position `axis` of the result.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let products = run(|x: Var| x.expand_dims(1) * x, [1.0, 2.0])?;
    /// assert_eq!(products.to_vec::<f64>()?, [1.0, 2.0, 2.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "unsqueeze")]
    #[doc(alias = "newaxis")]
    #[track_caller]
    pub fn expand_dims(self, axis: impl Axis) -> Var {
        let at = caller();
        let ty = self.ty(at);
        // `axis` is an axis of the result, so resolve it for a shape with one more axis.
        match resolve_axis("expand_dims", axis, &ty.shape.with_leading(1)) {
            Ok(axis) => insert_axis(self, axis, at),
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Removes axes of extent 1.
    ///
    /// Errors: `shape` if one of the axes has another extent.
    #[track_caller]
    pub fn squeeze(self, axes: impl Axes) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let axes = resolve_axes("squeeze", &axes, &ty.shape).and_then(|axes| {
            match axes.iter().find(|a| ty.shape[**a] != 1) {
                None => Ok(axes),
                Some(a) => Err(Problem::new(
                    Kind::Shape,
                    format!("`squeeze` of axis {a} of {ty}, whose extent is not 1"),
                    "only axes of extent 1 can be removed without losing elements",
                )),
            }
        });
        match axes {
            Ok(axes) => reshape(self, ty.shape.without(&axes), at),
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Reverses the elements along some axes.
    #[doc(alias = "rev")]
    #[doc(alias = "fliplr")]
    #[doc(alias = "flipud")]
    #[track_caller]
    pub fn flip(self, axes: impl Axes) -> Var {
        let at = caller();
        let ty = self.ty(at);
        match resolve_axes("flip", &axes, &ty.shape) {
            Ok(axes) => emit(Rev { axes }, &[self], at),
            Err(problem) => wrong(problem, &[self], ty, at),
        }
    }

    /// Shifts the elements along an axis. Elements that are shifted beyond the end reappear at the front.
    #[track_caller]
    pub fn roll(self, shift: i64, axis: impl Axis) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let axis = match resolve_axis("roll", axis, &ty.shape) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self], ty, at),
        };
        let n = ty.shape[axis];
        if n == 0 {
            return self;
        }
        let cut = n - shift.rem_euclid(n as i64) as usize;
        let (front, back) =
            (slice_axis(self, axis, 0, cut, at), slice_axis(self, axis, cut, n, at));
        emit(Concatenate { axis }, &[back, front], at)
    }

    /// Repeats the array `times[i]` times along axis i. If there are more numbers than axes, axes are added in front.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.tile([2]), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn tile(self, times: impl Into<Shape>) -> Var {
        let (at, times) = (caller(), times.into());
        let own = self.ty(at).shape;
        let rank = own.len().max(times.len());
        let extent = |s: &Shape, i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
        // Each axis of extent n becomes [times, n], which is then merged into one axis.
        let (mut split, mut joined, mut dims) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..rank {
            let (t, n) = (extent(&times, i), extent(&own, i));
            split.extend([t, n]);
            joined.push(t.saturating_mul(n));
            dims.push(2 * i + 1);
        }
        let dims = dims.split_off(rank - own.len());
        let repeated = emit(Broadcast { shape: split.into(), dims }, &[self], at);
        reshape(repeated, joined.into(), at)
    }

    /// Repeats each element `times` times along an axis, as in numpy; torch's `repeat` repeats the whole array
    /// ([`tile`](Var::tile)).
    #[doc(alias = "repeat_interleave")]
    #[track_caller]
    pub fn repeat(self, times: usize, axis: impl Axis) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let axis = match resolve_axis("repeat", axis, &ty.shape) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self], ty, at),
        };
        let mut split = ty.shape.to_vec();
        split.insert(axis + 1, times);
        let dims = (0..split.len()).filter(|i| *i != axis + 1).collect();
        let mut joined = ty.shape;
        joined[axis] = joined[axis].saturating_mul(times);
        reshape(emit(Broadcast { shape: split.into(), dims }, &[self], at), joined, at)
    }

    /// Pads each axis with copies of `value`: one pair (before, after) per axis. Negative numbers crop.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.pad(&[(1, 2)], 0.0), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 1.0, 2.0, 0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(self, widths: &[(i64, i64)], value: impl IntoVar) -> Var {
        let at = caller();
        let value = value.beside(self, at);
        let (low, high) = widths.iter().copied().unzip();
        emit(Pad { low, high, interior: vec![0; widths.len()] }, &[self, value], at)
    }

    /// Pads each axis with copies of `value` before and after the array, as [`Var::pad`] does, and also between
    /// neighbouring elements: (before, after, between) per axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.pad_dilated(&[(1, -1, 2)], 0.0), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn pad_dilated(self, widths: &[(i64, i64, usize)], value: impl IntoVar) -> Var {
        let at = caller();
        let value = value.beside(self, at);
        let op = Pad {
            low: widths.iter().map(|w| w.0).collect(),
            high: widths.iter().map(|w| w.1).collect(),
            interior: widths.iter().map(|w| w.2).collect(),
        };
        emit(op, &[self, value], at)
    }

    /// Splits an axis into `n` parts of equal extent. ([`array_split`](Var::array_split) and
    /// [`split_at`](Var::split_at) return parts of different extents.)
    ///
    /// Errors: `shape` if the extent is not a multiple of `n`.
    #[doc(alias = "hsplit", alias = "vsplit", alias = "dsplit")]
    #[track_caller]
    pub fn split(self, n: usize, axis: impl Axis) -> Vec<Var> {
        let at = caller();
        let ty = self.ty(at);
        let axis = resolve_axis("split", axis, &ty.shape).and_then(|axis| {
            few("split", n)?;
            if n > 0 && ty.shape[axis].is_multiple_of(n) {
                return Ok(axis);
            }
            Err(Problem::new(
                Kind::Shape,
                format!("`split` of axis {axis} of {ty} into {n} equal parts"),
                "the extent must be a multiple of the number of parts",
            ))
        });
        match axis {
            Ok(axis) => {
                let part = ty.shape[axis] / n;
                let one = |i| slice_axis(self, axis, i * part, (i + 1) * part, at);
                (0..n).map(one).collect()
            }
            Err(problem) => {
                let poison = wrong(problem, &[self], ty, at);
                vec![poison; n.min(MOST_PARTS)]
            }
        }
    }

    /// Returns the subarrays along an axis, which is removed. It is the inverse of [`stack`].
    #[track_caller]
    pub fn unstack(self, axis: impl Axis) -> Vec<Var> {
        let at = caller();
        let ty = self.ty(at);
        let axis = resolve_axis("unstack", axis, &ty.shape)
            .and_then(|axis| few("unstack", ty.shape[axis]).map(|()| axis));
        match axis {
            Ok(axis) => {
                let inner = ty.shape.without(&[axis]);
                let one = |i| reshape(slice_axis(self, axis, i, i + 1, at), inner.clone(), at);
                (0..ty.shape[axis]).map(one).collect()
            }
            Err(problem) => {
                wrong(problem, &[self], ty, at);
                Vec::new()
            }
        }
    }

    /// Returns the part of each matrix (of the last two axes) on and below its `k`-th diagonal, with zeros elsewhere.
    #[track_caller]
    pub fn tril(self, k: i64) -> Var {
        triangle(self, k, caller(), |row, column| row.ge(column))
    }

    /// Returns the part of each matrix (of the last two axes) on and above its `k`-th diagonal, with zeros elsewhere.
    #[track_caller]
    pub fn triu(self, k: i64) -> Var {
        triangle(self, k, caller(), |row, column| row.le(column))
    }
}

/// Joins arrays of one dtype along an existing axis.
///
/// Errors: `shape` if there are no arrays, or if extents differ along another axis.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| concat(&[x, y], 0), ([1.0], [2.0, 3.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "cat")]
#[doc(alias = "concatenate")]
#[doc(alias = "append")]
#[track_caller]
pub fn concat(parts: &[Var], axis: impl Axis) -> Var {
    let at = caller();
    let Some(first) = parts.first() else { return nothing("concat", at) };
    let ty = first.ty(at);
    match resolve_axis("concat", axis, &ty.shape) {
        Ok(axis) => trace::within("concat", || emit(Concatenate { axis }, parts, at)),
        Err(problem) => wrong(problem, parts, ty, at),
    }
}

/// Joins arrays of one type along a new axis at position `axis` of the result.
///
/// Errors: `shape` if there are no arrays, or if shapes differ.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| stack(&[x, y], 1), ([1.0, 2.0], [3.0, 4.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn stack(parts: &[Var], axis: impl Axis) -> Var {
    let at = caller();
    let Some(first) = parts.first() else { return nothing("stack", at) };
    let ty = first.ty(at);
    let axis = resolve_axis("stack", axis, &ty.shape.with_leading(1)).and_then(|axis| match parts
        .iter()
        .find(|p| p.ty(at).shape != ty.shape)
    {
        None => Ok(axis),
        Some(other) => Err(Problem::new(
            Kind::Shape,
            format!("`stack` needs equal shapes, got {ty} and {}", other.ty(at)),
            "bring the parts to one shape, or use `concat`",
        )),
    });
    match axis {
        Ok(axis) => {
            let lifted: Vec<Var> = parts.iter().map(|p| insert_axis(*p, axis, at)).collect();
            emit(Concatenate { axis }, &lifted, at)
        }
        Err(problem) => wrong(problem, parts, ty, at),
    }
}

/// The largest number of results that one operation, such as `split`, may add to a program. Compiling more would take
/// too long.
pub(crate) const MOST_PARTS: usize = 1 << 16;

/// Returns an error if an operation has more results than a program may have.
pub(crate) fn few(name: &str, parts: usize) -> Result<(), Problem> {
    if parts <= MOST_PARTS {
        return Ok(());
    }
    Err(Problem::new(
        Kind::TooLarge,
        format!(
            "`{name}` makes {parts} values, and {MOST_PARTS} is the most that one operation may"
        ),
        "work on the whole array, or on fewer and larger parts",
    ))
}

fn nothing(name: &str, at: Loc) -> Var {
    let message = format!("`{name}` of no arrays: the result would have no dtype");
    let problem = Problem::new(Kind::Shape, message, "give at least one array");
    wrong(problem, &[], ArrayType::new(Dtype::F64, Shape::scalar()), at)
}

pub(crate) fn reshape(x: Var, shape: Shape, at: Loc) -> Var {
    let ty = x.ty(at);
    if ty.shape == shape {
        return x;
    }
    if ty.shape.checked_elements() != shape.checked_elements() {
        return wrong(
            Problem::reshape(&ty, &shape),
            &[x],
            ArrayType { dtype: ty.dtype, shape },
            at,
        );
    }
    emit(Reshape { shape }, &[x], at)
}

pub(crate) fn permute(x: Var, permutation: Vec<usize>, at: Loc) -> Var {
    if permutation.is_sorted() { x } else { emit(Permute { permutation }, &[x], at) }
}

pub(crate) fn move_axis(x: Var, from: usize, to: usize, at: Loc) -> Var {
    let mut order: Vec<usize> = (0..x.ty(at).shape.len()).filter(|a| *a != from).collect();
    order.insert(to, from);
    permute(x, order, at)
}

pub(crate) fn insert_axis(x: Var, axis: usize, at: Loc) -> Var {
    let mut shape = x.ty(at).shape.to_vec();
    shape.insert(axis, 1);
    reshape(x, shape.into(), at)
}

pub(crate) fn slice_axis(x: Var, axis: usize, start: usize, limit: usize, at: Loc) -> Var {
    let shape = x.ty(at).shape;
    if start == 0 && limit == shape[axis] {
        return x;
    }
    let mut starts = vec![0; shape.len()];
    let mut limits = shape.to_vec();
    starts[axis] = start;
    limits[axis] = limit;
    emit(Slice::dense(starts, limits), &[x], at)
}

fn triangle(x: Var, k: i64, at: Loc, keep: fn(Var, Var) -> Var) -> Var {
    let ty = x.ty(at);
    let [.., n, m] = *ty.shape else {
        let message = format!("a triangle needs at least two axes, got {ty}");
        return wrong(Problem::new(Kind::Shape, message, "give a matrix"), &[x], ty, at);
    };
    // The offset k may be beyond all diagonals. Clamp it to the corner, so that sums with it do not overflow.
    let corner = |extent: usize| i64::try_from(extent).unwrap_or(i64::MAX);
    let k = k.clamp(-corner(n), corner(m));
    let index = |axis| {
        let iota = tapeloom_ir::prim::Iota { shape: [n, m].into(), axis, dtype: Dtype::I64 };
        emit(iota, &[], at)
    };
    let diagonal =
        super::binary(tapeloom_ir::Scalar::Add, index(0), Var::literal(Literal::i64(k), at), at);
    let mask = broadcast_var(keep(diagonal, index(1)), &ty.shape, at);
    let zero = Var::literal(Literal::zero(ty.dtype), at);
    emit(tapeloom_ir::Scalar::Select, &[mask, x, zero], at)
}
