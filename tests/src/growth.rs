//! Programs of size n, whose counted work grows as a stated power of n. For each row of the table, the value and the
//! gradient are compiled at n and at 4 n.
//!
//! Work that grows faster than stated shows that a loop recomputes an invariant value in each iteration, that a whole
//! array is computed for one element, or that zeros are multiplied. `laws::cost` tests the table, and
//! `bench --growth` prints it with seconds beside the counts.

use crate::Failure;
use std::time::Instant;
use tapeloom::conv;
use tapeloom::prelude::*;

/// A program whose size is a parameter n, with the exponents with which its work may grow.
pub struct Growing {
    /// The name of the program in the table of growth.
    pub name: &'static str,
    /// The smaller of the two sizes n and 4 n at which the program is compiled.
    pub n: usize,
    /// The exponent p such that the value's counted work may grow as n^p; 1.2 for n log n.
    pub power: f64,
    /// The exponent for the work of the gradient with respect to the first argument; `None` if the program has no
    /// derivative.
    pub gradient: Option<f64>,
    /// Returns the arguments at size n.
    pub arguments: fn(usize) -> Vec<Tensor>,
    /// The program at size n, as a function of its arguments.
    pub program: fn(usize, &[Var]) -> Var,
}

/// The counts of a compiled program at one size.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The counted work; `None` if it depends on a trip count that is known only at run time.
    pub work: Option<u64>,
    /// The size of the workspace in bytes.
    pub workspace: usize,
    /// The number of equations that are compiled, summed over all functions.
    pub equations: usize,
    /// The shortest time of three calls in seconds, if measured.
    pub seconds: Option<f64>,
}

impl Growing {
    /// Returns the counts at size n, of the value or, if `gradient`, of the gradient. If `timed`, calls are also
    /// measured in seconds.
    ///
    /// # Errors
    /// The error of compiling or of a call.
    pub fn counts(&self, n: usize, gradient: bool, timed: bool) -> Result<Counts, Failure> {
        let (arguments, program) = ((self.arguments)(n), self.program);
        let f = jit(move |all: Vec<Var>| {
            let rest = all[1..].to_vec();
            let value = move |x: Var| program(n, &[&[x], &rest[..]].concat()).sum();
            if gradient { grad(value)(all[0]) } else { value(all[0]) }
        });
        let e = f.explain(arguments.clone())?;
        let text = e.stages().iter().rev().find(|s| !s.text.is_empty());
        let equations = text.map_or(0, |s| s.text.lines().filter(|l| l.contains(" = ")).count());
        let mut seconds = None;
        for _ in 0..if timed { 4 } else { 0 } {
            let start = Instant::now();
            f.call(arguments.clone())?;
            let took = start.elapsed().as_secs_f64();
            seconds = Some(seconds.map_or(took, |s: f64| s.min(took)));
        }
        Ok(Counts { work: e.work(), workspace: e.workspace_bytes(), equations, seconds })
    }
}

/// Returns an array of irregular numbers between 0.1 and 0.9.
fn floats(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let number = |k: usize| 0.1 + 0.8 * ((k * 7919) % 10_007) as f64 / 10_007.0;
    let flat = Tensor::from((0..n).map(number).collect::<Vec<f64>>());
    flat.reshape(shape).unwrap_or(flat)
}

/// Returns `n` indices less than `below` in an irregular order.
fn indices(n: usize, below: usize) -> Tensor {
    Tensor::from((0..n).map(|k| ((k * 7919) % below) as i64).collect::<Vec<i64>>())
}

type Pair = (Var, Var);

macro_rules! rows {
    ($($name:literal, $n:literal, $power:literal, $gradient:expr, |$size:pat_param| $args:expr, |$m:pat_param, $v:pat_param| $body:expr;)*) => {
        /// The programs whose work is counted at two sizes, with the exponents with which the work may grow.
        pub const GROWING: &[Growing] = &[$(Growing {
            name: $name,
            n: $n,
            power: $power,
            gradient: $gradient,
            arguments: |$size| $args,
            program: |$m, $v| $body,
        }),*];
    };
}

