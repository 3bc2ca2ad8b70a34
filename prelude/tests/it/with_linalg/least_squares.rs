//! The minimiser of sums of squares and fits of curves: laws, covariances, bounds. (The other minimisers: `optim.rs`.)
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::optim::{ends_with, finds_the_minimum, masters_the_valley, pairs};
use tapeloom::prelude::*;

/// The minimiser must find the minimum, alone and in a batch. Its derivative must be that of the equation which the
/// minimum satisfies.
#[test]
fn least_squares_find_minima() {
    finds_the_minimum("levenberg_marquardt", |x, a| {
        let residuals = |x: Var| {
            let d = x - a;
            let i = iota([3], 0, Dtype::F64) + 1.0;
            let (mut found, one) = (vec![(2.0 * i).sqrt() * d], constant(0.5));
            found.push(2f64.sqrt() * d.square());
            (found, (2.0 * (a.sin() + 0.0 * one)).sqrt())
        };
        optim::levenberg_marquardt().minimize_squares(residuals, x)
    });
}

/// Minimises a common test function from its usual start.
#[test]
fn least_squares_master_narrow_valleys() {
    let residuals = |x: Var| {
        let (a, b) = pairs(x);
        (10.0 * (b - a * a), 1.0 - a)
    };
    masters_the_valley("levenberg_marquardt", |x: Var| {
        optim::levenberg_marquardt().minimize_squares(residuals, x)
    });
}

/// A change of the units of parameters and data must not change where the search ends.
#[test]
fn least_squares_know_no_units() {
    let years = |(a, b): (Var, Var)| {
        let t = linspace(0.0, 10.0, 11, Dtype::F64);
        let people = 6e9 + 8e7 * t + 1e5 * (3.0 * t).sin();
        let residuals = move |(a, b): (Var, Var)| a + b * t - people;
        optim::levenberg_marquardt().minimize_squares(residuals, (a, b))
    };
    let ((a, b), outcome) = run(years, (1.0, 1.0)).unwrap();
    let (a, b) = (a.item::<f64>().unwrap(), b.item::<f64>().unwrap());
    assert!((a / 6e9 - 1.0).abs() < 1e-4 && (b / 8e7 - 1.0).abs() < 1e-3, "{a} {b}");
    assert!(outcome.converged.item::<bool>().unwrap(), "{outcome:?}");
}

/// If a residual is not finite at the start, the search must end without convergence.
#[test]
fn searches_end() {
    let residual =
        |x: Var| optim::levenberg_marquardt().minimize_squares(|x: Var| x.exp() - 2.0, x).1;
    assert!(!run(residual, 800.0).unwrap().converged.item::<bool>().unwrap());
    let nan = |x: Var| optim::levenberg_marquardt().minimize_squares(|x: Var| x.ln(), x).1;
    assert!(!run(nan, -1.0).unwrap().converged.item::<bool>().unwrap());
}

/// The status must name the criterion that ended the search.
#[test]
fn searches_name_their_end() {
    use optim::Status;
    let check = ends_with;
    let squares = optim::levenberg_marquardt;
    let curved = |x: Var| x.exp() + 1.0;
    let bent = |x: Var| (x.square() + 1.0, x - 1.0);
    check(Status::Gradient, &|x| squares().gtol(1e-4).minimize_squares(bent, x).1);
    check(Status::Loss, &|x| squares().ftol(1e-3).xtol(0.0).minimize_squares(bent, x).1);
    check(Status::Step, &|x| squares().xtol(1e-3).minimize_squares(bent, x).1);
    check(Status::LossAndStep, &|x| squares().ftol(1.0).xtol(1e9).minimize_squares(bent, x).1);
    check(Status::TooManySteps, &|x| squares().iterations(2).minimize_squares(curved, x).1);
    check(Status::NotFinite, &|x| squares().minimize_squares(|x: Var| (x - 9.0).ln(), x).1);
}

const TIMES: [f64; 6] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.5];
const SEEN: [f64; 6] = [2.9, 2.1, 1.65, 1.05, 0.85, 0.62];

/// An exponential decay with an offset.
fn decay(((a, b), (c, t)): ((Var, Var), (Var, Var))) -> Var {
    a * (-b * t).exp() + c
}

type Decay = ((Var, Var), Var);

fn fitted(y: Var, start: Decay) -> (Decay, Decay, optim::Fit<Var>) {
    let t = constant(TIMES).convert(y.dtype());
    optim::curve_fit(|(((a, b), c), t): (Decay, Var)| decay(((a, b), (c, t))), t, y, start).fit()
}

fn start_of(y: Var) -> Decay {
    let one = y.index(0).ones_like();
    ((one, one), 0.1 * one)
}

