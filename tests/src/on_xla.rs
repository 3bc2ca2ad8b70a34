//! Programs at several sizes that `bench xla` measures on a plugin of XLA, with arguments and results on the device, and
//! on this machine's own engine.
//!
//! `tests/peers/xla.py` has the same programs in JAX, and runs them on the same plugin.

use crate::Failure;
use crate::cost_rows::f64s;
use crate::threaded::{likelihood, stencil};
use crate::transformer::{self, Block, Extents};
use tapeloom::conv::{self, Conv};
use tapeloom::prelude::*;

/// A program that takes its extents from its arguments or from a list of sizes.
pub struct OnXla {
    /// The name of the program in benchmark rows.
    pub name: &'static str,
    /// The sizes at which the program is measured: a list of extents for each row of the benchmark.
    pub sizes: &'static [&'static [usize]],
    /// Returns the arguments at a size.
    pub arguments: fn(&[usize]) -> Result<Vec<Tensor>, Failure>,
    /// The program at a size, as a function of all arguments.
    pub program: fn(&[usize], &[Var]) -> Vec<Var>,
}

const GMM: &[&[usize]] = &[&[100, 2, 5], &[1000, 10, 25], &[1000, 32, 25], &[10_000, 10, 25]];

const TRANSFORMERS: &[&[usize]] = &[&[2, 16, 32, 4, 1], &[8, 32, 64, 4, 2], &[4, 128, 256, 8, 1]];

/// The measured programs.
pub const ON_XLA: [OnXla; 8] = [
    OnXla { name: "gmm", sizes: GMM, arguments: mixture, program: |_, v| mixture_gradient(v) },
    OnXla {
        name: "transformer",
        sizes: TRANSFORMERS,
        arguments: |size| weights(size, Dtype::F64),
        program: transformer_step,
    },
    OnXla {
        name: "transformer_f32",
        sizes: TRANSFORMERS,
        arguments: |size| weights(size, Dtype::F32),
        program: transformer_step,
    },
    OnXla {
        name: "heat",
        sizes: &[&[32], &[128], &[512]],
        arguments: |size| Ok(vec![f64s(&[size[0], size[0]])]),
        program: |_, v| stencil(v),
    },
    OnXla {
        name: "heat_gradient",
        sizes: &[&[32], &[128], &[256]],
        arguments: |size| Ok(vec![f64s(&[size[0], size[0]]), Tensor::from(0.2)]),
        program: |_, v| heat_gradient(v[0], v[1]),
    },
    OnXla {
        name: "cumsum",
        sizes: &[&[1000, 1000], &[1_000_000, 1]],
        arguments: |size| Ok(vec![f64s(size)]),
        program: |_, v| vec![v[0].cumsum(0)],
    },
    OnXla {
        name: "scatter",
        sizes: &[&[1000], &[100_000]],
        arguments: |size| {
            let n = size[0];
            let indices: Tensor = (0..n).map(|k| ((k * 7919) % (n / 10)) as i64).collect();
            Ok(vec![f64s(&[n / 10]), f64s(&[n]), indices])
        },
        program: |_, v| vec![v[0].at(v[2]).add(v[1])],
    },
    OnXla {
        name: "convolution",
        sizes: &[&[4, 16, 8], &[16, 32, 16]],
        arguments: |size| {
            let (n, width, channels) = (size[0], size[1], size[2]);
            Ok(vec![f64s(&[n, width, width, channels]), f64s(&[3, 3, channels, channels])])
        },
        program: |_, v| {
            let x = v[0];
            let layer = move |w| conv::conv(x, w, Conv::new().channels_last().same());
            let (y, g) = value_and_grad(move |w: Var| layer(w).square().mean())(v[1]);
            vec![y, g]
        },
    },
];

/// Returns the parameters of a mixture of k Gaussians in d dimensions, and n points, for the sizes n, d, k.
fn mixture(size: &[usize]) -> Result<Vec<Tensor>, Failure> {
    let (n, d, k) = (size[0], size[1], size[2]);
    let shapes = [vec![k], vec![k, d], vec![k, d], vec![k, d * (d - 1) / 2], vec![n, d]];
    Ok(shapes.iter().map(|shape| f64s(shape)).collect())
}

fn mixture_gradient(v: &[Var]) -> Vec<Var> {
    let x = v[4];
    let f = move |p: Vec<Var>| likelihood(&[&p[..], &[x]].concat());
    let (y, g) = value_and_grad(f)(v[..4].to_vec());
    [&[y], &g[..]].concat()
}

fn extents(size: &[usize]) -> Extents {
    let (batch, tokens, width, heads, blocks) = (size[0], size[1], size[2], size[3], size[4]);
    Extents { batch, tokens, width, heads, blocks }
}

fn weights(size: &[usize], dtype: Dtype) -> Result<Vec<Tensor>, Failure> {
    let (blocks, x) = transformer::data(extents(size), dtype)?;
    Ok(blocks.into_iter().flat_map(|b| [b.qkv, b.out, b.up, b.down]).chain([x]).collect())
}

fn transformer_step(size: &[usize], v: &[Var]) -> Vec<Var> {
    let (weights, x) = v.split_at(v.len() - 1);
    let blocks = weights.chunks(4).map(|w| Block { qkv: w[0], out: w[1], up: w[2], down: w[3] });
    let (y, g) = transformer::step(extents(size))((blocks.collect(), x[0]));
    [y].into_iter().chain(g.into_iter().flat_map(|b| [b.qkv, b.out, b.up, b.down])).collect()
}

/// Returns the mean square of the temperatures of a plate after 50 steps of diffusion, and its derivatives with respect
/// to the initial temperatures and to the conductivity.
fn heat_gradient(u: Var, conductivity: Var) -> Vec<Var> {
    let after = |(u, conductivity): (Var, Var)| {
        let step = move |(_, u): (Var, Var)| {
            let [n, m] = [0, 1].map(|axis| u.shape()[axis]);
            let centre = u.slice((1..n - 1, 1..m - 1));
            let rows = u.slice((0..n - 2, 1..m - 1)) + u.slice((2..n, 1..m - 1));
            let columns = u.slice((1..n - 1, 0..m - 2)) + u.slice((1..n - 1, 2..m));
            let new = centre + conductivity * (rows + columns - 4.0 * centre);
            new.pad(&[(1, 1), (1, 1)], 0.0)
        };
        fori_loop(50, step, u).square().mean()
    };
    let (y, g) = value_and_grad(after)((u, conductivity));
    vec![y, g.0, g.1]
}
