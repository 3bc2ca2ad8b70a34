//! Solutions, events and integrals compared with values that `tests/data/ode/record.py` recorded from scipy.

use super::{near, numbers, status};
use interpolate::{Ends, cubic_spline, pchip};
use serde_json::Value;
use tapeloom::prelude::*;
use tapeloom_tests::equations::equation;

fn lines(kind: &str) -> Vec<Value> {
    let text = include_str!("../../../data/ode/values.jsonl");
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = all.filter(|line| line["kind"] == kind).collect::<Vec<_>>();
    assert!(!of.is_empty(), "no {kind} was recorded");
    of
}

fn number(v: &Value) -> f64 {
    match v.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        _ => v.as_f64().unwrap(),
    }
}

fn list(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}

#[test]
fn solutions_are_those_of_scipy() {
    for line in lines("ode") {
        let (f, stiff) = (equation(line["f"].as_str().unwrap()), line["stiff"] == true);
        let (y0, times) = (Tensor::from(list(&line["y0"])), Tensor::from(list(&line["times"])));
        let (method, share) = if stiff {
            (ode::rodas5p().rtol(1e-9).atol(1e-13), 1e-6)
        } else {
            (ode::dopri5().rtol(1e-11).atol(1e-11), 1e-7)
        };
        let solve = |(y0, times): (Var, Var)| method.solve(|(t, y)| f(t, y), y0, times);
        let (y, stats) = jit(solve).call((&y0, &times)).unwrap();
        assert_eq!(status(&stats), ode::Status::Done, "{line}");
        let want = list(&line["out"]);
        // In stiff problems, components of a state down to a magnitude of 1e-5 must have a small relative error.
        let least = if stiff { 1e-5 } else { 1.0 };
        assert!(near(&numbers(&y), &want, share, least), "{}: {y:?}\nnot {want:?}", line["f"]);
    }
}

#[test]
fn engines_agree() {
    for (name, method) in [("driven", ode::dopri5()), ("robertson", ode::rodas5p())] {
        let f = equation(name);
        let y0 = Tensor::from(if name == "driven" { vec![0.5, 0.0] } else { vec![1.0, 0.0, 0.0] });
        let solve = |y0: Var| method.solve(|(t, y)| f(t, y), y0, linspace(0.0, 0.3, 3, Dtype::F64));
        let (y, stats) = jit(solve).call(&y0).unwrap();
        let (z, others) = jit(solve).interpreted().call(&y0).unwrap();
        assert!(near(&numbers(&y), &numbers(&z), 1e-12, 1e-9), "{name}: {y:?} and {z:?}");
        assert_eq!(stats, others, "{name}");
    }
}

#[test]
fn events_are_those_of_scipy() {
    for line in lines("event") {
        let f = equation(line["f"].as_str().unwrap());
        let g: fn(Var) -> Var = match line["event"].as_str().unwrap() {
            "x" => |y| y.index(0),
            "turn" => |y| y.index(0) * y.index(2) + y.index(1) * y.index(3),
            "five" => |y| y.index(0) - 5.0,
            other => panic!("no event {other}"),
        };
        let end = number(&line["end"]);
        let solve = |y0: Var| {
            let method = ode::dopri5().rtol(1e-11).atol(1e-12);
            method.solve_until(
                |(t, y)| f(t, y),
                |(_, y)| g(y),
                y0,
                linspace(0.0, end, 11, Dtype::F64),
            )
        };
        let (path, (t, y), stats) = run(solve, Tensor::from(list(&line["y0"]))).unwrap();
        assert_eq!(status(&stats), ode::Status::Event, "{line}");
        let t = t.item::<f64>().unwrap();
        // Events are located on the dense output, which has order four, so their times have larger errors than states.
        assert!((t - number(&line["t"])).abs() < 1e-8, "{line}: {t}");
        assert!(near(&numbers(&y), &list(&line["out"]), 1e-7, 1.0), "{line}: {y:?}");
        let width = y.shape()[0];
        for (i, row) in numbers(&path).chunks(width).enumerate() {
            let behind = end * i as f64 / 10.0 > t;
            assert!(row.iter().all(|x| x.is_nan() == behind), "{line}: row {i} of {path:?}");
        }
    }
}

#[test]
fn integrals_are_those_of_mpmath() {
    for line in lines("quad") {
        let f: fn(Var) -> Var = match line["f"].as_str().unwrap() {
            "polynomial" => |x| x.powi(5) - 2.0 * x * x,
            "bump" => |x| 1.0 / (1.0 + 100.0 * (x - 0.3).square()),
            "wave" => |x| (30.0 * x).cos() * (-x).exp(),
            "root" => Var::sqrt,
            "pole" => |x| 1.0 / x.sqrt(),
            "gauss" => |x| (-x * x).exp(),
            "lorentz" => |x| 1.0 / (1.0 + x * x),
            other => panic!("no integrand {other}"),
        };
        let limits = (number(&line["a"]), number(&line["b"]));
        let solve = |(a, b): (Var, Var)| quad(f, (a, b), Precision::default());
        let (y, error) = run(solve, limits).unwrap();
        let (y, error) = (y.item::<f64>().unwrap(), error.item::<f64>().unwrap());
        let off = (y - number(&line["out"])).abs();
        assert!(off <= 1e-9 && off <= error.max(1e-14), "{line}: {y} with an error of {error}");
    }
}

#[test]
fn roots_are_those_of_mpmath() {
    for line in lines("root") {
        let f: fn(Var) -> Var = match line["f"].as_str().unwrap() {
            "cubic" => |x| x.powi(3) - 2.0 * x - 5.0,
            "kepler" => |x| x - 0.9 * x.sin() - 0.1,
            "steep" => |x| (30.0 * (x - 1.0)).exp() - 2.0,
            "triple" => |x| (x - 0.3).powi(3),
            other => panic!("no equation {other}"),
        };
        let limits = (number(&line["a"]), number(&line["b"]));
        for (a, b) in [limits, (limits.1, limits.0)] {
            let x = run(|(a, b): (Var, Var)| root_between(f, a, b), (a, b)).unwrap();
            let (x, want) = (x.item::<f64>().unwrap(), number(&line["out"]));
            assert!((x - want).abs() <= 4.0 * f64::EPSILON * want.abs(), "{line}: {x}");
        }
    }
}

#[test]
fn curves_are_those_of_scipy() {
    for line in lines("curve") {
        let kind = line["f"].as_str().unwrap().to_owned();
        let curve = move |(x, y, p): (Var, Var, Var)| match kind.as_str() {
            "natural" => cubic_spline(x, y, Ends::Natural).at(p),
            "not-a-knot" => cubic_spline(x, y, Ends::NotAKnot).at(p),
            "clamped" => cubic_spline(x, y, Ends::Clamped(constant(0.5), constant(-2.0))).at(p),
            "pchip" => pchip(x, y).at(p),
            other => panic!("no curve {other}"),
        };
        let both = |(x, y, p): (Var, Var, Var)| jvp(|p| curve((x, y, p)))((p, p.ones_like()));
        let of = |name: &str| Tensor::from(list(&line[name]));
        let (y, slopes) = run(both, (of("x"), of("y"), of("places"))).unwrap();
        assert!(near(&numbers(&y), &list(&line["out"]), 1e-12, 1.0), "{line}: {y:?}");
        assert!(near(&numbers(&slopes), &list(&line["slopes"]), 1e-11, 1.0), "{line}: {slopes:?}");
    }
}
