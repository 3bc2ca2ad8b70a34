//! The softmax, and attention.

use crate::Var;
use crate::dtype::largest;
use crate::ops::composite::{list, misshapen, number};
use crate::ops::functions::{einsum, iota, select};
use crate::ops::{Axes, broadcast_shapes, over, wrong};
use crate::transform::custom_jvp;
use crate::var::{caller, on_behalf};
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Shape};

/// The softmax.
impl Var {
    /// Returns the softmax eˣ / Σ eˣ over `axes`, with the shape and dtype of x, which are floats. Its tangent is y
    /// (dx - Σ y dx), as that of `jax.nn.softmax`.
    ///
    /// Errors: `dtype` if x is not of floats; `shape` if an axis does not exist.
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
            let softmax = |x: Var| {
                let shift = x.max_keepdims(axes).stop_gradient();
                let e = (x - shift).exp();
                e / e.sum_keepdims(axes)
            };
            // The derivative is a function of the result y alone, so that reverse mode saves y and not x or e.
            let rule = |x: Var, dx: Var| {
                let y = softmax(x);
                (y, y * (dx - (y * dx).sum_keepdims(axes)))
            };
            custom_jvp(softmax, rule)(x)
        })
    }
}

/// Options of [`dot_product_attention`]: `Attention::new().causal().scale(0.5)`.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options do nothing until they are given to `dot_product_attention`"]
pub struct Attention {
    bias: Option<Var>,
    mask: Option<Var>,
    scale: Option<f64>,
    causal: bool,
}

impl Attention {
    /// Returns the default options: every query attends to every key, and scores are scaled by 1/√(extent of the
    /// heads).
    pub fn new() -> Self {
        Attention::default()
    }

    /// Sets a bias, which is added to the scores; it broadcasts to [batch.., heads, queries, keys].
    pub fn bias(self, bias: Var) -> Self {
        Attention { bias: Some(bias), ..self }
    }

    /// Sets a mask (bool) that is true where a query attends to a key; it broadcasts to [batch.., heads, queries,
    /// keys].
    pub fn mask(self, mask: Var) -> Self {
        Attention { mask: Some(mask), ..self }
    }

    /// Sets the factor by which scores are multiplied, in place of 1/√(extent of the heads).
    pub fn scale(self, scale: f64) -> Self {
        Attention { scale: Some(scale), ..self }
    }

    /// Lets query i attend only to the keys up to i.
    pub fn causal(self) -> Self {
        Attention { causal: true, ..self }
    }
}

/// Returns attention: for each query, the mean of the values weighted by the softmax of the products of the query
/// with the keys.
///
/// Queries are [batch.., queries, heads, n], keys and values [batch.., keys, heads, n]. The result has the shape of the
/// queries. Keys may have fewer heads; then each of their heads serves several consecutive heads of the queries. If a
/// query attends to no key, its result is the mean of all values, as in JAX.
///
/// Errors: `shape` if extents do not fit; `dtype` if the mask is not bool.
///
/// Model: `jax.nn.dot_product_attention`.
///
/// ```
/// use tapeloom::prelude::*;
/// let f = jit(|x: Var| dot_product_attention(x, x, x, Attention::new().causal()));
/// let tokens = Tensor::new(&[2, 1, 1], vec![1.0, 3.0])?; // two tokens, with one head of one number
/// let y = f.call(&tokens)?;
/// assert_eq!(y.shape(), [2, 1, 1]);
/// assert_eq!(y.to_vec::<f64>()?[0], 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[doc(alias = "scaled_dot_product_attention")]
#[track_caller]
pub fn dot_product_attention(query: Var, key: Var, value: Var, how: Attention) -> Var {
    let at = caller();
    let operands = [query, key, value];
    let types = operands.map(|v| v.ty(at));
    let [tq, tk, tv] = &types;
    let misfit = |help: &str| {
        let message = format!("`dot_product_attention` of {}", list(&types));
        misshapen(message, help, &operands, tq.clone(), at)
    };
    let ([batch @ .., queries, heads, n], [kb @ .., keys, groups, kn]) = (&*tq.shape, &*tk.shape)
    else {
        return misfit("queries are [batch.., queries, heads, n], keys [batch.., keys, heads, n]");
    };
    if tv.shape.len() != tk.shape.len()
        || tv.shape[..tv.shape.len() - 1] != tk.shape[..tk.shape.len() - 1]
    {
        return misfit("give one value per key");
    }
    if batch != kb || n != kn || *groups == 0 || heads % groups != 0 {
        return misfit(
            "batches and the last axes must be equal, heads a multiple of the keys' heads",
        );
    }
    if types.iter().any(|t| t.dtype != tq.dtype || !t.dtype.is_float()) {
        let message = format!("`dot_product_attention` of {}", list(&types));
        let problem = Problem::new(Kind::Dtype, message, "give floats of one dtype");
        return wrong(problem, &operands, tq.clone(), at);
    }
    let scores: Shape = batch.iter().chain([heads, queries, keys]).copied().collect();
    for (what, v, dtype) in [("bias", how.bias, tq.dtype), ("mask", how.mask, Dtype::Bool)] {
        let Some(v) = v else { continue };
        let t = v.ty(at);
        if t.dtype != dtype || broadcast_shapes(&t.shape, &scores).as_ref() != Some(&scores) {
            let message = format!("`dot_product_attention` with a {what} {t}");
            let help = format!("it must broadcast to {}", ArrayType::new(dtype, scores.clone()));
            let kind = if t.dtype == dtype { Kind::Shape } else { Kind::Dtype };
            return wrong(Problem::new(kind, message, help), &[v], tq.clone(), at);
        }
    }
    on_behalf("dot_product_attention", at, || {
        let each = heads / groups;
        let spread = |v: Var| if each == 1 { v } else { v.repeat(each, -2) };
        let (key, value) = (spread(key), spread(value));
        let scale = how.scale.unwrap_or(1.0 / (*n as f64).sqrt());
        let mut logits = einsum("...qhn,...khn->...hqk", &[query, key]) * scale;
        if let Some(bias) = how.bias {
            logits += bias;
        }
        let causal = how.causal.then(|| {
            let place = |axis| iota([*queries, *keys], axis, Dtype::I64);
            place(0).ge(place(1))
        });
        // Masked scores get a number far below every other score. It is finite, because scores of -inf would make the
        // result nan for a query that attends to no key.
        let most = largest(tq.dtype);
        for seen in [how.mask, causal].into_iter().flatten() {
            logits = select(seen, logits, number(logits, -0.7 * most));
        }
        einsum("...hqk,...khn->...qhn", &[logits.softmax(-1), value])
    })
}
