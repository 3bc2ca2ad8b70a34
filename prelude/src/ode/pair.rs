//! Embedded Runge–Kutta pairs: an explicit step, and its difference from a formula of lower order as an error
//! estimate.
//!
//! The slope at the end of a step is the first slope of the next step (the pair is *first same as last*), so this slope
//! is evaluated once for both steps. The error estimate and the dense output use it, too.

use super::method::{Interpolant, StepEnd};
use super::state::{Slope, State, difference, scaled, weighted};
use super::tableau::Tableau;
use crate::Var;

/// An explicit method with an estimate of its error and with dense output.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) name: &'static str,
    /// The order of the method. The formula with which the error is estimated has an order lower by 1.
    pub(super) order: i32,
    pub(super) method: Tableau,
    /// The coefficients e₁ .. eₛ₊₁ of the error estimate `h (e₁ k₁ + .. + eₛ kₛ + eₛ₊₁ f(t + h, z))`: k₁ .. kₛ are the
    /// slopes at the stages, and z is the solution at the end of the step.
    error: &'static [f64],
    /// The coefficients d₁ .. dₛ₊₁ of the term that the dense output adds to Hermite's cubic, at the fraction θ of the
    /// step: `θ² (1-θ)² h (d₁ k₁ + .. + dₛ kₛ + dₛ₊₁ f(t + h, z))`, with kᵢ and z as for `error`.
    dense: &'static [f64],
}

impl Pair {
    /// Computes a step; see [`Method::step`](super::method::Method::step).
    pub(super) fn step(
        &self,
        f: Slope<'_>,
        (t, h): (Var, Var),
        y: &[Var],
        first: &[Var],
    ) -> (StepEnd<Var>, State) {
        let (next, mut k) = self.method.step(f, (t, h), y, first);
        let slope = f(t + h, &next);
        k.push(slope.clone());
        let error = scaled(h, &weighted(self.error, &k));
        let terms = vec![first.to_vec(), weighted(self.dense, &k)];
        (StepEnd { y: next, slope, terms }, error)
    }

    /// Returns the coefficients c₂, c₃, c₄ of [`Method::between`](super::method::Method::between), given c₁ as `first`
    /// and the slope `last` at the end of the step.
    pub(super) fn coefficients(
        interpolant: &Interpolant<Var>,
        first: &[Var],
        last: &[Var],
    ) -> Vec<State> {
        let [slope, quartic] = &interpolant.terms[..] else { return Vec::new() };
        let second = difference(&scaled(interpolant.h, slope), first);
        let third = difference(&difference(first, &scaled(interpolant.h, last)), &second);
        vec![second, third, scaled(interpolant.h, quartic)]
    }
}

/// Dormand and Prince's pair of orders 5 and 4, with Shampine's dense output of order 4.
///
/// Source: Dormand and Prince, *A family of embedded Runge–Kutta formulae* (1980); Hairer, Nørsett and Wanner,
/// *Solving Ordinary Differential Equations I* (1993), table II.5.2 and section II.6.
pub(super) const DORMAND_PRINCE: Pair = Pair {
    name: "dopri5",
    order: 5,
    method: Tableau {
        c: &[0.0, 1.0 / 5.0, 3.0 / 10.0, 4.0 / 5.0, 8.0 / 9.0, 1.0],
        a: &[
            &[],
            &[1.0 / 5.0],
            &[3.0 / 40.0, 9.0 / 40.0],
            &[44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0],
            &[19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0],
            &[9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0],
        ],
        b: &[35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
    },
    error: &[
        71.0 / 57600.0,
        0.0,
        -71.0 / 16695.0,
        71.0 / 1920.0,
        -17253.0 / 339_200.0,
        22.0 / 525.0,
        -1.0 / 40.0,
    ],
    dense: &[
        -12_715_105_075.0 / 11_282_082_432.0,
        0.0,
        87_487_479_700.0 / 32_700_410_799.0,
        -10_690_763_975.0 / 1_880_347_072.0,
        701_980_252_875.0 / 199_316_789_632.0,
        -1_453_857_185.0 / 822_651_844.0,
        69_997_945.0 / 29_380_423.0,
    ],
};
