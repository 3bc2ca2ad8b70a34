//! Programs whose time depends on where equations are computed: before a loop or in it, of a whole array or only of the
//! elements that are read, with or without multiplications by the zeros of padding. `bench cost` measures the programs,
//! and `tests/peers/cost.py` measures the same programs in JAX.

use tapeloom::conv::{self, Conv, windows};
use tapeloom::prelude::*;

/// A measured program with its arguments.
pub struct CostRow {
    /// The name of the program in benchmark rows.
    pub name: &'static str,
    /// The number of leading arguments with respect to which the gradient is measured; 0 if no gradient is measured.
    pub differentiated: usize,
    /// Returns the arguments of the program.
    pub arguments: fn() -> Vec<Tensor>,
    /// The program, as a function of all arguments.
    pub program: fn(&[Var]) -> Var,
}

impl CostRow {
    /// Returns the gradient of half the sum of squares of the program's result, with respect to the first
    /// `differentiated` arguments.
    pub fn gradient(&'static self, all: &[Var]) -> Vec<Var> {
        let rest = all[self.differentiated..].to_vec();
        let loss =
            move |x: Vec<Var>| 0.5 * (self.program)(&[&x[..], &rest[..]].concat()).square().sum();
        grad(loss)(all[..self.differentiated].to_vec())
    }
}

/// Returns an array of irregular numbers between -0.5 and 0.5, the same as `numbers` in `tests/peers/cost.py`.
fn numbers(shape: &[usize], dtype: Dtype) -> Tensor {
    let n: usize = shape.iter().product();
    let number = |k: usize| ((k * 7919) % 10_007) as f64 / 10_007.0 - 0.5;
    let flat: Tensor = match dtype {
        Dtype::F32 => (0..n).map(|k| number(k) as f32).collect(),
        _ => (0..n).map(number).collect(),
    };
    flat.reshape(shape).unwrap_or(flat)
}

pub(crate) fn f64s(shape: &[usize]) -> Tensor {
    numbers(shape, Dtype::F64)
}

fn f32s(shape: &[usize]) -> Tensor {
    numbers(shape, Dtype::F32)
}

/// Returns `n` indices less than `below` in an irregular order.
fn indices(n: usize, below: usize) -> Tensor {
    (0..n).map(|k| ((k * 7919) % below) as i64).collect()
}

fn one() -> Tensor {
    Tensor::scalar(1i64)
}

macro_rules! rows {
    ($($name:literal, $differentiated:literal, [$($args:expr),*], |$v:pat_param| $body:expr;)*) => {
        /// The measured programs.
        pub const COST_ROWS: &[CostRow] = &[$(CostRow {
            name: $name,
            differentiated: $differentiated,
            arguments: || vec![$($args),*],
            program: |$v| $body,
        }),*];
    };
}

type Pair = (Var, Var);

/// Returns h after `n` steps of the recurrence `h = tanh(0.9 h + step(i))`.
fn recur(n: usize, h: Var, step: impl Fn(Var) -> Var + 'static) -> Var {
    fori_loop(n, move |(i, h): Pair| (h * 0.9 + step(i)).tanh(), h)
}

fn transposed(v: &[Var], stride: usize) -> Var {
    conv::conv_transpose(v[0], v[1], Conv::new().strides([stride]))
}

fn strided(v: &[Var], stride: usize, padding: i64) -> Var {
    conv::conv(v[0], v[1], Conv::new().strides([stride]).padding([(padding, padding)]))
}

