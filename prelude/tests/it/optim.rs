//! Optimisers and minimisers: derivatives with respect to rates and other settings, dtypes, batches, errors. (Steps are
//! compared with optax's in `tests/tests/programs/networks.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::optim::State;
use tapeloom::prelude::*;

const START: [f64; 3] = [1.0, -2.0, 0.5];

/// Returns the gradient of `Σ kᵢ xᵢ⁴ / 4` for k = (1, 2, 3).
fn slopes(x: Var) -> Var {
    (iota([3], 0, Dtype::F64) + 1.0) * x * x * x
}

/// Returns the sum of squares of the parameters after three steps.
fn after<O: Optimizer<Var>>(optimiser: &O) -> Var {
    let mut p = constant(START);
    let mut state = optimiser.init(&p);
    for _ in 0..3 {
        (p, state) = optimiser.step(&slopes(p), &state, &p);
    }
    p.square().sum()
}

/// The loss after some steps must be differentiable with respect to every numeric setting of the optimiser.
#[test]
fn steps_have_derivatives_in_their_numbers() {
    let descent = |(rate, momentum): (Var, Var)| after(&optim::sgd(rate).momentum(momentum));
    check_grads(descent, (0.01, 0.8), 2).unwrap();
    let nesterov =
        |(rate, momentum): (Var, Var)| after(&optim::sgd(rate).momentum(momentum).nesterov());
    check_grads(nesterov, (0.01, 0.8), 2).unwrap();
    let adam = |(rate, decay, mean, square): (Var, Var, Var, Var)| {
        after(&optim::adamw(rate, decay).betas(mean, square))
    };
    check_grads(adam, (0.05, 0.1, 0.8, 0.95), 2).unwrap();
    let lamb = |(rate, decay): (Var, Var)| after(&optim::lamb(rate, decay));
    check_grads(lamb, (0.05, 0.1), 2).unwrap();
    let rmsprop = |(rate, decay, momentum): (Var, Var, Var)| {
        after(&optim::rmsprop(rate).decay(decay).momentum(momentum).epsilon(0.01))
    };
    check_grads(rmsprop, (0.05, 0.8, 0.5), 2).unwrap();
    check_grads(|rate: Var| after(&optim::adagrad(rate)), 0.05, 2).unwrap();
    check_grads(|(rate, decay): (Var, Var)| after(&optim::lion(rate, decay)), (0.05, 0.1), 2)
        .unwrap();
    let parts = |(decay, most, start, factor): (Var, Var, Var, Var)| {
        let rate = optim::exponential_decay(start, 2, factor).warm_up(2);
        after(&(optim::decay_weights(decay), optim::clip_by_global_norm(most), optim::scale(rate)))
    };
    check_grads(parts, (0.1, 2.0, -0.1, 0.5), 2).unwrap();
    let accumulated = |rate: Var| after(&optim::accumulate(2, optim::adam(rate)));
    check_grads(accumulated, 0.05, 2).unwrap();
}

/// In a batch of rates, each member takes the steps of its own rate.
#[test]
fn rates_may_be_batched() {
    let of = |rate: Var| after(&optim::accumulate(2, (optim::clip(1.0), optim::adam(rate))));
    let all = run(|r: Var| vmap(of)(r), [0.1, 0.2]).unwrap().to_vec::<f64>().unwrap();
    let one = |r: f64| run(of, r).unwrap().item::<f64>().unwrap();
    assert_eq!(all, [one(0.1), one(0.2)]);
}

