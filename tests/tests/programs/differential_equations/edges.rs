//! Differential equations at their edges: failures during a run are values, mistakes in the program are errors.

use super::{near, numbers, status};
use ode::Status;
use std::ops::RangeInclusive;
use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

/// Both adaptive methods with default tolerances.
const METHODS: [fn() -> ode::Adaptive; 2] = [ode::dopri5, ode::rodas5p];

/// Solves `y' = f(t, y)`, `y(t0) = 1`, and returns y at these times, the status, and the number of accepted and
/// rejected steps.
fn solved(
    method: fn() -> ode::Adaptive,
    f: impl Fn((Var, Var)) -> Var + Copy,
    times: &[f64],
) -> (Vec<f64>, Status, i64) {
    let solve = |times: Var| method().solve(f, constant(1.0), times);
    let (y, stats) = run(solve, Tensor::from(times.to_vec())).unwrap();
    let tries = stats.accepted.item::<i64>().unwrap() + stats.rejected.item::<i64>().unwrap();
    (numbers(&y), status(&stats), tries)
}

#[test]
fn spans_of_every_kind() {
    for method in METHODS {
        let decay = |(_, y): (Var, Var)| -y;
        assert_eq!(solved(method, decay, &[]), (vec![], Status::Done, 0));
        assert_eq!(solved(method, decay, &[3.0]), (vec![1.0], Status::Done, 0));
        assert_eq!(solved(method, decay, &[3.0, 3.0, 3.0]), (vec![1.0; 3], Status::Done, 0));
        let (y, status, _) = solved(method, decay, &[0.0, -1.0, -2.0]);
        assert!(status == Status::Done && near(&y, &[1.0, 1f64.exp(), 2f64.exp()], 1e-5, 0.0));
        let (y, ..) = solved(method, decay, &[0.0, 0.0, 1.0, 1.0]);
        assert!(y[0] == 1.0 && y[1] == 1.0 && y[2] == y[3]);
        // The solution must be right at times far from zero, then for intervals of time down to 1e-320.
        let (y, ..) = solved(method, decay, &[1e6, 1e6 + 1.0]);
        assert!(near(&y[1..], &[(-1f64).exp()], 1e-5, 0.0), "{y:?}");
        for end in [1e-30, 1e-300, 1e-320] {
            let (y, status, _) = solved(method, decay, &[0.0, end]);
            assert_eq!((y[1], status), (1.0, Status::Done), "{end}");
        }
        let (y, status, _) = solved(method, decay, &[0.0, 700.0]);
        assert!(status == Status::Done && y[1].abs() < 1e-8, "{y:?}");
        // Unordered or non-finite times must give `UnorderedTimes`, also if the last time equals the first, so that
        // there is no direction.
        let unordered: [&[f64]; 6] = [
            &[0.0, 1.0, 0.5],
            &[0.0, 1.0, 0.0],
            &[0.5, 0.7, 0.3, 0.5],
            &[0.0, f64::NAN],
            &[0.0, f64::INFINITY],
            &[f64::NAN],
        ];
        for times in unordered {
            let (y, status, tries) = solved(method, decay, times);
            assert_eq!((status, tries), (Status::UnorderedTimes, 0), "{times:?}");
            assert!(y[0] == 1.0 && y[1..].iter().all(|y| y.is_nan()), "{y:?}");
        }
    }
}

