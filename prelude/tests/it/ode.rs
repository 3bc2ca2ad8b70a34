//! The coefficient tables of methods for differential equations.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// In a consistent table, the time of each stage is the sum of its weights, and the weights of a step sum to one. The
/// test integrates a clock, a component of the state with the slope 1. With a consistent table, the clock equals the
/// time at every stage, so a slope that reads the clock gives the same solution as a slope that reads the time.
#[test]
fn tables_are_consistent() {
    type State = (Var, Var);
    let slope = |t: Var, y: Var| (2.0 * t).sin() * y + t * t * y.cos();
    let by_time = move |(t, (y, _)): (Var, State)| (slope(t, y), t * 0.0 + 1.0);
    let by_clock = move |(_, (y, clock)): (Var, State)| (slope(clock, y), clock * 0.0 + 1.0);
    let start = || (constant(0.75), constant(0.25));
    let times = || linspace(0.25, 1.5, 2, Dtype::F64);
    // The tolerance is so large that the estimated error changes no step size: the integration is a single step.
    let one_step = || ode::dopri5().rtol(1e6).first_step(1.25);
    let last = |(y, clock): State| (y.index(-1), clock.index(-1));
    let both = run(
        |()| {
            vec![
                [
                    last(ode::euler().solve(by_time, start(), times()).0),
                    last(ode::euler().solve(by_clock, start(), times()).0),
                ],
                [
                    last(ode::rk4().solve(by_time, start(), times()).0),
                    last(ode::rk4().solve(by_clock, start(), times()).0),
                ],
                [
                    last(one_step().solve(by_time, start(), times()).0),
                    last(one_step().solve(by_clock, start(), times()).0),
                ],
            ]
        },
        (),
    )
    .unwrap();
    let near = |x: f64, y: f64| (x - y).abs() < 1e-13;
    for (method, pair) in both.into_iter().enumerate() {
        let pair = pair.map(|(y, clock)| (y.item::<f64>().unwrap(), clock.item::<f64>().unwrap()));
        let [(y, clock), (other, _)] = pair;
        assert!(near(y, other) && near(clock, 1.5), "method {method}: {pair:?}");
    }
}