/// With a gradient of zero, parameters do not move and derivatives exist; f32 leaves stay f32.
#[test]
fn nothing_moves_without_a_gradient() {
    fn still<O: Optimizer<Var>>(optimiser: impl Fn(Var) -> O) {
        let sum = |(p, rate): (Var, Var)| {
            let optimiser = optimiser(rate);
            let (p, state) = optimiser.step(&(p * 0.0), &optimiser.init(&p), &p);
            optimiser.step(&(p * 0.0), &state, &p).0.sum()
        };
        let (dp, drate) = run(grad(sum), ([1.0, 2.0], 0.1)).unwrap();
        assert_eq!(dp.to_vec::<f64>().unwrap(), [1.0, 1.0]);
        assert_eq!(drate.item::<f64>().unwrap(), 0.0);
        let narrow = |p: Var| {
            let optimiser = optimiser(constant(0.1));
            optimiser.step(&p, &optimiser.init(&p), &p).0
        };
        assert_eq!(run(narrow, [1f32]).unwrap().dtype(), Dtype::F32);
    }
    still(|rate| optim::sgd(rate).momentum(0.9).nesterov());
    still(optim::adam);
    still(|rate| optim::adam(rate).nesterov());
    still(|rate| optim::lamb(rate, 0.0));
    still(|rate| optim::rmsprop(rate).epsilon(0.0).momentum(0.5));
    still(|rate| optim::adagrad(rate).start(0.0).epsilon(0.0));
    still(|rate| optim::lion(rate, 0.0));
    still(|rate| optim::accumulate(2, (optim::clip_by_global_norm(1.0), optim::adam(rate))));
}

/// A state of other parameters, or a gradient of another form, is an error at the user's line.
#[test]
fn mistakes_name_the_line() {
    let adam = optim::adam(0.1);
    let wrong = run(
        |(p, g): (Vec<Var>, Vec<Var>)| adam.step(&g, &adam.init(&p), &p).0,
        (vec![1.0, 2.0], vec![1.0]),
    );
    let message = wrong.unwrap_err().to_string();
    assert!(message.contains("different structure") && message.contains("optim.rs"), "{message}");
    let wrong = run(
        |(p, s): (Var, State<optim::Adam, Var>)| adam.step(&p, &s, &p).0,
        ([1.0, 2.0], (0i64, [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])),
    );
    let message = wrong.unwrap_err().to_string();
    assert!(message.contains("error[shape]") && message.contains("optim.rs"), "{message}");
}

/// Returns `Σ (x - a)²(1 + i) + Σ (x - a)⁴ + sin a`, which is minimal at x = a.
fn bowl(x: Var, a: Var) -> Var {
    let d = x - a;
    let i = iota([3], 0, Dtype::F64) + 1.0;
    (i * d * d + d.powi(4)).sum() + a.sin()
}

/// Returns the parameters after `n` steps of L-BFGS.
fn descended(memory: usize, n: usize, x: Var, a: Var) -> Var {
    let lbfgs = optim::lbfgs(memory);
    let step =
        |(_, (x, c)): (Var, (Var, optim::Curvature<Var>))| lbfgs.step(|x: Var| bowl(x, a), &x, &c);
    fori_loop(n, step, (x, lbfgs.start(&x))).0
}

#[test]
fn lbfgs_finds_minima() {
    for (memory, n, off) in [(5, 12, 1e-9), (1, 25, 1e-7), (0, 200, 1e-3)] {
        let x =
            jit(move |(x, a): (Var, Var)| descended(memory, n, x, a)).call((START, 0.25)).unwrap();
        let x = x.to_vec::<f64>().unwrap();
        assert!(x.iter().all(|x| (x - 0.25).abs() < off), "{memory}: {x:?}");
    }
    // In a batch, each member must take the steps of a single call, with step sizes of its own.
    let both = jit(|a: Var| vmap(|a: Var| descended(5, 12, constant(START), a))(a));
    let x = both.call([0.25, -40.0]).unwrap().to_vec::<f64>().unwrap();
    let alone = |a: f64| {
        let one = jit(|a: Var| descended(5, 12, constant(START), a));
        one.call(a).unwrap().to_vec::<f64>().unwrap()
    };
    let want = [alone(0.25), alone(-40.0)].concat();
    assert!(x.iter().zip(&want).all(|(x, y)| (x - y).abs() < 1e-6), "{x:?} {want:?}");
    // Parameters that are at a minimum, a tree of f32 leaves, must not move.
    let stay = jit(|p: (Var, Vec<Var>)| {
        let loss = |(x, y): (Var, Vec<Var>)| x * x + y[0].square().sum();
        let lbfgs = optim::lbfgs(3);
        lbfgs.step(loss, &p, &lbfgs.start(&p)).0
    });
    let (x, y) = stay.call((0f32, vec![[0f32, 0.0]])).unwrap();
    assert_eq!((x, y), (Tensor::from(0f32), vec![Tensor::from([0f32, 0.0])]));
}

