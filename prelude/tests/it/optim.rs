//! Optimisers against the same formulas in plain Rust, and their derivatives in rates and other numbers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;

const START: [f64; 3] = [1.0, -2.0, 0.5];

/// The gradient of `Σ kᵢ xᵢ⁴ / 4`.
fn slope(i: usize, x: f64) -> f64 {
    (i as f64 + 1.0) * x * x * x
}

fn slopes(x: Var) -> Var {
    (iota([3], 0, Dtype::F64) + 1.0) * x * x * x
}

fn close(got: &Tensor, want: &[f64]) {
    let got = got.to_vec::<f64>().unwrap();
    assert_eq!(got.len(), want.len());
    for (x, y) in got.iter().zip(want) {
        assert!((x - y).abs() <= 1e-13 * y.abs(), "{x} and {y}");
    }
}

#[test]
fn steps_are_those_of_the_formulas() {
    let (mut x, mut v) = (START, [0.0; 3]);
    let (mut y, mut m, mut s) = (START, [0.0; 3], [0.0; 3]);
    let descend =
        jit(|(p, v): (Var, Var)| optim::sgd(0.01).momentum(0.9).update(&p, &slopes(p), &v));
    let adam = jit(|(p, state, t): (Var, [Var; 2], Var)| {
        optim::adamw(0.1, 0.01).betas(0.8, 0.95).epsilon(1e-6).update(&p, &slopes(p), &state, t)
    });
    let zero = Tensor::from([0.0; 3]);
    let mut descended = (Tensor::from(START), zero.clone());
    let mut adapted = (Tensor::from(START), [zero.clone(), zero]);
    for t in 1..=5 {
        for i in 0..3 {
            v[i] = 0.9 * v[i] + slope(i, x[i]);
            x[i] -= 0.01 * v[i];
            let g = slope(i, y[i]);
            m[i] = 0.8 * m[i] + 0.2 * g;
            s[i] = 0.95 * s[i] + 0.05 * g * g;
            let (mean, square) = (m[i] / (1.0 - 0.8f64.powi(t)), s[i] / (1.0 - 0.95f64.powi(t)));
            y[i] -= 0.1 * (mean / (square.sqrt() + 1e-6) + 0.01 * y[i]);
        }
        descended = descend.call((&descended.0, &descended.1)).unwrap();
        adapted = adam.call((&adapted.0, &adapted.1, f64::from(t))).unwrap();
        close(&descended.0, &x);
        close(&adapted.0, &y);
    }
}

/// The loss after some steps moves with every number of the optimiser.
#[test]
fn steps_have_derivatives_in_their_numbers() {
    let after_descent = |(rate, momentum): (Var, Var)| {
        let (mut p, mut v) = (constant(START), zeros([3], Dtype::F64));
        for _ in 0..3 {
            (p, v) = optim::sgd(rate).momentum(momentum).update(&p, &slopes(p), &v);
        }
        p.square().sum()
    };
    check_grads(after_descent, (0.01, 0.8), 2).unwrap();
    let after_adam = |(rate, decay, mean, square): (Var, Var, Var, Var)| {
        let mut p = constant(START);
        let mut state = [zeros_like(&p), zeros_like(&p)];
        for t in 1..=3 {
            let adam = optim::adamw(rate, decay).betas(mean, square);
            (p, state) = adam.update(&p, &slopes(p), &state, f64::from(t));
        }
        p.square().sum()
    };
    check_grads(after_adam, (0.05, 0.1, 0.8, 0.95), 2).unwrap();
}

/// A leaf that has not moved yet does not move, and has derivatives; f32 leaves stay f32.
#[test]
fn nothing_moves_without_a_gradient() {
    let still = |(p, rate): (Var, Var)| {
        let zero = p * 0.0;
        optim::adam(rate).update(&p, &zero, &[zero, zero], 1.0).0.sum()
    };
    let (dp, drate) = run(grad(still), ([1.0, 2.0], 0.1)).unwrap();
    assert_eq!(dp.to_vec::<f64>().unwrap(), [1.0, 1.0]);
    assert_eq!(drate.item::<f64>().unwrap(), 0.0);
    let narrow = |p: Var| optim::adam(0.1).update(&p, &p, &[p, p], 1.0).0;
    assert_eq!(run(narrow, [1f32]).unwrap().dtype(), Dtype::F32);
}

/// `Σ (x - a)²(1 + i) + Σ (x - a)⁴ + sin a`, with its minimum at a.
fn bowl(x: Var, a: Var) -> Var {
    let d = x - a;
    let i = iota([3], 0, Dtype::F64) + 1.0;
    (i * d * d + d.powi(4)).sum() + a.sin()
}

/// Where `n` steps of L-BFGS lead.
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
    // Every member of a batch has steps of its own length.
    let both = jit(|a: Var| vmap(|a: Var| descended(5, 12, constant(START), a))(a));
    let x = both.call([0.25, -40.0]).unwrap().to_vec::<f64>().unwrap();
    let alone = |a: f64| {
        let one = jit(|a: Var| descended(5, 12, constant(START), a));
        one.call(a).unwrap().to_vec::<f64>().unwrap()
    };
    let want = [alone(0.25), alone(-40.0)].concat();
    assert!(x.iter().zip(&want).all(|(x, y)| (x - y).abs() < 1e-6), "{x:?} {want:?}");
    // A tree of f32, at a minimum already: it stays.
    let stay = jit(|p: (Var, Vec<Var>)| {
        let loss = |(x, y): (Var, Vec<Var>)| x * x + y[0].square().sum();
        let lbfgs = optim::lbfgs(3);
        lbfgs.step(loss, &p, &lbfgs.start(&p)).0
    });
    let (x, y) = stay.call((0f32, vec![[0f32, 0.0]])).unwrap();
    assert_eq!((x, y), (Tensor::from(0f32), vec![Tensor::from([0f32, 0.0])]));
}

/// The gradient goes through the steps: beside differences after a few, and exact at the minimum.
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
