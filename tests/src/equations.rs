//! Differential equations to solve and to measure: what `tests/data/ode/record.py` and `tests/peers/equations.py` solve.

use tapeloom::prelude::*;

/// `dy/dt` of a state that is a vector.
pub type Slope = fn(Var, Var) -> Var;

/// The equations by name.
pub const EQUATIONS: &[(&str, Slope)] = &[
    ("lotka_volterra", |_, y| prey_and_predators(y, [1.5, 1.0, 1.0, 3.0].map(constant))),
    ("orbit", |_, y| orbit(y)),
    ("lorenz", |_, s| {
        let [x, y, z] = [0, 1, 2].map(|i| s.index(i));
        stack(&[10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z], 0)
    }),
    ("driven", |t, s| {
        let (x, v) = (s.index(0), s.index(1));
        stack(&[v, -x.sin() - 0.1 * v + 0.5 * (1.3 * t).cos()], 0)
    }),
    ("robertson", |_, y| robertson(y, [0.04, 1e4, 3e7].map(constant))),
    ("van_der_pol", |_, s| {
        let (x, v) = (s.index(0), s.index(1));
        stack(&[v, 1000.0 * (1.0 - x * x) * v - x], 0)
    }),
    ("hires", |_, s| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| s.index(i));
        let [e, f, g, h] = [4, 5, 6, 7].map(|i| s.index(i));
        let all = [
            -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
            1.71 * a - 8.75 * b,
            -10.03 * c + 0.43 * d + 0.035 * e,
            8.32 * b + 1.71 * c - 1.12 * d,
            -1.745 * e + 0.43 * f + 0.43 * g,
            -280.0 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
            280.0 * f * h - 1.81 * g,
            -280.0 * f * h + 1.81 * g,
        ];
        stack(&all, 0)
    }),
];

/// An equation by name.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn equation(name: &str) -> Slope {
    let found = EQUATIONS.iter().find(|(n, _)| *n == name);
    found.unwrap_or_else(|| panic!("no equation {name}")).1
}

/// Lotka and Volterra's prey and predators.
#[must_use]
pub fn prey_and_predators(y: Var, [a, b, c, d]: [Var; 4]) -> Var {
    let (x, z) = (y.index(0), y.index(1));
    stack(&[a * x - b * x * z, c * x * z - d * z], 0)
}

/// A body around a sun: place and speed.
#[must_use]
pub fn orbit(y: Var) -> Var {
    let (x, v) = (y.slice_axis(0, ..2), y.slice_axis(0, 2..));
    concat(&[v, -x / x.dot(x).powf(1.5)], 0)
}

/// Robertson's reaction, whose rates differ by nine orders of magnitude.
#[must_use]
pub fn robertson(y: Var, [slow, back, fast]: [Var; 3]) -> Var {
    let [a, b, c] = [0, 1, 2].map(|i| y.index(i));
    let (r1, r2, r3) = (slow * a, back * b * c, fast * b * b);
    stack(&[r2 - r1, r1 - r2 - r3, r3], 0)
}