rows! {
    // The rows from here on are loops that compute a loop-invariant value in each iteration, or read one that is
    // computed before.
    "loop, sine of a table inside", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0], v[1]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + e.sin().index(i)).tanh(), h) };
    "loop, sine of a table outside", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0].sin(), v[1]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + e.index(i)).tanh(), h) };
    "loop, product of a table inside", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16]), floats(&[16, 16])],
        |n, v| { let (e, h, w) = (v[0], v[1], v[2]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + e.dot(w).index(i)).tanh(), h) };
    "loop, softmax inside", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0], v[1]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + e.softmax(0).index(i)).tanh(), h) };
    "loop, mean inside", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0], v[1]); fori_loop(n, move |(_, h): Pair| (h * 0.9 + e.mean_axis(0)).tanh(), h) };
    "map, sine of a table inside", 50, 1.0, Some(1.0), |n| vec![floats(&[n]), floats(&[n])],
        |_, v| { let e = v[1]; map(move |x: Var| x * e.sin().sum(), v[0]) };
    "loop in a loop, product inside", 20, 2.0, Some(2.0), |_| vec![floats(&[16]), floats(&[16, 16])],
        |n, v| { let (h, w) = (v[0], v[1]); fori_loop(n, move |(_, h): Pair| fori_loop(n, move |(j, h): Pair| h * 0.9 + w.dot(w).tanh().index(j % 16), h), h) };
    "loop, a row of a table that changes", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0], v[1]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + (e * h).sin().index(i)).tanh(), h) };
    "loop, a row of a product that changes", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16]), floats(&[16, 16])],
        |n, v| { let (e, h, w) = (v[0], v[1], v[2]); fori_loop(n, move |(i, h): Pair| (h * 0.9 + (e * h).dot(w).index(i)).tanh(), h) };
    "loop, a row in a branch", 50, 1.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16])],
        |n, v| { let (e, h) = (v[0], v[1]); fori_loop(n, move |(i, h): Pair| { let t = (e * h).sin(); cond(h.index(0).gt(0.0), move |h: Var| h * 0.9 + t.index(i), |h: Var| h + 0.5, h) }, h) };
    // The rows from here on read only a slice of a result.
    "a slice of a sine", 1000, 0.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].sin().slice_axis(0, ..16);
    "the last element of a chain", 1000, 0.0, Some(1.0), |n| vec![floats(&[n])], |_, v| (v[0].sin() * v[0]).exp().index(-1);
    "a dynamic slice of a sine", 1000, 0.0, Some(1.0), |n| vec![floats(&[n]), Tensor::from(3i64)],
        |_, v| v[0].sin().dynamic_slice(&[v[1]], [16]);
    "16 rows of a sine", 1000, 0.0, Some(1.0), |n| vec![floats(&[n, 4]), indices(16, 900)], |_, v| v[0].sin().take(v[1], 0);
    "a row of a product", 100, 0.0, Some(1.0), |n| vec![floats(&[n, 16]), floats(&[16, 16])], |_, v| v[0].dot(v[1]).index(3);
    "a sum of a row", 100, 0.0, Some(1.0), |n| vec![floats(&[n, 16])], |_, v| v[0].exp().sum_axis(1).index(3);
    "an element of a row of a broadcast", 100, 0.0, Some(1.0), |n| vec![floats(&[n]), floats(&[n])],
        |n, v| (v[0].reshape([n, 1]) * v[1]).sin().index((2, 3));
    // The rows from here on are elementwise chains, folds and products.
    "a chain", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| (v[0].sin() * v[0]).exp().tanh();
    "a softmax", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].softmax(0);
    "a logsumexp of rows", 250, 1.0, Some(1.0), |n| vec![floats(&[n, 16])], |_, v| v[0].logsumexp_axis(1);
    "a variance", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].var();
    "a product of elements", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].prod();
    "a largest element", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].max();
    "running sums", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].cumsum(0);
    "running products", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].cumprod(0);
    "running maxima", 1000, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| v[0].cummax(0);
    "prefixes by an associative function", 256, 1.0, Some(1.0), |n| vec![floats(&[n])],
        |_, v| associative_scan(|(a, b): Pair| a * b + a, v[0]);
    "a product of a matrix and a vector", 64, 2.0, Some(2.0), |n| vec![floats(&[n, n]), floats(&[n])], |_, v| v[0].dot(v[1]);
    "a product of matrices", 32, 3.0, Some(3.0), |n| vec![floats(&[n, n]), floats(&[n, n])], |_, v| v[0].dot(v[1]).sin();
    "a chain of products and a vector", 32, 2.0, Some(2.0), |n| vec![floats(&[n, n]), floats(&[n, n]), floats(&[n])],
        |_, v| einsum("ij,jk,k->i", &[v[0], v[1], v[2]]);
    "pairwise distances", 32, 2.0, Some(2.0), |n| vec![floats(&[n, 3])],
        |n, v| (v[0].reshape([n, 1, 3]) - v[0].reshape([1, n, 3])).square().sum_axis(2).sqrt().sum_axis(1);
    "attention", 32, 2.0, Some(2.0), |n| vec![floats(&[n, 8]), floats(&[n, 8]), floats(&[n, 8])],
        |_, v| v[0].dot(v[1].t()).softmax(1).dot(v[2]);
    // The rows from here on are convolutions, pools and other windows.
    "a convolution", 64, 1.0, Some(1.0), |n| vec![floats(&[1, 2, n]), floats(&[3, 2, 5])], |_, v| conv::conv(v[0], v[1], conv::Conv::new());
    "a convolution with strides", 64, 1.0, Some(1.0), |n| vec![floats(&[1, 2, n]), floats(&[3, 2, 5])],
        |_, v| conv::conv(v[0], v[1], conv::Conv::new().strides([3]));
    "patches", 64, 1.0, Some(1.0), |n| vec![floats(&[1, 2, n]), floats(&[3, 2, 16])],
        |_, v| conv::conv(v[0], v[1], conv::Conv::new().strides([16]));
    "patches that grow", 64, 1.0, Some(1.0), |n| vec![floats(&[1, 2, 4 * n]), floats(&[3, 2, n])],
        |n, v| conv::conv(v[0], v[1], conv::Conv::new().strides([n]));
    "patches of n by n places", 4, 2.0, Some(2.0), |n| vec![floats(&[1, 2, 3 * n, 3 * n]), floats(&[5, 2, n, n])],
        |n, v| conv::conv(v[0], v[1], conv::Conv::new().strides([n]));
    "kernels of 2 n + 1 places with the stride n", 8, 1.0, Some(1.0), |n| vec![floats(&[1, 1, 20 * n + 1]), floats(&[5, 1, 2 * n + 1])],
        |n, v| conv::conv(v[0], v[1], conv::Conv::new().strides([n]));
    "one kernel over the whole array", 32, 1.0, Some(1.0), |n| vec![floats(&[1, 2, n]), floats(&[5, 2, n])],
        |_, v| conv::conv(v[0], v[1], conv::Conv::new());
    "n elements enlarged n times", 8, 2.0, Some(2.0), |n| vec![floats(&[1, 4, n]), floats(&[3, 4, n])],
        |n, v| conv::conv_transpose(v[0], v[1], conv::Conv::new().strides([n]));
    "pools of 2 n with the stride n", 8, 1.0, Some(1.0), |n| vec![floats(&[3, 20 * n])],
        |n, v| conv::max_pool(v[0], conv::windows([2 * n]).strides([n]));
    "a pool with strides", 64, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| conv::max_pool(v[0], conv::windows([4]).strides([4]));
    "a mean over everything", 64, 1.0, Some(1.0), |n| vec![floats(&[n])], |n, v| conv::avg_pool(v[0], conv::windows([n]));
    // The rows from here on are gathers, scatters and sorts.
    "rows taken", 256, 1.0, Some(1.0), |n| vec![floats(&[n, 4]), indices(n, n)], |_, v| v[0].take(v[1], 0).sin();
    "sums into places", 256, 1.0, Some(1.0), |n| vec![floats(&[n]), indices(n, n)], |_, v| v[0].zeros_like().at(v[1]).add(v[0]);
    "products into places", 256, 1.0, Some(1.0), |n| vec![floats(&[n]), indices(n, n)], |_, v| v[0].at(v[1]).mul(v[0]);
    "an element written in each iteration", 256, 1.0, Some(1.0), |n| vec![floats(&[n])],
        |n, v| { let x = v[0]; fori_loop(n, move |(i, y): Pair| y.at(i).set(x.index(i).sin()), x.zeros_like()) };
    "a sort", 2048, 1.2, Some(1.2), |n| vec![floats(&[n])], |_, v| v[0].sort(0);
    "a search in a table", 2048, 1.2, None, |n| vec![floats(&[n]), floats(&[n])], |_, v| v[0].sort(0).searchsorted(v[1]).convert(Dtype::F64);
    "a polygon through points", 256, 1.2, Some(1.2), |n| vec![floats(&[n]), floats(&[n])],
        |n, v| interp(v[0] * n as f64, arange(n, Dtype::F64), v[1]);
    // The rows from here on are loops whose trip count is the size n.
    "a recurrence", 256, 1.0, Some(1.0), |_| vec![floats(&[8])], |n, v| fori_loop(n, |(_, h): Pair| (h * 1.01).sin(), v[0]);
    "a scan", 256, 1.0, Some(1.0), |n| vec![floats(&[n])],
        |_, v| scan(|(h, x): Pair| { let h = (h * 0.5 + x).tanh(); (h, h) }, v[0].index(0), v[0]).1;
    "a function of each element", 256, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| vmap(|x: Var| (x * x).sin() + x)(v[0]);
    "a gradient of each element", 256, 1.0, Some(1.0), |n| vec![floats(&[n])], |_, v| vmap(grad(|x: Var| (x * x).sin() * x))(v[0]);
    "a product with a Hessian", 64, 1.0, Some(1.0), |n| vec![floats(&[n]), floats(&[n])],
        |_, v| { let t = v[1]; jvp(grad(|x: Var| (x.sin() * x.sum()).square().sum()))((v[0], t)).1 };
    "a loop within a budget", 256, 1.0, Some(1.1), |_| vec![floats(&[8])],
        |n, v| checkpoint(move |x: Var| fori_loop(n, |(_, h): Pair| (h * 1.01).sin(), x), Policy::Bytes(1 << 12))(v[0]);
    "a neural network by layers", 4, 1.0, Some(1.0), |n| vec![floats(&[8]), floats(&[n, 8, 8])],
        |n, v| (0..n).fold(v[0], |x, k| v[1].index(k).dot(x).tanh());
    // The rows from here on are programs whose number of equations is proportional to n.
    "sums of many leaves", 16, 1.0, Some(1.0), |n| vec![floats(&[n, 64])],
        |n, v| (0..n).map(|k| v[0].index(k).square().sum()).reduce(|a, b| a + b).map_or(v[0], |x| x.sqrt());
    "a chain of scalar equations", 64, 1.0, Some(1.0), |_| vec![floats(&[2])],
        |n, v| (0..n).fold((v[0].index(0), v[0].index(1)), |(x, y), _| (y.sin(), x * y)).0;
    // The rows from here on are linear algebra and transforms.
    "a solution of equations", 16, 3.0, Some(3.0), |n| vec![floats(&[n, n]), floats(&[n])],
        |n, v| linalg::solve(v[0] + n as f64 * eye(n, Dtype::F64), v[1]);
    "solutions of equations of one matrix", 16, 1.0, Some(1.0), |n| vec![floats(&[n, 8]), floats(&[8, 8])],
        |_, v| { let m = v[1] + 8.0 * eye(8, Dtype::F64); map(move |b: Var| linalg::solve(m, b), v[0]) };
    "a factor", 16, 3.0, Some(3.0), |n| vec![floats(&[n, n])],
        |n, v| linalg::cholesky(v[0].dot(v[0].t()) + n as f64 * eye(n, Dtype::F64));
    "a Fourier transform", 64, 1.2, Some(1.2), |n| vec![floats(&[n])], |_, v| fft::rfft(v[0], 0).abs();
}
