//! The positions of windows along the spatial axes of an array.

use crate::Var;
use crate::ops::emit;
use tapeloom_ir::prim::{Broadcast, Move, Pad, Window};
use tapeloom_ir::{Kind, Literal, Loc, Problem, Shape, address_space};

/// The padding of an array.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Padding {
    /// No padding.
    #[default]
    Valid,
    /// The padding for which the extent of the output is that of the input divided by the stride, rounded up. If
    /// the padding is odd, the larger half is at the end.
    Same,
    /// The padding of `Same`, except that the larger half of an odd padding is at the front.
    SameLower,
    /// The given padding at the front and at the end of each axis; negative numbers crop.
    Explicit(Vec<(i64, i64)>),
}

/// The strides, dilations and padding of windows along each axis. An empty list of strides or dilations means 1 for
/// every axis. A list of one element applies to every axis.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Steps {
    pub(super) strides: Vec<usize>,
    pub(super) dilation: Vec<usize>,
    pub(super) input_dilation: Vec<usize>,
    padding: Padding,
}

/// The windows along one axis: their size, distances and number.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisWindows {
    pub(super) size: usize,
    stride: usize,
    dilation: usize,
    input_dilation: usize,
    low: i64,
    /// The number of elements of the array along the axis.
    elements: usize,
    /// The number of windows.
    extent: usize,
}

impl Steps {
    pub(super) fn same(self) -> Steps {
        Steps { padding: Padding::Same, ..self }
    }

    pub(super) fn same_lower(self) -> Steps {
        Steps { padding: Padding::SameLower, ..self }
    }

    pub(super) fn padding(self, each: Vec<(i64, i64)>) -> Steps {
        Steps { padding: Padding::Explicit(each), ..self }
    }

    /// Returns the steps of the transposed convolution, which enlarges an array by the strides. The padding of the
    /// returned steps is such that the result has the extents of an array to which a convolution with the steps `self`
    /// is applied.
    pub(super) fn transposed(&self, along: &[AxisWindows]) -> Steps {
        let pair = |a: &AxisWindows| {
            // If the array has no elements along the axis, the result must have none either, also for a kernel of one
            // element.
            if a.elements == 0 {
                return (0, -1);
            }
            let (k, s) = ((a.size as i64 - 1) * a.dilation as i64 + 1, a.stride as i64);
            let (all, low) = match self.padding {
                Padding::Same | Padding::SameLower if s > k - 1 => (k + s - 2, k - 1),
                Padding::Same | Padding::SameLower => (k + s - 2, (k + s - 1) / 2),
                Padding::Valid | Padding::Explicit(_) => (k + s - 2 + (k - s).max(0), k - 1),
            };
            (low, all - low)
        };
        let padding = match &self.padding {
            Padding::Explicit(pairs) => Padding::Explicit(pairs.clone()),
            _ => Padding::Explicit(along.iter().map(pair).collect()),
        };
        Steps {
            strides: Vec::new(),
            dilation: self.dilation.clone(),
            input_dilation: self.strides.clone(),
            padding,
        }
    }

