//! Explicit Runge–Kutta methods as tables of numbers.
//!
//! ```text
//! kᵢ = f(t + cᵢ h, y + h (aᵢ₁ k₁ + .. + aᵢᵢ₋₁ kᵢ₋₁))
//! y' = y + h (b₁ k₁ + .. + bₛ kₛ)
//! ```

use super::state::{Slope, State, advanced, weighted};
use crate::Var;

/// An explicit method; its first stage is at the beginning of the step.
#[derive(Debug)]
pub(super) struct Tableau {
    pub(super) c: &'static [f64],
    pub(super) a: &'static [&'static [f64]],
    pub(super) b: &'static [f64],
}

/// Euler's method, of order 1.
pub(super) const EULER: Tableau = Tableau { c: &[0.0], a: &[&[]], b: &[1.0] };

/// The classical method of order 4.
pub(super) const RK4: Tableau = Tableau {
    c: &[0.0, 0.5, 0.5, 1.0],
    a: &[&[], &[0.5], &[0.0, 0.5], &[0.0, 0.0, 1.0]],
    b: &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0],
};

impl Tableau {
    /// Computes a step of size `h` from the state `y` at time `t`, where the slope is `first`. Returns the next state
    /// and the slopes of all stages.
    pub(super) fn step(
        &self,
        f: Slope<'_>,
        (t, h): (Var, Var),
        y: &[Var],
        first: &[Var],
    ) -> (State, Vec<State>) {
        let mut k = vec![first.to_vec()];
        for (c, a) in self.c.iter().zip(self.a).skip(1) {
            k.push(f(t + h * *c, &advanced(y, h, &weighted(a, &k))));
        }
        (advanced(y, h, &weighted(self.b, &k)), k)
    }
}
