//! Data parallelism over processes in Rust alone: each process has a part of the examples, computes a gradient on its own
//! machine code, and MPI adds the gradients between calls.
//!
//! ```text
//! cargo build --release --manifest-path prelude/examples/mpi/Cargo.toml
//! mpirun -n 4 prelude/examples/mpi/target/release/tapeloom-mpi [STEPS]
//! ```
//!
//! It needs an MPI library with its headers, and libclang, from which the crate `mpi` makes its bindings: on Debian
//! `apt install libopenmpi-dev libclang-dev`.
//!
//! If a process ends, `mpirun` ends the others, so none waits for it forever.

use mpi::collective::SystemOperation;
use mpi::traits::{Communicator, CommunicatorCollectives};
use tapeloom::prelude::*;

/// The number of examples of all processes together, and of inputs of each.
const EXAMPLES: usize = 4096;
const INPUTS: usize = 64;

#[derive(Tree, Clone)]
struct Model<T> {
    w: T,
    b: T,
}

/// Returns the sum of squares, so that sums of processes can be added.
fn loss(m: &Model<Var>, x: Var, y: Var) -> Var {
    ((x.dot(m.w) + m.b).tanh() - y).square().sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let universe = mpi::initialize().ok_or("MPI is initialized already")?;
    let world = universe.world();
    let (rank, count) = (usize::try_from(world.rank())?, usize::try_from(world.size())?);
    let steps: usize = std::env::args().nth(1).map_or(Ok(200), |n| n.parse())?;

    // Each process makes the examples with its numbers.
    let own = EXAMPLES * rank / count..EXAMPLES * (rank + 1) / count;
    let wave = |i: usize, j: usize| ((i * INPUTS + j) as f64 * 0.37).sin();
    let x: Vec<f64> = own.clone().flat_map(|i| (0..INPUTS).map(move |j| wave(i, j))).collect();
    let y: Vec<f64> = own.clone().map(|i| wave(i, 0).mul_add(0.5, 0.2 * wave(i, 3)).tanh()).collect();
    let (x, y) = (Tensor::new(&[own.len(), INPUTS], x)?, Tensor::from(y));

    let step = jit(|(m, x, y): (Model<Var>, Var, Var)| {
        let (loss, g) = value_and_grad(|m: Model<Var>| loss(&m, x, y))(m);
        // One vector, so that one message suffices.
        concat(&[loss.reshape([1]), ravel(&g).0], 0)
    });
    let update = jit(|(m, sums): (Model<Var>, Var)| {
        let (flat, model) = ravel(&m);
        let g = sums.slice_axis(0, 1..) / EXAMPLES as f64;
        (sums.index(0) / EXAMPLES as f64, model(flat - g))
    });
    let mut model = Model { w: Tensor::zeros(&[INPUTS], Dtype::F64)?, b: Tensor::from(0.0) };
    for t in 1..=steps {
        let own = step.call((&model, &x, &y))?.to_vec::<f64>()?;
        let mut sums = vec![0.0; own.len()];
        world.all_reduce_into(&own, &mut sums, SystemOperation::sum());
        let loss;
        (loss, model) = update.call((&model, Tensor::from(sums)))?;
        if rank == 0 && (t % 50 == 0 || t == steps) {
            println!("step {t}  loss {loss:.12}");
        }
    }
    Ok(())
}