/// The gradient goes through the steps: it agrees with finite differences after a few steps, and is exact at the
/// minimum.
#[test]
fn lbfgs_is_differentiable() {
    let loss = |n: usize| {
        move |a: Var| (descended(4, n, constant(START), a) * constant([1.0, 2.0, 3.0])).sum()
    };
    let (f, slope) = (jit(loss(3)), jit(grad(loss(3))));
    let at = |a: f64| f.call(a).unwrap().item::<f64>().unwrap();
    let want = (at(0.25 + 1e-6) - at(0.25 - 1e-6)) / 2e-6;
    let got = slope.call(0.25).unwrap().item::<f64>().unwrap();
    assert!((got - want).abs() < 1e-6 * want.abs(), "{got} {want}");
    let end = jit(grad(loss(14))).call(0.25).unwrap().item::<f64>().unwrap();
    assert!((end - 6.0).abs() < 1e-6, "{end}");
}

/// Each minimiser must find the minimum, alone and in a batch. The derivative of the minimum must be that of the
/// equation which the minimum satisfies.
#[test]
fn minimisers_find_minima() {
    finds_the_minimum("bfgs", |x, a| optim::bfgs().minimize(|x: Var| bowl(x, a), x));
    finds_the_minimum("lbfgs", |x, a| optim::lbfgs(5).minimize(|x: Var| bowl(x, a), x));
    finds_the_minimum("newton_cg", |x, a| optim::newton_cg().minimize(|x: Var| bowl(x, a), x));
}

/// Checks a minimiser on the function [`bowl`]: alone, in a batch, and its derivatives. The minimiser gets the start
/// and `a`.
pub(crate) fn finds_the_minimum(
    name: &str,
    minimize: impl Fn(Var, Var) -> (Var, optim::Outcome<Var>),
) {
    let find = |(x, a): (Var, Var)| minimize(x, a);
    let (x, outcome) = run(find, (START, 0.25)).unwrap();
    let off = x.to_vec::<f64>().unwrap().iter().fold(0f64, |m, x| m.max((x - 0.25).abs()));
    assert!(off < 1e-8, "{name}: {off}");
    assert!(outcome.converged.item::<bool>().unwrap(), "{name}: {outcome:?}");
    assert!(outcome.gradient.item::<f64>().unwrap() < 1e-7, "{name}: {outcome:?}");
    let iterations = outcome.iterations.item::<i64>().unwrap();
    assert!((3..40).contains(&iterations), "{name}: {outcome:?}");
    let value = outcome.value.item::<f64>().unwrap();
    assert!((value - 0.25f64.sin()).abs() < 1e-12, "{name}: {value}");
    let sum = |a: Var| (minimize(constant(START), a).0 * constant([1.0, 2.0, 3.0])).sum();
    let slope = run(grad(sum), 0.25).unwrap().item::<f64>().unwrap();
    assert!((slope - 6.0).abs() < 1e-6, "{name}: {slope}");
    // Envelope theorem: the derivative of the minimal value is the partial derivative of the loss at the minimum.
    let value = |a: Var| minimize(constant(START), a).1.value;
    let slope = run(grad(value), 0.25).unwrap().item::<f64>().unwrap();
    assert!((slope - 0.25f64.cos()).abs() < 1e-7, "{name}: {slope}");
    let both = |a: Var| vmap(|a: Var| minimize(constant(START), a))(a);
    let (x, outcome) = run(both, [0.25, -4.0]).unwrap();
    let (alone, counted) = run(find, (START, -4.0)).unwrap();
    let (x, alone) = (x.to_vec::<f64>().unwrap(), alone.to_vec::<f64>().unwrap());
    assert!(x[3..].iter().zip(&alone).all(|(x, y)| (x - y).abs() < 1e-9), "{name}: {x:?}");
    let counts = outcome.evaluations.to_vec::<i64>().unwrap();
    assert_eq!(counts[1], counted.evaluations.item::<i64>().unwrap(), "{name}");
}

