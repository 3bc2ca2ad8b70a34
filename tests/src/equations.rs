//! Differential equations that tests solve and benchmarks measure; `tests/data/ode/record.py` and
//! `tests/peers/equations.py` solve the same equations.

use tapeloom::prelude::*;

/// `dy/dt` as a function of time and of a state vector.
pub type Slope = fn(Var, Var) -> Var;

/// The slopes of the equations that have recorded solutions, by name.
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

/// Returns the slope of the equation of this name.
///
/// # Panics
/// If there is no equation of this name.
#[must_use]
pub fn equation(name: &str) -> Slope {
    let found = EQUATIONS.iter().find(|(n, _)| *n == name);
    found.unwrap_or_else(|| panic!("no equation {name}")).1
}

/// Returns the slope of the predator-prey equations of Lotka and Volterra, with rates a, b, c, d.
#[must_use]
pub fn prey_and_predators(y: Var, [a, b, c, d]: [Var; 4]) -> Var {
    let (x, z) = (y.index(0), y.index(1));
    stack(&[a * x - b * x * z, c * x * z - d * z], 0)
}

/// Returns the slope of a body that orbits a sun in the plane; the state is position and velocity.
#[must_use]
pub fn orbit(y: Var) -> Var {
    let (x, v) = (y.slice_axis(0, ..2), y.slice_axis(0, 2..));
    concat(&[v, -x / x.dot(x).powf(1.5)], 0)
}

/// Returns the slope of Robertson's chemical reaction, a stiff system whose rates differ by nine orders of magnitude.
#[must_use]
pub fn robertson(y: Var, [slow, back, fast]: [Var; 3]) -> Var {
    let [a, b, c] = [0, 1, 2].map(|i| y.index(i));
    let (r1, r2, r3) = (slow * a, back * b * c, fast * b * b);
    stack(&[r2 - r1, r1 - r2 - r3, r3], 0)
}

/// A differential equation whose solution is measured.
#[derive(Debug)]
pub struct Measured {
    /// The name of the problem in rows of the benchmark.
    pub name: &'static str,
    /// The parameters that the slope captures.
    pub rates: &'static [f64],
    /// Returns the state at the end, from the parameters and a relative tolerance.
    pub solve: fn((Var, Var)) -> Var,
    /// The expected result: SciPy's at a tolerance of 1e-13.
    pub want: &'static [f64],
}

/// The measured problems: one that is not stiff, one that is stiff, and one with an event that ends it.
pub const MEASURED: [Measured; 3] = [
    Measured {
        name: "lotka_volterra",
        rates: &[1.5, 1.0, 1.0, 3.0],
        solve: |(rates, tolerance)| {
            let f =
                |(_, y): (Var, Var)| prey_and_predators(y, [0, 1, 2, 3].map(|i| rates.index(i)));
            let method = ode::dopri5().rtol(tolerance).atol(tolerance);
            method.solve(f, constant([1.0, 1.0]), constant([0.0, 10.0])).0.index(1)
        },
        want: &[1.0263447675750583, 0.9096910781361592],
    },
    Measured {
        name: "robertson",
        rates: &[0.04, 1e4, 3e7],
        solve: |(rates, tolerance)| {
            let f = |(_, y): (Var, Var)| robertson(y, [0, 1, 2].map(|i| rates.index(i)));
            let method = ode::rodas5p().rtol(tolerance).atol(1e-6 * tolerance);
            method.solve(f, constant([1.0, 0.0, 0.0]), constant([0.0, 4e5])).0.index(1)
        },
        want: &[0.004938274521005017, 1.984994087964554e-08, 0.9950617056290547],
    },
    Measured {
        name: "orbit",
        rates: &[1.0],
        solve: |(rates, tolerance)| {
            let f = |(_, y): (Var, Var)| {
                let (x, v) = (y.slice_axis(0, ..2), y.slice_axis(0, 2..));
                concat(&[v, -rates * x / x.dot(x).powf(1.5)], 0)
            };
            let turn = |(_, y): (Var, Var)| y.index(0) * y.index(2) + y.index(1) * y.index(3);
            let method = ode::dopri5().rtol(tolerance).atol(tolerance);
            let start = constant([0.5, 0.1, 0.0, 1.6]);
            let (_, (t, _), _) = method.solve_until(f, turn, start, constant([0.0, 10.0]));
            t.expand_dims(0)
        },
        want: &[1.7479841841842871],
    },
];
