//! Activations and normalizations of machine learning.

use super::axes::{Axes, resolve_axes};
use super::{binary, emit, wrong};
use crate::Var;
use crate::var::{IntoVar, caller, on_behalf};
use std::f64::consts::FRAC_2_PI;
use tapeloom_ir::{Literal, Loc, Scalar};

/// Activations, element by element, of floats.
impl Var {
    /// max(x, 0). The derivative at 0 is 0.
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
        let zero = number(self, 0.0, at);
        // `x <= 0` and not `x > 0`, so that nan stays nan.
        let off = binary(Scalar::Le, self, zero, at);
        emit(Scalar::Select, &[off, zero, self], at)
    }

    /// x where x ≥ 0, `slope`·x elsewhere; the derivative at 0 is 1.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Var {
        let at = caller();
        let on = binary(Scalar::Ge, self, number(self, 0.0, at), at);
        let leak = binary(Scalar::Mul, self, number(self, slope, at), at);
        emit(Scalar::Select, &[on, self, leak], at)
    }

    /// x Φ(x), with the normal distribution's Φ ([`ndtr`](Var::ndtr)).
    #[track_caller]
    pub fn gelu(self) -> Var {
        let at = caller();
        binary(Scalar::Mul, self, emit(Scalar::Ndtr, &[self], at), at)
    }

    /// The approximation x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) of [`gelu`](Var::gelu).
    #[track_caller]
    pub fn gelu_tanh(self) -> Var {
        let at = caller();
        let num = |x| number(self, x, at);
        let mul = |x, y| binary(Scalar::Mul, x, y, at);
        let add = |x, y| binary(Scalar::Add, x, y, at);
        let cube = mul(mul(self, self), self);
        let inner = mul(add(self, mul(cube, num(0.044715))), num(2.0 * FRAC_2_PI.sqrt()));
        // (1 + tanh u) / 2 is the logistic function of 2u, which does not cancel on the left.
        mul(self, emit(Scalar::Logistic, &[inner], at))
    }

    /// x σ(x), with the logistic function σ.
    #[doc(alias = "swish")]
    #[track_caller]
    pub fn silu(self) -> Var {
        let at = caller();
        binary(Scalar::Mul, self, emit(Scalar::Logistic, &[self], at), at)
    }

    /// x where x > 0, `alpha` (eˣ - 1) elsewhere.
    #[track_caller]
    pub fn elu(self, alpha: f64) -> Var {
        let at = caller();
        let zero = number(self, 0.0, at);
        let positive = binary(Scalar::Gt, self, zero, at);
        // Large x must not reach the exponential: inf times zero is nan in the derivative.
        let harmless = emit(Scalar::Select, &[positive, zero, self], at);
        let below = emit(Scalar::Expm1, &[harmless], at);
        let below = binary(Scalar::Mul, below, number(self, alpha, at), at);
        emit(Scalar::Select, &[positive, self, below], at)
    }

    /// ln(1 + eˣ), without overflow.
    #[track_caller]
    pub fn softplus(self) -> Var {
        emit(Scalar::Softplus, &[self], caller())
    }

    /// ln σ(x) = -ln(1 + e⁻ˣ), without overflow.
    #[track_caller]
    pub fn log_sigmoid(self) -> Var {
        let at = caller();
        let below = emit(Scalar::Softplus, &[emit(Scalar::Neg, &[self], at)], at);
        emit(Scalar::Neg, &[below], at)
    }

    /// ln(eˣ + eʸ), without overflow. At equal operands each takes half of the derivative.
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
        binary(Scalar::Logaddexp, self, y.into_var(self.ty(at).dtype, at), at)
    }
}

/// Normalizations over axes.
impl Var {
    /// eˣ / Σ eˣ over `axes`.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let p = run(|x: Var| x.softmax(-1), [1000.0, 1000.0])?;
    /// assert_eq!(p.to_vec::<f64>()?, [0.5, 0.5]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax(self, axes: impl Axes) -> Var {
        let at = caller();
        over("softmax", self, &axes, at, |x, axes| {
            let shift = x.max_keepdims(axes).stop_gradient();
            let e = (x - shift).exp();
            e / e.sum_keepdims(axes)
        })
    }

    /// x - ln Σ eˣ over `axes`: the logarithm of [`softmax`](Var::softmax).
    #[track_caller]
    pub fn log_softmax(self, axes: impl Axes) -> Var {
        let at = caller();
        over("log_softmax", self, &axes, at, |x, axes| {
            let shift = x.max_keepdims(axes).stop_gradient();
            let off = x - shift;
            off - off.exp().sum_keepdims(axes).ln()
        })
    }

    /// (x - mean) / √(variance + `epsilon`) over `axes`.
    #[doc(alias = "standardize")]
    #[track_caller]
    pub fn layer_norm(self, axes: impl Axes, epsilon: f64) -> Var {
        let at = caller();
        over("layer_norm", self, &axes, at, |x, axes| {
            let off = x - x.mean_keepdims(axes);
            off * (off.square().mean_keepdims(axes) + epsilon).rsqrt()
        })
    }
}

/// Resolves axes once, so that a mistake is reported once, at the user's line.
fn over(
    name: &str,
    x: Var,
    axes: &impl Axes,
    at: Loc,
    body: impl FnOnce(Var, &[usize]) -> Var,
) -> Var {
    let ty = x.ty(at);
    match resolve_axes(name, axes, &ty.shape) {
        Ok(axes) => on_behalf(at, || body(x, &axes)),
        Err(problem) => wrong(problem, &[x], ty, at),
    }
}

fn number(like: Var, x: f64, at: Loc) -> Var {
    Var::literal(Literal::of(like.ty(at).dtype, x), at)
}