    /// Returns, for each axis, the windows of the given size over an axis of the given extent.
    pub(super) fn along(
        &self,
        name: &str,
        extents: &[usize],
        sizes: &[usize],
    ) -> Result<Vec<AxisWindows>, Problem> {
        let d = extents.len();
        let strides = each(name, "strides", &self.strides, d)?;
        let dilation = each(name, "dilation", &self.dilation, d)?;
        let input_dilation = each(name, "input dilation", &self.input_dilation, d)?;
        let explicit = match &self.padding {
            Padding::Explicit(pairs) => Some(of_each(name, "padding", pairs, d)?),
            Padding::Valid | Padding::Same | Padding::SameLower => None,
        };
        let axis = |i: usize| {
            let spread = |n: usize, by: usize| match n {
                0 => 0,
                n => (n as i128 - 1) * by as i128 + 1,
            };
            let (n, k) = (spread(extents[i], input_dilation[i]), spread(sizes[i], dilation[i]));
            let stride = strides[i] as i128;
            let needed = || {
                let out = (n + stride - 1) / stride;
                ((out - 1) * stride + k - n).max(0)
            };
            let (low, high) = match &self.padding {
                Padding::Valid => (0, 0),
                Padding::Same => (needed() / 2, needed() - needed() / 2),
                Padding::SameLower => (needed() - needed() / 2, needed() / 2),
                Padding::Explicit(_) => {
                    let (low, high) = explicit.as_ref().map_or((0, 0), |pairs| pairs[i]);
                    (low.into(), high.into())
                }
            };
            let room = n + low + high - k;
            let extent = if room < 0 { 0 } else { room / stride + 1 };
            let fits = |x: i128| i64::try_from(x).ok().filter(|x| x.unsigned_abs() < 1 << 60);
            match (usize::try_from(extent), fits(low), fits(n), fits(k), fits(stride)) {
                (Ok(extent), Some(low), Some(_), Some(_), Some(_))
                    if extent < address_space::limit(60) =>
                {
                    Ok(AxisWindows {
                        size: sizes[i],
                        stride: strides[i],
                        dilation: dilation[i],
                        input_dilation: input_dilation[i],
                        low,
                        elements: extents[i],
                        extent,
                    })
                }
                _ => Err(Problem::new(
                    Kind::TooLarge,
                    format!(
                        "`{name}` along spatial axis {i}: windows over {k} elements, the stride \
                         {stride} and the padding ({low}, {high}), over {n} elements"
                    ),
                    "give smaller strides, dilations or paddings",
                )),
            }
        };
        (0..d).map(axis).collect()
    }
}

/// Expands an option to one positive number for each of `d` axes. A list of one number applies to all axes, and an
/// empty list means 1.
fn each(name: &str, what: &str, given: &[usize], d: usize) -> Result<Vec<usize>, Problem> {
    if given.contains(&0) {
        let message = format!("`{name}` with the {what} {given:?}");
        return Err(Problem::new(Kind::Shape, message, "these numbers must be at least 1"));
    }
    match given {
        [] => Ok(vec![1; d]),
        _ => of_each(name, what, given, d),
    }
}

fn of_each<T: Copy + std::fmt::Debug>(
    name: &str,
    what: &str,
    given: &[T],
    d: usize,
) -> Result<Vec<T>, Problem> {
    match given {
        [one] => Ok(vec![*one; d]),
        _ if given.len() == d => Ok(given.to_vec()),
        _ => {
            let message = format!("`{name}` over {d} spatial axes with the {what} {given:?}");
            let help = format!("give one for each of the {d} axes, or one for all");
            Err(Problem::new(Kind::Shape, message, help))
        }
    }
}

/// Returns the windows of an array along the given axes. The new axes, along which the elements within a window lie,
/// are inserted at index `first`.
pub(super) fn view(
    x: Var,
    axes: &[usize],
    along: &[AxisWindows],
    first: usize,
    fill: Literal,
    at: Loc,
) -> Var {
    let (rank, d) = (x.ty(at).shape.len(), axes.len());
    let place = |axis: usize| if axis < first { axis } else { axis + d };
    let with_places = |x: Var| {
        let own = x.ty(at).shape;
        let sizes = along.iter().map(|a| a.size);
        let (before, behind) = (&own[..first], &own[first..]);
        before.iter().copied().chain(sizes).chain(behind.iter().copied()).collect::<Shape>()
    };
    let each = axes.iter().zip(along).enumerate();
    let moves = each.map(|(i, (axis, a))| Move {
        axis: place(*axis),
        tap: first + i,
        scale: a.stride as i64,
        step: a.dilation as i64,
        offset: -a.low,
        divisor: a.input_dilation,
        extent: a.extent,
    });
    // Pad the array before its elements are repeated for the windows, so that windows have constant strides.
    let (pad, window) = Window { moves: moves.collect() }.padded(&with_places(x));
    let fill = Var::literal(fill, at);
    let pad = Pad {
        low: (0..rank).map(|axis| pad.low[place(axis)]).collect(),
        high: (0..rank).map(|axis| pad.high[place(axis)]).collect(),
        interior: (0..rank).map(|axis| pad.interior[place(axis)]).collect(),
    };
    let x = if pad.is_nothing() { x } else { emit(pad, &[x, fill], at) };
    let dims = (0..rank).map(place).collect();
    let repeated = emit(Broadcast { shape: with_places(x), dims }, &[x], at);
    emit(window, &[repeated, fill], at)
}

