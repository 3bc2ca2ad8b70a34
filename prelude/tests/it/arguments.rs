//! Invalid numbers as arguments: if they are known while the function is traced, they are an error at the user's
//! line; otherwise the result is nan.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

fn fails<B: Tree<Var>>(f: impl Fn(Var) -> B, x: f64) -> Error {
    match run(f, x) {
        Ok(_) => panic!("the program is wrong and ran"),
        Err(error) => error,
    }
}

fn decay((_, y): (Var, Var)) -> Var {
    -y
}

fn end(method: ode::Adaptive, y: Var) -> Var {
    method.solve(decay, y, linspace(0.0, 1.0, 3, Dtype::F64)).0.index(-1)
}

#[test]
fn tolerances_and_steps_are_checked() {
    type Setting = fn(ode::Adaptive, Var) -> ode::Adaptive;
    let settings: [(&str, Setting); 4] = [
        ("relative tolerance", |m, x| m.rtol(x)),
        ("absolute tolerance", |m, x| m.atol(x)),
        ("first step", |m, x| m.first_step(x)),
        ("largest step", |m, x| m.largest_step(x)),
    ];
    for method in [ode::dopri5, ode::rodas5p] {
        for (name, set) in settings {
            for wrong in [-1e-3, -0.3, f64::NEG_INFINITY, f64::NAN] {
                let error = fails(|y: Var| end(set(method(), constant(wrong)), y), 1.0);
                assert_eq!(error.kind(), Kind::Arguments, "{error}");
                assert!(error.to_string().contains(name), "{error}");
                // Settings may be values that are known only at run time.
                let late = run(|x: Var| end(set(method(), x), constant(1.0)), wrong).unwrap();
                assert!(late.item::<f64>().unwrap().is_nan(), "{name} {wrong}: {late}");
            }
            let right = run(|x: Var| end(set(method(), x), constant(1.0)), 0.1).unwrap();
            assert!((right.item::<f64>().unwrap() - (-1f64).exp()).abs() < 0.1, "{name}");
        }
        let error = fails(|y: Var| end(method().first_step(0.0), y), 1.0);
        assert_eq!(error.kind(), Kind::Arguments, "{error}");
    }
}

#[test]
fn a_tolerance_has_the_shape_of_the_state() {
    let each = |x: Var| x * constant([1e-6, 1e-8]);
    type Setting = fn(ode::Adaptive, Var) -> ode::Adaptive;
    let settings: [Setting; 2] = [|m, x| m.rtol(x), |m, x| m.atol(x)];
    for set in settings {
        let method = |x: Var| set(ode::dopri5(), each(x));
        let vector =
            |x: Var| method(x).solve(decay, stack(&[x, x], 0), linspace(0.0, 1.0, 2, Dtype::F64)).0;
        let y = run(vector, 1.0).unwrap().to_vec::<f64>().unwrap();
        assert!(y[2..].iter().all(|y| (y - (-1f64).exp()).abs() < 1e-5), "{y:?}");
        assert_eq!(fails(|x: Var| end(method(x), x), 1.0).kind(), Kind::Shape);
        let longer = |x: Var| end(method(x), stack(&[x, x, x], 0));
        assert_eq!(fails(longer, 1.0).kind(), Kind::Shape);
        let leaves = |x: Var| {
            let slope = |(_, (x, y)): (Var, (Var, Var))| (-x, -y);
            method(x).solve(slope, (x, x), linspace(0.0, 1.0, 2, Dtype::F64)).0
        };
        assert_eq!(fails(leaves, 1.0).kind(), Kind::Shape);
    }
    let many = |x: Var| end(ode::dopri5().first_step(stack(&[x, x], 0)), x);
    assert_eq!(fails(many, 1.0).kind(), Kind::Shape);
}

#[test]
fn weights_of_no_distribution_choose_nothing() {
    let one = |(x, w): (Var, Var)| random::weighted_choice(random::key(3), x, w, [2]);
    let some =
        |(x, w): (Var, Var)| random::weighted_choice_without_replacement(random::key(3), x, w, 2);
    let x = [5.0, 6.0, 7.0];
    let infinite = [1.0, f64::INFINITY, f64::INFINITY];
    for wrong in [[1.0, -1.0, 1.0], [1.0, f64::NAN, 1.0], [0.0; 3], [-0.5, -0.5, -1.0], infinite] {
        for y in [run(one, (x, wrong)).unwrap(), run(some, (x, wrong)).unwrap()] {
            assert!(y.to_vec::<f64>().unwrap().iter().all(|y| y.is_nan()), "{wrong:?}: {y}");
        }
        // Integers have no nan, so the result may be any element of the array.
        let n = run(one, ([5i64, 6, 7], wrong)).unwrap().to_vec::<i64>().unwrap();
        assert!(n.iter().all(|n| (5..=7).contains(n)), "{wrong:?}: {n:?}");
    }
    for y in [run(one, (x, [0.0, 2.0, 1.0])).unwrap(), run(some, (x, [0.0, 2.0, 1.0])).unwrap()] {
        assert!(y.to_vec::<f64>().unwrap().iter().all(|y| *y >= 6.0), "{y}");
    }
}

#[test]
fn points_of_a_curve_ascend() {
    points_must_ascend(|x, y, p| interpolate::pchip(x, y).at(p));
}

/// Checks a curve through points `(x, y)`, read at `p`: it must be nan, with a derivative of nan, if `x` does not ascend.
pub(crate) fn points_must_ascend(curve: fn(Var, Var, Var) -> Var) {
    let f = move |(x, y, p): (Var, Var, Var)| curve(x, y, p);
    for n in 2..6i32 {
        let points: Vec<f64> = (0..n).map(f64::from).collect();
        let values: Vec<f64> = points.iter().map(|x| x.sin()).collect();
        let of = |x: &[f64]| (Tensor::from(x.to_vec()), Tensor::from(values.clone()), 0.3);
        let descending: Vec<f64> = points.iter().map(|x| -x).collect();
        let mut equal = points.clone();
        equal[1] = equal[0];
        for wrong in [descending, equal] {
            let y = run(f, of(&wrong)).unwrap().item::<f64>().unwrap();
            assert!(y.is_nan(), "{wrong:?}: {y}");
            let (x, ..) = run(grad(f), of(&wrong)).unwrap();
            assert!(x.to_vec::<f64>().unwrap().iter().any(|x| x.is_nan()), "{wrong:?}: {x}");
        }
        assert!(run(f, of(&points)).unwrap().item::<f64>().unwrap().is_finite());
    }
}