/// Splits ten parameters into the first and the second numbers of five pairs.
pub(crate) fn pairs(x: Var) -> (Var, Var) {
    let x = x.reshape([5, 2]);
    (x.index_axis(1, 0), x.index_axis(1, 1))
}

/// Checks a minimiser on functions of [`pairs`] that have a single minimum, at 1, from the usual start. (A function of
/// a chain of ten parameters has a second minimum.)
pub(crate) fn masters_the_valley(name: &str, minimize: impl Fn(Var) -> (Var, optim::Outcome<Var>)) {
    let start: Vec<f64> = (0..10).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
    let (x, outcome) = run(minimize, &start).unwrap();
    let off = x.to_vec::<f64>().unwrap().iter().fold(0f64, |m, x| m.max((x - 1.0).abs()));
    assert!(off < 1e-6 && outcome.converged.item::<bool>().unwrap(), "{name}: {off} {outcome:?}");
}

/// Minimises common test functions from their usual starts.
#[test]
fn minimisers_master_narrow_valleys() {
    let rosenbrock = |x: Var| {
        let (a, b) = pairs(x);
        (100.0 * (b - a * a).square() + (1.0 - a).square()).sum()
    };
    masters_the_valley("bfgs", |x: Var| optim::bfgs().minimize(rosenbrock, x));
    masters_the_valley("lbfgs", |x: Var| optim::lbfgs(8).minimize(rosenbrock, x));
    masters_the_valley("newton_cg", |x: Var| optim::newton_cg().minimize(rosenbrock, x));
}

/// The end of a search must depend neither on the unit of the loss nor on a constant that is added to the loss. An
/// unbounded descent must not converge.
#[test]
fn minimisers_know_no_units() {
    type Minimise = Box<dyn Fn(&dyn Fn(Var) -> Var, Var) -> (Var, optim::Outcome<Var>)>;
    let methods: [(&str, Minimise); 3] = [
        ("bfgs", Box::new(|f, x| optim::bfgs().minimize(f, x))),
        ("lbfgs", Box::new(|f, x| optim::lbfgs(5).minimize(f, x))),
        ("newton_cg", Box::new(|f, x| optim::newton_cg().minimize(f, x))),
    ];
    for (name, minimise) in &methods {
        let far = |x: Var| minimise(&|x: Var| (x - 1e10).square(), x);
        let lifted = |x: Var| minimise(&|x: Var| (x - 1.0).square() + 1e8, x);
        let large = |x: Var| minimise(&|x: Var| 1e12 * ((x - 2.0).square() + (x - 2.0).powi(4)), x);
        let found = |f: &dyn Fn(Var) -> (Var, optim::Outcome<Var>),
                     from: f64,
                     to: f64,
                     error: f64| {
            let (x, outcome) = run(f, from).unwrap();
            let off = (x.item::<f64>().unwrap() - to).abs();
            assert!(off <= error && outcome.converged.item().unwrap(), "{name}: {x} {outcome:?}");
        };
        found(&far, 0.0, 1e10, 1.0);
        found(&lifted, 1.4, 1.0, 1e-3);
        found(&large, -3.0, 2.0, 1e-7);
        let huge = |x: Var| minimise(&|x: Var| 1e200 * (x - 2.0).square(), x);
        found(&huge, -3.0, 2.0, 1e-7);
        let narrow = |x: Var| minimise(&|x: Var| 1e30 * (x - 2.0).square().sum(), x);
        let (x, outcome) = run(narrow, [1f32, 5.0]).unwrap();
        let near = x.to_vec::<f32>().unwrap().iter().all(|x| (x - 2.0).abs() < 1e-3);
        assert!(near && outcome.converged.item().unwrap(), "{name}: {x} {outcome:?}");
        let slope = |x: Var| minimise(&|x: Var| -x.sum(), x).1.converged;
        assert!(!run(slope, [0.0, 1.0]).unwrap().item::<bool>().unwrap(), "{name}");
        let valley = |x: Var| minimise(&|x: Var| (x * constant([1.0, 1e3])).square().sum(), x);
        let (x, outcome) = run(valley, [100.0, -100.0]).unwrap();
        let near = x.to_vec::<f64>().unwrap().iter().all(|x| x.abs() < 1e-6);
        assert!(near && outcome.converged.item().unwrap(), "{name}: {x} {outcome:?}");
    }
}