rows! {
    // The rows from here on are loops that read a loop-invariant value, which may be computed in the loop or before it.
    "loop_sine", 1, [f64s(&[4000, 64]), f64s(&[64])], |v| { let e = v[0]; recur(4000, v[1], move |i| e.sin().index(i)) };
    "loop_sine_outside", 1, [f64s(&[4000, 64]), f64s(&[64])], |v| { let e = v[0].sin(); recur(4000, v[1], move |i| e.index(i)) };
    "while_sine", 0, [f64s(&[4000, 64]), f64s(&[64])], |v| {
        let (e, h) = (v[0], v[1]);
        let step = move |(k, h): Pair| (k + 1, (h * 0.9 + e.sin().index(k)).tanh());
        while_loop(|(k, _): Pair| k.lt(4000), step, (constant(0i64), h)).1
    };
    "loop_product", 1, [f64s(&[4000, 64]), f64s(&[64]), f64s(&[64, 64])], |v| { let (e, w) = (v[0], v[2]); recur(4000, v[1], move |i| e.dot(w).index(i)) };
    "loop_product_outside", 1, [f64s(&[4000, 64]), f64s(&[64]), f64s(&[64, 64])], |v| { let e = v[0].dot(v[2]); recur(4000, v[1], move |i| e.index(i)) };
    "loop_softmax", 1, [f64s(&[4000, 64]), f64s(&[64])], |v| { let e = v[0]; recur(4000, v[1], move |i| e.softmax(0).index(i)) };
    "loop_mean", 1, [f64s(&[4000, 64]), f64s(&[64])], |v| { let e = v[0]; recur(4000, v[1], move |_| e.mean_axis(0)) };
    "map_sine", 1, [f64s(&[4000]), f64s(&[4000])], |v| { let e = v[1]; map(move |x: Var| x * e.sin().sum(), v[0]) };
    "loop_in_loop_product", 1, [f64s(&[64]), f64s(&[64, 64])], |v| {
        let w = v[1];
        fori_loop(60, move |(_, h): Pair| recur(60, h, move |j| w.dot(w).tanh().index(j)), v[0])
    };
    "loop_expm", 1, [f64s(&[64, 64]), f64s(&[64])], |v| {
        let w = v[0];
        fori_loop(1000, move |(_, h): Pair| linalg::expm(w - w.t()).dot(h).tanh(), v[1])
    };
    "loop_descent", 1, [f64s(&[200, 200]), f64s(&[200])], |v| {
        let m = v[0];
        fori_loop(1000, move |(_, h): Pair| h - 0.001 * m.dot(m.t()).dot(h), v[1])
    };
    "map_solve", 2, [f64s(&[200, 200]), f64s(&[200, 200])], |v| {
        let m = v[0] + 200.0 * eye(200, Dtype::F64);
        map(move |b: Var| linalg::solve(m, b), v[1])
    };
    // The rows from here on compute an array of which only a slice is read.
    "slice_sine", 1, [f64s(&[1_000_000])], |v| v[0].sin().slice_axis(0, ..16);
    "last_sine", 1, [f64s(&[1_000_000])], |v| v[0].sin().index(-1);
    "dynamic_slice_sine", 1, [f64s(&[1_000_000]), one()], |v| v[0].sin().dynamic_slice(&[v[1]], [16]);
    "take_sine", 1, [f64s(&[1_000_000]), indices(16, 1_000_000)], |v| v[0].sin().take(v[1], 0);
    "row_of_product", 1, [f64s(&[1000, 500]), f64s(&[500, 500]), one()], |v| v[0].dot(v[1]).index(v[2]);
    "row_in_branch", 1, [f64s(&[4000, 64]), f64s(&[64])], |v| {
        let e = v[0];
        fori_loop(100, move |(i, h): Pair| {
            let t = (e * h).sin();
            cond(h.index(0).gt(-2.0), move |h: Var| h * 0.9 + t.index(i), |h: Var| h + 0.5, h)
        }, v[1])
    };
    "einsum_chain", 1, [f64s(&[600, 600]), f64s(&[600, 600]), f64s(&[600, 600]), f64s(&[600])], |v| einsum("ij,jk,kl,l->i", &[v[0], v[1], v[2], v[3]]);
    // The rows from here on are convolutions and pools with strides, and their windows.
    "patches_16", 2, [f32s(&[4, 3, 224, 224]), f32s(&[192, 3, 16, 16])], |v| strided(v, 16, 0);
    "stem_7_stride_2", 2, [f32s(&[4, 3, 224, 224]), f32s(&[64, 3, 7, 7])], |v| strided(v, 2, 3);
    "residual_3_stride_2", 2, [f32s(&[4, 64, 56, 56]), f32s(&[128, 64, 3, 3])], |v| strided(v, 2, 1);
    "few_channels_7", 2, [f32s(&[1, 64, 56, 56]), f32s(&[3, 64, 7, 7])], |v| strided(v, 1, 3);
    "taps_301_stride_7", 2, [f32s(&[1, 1, 40_000]), f32s(&[8, 1, 301])], |v| strided(v, 7, 0);
    "transpose_4_stride_2", 2, [f32s(&[1, 64, 56, 56]), f32s(&[3, 64, 4, 4])], |v| transposed(v, 2);
    "transpose_16_stride_16", 2, [f32s(&[1, 192, 7, 7]), f32s(&[3, 192, 16, 16])], |v| transposed(v, 16);
    "max_pool_100_stride_50", 1, [f32s(&[100_000])], |v| conv::max_pool(v[0], windows([100]).strides([50]));
    "max_pool_2", 1, [f32s(&[64, 128, 128])], |v| conv::max_pool(v[0], windows([2, 2]).strides([2, 2]));
    "max_pool_3_stride_2", 1, [f32s(&[64, 128, 128])], |v| conv::max_pool(v[0], windows([3, 3]).strides([2, 2]));
    "avg_pool_2", 1, [f32s(&[64, 128, 128])], |v| conv::avg_pool(v[0], windows([2, 2]).strides([2, 2]));
    "avg_pool_global", 1, [f32s(&[64, 128, 128])], |v| conv::avg_pool(v[0], windows([128, 128]));
    // The rows from here on interleave arrays.
    "interleave", 2, [f64s(&[100_000]), f64s(&[100_000])], |v| stack(&[v[0].square(), v[1] + 1.0], 1).reshape([200_000]);
    "repeat_3", 1, [f64s(&[100_000])], |v| v[0].reshape([100_000, 1]).broadcast_to([100_000, 3]).reshape([300_000]);
    "pixel_shuffle", 1, [f32s(&[64, 4, 64, 64])], |v| v[0].reshape([64, 2, 2, 64, 64]).permute([0, 3, 1, 4, 2]).reshape([64, 128, 128]);
    "haar", 1, [f64s(&[200_000])], |v| haar(v[0]);
    // The rows from here on are searches, sorts, updates and scans.
    "search_1000", 0, [f64s(&[1000]), f64s(&[100_000])], |v| v[0].sort(0).searchsorted(v[1]);
    "search_10000", 0, [f64s(&[10_000]), f64s(&[100_000])], |v| v[0].sort(0).searchsorted(v[1]);
    "search_10000_f32", 0, [f32s(&[10_000]), f32s(&[100_000])], |v| v[0].sort(0).searchsorted(v[1]);
    "sort", 1, [f64s(&[100_000])], |v| v[0].sort(0);
    "sort_f32", 1, [f32s(&[100_000])], |v| v[0].sort(0);
    "top_10", 1, [f64s(&[1_000_000])], |v| v[0].top_k(10).0;
    "top_10_f32", 1, [f32s(&[1_000_000])], |v| v[0].top_k(10).0;
    "multiply_at", 2, [f64s(&[100_000]), f64s(&[100_000]), indices(100_000, 100_000)], |v| v[0].at(v[2]).mul(v[1]);
    "scan_add", 1, [f64s(&[100_000])], |v| associative_scan(|(a, b): Pair| a + b, v[0]);
    "scan_add_f32", 1, [f32s(&[100_000])], |v| associative_scan(|(a, b): Pair| a + b, v[0]);
    "scan_max", 1, [f64s(&[100_000])], |v| associative_scan(|(a, b): Pair| a.maximum(b), v[0]);
    "scan_affine", 2, [f64s(&[100_000]), f64s(&[100_000])], |v| {
        associative_scan(|((a, b), (c, e)): (Pair, Pair)| (a * c, b * c + e), (v[0], v[1])).1
    };
    "scan_2x2", 1, [f64s(&[100_000, 2, 2])], |v| associative_scan(|(a, b): Pair| a.dot(b), v[0]);
    // The rows from here on are loops with few numbers in the carry, and a loop with a long body.
    "carry_sine_4", 1, [f64s(&[4])], |v| carry_sine(v[0]);
    "carry_sine_8", 1, [f64s(&[8])], |v| carry_sine(v[0]);
    "carry_sine_16", 1, [f64s(&[16])], |v| carry_sine(v[0]);
    "carry_recurrent_8", 2, [f64s(&[8]), f64s(&[8, 8])], |v| {
        let w = v[1];
        fori_loop(1000, move |(_, h): Pair| (w.dot(h) + 0.1).tanh(), v[0])
    };
    "carry_markov_6", 2, [f64s(&[6]), f64s(&[6, 6])], |v| {
        let rates = v[1].exp();
        let step = move |(_, x): Pair| {
            let largest = x.max();
            (x - largest).exp().dot(rates).ln() + 0.1 * largest
        };
        fori_loop(1000, step, v[0])
    };
    "carry_runge_kutta_6", 1, [f64s(&[6])], |v| {
        let slope = |x: Var| 0.3 * x.cos() - x;
        fori_loop(1000, move |(_, x): Pair| {
            let middle = x + 0.005 * slope(x);
            x + 0.01 * slope(middle)
        }, v[0])
    };
    "carry_body_of_400", 1, [f64s(&[8])], |v| {
        let body = |x: Var| (0..400).fold(x, |x, i| (x * (1.0 + 0.001 * i as f64)).sin());
        fori_loop(100, move |(_, x): Pair| body(x), v[0])
    };
    "decay", 1, [f64s(&[100_000])], |v| scan(|(h, x): Pair| { let h = 0.7 * h + x; (h, h) }, zeros([], Dtype::F64), v[0]).1.index(-1);
    "vmap_while", 0, [f64s(&[1000])], |v| {
        let steps = |x: Var| while_loop(|(k, _): Pair| k.lt(3000), |(k, h): Pair| (k + 1, (0.9 * h + 0.1).sin()), (constant(0i64), x)).1;
        vmap(steps)(v[0])
    };
    "qr_200", 1, [f64s(&[200, 200])], |v| linalg::qr(v[0]).1;
    "small_3_stride_2", 2, [f32s(&[8, 32, 32, 32]), f32s(&[64, 32, 3, 3])], |v| strided(v, 2, 1);
    // The rows from here on are simulations that draw their random numbers inside of the loop.
    "heston_barrier", 1, [[0.04, 1.5, 0.05, 0.5, -0.7].into(), Tensor::scalar(7i64)], |v| heston_barrier(v[0], v[1]);
    "particle_filter", 1, [[0.9, 0.5].into(), f64s(&[100]), Tensor::scalar(7i64)], |v| particle_filter(v[0], v[1], v[2]);
}

