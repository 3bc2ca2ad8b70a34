//! Batch normalization. Training uses the mean and the variance of the batch; inference uses running means of both over
//! all batches.

use crate::ops::functions::{ones, zeros};
use crate::ops::resolve_axis;
use crate::ops::{Axis, wrong};
use crate::var::{caller, on_behalf};
use crate::{Tree, Var};
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem};

/// The running mean and variance of every channel over the batches seen so far, `[channels]` each: the state of a
/// [`BatchNorm`].
#[derive(Tree, Clone, Copy, Debug)]
pub struct Running<T> {
    /// The running mean of every channel.
    pub mean: T,
    /// The running variance of every channel, with the number of elements as the divisor.
    pub variance: T,
}

impl Running<Var> {
    /// Returns the state before the first batch: means 0, variances 1.
    #[track_caller]
    pub fn new(channels: usize, dtype: Dtype) -> Running<Var> {
        on_behalf("Running::new", caller(), || Running {
            mean: zeros([channels], dtype),
            variance: ones([channels], dtype),
        })
    }
}

/// Normalization of channels over batches: `(x - mean) / √(variance + ε)`. If you need a scale and an offset, make them
/// parameters of your model, as in `scale * y + offset`.
///
/// The state is a value: [`train`](BatchNorm::train) returns the next state, and [`apply`](BatchNorm::apply) reads
/// it.
///
/// ```
/// use tapeloom::prelude::*;
/// let norm = nn::BatchNorm::new(-1).momentum(0.75);
/// let train = jit(|(x, state): (Var, nn::Running<Var>)| norm.train(x, &state));
/// let state = run(|()| nn::Running::new(1, Dtype::F64), ())?;
/// let (y, state) = train.call(([[1.0], [3.0]], &state))?;
/// assert!((y.to_vec::<f64>()?[0] + 1.0).abs() < 1e-5);
/// assert_eq!(state.mean.to_vec::<f64>()?, [0.5]);
/// let apply = jit(|(x, state): (Var, nn::Running<Var>)| norm.apply(x, &state));
/// assert!((apply.call(([[1.5]], &state))?.item::<f64>()? - 1.0).abs() < 1e-5);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Source: Ioffe and Szegedy, *Batch normalization* (2015). Model: Flax. PyTorch's running variance has the number
/// of elements minus one as its divisor.
#[doc(alias = "batch_norm")]
#[doc(alias = "BatchNorm2d", alias = "BatchNorm1d", alias = "BatchNormalization")]
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm {
    axis: i64,
    momentum: f64,
    epsilon: f64,
}

impl BatchNorm {
    /// Returns a normalization whose channels are along `axis`: -1 for channels last, 1 for channels first. Means and
    /// variances are computed over all other axes.
    pub fn new(axis: impl Axis) -> BatchNorm {
        BatchNorm { axis: axis.number(), momentum: 0.99, epsilon: 1e-5 }
    }

    /// Sets the decay factor of the running means. The default is 0.99.
    #[must_use]
    pub fn momentum(self, momentum: f64) -> BatchNorm {
        BatchNorm { momentum, ..self }
    }

    /// Sets ε, which is added to the variance. The default is 1e-5.
    #[must_use]
    pub fn epsilon(self, epsilon: f64) -> BatchNorm {
        BatchNorm { epsilon, ..self }
    }

    /// Returns the batch, normalized by its own mean and variance, and the next state. Derivatives of the batch include
    /// those of its mean and variance. Derivatives of the state are 0.
    ///
    /// Errors: `shape` if the axis does not exist, if the state has another number of channels, or if the batch is
    /// empty; `dtype` if the arguments are not floats of one dtype.
    #[track_caller]
    pub fn train(self, x: Var, state: &Running<Var>) -> (Var, Running<Var>) {
        let at = caller();
        let axis = match self.channels(x, state, at) {
            Ok(axis) => axis,
            Err(poison) => return (poison, *state),
        };
        let ty = x.ty(at);
        if ty.shape[axis] > 0 && ty.shape.contains(&0) {
            let message = format!("`BatchNorm::train` of {ty}, whose channels have no elements");
            let problem = Problem::new(Kind::Shape, message, "give a batch of one example or more");
            return (wrong(problem, &[x, state.mean, state.variance], ty, at), *state);
        }
        on_behalf("BatchNorm::train", at, || {
            let others: Vec<usize> = (0..x.shape().len()).filter(|i| *i != axis).collect();
            let mean = x.mean_keepdims(&others[..]);
            let off = x - mean;
            let variance = off.square().mean_keepdims(&others[..]);
            let next = |old: Var, new: Var| {
                let new = new.reshape(old.shape()).stop_gradient();
                self.momentum * old.stop_gradient() + (1.0 - self.momentum) * new
            };
            let next =
                Running { mean: next(state.mean, mean), variance: next(state.variance, variance) };
            (off * (variance + self.epsilon).rsqrt(), next)
        })
    }

    /// Returns an input normalized by the running mean and variance.
    ///
    /// Errors: as [`train`](BatchNorm::train).
    #[track_caller]
    pub fn apply(self, x: Var, state: &Running<Var>) -> Var {
        let at = caller();
        let axis = match self.channels(x, state, at) {
            Ok(axis) => axis,
            Err(poison) => return poison,
        };
        on_behalf("BatchNorm::apply", at, || {
            let mut along = vec![1; x.shape().len()];
            along[axis] = x.shape()[axis];
            let spread = |v: Var| v.reshape(&along[..]);
            (x - spread(state.mean)) * (spread(state.variance) + self.epsilon).rsqrt()
        })
    }

    /// Checks that the input and the state are floats of one dtype and that the state has one element per channel.
    /// Returns the axis of the channels. Otherwise reports an error and returns a placeholder as the error value.
    fn channels(self, x: Var, state: &Running<Var>, at: Loc) -> Result<usize, Var> {
        let ty = x.ty(at);
        let refuse = |problem| wrong(problem, &[x, state.mean, state.variance], ty.clone(), at);
        let axis = resolve_axis("BatchNorm", self.axis, &ty.shape).map_err(&refuse)?;
        let want = ArrayType::new(ty.dtype, [ty.shape[axis]]);
        for (what, held) in [("mean", state.mean.ty(at)), ("variance", state.variance.ty(at))] {
            if held != want || !ty.dtype.is_float() {
                let kind = if held.shape == want.shape { Kind::Dtype } else { Kind::Shape };
                let message = format!("`BatchNorm` along axis {axis} of {ty} with a {what} {held}");
                let help = format!("floats of one dtype: the {what} of this input is {want}");
                return Err(refuse(Problem::new(kind, message, help)));
            }
        }
        Ok(axis)
    }
}