/// A loss without a minimum ends without convergence; f32 stays f32; without parameters nothing is computed.
#[test]
fn searches_end() {
    let unbounded = |x: Var| optim::bfgs().iterations(20).minimize(|x: Var| -x.exp(), x).1;
    // If the loss is infinite at the start, there is no direction, and the search does not converge.
    let infinite = |x: Var| optim::bfgs().minimize(|x: Var| x.exp() - 2.0 * x, x).1;
    assert!(!run(infinite, 800.0).unwrap().converged.item::<bool>().unwrap());
    assert!(!run(unbounded, 0.0).unwrap().converged.item::<bool>().unwrap());
    let nan = |x: Var| optim::lbfgs(3).minimize(|x: Var| (x - 5.0).sqrt(), x).1;
    assert!(!run(nan, 0.0).unwrap().converged.item::<bool>().unwrap());
    let narrow = |x: Var| optim::newton_cg().minimize(|x: Var| (x - 2.0).square().sum(), x);
    let (x, outcome) = run(narrow, [1f32, 5.0]).unwrap();
    assert_eq!(x, Tensor::from([2f32, 2.0]));
    assert!(outcome.converged.item::<bool>().unwrap());
    let none = |x: Var| optim::bfgs().minimize(|x: Var| x.sum(), x).1;
    let outcome = run(none, Vec::<f64>::new()).unwrap();
    assert!(outcome.converged.item::<bool>().unwrap());
    // The closure has two mistakes, and each must be reported at its own line.
    let line = line!() + 1;
    let wrong = run(
        |x: Var| optim::bfgs().minimize(|x: Var| (x + constant([1.0, 2.0])).sum(), x).0,
        [0.0; 3],
    );
    let message = wrong.unwrap_err().to_string();
    assert!(
        message.contains(&format!("optim.rs:{line}")) && !message.contains("in `bfgs`"),
        "{message}"
    );
}

