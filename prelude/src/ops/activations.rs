//! Activations and normalizations for neural networks.

use super::axes::{Axes, Axis, resolve_axes};
use super::composite::{along, misshapen, number, of_floats};
use super::{binary, emit, select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use std::f64::consts::FRAC_2_PI;
use tapeloom_ir::{Literal, Loc, Scalar};

/// Elementwise activations of floats.
impl Var {
    /// Returns max(x, 0). The derivative at 0 is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let slope = run(vmap(grad(|x: Var| x.relu())), [-1.0, 0.0, 1.0])?;
    /// assert_eq!(slope.to_vec::<f64>()?, [0.0, 0.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn relu(self) -> Var {
        let at = caller();
        let zero = Var::literal(Literal::zero(self.ty(at).dtype), at);
        // Select 0 by the test `x <= 0`. The opposite test `x > 0` is false for nan and would turn nan into 0.
        let off = binary(Scalar::Le, self, zero, at);
        emit(Scalar::Select, &[off, zero, self], at)
    }

    /// Returns x for x ≥ 0, `slope`·x otherwise. The derivative at 0 is 1.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Var {
        of_floats("leaky_relu", [self], caller(), |[x]| select(x.ge(0.0), x, x * slope))
    }

    /// Returns x Φ(x), where Φ is the distribution function of the normal distribution ([`ndtr`](Var::ndtr)): torch's
    /// `gelu`. The default of `jax.nn.gelu` is [`gelu_tanh`](Var::gelu_tanh).
    #[track_caller]
    pub fn gelu(self) -> Var {
        of_floats("gelu", [self], caller(), |[x]| x * x.ndtr())
    }

    /// Returns the approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) of [`gelu`](Var::gelu).
    #[track_caller]
    pub fn gelu_tanh(self) -> Var {
        of_floats("gelu_tanh", [self], caller(), |[x]| {
            // Compute (1 + tanh u) / 2 as the logistic function of 2u: for negative u, the sum 1 + tanh u would cancel.
            // The factor x is taken out of 2u, so that the value and the derivative need few products.
            let twice = 2.0 * FRAC_2_PI.sqrt();
            let inner = x * (x * x * (0.044715 * twice) + twice);
            x * inner.sigmoid()
        })
    }

    /// Returns x σ(x), where σ is the logistic function.
    #[doc(alias = "swish")]
    #[track_caller]
    pub fn silu(self) -> Var {
        of_floats("silu", [self], caller(), |[x]| x * x.sigmoid())
    }

    /// Returns x for x > 0, eˣ - 1 otherwise: [`elu_with`](Var::elu_with) of alpha = 1.
    #[track_caller]
    pub fn elu(self) -> Var {
        exponential_linear("elu", self, 1.0, caller())
    }

    /// Returns x for x > 0, `alpha` (eˣ - 1) otherwise.
    #[track_caller]
    pub fn elu_with(self, alpha: f64) -> Var {
        exponential_linear("elu_with", self, alpha, caller())
    }

    /// Returns max(0, x) + min(0, `alpha` (e^(x/alpha) - 1)): a variant of [`elu`](Var::elu) whose derivative is
    /// continuous for every alpha.
    #[track_caller]
    pub fn celu(self, alpha: f64) -> Var {
        of_floats("celu", [self], caller(), |[x]| {
            let below = alpha * (select(x.gt(0.0), 0.0, x) / alpha).exp_m1();
            select(x.gt(0.0), x, below)
        })
    }

    /// Returns λ [`elu`](Var::elu)(x, α) with the constants λ and α for which layers preserve mean 0 and variance 1 of
    /// activations.
    ///
    /// Source: Klambauer et al., *Self-normalizing neural networks*, 2017.
    #[track_caller]
    pub fn selu(self) -> Var {
        of_floats("selu", [self], caller(), |[x]| {
            1.050_700_987_355_480_5 * x.elu_with(1.673_263_242_354_377_2)
        })
    }

    /// Returns min(max(x, 0), 6). At both kinks, 0 and 6, the derivative is 0, as in [`relu`](Var::relu).
    #[track_caller]
    pub fn relu6(self) -> Var {
        of_floats("relu6", [self], caller(), |[x]| {
            let rising = select(x.ge(6.0), number(x, 6.0), x);
            select(x.le(0.0), x.zeros_like(), rising)
        })
    }

    /// Returns x clamped to [-1, 1]. The derivative at both kinks is 1.
    #[doc(alias = "hardtanh")]
    #[track_caller]
    pub fn hard_tanh(self) -> Var {
        of_floats("hard_tanh", [self], caller(), |[x]| {
            let inside = select(x.lt(-1.0), number(x, -1.0), x);
            select(x.gt(1.0), number(x, 1.0), inside)
        })
    }

    /// Returns [`relu6`](Var::relu6)(x + 3) / 6: a piecewise linear sigmoid.
    #[doc(alias = "hardsigmoid")]
    #[track_caller]
    pub fn hard_sigmoid(self) -> Var {
        of_floats("hard_sigmoid", [self], caller(), |[x]| (x + 3.0).relu6() / 6.0)
    }

    /// Returns x [`hard_sigmoid`](Var::hard_sigmoid)(x).
    #[doc(alias = "hard_swish")]
    #[track_caller]
    pub fn hard_silu(self) -> Var {
        of_floats("hard_silu", [self], caller(), |[x]| x * x.hard_sigmoid())
    }

    /// Returns x tanh(ln(1 + eˣ)).
    #[track_caller]
    pub fn mish(self) -> Var {
        of_floats("mish", [self], caller(), |[x]| x * x.softplus().tanh())
    }

    /// Returns (x + √(x² + b)) / 2, a smooth [`relu`](Var::relu) without exponentials, computed without
    /// cancellation or overflow.
    #[track_caller]
    pub fn squareplus(self, b: f64) -> Var {
        of_floats("squareplus", [self], caller(), |[x]| {
            let (size, left) = (x.hypot(b.sqrt()), x.lt(0.0));
            let small = b / (size - select(left, x, -1.0));
            0.5 * select(left, small, size + x)
        })
    }

    /// Returns 0 for x ≤ -1, (x + 1)² / 4 for x between -1 and 1, and x for x ≥ 1: a smooth [`relu`](Var::relu)
    /// with exact zeros.
    #[track_caller]
    pub fn sparse_plus(self) -> Var {
        of_floats("sparse_plus", [self], caller(), |[x]| {
            let middle = 0.25 * (x + 1.0).square();
            select(x.le(-1.0), x.zeros_like(), select(x.ge(1.0), x, middle))
        })
    }

    /// Returns the first half of an axis times the [`sigmoid`](Var::sigmoid) of the second half.
    ///
    /// Errors: `shape` if the extent is odd.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.glu(0), [3.0, 0.0])?;
    /// assert_eq!(y.item::<f64>()?, 1.5);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn glu(self, axis: impl Axis) -> Var {
        let at = caller();
        along("glu", self, axis, at, |x, axis| {
            let ty = x.ty(at);
            let half = ty.shape[axis] / 2;
            if ty.shape[axis] % 2 == 1 {
                let message = format!("`glu` along axis {axis} of {ty}");
                return misshapen(message, "the extent must be even", &[x], ty, at);
            }
            x.slice_axis(axis, ..half) * x.slice_axis(axis, half..).sigmoid()
        })
    }

    /// Returns ln(1 + eˣ), without overflow.
    #[track_caller]
    pub fn softplus(self) -> Var {
        emit(Scalar::Softplus, &[self], caller())
    }

    /// Returns ln σ(x) = -ln(1 + e⁻ˣ), without overflow.
    #[doc(alias = "logsigmoid")]
    #[track_caller]
    pub fn log_sigmoid(self) -> Var {
        of_floats("log_sigmoid", [self], caller(), |[x]| -(-x).softplus())
    }

    /// Returns ln(eˣ + eʸ), without overflow. If the operands are equal, each gets half of the derivative.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let both = run(grad(|(x, y): (Var, Var)| x.logaddexp(y)), (1.0, f64::NEG_INFINITY))?;
    /// assert_eq!((both.0.item::<f64>()?, both.1.item::<f64>()?), (1.0, 0.0));
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp(self, y: impl IntoVar) -> Var {
        let at = caller();
        binary(Scalar::Logaddexp, self, y.beside(self, at), at)
    }
}