#[test]
fn slopes_of_every_kind() {
    for method in METHODS {
        let (y, status, tries) = solved(method, |(_, y)| y.ones_like(), &[0.0, 1e3, 1e6]);
        assert!(
            status == Status::Done
                && tries < 40
                && near(&y[1..], &[1e3 + 1.0, 1e6 + 1.0], 1e-12, 0.0)
        );
        let (y, status, tries) = solved(method, |(_, y)| y.zeros_like(), &[0.0, 1.0]);
        assert!(status == Status::Done && tries < 40 && y == [1.0, 1.0]);
        let (y, status, tries) = solved(method, |(_, y)| y * f64::NAN, &[0.0, 1.0]);
        assert!(status == Status::NotFinite && tries < 60 && y[0] == 1.0 && y[1].is_nan());
        let (y, status, tries) = solved(method, |(_, y)| y / y.zeros_like(), &[0.0, 1.0]);
        assert!(status == Status::NotFinite && tries < 60 && y[1].is_nan());
        // The slope is nan after t = 1: the solution must end there with `NotFinite`, and states at earlier times must
        // be finite.
        let (y, status, tries) = solved(method, |(t, y)| (1.0 - t).sqrt() * y, &[0.0, 0.5, 2.0]);
        assert!(status == Status::NotFinite && tries < 2000 && !y[1].is_nan() && y[2].is_nan());
        // If the last time is t = 1, up to which the slope is defined, the solution must be complete.
        let (y, status, _) = solved(method, |(t, y)| (1.0 - t).sqrt() * y, &[0.0, 1.0]);
        assert!(status == Status::Done && near(&y[1..], &[(2.0 / 3f64).exp()], 1e-5, 0.0));
        // The solution of y' = y² has a pole at t = 1: the solver must stop before, with `StepTooSmall`.
        let (y, status, _) = solved(method, |(_, y)| y * y, &[0.0, 0.5, 2.0]);
        assert!(
            status == Status::StepTooSmall && near(&y[1..2], &[2.0], 1e-4, 0.0) && y[2].is_nan(),
            "{status} {y:?}"
        );
        // The slope is discontinuous at t = 0.3: steps must become short around it and long again, and the solution
        // must be right.
        let (y, status, _) =
            solved(method, |(t, y)| select(t.lt(0.3), y.ones_like(), -1.0), &[0.0, 1.0]);
        assert!(status == Status::Done && near(&y[1..], &[0.6], 1e-4, 0.0), "{y:?}");
    }
}

#[test]
fn an_end_is_reached_and_not_passed() {
    // For these end times, `t + (end - t)` differs from `end` by a rounding error. The slope is nan beyond `end`, so
    // the solution must reach `end` exactly, in one step.
    for method in METHODS {
        let solve = jit(|(start, end): (Var, Var)| {
            let f = |(t, y): (Var, Var)| y.ones_like() + 0.0 * (end - t).sqrt();
            method().first_step(100.0).solve(f, constant(0.0), stack(&[start, end], 0))
        });
        for i in 1..=40 {
            let (start, end) = (-0.7 / f64::from(i), 0.1 * f64::from(i));
            let (y, stats) = solve.call((start, end)).unwrap();
            assert!(near(&numbers(&y)[1..], &[end - start], 1e-13, 0.0), "{end}: {y:?}");
            let steps = (stats.accepted.item::<i64>(), stats.rejected.item::<i64>());
            assert_eq!((status(&stats), steps), (Status::Done, (Ok(1), Ok(0))), "{end}");
        }
    }
}

#[test]
fn options_are_obeyed() {
    let f = |(_, y): (Var, Var)| -y;
    let ends = || linspace(0.0, 1.0, 2, Dtype::F64);
    for method in METHODS {
        let count = |method: ode::Adaptive| {
            let (_, stats) = run(|()| method.solve(f, constant(1.0), ends()), ()).unwrap();
            (stats.accepted.item::<i64>().unwrap(), status(&stats))
        };
        assert!(count(method().largest_step(0.01)).0 >= 100);
        assert_eq!(count(method().first_step(1.0).rtol(1.0).atol(1.0)), (1, Status::Done));
        assert_eq!(count(method().largest_step(0.01).max_steps(7)), (7, Status::TooManySteps));
        assert_eq!(count(method().max_steps(0)).1, Status::TooManySteps);
        // With a relative tolerance of 0, rounding errors limit the accuracy, and the end must still be reached.
        assert_eq!(count(method().rtol(0.0).atol(1e-12)).1, Status::Done);
    }
}

