//! Convolutional networks that benchmarks measure: losses, and gradients with respect to all weights.
//!
//! `tests/peers/networks.py` has the same networks in JAX and in PyTorch, with the same numbers.

use tapeloom::conv::{self, Conv, windows};
use tapeloom::prelude::*;

/// A measured network: its name, the shapes of its input and of its weights, and the loss.
pub struct Network {
    /// The name of the network in benchmark rows.
    pub name: &'static str,
    /// The shape of the input, `[batch, height, width, channels]`.
    pub input: &'static [usize],
    /// The shapes of the weights; convolution kernels are `[height, width, inputs, outputs]`.
    pub weights: &'static [&'static [usize]],
    /// The loss, a scalar function of the weights and the input.
    pub loss: fn(&[Var], Var) -> Var,
}

/// The measured networks.
pub const NETWORKS: [Network; 3] = [
    Network {
        name: "lenet",
        input: &[32, 28, 28, 1],
        weights: &[&[5, 5, 1, 6], &[5, 5, 6, 16], &[400, 120], &[120, 84], &[84, 10]],
        loss: lenet,
    },
    Network {
        name: "resnet_block",
        input: &[32, 32, 32, 64],
        weights: &[&[3, 3, 64, 64], &[3, 3, 64, 64]],
        loss: resnet_block,
    },
    Network {
        name: "separable_block",
        input: &[32, 32, 32, 64],
        weights: &[&[3, 3, 1, 64], &[1, 1, 64, 128]],
        loss: separable_block,
    },
];

/// Returns the loss of LeNet-5 (LeCun et al., 1998) with mean pooling: the cross entropy with labels 0, 1, .. 9, 0, ..
fn lenet(w: &[Var], x: Var) -> Var {
    let pool = |x: Var| conv::avg_pool(x, windows([2, 2]).along([1, 2]).strides([2, 2]));
    let how = || Conv::new().channels_last();
    let x = pool(conv::conv(x, w[0], how().same()).tanh());
    let x = pool(conv::conv(x, w[1], how()).tanh());
    let n = x.shape()[0];
    let x = x.reshape([n, 400]).dot(w[2]).tanh().dot(w[3]).tanh().dot(w[4]);
    x.cross_entropy(arange(n, Dtype::I64).mod_floor(10)).mean()
}

/// Returns the loss of a block of two convolutions with batch normalization and a residual connection (He et al.,
/// 2016).
fn resnet_block(w: &[Var], x: Var) -> Var {
    let normal = |x: Var| {
        let off = x - x.mean_keepdims([0, 1, 2]);
        off * (off.square().mean_keepdims([0, 1, 2]) + 1e-5).rsqrt()
    };
    let layer = |x: Var, w: Var| normal(conv::conv(x, w, Conv::new().channels_last().same()));
    let y = layer(layer(x, w[0]).relu(), w[1]);
    (x + y).relu().square().mean()
}

/// Returns the loss of a depthwise separable convolution (Howard et al., 2017).
fn separable_block(w: &[Var], x: Var) -> Var {
    let how = || Conv::new().channels_last().same();
    let x = conv::conv(x, w[0], how().groups(64)).relu();
    conv::conv(x, w[1], how()).relu().square().mean()
}

impl Network {
    /// Returns fixed weights and a fixed input: sines of a growing number; weights are scaled by the number of terms
    /// that are summed.
    ///
    /// # Errors
    /// None, for these shapes.
    pub fn arguments(&self, dtype: Dtype) -> Result<(Vec<Tensor>, Tensor), tapeloom::Error> {
        let array = |shape: &[usize], scale: f64| {
            let n: usize = shape.iter().product();
            let x: Vec<f64> = (0..n).map(|i| scale * (0.7 * i as f64 + 0.1).sin()).collect();
            let x = Tensor::new(shape, x)?;
            run(move |x: Var| x.convert(dtype), x)
        };
        let weight = |shape: &&[usize]| {
            let terms: usize = shape[..shape.len() - 1].iter().product();
            array(shape, (2.0 / terms as f64).sqrt())
        };
        Ok((self.weights.iter().map(weight).collect::<Result<_, _>>()?, array(self.input, 1.0)?))
    }
}