/// Normalizations over axes.
impl Var {
    /// Returns x - ln Σ eˣ, with the sum over `axes`: the logarithm of [`softmax`](Var::softmax).
    #[track_caller]
    pub fn log_softmax(self, axes: impl Axes) -> Var {
        let at = caller();
        over("log_softmax", self, &axes, at, |x, axes| {
            let shift = x.max_keepdims(axes).stop_gradient();
            let off = x - shift;
            off - off.exp().sum_keepdims(axes).ln()
        })
    }

    /// Returns (x - mean) / √(variance + `epsilon`), with the mean and the variance over `axes`.
    #[doc(alias = "standardize")]
    #[track_caller]
    pub fn layer_norm(self, axes: impl Axes, epsilon: f64) -> Var {
        let at = caller();
        over("layer_norm", self, &axes, at, |x, axes| {
            let off = x - x.mean_keepdims(axes);
            off * (off.square().mean_keepdims(axes) + epsilon).rsqrt()
        })
    }

    /// Returns x / √(mean of x² + `epsilon`), with the mean over `axes`.
    ///
    /// Source: Zhang and Sennrich, *Root mean square layer normalization* (2019).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.rms_norm(-1, 0.0), [3.0, 4.0, 5.0, 5.0, 5.0])?;
    /// assert!((y.to_vec::<f64>()?[0] - 3.0 / 20f64.sqrt()).abs() < 1e-15);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "RMSNorm")]
    #[track_caller]
    pub fn rms_norm(self, axes: impl Axes, epsilon: f64) -> Var {
        let at = caller();
        over("rms_norm", self, &axes, at, |x, axes| {
            x * (x.square().mean_keepdims(axes) + epsilon).rsqrt()
        })
    }

