//! A classifier of points on three spiral arms: two hidden layers, minibatches, Adam.
//!
//! ```text
//! cargo run --release --example mlp
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

#[derive(Tree, Clone)]
struct Layer<T> {
    w: T,
    b: T,
}

type Net<T> = Vec<Layer<T>>;
type State = optim::State<optim::Adam, Net<Var>>;

fn scores(net: &Net<Var>, x: Var) -> Var {
    let layer = |h: Var, l: &Layer<Var>| h.matmul(l.w) + l.b;
    let hidden = net[..2].iter().fold(x, |h, l| layer(h, l).tanh());
    layer(hidden, &net[2])
}

fn step((net, state, x, y, rows): (Net<Var>, State, Var, Var, Var)) -> (Var, Net<Var>, State) {
    let (x, y) = (x.take(rows, 0), y.take(rows, 0));
    let loss = |p: Net<Var>| scores(&p, x).cross_entropy(y).mean();
    let (loss, g) = value_and_grad(loss)(net.clone());
    let (net, state) = optim::adam(0.01).step(&g, &state, &net);
    (loss, net, state)
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let mut random = Random(1);
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for i in 0..300 {
        let (arm, r) = (i % 3, f64::from(i) / 300.0);
        let angle = 4.0 * r + f64::from(arm) * std::f64::consts::TAU / 3.0 + 0.1 * random.next();
        points.push([r * angle.cos(), r * angle.sin()]);
        labels.push(i64::from(arm));
    }
    let (x, y) = (Tensor::from(points), Tensor::from(labels));

    let mut array = |n: usize, m: usize| {
        let scale = 1.0 / (n as f64).sqrt();
        Tensor::new(&[n, m], (0..n * m).map(|_| scale * random.next()).collect())
    };
    let sizes = [2, 32, 32, 3];
    let layer = |s: &[usize]| Ok(Layer { w: array(s[0], s[1])?, b: array(1, s[1])? });
    let mut net: Net<Tensor> =
        sizes.windows(2).map(layer).collect::<Result<_, tapeloom::Error>>()?;

    let step = jit(step);
    let mut state = run(|net: Net<Var>| optim::adam(0.01).init(&net), &net)?;
    let mut order: Vec<i64> = (0..300).collect();
    for epoch in 1..=60 {
        order.sort_by_cached_key(|_| random.bits());
        let mut loss = Tensor::from(0.0);
        for rows in order.chunks_exact(50) {
            (loss, net, state) = step.call((&net, &state, &x, &y, rows))?;
        }
        if epoch % 10 == 0 {
            println!("epoch {epoch:2}  loss {loss:.4}");
        }
    }
    let right = |(net, x, y): (Net<Var>, Var, Var)| scores(&net, x).argmax(1).eq(y).count_true();
    let right = run(right, (&net, &x, &y))?;
    println!("{right} of 300 are on the right arm");
    assert!(right.item::<i64>()? > 285);
    Ok(())
}

/// Marsaglia's xorshift, a generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        for shift in [13, -7, 17] {
            self.0 ^= if shift > 0 { self.0 << shift } else { self.0 >> -shift };
        }
        self.0
    }

    /// Returns a number uniformly distributed in -1..1.
    fn next(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}
