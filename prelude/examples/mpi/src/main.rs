//! Data parallelism over processes, in Rust alone: each process has a part of the examples and computes their gradient with
//! its own machine code. Between the calls, MPI adds the gradients of all processes.
//!
//! ```text
//! cargo build --release --manifest-path prelude/examples/mpi/Cargo.toml
//! mpirun -n 4 prelude/examples/mpi/target/release/tapeloom-mpi [STEPS [SECONDS]]
//! ```
//!
//! To build, it needs an MPI library with its headers, and libclang, from which the crate `mpi` makes its bindings; on Debian
//! `apt install libopenmpi-dev libclang-dev`.
//!
//! All calls of MPI are made by the main thread in the order of the program, so every process makes them in the same order.
//! If a process dies, `mpirun` ends the job. Where it does not notice (a process that hangs, a host that is gone), each
//! other process waits SECONDS, 10 if not given, for the sum of a step, and ends with an error that names the ranks that no
//! longer answer. The limit has to be longer than the longest step.

mod peers;

use mpi::traits::Communicator;
use std::time::Duration;
use tapeloom::prelude::*;

/// The numbers of examples of all processes together (`EXAMPLES`), of inputs of an example, and of hidden units.
const EXAMPLES: usize = 4096;
const INPUTS: usize = 32;
const HIDDEN: usize = 64;

#[derive(Tree, Clone)]
struct Model<T> {
    hidden: T,
    offset: T,
    out: T,
}

/// Returns the sum of squared errors. It is not the mean, so that losses and gradients of processes can be added.
fn loss(m: &Model<Var>, x: Var, y: Var) -> Var {
    ((x.dot(m.hidden) + m.offset).tanh().dot(m.out) - y).square().sum()
}

/// Returns the model before the first step. All processes start from the same model.
fn start() -> Result<Model<Tensor>, tapeloom::Error> {
    let wave =
        |n: usize, phase: f64| (0..n).map(|i| 0.2 * (phase + 1.7 * i as f64).sin()).collect();
    Ok(Model {
        hidden: Tensor::new(&[INPUTS, HIDDEN], wave(INPUTS * HIDDEN, 0.3))?,
        offset: Tensor::new(&[HIDDEN], wave(HIDDEN, 0.1))?,
        out: Tensor::new(&[HIDDEN], wave(HIDDEN, 0.7))?,
    })
}

/// Returns the inputs and outputs of the examples with these numbers. A program with data in files would read only
/// these examples from the files.
fn examples(numbers: std::ops::Range<usize>) -> Result<(Tensor, Tensor), tapeloom::Error> {
    let input = |i: usize, j: usize| (0.37 * (i * INPUTS + j) as f64).sin();
    let x: Vec<f64> = numbers.clone().flat_map(|i| (0..INPUTS).map(move |j| input(i, j))).collect();
    let y: Vec<f64> = numbers.clone().map(|i| (input(i, 0) + 2.0 * input(i, 3)).tanh()).collect();
    Ok((Tensor::new(&[numbers.len(), INPUTS], x)?, Tensor::from(y)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let steps: u64 = words.next().map_or(Ok(200), |n| n.parse())?;
    let limit = Duration::from_secs_f64(words.next().map_or(Ok(10.0), |s| s.parse())?);

    let universe = peers::start(limit).ok_or("MPI was started before")?;
    let world = universe.world();
    let (rank, count) = (usize::try_from(world.rank())?, usize::try_from(world.size())?);
    let (x, y) = examples(EXAMPLES * rank / count..EXAMPLES * (rank + 1) / count)?;

    // Put the loss and the gradient of this process in a single vector, so that one message carries both.
    let gradient = jit(|(m, x, y): (Model<Var>, Var, Var)| {
        let (loss, g) = value_and_grad(|m: Model<Var>| loss(&m, x, y))(m);
        ravel(&(loss, g)).0
    });
    let update = jit(|(m, sums): (Model<Var>, Var)| {
        let (_, unravel) = ravel(&(sums.index(0), m.clone()));
        let (loss, g) = unravel(sums / EXAMPLES as f64);
        (loss, tree_map2(|w, g| w - 0.2 * g, &m, &g))
    });
    let mut model = start()?;
    for step in 1..=steps {
        let own = gradient.call((&model, &x, &y))?.to_vec::<f64>()?;
        let sums = peers::sum(&world, &own, step, limit);
        let loss;
        (loss, model) = update.call((&model, Tensor::from(sums)))?;
        if rank == 0 && (step % 10 == 0 || step == steps) {
            println!("step {step}  loss {:.12}", loss.item::<f64>()?);
        }
    }
    peers::end(universe, limit);
    Ok(())
}