    /// Returns (x - mean) / √(variance + `epsilon`), with mean and variance over all positions and the channels of one
    /// group, for each member of a batch. Axis 0 is the batch, and `axis` the axis of channels, which is divided into
    /// `groups` groups of neighbouring channels. If there are as many groups as channels, this is instance
    /// normalization.
    ///
    /// Errors: `shape` if the axis does not exist, or if its extent is not a multiple of `groups`.
    ///
    /// Source: Wu and He, *Group normalization* (2018).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.group_norm(2, -1, 0.0), [[1.0, 3.0, 10.0, 30.0]])?;
    /// assert_eq!(y.to_vec::<f64>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "GroupNorm", alias = "instance_norm", alias = "InstanceNorm")]
    #[track_caller]
    pub fn group_norm(self, groups: usize, axis: impl Axis, epsilon: f64) -> Var {
        let at = caller();
        along("group_norm", self, axis, at, |x, axis| {
            let ty = x.ty(at);
            let channels = ty.shape[axis];
            if axis == 0 || groups == 0 || channels % groups != 0 {
                let message = format!("`group_norm` of {ty} in {groups} groups along axis {axis}");
                let help = "axis 0 is the batch; that of the channels has a multiple of the groups";
                return misshapen(message, help, &[x], ty, at);
            }
            let mut split = ty.shape.to_vec();
            split.splice(axis..=axis, [groups, channels / groups]);
            let within: Vec<usize> = (1..split.len()).filter(|i| *i != axis).collect();
            x.reshape(split).layer_norm(within, epsilon).reshape(ty.shape)
        })
    }
}

/// Evaluates `body` with resolved axes. They are resolved once, so that an invalid axis is reported once, at the user's
/// line.
pub(crate) fn over(
    name: &'static str,
    x: Var,
    axes: &impl Axes,
    at: Loc,
    body: impl FnOnce(Var, &[usize]) -> Var,
) -> Var {
    let ty = x.ty(at);
    match resolve_axes(name, axes, &ty.shape) {
        Ok(axes) => on_behalf(name, at, || body(x, &axes)),
        Err(problem) => wrong(problem, &[x], ty, at),
    }
}

fn exponential_linear(name: &'static str, x: Var, alpha: f64, at: Loc) -> Var {
    of_floats(name, [x], at, |[x]| {
        let positive = x.gt(0.0);
        // Where x is positive, replace it by 0 before the exponential: otherwise the derivative would contain infinity
        // times zero, which is nan.
        let below = select(positive, 0.0, x).exp_m1() * alpha;
        select(positive, x, below)
    })
}