#[test]
fn states_of_every_kind() {
    // Unusual states must be solved: leaves of two dtypes with times of a third, a large leaf beside a small one, and
    // an empty state.
    let mixed = |(x, y): (Var, Var)| {
        let f = |(t, (x, y)): (Var, (Var, Var))| {
            (-x + y.sum().convert(Dtype::F32), -y * t.convert(Dtype::F64))
        };
        ode::dopri5().rtol(1e-5).solve(f, (x, y), linspace(0.0, 1.0, 3, Dtype::F32)).0
    };
    let (x, y) = run(mixed, (1f32, [1.0, 2.0])).unwrap();
    assert_eq!((x.dtype(), x.shape().to_vec()), (Dtype::F32, vec![3]));
    assert_eq!((y.dtype(), y.shape().to_vec()), (Dtype::F64, vec![3, 2]));
    assert!(near(&numbers(&y)[4..], &[(-0.5f64).exp(), 2.0 * (-0.5f64).exp()], 1e-4, 0.0));
    for method in METHODS {
        let single =
            |y: Var| method().solve(|(_, y): (Var, Var)| -y, y, linspace(0.0, 1.0, 2, Dtype::F32));
        let (y, stats) = run(single, [1f32, 2.0]).unwrap();
        assert!(near(&numbers(&y)[2..], &[0.36788, 0.73576], 1e-4, 0.0), "{y:?}");
        assert_eq!(status(&stats), Status::Done);
        let none =
            |y: Var| method().solve(|(_, y): (Var, Var)| y, y, linspace(0.0, 1.0, 2, Dtype::F64));
        assert_eq!(run(none, Tensor::from([0.0; 0])).unwrap().0.shape(), [2, 0]);
        assert_eq!(
            status(
                &run(
                    |()| method()
                        .solve(|(_, ()): (Var, ())| (), (), linspace(0.0, 1.0, 2, Dtype::F64))
                        .1,
                    ()
                )
                .unwrap()
            ),
            Status::Done
        );
    }
    let wide = |(x, y): (Var, Var)| {
        let f = |(_, (x, y)): (Var, (Var, Var))| (-x, -y * x.sum());
        ode::dopri5().solve(f, (x, y), linspace(0.0, 1.0, 2, Dtype::F64)).0
    };
    let (x, y) = run(wide, (Tensor::full(&[40, 50], 1e-3).unwrap(), 1.0)).unwrap();
    assert_eq!((x.shape().to_vec(), y.shape().to_vec()), (vec![2, 40, 50], vec![2]));
    assert!((numbers(&y)[1] - (-2.0 * (1.0 - (-1f64).exp())).exp()).abs() < 1e-4);
}

