//! Joining, splitting, padding, inserting and deleting.

use super::axes::{Axis, resolve_axis};
use super::composite::{along, list, misshapen, number};
use super::index::materialize;
use super::shape::{MOST_PARTS, few, slice_axis};
use super::{broadcast_shapes, broadcast_together, concat, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use std::ops::RangeBounds;
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// The largest padded extent of an axis in [`Var::pad_like`], which lists the source index of each element of the axis
/// while it traces.
const LISTED: usize = 1 << 26;

/// Joins arrays along axis 1, or along axis 0 if they are vectors or scalars.
///
/// Errors: `shape` if there are no arrays, or if extents differ along another axis.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| hstack(&[x, y]), ([1.0, 2.0], [3.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn hstack(parts: &[Var]) -> Var {
    on_behalf("hstack", caller(), || {
        let lifted: Vec<Var> = parts.iter().map(|p| p.atleast_1d()).collect();
        let vectors = lifted.first().is_none_or(|p| p.rank() == 1);
        concat(&lifted, if vectors { 0 } else { 1 })
    })
}

/// Joins arrays along axis 0; vectors become rows.
///
/// Errors: `shape` if there are no arrays, or if extents differ along another axis.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| vstack(&[x, y]), ([1.0, 2.0], [3.0, 4.0]))?;
/// assert_eq!(y.shape(), [2, 2]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "row_stack")]
#[track_caller]
pub fn vstack(parts: &[Var]) -> Var {
    on_behalf("vstack", caller(), || {
        concat(&parts.iter().map(|p| p.atleast_2d()).collect::<Vec<_>>(), 0)
    })
}

/// Joins arrays along axis 2. Vectors and matrices are extended to three axes first.
///
/// Errors: `shape` if there are no arrays, or if extents differ along another axis.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| dstack(&[x, y]), ([1.0, 2.0], [3.0, 4.0]))?;
/// assert_eq!(y.shape(), [1, 2, 2]);
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn dstack(parts: &[Var]) -> Var {
    on_behalf("dstack", caller(), || {
        concat(&parts.iter().map(|p| p.atleast_3d()).collect::<Vec<_>>(), 2)
    })
}

/// Joins vectors and matrices along axis 1. A vector counts as one column.
///
/// Errors: `shape` if there are no arrays, or if their lengths differ.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| column_stack(&[x, y]), ([1.0, 2.0], [3.0, 4.0]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn column_stack(parts: &[Var]) -> Var {
    on_behalf("column_stack", caller(), || {
        let column = |p: &Var| if p.rank() < 2 { p.atleast_1d().expand_dims(1) } else { *p };
        concat(&parts.iter().map(column).collect::<Vec<_>>(), 1)
    })
}

/// Returns the matrix with the given matrices along its diagonal, zeros elsewhere; vectors count as rows.
///
/// Errors: `shape` if there are no matrices, or if one has more than two axes; `dtype` if their dtypes differ.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|(x, y): (Var, Var)| block_diag(&[x, y]), ([[1.0, 2.0]], [[3.0]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 0.0, 0.0, 0.0, 3.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn block_diag(parts: &[Var]) -> Var {
    let at = caller();
    let types: Vec<ArrayType> = parts.iter().map(|p| p.ty(at)).collect();
    if types.iter().any(|t| t.shape.len() > 2) {
        let message = format!("`block_diag` of {}", list(&types));
        return misshapen(message, "give matrices", parts, types[0].clone(), at);
    }
    on_behalf("block_diag", at, || {
        let blocks: Vec<Var> = parts.iter().map(|p| p.atleast_2d()).collect();
        let wider = |width: usize, b: &Var| width.checked_add(b.shape()[1]);
        let width = blocks.iter().try_fold(0, wider).filter(|n| i64::try_from(*n).is_ok());
        let Some(width) = width else {
            let message = format!("`block_diag` of {} matrices is too wide", parts.len());
            let problem = Problem::new(Kind::TooLarge, message, "give fewer or smaller matrices");
            return wrong(problem, parts, types[0].clone(), at);
        };
        let mut before = 0;
        let bands: Vec<Var> = blocks
            .iter()
            .map(|b| {
                let own = b.shape()[1];
                let widths = [(0, 0), (before as i64, (width - before - own) as i64)];
                before += own;
                b.pad(&widths, number(*b, 0.0))
            })
            .collect();
        concat(&bands, 0)
    })
}

