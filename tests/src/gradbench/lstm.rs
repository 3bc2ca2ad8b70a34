//! `lstm`: a recurrent network whose weights are diagonal, the loss of its predictions, and the
//! gradient of that loss.
//!
//! A layer has four gates. Its parameters are two rows, weights and biases, of four parts each: forget, in, out,
//! change. Its state is two rows: hidden, cell.

use super::{Answer, Eval, Failure, matrix, measure};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "lstm", functions: &[("objective", value), ("jacobian", jacobian)] };

/// Returns the next state of one layer, from its state (hidden, cell) and its input at a time step.
fn layer(weight: Var, bias: Var, (hidden, cell): (Var, Var), input: Var) -> (Var, Var) {
    let gate = |k: usize, x: Var| x * weight.index(k) + bias.index(k);
    let forget = gate(0, input).sigmoid();
    let ingate = gate(1, hidden).sigmoid();
    let outgate = gate(2, input).sigmoid();
    let change = gate(3, hidden).tanh();
    let cell = cell * forget + ingate * change;
    (outgate * cell.tanh(), cell)
}

/// The inputs: parameters of the l layers `[2 l, 4 b]`, parameters of input and output `[3, b]`, the initial state `[2
/// l, b]`, and a sequence of c elements of b bits `[c, b]`.
type Network<T> = (T, T, T, T);

/// Returns the mean negative log-likelihood of each element of the sequence, given the elements before.
fn objective((main, extra, state, sequence): Network<Var>) -> Var {
    let (layers, c, b) = (main.shape()[0] / 2, sequence.shape()[0], sequence.shape()[1]);
    let main = main.reshape([2 * layers, 4, b]);
    let start: Vec<(Var, Var)> =
        (0..layers).map(|i| (state.index(2 * i), state.index(2 * i + 1))).collect();
    let step = |(state, x): (Vec<(Var, Var)>, Var)| {
        let mut signal = x * extra.index(0);
        let mut next = Vec::with_capacity(layers);
        for (i, state) in state.into_iter().enumerate() {
            let state = layer(main.index(2 * i), main.index(2 * i + 1), state, signal);
            signal = state.0;
            next.push(state);
        }
        (next, signal * extra.index(1) + extra.index(2))
    };
    let (_, predicted) = scan(step, start, sequence.slice_axis(0, ..c - 1));
    // The benchmark defines the normaliser so: 2 is added to the sum.
    let normaliser = (predicted.exp().sum_axis(1) + 2.0).ln();
    let gold = sequence.slice_axis(0, 1..);
    -(gold * (predicted - normaliser.reshape([c - 1, 1]))).mean()
}

fn read(input: &Value) -> Result<Network<Tensor>, Failure> {
    let table = |name: &str| -> Result<Tensor, Failure> {
        let (flat, rows, columns) = matrix(&input[name])?;
        Ok(Tensor::new(&[rows, columns], flat)?)
    };
    Ok((table("main_params")?, table("extra_params")?, table("state")?, table("sequence")?))
}

fn value(input: &Value) -> Result<Answer, Failure> {
    let network = read(input)?;
    let f = jit(objective);
    measure(input, || f.explain(&network), || f.call(&network), |y| Ok(json!(y.item::<f64>()?)))
}

/// Returns the gradient of the loss with respect to both tables of parameters, flattened and concatenated.
fn jacobian(input: &Value) -> Result<Answer, Failure> {
    let network = read(input)?;
    let f = jit(|(main, extra, state, sequence): Network<Var>| {
        let loss = |(main, extra)| objective((main, extra, state, sequence));
        ravel(&grad(loss)((main, extra))).0
    });
    measure(input, || f.explain(&network), || f.call(&network), |g| Ok(json!(g.as_slice::<f64>()?)))
}