/// Norms are right for elements whose squares overflow or underflow, in clipping and in the error norm of a step.
#[test]
fn norms_of_every_size() {
    let clip = |most: f64| move |g: Var| clip_by_global_norm(&g, most);
    let half = 0.5f64.sqrt();
    for size in [1e-300, 1e-170, 1.0, 1e20, 1e160, 1e308] {
        let found = run(clip(1e-305), [size, -size]).unwrap().to_vec::<f64>().unwrap();
        let near = |x: f64, y: f64| (x / y - 1.0).abs() < 1e-12;
        assert!(near(found[0], 1e-305 * half) && near(found[1], -1e-305 * half), "{found:?}");
        let norm = run(|g: Var| global_norm(&g), [0.3 * size, 0.4 * size]).unwrap();
        assert!(near(norm.item::<f64>().unwrap(), 0.5 * size), "{size}");
        let slope =
            run(grad(|g: Var| global_norm(&g)), [3.0 * size.min(1e307), 4.0 * size.min(1e307)]);
        let slope = slope.unwrap().to_vec::<f64>().unwrap();
        assert!(near(slope[0], 0.6) && near(slope[1], 0.8), "{size}: {slope:?}");
    }
    let found = run(clip(1.0), [1e20f32, -1e20]).unwrap().to_vec::<f32>().unwrap();
    assert!((found[0] - 0.70710677).abs() < 1e-6 && (found[1] + 0.70710677).abs() < 1e-6);
    let found = run(clip(1e-31), [1e-30f32, -1e-30]).unwrap().to_vec::<f32>().unwrap();
    assert!((found[0] * 1e31 - 0.70710677).abs() < 1e-6, "{found:?}");
    // Elements that are not clipped are unchanged, and nan remains nan.
    let small = [0.25, -1e-200];
    assert_eq!(run(clip(1.0), small).unwrap().to_vec::<f64>().unwrap(), small);
    assert_eq!(run(clip(1.0), [0.0, 0.0]).unwrap().to_vec::<f64>().unwrap(), [0.0, 0.0]);
    let found = run(clip(1.0), [f64::INFINITY, 1.0]).unwrap().to_vec::<f64>().unwrap();
    assert!(found[0].is_nan() && found[1] == 0.0, "{found:?}");

    let lamb = optim::lamb(0.01, 0.0);
    let moved = |p: [f64; 2], g: [f64; 2]| {
        let step = run(|(p, g): (Var, Var)| lamb.update(&g, &lamb.init(&p), &p).0, (p, g));
        let step = step.unwrap().to_vec::<f64>().unwrap();
        (step[0] / p[0]).hypot(step[1] / p[0])
    };
    for size in [1e-300, 1e-170, 1.0, 1e170, 1e300] {
        let found = moved([3.0 * size, 4.0 * size], [1.0, 1.0]);
        assert!((found - 0.01 * 5.0 / 3.0).abs() < 1e-12, "{size}: {found}");
    }
}

/// Without an epsilon, a gradient of 0 gives a step of 0, not of 0/0.
#[test]
fn no_gradient_is_no_step_without_an_epsilon() {
    let step = |g: Var| {
        let adam = optim::adam(0.1).epsilon(0.0);
        let p = constant([1.0, 1.0]);
        adam.step(&g, &adam.init(&p), &p).0
    };
    let p = run(step, [0.0, 3.0]).unwrap().to_vec::<f64>().unwrap();
    assert!(p[0] == 1.0 && (p[1] - 0.9).abs() < 1e-15, "{p:?}");
    let slope = run(grad(|g: Var| step(g).sum()), [0.0, 3.0]).unwrap().to_vec::<f64>().unwrap();
    assert!(slope[0] == 0.0 && slope[1].abs() < 1e-15, "{slope:?}");
}