#[test]
fn events_at_their_edges() {
    let until = |g: fn(Var, Var) -> Var, start: f64, end: f64| {
        let f = |(_, (_, v)): (Var, (Var, Var))| (v, -v.ones_like());
        let solve = |times: Var| {
            let start = (constant(0.0), constant(start));
            ode::dopri5().solve_until(f, |(t, (x, _))| g(t, x), start, times)
        };
        let (_, (t, (x, _)), stats) = run(solve, [0.0, end]).unwrap();
        (t.item::<f64>().unwrap(), x.item::<f64>().unwrap(), status(&stats))
    };
    // If the event function is zero at the start, that zero is not an event; the next zero is.
    let (t, x, status) = until(|_, x| x, 1.0, 5.0);
    assert!((t - 2.0).abs() < 1e-9 && x.abs() < 1e-9 && status == Status::Event);
    // Without an event, the result is the end time and the state there.
    let (t, x, status) = until(|_, x| x - 10.0, 1.0, 5.0);
    assert!(t == 5.0 && (x + 7.5).abs() < 1e-9 && status == Status::Done);
    // An event at the end time must be found, and an event with times in descending order.
    let at_end = |times: Var| {
        let event = |(t, _): (Var, Var)| t - 5.0;
        ode::dopri5().solve_until(|(_, y): (Var, Var)| -y, event, constant(1.0), times).0
    };
    assert!(numbers(&run(at_end, [0.0, 5.0]).unwrap())[1].is_finite());
    let (t, _, status) = until(|t, _| t - 5.0, 1.0, 5.0);
    assert!(t == 5.0 && status == Status::Event);
    let (t, _, status) = until(|_, x| x + 1.5, 1.0, -5.0);
    assert!((t + 1.0).abs() < 1e-9 && status == Status::Event);
    // With `Crossing::Down`, upward crossings of zero are no events.
    let down = |crossing: ode::Crossing| {
        let f = |(_, (_, v)): (Var, (Var, Var))| (v, -v.ones_like());
        let level = |(_, (x, _)): (Var, (Var, Var))| x - 0.375;
        let method = ode::dopri5().crossing(crossing).largest_step(0.25);
        let solve = |()| {
            let start = (constant(0.0), constant(1.0));
            method.solve_until(f, level, start, three() * 2.0)
        };
        let (_, (t, _), stats) = run(solve, ()).unwrap();
        (t.item::<f64>().unwrap(), super::status(&stats))
    };
    let crossings = [ode::Crossing::Any, ode::Crossing::Up, ode::Crossing::Down];
    for (crossing, want) in crossings.into_iter().zip([0.5, 0.5, 1.5]) {
        let (t, status) = down(crossing);
        assert!((t - want).abs() < 1e-9 && status == Status::Event, "{crossing:?}: {t}");
    }
    // An event function that is always nan must give no event.
    let (t, _, status) = until(|_, x| x * f64::NAN, 1.0, 5.0);
    assert!(t == 5.0 && status == Status::Done);
    // An event function that jumps from 1 to -1 at t = 0.75 must give an event there.
    let (t, _, status) = until(|t, _| select(t.lt(0.75), -1.0, 1.0), 1.0, 5.0);
    assert!((t - 0.75).abs() < 1e-12 && status == Status::Event);
    // If the start equals the end, the interval has length zero and there must be no event.
    let (t, _, status) = until(|_, x| x - 10.0, 1.0, 0.0);
    assert!(t == 0.0 && status == Status::Done);
    // Without an event, the gradient must be the gradient of the state at the end.
    let late = |end: Var| {
        let f = |(_, y): (Var, Var)| y;
        let event = |(_, y): (Var, Var)| y - 100.0;
        let times = stack(&[end * 0.0, end], 0);
        let (_, (t, y), _) = ode::dopri5().rtol(1e-10).solve_until(f, event, constant(1.0), times);
        t + y
    };
    let slope = run(grad(late), 1.0).unwrap().item::<f64>().unwrap();
    assert!((slope - 1.0 - 1f64.exp()).abs() < 1e-6, "{slope}");
    // Each batch member must end at its own event, or at the end time if it has none, and so must its derivative.
    let landing = |speed: Var| {
        let f = |(_, (_, v)): (Var, (Var, Var))| (v, -v.ones_like());
        let event = |(_, (x, _)): (Var, (Var, Var))| x;
        ode::dopri5()
            .solve_until(f, event, (constant(0.0), speed), linspace(0.0, 5.0, 2, Dtype::F64))
            .1
            .0
    };
    let all = run(vmap(landing), [1.0, 2.0, 4.0]).unwrap();
    assert!(near(&numbers(&all), &[2.0, 4.0, 5.0], 1e-9, 0.0), "{all:?}");
    let slopes = run(vmap(grad(landing)), [1.0, 2.0, 4.0]).unwrap();
    assert!(near(&numbers(&slopes), &[2.0, 2.0, 0.0], 1e-8, 1.0), "{slopes:?}");
}

/// Checks that `result` is a single error of this kind, that the error is at one of these lines of this file, and that
/// its text contains `says`.
fn wrong<B>(result: Result<B, Error>, kind: Kind, lines: RangeInclusive<u32>, says: &str) {
    let Err(error) = result else { panic!("{says}: the program is wrong and ran") };
    let text = error.to_string();
    assert_eq!((error.kind(), error.diagnostics().len()), (kind, 1), "{text}");
    let at = error.diagnostics()[0].at.unwrap();
    assert!(at.file().ends_with("edges.rs") && lines.contains(&at.line()), "{lines:?}: {text}");
    assert!(text.contains(says), "{text}");
}

