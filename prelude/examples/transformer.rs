//! Two blocks of a transformer learn to continue a periodic sequence: trees in trees, Adam.
//!
//! ```text
//! cargo run --release --example transformer
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// Tokens, extent of a token's vector, heads.
const TOKENS: usize = 6;
const WIDTH: usize = 16;
const HEADS: usize = 2;

#[derive(Tree, Clone)]
struct Block<T> {
    qkv: T,
    out: T,
    up: T,
    down: T,
}

#[derive(Tree, Clone)]
struct Model<T> {
    embedding: T,
    positions: T,
    blocks: Vec<Block<T>>,
}

type State<T> = (Model<T>, Model<T>, Model<T>);

/// Scores of the next token at each place of a sequence.
fn scores(model: &Model<Var>, tokens: Var) -> Var {
    let n = tokens.len();
    let mut x = model.embedding.take(tokens, 0) + model.positions.slice_axis(0, ..n);
    for b in &model.blocks {
        let [q, k, v] = [0, 1, 2]
            .map(|i| x.layer_norm(-1, 1e-5).dot(b.qkv.index(i)).reshape([n, HEADS, WIDTH / HEADS]));
        let seen = dot_product_attention(q, k, v, Attention::new().causal());
        x += seen.reshape([n, WIDTH]).dot(b.out);
        x += x.layer_norm(-1, 1e-5).dot(b.up).gelu().dot(b.down);
    }
    x.dot(model.embedding.t())
}

/// Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
fn adam<P: Tree<Var>>(p: &P, m: &P, v: &P, g: &P, t: Var) -> (P, P, P) {
    let m = tree_map2(|m, g| 0.9 * m + 0.1 * g, m, g);
    let v = tree_map2(|v, g| 0.999 * v + 0.001 * g * g, v, g);
    let rate = 0.01 * (1.0 - (0.999_f64.ln() * t).exp()).sqrt() / (1.0 - (0.9_f64.ln() * t).exp());
    (tree_map3(|p, m, v| p - rate * m / (v.sqrt() + 1e-8), p, &m, &v), m, v)
}

fn step(((p, m, v), t, batch): (State<Var>, Var, Var)) -> (Var, State<Var>) {
    let n = batch.shape()[1] - 1;
    let loss = |p: Model<Var>| {
        let one = |s: Var| scores(&p, s.slice_axis(0, ..n)).cross_entropy(s.slice_axis(0, 1..));
        vmap(one)(batch).mean()
    };
    let (loss, g) = value_and_grad(loss)(p.clone());
    (loss, adam(&p, &m, &v, &clip_by_global_norm(&g, 1.0), t))
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let mut i = 0.0_f64;
    let mut array = |shape: &[usize]| {
        let mut next = || {
            i += 1.0;
            0.3 * (i * i * 0.7).sin()
        };
        Tensor::new(shape, (0..shape.iter().product()).map(|_| next()).collect())
    };
    let mut block = || -> Result<_, tapeloom::Error> {
        Ok(Block {
            qkv: array(&[3, WIDTH, WIDTH])?,
            out: array(&[WIDTH, WIDTH])?,
            up: array(&[WIDTH, 2 * WIDTH])?,
            down: array(&[2 * WIDTH, WIDTH])?,
        })
    };
    let blocks = vec![block()?, block()?];
    let (embedding, positions) = (array(&[TOKENS, WIDTH])?, array(&[12, WIDTH])?);
    let model = Model { embedding, positions, blocks };
    println!("{} numbers", ravel_tensors(&model)?.0.elements());

    // Sequences with steps of 1, 2 and 5, from every start.
    let rule = |(start, by): (i64, i64)| (0..9).map(|i| (start + by * i) % 6).collect::<Vec<_>>();
    let batch = (0..6).flat_map(|s| [1, 2, 5].map(|by| (s, by))).map(rule).collect::<Vec<_>>();
    let batch = Tensor::from_rows(&batch)?;

    let step = jit(step);
    let mut state = (model.clone(), zeros_like(&model), zeros_like(&model));
    let mut loss = Tensor::from(0.0);
    for t in 1..=60 {
        (loss, state) = step.call((&state, f64::from(t), &batch))?;
        if t % 20 == 0 {
            println!("step {t:2}  loss {loss:.4}");
        }
    }
    let next = run(|(m, s): (Model<Var>, Var)| scores(&m, s).argmax(1), (&state.0, [1i64, 3, 5]))?;
    println!("after 1, 1 3 and 1 3 5 comes: {next}");
    assert_eq!(next.to_vec::<i64>()?[1..], [5, 1]);
    assert!(loss.item::<f64>()? < 0.5);
    Ok(())
}
