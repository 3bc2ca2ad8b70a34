//! The generator with state: its draws differ in loops, branches and closures of transforms, and are the same when
//! they are recomputed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use tapeloom::Kind;
use tapeloom::prelude::*;
use tapeloom::random::Rng;

fn draw(rng: Rng) -> Var {
    rng.uniform([], Dtype::F64)
}

/// Returns all elements of all results.
fn all(f: impl Fn(Rng) -> Vec<Var>) -> Vec<f64> {
    let y = run(|seed: Var| f(Rng::new(seed)), 11i64).unwrap();
    y.iter().flat_map(|t| t.to_vec::<f64>().unwrap()).collect()
}

#[track_caller]
fn differ(n: usize, f: impl Fn(Rng) -> Vec<Var>) {
    let mut y = all(f);
    assert_eq!(y.len(), n);
    y.sort_by(f64::total_cmp);
    y.dedup();
    assert_eq!(y.len(), n, "some are equal: {y:?}");
}

#[test]
fn draws_differ_by_step() {
    differ(3, |rng| (0..3).map(|_| draw(rng)).collect());
    differ(5, |rng| vec![map(|x: Var| x + draw(rng), zeros([4], Dtype::F64)), draw(rng)]);
    // Draws in a loop within a loop must differ from each other, and from draws before and after the loops.
    differ(8, |rng| {
        let row = |x: Var| map(|x: Var| x + draw(rng), x);
        vec![draw(rng), map(row, zeros([2, 3], Dtype::F64)), draw(rng)]
    });
    let many = |rng: Rng, n: i64| {
        let below = move |(n, _): (Var, Var)| n.lt(constant(n_of(3)));
        let last = while_loop(below, |(n, _)| (n + 1, draw(rng)), (constant(n_of(n)), draw(rng)));
        vec![last.1, draw(rng)]
    };
    differ(2, |rng| many(rng, 0));
    differ(2, |rng| many(rng, 9));
}

fn n_of(n: i64) -> Tensor {
    n.into()
}

#[test]
fn branches_draw_and_go_on() {
    for x in [1.0, -1.0] {
        differ(3, move |rng| {
            let x = constant(x);
            let two = |_: Var| draw(rng) + 0.0 * draw(rng);
            vec![cond(x.gt(0.0), two, |_: Var| draw(rng), x), draw(rng), draw(rng)]
        });
    }
}

#[test]
fn lanes_and_closures_have_draws_of_their_own() {
    let noisy = |rng: Rng| move |x: Var| x + draw(rng);
    differ(4, |rng| vec![vmap(noisy(rng))(zeros([3], Dtype::F64)), draw(rng)]);
    differ(12, |rng| {
        let once = || vmap(vmap(noisy(rng)))(zeros([2, 3], Dtype::F64));
        vec![once(), once()]
    });
    // Draws must differ in nested constructs: a loop in a closure in a batch in a loop.
    differ(12, |rng| {
        let lane = |x: Var| {
            let noise = |x: Var| map(|x: Var| x * draw(rng), x).sum();
            grad(noise)(stack(&[x, x], 0))
        };
        vec![map(|x: Var| vmap(lane)(x), zeros([2, 3], Dtype::F64))]
    });
    // Draws inside two gradients, between them and after them must all differ.
    differ(5, |rng| {
        let slope = || grad(|x: Var| x * draw(rng))(zeros([], Dtype::F64));
        vec![draw(rng), slope(), draw(rng), slope(), draw(rng)]
    });
}

#[test]
fn an_outlined_closure_draws_in_every_call() {
    differ(6, |rng| {
        let f = outline(move |x: Var| x + draw(rng));
        let zero = zeros([], Dtype::F64);
        vec![f(zero), f(zero), map(|x: Var| f(x), zeros([3], Dtype::F64)), draw(rng)]
    });
}

