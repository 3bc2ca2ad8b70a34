//! Blocks of a transformer that benchmarks measure: attention, a gated feed-forward layer, and the gradient of all
//! weights.
//!
//! `tests/peers/transformer.py` is the same function in JAX, with the same numbers.

use tapeloom::prelude::*;

/// The weight matrices of one block.
#[derive(Tree, Clone)]
pub struct Block<T> {
    /// The projections to queries, keys and values.
    pub qkv: T,
    /// The projection of the output of attention.
    pub out: T,
    /// The projection to four times the width.
    pub up: T,
    /// The projection back to the width.
    pub down: T,
}

/// The extents of a transformer.
#[derive(Clone, Copy, Debug)]
pub struct Extents {
    /// The number of sequences.
    pub batch: usize,
    /// The number of tokens in each sequence.
    pub tokens: usize,
    /// The number of features of each token.
    pub width: usize,
    /// The number of attention heads.
    pub heads: usize,
    /// The number of blocks.
    pub blocks: usize,
}

/// Returns the mean square of the output of the blocks for x: `[batch, tokens, width]`.
pub fn loss(size: Extents, blocks: &[Block<Var>], x: Var) -> Var {
    let Extents { batch, tokens, width, heads, .. } = size;
    let mut x = x;
    for b in blocks {
        let normal = x.layer_norm(-1, 1e-5);
        let [q, k, v] = [0, 1, 2]
            .map(|i| normal.dot(b.qkv.index(i)).reshape([batch, tokens, heads, width / heads]));
        let seen = dot_product_attention(q, k, v, Attention::new().causal());
        x += seen.reshape([batch, tokens, width]).dot(b.out);
        x += x.layer_norm(-1, 1e-5).dot(b.up).gelu_tanh().dot(b.down);
    }
    x.square().mean()
}

/// The weights of all blocks, in order.
pub type Blocks<T> = Vec<Block<T>>;

/// Returns a function that computes the loss and its gradient with respect to all weights.
pub fn step(size: Extents) -> impl Fn((Blocks<Var>, Var)) -> (Var, Blocks<Var>) {
    move |(blocks, x)| value_and_grad(move |b: Blocks<Var>| loss(size, &b, x))(blocks)
}

/// Returns fixed weights and input sequences.
///
/// # Errors
/// If there is no memory.
pub fn data(size: Extents, dtype: Dtype) -> Result<(Blocks<Tensor>, Tensor), tapeloom::Error> {
    let Extents { batch, tokens, width, blocks, .. } = size;
    let mut phase = 0.0_f64;
    let mut array = |shape: &[usize], scale: f64| {
        phase += 1.0;
        let n: usize = shape.iter().product();
        let wave = |i| scale * ((i as f64) * 0.7 + phase + (i as f64).sqrt()).sin();
        match dtype {
            Dtype::F32 => Tensor::new(shape, (0..n).map(|i| wave(i) as f32).collect()),
            _ => Tensor::new(shape, (0..n).map(wave).collect()),
        }
    };
    let scale = 1.0 / (width as f64).sqrt();
    let mut model = Vec::new();
    for _ in 0..blocks {
        model.push(Block {
            qkv: array(&[3, width, width], scale)?,
            out: array(&[width, width], scale)?,
            up: array(&[width, 4 * width], scale)?,
            down: array(&[4 * width, width], scale / 2.0)?,
        });
    }
    Ok((model, array(&[batch, tokens, width], 1.0)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Splitting, permuting and merging the axis of heads must not hinder lowering: every matrix product of the
    /// gradient must be a library call, and no index may need a division.
    #[test]
    fn products_are_the_library_s() {
        let size = Extents { batch: 2, tokens: 24, width: 64, heads: 4, blocks: 2 };
        let (blocks, x) = data(size, Dtype::F64).unwrap();
        let explained = jit(step(size)).explain((&blocks, &x)).unwrap();
        // A stage that changed nothing has no text, so take the last stage with a text.
        let program = explained.stages().iter().rev().map(|s| &s.text).find(|t| !t.is_empty());
        let program = program.unwrap();
        let kernels = explained.kernels();
        let count = |text: &str, what: &str| text.lines().filter(|l| l.contains(what)).count();
        assert_eq!(count(&kernels, "contract f64"), count(program, "= dot"));
        for division in [": i64 = div", ": i64 = rem"] {
            assert_eq!(count(&kernels, division), 0, "{kernels}");
        }
    }
}
