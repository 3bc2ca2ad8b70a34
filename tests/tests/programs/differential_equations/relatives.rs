//! Integrals (`quad`), bracketed roots (`root_between`) and curves (`cubic_spline`): derivatives, batches, and edge
//! cases.

use super::{near, numbers};
use interpolate::{Ends, cubic_spline, pchip};
use tapeloom::Kind;
use tapeloom::prelude::*;

#[test]
fn integrals_have_derivatives_in_parameters_and_limits() {
    let precision = Precision::default();
    let f = |(c, a, b): (Var, Var, Var)| {
        quad(|x: Var| (c * x).sin() / (1.0 + x * x), (a, b), precision).0
    };
    check_grads(f, (2.0, -0.5, 3.0), 3).unwrap();
    check_grads(f, (2.0, 3.0, -0.5), 1).unwrap();
    // An integral to infinity has derivatives with respect to parameters and to the finite limit.
    let tail =
        |(c, a): (Var, Var)| quad(|x: Var| (-c * x * x).exp(), (a, f64::INFINITY), precision).0;
    check_grads(tail, (1.5, 0.25), 2).unwrap();
    // The integrand returns a tree. All its leaves are integrated on the same intervals, and each must be right.
    let both =
        |c: Var| quad(|x: Var| (x.cos() * c, stack(&[x, c * x * x], 0)), (0.0, 1.0), precision).0;
    let (y, z) = run(both, 2.0).unwrap();
    assert!((y.item::<f64>().unwrap() - 2.0 * 1f64.sin()).abs() < 1e-14);
    assert!(near(&numbers(&z), &[0.5, 2.0 / 3.0], 1e-14, 0.0));
    check_grads(both, 2.0, 2).unwrap();
}

#[test]
fn integrals_of_members_are_those_alone() {
    let f =
        |c: Var| quad(|x: Var| 1.0 / (c + (x - 0.3).square()), (0.0, 1.0), Precision::default());
    let c = [1e-6f64, 1.0, 1e-2];
    let (all, errors) = run(vmap(f), c).unwrap();
    for (i, c) in c.into_iter().enumerate() {
        let (y, error) = run(f, c).unwrap();
        assert!(near(&numbers(&all)[i..=i], &numbers(&y), 1e-13, 0.0), "{c}");
        assert!(near(&numbers(&errors)[i..=i], &numbers(&error), 1e-3, 1e-12), "{c}");
        let exact = ((0.7 / c.sqrt()).atan() + (0.3 / c.sqrt()).atan()) / c.sqrt();
        assert!(near(&numbers(&y), &[exact], 1e-9, 0.0), "{c}: {y:?}, {exact}");
    }
}

