//! A small convolutional network tells bars that lie from bars that stand and from checks.
//!
//! ```text
//! cargo run --release --example cnn
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::conv::Conv;
use tapeloom::prelude::*;

#[derive(Tree, Clone)]
struct Model<T> {
    /// [3, 3, 1, channels]
    first: T,
    /// [3, 3, channels, channels]
    second: T,
    /// [channels, classes]
    last: T,
}

type State<T> = (Model<T>, Model<T>, Model<T>);

/// Scores of the classes for images [n, 8, 8, 1].
fn scores(p: &Model<Var>, images: Var) -> Var {
    let layer = |x: Var, w: Var| conv::conv(x, w, Conv::new().channels_last()).relu();
    layer(layer(images, p.first), p.second).mean_axis([1, 2]).dot(p.last)
}

/// Kingma and Ba, "Adam: a method for stochastic optimization" (2015).
fn adam<P: Tree<Var>>(p: &P, m: &P, v: &P, g: &P, t: Var) -> (P, P, P) {
    let m = tree_map2(|m, g| 0.9 * m + 0.1 * g, m, g);
    let v = tree_map2(|v, g| 0.999 * v + 0.001 * g * g, v, g);
    let rate = 0.02 * (1.0 - (0.999_f64.ln() * t).exp()).sqrt() / (1.0 - (0.9_f64.ln() * t).exp());
    (tree_map3(|p, m, v| p - rate * m / (v.sqrt() + 1e-8), p, &m, &v), m, v)
}

fn step(((p, m, v), t, x, y): (State<Var>, Var, Var, Var)) -> (Var, State<Var>) {
    let loss = |p: Model<Var>| scores(&p, x).cross_entropy(y).mean();
    let (loss, g) = value_and_grad(loss)(p.clone());
    (loss, adam(&p, &m, &v, &g, t))
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    // Three kinds of images, with noise.
    let mut noise = 0.0_f64;
    let mut pixel = |kind: usize, i: usize, j: usize| {
        noise += 1.0;
        f64::from([i % 2, j % 2, (i + j) % 2][kind] as u32) + 0.5 * (noise * noise * 0.7).sin()
    };
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for sample in 0..24 {
        x.extend((0..64).map(|i| pixel(sample % 3, i / 8, i % 8)));
        y.push((sample % 3) as i64);
    }
    let (x, y) = (Tensor::new(&[24, 8, 8, 1], x)?, Tensor::from(y));

    let numbers = |n: usize| (0..n).map(|i| 0.08 * ((7 * i % 11) as f64 - 5.0)).collect();
    let p = Model {
        first: Tensor::new(&[3, 3, 1, 4], numbers(36))?,
        second: Tensor::new(&[3, 3, 4, 4], numbers(144))?,
        last: Tensor::new(&[4, 3], numbers(12))?,
    };
    let step = jit(step);
    let mut state = (p.clone(), zeros_like(&p), zeros_like(&p));
    for t in 1..=60 {
        let (loss, next) = step.call((&state, f64::from(t), &x, &y))?;
        state = next;
        if t % 20 == 0 {
            println!("step {t:2}  loss {loss:.4}");
        }
    }
    let guess = |(p, x): (Model<Var>, Var)| scores(&p, x).argmax(1);
    let guess = run(guess, (&state.0, &x))?;
    println!("guesses {guess}");
    assert_eq!(guess, y);
    Ok(())
}
