//! Options of transforms: the axes, the numbers of points, and the normalization.

use crate::Var;
use crate::ops::{position, resolve_axes};
use std::ops::RangeFull;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};

/// The normalization of a transform of `n` points. The names are numpy's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Norm {
    /// The inverse divides by `n`.
    #[default]
    Backward,
    /// The forward and the inverse transform divide by `√n`, so both are unitary.
    Ortho,
    /// The forward transform divides by `n`.
    Forward,
}

impl Norm {
    /// Returns the factor by which a forward transform of `n` points is multiplied.
    pub(super) fn of_forward(self, n: f64) -> f64 {
        match self {
            Norm::Backward => 1.0,
            Norm::Ortho => 1.0 / n.sqrt(),
            Norm::Forward => 1.0 / n,
        }
    }

    /// Returns the factor by which an inverse transform of `n` points is multiplied.
    pub(super) fn of_inverse(self, n: f64) -> f64 {
        match self {
            Norm::Backward => Norm::Forward.of_forward(n),
            Norm::Ortho => Norm::Ortho.of_forward(n),
            Norm::Forward => 1.0,
        }
    }

    /// Returns the norm with the factors of the forward and the inverse transform exchanged.
    pub(super) fn reversed(self) -> Norm {
        match self {
            Norm::Backward => Norm::Forward,
            Norm::Ortho => Norm::Ortho,
            Norm::Forward => Norm::Backward,
        }
    }
}

/// The axes and options of a transform: an axis, a list of axes or `..` for all axes, or a result of [`along`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Along {
    axes: Which,
    points: Option<Vec<usize>>,
    norm: Norm,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Which {
    All,
    These(Vec<i64>),
}

/// Returns the options for a transform along the given axes: an axis, an array or a vector of axes, or `..` for all
/// axes. A negative axis counts from the end.
///
/// ```
/// use tapeloom::prelude::*;
/// let y = run(|x: Var| fft::rfft(x, fft::along(0).points(6)), [[1.0, 2.0], [3.0, 4.0]])?;
/// assert_eq!(y.re.shape(), [4, 2]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
pub fn along(axes: impl Into<Along>) -> Along {
    axes.into()
}

impl Along {
    /// Sets the number of points along the single axis: a longer axis is cut off, a shorter one is padded with
    /// zeros. For `irfft`, it is the length of the result.
    #[must_use]
    pub fn points(self, n: usize) -> Along {
        Along { points: Some(vec![n]), ..self }
    }

    /// Sets one number of points for each axis; see [`points`](Along::points).
    #[must_use]
    pub fn points_each(self, n: impl Into<Vec<usize>>) -> Along {
        Along { points: Some(n.into()), ..self }
    }

    /// Sets the normalization.
    #[must_use]
    pub fn norm(self, norm: Norm) -> Along {
        Along { norm, ..self }
    }

    /// Returns the normalization.
    pub(super) fn own_norm(&self) -> Norm {
        self.norm
    }

    fn of(axes: Which) -> Along {
        Along { axes, points: None, norm: Norm::Backward }
    }
}

impl From<RangeFull> for Along {
    fn from(_: RangeFull) -> Along {
        Along::of(Which::All)
    }
}

macro_rules! axes {
    ($($t:ty),*) => {$(
        impl From<$t> for Along {
            fn from(axis: $t) -> Along {
                Along::from([axis])
            }
        }
        impl<const N: usize> From<[$t; N]> for Along {
            fn from(axes: [$t; N]) -> Along {
                Along::from(&axes[..])
            }
        }
        impl From<Vec<$t>> for Along {
            fn from(axes: Vec<$t>) -> Along {
                Along::from(&axes[..])
            }
        }
        impl From<&[$t]> for Along {
            fn from(axes: &[$t]) -> Along {
                let number = |axis: &$t| i64::try_from(*axis).unwrap_or(i64::MAX);
                Along::of(Which::These(axes.iter().map(number).collect()))
            }
        }
    )*};
}
axes!(i32, i64, usize);

