//! Gravity: the energy of all pairs of bodies.
//!
//! The textbook form is the potential energy of bodies in space. The form that the TapeFlow study changed (the mutated
//! form) is a product u instead of a sum, over all pairs (i, j) of a matrix x, or over pairs with j > i. The factor of
//! a pair is c = -1 / (r + 0.001) with r = x[i,j] - x[j,i], so du/dr = u c.
//!
//! Size: the number of bodies.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise};
use tapeloom::prelude::*;

/// The form that the TapeFlow study changed, over pairs (i, j) with j > i. Each row is shorter by one than the row
/// before, so the inner loop has a run-time trip count.
pub(super) const TRIANGULAR: Kernel = Kernel {
    name: "gravity",
    form: Form::Mutated,
    sizes: Sizes { test: &[9], study: &[256], large: &[8192] },
    // The result is the product of 32,640 factors, one per pair. The factors are near 1, so that the product does not
    // underflow.
    inputs: |size| matrix(size[0], 0.999),
    program: |_, x, _| triangular(x[0]),
    by_hand: |size, inputs| product(size[0], inputs, |i| i + 1),
};

/// The form that the TapeFlow study changed, with the dependence chain that the study's tables count: it has a division
/// for each pair, a latency of 31.6 ticks.
pub(super) const MEASURED: Kernel =
    Kernel { form: Form::Measured, program: |_, x, _| quotients(x[0]), ..TRIANGULAR };

/// The form that the TapeFlow study changed, over all pairs (i, j).
pub(super) const SQUARE: Kernel = Kernel {
    name: "gravity square",
    form: Form::Mutated,
    sizes: Sizes { test: &[9], study: &[256], large: &[5794] },
    // The diagonal contributes a factor of 1000 to each row. The factors of the other pairs of the row have a product
    // near 1/1000, so that the product of all factors stays near 1.
    inputs: |size| matrix(size[0], 10f64.powf(3.0 / (size[0] as f64 - 1.0))),
    program: |_, x, _| square(x[0]),
    by_hand: |size, inputs| product(size[0], inputs, |_| 0),
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: the energy of bodies in space.
pub(super) const BODIES: Kernel = Kernel {
    name: "gravity",
    form: Form::Textbook,
    sizes: Sizes { test: &[7], study: &[512], large: &[8192] },
    inputs: |size| Inputs {
        variables: vec![Array::of(&[size[0], 3], |i| 10.0 * noise(i))],
        data: vec![],
        seed: Array::full(&[], 1.0),
    },
    program: |_, x, _| potential(x[0]),
    by_hand: potential_by_hand,
};

fn factor(x: Var, i: Var, j: Var) -> Var {
    -1.0 / apart(x, i, j)
}

fn apart(x: Var, i: Var, j: Var) -> Var {
    x.index((i, j)) - x.index((j, i)) + 0.001
}

fn triangular(x: Var) -> Var {
    let (u, n) = (Ref::new(1.0), x.len());
    iterations(n, |i| iterations(n as i64 - 1 - i, |k| u.mul(factor(x, i, i + 1 + k))));
    u.get()
}

fn quotients(x: Var) -> Var {
    let (u, n) = (Ref::new(1.0), x.len());
    let pair = |i: Var, j: Var| u.update(|u| -u / apart(x, i, j));
    iterations(n, |i| iterations(n as i64 - 1 - i, |k| pair(i, i + 1 + k)));
    u.get()
}

fn square(x: Var) -> Var {
    let (u, n) = (Ref::new(1.0), x.len());
    iterations(n, |i| iterations(n, |j| u.mul(factor(x, i, j))));
    u.get()
}

fn potential(x: Var) -> Var {
    let apart = (x.expand_dims(0) - x.expand_dims(1)).square().sum_axis(2) + 0.01;
    let body = arange(x.len(), Dtype::I64);
    let once = body.expand_dims(0).gt(body.expand_dims(1));
    -select(once, 1.0 / apart.sqrt(), 0.0).sum()
}

/// Returns a matrix in which r = x[i,j] - x[j,i] is ±`rho`, by the sign of j - i, plus noise.
fn matrix(n: usize, rho: f64) -> Inputs {
    let half = |i: usize, j: usize| {
        rho / 2.0 * (j as f64 - i as f64).signum() * f64::from(u8::from(i != j))
    };
    Inputs {
        variables: vec![Array::of(&[n, n], |k| half(k / n, k % n) + 1e-3 * noise(k))],
        data: vec![],
        seed: Array::full(&[], 1.0),
    }
}

/// Computes, by hand, the product u of the factors c = -1 / (r + 0.001) over pairs with r = x[i,j] - x[j,i], and its
/// gradient. The tape is u alone, since du/dr = u c.
fn product(n: usize, inputs: &Inputs, first: fn(usize) -> usize) -> ByHand {
    let x = &inputs.variables[0].numbers;
    let c = |i: usize, j: usize| -1.0 / (x[i * n + j] - x[j * n + i] + 0.001);
    let mut u = 1.0;
    for i in 0..n {
        for j in first(i)..n {
            u *= c(i, j);
        }
    }
    let mut slope = vec![0.0; n * n];
    let ct = inputs.seed.numbers[0] * u;
    for i in 0..n {
        for j in first(i)..n {
            let c = ct * c(i, j);
            slope[i * n + j] += c;
            slope[j * n + i] -= c;
        }
    }
    ByHand { value: vec![u], gradients: vec![slope], tape: 8 }
}

fn potential_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let (n, x, seed) = (size[0], &inputs.variables[0].numbers, inputs.seed.numbers[0]);
    let (mut energy, mut slope) = (0.0, vec![0.0; 3 * n]);
    for i in 0..n {
        for j in i + 1..n {
            let d: [f64; 3] = std::array::from_fn(|k| x[3 * i + k] - x[3 * j + k]);
            let near = 1.0 / (d.iter().map(|d| d * d).sum::<f64>() + 0.01);
            let pull = near * near.sqrt();
            energy -= near.sqrt();
            for (k, d) in d.iter().enumerate() {
                slope[3 * i + k] += seed * pull * d;
                slope[3 * j + k] -= seed * pull * d;
            }
        }
    }
    ByHand { value: vec![energy], gradients: vec![slope], tape: 0 }
}
