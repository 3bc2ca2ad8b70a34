//! Orders of convergence of the solvers, and the dependence of errors on the tolerance.

use super::{numbers, status};
use tapeloom::prelude::*;
use tapeloom_tests::equations::equation;

/// The slope of `y' = y cos t`, whose solution from y(0) = 1 is `exp(sin t)`.
fn growth((t, y): (Var, Var)) -> Var {
    y * t.cos()
}

/// Returns the largest error of a solution over times 0 to 2 with this number of steps.
fn error(solve: impl Fn(Var, f64) -> Var, steps: usize) -> f64 {
    let h = 2.0 / steps as f64;
    let times = move || linspace(0.0, 2.0, steps + 1, Dtype::F64);
    let y = run(|()| solve(times(), h), ()).unwrap();
    let off = |(i, y): (usize, f64)| (y - (h * i as f64).sin().exp()).abs();
    numbers(&y).into_iter().enumerate().map(off).fold(0.0, f64::max)
}

fn order(solve: impl Fn(Var, f64) -> Var, steps: usize) -> f64 {
    (error(&solve, steps) / error(&solve, 2 * steps)).log2()
}

#[test]
fn fixed_steps_converge_with_their_order() {
    let found = order(|t, _| ode::euler().solve(growth, constant(1.0), t).0, 200);
    assert!((found - 1.0).abs() < 0.05, "{found}");
    let found = order(|t, _| ode::rk4().solve(growth, constant(1.0), t).0, 40);
    assert!((found - 4.0).abs() < 0.1, "{found}");
    // Substeps between output times must give the same solution as output times at every step.
    let times = || linspace(0.0, 2.0, 41, Dtype::F64);
    let fine = run(|()| ode::rk4().solve(growth, constant(1.0), times()).0.index(-1), ()).unwrap();
    let method = ode::rk4().substeps(20);
    let ends = || linspace(0.0, 2.0, 3, Dtype::F64);
    let (y, stats) = run(|()| method.solve(growth, constant(1.0), ends()), ()).unwrap();
    assert!((numbers(&y)[2] - numbers(&fine)[0]).abs() < 1e-13);
    assert_eq!((stats.accepted.item::<i64>(), stats.evaluations.item::<i64>()), (Ok(40), Ok(160)));
}

#[test]
fn adaptive_methods_and_their_dense_output_converge() {
    // With a fixed step size, errors at the ends of steps and between them (dense output) must fall with the order of
    // the method.
    for (method, steps, inside) in [(ode::dopri5(), 20, 4.0), (ode::rodas5p(), 20, 4.0)] {
        let given = |h: f64| method.first_step(h).largest_step(h).rtol(1e9).atol(1e9);
        let ends = |t, h| given(h).solve(growth, constant(1.0), t).0;
        let found = order(ends, steps);
        assert!(found > 4.8, "{method:?}: order {found} at the ends of steps");
        let between = |t: Var, h: f64| given(8.0 * h).solve(growth, constant(1.0), t).0;
        let found = order(between, 8 * steps);
        assert!(found > inside + 0.8, "{method:?}: order {found} between them");
    }
}

#[test]
fn errors_follow_the_tolerance() {
    let f = |(_, y): (Var, Var)| equation("orbit")(constant(0.0), y);
    let around = |tolerance: Var| {
        let method = ode::dopri5().rtol(tolerance).atol(tolerance);
        let start = constant([0.5, 0.0, 0.0, 3f64.sqrt()]);
        method.solve(f, start, linspace(0.0, std::f64::consts::TAU, 2, Dtype::F64))
    };
    // The tolerance is a run-time value, so one compiled program serves all tolerances.
    let solve = jit(around);
    let mut before = (f64::INFINITY, 0);
    for tolerance in [1e-4, 1e-6, 1e-8, 1e-10] {
        let (y, stats) = solve.call(tolerance).unwrap();
        assert_eq!(status(&stats), ode::Status::Done);
        let start = [0.5, 0.0, 0.0, 3f64.sqrt()];
        let end = numbers(&y).split_off(4);
        let off = end.iter().zip(start).map(|(y, s)| (y - s).abs());
        let (off, steps) = (off.fold(0.0, f64::max), stats.accepted.item::<i64>().unwrap());
        assert!(
            off < 300.0 * tolerance && off < before.0 && steps > before.1,
            "{tolerance}: {off}"
        );
        before = (off, steps);
    }
    assert_eq!(solve.programs(), 1);
}

#[test]
fn stiff_systems_take_few_steps() {
    // Prothero and Robinson's equation: the solution is cos t, however large the stiffness; the number of steps must
    // not grow with it.
    let steps = |stiffness: f64| {
        let f = move |(t, y): (Var, Var)| -stiffness * (y - t.cos()) - t.sin();
        let solve = |()| ode::rodas5p().solve(f, constant(1.0), linspace(0.0, 10.0, 2, Dtype::F64));
        let (y, stats) = run(solve, ()).unwrap();
        assert!((numbers(&y)[1] - 10f64.cos()).abs() < 1e-5, "{stiffness}: {y:?}");
        assert_eq!(stats.jacobians.item::<i64>().unwrap(), {
            stats.accepted.item::<i64>().unwrap() + stats.rejected.item::<i64>().unwrap()
        });
        stats.accepted.item::<i64>().unwrap()
    };
    assert!([1e2, 1e5, 1e8].into_iter().all(|stiffness| steps(stiffness) < 200));
    // An explicit method must exceed the limit of 1000 steps on this stiff equation, where stability limits its steps.
    let f = |(t, y): (Var, Var)| -1e8 * (y - t.cos());
    let method = ode::dopri5().max_steps(1000);
    let (y, stats) =
        run(|()| method.solve(f, constant(1.0), linspace(0.0, 10.0, 2, Dtype::F64)), ()).unwrap();
    assert_eq!(status(&stats), ode::Status::TooManySteps);
    assert!(numbers(&y)[1].is_nan());
}
