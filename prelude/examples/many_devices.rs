//! A network is trained on four devices of XLA: examples are divided along one axis of the mesh, weights along the other.
//!
//! ```text
//! cargo run --release --features xla --example many_devices
//! ```
//!
//! It needs a plugin of XLA. Where none is set, it says how to get one, and trains on this machine alone.

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::xla::{self, Client, ClientOptions, PLUGIN_VARIABLE, Plugin};
use tapeloom::{Mesh, PartitionSpec, Target, prelude::*};

const STEPS: usize = 20;

#[derive(Tree, Clone)]
struct Net<T> {
    up: T,
    down: T,
}

fn step((net, x, y): (Net<Var>, Var, Var)) -> (Var, Net<Var>) {
    let loss = |net: Net<Var>| (x.dot(net.up).tanh().dot(net.down) - y).square().mean();
    let (loss, g) = value_and_grad(loss)(net.clone());
    (loss, tree_map2(|w, g| w - 0.5 * g, &net, &g))
}

/// Returns a matrix of irregular numbers, in place of trained weights and data.
fn wave(n: usize, m: usize, scale: f64) -> Result<Tensor, tapeloom::Error> {
    let elements: Tensor = (0..n * m).map(|i| scale * (0.7 + 1.9 * i as f64).sin()).collect();
    Ok(elements.reshape(&[n, m])?)
}

/// Returns whether an environment variable is not set, or empty.
fn is_unset(variable: &str) -> bool {
    std::env::var_os(variable).is_none_or(|value| value.is_empty())
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let start = Net { up: wave(16, 64, 0.3)?, down: wave(64, 4, 0.2)? };
    let x = wave(256, 16, 1.0)?;
    let y = run(|x: Var| x.slice_axis(1, ..4).sin(), &x)?;

    let mut net = start.clone();
    let one = jit(step);
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let loss;
        (loss, net) = one.call((&net, &x, &y))?;
        losses.push(loss.item::<f64>()?);
    }
    println!(
        "this machine: loss {:.6} in step 1, {:.6} in step {STEPS}",
        losses[0],
        losses[STEPS - 1]
    );

    let plugin = match Plugin::found() {
        Err(how_to_get_one) if is_unset(PLUGIN_VARIABLE) => {
            println!("no other devices: {how_to_get_one}");
            return Ok(());
        }
        found => found?,
    };
    let client = Client::new(&plugin, &ClientOptions::new().cpu_device_count(4))?;
    let rows = PartitionSpec::new(["data"]);
    // Divide the first matrix by columns and the second by rows, so that a pair of layers needs a single sum over
    // devices.
    let weights =
        Net { up: PartitionSpec::new(["_", "model"]), down: PartitionSpec::new(["model", "_"]) };
    let step = jit(step)
        .on(Target::Xla(client.clone()))
        .mesh(Mesh::new([("data", 2), ("model", 2)])?)
        .argument_shardings((weights.clone(), rows.clone(), rows))
        .result_shardings((PartitionSpec::replicated(), weights));
    let explained = step.explain((&start, &x, &y))?;
    if let Some(operations) = explained.xla().and_then(|report| report.operations.as_ref()) {
        let count = |name: &str| operations.get(name).copied().unwrap_or(0);
        println!(
            "a step has {} all-reduces and {} all-gathers",
            count("all-reduce"),
            count("all-gather")
        );
    }

    let (mut net, x, y) = step.upload((&start, &x, &y))?;
    let before = client.transfers();
    let mut found = Vec::new();
    for _ in 0..STEPS {
        let loss;
        (loss, net) = step.call_on_device((net, x.clone(), y.clone()))?;
        found.push(loss);
    }
    assert_eq!(client.transfers(), before, "a step copied something");
    let mut difference: f64 = 0.0;
    for (found, one) in xla::download(&found)?.iter().zip(&losses) {
        difference = difference.max((found.item::<f64>()? / one - 1.0).abs());
    }
    println!(
        "four devices: losses differ by {difference:.1e}, and no step copied anything to or from the host"
    );
    assert!(difference < 1e-9);
    Ok(())
}