/// Returns the sum and the difference of each pair of neighbours, interleaved.
fn haar(x: Var) -> Var {
    let pairs = x.reshape([100_000, 2]);
    let (a, b) = (pairs.index_axis(1, 0), pairs.index_axis(1, 1));
    stack(&[a + b, a - b], 1).reshape([200_000])
}

fn carry_sine(x: Var) -> Var {
    fori_loop(1000, |(_, x): Pair| x.sin(), x)
}

/// Returns the price of a down-and-out call in the model of Heston (1993), from 20,000 paths of 100 steps. The
/// parameters are the variance at the start, the rate and the level of its mean reversion, its volatility, and its
/// correlation with the price.
fn heston_barrier(parameters: Var, seed: Var) -> Var {
    const PATHS: usize = 20_000;
    let [start, rate, level, volatility, correlation] =
        [0, 1, 2, 3, 4].map(|i| parameters.index(i));
    let dt = 0.01;
    let step = move |(i, (price, variance, alive)): (Var, (Var, Var, Var))| {
        let z = random::normal(random::fold_in(random::key(seed), i), [2, PATHS], Dtype::F64);
        let (z, other) = (z.index(0), z.index(1));
        let for_variance = correlation * z + (1.0 - correlation.square()).sqrt() * other;
        let positive = variance.maximum(1e-8);
        let spread = (positive * dt).sqrt();
        let price = price * ((0.02 - 0.5 * positive) * dt + spread * z).exp();
        let variance =
            variance + rate * (level - positive) * dt + volatility * spread * for_variance;
        (price, variance, alive & price.gt(85.0))
    };
    let alive = full([PATHS], true);
    let begin = (full([PATHS], 100.0), start.broadcast_to([PATHS]), alive);
    let (price, _, alive) = fori_loop(100, step, begin);
    alive.select((price - 100.0).maximum(0.0), 0.0).mean() * (-0.02_f64).exp()
}

/// Returns the log likelihood of observations of an autoregressive process, by 10,000 particles that are resampled
/// systematically. The parameters are the coefficient of the process and the deviation of its noise.
fn particle_filter(parameters: Var, observed: Var, seed: Var) -> Var {
    const PARTICLES: usize = 10_000;
    let (coefficient, deviation) = (parameters.index(0), parameters.index(1));
    let step = move |(i, (x, likelihood)): (Var, Pair)| {
        let [noise, offset] = random::split(random::fold_in(random::key(seed), i));
        let x = coefficient * x + deviation * random::normal(noise, [PARTICLES], Dtype::F64);
        let log_weight = -0.5 * (observed.index(i) - x).square();
        let total = log_weight.logsumexp();
        let sums = (log_weight - total).exp().cumsum(0);
        let offset = random::uniform(offset, [], Dtype::F64);
        let places = sums.searchsorted((arange(PARTICLES, Dtype::F64) + offset) / PARTICLES as f64);
        let resampled = x.take(places.minimum(PARTICLES as i64 - 1), 0);
        (resampled, likelihood + total - (PARTICLES as f64).ln())
    };
    fori_loop(100, step, (zeros([PARTICLES], Dtype::F64), zeros([], Dtype::F64))).1
}