/// The resolved axes and options of a transform. Axes are counted from the front and are in the given order. An axis
/// without a number of points keeps its extent.
pub(super) struct Plan {
    pub(super) axes: Vec<usize>,
    pub(super) points: Vec<Option<usize>>,
    pub(super) norm: Norm,
}

impl Plan {
    /// Resolves the options `along` for an array of type `x`. Returns an error if the options are invalid or `x` is not
    /// of floats.
    pub(super) fn of(name: &str, along: &Along, x: &ArrayType) -> Result<Plan, Problem> {
        if !x.dtype.is_float() {
            let help = "convert first, as in `x.convert(Dtype::F64)`";
            let message = format!("`{name}` needs floats, got {x}");
            return Err(Problem::new(Kind::Dtype, message, help));
        }
        let rank = x.shape.len();
        let given = match &along.axes {
            Which::All => (0..rank as i64).collect(),
            Which::These(axes) => axes.clone(),
        };
        resolve_axes(name, &given, &x.shape)?;
        let axes: Vec<usize> = given.iter().filter_map(|axis| position(*axis, rank)).collect();
        let points = match &along.points {
            None => vec![None; axes.len()],
            Some(points) if points.len() == axes.len() => {
                points.iter().copied().map(Some).collect()
            }
            Some(points) => {
                let message = format!(
                    "`{name}` along {} axes is given {} numbers of points",
                    axes.len(),
                    points.len()
                );
                let help = "give one for each axis, by `points_each`";
                return Err(Problem::new(Kind::Shape, message, help));
            }
        };
        Ok(Plan { axes, points, norm: along.norm })
    }

    /// Resolves the options as [`of`](Plan::of) does. Returns an error unless there is exactly one axis.
    pub(super) fn of_one(name: &str, along: &Along, x: &ArrayType) -> Result<Plan, Problem> {
        let plan = Plan::of(name, along, x)?;
        match plan.axes.len() {
            1 => Ok(plan),
            n => {
                let message = format!("`{name}` of {x} along {n} axes");
                let help = format!("it transforms one axis; `{name}n` transforms several");
                Err(Problem::new(Kind::Shape, message, help))
            }
        }
    }

    /// Resolves the options as [`of`](Plan::of) does. Returns an error if there is no axis.
    pub(super) fn of_some(name: &str, along: &Along, x: &ArrayType) -> Result<Plan, Problem> {
        let plan = Plan::of(name, along, x)?;
        match plan.axes.is_empty() {
            false => Ok(plan),
            true => {
                let message = format!("`{name}` of {x} along no axis");
                Err(Problem::new(Kind::Shape, message, "name the axes to transform"))
            }
        }
    }

    /// Cuts off or pads with zeros each axis for which a number of points is given, so that it has this extent.
    pub(super) fn resized(&self, x: Var, at: Loc) -> Var {
        let mut y = x;
        for (axis, n) in self.axes.iter().zip(&self.points) {
            if let Some(n) = n {
                y = resized(y, *axis, *n, at);
            }
        }
        y
    }

    /// Returns the number of points of the transform: the product of the extents of its axes. It is a float, because
    /// the product may overflow an integer.
    pub(super) fn size(&self, x: Var, at: Loc) -> f64 {
        let shape = x.ty(at).shape;
        self.axes.iter().map(|axis| shape[*axis] as f64).product()
    }
}

/// Returns `x · factor`. If the transform has no points (`size` 0), its factor is not finite and `x` is returned
/// unchanged.
pub(super) fn scaled(x: Var, factor: f64, size: f64) -> Var {
    if factor == 1.0 || size == 0.0 { x } else { x * factor }
}

/// Cuts off or pads with zeros an axis of `x`, so that it has `n` elements.
pub(super) fn resized(x: Var, axis: usize, n: usize, at: Loc) -> Var {
    let shape = x.ty(at).shape;
    if shape[axis] == n {
        return x;
    }
    let mut widths = vec![(0, 0); shape.len()];
    let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    widths[axis].1 = signed(n) - signed(shape[axis]);
    x.pad(&widths, 0.0)
}
