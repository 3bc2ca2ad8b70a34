//! Programs whose calls are measured on one and on several threads.
//!
//! `tests/peers/threads.py` has the same programs in JAX.

use crate::Failure;
use crate::cost_rows::{COST_ROWS, f64s};
use crate::gradbench::{Mixture, gmm_objective};
use crate::networks::NETWORKS;
use crate::transformer::{self, Block, Extents};
use tapeloom::prelude::*;

/// A program whose call is measured on several threads.
pub struct Threaded {
    /// The name of the program in benchmark rows.
    pub name: &'static str,
    /// Returns the arguments of the program.
    pub arguments: fn() -> Result<Vec<Tensor>, Failure>,
    /// The program, as a function of all arguments.
    pub program: fn(&[Var]) -> Vec<Var>,
}

/// The measured programs.
pub const THREADED: [Threaded; 10] = [
    Threaded { name: "gmm_10000", arguments: mixture, program: |v| vec![likelihood(v)] },
    Threaded {
        name: "gmm_10000_gradient",
        arguments: mixture,
        program: |v| {
            let x = v[4];
            let (y, g) = value_and_grad(move |p: Vec<Var>| likelihood(&[&p[..], &[x]].concat()))(
                v[..4].to_vec(),
            );
            [&[y], &g[..]].concat()
        },
    },
    Threaded { name: "stencil_1024", arguments: || waves(&[&[1024, 1024]]), program: stencil },
    Threaded {
        name: "transformer_block",
        arguments: || {
            let (blocks, x) = transformer::data(BLOCK, Dtype::F64)?;
            let weights = blocks.into_iter().flat_map(|b| [b.qkv, b.out, b.up, b.down]);
            Ok(weights.chain([x]).collect())
        },
        program: |v| {
            let block = Block { qkv: v[0], out: v[1], up: v[2], down: v[3] };
            let (y, g) = transformer::step(BLOCK)((vec![block], v[4]));
            let weights = g.into_iter().flat_map(|b| [b.qkv, b.out, b.up, b.down]);
            [y].into_iter().chain(weights).collect()
        },
    },
    Threaded {
        name: "resnet_block",
        arguments: || {
            let (weights, x) = NETWORKS[1].arguments(Dtype::F64)?;
            Ok(weights.into_iter().chain([x]).collect())
        },
        program: |v| {
            let x = v[2];
            let loss = move |w: Vec<Var>| (NETWORKS[1].loss)(&w, x);
            let (y, g) = value_and_grad(loss)(v[..2].to_vec());
            [&[y], &g[..]].concat()
        },
    },
    Threaded { name: "odes_10000", arguments: || waves(&[&[10_000, 2]]), program: oscillators },
    Threaded {
        name: "adaptive_odes_10000",
        arguments: || {
            Ok(vec![uneven(10_000, [0.1, 20.0], 0.618034), uneven(10_000, [1.0, 2.0], 0.414214)])
        },
        program: adaptive_oscillators,
    },
    Threaded {
        name: "newton_100000",
        arguments: || {
            Ok(vec![uneven(100_000, [0.0, 0.99], 0.618034), uneven(100_000, [0.0, 3.0], 0.414214)])
        },
        program: orbits,
    },
    Threaded { name: "hmc_64", arguments: || waves(&[&[64, 50], &[500, 50]]), program: chains },
    Threaded {
        name: "heston_20000",
        arguments: || Ok(vec![[0.04, 1.5, 0.05, 0.5, -0.7].into(), Tensor::scalar(7i64)]),
        program: |v| {
            let row = COST_ROWS.iter().find(|row| row.name == "heston_barrier");
            row.map(|row| (row.program)(v)).into_iter().collect()
        },
    },
];

const BLOCK: Extents = Extents { batch: 4, tokens: 128, width: 256, heads: 8, blocks: 1 };

/// Returns arrays of these shapes, filled with irregular numbers.
fn waves(shapes: &[&[usize]]) -> Result<Vec<Tensor>, Failure> {
    Ok(shapes.iter().map(|shape| f64s(shape)).collect())
}

/// Returns the parameters of a mixture of 25 Gaussians in 10 dimensions, and 10,000 points.
fn mixture() -> Result<Vec<Tensor>, Failure> {
    waves(&[&[25], &[25, 10], &[25, 10], &[25, 45], &[10_000, 10]])
}

pub(crate) fn likelihood(v: &[Var]) -> Var {
    let p = Mixture { alpha: v[0], mu: v[1], q: v[2], l: v[3] };
    gmm_objective(&p, v[4], 1.0, 0)
}

