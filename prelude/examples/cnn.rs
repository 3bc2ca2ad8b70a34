//! A small convolutional network distinguishes horizontal bars, vertical bars and checkerboards.
//!
//! ```text
//! cargo run --release --example cnn
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::conv::Conv;
use tapeloom::prelude::*;

#[derive(Tree, Clone)]
struct Model<T> {
    /// Weights of the first convolution: [3, 3, 1, channels].
    first: T,
    /// Weights of the second convolution: [3, 3, channels, channels].
    second: T,
    /// Weights of the last layer, a matrix product: [channels, classes].
    last: T,
}

type State = optim::State<optim::Adam, Model<Var>>;

/// Returns the scores of the classes for images [n, 8, 8, 1].
fn scores(p: &Model<Var>, images: Var) -> Var {
    let layer = |x: Var, w: Var| conv::conv(x, w, Conv::new().channels_last()).relu();
    layer(layer(images, p.first), p.second).mean_axis([1, 2]).dot(p.last)
}

fn step((p, state, x, y): (Model<Var>, State, Var, Var)) -> (Var, Model<Var>, State) {
    let loss = |p: Model<Var>| scores(&p, x).cross_entropy(y).mean();
    let (loss, g) = value_and_grad(loss)(p.clone());
    let (p, state) = optim::adam(0.02).step(&g, &state, &p);
    (loss, p, state)
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    // Three kinds of images, with noise.
    let pixel = |n: usize| {
        let ([kind, i, j], noise) = ([n / 64 % 3, n / 8 % 8, n % 8], (n + 1) as f64);
        [i % 2, j % 2, (i + j) % 2][kind] as f64 + 0.5 * (noise * noise * 0.7).sin()
    };
    let x = Tensor::new(&[24, 8, 8, 1], (0..24 * 64).map(pixel).collect())?;
    let y: Tensor = (0..24i64).map(|sample| sample % 3).collect();

    let start = |seed: Var| {
        let [first, second, last] = random::split(random::key(seed));
        let p = Model {
            first: nn::he_normal(first, [3, 3, 1, 8], Dtype::F64),
            second: nn::he_normal(second, [3, 3, 8, 8], Dtype::F64),
            last: nn::glorot_normal(last, [8, 3], Dtype::F64),
        };
        (p.clone(), optim::adam(0.02).init(&p))
    };
    let (mut p, mut state) = run(start, 1i64)?;
    let step = jit(step);
    for t in 1..=60 {
        let loss;
        (loss, p, state) = step.call((&p, &state, &x, &y))?;
        if t % 20 == 0 {
            println!("step {t:2}  loss {loss:.4}");
        }
    }
    let guess = |(p, x): (Model<Var>, Var)| scores(&p, x).argmax(1);
    let guess = run(guess, (&p, &x))?;
    println!("guesses {guess}");
    assert_eq!(guess, y);
    Ok(())
}
