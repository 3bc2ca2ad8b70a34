//! Programs with which the book measures the speed that some passes gain, and a test that these passes change the
//! programs.
//!
//! The programs are gradients of loops over numbers. The table in the book was measured at larger sizes.

use tapeloom::prelude::*;

type Program = fn(Var, Var) -> Var;

fn iterations(n: usize, body: impl Fn(Var)) {
    fori_loop(n, |(i, ()): (Var, ())| body(i), ());
}

fn numbers(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    let x = (0..n).map(|i| 0.5 + 0.4 * ((i * 7 + 3) as f64 * 0.37).sin());
    Tensor::new(shape, x.collect::<Vec<f64>>()).unwrap()
}

/// Returns the log-likelihood of rows x under a mixture whose weights are exponentials of `logits`.
fn mixture(logits: Var, x: Var) -> Var {
    let [n, m] = [x.shape()[0], x.shape()[1]];
    let total = Ref::new(0.0);
    iterations(n, |i| {
        let s = Ref::new(0.0);
        iterations(m, |j| s.add(logits.index(j).exp() * x.index((i, j))));
        total.add(s.get().ln());
    });
    total.get()
}

/// Returns the sum of squares of a state after all time steps. Each element of the state decays at its own rate, driven
/// by `u`.
fn decays(rate: Var, u: Var) -> Var {
    let [n, m] = [u.shape()[0], u.shape()[1]];
    let s = Ref::new(zeros([m], Dtype::F64));
    iterations(n, |t| {
        iterations(m, |j| {
            s.at(j).set(s.at(j).get() * (-rate.index(j)).exp() + u.index((t, j)));
        });
    });
    s.get().square().sum()
}

/// Returns the loss of independent scalar Kalman filters whose process noise is the exponential of `q`.
fn kalman(q: Var, y: Var) -> Var {
    let [n, m] = [y.shape()[0], y.shape()[1]];
    let (x, p) = (Ref::new(zeros([m], Dtype::F64)), Ref::new(ones([m], Dtype::F64)));
    let loss = Ref::new(0.0);
    iterations(n, |t| {
        iterations(m, |j| {
            let prior = p.at(j).get() + q.index(j).exp();
            let k = prior / (prior + 0.5);
            let e = y.index((t, j)) - x.at(j).get();
            x.at(j).set(x.at(j).get() + k * e);
            p.at(j).set((1.0 - k) * prior);
            loss.add(e * e);
        });
    });
    loss.get()
}

/// Returns the sum of squared temperatures of a rod after 100 explicit time steps of heat conduction, which update the
/// temperatures in place.
fn rod(x: Var, p: Var) -> Var {
    let u = Ref::new(x);
    iterations(100, |_| {
        iterations(x.shape()[0] - 2, |j| {
            let [l, c, r] = [0, 1, 2].map(|k| u.at(j + k).get());
            u.at(j + 1).set(c + 0.2 * p.index(0) * (l - 2.0 * c + r) - 0.01 * c * c * c);
        });
    });
    u.get().square().sum()
}

/// Returns the sum of squared temperatures of a plate after 20 relaxations in place.
fn plate(x: Var, p: Var) -> Var {
    let [n, m] = [x.shape()[0], x.shape()[1]];
    let u = Ref::new(x);
    iterations(20, |_| {
        iterations(n - 2, |i| {
            iterations(m - 2, |j| {
                let at = |a: i64, b: i64| u.at((i + a, j + b)).get();
                let (c, around) = (at(1, 1), at(0, 1) + at(2, 1) + at(1, 0) + at(1, 2));
                u.at((i + 1, j + 1)).set(c + p.index(0) * (0.25 * around - c));
            });
        });
    });
    u.get().square().sum()
}