/// Returns the coordinates of the points of a grid: array i of the result has the values of vector i along its own
/// axis, in the shape of the whole grid. The first two axes are exchanged, as in numpy, so the first axis belongs to
/// the second vector. [`meshgrid_ij`] has the axes in the order of the vectors.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, y): (Var, Var)| meshgrid(&[x, y]));
/// let grid = f.call(([1.0, 2.0, 3.0], [10.0, 20.0]))?;
/// assert_eq!(grid[0].to_vec::<f64>()?, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
/// assert_eq!(grid[1].to_vec::<f64>()?, [10.0, 10.0, 10.0, 20.0, 20.0, 20.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[track_caller]
pub fn meshgrid(vectors: &[Var]) -> Vec<Var> {
    on_behalf("meshgrid", caller(), || {
        let grid = meshgrid_ij(vectors);
        if vectors.len() < 2 { grid } else { grid.iter().map(|x| x.swap_axes(0, 1)).collect() }
    })
}

/// Returns the coordinates of the points of a grid whose axis i belongs to vector i (numpy's `indexing="ij"`).
///
/// Errors: `shape` if an array has more than one axis.
#[doc(alias = "mgrid", alias = "ogrid", alias = "cartesian_prod")]
#[track_caller]
pub fn meshgrid_ij(vectors: &[Var]) -> Vec<Var> {
    let at = caller();
    let shape: Shape = vectors.iter().map(|v| v.ty(at).shape.elements()).collect();
    let one = |(i, v): (usize, &Var)| {
        let ty = v.ty(at);
        if ty.shape.len() > 1 {
            let guess = ArrayType { dtype: ty.dtype, shape: shape.clone() };
            let message = format!("`meshgrid_ij` of {ty}");
            return misshapen(message, "give vectors", &[*v], guess, at);
        }
        let mut own = vec![1; vectors.len()];
        own[i] = shape[i];
        on_behalf("meshgrid_ij", at, || v.reshape(own).broadcast_to(&shape))
    };
    vectors.iter().enumerate().map(one).collect()
}

/// Broadcasts arrays to their common shape.
///
/// Errors: `shape` if there is no common shape.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|(x, y): (Var, Var)| broadcast_arrays(&[x, y]));
/// let y = f.call(([1.0, 2.0], [[3.0], [4.0]]))?;
/// assert_eq!(y[0].to_vec::<f64>()?, [1.0, 2.0, 1.0, 2.0]);
/// assert_eq!(y[1].to_vec::<f64>()?, [3.0, 3.0, 4.0, 4.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "broadcast_tensors")]
#[track_caller]
pub fn broadcast_arrays(arrays: &[Var]) -> Vec<Var> {
    let at = caller();
    match broadcast_together("broadcast_arrays", arrays, at) {
        Ok((_, shape)) => arrays.iter().map(|x| super::broadcast_var(*x, &shape, at)).collect(),
        Err(problem) => {
            let guess = arrays.first().map_or(ArrayType::new(Dtype::F64, []), |x| x.ty(at));
            vec![wrong(problem, arrays, guess, at); arrays.len()]
        }
    }
}

/// The rule by which [`Var::pad_like`] chooses the elements that it adds before and after the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Repeats the element at the padded end: `a a | a b c | c c`.
    Edge,
    /// Mirrors the array at its end element, which is not repeated: `c b | a b c | b a`.
    Reflect,
    /// Mirrors the array beyond its end element, which is repeated: `b a | a b c | c b`.
    Symmetric,
    /// Continues with the array from its other end: `b c | a b c | a b`.
    Wrap,
}

impl Padding {
    /// Returns the index, in the unpadded axis of extent n, of the element that the padded axis contains at index i.
    /// The index i counts from the first unpadded element: it is negative in the padding before the array, and n or
    /// more in the padding behind it.
    fn source(self, i: i64, n: i64) -> i64 {
        match self {
            Padding::Edge => i.clamp(0, n - 1),
            Padding::Wrap => i.rem_euclid(n),
            Padding::Reflect if n == 1 => 0,
            Padding::Reflect => {
                let place = i.rem_euclid(2 * (n - 1));
                place.min(2 * (n - 1) - place)
            }
            Padding::Symmetric => {
                let place = i.rem_euclid(2 * n);
                place.min(2 * n - 1 - place)
            }
        }
    }
}