/// Defines the methods that set the steps of windows.
macro_rules! steps {
    ($for:ident) => {
        impl $for {
            /// Sets the distance between neighbouring windows along each axis. Give one number per axis, or one for all
            /// axes.
            #[must_use]
            pub fn strides(mut self, each: impl Into<Vec<usize>>) -> $for {
                self.steps.strides = each.into();
                self
            }

            /// Sets the distance between the elements within a window: with 2, one element between two elements of a
            /// window is skipped. Give one number per axis, or one for all axes.
            #[doc(alias = "rhs_dilation")]
            #[doc(alias = "kernel_dilation")]
            #[doc(alias = "window_dilation")]
            #[must_use]
            pub fn dilation(mut self, each: impl Into<Vec<usize>>) -> $for {
                self.steps.dilation = each.into();
                self
            }

            /// Sets the distance between the elements of the array: with 2, one fill element is inserted between two
            /// elements. Give one number per axis, or one for all axes.
            #[doc(alias = "lhs_dilation")]
            #[doc(alias = "base_dilation")]
            #[must_use]
            pub fn input_dilation(mut self, each: impl Into<Vec<usize>>) -> $for {
                self.steps.input_dilation = each.into();
                self
            }

            /// Sets the padding at the front and at the end of each axis; negative numbers crop. Give one pair per
            /// axis, or one pair for all axes.
            #[must_use]
            pub fn padding(mut self, each: impl Into<Vec<(i64, i64)>>) -> $for {
                self.steps = self.steps.padding(each.into());
                self
            }

            /// Sets the padding for which the extent of the output is that of the input divided by the stride,
            /// rounded up. If the padding is odd, the larger half is at the end.
            #[must_use]
            pub fn same(mut self) -> $for {
                self.steps = self.steps.same();
                self
            }

            /// Sets the padding of [`same`](Self::same), except that the larger half of an odd padding is at the front.
            #[must_use]
            pub fn same_lower(mut self) -> $for {
                self.steps = self.steps.same_lower();
                self
            }
        }
    };
}
pub(super) use steps;

/// Windows over some axes of an array, as returned by [`windows`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Windows {
    pub(super) sizes: Vec<usize>,
    pub(super) axes: Option<Vec<i64>>,
    pub(super) steps: Steps,
}

steps!(Windows);

/// Returns windows of the given sizes over the last axes of an array, one size per axis, with stride 1 and without
/// padding.
///
/// ```
/// use tapeloom::prelude::*;
/// let two = |x: Var| conv::sum_pool(x, conv::windows([2]).strides([2]));
/// assert_eq!(run(two, [1.0, 2.0, 3.0, 4.0])?.to_vec::<f64>()?, [3.0, 7.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn windows(sizes: impl Into<Vec<usize>>) -> Windows {
    Windows { sizes: sizes.into(), axes: None, steps: Steps::default() }
}

impl Windows {
    /// Sets the axes of the windows, one for each size. By default these are the last axes of the array. A negative
    /// axis counts from the end.
    #[must_use]
    pub fn along(self, axes: impl Into<Vec<i64>>) -> Windows {
        Windows { axes: Some(axes.into()), ..self }
    }
}
