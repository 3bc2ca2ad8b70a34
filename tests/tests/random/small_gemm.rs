//! Products of a vector and a matrix, of a few rows and a matrix, and outer products, in many shapes and strides:
//! machine code must agree with the loop IR interpreter in every bit, and with a loop in Rust up to rounding.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::{Target, prelude::*};
use tapeloom_tests::{Agreement, Rng, Sweep};

/// Extents below, at and above the numbers of elements in a vector register.
const EXTENTS: [usize; 9] = [1, 2, 4, 7, 8, 9, 16, 19, 33];

fn numbers(shape: &[usize], dtype: Dtype, phase: f64) -> Tensor {
    let count = shape.iter().product::<usize>();
    let wave: Vec<f64> = (0..count).map(|i| (i as f64 * 0.7 + phase).sin()).collect();
    let x = Tensor::new(shape, wave).unwrap();
    jit(move |x: Var| x.convert(dtype)).call(&x).unwrap()
}

fn floats(x: &Tensor) -> Vec<f64> {
    x.literals().map(|l| l.to_f64()).collect()
}

/// Returns the product `x[m, k] w[k, n]` by three loops in Rust, as the expected value.
fn product(x: &[f64], w: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut y = vec![0.0; m * n];
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        y[i * n + j] = (0..k).map(|t| x[i * k + t] * w[t * n + j]).sum();
    }
    y
}

fn transposed(x: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|j| (0..rows).map(move |i| x[i * columns + j])).collect()
}

#[track_caller]
fn near(got: &[f64], want: &[f64], dtype: Dtype, what: &str) {
    let tolerance = if dtype == Dtype::F64 { 1e-13 } else { 1e-5 };
    assert_eq!(got.len(), want.len(), "{what}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= tolerance * w.abs().max(1.0) * 8.0, "{what}: {g}, not {w}");
    }
}

/// Calls a function as machine code, checks that the loop IR interpreter gives the same bits, and returns the results.
macro_rules! call {
    ($f:expr, $args:expr, $what:expr) => {{
        let (native, kernels) =
            (jit($f).call($args).unwrap(), jit($f).on(Target::Interpreter).call($args).unwrap());
        assert_eq!(native, kernels, "{}", $what);
        native
    }};
}

/// Checks a layer of `m` rows, `y = tanh(x w + b)`, and the gradient of `Σ c y`, against loops in Rust.
fn layer([m, k, n]: [usize; 3], dtype: Dtype) {
    let what = format!("{m} x {k} x {n} of {dtype}");
    let (x, w) = (numbers(&[m, k], dtype, 0.1), numbers(&[k, n], dtype, 0.2));
    let (b, c) = (numbers(&[m, n], dtype, 0.3), numbers(&[m, n], dtype, 0.4));
    let forward = |(x, w, b): (Var, Var, Var)| (x.dot(w) + b).tanh();
    let args = (&x, &w, &b);
    let y = call!(forward, args, what);
    let sums = product(&floats(&x), &floats(&w), [m, k, n]);
    let want: Vec<f64> = sums.iter().zip(floats(&b)).map(|(s, b)| (s + b).tanh()).collect();
    near(&floats(&y), &want, dtype, &what);

    let cost = {
        let c = c.clone();
        move |x: (Var, Var, Var)| (forward(x) * constant(&c)).sum()
    };
    let gradient = {
        let cost = cost.clone();
        move |x: (Var, Var, Var)| grad(cost.clone())(x)
    };
    let (dx, dw, db) = call!(gradient.clone(), args, what);
    let back: Vec<f64> = want.iter().zip(floats(&c)).map(|(y, c)| c * (1.0 - y * y)).collect();
    near(&floats(&db), &back, dtype, &what);
    let turned = transposed(&floats(&w), k, n);
    near(&floats(&dx), &product(&back, &turned, [m, n, k]), dtype, &what);
    let turned = transposed(&floats(&x), m, k);
    near(&floats(&dw), &product(&turned, &back, [k, m, n]), dtype, &what);
}

/// Checks the products `W v` and `v W` with vectors, for a contiguous matrix, a transposed one, and a slice of a larger
/// one.
fn vectors([k, n]: [usize; 2], dtype: Dtype) {
    let (v, u) = (numbers(&[k], dtype, 0.1), numbers(&[n], dtype, 0.2));
    let (w, wide) = (numbers(&[k, n], dtype, 0.3), numbers(&[k, 2 * n + 3], dtype, 0.4));
    let all = move |(v, u, w, wide): (Var, Var, Var, Var)| {
        let part = wide.slice_axis(1, 2..n + 2);
        let turned = w.t();
        (v.dot(w), turned.dot(v), w.dot(u), u.dot(turned), v.dot(part), part.dot(u).tanh())
    };
    let what = format!("{k} x {n} of {dtype}");
    let got = call!(all, (&v, &u, &w, &wide), what);
    let (row, column) = (floats(&v), floats(&u));
    let part: Vec<f64> =
        floats(&wide).chunks(2 * n + 3).flat_map(|row| row[2..n + 2].to_vec()).collect();
    for (got, matrix) in [(&got.0, &floats(&w)), (&got.1, &floats(&w)), (&got.4, &part)] {
        near(&floats(got), &product(&row, matrix, [1, k, n]), dtype, &what);
    }
    let down = product(&floats(&w), &column, [k, n, 1]);
    for got in [&got.2, &got.3] {
        near(&floats(got), &down, dtype, &what);
    }
    let tanh: Vec<f64> = product(&part, &column, [k, n, 1]).iter().map(|x| x.tanh()).collect();
    near(&floats(&got.5), &tanh, dtype, &what);
}