/// For a quadratic function with curvatures from 2 to 20,000, BFGS must take about as many iterations as there are
/// parameters, as with exact line searches; SciPy's BFGS takes 109 iterations and 120 evaluations. The unit of the loss
/// must not change the number.
#[test]
fn bfgs_copes_with_bad_scales() {
    for unit in [1.0, 1e-6, 1e6] {
        let loss = move |x: Var| {
            let weights = (linspace(0.0, 4.0, 100, Dtype::F64) * 10f64.ln()).exp();
            unit * (weights * (x - 1.0).square()).sum()
        };
        let (x, outcome) =
            run(|x: Var| optim::bfgs().gtol(1e-8 * unit).minimize(loss, x), vec![0.0; 100])
                .unwrap();
        let off = x.to_vec::<f64>().unwrap().iter().fold(0f64, |m, x| m.max((x - 1.0).abs()));
        let [iterations, evaluations] =
            [&outcome.iterations, &outcome.evaluations].map(|n| n.item::<i64>().unwrap());
        assert!(off < 1e-7 && outcome.converged.item::<bool>().unwrap(), "{off} {outcome:?}");
        assert!(iterations <= 160 && evaluations <= 190, "{unit}: {iterations} {evaluations}");
    }
    // BFGS must need at most one and a half times the iterations of SciPy's BFGS, which takes 34, 74 and 354 for these
    // numbers of parameters.
    for (n, most) in [(2, 51), (10, 111), (50, 531)] {
        let loss = move |x: Var| {
            let (a, b) = (x.slice_axis(0, ..n - 1), x.slice_axis(0, 1..));
            (100.0 * (b - a * a).square() + (1.0 - a).square()).sum()
        };
        let start: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { -1.2 } else { 1.0 }).collect();
        let outcome = run(|x: Var| optim::bfgs().minimize(loss, x).1, &start).unwrap();
        assert!(outcome.iterations.item::<i64>().unwrap() <= most, "{n}: {outcome:?}");
    }
}

/// Checks that a search ends with a status.
pub(crate) fn ends_with(want: optim::Status, search: &dyn Fn(Var) -> optim::Outcome<Var>) {
    let outcome = run(search, [2.0, 3.0]).unwrap();
    let found = optim::Status::of(&outcome.status).unwrap();
    assert_eq!(found, want, "{outcome:?}");
    assert_eq!(outcome.converged.item::<bool>().unwrap(), want as i64 > 0, "{outcome:?}");
}

/// The status must name the criterion that ended the search. If the loss is noisy, a search with a tolerance of the
/// loss must converge.
#[test]
fn searches_name_their_end() {
    use optim::Status;
    let check = ends_with;
    let loss = |x: Var| x.cosh().sum();
    let noisy = |x: Var| loss(x) + 1e-6 * (1e9 * x.sum()).sin().stop_gradient();
    let lbfgs = optim::lbfgs(5);
    check(Status::Gradient, &|x| optim::bfgs().minimize(loss, x).1);
    check(Status::Gradient, &|x| lbfgs.minimize(loss, x).1);
    check(Status::TooManySteps, &|x| optim::newton_cg().iterations(1).minimize(loss, x).1);
    check(Status::NoDescent, &|x| optim::bfgs().minimize(noisy, x).1);
    check(Status::NoDescent, &|x| lbfgs.minimize(noisy, x).1);
    check(Status::Loss, &|x| optim::bfgs().ftol(1e-6).minimize(noisy, x).1);
    check(Status::Loss, &|x| lbfgs.ftol(1e-6).minimize(noisy, x).1);
    check(Status::Loss, &|x| optim::newton_cg().ftol(0.1).minimize(loss, x).1);
    check(Status::NotFinite, &|x| lbfgs.minimize(|x: Var| (x - 9.0).ln().sum(), x).1);
    assert!(Status::of(&Tensor::from(7i64)).is_err() && Status::of(&Tensor::from(1.0)).is_err());
}