/// Returns the temperatures of a plate after 50 steps of diffusion. Temperatures on the border are 0.
pub(crate) fn stencil(v: &[Var]) -> Vec<Var> {
    let step = |(_, u): (Var, Var)| {
        let [n, m] = [0, 1].map(|axis| u.shape()[axis]);
        let centre = u.slice((1..n - 1, 1..m - 1));
        let rows = u.slice((0..n - 2, 1..m - 1)) + u.slice((2..n, 1..m - 1));
        let columns = u.slice((1..n - 1, 0..m - 2)) + u.slice((1..n - 1, 2..m));
        let new = centre + 0.2 * (rows + columns - 4.0 * centre);
        new.pad(&[(1, 1), (1, 1)], 0.0)
    };
    vec![fori_loop(50, step, v[0])]
}

/// Returns the states of damped pendulums after 200 steps of the classical method of Runge and Kutta.
fn oscillators(v: &[Var]) -> Vec<Var> {
    let slope = |(angle, speed): (Var, Var)| (speed, -(9.81 * angle.sin()) - 0.1 * speed);
    let along = |(a, b): (Var, Var), (c, d): (Var, Var), h: f64| (a + h * c, b + h * d);
    let h = 0.01;
    let step = move |(_, y): (Var, (Var, Var))| {
        let k1 = slope(y);
        let k2 = slope(along(y, k1, 0.5 * h));
        let k3 = slope(along(y, k2, 0.5 * h));
        let k4 = slope(along(y, k3, h));
        let sum = |a: Var, b: Var, c: Var, d: Var| (a + 2.0 * b + 2.0 * c + d) / 6.0;
        along(y, (sum(k1.0, k2.0, k3.0, k4.0), sum(k1.1, k2.1, k3.1, k4.1)), h)
    };
    let member = move |y: Var| {
        let (angle, speed) = fori_loop(200, step, (y.index(0), y.index(1)));
        stack(&[angle, speed], 0)
    };
    vec![vmap(member)(v[0])]
}

/// Returns `n` numbers between two bounds, in no order.
fn uneven(n: usize, [least, most]: [f64; 2], step: f64) -> Tensor {
    (0..n).map(|i| least + (most - least) * (i as f64 * step).fract()).collect()
}

/// Returns the positions of van der Pol's oscillators, whose stiffness differs, after a time of 5. Each member chooses its
/// own steps.
fn adaptive_oscillators(v: &[Var]) -> Vec<Var> {
    let member = |(stiffness, start): (Var, Var)| {
        let slope =
            move |(_, (x, y)): (Var, (Var, Var))| (y, stiffness * (1.0 - x.square()) * y - x);
        let times = linspace(0.0, 5.0, 2, Dtype::F64);
        let method = ode::dopri5().rtol(1e-5).atol(1e-7);
        let ((x, _), _) = method.solve(slope, (start, start * 0.0), times);
        x.index(1)
    };
    vec![vmap(member)((v[0], v[1]))]
}

/// Returns the eccentric anomalies of orbits (solutions of Kepler's equation), each by its own number of Newton's
/// iterations.
fn orbits(v: &[Var]) -> Vec<Var> {
    let member = |(eccentricity, mean): (Var, Var)| {
        let go_on = |(_, change, n): (Var, Var, Var)| change.abs().gt(1e-12) & n.lt(50i64);
        let newton = move |(x, _, n): (Var, Var, Var)| {
            let slope = 1.0 - eccentricity * x.cos();
            let change = (x - eccentricity * x.sin() - mean) / slope;
            (x - change, change, n + 1)
        };
        while_loop(go_on, newton, (mean + 0.85 * eccentricity, mean.ones_like(), constant(0i64))).0
    };
    vec![vmap(member)((v[0], v[1]))]
}

/// Returns the states of 64 chains of Hamiltonian Monte Carlo for a logistic regression, after 20 proposals of 10 steps.
fn chains(v: &[Var]) -> Vec<Var> {
    let (start, data) = (v[0], v[1]);
    let chain = move |(seed, q): (Var, Var)| {
        let energy = move |q: Var| data.dot(q).softplus().sum() + 0.5 * q.square().sum();
        let propose = move |(i, q): (Var, Var)| {
            let [momentum, accept] = random::split(random::fold_in(random::key(seed), i));
            let p = random::normal(momentum, [50], Dtype::F64);
            let leap = move |(_, (q, p)): (Var, (Var, Var))| {
                let p = p - 0.01 * grad(energy)(q);
                let q = q + 0.02 * p;
                (q, p - 0.01 * grad(energy)(q))
            };
            let (new, end) = fori_loop(10, leap, (q, p));
            let total = |q: Var, p: Var| energy(q) + 0.5 * p.square().sum();
            let rise = total(new, end) - total(q, p);
            random::uniform(accept, [], Dtype::F64).ln().lt(-rise).select(new, q)
        };
        fori_loop(20, propose, q)
    };
    vec![vmap(chain)((arange(64, Dtype::I64), start))]
}
