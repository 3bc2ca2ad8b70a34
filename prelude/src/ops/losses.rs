//! Losses.

use super::axes::{Axis, resolve_axis};
use super::composite::{misshapen, number, of_floats};
use super::{broadcast_shapes, select, wrong};
use crate::Var;
use crate::var::{IntoVar, caller};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem};

/// The loss of a classification.
impl Var {
    /// Returns the cross entropy -Σ p ln softmax(x) of scores x over the last axis, which is removed.
    ///
    /// `labels` are either integers, each the index of the right class, in the shape without the last axis, or
    /// probabilities p in the shape of x. A negative label counts from the end, as an index does, and a label out of
    /// range is clamped to the nearest class. Mask elements without a label by [`select`](Var::select). A probability
    /// of 0 contributes 0, even with a score of -inf.
    ///
    /// Errors: `shape` if the labels fit neither way; `dtype` if they are truth values.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = jit(|(x, i): (Var, Var)| x.cross_entropy(i));
    /// let loss = f.call(([[0.0, 0.0], [0.0, 1000.0]], [0i64, 0]))?;
    /// assert_eq!(loss.to_vec::<f64>()?, [2f64.ln(), 1000.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "nll_loss")]
    #[track_caller]
    pub fn cross_entropy(self, labels: impl IntoVar) -> Var {
        let at = caller();
        let labels = labels.into_var(Dtype::I64, at);
        let (ty, tl) = (self.ty(at), labels.ty(at));
        let Some((_, left)) = ty.shape.split_last() else {
            let help = "give one score per class along the last axis";
            return misshapen(format!("`cross_entropy` of {ty}"), help, &[self, labels], ty, at);
        };
        if tl.dtype == Dtype::Bool {
            let message = format!("`cross_entropy` of {ty} with labels {tl}");
            let help =
                "give an integer per row, the place of its class: write `.convert(Dtype::I64)`";
            let guess = ArrayType::new(ty.dtype, left);
            let problem = Problem::new(Kind::Dtype, message, help);
            return wrong(problem, &[self, labels], guess, at);
        }
        let fits = if tl.dtype.is_float() { tl.shape == ty.shape } else { *tl.shape == *left };
        if !fits {
            let message = format!("`cross_entropy` of {ty} with labels {tl}");
            let help = "give an integer per row, or probabilities in the shape of the scores";
            let guess = ArrayType::new(ty.dtype, left);
            return misshapen(message, help, &[self, labels], guess, at);
        }
        if tl.dtype.is_float() {
            return of_floats("cross_entropy", [self, labels], at, |[x, p]| {
                let logs = x.log_softmax(-1);
                let nothing = p.eq(0.0) & !logs.is_finite();
                -(p * select(nothing, 0.0, logs)).sum_axis(-1)
            });
        }
        of_floats("cross_entropy", [self], at, |[x]| {
            let right = x.log_softmax(-1).take_along_axis(labels.expand_dims(-1), -1);
            -right.squeeze(-1)
        })
    }
}

/// Elementwise losses of errors (`huber`, `log_cosh`) and of scores with labels (`sigmoid_cross_entropy`, `hinge`), and
/// the cosine similarity of vectors along an axis.
impl Var {
    /// Returns Huber's loss of an error x: x²/2 for |x| ≤ `delta`, and `delta` (|x| - `delta`/2) beyond, where the
    /// slope is ±`delta`.
    ///
    /// Source: Huber, *Robust estimation of a location parameter* (1964).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.huber(1.0), [0.5, -3.0])?;
    /// assert_eq!(y.to_vec::<f64>()?, [0.125, 2.5]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "huber_loss", alias = "smooth_l1_loss", alias = "SmoothL1Loss")]
    #[track_caller]
    pub fn huber(self, delta: f64) -> Var {
        of_floats("huber", [self], caller(), |[x]| {
            let outside = x.abs().gt(delta);
            let near = select(outside, 0.0, x);
            let far = delta * (x.abs() - 0.5 * delta);
            select(outside, far, 0.5 * near.square())
        })
    }