/// The reverse pass must use the numbers that the forward pass drew, even if it recomputes them.
#[test]
fn draws_are_the_same_again() {
    let noise = |rng: Rng, x: Var| (x * draw(rng)).sin() * draw(rng).exp();
    let check = |y: f64, dy: f64, n: f64, m: f64| {
        assert!((y - n.sin() * m.exp()).abs() < 1e-14, "{y}");
        assert!((dy - n * n.cos() * m.exp()).abs() < 1e-14, "{dy}");
    };
    let one = || constant(1.0);
    let y = all(|rng| {
        let kept = Cell::new(None);
        let f = |x: Var| {
            let (n, m) = (draw(rng), draw(rng));
            kept.set(Some((n, m)));
            ((x * n).sin() * m.exp(), (n, m))
        };
        let (y, dy, (n, m)) = {
            let ((y, aux), dy) = value_and_grad_aux(f)(one());
            (y, dy, aux)
        };
        vec![y, dy, n, m]
    });
    check(y[0], y[1], y[2], y[3]);
    // The program must give the same results if draws are saved and if they are recomputed.
    let kept = all(|rng| {
        let (y, dy) = value_and_grad(|x| noise(rng, x))(one());
        vec![y, dy]
    });
    let again = all(|rng| {
        let (y, dy) = value_and_grad(checkpoint(|x| noise(rng, x), Policy::Nothing))(one());
        vec![y, dy]
    });
    let (n, m) = (kept[1] / kept[0], again[1] / again[0]);
    // The ratio n cos n / sin n of gradient and value determines a drawn number n in (0, 1).
    assert!((0.6..1.0).contains(&n) && (0.6..1.0).contains(&m), "{kept:?} {again:?}");
    // All columns of a Jacobian must be computed with the same draws.
    let j =
        all(|rng| vec![jacfwd(|x: Var| x * rng.uniform([3], Dtype::F64))(ones([3], Dtype::F64))]);
    let k =
        all(|rng| vec![jacrev(|x: Var| x * rng.uniform([3], Dtype::F64))(ones([3], Dtype::F64))]);
    assert_eq!(j, k);
    assert!(j.iter().enumerate().all(|(i, x)| (i % 4 == 0) == (*x != 0.0)), "{j:?}");
}

#[test]
fn a_generator_goes_on_from_its_key() {
    let f = jit(|key: Var| {
        let rng = Rng::from_key(key);
        (draw(rng), rng.key())
    });
    let (first, key) = f.call(7u64).unwrap();
    let (second, _) = f.call(&key).unwrap();
    assert_ne!(first, second);
}

#[test]
fn wrong_generators_are_told() {
    let wrong = |e: tapeloom::Error, kind: Kind, words: &str| {
        let text = e.to_string();
        assert!(e.kind() == kind && text.contains(words), "{text}");
        assert!(text.contains("prelude/tests/it/rng.rs"), "{text}");
        assert_eq!(text.matches("error[").count(), 1, "{text}");
    };
    let float = run(|x: Var| draw(Rng::new(x)), 1.5).unwrap_err();
    wrong(float, Kind::Dtype, "`key` of a seed");
    let many = run(|x: Var| draw(Rng::new(x)), [1i64, 2]).unwrap_err();
    wrong(many, Kind::Shape, "`Rng` needs one key");
    let leak = Cell::new(None);
    let escaped = run(
        |x: Var| {
            let y = grad(|x: Var| {
                leak.set(Some(Rng::new(1)));
                x
            })(x);
            y + leak.get().map_or(x, draw)
        },
        1.0,
    );
    wrong(escaped.unwrap_err(), Kind::Escaped, "`key` of a `Rng` made at");
}

/// Tests bounds whose distance overflows, and weights whose sum overflows.
#[test]
fn numbers_of_every_size_are_drawn_between_and_by() {
    let between =
        |(low, high): (Var, Var)| random::uniform_between(random::key(0), [1000], low, high);
    for (low, high) in [(-1e308, 1e308), (-f64::MAX, f64::MAX)] {
        let x = run(between, (low, high)).unwrap().to_vec::<f64>().unwrap();
        assert!(x.iter().all(|x| (low..=high).contains(x)));
        let mean = x.iter().map(|x| x / high).sum::<f64>() / 1000.0;
        let spread = x.iter().map(|x| (x / high).powi(2)).sum::<f64>() / 1000.0;
        assert!(mean.abs() < 0.06 && (spread - 1.0 / 3.0).abs() < 0.03, "{mean} {spread}");
        let (dlow, dhigh) = run(grad(|x| between(x).sum()), (low, high)).unwrap();
        let both = dlow.item::<f64>().unwrap() + dhigh.item::<f64>().unwrap();
        assert!((both - 1000.0).abs() < 1e-9, "{both}");
    }
    let chosen = |weights: [f64; 3]| {
        let f = |(x, w): (Var, Var)| random::weighted_choice(random::key(1), x, w, [4000]);
        let y = run(f, ([5.0, 6.0, 7.0], weights)).unwrap().to_vec::<f64>().unwrap();
        [5.0, 6.0, 7.0].map(|part| y.iter().filter(|y| **y == part).count())
    };
    for size in [1e-320, 1e-300, 1.0, 1e300, 1e308] {
        let [none, more, less] = chosen([0.0, 1.5 * size, 0.5 * size]);
        assert!(none == 0 && (2900..3100).contains(&more) && more + less == 4000, "{size}: {more}");
    }
    let [one, other, third] = chosen([1e308, 1e308, 1e308]);
    assert!([one, other, third].iter().all(|n| (1200..1470).contains(n)), "{one} {other} {third}");
}
