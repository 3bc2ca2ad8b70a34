//! A transformer of two blocks learns to continue a periodic sequence: nested trees, a chain of optimisers.
//!
//! ```text
//! cargo run --release --example transformer
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// The number of tokens, the length of a token's vector, and the number of heads.
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

type Optimiser = (optim::ClipByGlobalNorm, optim::Adam);
type State = optim::State<Optimiser, Model<Var>>;

/// Returns AdamW with clipped gradients and a rate that first rises and then falls.
fn optimiser() -> Optimiser {
    let rate = optim::cosine_decay(0.02, 60).warm_up(5);
    (optim::clip_by_global_norm(1.0), optim::adamw(rate, 1e-4))
}

/// Returns the scores of the next token at each position of a sequence.
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

fn step((model, state, batch): (Model<Var>, State, Var)) -> (Var, Model<Var>, State) {
    let n = batch.shape()[1] - 1;
    let loss = |p: Model<Var>| {
        let one = |s: Var| scores(&p, s.slice_axis(0, ..n)).cross_entropy(s.slice_axis(0, 1..));
        vmap(one)(batch).mean()
    };
    let (loss, g) = value_and_grad(loss)(model.clone());
    let (model, state) = optimiser().step(&g, &state, &model);
    (loss, model, state)
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
    let mut model = Model { embedding, positions, blocks };
    println!("{} numbers", ravel_tensors(&model)?.0.elements());

    // Train on sequences modulo 6 with increments of 1, 2 and 5, from every start.
    let rule = |(start, by): (i64, i64)| (0..9).map(|i| (start + by * i) % 6).collect::<Vec<_>>();
    let batch = (0..6).flat_map(|s| [1, 2, 5].map(|by| (s, by))).map(rule).collect::<Vec<_>>();
    let batch = Tensor::from_rows(&batch)?;

    let step = jit(step);
    let mut state = run(|model: Model<Var>| optimiser().init(&model), &model)?;
    let mut loss = Tensor::from(0.0);
    for t in 1..=60 {
        (loss, model, state) = step.call((&model, &state, &batch))?;
        if t % 20 == 0 {
            println!("step {t:2}  loss {loss:.4}");
        }
    }
    let next = run(|(m, s): (Model<Var>, Var)| scores(&m, s).argmax(1), (&model, [1i64, 3, 5]))?;
    println!("after 1, 1 3 and 1 3 5 comes: {next}");
    assert_eq!(next.to_vec::<i64>()?[1..], [5, 1]);
    assert!(loss.item::<f64>()? < 0.5);
    Ok(())
}