    /// Returns ln cosh x of an error x, which is x²/2 near 0 and |x| - ln 2 far from 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let y = run(|x: Var| x.log_cosh(), [1e-9, -1e300])?.to_vec::<f64>()?;
    /// assert!((y[0] - 5e-19).abs() < 1e-33 && y[1] == 1e300);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "logcosh")]
    #[track_caller]
    pub fn log_cosh(self) -> Var {
        of_floats("log_cosh", [self], caller(), |[x]| {
            let near = x.abs().lt(1.0);
            // Near 0, compute ln cosh x as ln(1 + sinh² x) / 2, which does not cancel.
            let inside = 0.5 * select(near, x, 0.0).sinh().square().ln_1p();
            let far = select(near, 1.0, x.abs());
            let outside = far + ((-2.0 * far).exp().ln_1p() - 2f64.ln());
            select(near, inside, outside)
        })
    }

    /// Returns the cross entropy -y ln σ(x) - (1 - y) ln(1 - σ(x)) of scores x with labels y between 0 and 1, where
    /// σ is the logistic function, without overflow or cancellation.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let f = |(x, y): (Var, Var)| x.sigmoid_cross_entropy(y);
    /// let loss = run(f, ([0.0, 800.0], [1.0, 1.0]))?.to_vec::<f64>()?;
    /// assert_eq!(loss, [2f64.ln(), 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(
        alias = "binary_cross_entropy_with_logits",
        alias = "BCEWithLogitsLoss",
        alias = "sigmoid_binary_cross_entropy"
    )]
    #[track_caller]
    pub fn sigmoid_cross_entropy(self, labels: impl IntoVar) -> Var {
        let at = caller();
        let labels = labels.beside(self, at);
        of_floats("sigmoid_cross_entropy", [self, labels], at, |[x, y]| {
            // This form has no cancellation if the labels are 0 and 1.
            let right = x.ge(0.0);
            let weight = select(right, 1.0 - y, -y);
            weight * x + select(right, -x, x).softplus()
        })
    }

    /// Returns the hinge loss max(0, 1 - y x) of scores x with labels y, which are -1 or 1. The derivative at the
    /// kink is half of the derivative beside it, as in [`maximum`](Var::maximum).
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let loss = run(|x: Var| x.hinge(constant([1.0, -1.0])), [0.5, 3.0])?;
    /// assert_eq!(loss.to_vec::<f64>()?, [0.5, 4.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "hinge_loss", alias = "HingeEmbeddingLoss")]
    #[track_caller]
    pub fn hinge(self, labels: impl IntoVar) -> Var {
        let at = caller();
        let labels = labels.beside(self, at);
        of_floats("hinge", [self, labels], at, |[x, y]| (1.0 - y * x).maximum(0.0))
    }

    /// Returns the cosine of the angle between two vectors along an axis, ⟨x, y⟩ / (|x| |y|). The axis is removed. If
    /// one of the vectors is 0, the result is 0.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let c = run(|x: Var| x.cosine_similarity(constant([0.0, 1.0]), -1), [[3.0, 4.0], [0.0, 0.0]])?;
    /// assert_eq!(c.to_vec::<f64>()?, [0.8, 0.0]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[doc(alias = "cosine_distance", alias = "CosineSimilarity")]
    #[track_caller]
    pub fn cosine_similarity(self, y: impl IntoVar, axis: impl Axis) -> Var {
        let at = caller();
        let y = y.beside(self, at);
        let shape = broadcast_shapes(&self.ty(at).shape, &y.ty(at).shape);
        let axis = match resolve_axis("cosine_similarity", axis, &shape.unwrap_or(self.shape())) {
            Ok(axis) => axis,
            Err(problem) => return wrong(problem, &[self, y], self.ty(at), at),
        };
        of_floats("cosine_similarity", [self, y], at, |[x, y]| {
            // Scale the vectors first, which does not change the angle, so that squares neither overflow nor
            // underflow.
            let [x, y] = [x, y].map(|v| v / largest(v, axis));
            let product = (x * y).sum_axis(axis);
            let [xx, yy] = [x, y].map(|x| x.square().sum_axis(axis));
            let none = xx.eq(0.0) | yy.eq(0.0);
            let [xx, yy] = [xx, yy].map(|size| select(none, 1.0, size));
            select(none, 0.0, product / (xx.sqrt() * yy.sqrt()))
        })
    }
}

/// Returns the largest absolute value along an axis, which is kept with extent 1, as a constant for derivatives. If
/// this value is 0 or not finite, the result is 1.
fn largest(x: Var, axis: usize) -> Var {
    if x.shape()[axis] == 0 {
        return number(x, 1.0);
    }
    let size = x.stop_gradient().abs().max_keepdims(axis);
    select(size.gt(0.0) & size.is_finite(), size, 1.0)
}
