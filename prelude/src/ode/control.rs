//! Step size control: the norm of an error, and the size of the next step.
//!
//! ```text
//! |e| = sqrt(mean of (eᵢ / (atol + rtol max(|yᵢ|, |y'ᵢ|)))²)            a step is accepted where |e| ≤ 1
//! |e of q| = sqrt(mean of (eᵢ / (atol + rtol max(|qᵢ|, |q'ᵢ|, sum of |Δqᵢ|)))²)      integrals q, where they count
//! h' = h clamp(0.9 |e|^-α |e before|^β, 1/5, 10)                            α = 1/p - 3/4 β, β = 0.04
//! ```
//!
//! Errors and step sizes are constants for derivatives, so the derivative of a solution is that of the steps that were
//! taken, with their sizes held fixed. The solution depends on the choice of steps only by an error within the
//! tolerance, so the derivative through that choice is the derivative of this error alone. It is discontinuous where a
//! step is rejected, does not belong to the gradient, and would lengthen the reverse pass.
//!
//! Integrals q, on which no slope depends, have a norm of their own, and the larger of the two norms counts: in one
//! norm with many states, the error of a single integral would be averaged out. The scale of an integral includes
//! the sum of all |Δq| so far, since an integral may return to zero. If the state has an array of tolerances, atol
//! and rtol of integrals are the least ones.
//!
//! Source: Hairer, Nørsett and Wanner, *Solving Ordinary Differential Equations I* (1993), section II.4; Hairer and
//! Wanner, volume II (1996), section IV.2 (Gustafsson's control, which also uses the error of the step before);
//! Hindmarsh and others, *SUNDIALS* (2005), on quadratures in CVODES.

use super::state::{Slope, advanced, difference};
use crate::Var;
use crate::ops::functions::{constant, select};

/// A step size is this fraction of the step size at which the estimated error would equal the tolerance.
const SAFETY: f64 = 0.9;
/// The bounds of the ratio between a step size and the previous one: the ratio is from `SHRINK` to `GROW`.
const SHRINK: f64 = 0.2;
const GROW: f64 = 10.0;
/// The exponent β of the previous error in the formula for the next step size.
const BETA: f64 = 0.04;
/// The lower bound of the previous error in the formula for the next step size, so that a tiny previous error does not
/// determine it.
pub(super) const LEAST_ERROR: f64 = 1e-4;

/// The absolute and relative tolerances for the estimated error of an integration step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tolerance {
    pub(super) relative: Var,
    pub(super) absolute: Var,
    /// The number of leaves that are states. They come first. The other leaves are integrals, on which no slope
    /// depends.
    pub(super) states: usize,
    /// Whether errors of integrals count.
    pub(super) integrals: bool,
}

impl Tolerance {
    /// Returns the tolerance for leaves of which the first `states` are states and all others are integrals. Errors of
    /// the integrals count if `integrals` is true.
    pub(super) fn of_states(self, states: usize, integrals: bool) -> Tolerance {
        Tolerance { states, integrals, ..self }
    }

