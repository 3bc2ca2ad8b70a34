//! Random programs that read slices of computed arrays, in straight-line code and in loops: passes that move reads
//! before operations must change no bit of a value, and gradients must be the transposes of tangents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom_ir::parse_module;
use tapeloom_tests::{Agreement, Rng, Sweep};

/// A random program: for each step, the index of an operation and the indices of its operands.
type Steps = Vec<[usize; 4]>;

/// Runs the steps on a matrix `x`, a vector `h` with one element per column of `x`, and an index `i`.
fn compute(steps: &Steps, x: Var, h: Var, i: Var) -> Var {
    let mut all = vec![x, (x * h).sin()];
    for [what, a, b, c] in steps {
        let v = all[all.len() - 1 - a % all.len().min(3)];
        let shape = v.shape().to_vec();
        let (rows, rank) = (shape.first().copied().unwrap_or(1), shape.len());
        let axis = c % rank.max(1);
        let same = all.iter().find(|o| o.shape()[..] == shape[..]).copied();
        let made = match what {
            0 => v.sin(),
            1 => same.map_or(v * 2.0, |o| v * o + 0.5),
            2 => same.map_or(v.tanh(), |o| select(v.gt(o), o.cos(), v)),
            3 if rank == 2 => v.t(),
            4 if rank == 2 => v.reshape([shape[0] * shape[1]]),
            5 if rank == 1 && rows % 4 == 0 => v.reshape([rows / 4, 4]),
            6 if rank == 2 => v.dot(v.t()) * 0.1,
            7 if rank == 2 => v.dot(v.index(b % rows)) * 0.1,
            8 if rank == 2 => v.sum_axis(axis) * 0.1,
            9 if rank == 2 => v.max_axis(axis),
            10 if rank == 2 => v * v.index(b % rows),
            11 if rank == 1 => v.reshape([rows, 1]) * v * 0.5,
            12 if rank > 0 => v.index((b % rows) as i64 - (rows / 2) as i64),
            13 if rank > 0 => v.index(i + *b as i64 - 8),
            14 if rank > 0 && rows > 4 => {
                v.slice_axis(0, b % (rows - 4)..b % (rows - 4) + 1 + c % 4)
            }
            15 if rank > 0 => v.take(stack(&[i, i + 3, i - *b as i64], 0), axis),
            16 if rank == 2 => {
                v.dynamic_slice(&[i, i + 1], [1 + b % rows.min(3), 1 + c % shape[1].min(3)])
            }
            17 if rank == 2 => v.cumsum(axis) * 0.3,
            _ => (v + 0.25).tanh(),
        };
        all.push(made);
    }
    all[all.len() - 1]
}

fn program(rng: &mut Rng) -> impl Fn((Var, Var, Var)) -> Var + Clone + use<> {
    let n = 2 + rng.index(6);
    let steps: Steps = (0..n).map(|_| [18, 99, 17, 99].map(|n| rng.index(n))).collect();
    let (trips, whole) = ([0usize, 0, 3, 30][rng.index(4)], rng.index(3) == 0);
    move |(x, h, i)| {
        let part = |h: Var, i: Var| {
            let y = compute(&steps, x, h, i);
            let rest = if whole { compute(&steps, x, h, i + 1).sum() } else { constant(0.0) };
            y.square().sum() + rest
        };
        match trips {
            0 => part(h, i),
            n => {
                // Each iteration multiplies differences by less than one, so results stay close even if sums are added
                // in another order.
                let step = |(k, h): (Var, Var)| h * 0.5 + (part(h, i + k) * 1e-3).sin() * 0.01;
                fori_loop(n, step, h).sum()
            }
        }
    }
}

#[test]
fn parts_are_those_of_the_whole() {
    let numbers = |shape: &[usize], phase: f64| {
        let n: usize = shape.iter().product();
        let flat = (0..n).map(|k| (k as f64 * 1.7 + phase).sin()).collect::<Vec<f64>>();
        Tensor::from(flat).reshape(shape).unwrap()
    };
    let (x, h) = (numbers(&[20, 12], 0.1), numbers(&[12], 0.4));
    let (dx, dh) = (numbers(&[20, 12], 0.9), numbers(&[12], 1.3));
    for seed in Sweep::Reads.seeds() {
        let mut rng = Rng::new(seed);
        let f = program(&mut rng);
        let i = Tensor::from(rng.index(24) as i64 - 2);
        let traced = |e: tapeloom::Explanation, args: &[Tensor]| {
            let m = parse_module(&e.stages()[0].text).unwrap();
            let (f, _) = m.iter().last().unwrap();
            tapeloom_tests::run(&m, f, args).unwrap()
        };
        let args = [x.clone(), h.clone(), i.clone()];
        let value = jit(f.clone());
        let check = |how: Agreement, got: Result<Tensor, tapeloom::Error>, want: &Tensor| {
            let got = got.map_err(|e| e.to_string());
            let outcome = got.and_then(|got| how.check(&got, want));
            outcome.unwrap_or_else(|e| panic!("SWEEP_SEED={seed}: {e}"));
        };
        // The expected values come from the traced program, before any pass.
        let want = traced(value.explain((&x, &h, &i)).unwrap(), &args);
        let interpreted = jit(f.clone()).interpreted();
        check(Agreement::Exact, interpreted.call((&x, &h, &i)), &want[0]);
        check(Agreement::CLOSE, value.call((&x, &h, &i)), &want[0]);

        let of = f.clone();
        let forward = move |(x, h, i, dx, dh): (Var, Var, Var, Var, Var)| {
            let of = of.clone();
            jvp(move |(x, h): (Var, Var)| of((x, h, i)))(((x, h), (dx, dh))).1
        };
        let more = [&args[..], &[dx.clone(), dh.clone()]].concat();
        let e = jit(forward).explain((&x, &h, &i, &dx, &dh)).unwrap();
        let tangent = traced(e, &more)[0].item::<f64>().unwrap();
        let back = move |(x, h, i): (Var, Var, Var)| {
            let f = f.clone();
            grad(move |(x, h): (Var, Var)| f((x, h, i)))((x, h))
        };
        let (gx, gh) = run(back, (&x, &h, &i)).unwrap();
        let along = |g: &Tensor, t: &Tensor| {
            let (g, t) = (g.to_vec::<f64>().unwrap(), t.to_vec::<f64>().unwrap());
            let size: f64 = g.iter().zip(&t).map(|(g, t)| (g * t).abs()).sum();
            (g.iter().zip(&t).map(|(g, t)| g * t).sum::<f64>(), size)
        };
        let ((a, of_a), (b, of_b)) = (along(&gx, &dx), along(&gh, &dh));
        let gap = (a + b - tangent).abs();
        assert!(gap <= 1e-9 * (1.0 + of_a + of_b), "SWEEP_SEED={seed}: {} and {tangent}", a + b);
    }
}