#[test]
fn integrals_at_their_edges() {
    let f = |(a, b): (Var, Var)| quad(|x: Var| x.exp(), (a, b), Precision::default());
    let (y, error) = run(f, (1.0, 1.0)).unwrap();
    assert_eq!((y.item::<f64>(), error.item::<f64>()), (Ok(0.0), Ok(0.0)));
    let slope = run(grad(|b: Var| f((constant(1.0), b)).0), 1.0).unwrap();
    assert!((slope.item::<f64>().unwrap() - 1f64.exp()).abs() < 1e-14);
    // For sin(1/x) the search ends at the given number of intervals, and the error estimate must show that it did not
    // converge.
    let wild = |most| Precision { most, ..Precision::default() };
    let f = |most| move |b: Var| quad(|x: Var| (1.0 / x).sin(), (0.0, b), wild(most));
    for most in [0, 1, 20] {
        let (y, error) = run(f(most), 1.0).unwrap();
        assert!(y.item::<f64>().unwrap().abs() < 1.0 && error.item::<f64>().unwrap() > 1e-9);
    }
    let nan = run(|b: Var| quad(|x: Var| x.ln(), (-1.0, b), Precision::default()), 1.0).unwrap();
    assert!(nan.0.item::<f64>().unwrap().is_nan());
    // If a limit is nan, the integral is nan. If both limits are the same infinity, the integral is zero for every f.
    let inf = f64::INFINITY;
    let between = |c: Var| {
        move |(a, b): (Var, Var)| quad(|x: Var| (c * x).exp(), (a, b), Precision::default())
    };
    for (a, b, want) in
        [(inf, inf, 0.0), (-inf, -inf, 0.0), (f64::NAN, 1.0, f64::NAN), (inf, f64::NAN, f64::NAN)]
    {
        let of = |(a, b, c): (Var, Var, Var)| {
            let (y, error) = between(c)((a, b));
            (y, error, grad(|c: Var| between(c)((a, b)).0)(c))
        };
        let (y, error, slope) = run(of, (a, b, 2.0)).unwrap();
        for found in [y, error, slope].map(|x| x.item::<f64>().unwrap()) {
            assert!(found == want || (found.is_nan() && want.is_nan()), "{a} {b}: {found}");
        }
    }
    let (y, _) = run(|x| between(constant(-2.0))(x), (inf, 0.0)).unwrap();
    assert!((y.item::<f64>().unwrap() + 0.5).abs() < 1e-12);
    // If the limits have dtype f32, the integral must have it, too.
    let single =
        run(|b: Var| quad(|x: Var| x * x, (0f32, b), Precision::default()).0, 3f32).unwrap();
    assert!((single.item::<f32>().unwrap() - 9.0).abs() < 1e-5);
    // An integrand that does not depend on the variable of integration must also be accepted.
    let flat = run(|c: Var| quad(|_: Var| c, (0.0, 2.0), Precision::default()).0, 3.0).unwrap();
    assert!((flat.item::<f64>().unwrap() - 6.0).abs() < 1e-14);
    let error =
        run(|b: Var| quad(|x: Var| x, (0.0, b), Precision::default()).0, [1.0]).unwrap_err();
    assert_eq!(error.kind(), Kind::Shape, "{error}");
    assert!(error.to_string().contains("relatives.rs"), "{error}");
    let error =
        run(|b: Var| quad(|x: Var| x.gt(0.0), (0.0, b), Precision::default()).1, 1.0).unwrap_err();
    assert_eq!(error.kind(), Kind::Dtype, "{error}");
}

#[test]
fn roots_have_derivatives_and_edges() {
    let kepler = |(m, e): (Var, Var)| root_between(|x: Var| x - e * x.sin() - m, 0.0, 7.0);
    check_grads(kepler, (1.0, 0.5), 3).unwrap();
    let of = |f: fn(Var) -> Var, a: f64, b: f64| {
        run(|(a, b): (Var, Var)| root_between(f, a, b), (a, b)).unwrap().item::<f64>().unwrap()
    };
    // The search must handle a root at an end, no root (nan), a root at zero, and roots of very small or large
    // magnitude.
    assert_eq!(of(|x| x * x - 4.0, 2.0, 5.0), 2.0);
    assert_eq!(of(|x| x * x - 4.0, -1.0, 2.0), 2.0);
    assert!(of(|x| x * x + 1.0, -1.0, 2.0).is_nan());
    assert!(of(|x| x.ln() - 1.0, -1.0, 2.0).is_nan());
    // The function is nan at the last point tried, 0, and neither end of the remaining bracket is a root: the result is
    // nan.
    let tiny = 2.0 * f64::MIN_POSITIVE;
    assert!(of(|x| select(x.eq(0.0), f64::NAN, x), -tiny, tiny).is_nan());
    assert!(of(|x| x.sin(), -1.0, 2.0).abs() < 1e-300);
    assert!(of(|x| x, f64::NEG_INFINITY, 2.0).is_nan() && of(|x| x, f64::NAN, 2.0).is_nan());
    assert_eq!(of(|x| x - 1e-200, -1.0, 1e200), 1e-200);
    // If the difference between the ends overflows to infinity, the root must still be found.
    assert_eq!(of(|x| x - 3.0, -1e308, 1e308), 3.0);
    assert!((of(|x| x.powi(3) + 8.0, -f64::MAX, f64::MAX) + 2.0).abs() < 1e-15);
    assert!((of(|x| select(x.gt(0.25), 1.0, -1.0), 0.0, 1.0) - 0.25).abs() < 1e-15);
    let single = run(|c: Var| root_between(|x: Var| x * x - c, 0f32, 2f32), 2f32).unwrap();
    assert_eq!(single.item::<f32>().unwrap(), 2f32.sqrt());
    let error = run(|c: Var| root_between(|x: Var| x - c, 0.0, 1.0), [0.5]).unwrap_err();
    assert_eq!((error.kind(), error.diagnostics().len()), (Kind::Shape, 1), "{error}");
    assert!(error.to_string().contains("relatives.rs"), "{error}");
    let error = run(|c: Var| root_between(|x: Var| x - c, c, 1.0), [0.5]).unwrap_err();
    assert_eq!((error.kind(), error.diagnostics().len()), (Kind::Shape, 1), "{error}");
}

