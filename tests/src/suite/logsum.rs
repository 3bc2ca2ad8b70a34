//! The logarithm of a sum of exponentials.
//!
//! The TapeFlow study changed the sum to a product (the mutated form): log ∏ exp(x_i - x_0) + x_0 over n numbers. Its
//! derivative is 2 - n with respect to x_0, and 1 with respect to all others. In the textbook form, the derivatives are
//! exp(x_i - result).
//!
//! Size: the number of terms.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise};
use tapeloom::prelude::*;

const SIZES: Sizes = Sizes { test: &[12], study: &[10_000], large: &[1 << 24] };

/// The kernel as the TapeFlow study changed it (the mutated form): the logarithm of a product.
pub(super) const PRODUCT: Kernel = Kernel {
    name: "logsum",
    form: Form::Mutated,
    sizes: SIZES,
    inputs,
    program: |_, x, _| product(x[0]),
    by_hand: product_by_hand,
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: the logarithm of a sum.
pub(super) const SUM: Kernel = Kernel {
    name: "logsum",
    form: Form::Textbook,
    sizes: SIZES,
    inputs,
    program: |_, x, _| sum(x[0]),
    by_hand: sum_by_hand,
};

fn product(x: Var) -> Var {
    let (s, first) = (Ref::new(1.0), x.index(0));
    iterations(x.len(), |i| s.mul((x.index(i) - first).exp()));
    s.get().ln() + first
}

fn sum(x: Var) -> Var {
    let most = x.max();
    (x - most).exp().sum().ln() + most
}

/// Returns inputs near 0, the first exactly 0, so that the product of all exponentials is near 1.
fn inputs(size: &[usize]) -> Inputs {
    let x = |i: usize| if i == 0 { 0.0 } else { 0.02 * noise(i) };
    Inputs { variables: vec![Array::of(size, x)], data: vec![], seed: Array::full(&[], 1.0) }
}

/// Computes, by hand, value and gradient of the logarithm of a product of exponentials. The tape is the product alone:
/// divided by one factor, it is the product of all other factors.
fn product_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let (n, x, seed) = (size[0], &inputs.variables[0].numbers, inputs.seed.numbers[0]);
    let first = x[0];
    let s: f64 = x.iter().map(|x| (x - first).exp()).product();
    let (mut slope, mut of_first) = (vec![0.0; n], seed);
    for (slope, x) in slope.iter_mut().zip(x) {
        let e = (x - first).exp();
        let ct = seed / s * (s / e) * e;
        *slope = ct;
        of_first -= ct;
    }
    slope[0] += of_first;
    ByHand { value: vec![s.ln() + first], gradients: vec![slope], tape: 8 }
}

fn sum_by_hand(_: &[usize], inputs: &Inputs) -> ByHand {
    let (x, seed) = (&inputs.variables[0].numbers, inputs.seed.numbers[0]);
    let most = x.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    let out = x.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most;
    let slope = x.iter().map(|x| seed * (x - out).exp()).collect();
    ByHand { value: vec![out], gradients: vec![slope], tape: 8 }
}