    /// Returns the leaves that are integrals, if their errors count; otherwise no leaves.
    pub(super) fn counted<'a, T>(&self, leaves: &'a [T]) -> &'a [T] {
        match self.integrals {
            true => leaves.get(self.states..).unwrap_or_default(),
            false => &[],
        }
    }

    /// Returns the root mean square of the elements of `x` in units of their tolerance. The relative part of an
    /// element's tolerance refers to the largest of the magnitudes in `sizes`.
    pub(super) fn norm(&self, x: &[Var], sizes: &[&[Var]]) -> Var {
        let states = x.len().min(self.states);
        let sizes: Vec<&[Var]> = sizes.iter().map(|y| &y[..states]).collect();
        self.of_leaves(&x[..states], &sizes)
    }

    /// Returns the norm of the errors of a step between the states `ends`. If errors of integrals count, this is the
    /// larger of the norms of the states and of the integrals. `moved` contains the sums of |Δq| of the integrals q,
    /// including this step.
    pub(super) fn error(&self, errors: &[Var], ends: [&[Var]; 2], moved: &[Var]) -> Var {
        let states = self.norm(errors, &ends);
        let integrals = self.counted(errors);
        if integrals.is_empty() {
            return states;
        }
        let [y, end] = ends.map(|y| self.counted(y));
        let integrals = self.for_integrals().of_leaves(integrals, &[y, end, moved]);
        // A comparison with nan is false. Test for nan explicitly, so that a norm of nan is returned and the step is
        // rejected.
        select(states.is_nan() | states.gt(integrals), states, integrals)
    }

    /// Returns the tolerance for integrals, which is one number because integrals have other shapes than the state: the
    /// least tolerance of all elements of the state.
    fn for_integrals(self) -> Tolerance {
        let least = |x: Var| match x.size() {
            // A state without elements has no least tolerance. Its integrals are zeros, so any tolerance will do.
            0 => constant(1.0).convert(x.dtype()),
            _ => x.min(),
        };
        Tolerance { relative: least(self.relative), absolute: least(self.absolute), ..self }
    }

    fn of_leaves(&self, x: &[Var], sizes: &[&[Var]]) -> Var {
        let dtype = self.relative.dtype();
        let parts = x.iter().enumerate().map(|(i, x)| {
            let own = |v: Var| v.convert(x.dtype());
            let largest = sizes.iter().map(|y| y[i].stop_gradient().abs());
            let largest = largest.reduce(|x, y| x.maximum(y)).unwrap_or(*x);
            let may = own(self.absolute) + own(self.relative) * largest;
            (x.stop_gradient() / may).square().sum().convert(dtype)
        });
        let sum = parts.reduce(|x, y| x + y).unwrap_or(self.relative.zeros_like());
        let elements: usize = x.iter().map(|x| x.size()).sum();
        (sum / elements.max(1) as f64).sqrt()
    }
}

/// Returns the ratio of the next step size to the current one, given the error of this step and the error `before` of
/// the previous step.
pub(super) fn grown(order: i32, error: Var, before: Var) -> Var {
    let alpha = 1.0 / f64::from(order) - 0.75 * BETA;
    // The lower bound of the error avoids a division by zero. For an error of zero, the factor is `GROW`.
    (SAFETY * before.powf(BETA) / error.maximum(1e-8).powf(alpha)).clamp(SHRINK, GROW)
}

/// Returns the ratio of the next trial step size to a rejected one, whose error was too large or not finite.
pub(super) fn shrunk(order: i32, error: Var) -> Var {
    let alpha = 1.0 / f64::from(order) - 0.75 * BETA;
    select(error.is_finite(), (SAFETY / error.powf(alpha)).maximum(SHRINK), SHRINK)
}

/// Returns the absolute value of the first step size. It is the smaller of two sizes: a hundred times the size of an
/// Euler step that changes the state by a hundredth of its norm, and the size for which the error of a step of order
/// `order` is a hundredth of the tolerance. The error is estimated from the change of the slope in the Euler step.
pub(super) fn first_length(
    f: Slope<'_>,
    order: i32,
    tolerance: &Tolerance,
    (t, direction): (Var, Var),
    (y, slope): (&[Var], &[Var]),
) -> Var {
    let norm = |x: &[Var]| tolerance.norm(x, &[y]);
    let (size, speed) = (norm(y), norm(slope));
    let small = size.lt(1e-5) | speed.lt(1e-5);
    let guess = select(small, 1e-6, 0.01 * size / select(small, 1.0, speed));
    let h = direction * guess;
    let changed = difference(&f(t + h, &advanced(y, h, slope)), slope);
    let bend = speed.maximum(norm(&changed) / guess);
    let straight = bend.le(1e-15);
    let own = (0.01 / select(straight, 1.0, bend)).powf(1.0 / f64::from(order));
    let own = select(straight, (1e-3 * guess).maximum(1e-6), own);
    (100.0 * guess).minimum(own)
}
