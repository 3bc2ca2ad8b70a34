//! Elementwise functions, folds and their compositions, with which benchmarks measure vector code.
//!
//! `tests/peers/vectors.py` is the same in JAX and numpy, with the same numbers.

use tapeloom::prelude::*;

/// A measured program of one array: its name, the measured sizes, the array's shape at a size, and the function.
pub struct Program {
    /// The name of the program in benchmark rows.
    pub name: &'static str,
    /// The measured numbers of elements.
    pub sizes: &'static [usize],
    /// Returns the shape of the array for a number of elements.
    pub shape: fn(usize) -> Vec<usize>,
    /// The measured function.
    pub run: fn(Var) -> Var,
}

fn flat(n: usize) -> Vec<usize> {
    vec![n]
}

fn rows(n: usize) -> Vec<usize> {
    vec![n / 100, 100]
}

fn columns(n: usize) -> Vec<usize> {
    vec![100, n / 100]
}

macro_rules! program {
    ($name:literal, $sizes:expr, $shape:ident, $run:expr) => {
        Program { name: $name, sizes: &$sizes, shape: $shape, run: $run }
    };
}

const FEW: [usize; 2] = [1000, 100_000];

/// The measured programs; the elements of arguments are between 0.1 and 2.1.
pub const PROGRAMS: [Program; 47] = [
    program!("exp", FEW, flat, |x| x.exp()),
    program!("log", FEW, flat, |x| x.ln()),
    program!("sin", FEW, flat, |x| x.sin()),
    program!("cos", FEW, flat, |x| x.cos()),
    program!("tanh", FEW, flat, |x| x.tanh()),
    program!("logistic", FEW, flat, |x| x.sigmoid()),
    program!("erf", FEW, flat, |x| x.erf()),
    program!("exp2", FEW, flat, |x| x.exp2()),
    program!("tan", FEW, flat, |x| x.tan()),
    program!("atan", FEW, flat, |x| x.atan()),
    program!("lgamma", FEW, flat, |x| x.lgamma()),
    program!("digamma", FEW, flat, |x| x.digamma()),
    program!("erfc", FEW, flat, |x| x.erfc()),
    program!("erf_inv", FEW, flat, |x| (x * 0.45).erf_inv()),
    program!("ndtr", FEW, flat, |x| x.ndtr()),
    program!("log_ndtr", FEW, flat, |x| x.log_ndtr()),
    program!("ndtri", FEW, flat, |x| (x * 0.45).ndtri()),
    program!("round", FEW, flat, |x| (x * 10.0).round()),
    program!("round_ties_even", FEW, flat, |x| (x * 10.0).round_ties_even()),
    program!("cbrt", FEW, flat, |x| x.cbrt()),
    program!("pow", FEW, flat, |x| x.pow(x)),
    program!("powf_1.5", FEW, flat, |x| x.powf(1.5)),
    program!("powf_3", FEW, flat, |x| x.powf(3.0)),
    program!("hypot", FEW, flat, |x| x.hypot(1.3 - x)),
    program!("atan2", FEW, flat, |x| x.atan2(1.3 - x)),
    program!("logaddexp", FEW, flat, |x| x.logaddexp(1.3 - x)),
    program!("i0e", FEW, flat, |x| x.i0e()),
    program!("gelu", FEW, flat, |x| (x - 1.0).gelu()),
    program!("normal", FEW, flat, |x| { random::normal(random::key(7), x.shape(), x.dtype()) + x }),
    program!("tanh_grad", FEW, flat, |x| grad(|x: Var| x.tanh().sum())(x)),
    program!("silu_grad", FEW, flat, |x| grad(|x: Var| x.silu().sum())(x)),
    program!("gelu_tanh_grad", FEW, flat, |x| grad(|x: Var| x.gelu_tanh().sum())(x)),
    program!("gelu_grad", FEW, flat, |x| grad(|x: Var| x.gelu().sum())(x)),
    program!("powf_1.5_grad", FEW, flat, |x| grad(|x: Var| x.powf(1.5).sum())(x)),
    program!("chain", [10_000, 1_000_000], flat, |x| {
        let y = (x * 1.5 + 0.25).sqrt();
        let z = (y - x).abs() * y;
        (z / (y + 1.0)).maximum(x * 0.5) - y * z
    }),
    program!("sum", FEW, flat, |x| x.sum()),
    program!("max", FEW, flat, |x| x.max()),
    program!("sum_columns", [100_000], rows, |x| x.sum_axis(0)),
    program!("max_columns", [100_000], rows, |x| x.max_axis(0)),
    program!("softmax_rows", FEW, rows, |x| x.softmax(-1)),
    program!("softmax_rows_grad", FEW, rows, |x| grad(|x: Var| (x.softmax(-1) * x).sum())(x)),
    program!("softmax_columns", FEW, columns, |x| x.softmax(0)),
    program!("softmax_columns_grad", FEW, columns, |x| grad(|x: Var| (x.softmax(0) * x).sum())(x)),
    program!("logsumexp_grad", [100_000, 1_000_000], flat, |x| grad(|x: Var| x.logsumexp())(x)),
    program!("layer_norm", [100_000], rows, |x| x.layer_norm(-1, 1e-5)),
    program!("cumsum", [100_000], flat, |x| x.cumsum(0)),
    program!("argmax", [100_000], flat, |x| x.argmax(0)),
];

impl Program {
    /// Returns the array of `n` elements to which the measured program is applied.
    ///
    /// # Errors
    /// The errors of a run.
    pub fn argument(&self, n: usize, dtype: Dtype) -> Result<Tensor, tapeloom::Error> {
        let shape = (self.shape)(n);
        run(
            |()| {
                ((arange(n, Dtype::F64) * 0.7 + 0.1).sin() + 1.1)
                    .convert(dtype)
                    .reshape(shape.as_slice())
            },
            (),
        )
    }
}