/// Padding, inserting and deleting.
impl Var {
    /// Pads each axis with elements of the array: one pair (before, after) per axis. ([`pad`](Var::pad) pads with a
    /// number.)
    ///
    /// Errors: `shape` if there is not one pair per axis, or if a padded axis is empty.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.pad_like(&[(2, 1)], Padding::Reflect), [1.0, 2.0, 3.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "pad")]
    #[track_caller]
    pub fn pad_like(self, widths: &[(usize, usize)], padding: Padding) -> Var {
        let at = caller();
        let ty = self.ty(at);
        let empty = |(n, w): (&usize, &(usize, usize))| *n == 0 && *w != (0, 0);
        if widths.len() != ty.shape.len() || ty.shape.iter().zip(widths).any(empty) {
            let message = format!("`pad_like` of {ty} by {widths:?}");
            let help = "give one pair per axis; an empty axis has nothing to repeat";
            return misshapen(message, help, &[self], ty, at);
        }
        // The source of each element is listed while tracing, so the extent is limited.
        let listed = |(n, w): (&usize, &(usize, usize))| {
            let all = n.checked_add(w.0).and_then(|n| n.checked_add(w.1));
            all.is_some_and(|n| n <= LISTED)
        };
        if !ty.shape.iter().zip(widths).all(listed) {
            let message = format!("`pad_like` of {ty} by {widths:?}");
            let help = format!("an axis may be padded to {LISTED} elements");
            return wrong(Problem::new(Kind::TooLarge, message, help), &[self], ty, at);
        }
        let mut y = self;
        for (axis, (before, behind)) in widths.iter().enumerate() {
            let n = ty.shape[axis] as i64;
            let places = -(*before as i64)..n + *behind as i64;
            let sources = places.map(|i| padding.source(i, n) as usize).collect::<Vec<_>>();
            y = pick(y, axis, &sources, at);
        }
        y
    }

    /// Inserts `values` before index `index` along an axis (a negative index counts from the end). The values
    /// broadcast against one slice, or have several slices along that axis.
    ///
    /// Errors: `shape` if the index does not exist, or if the values do not fit.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.insert(1, 9.0, 0), [1.0, 2.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 9.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn insert(self, index: i64, values: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let values = values.beside(self, at);
        along("insert", self, axis, at, |x, axis| {
            let (ty, tv) = (x.ty(at), values.ty(at));
            let n = ty.shape[axis] as i64;
            let place = if index < 0 { index + n } else { index };
            // The number of inserted slices: the extent of the values along the axis, or 1 if they do not have that
            // axis.
            let mut shape = ty.shape.clone();
            let of_their_own = (tv.shape.len() + axis).checked_sub(ty.shape.len());
            shape[axis] = of_their_own.map_or(1, |i| tv.shape[i]);
            let fits = broadcast_shapes(&tv.shape, &shape).as_ref() == Some(&shape);
            if !(0..=n).contains(&place) || !fits {
                let message =
                    format!("`insert` of {tv} at position {index} of axis {axis} of {ty}");
                let help = "the position must exist, and all other axes must fit";
                return misshapen(message, help, &[x, values], ty, at);
            }
            let place = place as usize;
            let (before, behind) = (x.slice_axis(axis, ..place), x.slice_axis(axis, place..));
            concat(&[before, materialize(values, &shape, at), behind], axis)
        })
    }

    /// Removes a range of slices along an axis.
    ///
    /// Errors: `shape` if the range is not within the axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.delete(1..3, 0), [1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn delete(self, range: impl RangeBounds<usize>, axis: impl Axis) -> Var {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let at = caller();
        along("delete", self, axis, at, |x, axis| {
            let ty = x.ty(at);
            let n = ty.shape[axis];
            let start = match range.start_bound() {
                Included(i) => Some(*i),
                Excluded(i) => i.checked_add(1),
                Unbounded => Some(0),
            };
            let limit = match range.end_bound() {
                Included(i) => i.checked_add(1),
                Excluded(i) => Some(*i),
                Unbounded => Some(n),
            };
            match (start, limit) {
                (Some(start), Some(limit)) if start <= limit && limit <= n => {
                    let (before, behind) =
                        (slice_axis(x, axis, 0, start, at), slice_axis(x, axis, limit, n, at));
                    concat(&[before, behind], axis)
                }
                _ => {
                    let message = format!("`delete` beyond axis {axis} of {ty}");
                    let help = "the range must lie within the axis";
                    misshapen(message, help, &[x], ty, at)
                }
            }
        })
    }

    /// Returns the slices along an axis whose flag is true. Flags are Rust bools, known at tracing.
    ///
    /// Errors: `shape` if there is not one flag per slice.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.compress(&[true, false, true], 0), [1.0, 2.0, 3.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn compress(self, flags: &[bool], axis: impl Axis) -> Var {
        let at = caller();
        along("compress", self, axis, at, |x, axis| {
            let ty = x.ty(at);
            if flags.len() != ty.shape[axis] {
                let message =
                    format!("`compress` of axis {axis} of {ty} with {} flags", flags.len());
                return misshapen(message, "give one flag per place", &[x], ty, at);
            }
            let taken: Vec<usize> = (0..flags.len()).filter(|i| flags[*i]).collect();
            pick(x, axis, &taken, at)
        })
    }

    /// Returns all elements in row-major order in another shape, repeated from the start as often as needed. If the
    /// array is empty, the result is zeros.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.resize([2, 2]), [1.0, 2.0, 3.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 3.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn resize(self, shape: impl Into<Shape>) -> Var {
        let (at, shape) = (caller(), shape.into());
        let ty = self.ty(at);
        let (have, want) = (ty.shape.elements(), shape.checked_elements().unwrap_or(usize::MAX));
        if have == 0 {
            return super::zeros_like_type(&ArrayType { dtype: ty.dtype, shape }, at);
        }
        on_behalf("resize", at, || {
            let all = self.flatten().tile([want.div_ceil(have)]);
            all.slice_axis(0, ..want).reshape(shape)
        })
    }
}