#[test]
fn layers_of_few_rows() {
    for dtype in [Dtype::F64, Dtype::F32] {
        for (i, k) in EXTENTS.into_iter().enumerate() {
            for n in [EXTENTS[(i + 4) % 9], EXTENTS[(i * 2) % 9]] {
                layer([[1, 2, 3, 5][(i + n) % 4], k, n], dtype);
            }
        }
    }
}

#[test]
fn vectors_and_matrices() {
    for dtype in [Dtype::F64, Dtype::F32] {
        for (i, k) in EXTENTS.into_iter().enumerate() {
            for n in [EXTENTS[(i + 4) % 9], EXTENTS[(i * 2) % 9], EXTENTS[(i + 1) % 9]] {
                vectors([k, n], dtype);
            }
        }
    }
}

/// In the loop of a recurrent network, the matrix products of the forward and of the reverse pass must be lowered as
/// contractions.
#[test]
fn iterations_of_a_loop_have_contractions() {
    let (w, xs) = (numbers(&[19, 19], Dtype::F64, 0.1), numbers(&[5, 19], Dtype::F64, 0.2));
    let loss = |(w, xs): (Var, Var)| {
        let iteration = |(h, x): (Var, Var)| ((h.dot(w) + x).tanh(), ());
        let (h, ()) = scan(iteration, zeros([19], Dtype::F64), xs);
        (h * h).sum()
    };
    let gradient = move |x: (Var, Var)| grad(loss)(x);
    let explained = jit(gradient).explain((&w, &xs)).unwrap().to_string();
    let kernels = explained.split("== kernels").nth(1).unwrap();
    assert!(kernels.matches("contract f64").count() >= 3, "{kernels}");
    call!(gradient, (&w, &xs), "a recurrent network");
}

/// Returns a function of a few random products and operations, whose results are the operands of the next ones.
fn compose(
    rng: &mut Rng,
    steps: usize,
) -> impl Fn((Var, Var, Var)) -> (Var, Var, Var) + Clone + use<> {
    let steps: Vec<[usize; 4]> =
        (0..steps).map(|_| [rng.index(9), rng.index(99), rng.index(99), rng.index(99)]).collect();
    move |(x, y, w)| {
        let (mut v, mut m) = (vec![x, y], vec![w]);
        for [what, a, b, c] in &steps {
            let (a, b, c) = (v[a % v.len()], v[b % v.len()], m[c % m.len()]);
            let n = a.size();
            match what {
                0 => v.push((a.dot(c) + b).tanh()),
                1 => v.push(c.dot(a) * b),
                2 => v.push(c.t().dot(a) + c.dot(b)),
                3 => v.push(a.dot(c).dot(c.t())),
                4 => v.push(a.sin()),
                5 => m.push((c + a.reshape([n, 1]) * b.reshape([1, n]) * 0.1) * 0.5),
                6 => m.push(stack(&[a.dot(c), b, a], 0).t().dot(stack(&[b, a, b], 0)) * 0.01),
                7 => m.push(c.t() * 0.9),
                _ => {
                    let halves = [c.slice_axis(0, 0..n / 2), c.slice_axis(0, n / 2..n)];
                    v.push(concat(&[halves[0].dot(a), halves[1].dot(b)], 0));
                }
            }
        }
        (v[v.len() - 1].tanh(), v[v.len() / 2].sin(), m[m.len() - 1].tanh())
    }
}

/// Gradients of random compositions of products, in straight-line code and in loops, must agree with the interpreter.
#[test]
fn random_compositions() {
    for seed in Sweep::Products.seeds() {
        let mut rng = Rng::new(seed);
        let n = EXTENTS[2..][rng.index(7)];
        let (iterations, steps) = ([0, 1, 3][rng.index(3)], 1 + rng.index(6));
        let f = compose(&mut rng, steps);
        let loss = move |x: (Var, Var, Var)| {
            let (x, y, w) = match iterations {
                0 => f(x),
                n => fori_loop(n, |(_, x): (Var, (Var, Var, Var))| f(x), x),
            };
            (x * x).sum() + y.sum() + (w * w).sum() * 0.1
        };
        let gradient = move |x: (Var, Var, Var)| grad(loss.clone())(x);
        let [x, y] = [0.1, 0.7].map(|phase| numbers(&[n], Dtype::F64, phase));
        let w = jit(|w: Var| w * 0.4).call(numbers(&[n, n], Dtype::F64, 0.3)).unwrap();
        let args = (&x, &y, &w);
        let (native, interpreted) = (jit(gradient.clone()), jit(gradient).interpreted());
        let got: [Tensor; 3] = native.call(args).unwrap().into();
        let want: [Tensor; 3] = interpreted.call(args).unwrap().into();
        // Iterations can turn small numbers into numbers of six digits, and amplify rounding errors. The tolerance is
        // this amplification: it is measured by changing the last bit of each argument.
        let up = jit(|x: Var| x * (1.0 + f64::EPSILON));
        let moved = [up.call(&x).unwrap(), up.call(&y).unwrap(), up.call(&w).unwrap()];
        let moved = [(&moved[0], &y, &w), (&x, &moved[1], &w), (&x, &y, &moved[2])];
        let grows = moved.map(|args| {
            let moved: [Tensor; 3] = interpreted.call(args).unwrap().into();
            let grows = moved.iter().zip(&want).map(|(a, b)| {
                let gap = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(1.0);
                floats(a).iter().zip(&floats(b)).map(gap).fold(0.0, f64::max)
            });
            grows.fold(0.0, f64::max)
        });
        let grows: f64 = grows.iter().sum();
        let near = Agreement::relative(1e-10f64.max(16.0 * grows)).check_all(&got, &want);
        near.unwrap_or_else(|e| panic!("SWEEP_SEED={seed}, rounding grows by {grows}: {e}"));
    }
}