/// A batch of fits must equal single fits, fits in f32 must return f32, and parameters and deviations must have
/// derivatives.
#[test]
fn curve_fits_obey_laws() {
    let of = |y: Var| {
        let (((a, b), c), ((da, db), dc), fit) = fitted(y, start_of(y));
        (stack(&[a, b, c, da, db, dc], 0), fit)
    };
    let (found, fit) = run(of, SEEN).unwrap();
    let found = found.to_vec::<f64>().unwrap();
    assert!(fit.outcome.converged.item::<bool>().unwrap(), "{fit:?}");
    let other: [f64; 6] = std::array::from_fn(|i| 3.0 * SEEN[i] - 0.1 * TIMES[i]);
    let (both, fits) = run(vmap(of), [SEEN, other]).unwrap();
    let (alone, lone) = run(of, other).unwrap();
    let want = [found.clone(), alone.to_vec::<f64>().unwrap()].concat();
    for (x, y) in both.to_vec::<f64>().unwrap().iter().zip(&want) {
        assert!((x - y).abs() < 1e-9 * y.abs(), "{both} {want:?}");
    }
    let steps = fits.outcome.iterations.to_vec::<i64>().unwrap();
    assert_eq!(steps[1], lone.outcome.iterations.item::<i64>().unwrap());

    let (narrow, fit) = run(of, SEEN.map(|y| y as f32)).unwrap();
    assert_eq!((narrow.dtype(), fit.covariance.dtype()), (Dtype::F32, Dtype::F32));
    assert!(fit.outcome.converged.item::<bool>().unwrap(), "{fit:?}");
    for (x, y) in narrow.to_vec::<f32>().unwrap().iter().zip(&found) {
        assert!((f64::from(*x) - y).abs() < 1e-3 * y.abs(), "{narrow} {found:?}");
    }

    let weighted = |y: Var| (of(y).0 * constant([1.0, -2.0, 0.5, 0.3, 0.7, -0.2])).sum();
    check_grads(weighted, SEEN, 1).unwrap();
}

/// Linear fits with weights and with absolute weights, whose covariance has a formula.
#[test]
fn covariances_are_those_of_formulas() {
    let line = |((a, b), x): ((Var, Var), Var)| a + b * x;
    let (x, y) = ([0.0, 1.0, 2.0, 4.0], [1.0, 2.9, 5.2, 8.9]);
    let sigma: [f64; 4] = [0.1, 0.2, 0.1, 0.4];
    let near = |found: &Tensor, want: &[f64]| {
        let found = found.to_vec::<f64>().unwrap();
        let close = found.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-10 * y.abs());
        assert!(found.len() == want.len() && close, "{found:?} {want:?}");
    };
    let sums = |power: i32| (0..4).map(|i| f64::powi(x[i], power) / sigma[i].powi(2)).sum::<f64>();
    let [s0, s1, s2] = [sums(0), sums(1), sums(2)];
    let determinant = s0 * s2 - s1 * s1;
    let absolute = [s2, -s1, -s1, s0].map(|s| s / determinant);
    let fit = |absolute: bool| {
        move |(x, y, sigma): (Var, Var, Var)| {
            let zero = y.index(0) * 0.0;
            let fit = optim::curve_fit(line, x, y, (zero, zero)).sigma(sigma);
            if absolute { fit.absolute_sigma().fit().2 } else { fit.fit().2 }
        }
    };
    near(&run(fit(true), (x, y, sigma)).unwrap().covariance, &absolute);
    let relative = run(fit(false), (x, y, sigma)).unwrap();
    let mean = relative.residual_sum.item::<f64>().unwrap() / 2.0;
    near(&relative.covariance, &absolute.map(|c| c * mean));
    // A common factor of all sigma has no effect, unless sigma is declared absolute.
    let scaled = sigma.map(|s| 10.0 * s);
    near(&run(fit(false), (x, y, scaled)).unwrap().covariance, &absolute.map(|c| c * mean));
    near(&run(fit(true), (x, y, scaled)).unwrap().covariance, &absolute.map(|c| c * 100.0));
    // Only the sum of these two parameters matters, so neither of them is determined.
    let same = |((a, b), x): ((Var, Var), Var)| (a + b) * x;
    let (p, deviations, fit) = run(
        |(x, y): (Var, Var)| {
            let one = y.index(0).ones_like();
            optim::curve_fit(same, x, y, (one, one)).fit()
        },
        (x, y),
    )
    .unwrap();
    assert!(fit.outcome.converged.item::<bool>().unwrap(), "{fit:?}");
    let best = (2.9 + 10.4 + 35.6) / 21.0;
    let sum = p.0.item::<f64>().unwrap() + p.1.item::<f64>().unwrap();
    assert!((sum - best).abs() < 1e-9, "{sum} {best}");
    assert!(deviations.0.item::<f64>().unwrap() == f64::INFINITY);
    // If there are as many parameters as data, the mean square of the residuals cannot be estimated. Then the standard
    // deviations are infinite, except with an absolute `sigma`.
    let through = |(x, y): (Var, Var)| {
        let zero = y.index(0) * 0.0;
        let fit = || optim::curve_fit(line, x, y, (zero, zero));
        (fit().fit().1.0, fit().absolute_sigma().fit().1.0)
    };
    let (unknown, known) = run(through, ([0.0, 1.0], [1.0, 2.0])).unwrap();
    assert!(unknown.item::<f64>().unwrap() == f64::INFINITY);
    assert!((known.item::<f64>().unwrap() - 1.0).abs() < 1e-12);
}

