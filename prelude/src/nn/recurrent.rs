//! Cells of recurrent networks: one step of a sequence. [`scan`](crate::scan) applies a cell to all steps.

use crate::ops::{broadcast_shapes, wrong};
use crate::prng::{split, uniform_between};
use crate::var::{caller, on_behalf};
use crate::{Tree, Var};
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem};

/// The parameters of a recurrent cell of n gates: [`lstm_cell`] (n = 4) or [`gru_cell`] (n = 3). Along the last axis of
/// each array, the gates follow one another in PyTorch's order.
///
/// The axes of the weights are inputs and outputs, as for all weights of this library. PyTorch's `weight_ih` and
/// `weight_hh` are the transposes of these weights; `bias_ih` and `bias_hh` are these biases.
#[doc(alias = "LSTMCell", alias = "GRUCell", alias = "OptimizedLSTMCell")]
#[derive(Tree, Clone, Copy, Debug)]
pub struct CellWeights<T> {
    /// The weights of the input, `[inputs, n hidden]`.
    pub input: T,
    /// The weights of the hidden state, `[hidden, n hidden]`.
    pub hidden: T,
    /// The bias that is added to the product with the input, `[n hidden]`.
    pub input_bias: T,
    /// The bias that is added to the product with the hidden state, `[n hidden]`.
    pub hidden_bias: T,
}

impl CellWeights<Var> {
    /// Returns initial parameters of an [`lstm_cell`], uniform between -1/√hidden and 1/√hidden as in PyTorch.
    ///
    /// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
    #[track_caller]
    pub fn lstm(key: Var, inputs: usize, hidden: usize, dtype: Dtype) -> CellWeights<Var> {
        let at = caller();
        on_behalf("CellWeights::lstm", at, || initial(key, 4, inputs, hidden, dtype))
    }

    /// Returns initial parameters of a [`gru_cell`], uniform between -1/√hidden and 1/√hidden as in PyTorch.
    ///
    /// Errors: `dtype` if `dtype` is not a float; `dtype` or `shape` if `key` is not a single key.
    #[track_caller]
    pub fn gru(key: Var, inputs: usize, hidden: usize, dtype: Dtype) -> CellWeights<Var> {
        let at = caller();
        on_behalf("CellWeights::gru", at, || initial(key, 3, inputs, hidden, dtype))
    }
}

fn initial(key: Var, n: usize, inputs: usize, hidden: usize, dtype: Dtype) -> CellWeights<Var> {
    let [first, second, third, fourth] = split(key);
    let most = 1.0 / (hidden as f64).sqrt();
    // If the product overflows, the saturated size is reported by the sampler as too large for any memory.
    let gates = n.saturating_mul(hidden);
    let number = |x: f64| Var::literal(Literal::of(dtype, x), caller());
    let draw = |key: Var, shape: &[usize]| uniform_between(key, shape, number(-most), number(most));
    CellWeights {
        input: draw(first, &[inputs, gates]),
        hidden: draw(second, &[hidden, gates]),
        input_bias: draw(third, &[gates]),
        hidden_bias: draw(fourth, &[gates]),
    }
}

/// Returns the next state (h, c) of a cell of long short-term memory for an input `[.., inputs]` and a state of two
/// arrays `[.., hidden]`. With the gates i, f, g, o in this order along the last axis of the weights W, U and biases:
///
/// ```text
/// i, f, o = σ(x W + b + h U + d)      g = tanh(x W + b + h U + d)
/// c' = f c + i g                      h' = o tanh c'
/// ```
///
/// Errors: `shape` if the arrays do not fit, `dtype` if they are not floats of one dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// use nn::CellWeights;
/// // The last hidden state of a sequence [time, batch, inputs].
/// let last = |(w, x): (CellWeights<Var>, Var)| {
///     let rest = zeros([x.shape()[1], w.hidden.shape()[0]], Dtype::F64);
///     let step = |(state, x)| (nn::lstm_cell(x, state, &w), ());
///     scan(step, (rest, rest), x).0.0
/// };
/// let w = run(|()| CellWeights::lstm(random::key(0), 2, 3, Dtype::F64), ())?;
/// let h = run(last, (&w, Tensor::full(&[5, 4, 2], 0.5)?))?;
/// assert_eq!(h.shape(), [4, 3]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Hochreiter and Schmidhuber, *Long short-term memory* (1997), with the forget gate of Gers et al. (2000).
#[doc(alias = "LSTM", alias = "LSTMCell")]
#[track_caller]
pub fn lstm_cell(x: Var, (h, c): (Var, Var), weights: &CellWeights<Var>) -> (Var, Var) {
    let at = caller();
    let (th, tc) = (h.ty(at), c.ty(at));
    let name = "lstm_cell";
    let cell = (th != tc).then(|| {
        let message = format!("`{name}` with a hidden state {th} and a cell state {tc}");
        Problem::new(Kind::Shape, message, "both have one shape and one dtype")
    });
    if let Some(problem) = misfit(name, 4, x, h, weights, at).or(cell) {
        let [h, c] = [th, tc].map(|ty| wrong(problem.clone(), &[x, h, c], ty, at));
        return (h, c);
    }
    on_behalf(name, at, || {
        let sum = (x.dot(weights.input) + weights.input_bias)
            + (h.dot(weights.hidden) + weights.hidden_bias);
        let parts = sum.split(4, -1);
        let [i, f, o] = [0, 1, 3].map(|k| parts[k].sigmoid());
        let c = f * c + i * parts[2].tanh();
        (o * c.tanh(), c)
    })
}