/// Returns the sum of squared temperatures of a rod after 200 time steps of heat conduction. One array has a row for
/// each time step.
fn history(x: Var, p: Var) -> Var {
    let (m, steps) = (x.shape()[0], 200);
    let u = Ref::new(zeros([steps + 1, m], Dtype::F64));
    u.at(0).set(x);
    iterations(steps, |t| {
        iterations(m - 2, |j| {
            let [l, c, r] = [0, 1, 2].map(|k| u.at((t, j + k)).get());
            let next = c + p.index(0) * 0.2 * (l - 2.0 * c + r) - 0.01 * c * c * c;
            u.at((t + 1, j + 1)).set(next);
        });
    });
    u.get().index(steps).square().sum()
}

/// Returns the sum of the best values of a knapsack over all capacities up to 500.
fn knapsack(value: Var, p: Var) -> Var {
    let (n, room) = (value.shape()[0], 500);
    let best = Ref::new(zeros([n + 1, room + 7], Dtype::F64));
    iterations(n, |i| {
        iterations(room, |w| {
            let with = best.at((i, w)).get() + value.index(i) * p.index(i);
            best.at((i + 1, w + 7)).set(best.at((i, w + 7)).get().maximum(with));
        });
    });
    best.get().index(n).sum()
}

/// Returns the price of an American option on a binomial lattice.
fn option(x: Var, p: Var) -> Var {
    let m = x.shape()[0];
    let v = Ref::new(zeros([m, m], Dtype::F64));
    v.at(0).set((x - 0.5).maximum(0.0));
    iterations(m - 1, |t| {
        iterations(m - 1, |j| {
            let [down, up] = [0, 1].map(|k| v.at((t, j + k)).get());
            let keep = 0.99 * (p.index(0) * down + (1.0 - p.index(0)) * up);
            v.at((t + 1, j)).set(keep.maximum(x.index(j) - 0.6));
        });
    });
    v.get().index((m - 1, 0))
}

/// Returns one output of a network. The outputs of its layers are adjacent parts of one array.
fn layers(w: Var, x: Var) -> Var {
    let n = x.shape()[0];
    let memory = Ref::new(zeros([4 * n], Dtype::F64));
    memory.slice_axis(0, 0..n).set(x);
    let n = n as i64;
    iterations(3, |l| {
        iterations(n as usize, |i| {
            let s = Ref::new(0.0);
            iterations(n as usize, |j| {
                s.add(w.index((l * n + i) * n + j) * memory.at(l * n + j).get());
            });
            memory.at((l + 1) * n + i).set(s.get().tanh());
        });
    });
    memory.get().index(-1)
}

/// The name of a pass, a program that it must change, the program's name in the book's table, and the shapes of its
/// arguments.
const PROGRAMS: [(&str, Program, &str, [&[usize]; 2]); 9] = [
    ("hoist_invariant", mixture, "mixture", [&[30], &[30, 30]]),
    ("hoist_invariant", decays, "decays", [&[50], &[30, 50]]),
    ("hoist_invariant copy_elimination", kalman, "kalman", [&[64], &[200, 64]]),
    ("rotate_registers", rod, "rod", [&[100], &[3]]),
    ("rotate_registers copy_elimination", plate, "plate", [&[20, 20], &[3]]),
    ("rotate_registers copy_elimination", history, "history", [&[100], &[3]]),
    ("copy_elimination", knapsack, "knapsack", [&[100], &[100]]),
    ("copy_elimination", option, "option", [&[41], &[3]]),
    ("copy_elimination", layers, "layers", [&[768], &[16]]),
];

#[test]
fn the_passes_change_the_programs_of_the_table() {
    let chapter = include_str!("../../../book/src/backend.md");
    for (passes, program, name, shapes) in PROGRAMS {
        assert!(chapter.contains(&format!("| {name}")), "the table has no row of {name}");
        let gradient = jit(value_and_grad(|(x, y): (Var, Var)| program(x, y)));
        let [x, y] = shapes.map(numbers);
        let changed = gradient.explain((&x, &y)).unwrap().kernel_passes();
        for pass in passes.split(' ') {
            assert!(changed.contains(pass), "{name}: {pass} is not one of {changed}");
        }
    }
}