/// Bounds must hold. A parameter at a bound must not keep the other parameters from their minimum, and its derivative
/// must be the derivative of the bound.
#[test]
fn bounds_hold() {
    let fit = |(y, most): (Var, Var)| {
        let t = constant(TIMES);
        let ((low, none), high) = ((constant(0.0), constant(-1e9)), constant(f64::INFINITY));
        let model = |((a, (b, c)), t): ((Var, (Var, Var)), Var)| decay(((a, b), (c, t)));
        // The second start is outside of the bounds, so it is moved to the bound.
        let start = (constant(5.0), (constant(9.0), constant(0.0)));
        let low = (none, (low, none));
        let (p, _, fit) =
            optim::curve_fit(model, t, y, start).bounds(low, (high, (most, high))).fit();
        (p, fit)
    };
    let free = run(|y: Var| fitted(y, start_of(y)), SEEN).unwrap();
    let rate = free.0.0.1.item::<f64>().unwrap();
    let ((_, (b, _)), wide) = run(fit, (SEEN, 5.0)).unwrap();
    assert!((b.item::<f64>().unwrap() - rate).abs() < 1e-8 && rate > 0.5, "{b} {rate}");
    assert!(wide.outcome.converged.item::<bool>().unwrap(), "{wide:?}");
    let ((a, (b, c)), tight) = run(fit, (SEEN, 0.5)).unwrap();
    assert!(b.item::<f64>().unwrap() == 0.5, "{b}");
    assert!(tight.outcome.converged.item::<bool>().unwrap(), "{tight:?}");
    // With a fixed rate, the other parameters must be those of a linear fit.
    let linear = run(
        |y: Var| {
            let e = (-0.5 * constant(TIMES)).exp();
            linalg::lstsq(stack(&[e, e.ones_like()], 1), y)
        },
        SEEN,
    )
    .unwrap();
    let linear = linear.to_vec::<f64>().unwrap();
    assert!((a.item::<f64>().unwrap() - linear[0]).abs() < 1e-8, "{a} {linear:?}");
    assert!((c.item::<f64>().unwrap() - linear[1]).abs() < 1e-8, "{c} {linear:?}");
    let sum = |(y, most): (Var, Var)| {
        let ((a, (b, c)), _) = fit((y, most));
        a - 2.0 * b + 0.5 * c
    };
    check_grads(sum, (SEEN, 0.5), 1).unwrap();
    check_grads(sum, (SEEN, 5.0), 1).unwrap();
    // Bounds in the wrong order that are known only at run time must give the status `NotFinite`.
    let (_, fit) = run(fit, (SEEN, -1.0)).unwrap();
    let status = optim::Status::of(&fit.outcome.status).unwrap();
    assert_eq!(status, optim::Status::NotFinite);
}

/// The first trust region must be large enough for the residuals, even if the start is much smaller than the solution.
#[test]
fn fits_of_large_data_leave_the_start() {
    for scale in [1e-100, 1e10, 1e20, 1e100] {
        for start in [[0.0, 0.0], [1.0, 1.0]] {
            let fit = |(start, y): (Var, Var)| {
                let line = |(p, x): (Var, Var)| p.index(0) * x + p.index(1);
                let (p, _, fit) = optim::curve_fit(line, iota([4], 0, Dtype::F64), y, start).fit();
                (p, fit.outcome.converged)
            };
            let (p, converged) =
                run(fit, (start, [1.0, 3.0, 5.0, 7.0].map(|y| y * scale))).unwrap();
            let p = p.to_vec::<f64>().unwrap();
            let right = (p[0] / scale - 2.0).abs() < 1e-8 && (p[1] / scale - 1.0).abs() < 1e-8;
            assert!(right && converged.item::<bool>().unwrap(), "{scale:e} from {start:?}: {p:?}");
        }
    }
}