/// Wrong options and data are errors at the user's line.
#[test]
fn fits_refuse_wrong_options() {
    let check = |call: &dyn Fn(Var) -> Var, kind: &str, word: &str| {
        let message = run(call, [1.0, 2.0, 3.0]).unwrap_err().to_string();
        let place = message.contains("optim.rs") && message.contains(&format!("error[{kind}]"));
        assert!(place && message.contains(word), "{message}");
        assert_eq!(message.matches("error[").count(), 1, "{message}");
    };
    let square = |x: Var| x.square().sum();
    check(&|x| optim::bfgs().ftol(-1.0).minimize(square, x).0, "arguments", "ftol");
    check(&|x| optim::lbfgs(3).gtol(f64::NAN).minimize(square, x).0, "arguments", "gtol");
    let squares = || optim::levenberg_marquardt();
    check(&|x| squares().xtol(-1e-9).minimize_squares(|x: Var| x, x).0, "arguments", "xtol");
    let fit = |x: Var| optim::curve_fit(|(p, x): (Var, Var)| p * x, x, x, constant(1.0));
    check(&|x| fit(x).ftol(-1.0).fit().0, "arguments", "ftol");
    check(&|x| fit(x).sigma(0.0).fit().0, "arguments", "sigma");
    check(&|x| fit(x).sigma(constant([1.0, 2.0])).fit().0, "shape", "sigma");
    check(&|x| fit(x).sigma(constant([1f32])).fit().0, "dtype", "sigma");
    check(&|x| fit(x).bounds(constant(2.0), constant(1.0)).fit().0, "arguments", "bounds");
    check(&|x| fit(x).bounds(x, x).fit().0, "shape", "bound");
    let other = |x: Var| optim::curve_fit(|(p, x): (Var, Var)| p * x, x, constant(1f32), x);
    check(&|x| other(x).fit().0, "dtype", "data");
    let short = |x: Var| optim::curve_fit(|(p, x): (Var, Var)| p * x.sum(), x, x, constant(1.0));
    check(&|x| short(x).fit().0, "shape", "data");
    let whole = |x: Var| optim::curve_fit(|(p, _): (Var, Var)| p, x, x, constant(1i64));
    check(&|x| whole(x).fit().0, "not-differentiable", "float");
}

/// A wrong shape is one error. It names the function that the user called, and not `grad` or `custom_root`, which the
/// minimisers call.
#[test]
fn fits_of_wrong_shapes_name_the_call_of_the_user() {
    let check = |call: &dyn Fn(Var) -> Var, words: &[&str]| {
        let message = run(call, [1.0, 2.0, 3.0]).unwrap_err().to_string();
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
        for word in ["`grad`", "value_and_grad", "custom_root", "while_loop"] {
            assert!(!message.contains(word), "{word}: {message}");
        }
        assert_eq!(message.matches("error[").count(), 1, "{message}");
        assert_eq!(message.matches("while tracing for").count(), 2, "{message}");
    };
    let line = |(p, x): (Var, Var)| p.index(0) + p.index(1) * x;
    let fit = |x, y, start: Var| optim::curve_fit(line, x, y, start).fit().0;
    let short = |x: Var| fit(x, constant([1.0, 2.0]), constant([0.0, 0.0]));
    let message = "the model of `curve_fit` must return f64[2], the type of the data `y`, and it returns f64[3]";
    check(
        &short,
        &[message, "optim.rs", "model", "data", "= help: the model returns one element for each"],
    );
    let start = |x: Var| fit(x, x, constant([0.0]));
    let message = "index 1 is out of range for axis 0 of shape [1]";
    check(&start, &[message, "f64[1]  made at", "while tracing for `curve_fit` at"]);
    let losses = |y: Var| {
        optim::levenberg_marquardt().minimize_squares(|p: Var| p - y, constant([0.0, 0.0])).0
    };
    check(&losses, &["`sub` cannot broadcast shapes [2] and [3]", "for `levenberg_marquardt` at"]);
    let vector = |x: Var| x.square();
    for (name, found) in [
        ("bfgs", &(|x: Var| optim::bfgs().minimize(vector, x).0) as &dyn Fn(Var) -> Var),
        ("lbfgs", &|x: Var| optim::lbfgs(3).minimize(vector, x).0),
        ("newton_cg", &|x: Var| optim::newton_cg().minimize(vector, x).0),
    ] {
        let message = format!("the loss of `{name}` must be a float scalar, and it is f64[3]");
        check(found, &[&message, "optim.rs", "= help: reduce it, for instance with `.sum()`"]);
    }
}