type Of = fn(Var, Var) -> interpolate::Curve<Var>;

const CURVES: [Of; 4] = [
    |x, y| cubic_spline(x, y, Ends::NotAKnot),
    |x, y| cubic_spline(x, y, Ends::Natural),
    |x, y| {
        let side = |s: f64| y.index(0).zeros_like() + s;
        cubic_spline(x, y, Ends::Clamped(side(0.5), side(-1.0)))
    },
    |x, y| pchip(x, y),
];

#[test]
fn curves_have_derivatives() {
    let x = [0.0, 0.7, 1.0, 2.2, 3.0];
    let y = [[1.0, 0.2], [2.0, 0.5], [2.5, -1.0], [-1.0, -2.0], [0.5, 0.3]];
    for curve in CURVES {
        let f = |(x, y, p): (Var, Var, Var)| curve(x, y).at(p);
        check_grads(f, (x, y, [[-0.3, 0.2], [0.9, 3.5]]), 2).unwrap();
        let at = run(f, (x, y, [[-0.3, 0.2], [0.9, 3.5]])).unwrap();
        assert_eq!(at.shape(), [2, 2, 2]);
        // A curve must pass through its points, and its derivative must be continuous there.
        let through = run(f, (x, y, x)).unwrap();
        let want: Vec<f64> = y.into_iter().flatten().collect();
        assert!(near(&numbers(&through), &want, 1e-14, 1.0), "{through:?}");
        let slope = jvp(|p: Var| f((constant(x), constant(y), p)));
        let side = |h: f64| numbers(&run(&slope, ([0.7 + h, 2.2 + h], [1.0, 1.0])).unwrap().1);
        assert!(near(&side(-1e-9), &side(1e-9), 1e-7, 1.0));
    }
}

#[test]
fn a_curve_is_a_tree() {
    let make = jit(|(x, y): (Var, Var)| pchip(x, y));
    let curve = make.call(([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])).unwrap();
    let ask = jit(|(c, p): (interpolate::Curve<Var>, Var)| c.at(p));
    assert!((ask.call((&curve, 1.0)).unwrap().item::<f64>().unwrap() - 2.0).abs() < 1e-15);
    // In a batch of curves, each member has its own points and must have the values of a single curve.
    let f = |(x, y): (Var, Var)| cubic_spline(x, y, Ends::NotAKnot).at(0.5);
    let (x, y) = (
        [[0.0, 1.0, 2.0, 4.0], [0.0, 0.3, 1.0, 2.0]],
        [[1.0, 2.0, 0.0, 1.0], [0.0, 1.0, 4.0, 2.0]],
    );
    let all = numbers(&run(vmap(f), (x, y)).unwrap());
    for i in 0..2 {
        assert!(near(&all[i..=i], &numbers(&run(f, (x[i], y[i])).unwrap()), 1e-14, 0.0));
    }
}

#[test]
fn wrong_curves_name_the_line() {
    let wrong = |error: tapeloom::Error, kind: Kind| {
        assert_eq!((error.kind(), error.diagnostics().len()), (kind, 1), "{error}");
        assert!(error.to_string().contains("relatives.rs"), "{error}");
    };
    for curve in CURVES {
        let of = |(x, y): (Var, Var)| curve(x, y).at(0.5);
        wrong(run(of, ([0.0], [1.0])).unwrap_err(), Kind::Shape);
        wrong(run(of, ([0.0, 1.0], [1.0, 2.0, 3.0])).unwrap_err(), Kind::Shape);
        wrong(run(of, ([[0.0, 1.0]], [[1.0, 2.0]])).unwrap_err(), Kind::Shape);
        wrong(run(of, ([0.0, 1.0], [1f32, 2.0])).unwrap_err(), Kind::Dtype);
        let at = |(x, y): (Var, Var)| curve(x, y).at(constant(0.5f32));
        wrong(run(at, ([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])).unwrap_err(), Kind::Dtype);
    }
}
