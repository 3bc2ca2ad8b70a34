//! Which axes are transformed, with how many points, and who divides by `n`.

use crate::Var;
use crate::ops::{position, resolve_axes};
use std::ops::RangeFull;
use tapeloom_ir::{ArrayType, Kind, Loc, Problem};

/// Which direction of a transform of `n` points divides, and by what. The names are numpy's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Norm {
    /// The inverse divides by `n`.
    #[default]
    Backward,
    /// Both divide by `√n`, so both are unitary.
    Ortho,
    /// The forward transform divides by `n`.
    Forward,
}

impl Norm {
    /// What the forward transform is multiplied by.
    pub(super) fn of_forward(self, n: f64) -> f64 {
        match self {
            Norm::Backward => 1.0,
            Norm::Ortho => 1.0 / n.sqrt(),
            Norm::Forward => 1.0 / n,
        }
    }

    /// What the inverse transform is multiplied by.
    pub(super) fn of_inverse(self, n: f64) -> f64 {
        match self {
            Norm::Backward => Norm::Forward.of_forward(n),
            Norm::Ortho => Norm::Ortho.of_forward(n),
            Norm::Forward => 1.0,
        }
    }

    /// The one with which the other direction scales as this one does.
    pub(super) fn reversed(self) -> Norm {
        match self {
            Norm::Backward => Norm::Forward,
            Norm::Ortho => Norm::Ortho,
            Norm::Forward => Norm::Backward,
        }
    }
}

/// Which axes are transformed, and how: an axis, a list of axes or `..` for all, or what [`along`] makes of one of these.
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

/// The transform along those axes: an axis, an array or a vector of axes, or `..` for all. Negative ones count from the
/// end.
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
    /// The transform of so many points along its one axis: elements beyond are cut off, zeros are put where there are
    /// fewer. For `irfft` it is the length of the result.
    #[must_use]
    pub fn points(self, n: usize) -> Along {
        Along { points: Some(vec![n]), ..self }
    }

    /// As [`points`](Along::points), one number for each axis.
    #[must_use]
    pub fn points_each(self, n: impl Into<Vec<usize>>) -> Along {
        Along { points: Some(n.into()), ..self }
    }

    /// Which direction divides.
    #[must_use]
    pub fn norm(self, norm: Norm) -> Along {
        Along { norm, ..self }
    }

    /// The norm asked for.
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

/// A transform of an array: the axes counted from the front, in the order given, with a number of points where one
/// is given.
pub(super) struct Plan {
    pub(super) axes: Vec<usize>,
    pub(super) points: Vec<Option<usize>>,
    pub(super) norm: Norm,
}

impl Plan {
    /// For an array of floats with these axes, or what is wrong.
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

    /// As [`of`](Plan::of), along one axis.
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

    /// As [`of`](Plan::of), along one axis at least.
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

    /// `x` with the numbers of points given: cut off, or zeros behind.
    pub(super) fn resized(&self, x: Var, at: Loc) -> Var {
        let mut y = x;
        for (axis, n) in self.axes.iter().zip(&self.points) {
            if let Some(n) = n {
                y = resized(y, *axis, *n, at);
            }
        }
        y
    }

    /// The product of the extents along the axes, which may be too large for an integer.
    pub(super) fn size(&self, x: Var, at: Loc) -> f64 {
        let shape = x.ty(at).shape;
        self.axes.iter().map(|axis| shape[*axis] as f64).product()
    }
}

/// `x` times a factor of a transform of that many points; of none there is nothing to scale.
pub(super) fn scaled(x: Var, factor: f64, size: f64) -> Var {
    if factor == 1.0 || size == 0.0 { x } else { x * factor }
}

/// `x` with `n` elements along an axis: cut off, or zeros behind.
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
