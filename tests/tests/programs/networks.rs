//! Optimisers and learning rate schedules compared with optax, initial weights compared with JAX, recorded by
//! `tests/data/networks/record.py`; normalizations and dropout compared with their definitions.

use serde_json::Value;
use tapeloom::optim::{self, Optimizer};
use tapeloom::prelude::*;

/// A tree of parameters with two leaves, of three and of two numbers.
type Params<T> = (T, T);

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn cases(kind: &str) -> Vec<(String, Value)> {
    let text = include_str!("../../data/networks/values.jsonl");
    let lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines.filter_map(|l| Some((l[kind].as_str()?.to_owned(), l))).collect()
}

/// Returns the gradients `(i + 1) x³` of the parameters, i the index over both leaves: the same as in the recording
/// script.
fn gradient((x, y): Params<Var>) -> Params<Var> {
    let i = arange(5, Dtype::F64) + 1.0;
    let (a, b) = (i.slice_axis(0, ..3), i.slice_axis(0, 3..).reshape([1, 2]));
    (a * x.powi(3), b * y.powi(3))
}

/// Returns all five parameters, as one list, after each of six steps of the optimiser.
fn steps<O: Optimizer<Params<Var>>>(optimiser: O) -> Vec<Vec<f64>> {
    let all = jit(move |p: Params<Var>| {
        let start = (p, optimiser.init(&p));
        let step = |((p, state), _): ((Params<Var>, O::State), Var)| {
            let (p, state) = optimiser.step(&gradient(p), &state, &p);
            ((p, state), ravel(&p).0)
        };
        scan(step, start, arange(6, Dtype::I64)).1
    });
    let out = all.call(([1.0, -2.0, 0.5], [[0.25, 3.0]])).unwrap().to_vec::<f64>().unwrap();
    out.chunks(5).map(<[f64]>::to_vec).collect()
}

#[test]
fn steps_are_those_of_optax() {
    let mut seen = 0;
    for (name, case) in cases("optimiser") {
        let got = match name.as_str() {
            "sgd" => steps(optim::sgd(0.01)),
            "momentum" => steps(optim::sgd(0.01).momentum(0.9)),
            "nesterov" => steps(optim::sgd(0.01).momentum(0.9).nesterov()),
            "adam" => steps(optim::adam(0.1).betas(0.8, 0.95).epsilon(1e-6)),
            "adamw" => steps(optim::adamw(0.1, 0.01)),
            "nadam" => steps(optim::adam(0.1).nesterov()),
            "lamb" => steps(optim::lamb(0.1, 0.01)),
            "rmsprop" => steps(optim::rmsprop(0.01).decay(0.8).epsilon(1e-6)),
            "rmsprop momentum" => steps(optim::rmsprop(0.01).momentum(0.5)),
            "adagrad" => steps(optim::adagrad(0.1)),
            "lion" => steps(optim::lion(0.01, 0.1)),
            "chain" => steps((
                optim::clip_by_global_norm(5.0),
                optim::clip(2.0),
                optim::decay_weights(0.1),
                optim::adam(optim::cosine_decay(0.1, 4)),
            )),
            "ema" => steps((optim::ema(0.8), optim::sgd(0.01))),
            "accumulate" => steps(optim::accumulate(2, optim::sgd(0.01).momentum(0.9))),
            other => panic!("{other} is recorded, and not compared"),
        };
        // The tolerance for `accumulate` is larger, because optax accumulates means of gradients in f32.
        let within = if name == "accumulate" { 1e-7 } else { 1e-12 };
        let want: Vec<Vec<f64>> = case["steps"].as_array().unwrap().iter().map(numbers).collect();
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let close =
                got.iter().zip(want).all(|(x, y)| (x - y).abs() <= within * y.abs().max(0.1));
            assert!(close && got.len() == 5, "{name}, step {step}:\n{got:?}\n{want:?}");
        }
        assert_eq!(got.len(), want.len());
        seen += 1;
    }
    assert_eq!(seen, 14);
}