/// Returns the next state of a gated recurrent unit for an input `[.., inputs]` and a state h `[.., hidden]`. With the
/// gates r, z, n in this order along the last axis of the weights W, U and biases b, d:
///
/// ```text
/// r, z = σ(x W + b + h U + d)      n = tanh(x W + b + r (h U + d))
/// h' = (1 - z) n + z h
/// ```
///
/// Errors: `shape` if the arrays do not fit, `dtype` if they are not floats of one dtype.
///
/// ```
/// use tapeloom::prelude::*;
/// let w = run(|()| nn::CellWeights::gru(random::key(0), 2, 3, Dtype::F64), ())?;
/// let step = |(x, h, w): (Var, Var, nn::CellWeights<Var>)| nn::gru_cell(x, h, &w);
/// let h = run(step, ([0.5, -1.0], [0.0, 0.0, 0.0], &w))?;
/// assert_eq!(h.shape(), [3]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Cho et al., *Learning phrase representations using RNN encoder-decoder* (2014), with the reset gate behind
/// the product, as in PyTorch.
#[doc(alias = "GRU", alias = "GRUCell")]
#[track_caller]
pub fn gru_cell(x: Var, h: Var, weights: &CellWeights<Var>) -> Var {
    let at = caller();
    if let Some(problem) = misfit("gru_cell", 3, x, h, weights, at) {
        return wrong(problem, &[x, h], h.ty(at), at);
    }
    on_behalf("gru_cell", at, || {
        let inputs = (x.dot(weights.input) + weights.input_bias).split(3, -1);
        let states = (h.dot(weights.hidden) + weights.hidden_bias).split(3, -1);
        let [r, z] = [0, 1].map(|k| (inputs[k] + states[k]).sigmoid());
        let n = (inputs[2] + r * states[2]).tanh();
        n + z * (h - n)
    })
}

/// Returns an error if the dtypes or shapes of the operands of a cell with n gates do not fit.
fn misfit(
    name: &str,
    n: usize,
    x: Var,
    h: Var,
    weights: &CellWeights<Var>,
    at: Loc,
) -> Option<Problem> {
    let CellWeights { input, hidden, input_bias, hidden_bias } = weights;
    let operands = [x, h, *input, *hidden, *input_bias, *hidden_bias];
    let types = operands.map(|v| v.ty(at));
    let names = ["x", "h", "input", "hidden", "input_bias", "hidden_bias"];
    let all: Vec<String> = names.iter().zip(&types).map(|(n, ty)| format!("{n} {ty}")).collect();
    let message = format!("`{name}` of {}", all.join(", "));
    let dtype = types[0].dtype;
    if !dtype.is_float() || types.iter().any(|ty| ty.dtype != dtype) {
        let help = "all are floats of one dtype";
        return Some(Problem::new(Kind::Dtype, message, help));
    }
    let fits = |types: &[ArrayType; 6]| -> Option<bool> {
        let (inputs, before) = types[0].shape.split_last()?;
        let (size, batch) = types[1].shape.split_last()?;
        let gates = n.checked_mul(*size)?;
        // The new state must have the shape of the old one, so the input must not broadcast it to a larger batch.
        let grows = broadcast_shapes(before, batch)?[..] != *batch;
        let weights =
            types[2].shape[..] == [*inputs, gates] && types[3].shape[..] == [*size, gates];
        let biases = types[4].shape[..] == [gates] && types[5].shape[..] == [gates];
        Some(!grows && weights && biases)
    };
    let help = format!(
        "x is [.., inputs], h is [.., hidden]; the weights are [inputs, {n} hidden] and [hidden, {n} hidden], the \
         biases [{n} hidden]"
    );
    (fits(&types) != Some(true)).then(|| Problem::new(Kind::Shape, message, help))
}