/// Returns the slices at the given indices of an axis. The indices are known at tracing, so a run of consecutive
/// indices is read by one slice operation, which is reversed if the indices descend.
fn pick(x: Var, axis: usize, places: &[usize], at: Loc) -> Var {
    on_behalf("pick", at, || {
        let mut parts = Vec::new();
        let mut rest = places;
        while let Some((first, more)) = rest.split_first() {
            // Take the longest run of indices that ascend or descend by 1, or a single index.
            let run = |next: fn(usize, usize) -> bool| {
                let steps = rest.windows(2).take_while(|w| next(w[0], w[1])).count();
                steps + 1
            };
            let (up, down, same) =
                (run(|i, j| j == i + 1), run(|i, j| i == j + 1), run(|i, j| i == j));
            let n = up.max(down).max(same);
            parts.push(if n == 1 || n == up {
                x.slice_axis(axis, *first..first + n)
            } else if n == down {
                x.slice_axis(axis, first + 1 - n..first + 1).flip(axis)
            } else {
                x.slice_axis(axis, *first..first + 1).repeat(n, axis)
            });
            rest = if n == 1 { more } else { &rest[n..] };
        }
        match parts.as_slice() {
            [] => x.slice_axis(axis, ..0),
            [one] => *one,
            many => concat(many, axis),
        }
    })
}

/// Splitting.
impl Var {
    /// Splits an axis at the ascending indices `places`. A part ends before each of these indices, and the last part at
    /// the end of the axis.
    ///
    /// Errors: `shape` if the places do not ascend, or are outside the axis.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.split_at(&[1, 3], 0));
    /// let parts = f.call([1.0, 2.0, 3.0, 4.0])?;
    /// assert_eq!(parts[1].to_vec::<f64>()?, [2.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn split_at(self, places: &[usize], axis: impl Axis) -> Vec<Var> {
        let at = caller();
        let ty = self.ty(at);
        let axis = resolve_axis("split_at", axis, &ty.shape).and_then(|axis| {
            let n = ty.shape[axis];
            if places.is_sorted() && places.last().is_none_or(|p| *p <= n) {
                return Ok(axis);
            }
            let message = format!("`split_at` of axis {axis} of {ty} at {places:?}");
            Err(Problem::new(Kind::Shape, message, "the places must ascend within the axis"))
        });
        match axis {
            Ok(axis) => {
                let starts = [0].iter().chain(places);
                let limits = places.iter().chain(std::iter::once(&ty.shape[axis]));
                starts.zip(limits).map(|(i, j)| slice_axis(self, axis, *i, *j, at)).collect()
            }
            Err(problem) => vec![wrong(problem, &[self], ty, at); places.len() + 1],
        }
    }

    /// Splits an axis into `n` parts of nearly equal extent: if the extent is not a multiple of `n`, the first
    /// parts are longer by one.
    ///
    /// Errors: `shape` if `n` is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|x: Var| x.array_split(2, 0));
    /// let parts = f.call([1.0, 2.0, 3.0])?;
    /// assert_eq!(parts[0].to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "tensor_split")]
    #[doc(alias = "chunk")]
    #[track_caller]
    pub fn array_split(self, n: usize, axis: impl Axis) -> Vec<Var> {
        let at = caller();
        let ty = self.ty(at);
        let axis = resolve_axis("array_split", axis, &ty.shape).and_then(|axis| {
            let message = format!("`array_split` of {ty} into no parts");
            let problem = Problem::new(Kind::Shape, message, "ask for at least one part");
            few("array_split", n)?;
            if n > 0 { Ok(axis) } else { Err(problem) }
        });
        match axis {
            Ok(axis) => {
                let (part, longer) = (ty.shape[axis] / n, ty.shape[axis] % n);
                let places: Vec<usize> = (1..n).map(|i| i * part + i.min(longer)).collect();
                on_behalf("array_split", at, || self.split_at(&places, axis))
            }
            Err(problem) => vec![wrong(problem, &[self], ty, at); n.min(MOST_PARTS)],
        }
    }
}