#[test]
fn schedules_are_those_of_optax() {
    let mut seen = 0;
    for (name, case) in cases("schedule") {
        let schedule = match name.as_str() {
            "linear" => optim::linear_schedule(1.0, 0.25, 8),
            "cosine" => optim::cosine_decay(2.0, 8),
            "exponential" => optim::exponential_decay(1.0, 4, 0.5),
            // The boundaries are given in another order than in the recording script; the order must not matter.
            "piecewise" => optim::piecewise_constant(1.0, &[(7, 0.05), (3, 0.5)]),
            "warm up" => optim::cosine_decay(1.0, 8).warm_up(4),
            "joined" => optim::linear_schedule(0.0, 1.0, 5).then(5, 0.5),
            other => panic!("{other} is recorded, and not compared"),
        };
        let all = run(|t: Var| vmap(|t: Var| schedule.at(t))(t), (0..13).collect::<Vec<i64>>());
        let (got, want) = (all.unwrap().to_vec::<f64>().unwrap(), numbers(&case["numbers"]));
        let close = got.iter().zip(&want).all(|(x, y)| (x - y).abs() <= 1e-15);
        assert!(close && got.len() == 13, "{name}:\n{got:?}\n{want:?}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// If the first stage of a learning rate schedule (such as the warm-up) has 0 steps, the schedule must begin with the
/// next stage.
#[test]
fn schedules_of_no_steps_have_ended() {
    let schedules = [
        optim::Schedule::from(0.5).warm_up(0),
        optim::linear_schedule(1.0, 0.5, 0),
        optim::cosine_decay(1.0, 8).warm_up(0),
        optim::cosine_decay(1.0, 0),
    ];
    let first = schedules.map(|s| run(|()| s.at(0i64), ()).unwrap().item::<f64>().unwrap());
    assert_eq!(first, [0.5, 0.5, 1.0, 0.0]);
}

#[test]
fn initial_weights_are_those_of_jax() {
    let mut seen = 0;
    for (name, case) in cases("weights") {
        let f = match name.as_str() {
            "glorot_uniform" => nn::glorot_uniform,
            "glorot_normal" => nn::glorot_normal,
            "he_uniform" => nn::he_uniform,
            "he_normal" => nn::he_normal,
            "lecun_uniform" => nn::lecun_uniform,
            "lecun_normal" => nn::lecun_normal,
            other => panic!("{other} is recorded, and not compared"),
        };
        let weights = run(move |()| f(random::key(7), [2usize, 3, 4], Dtype::F64), ());
        let (got, want) = (weights.unwrap().to_vec::<f64>().unwrap(), numbers(&case["numbers"]));
        let close = got.iter().zip(&want).all(|(x, y)| (x - y).abs() <= 1e-14);
        assert!(close && got.len() == 24, "{name}:\n{got:?}\n{want:?}");
        seen += 1;
    }
    assert_eq!(seen, 6);
}

fn input() -> Tensor {
    Tensor::new(&[3, 4, 6], (0..72).map(|i| f64::from(i * i % 31) / 7.0 - 1.0).collect::<Vec<_>>())
        .unwrap()
}

#[test]
fn normalizations_have_derivatives() {
    let weigh = |y: Var| (y * (arange(72, Dtype::F64).reshape([3, 4, 6]) * 0.7).cos()).sum();
    check_grads(move |x: Var| weigh(x.rms_norm([1, 2], 1e-3)), input(), 2).unwrap();
    check_grads(move |x: Var| weigh(x.group_norm(3, -1, 1e-3)), input(), 2).unwrap();
    check_grads(move |x: Var| weigh(x.group_norm(4, 1, 1e-3)), input(), 1).unwrap();
    let train =
        move |x: Var| weigh(nn::BatchNorm::new(1).train(x, &nn::Running::new(4, Dtype::F64)).0);
    check_grads(train, input(), 2).unwrap();
    let similar = |(x, y): (Var, Var)| x.cosine_similarity(y, 1).square().sum();
    check_grads(similar, (input(), input()), 2).unwrap();
}

/// `cosine_similarity` of vectors whose squared elements overflow or underflow must be right.
#[test]
fn angles_are_those_of_vectors_of_any_length() {
    let similar = |x: Var| x.cosine_similarity(constant([4e200, 3e200]), -1);
    for size in [1e-320, 1e-200, 1.0, 1e200, 1e308] {
        let c = run(similar, [0.75 * size, size]).unwrap().item::<f64>().unwrap();
        assert!((c - 0.96).abs() < 1e-3, "{size}: {c}");
    }
    check_grads(
        |x: Var| (x * 1e200).cosine_similarity(constant([4e-200, 3e-200]), -1),
        [0.3, 2.0],
        2,
    )
    .unwrap();
}

/// After sixty steps on one batch, the running statistics must equal the batch's, so that training and evaluation give
/// the same result.
#[test]
fn batch_norm_learns_the_batch() {
    let norm = nn::BatchNorm::new(-1).momentum(0.5);
    let f = |x: Var| {
        let state = nn::Running::new(6, Dtype::F64);
        let state = fori_loop(60, |(_, s): (Var, nn::Running<Var>)| norm.train(x, &s).1, state);
        (norm.train(x, &state).0 - norm.apply(x, &state)).abs().max()
    };
    assert!(run(f, input()).unwrap().item::<f64>().unwrap() < 1e-12);
    let mean = |x: Var| norm.train(x, &nn::Running::new(6, Dtype::F64)).1.mean.sum();
    let slope = run(grad(mean), input()).unwrap().to_vec::<f64>().unwrap();
    assert!(slope.iter().all(|x| *x == 0.0), "the state is no function of the batch");
}

#[test]
fn dropout_keeps_the_mean_and_has_its_derivative() {
    let f = |(x, rate): (Var, Var)| nn::dropout(random::key(1), x, rate);
    let y = run(f, (vec![1f32; 4000], 0.5f32)).unwrap();
    assert_eq!(y.dtype(), Dtype::F32);
    let mean = y.to_vec::<f32>().unwrap().iter().sum::<f32>() / 4000.0;
    assert!((mean - 1.0).abs() < 0.05, "{mean}");
    for (rate, want) in [(0.0, 1.0), (1.0, 0.0)] {
        assert!(
            run(f, ([1.0, 1.0], rate)).unwrap().to_vec::<f64>().unwrap().iter().all(|y| *y == want)
        );
    }
    let slope = run(grad(move |x: Var| f((x, constant(0.25))).sum()), [1.0; 20]).unwrap();
    let slope = slope.to_vec::<f64>().unwrap();
    assert!(slope.contains(&0.0) && slope.contains(&(4.0 / 3.0)), "{slope:?}");
    // Each batch member must drop elements by its own key.
    let both =
        run(|k: Var| vmap(|k: Var| nn::dropout(k, ones([50], Dtype::F64), 0.5))(k), [1u64, 2]);
    let both = both.unwrap().to_vec::<f64>().unwrap();
    assert_ne!(both[..50], both[50..]);
}

#[test]
fn mistakes_in_networks_name_the_line() {
    let messages = [
        run(|x: Var| x.group_norm(4, -1, 1e-5), input()).unwrap_err(),
        run(|x: Var| nn::BatchNorm::new(5).train(x, &nn::Running::new(6, Dtype::F64)).0, input())
            .unwrap_err(),
        run(|x: Var| nn::BatchNorm::new(1).apply(x, &nn::Running::new(6, Dtype::F64)), input())
            .unwrap_err(),
        run(
            |x: Var| nn::BatchNorm::new(1).train(x, &nn::Running::new(6, Dtype::F64)).0,
            [[0.0; 6]; 0],
        )
        .unwrap_err(),
        run(|x: Var| x.cross_entropy(constant([true, false])), [[1.0, 2.0], [3.0, 4.0]])
            .unwrap_err(),
        run(|x: Var| nn::dropout(random::key(0), x, 0.5), [1i64]).unwrap_err(),
        run(|x: Var| nn::dropout(random::key(0), x, -0.5), [1.0]).unwrap_err(),
        run(|x: Var| nn::dropout(random::key(0), x, f64::NAN), [1.0]).unwrap_err(),
        run(|()| nn::he_normal(random::key(0), [3], Dtype::F64), ()).unwrap_err(),
        run(|()| nn::he_normal(random::key(0), [3, 4], Dtype::I64), ()).unwrap_err(),
        run(|()| nn::orthogonal(random::key(0), [3], 1.0, Dtype::F64), ()).unwrap_err(),
        run(|x: Var| x.cosine_similarity(x, 3), [1.0, 2.0]).unwrap_err(),
    ];
    for message in messages.map(|m| m.to_string()) {
        assert!(message.contains("networks.rs"), "{message}");
    }
}