/// A wrong problem: its slope, initial state, and times.
type Problem = (fn((Var, Var)) -> Var, fn() -> Var, fn() -> Var);

/// Wrong problems, each with the kind of its error and a part of the error's text.
const MISTAKES: [(Problem, Kind, &str); 6] = [
    ((|(_, y)| y.sum(), pair, three), Kind::Shape, "the slope of `state`, f64[2], is f64[]"),
    ((|(_, y)| y.convert(Dtype::F32), pair, three), Kind::Dtype, "is f32[2]"),
    ((|(_, y)| y, || constant([1i64, 2]), three), Kind::Dtype, "floats: `state` is i64[2]"),
    ((|(_, y)| y, pair, || constant(1.0)), Kind::Shape, "a vector of times"),
    ((|(_, y)| y, pair, || constant([0i64, 1])), Kind::Dtype, "times that are floats"),
    ((|(_, y)| y, pair, || zeros([2, 2], Dtype::F64)), Kind::Shape, "of times, got f64[2,2]"),
];

fn pair() -> Var {
    constant([1.0, 2.0])
}

fn three() -> Var {
    linspace(0.0, 1.0, 3, Dtype::F64)
}

#[test]
fn mistakes_name_the_line() {
    for ((f, y0, times), kind, says) in MISTAKES {
        for method in METHODS {
            let first = line!();
            let result = run(|()| method().solve(f, y0(), times()), ());
            wrong(result, kind, first + 1..=first + 1, says);
        }
        let first = line!();
        let result = run(|()| ode::rk4().solve(f, y0(), times()), ());
        wrong(result, kind, first + 1..=first + 1, says);
    }
    let first = line!();
    let f = |(_, y): (Var, Var)| y + constant([1.0, 2.0, 3.0]);
    let last = line!();
    let result = run(|()| ode::dopri5().solve(f, pair(), three()), ());
    wrong(result, Kind::Shape, first..=last, "cannot broadcast");

    let f = |(_, y): (Var, Var)| y;
    let event = |(_, y): (Var, Var)| y;
    let first = line!();
    let result = run(|()| ode::dopri5().solve_until(f, event, pair(), three()), ());
    wrong(result, Kind::Shape, first..=line!(), "an event is a single float");
    let event = |(_, y): (Var, Var)| y.sum();
    let first = line!();
    let result = run(|()| ode::dopri5().adjoint().solve_until(f, event, pair(), three()), ());
    wrong(result, Kind::Arguments, first..=line!(), "no adjoint method");
    let first = line!();
    let result = run(|()| ode::rodas5p().adjoint().solve(f, pair(), three()), ());
    wrong(result, Kind::Arguments, first..=line!(), "no adjoint method");
    // If the slope returns a list with another number of leaves than the state, the error must state both numbers.
    let f = |(_, y): (Var, Vec<Var>)| vec![y[0]];
    let start = || vec![constant(1.0); 2];
    let first = line!();
    let result = run(|()| ode::dopri5().solve(f, start(), three()), ());
    let says = "2 elements in the state, 1 element in the slope";
    wrong(result, Kind::Arguments, first..=line!(), says);
}

#[test]
fn a_slope_that_draws_draws_once() {
    // A slope with a fixed random key must draw the same numbers at every evaluation, so that the solver sees one fixed
    // system.
    let walk = |key: u64| {
        move |y0: Var| {
            let rng = random::Rng::new(key);
            let f = move |(_, y): (Var, Var)| -y * (1.0 + rng.uniform([], Dtype::F64));
            ode::dopri5().solve(f, y0, linspace(0.0, 1.0, 3, Dtype::F64)).0
        }
    };
    let (y, z) = (run(walk(1), 1.0).unwrap(), run(walk(2), 1.0).unwrap());
    let [y, z] = [y, z].map(|y| numbers(&y));
    assert!((y[1] * y[1] - y[2]).abs() < 1e-6 && (y[2] - z[2]).abs() > 1e-3, "{y:?} {z:?}");
}
