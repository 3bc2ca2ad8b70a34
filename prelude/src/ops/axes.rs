//! The notations for axes: `0`, `-1`, `[0, 2]`, `..`.

use std::ops::RangeFull;
use tapeloom_ir::{Kind, Problem, Shape};

/// One axis. A negative number counts from the end.
pub trait Axis: Copy {
    /// Returns the number as written.
    #[doc(hidden)]
    fn number(self) -> i64;
}

macro_rules! axis {
    ($($t:ty),*) => {$(
        impl Axis for $t {
            fn number(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}
axis!(i32, i64, usize);

/// Several axes: one axis, an array or slice of axes, or `..` for all.
pub trait Axes {
    /// Returns the numbers of the axes of an array of rank `rank`. Negative numbers are not resolved.
    #[doc(hidden)]
    fn numbers(&self, rank: usize) -> Vec<i64>;
}

impl Axes for RangeFull {
    fn numbers(&self, rank: usize) -> Vec<i64> {
        (0..rank as i64).collect()
    }
}

macro_rules! axes {
    ($($t:ty),*) => {$(
        impl Axes for $t {
            fn numbers(&self, _: usize) -> Vec<i64> {
                vec![self.number()]
            }
        }
    )*};
}
axes!(i32, i64, usize);

impl<A: Axis, const N: usize> Axes for [A; N] {
    fn numbers(&self, _: usize) -> Vec<i64> {
        self.iter().map(|a| a.number()).collect()
    }
}

impl<A: Axis> Axes for &[A] {
    fn numbers(&self, _: usize) -> Vec<i64> {
        self.iter().map(|a| a.number()).collect()
    }
}

impl<A: Axis, const N: usize> Axes for &[A; N] {
    fn numbers(&self, _: usize) -> Vec<i64> {
        self.iter().map(|a| a.number()).collect()
    }
}

impl<A: Axis> Axes for Vec<A> {
    fn numbers(&self, _: usize) -> Vec<i64> {
        self.iter().map(|a| a.number()).collect()
    }
}

/// Converts an axis, which may count from the end, to one that counts from the front. Returns `None` if the axis does
/// not exist.
pub(crate) fn position(axis: i64, rank: usize) -> Option<usize> {
    let rank = rank as i64;
    let from_front = if axis < 0 { axis + rank } else { axis };
    (0..rank).contains(&from_front).then_some(from_front as usize)
}

/// Converts an axis of `shape` to one that counts from the front. Returns an error if the axis does not exist.
pub(crate) fn resolve_axis(name: &str, axis: impl Axis, shape: &Shape) -> Result<usize, Problem> {
    let axis = axis.number();
    position(axis, shape.len()).ok_or_else(|| no_axis(name, axis, shape))
}

/// Converts axes of `shape` to axes that count from the front, in ascending order. Returns an error if an axis does not
/// exist or is repeated.
pub(crate) fn resolve_axes(
    name: &str,
    axes: &impl Axes,
    shape: &Shape,
) -> Result<Vec<usize>, Problem> {
    let mut resolved = Vec::new();
    for axis in axes.numbers(shape.len()) {
        let a = position(axis, shape.len()).ok_or_else(|| no_axis(name, axis, shape))?;
        if resolved.contains(&a) {
            return Err(Problem::new(
                Kind::Shape,
                format!("`{name}` is given axis {axis} twice"),
                "name each axis once",
            ));
        }
        resolved.push(a);
    }
    resolved.sort_unstable();
    Ok(resolved)
}

fn no_axis(name: &str, axis: i64, shape: &Shape) -> Problem {
    let help = match shape.len() {
        0 => "a scalar has no axes".to_owned(),
        n => format!("axes are -{n} to {}", n - 1),
    };
    let message = format!("`{name}` along axis {axis} of shape {shape}, which has no such axis");
    Problem::new(Kind::Shape, message, help)
}
