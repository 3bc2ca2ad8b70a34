//! Operations on the order of axes and elements: new axes, rotation, shifts.

use super::axes::{Axes, resolve_axes};
use super::composite::misshapen;
use super::wrong;
use crate::Var;
use crate::var::{caller, on_behalf};
use tapeloom_ir::Loc;

/// New axes, rotation, shifts.
impl Var {
    /// Returns the array unchanged if it has an axis. A scalar becomes a vector of one element.
    #[track_caller]
    pub fn atleast_1d(self) -> Var {
        let at = caller();
        on_behalf("atleast_1d", at, || if self.rank() == 0 { self.reshape([1]) } else { self })
    }

    /// Returns the array with axes of extent 1 prepended until it has two axes: a vector becomes a row.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.atleast_2d(), [1.0, 2.0])?;
    /// assert_eq!(y.shape(), [1, 2]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn atleast_2d(self) -> Var {
        let at = caller();
        on_behalf("atleast_2d", at, || {
            if self.rank() < 2 { self.atleast_1d().expand_dims(0) } else { self }
        })
    }

    /// Returns the array with axes of extent 1 added until it has three axes: a vector of n becomes [1, n, 1], and
    /// a matrix gets a last axis.
    #[track_caller]
    pub fn atleast_3d(self) -> Var {
        let at = caller();
        on_behalf("atleast_3d", at, || {
            if self.rank() < 3 { self.atleast_2d().expand_dims(2) } else { self }
        })
    }

    /// Exchanges the last two axes, which transposes each matrix.
    ///
    /// Errors: `shape` for fewer than two axes.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| stack(&[x], 0).matrix_transpose(), [[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_transpose(self) -> Var {
        let at = caller();
        let ty = self.ty(at);
        if ty.shape.len() < 2 {
            let message = format!("`matrix_transpose` of {ty}");
            return misshapen(message, "give a matrix", &[self], ty, at);
        }
        on_behalf("matrix_transpose", at, || self.swap_axes(-1, -2))
    }

    /// Rotates the array by 90 degrees, `times` times, in the plane of two axes, from the first axis towards the
    /// second.
    ///
    /// Errors: `shape` unless there are exactly two distinct axes.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.rot90(1, [0, 1]), [[1.0, 2.0], [3.0, 4.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [2.0, 4.0, 1.0, 3.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn rot90(self, times: i64, axes: impl Axes) -> Var {
        let at = caller();
        let ty = self.ty(at);
        // The order of the two axes determines the direction of the rotation, so do not use `resolve_axes`, which sorts
        // them.
        let rank = ty.shape.len();
        let given = axes.numbers(rank);
        let places: Vec<usize> =
            given.iter().filter_map(|a| super::axes::position(*a, rank)).collect();
        let [i, j] = places[..] else {
            let message = format!("`rot90` of {ty} in the plane of the axes {given:?}");
            return misshapen(message, "name two axes", &[self], ty, at);
        };
        if i == j {
            let message = format!("`rot90` of {ty} in the plane of axis {i} alone");
            return misshapen(message, "name two axes", &[self], ty, at);
        }
        on_behalf("rot90", at, || match times.rem_euclid(4) {
            0 => self,
            1 => self.flip(j).swap_axes(i, j),
            2 => self.flip([i, j]),
            _ => self.swap_axes(i, j).flip(j),
        })
    }

    /// Exchanges the halves of some axes, so that frequency 0 of a Fourier transform moves from the first position
    /// to the middle.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.fftshift(0), [0.0, 1.0, 2.0, -2.0, -1.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [-2.0, -1.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn fftshift(self, axes: impl Axes) -> Var {
        shift("fftshift", self, &axes, caller(), |n| n / 2)
    }

    /// Inverts [`fftshift`](Var::fftshift): the middle element becomes the first one.
    #[track_caller]
    pub fn ifftshift(self, axes: impl Axes) -> Var {
        shift("ifftshift", self, &axes, caller(), |n| n - n / 2)
    }
}

fn shift(name: &'static str, x: Var, axes: &impl Axes, at: Loc, by: fn(usize) -> usize) -> Var {
    let ty = x.ty(at);
    match resolve_axes(name, axes, &ty.shape) {
        Ok(axes) => on_behalf(name, at, || {
            axes.iter().fold(x, |y, axis| y.roll(by(ty.shape[*axis]) as i64, *axis))
        }),
        Err(problem) => wrong(problem, &[x], ty, at),
    }
}
