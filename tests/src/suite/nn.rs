//! A network of one layer: the loss for an image whose label is 1.
//!
//! Both forms are the same function, written with loops and with arrays.
//!
//! Size: the number of pixels and of labels.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::prelude::*;

const SIZES: Sizes = Sizes { test: &[12, 3], study: &[784, 10], large: &[1 << 22, 10] };
const LABEL: usize = 1;

/// The kernel written with loops over numbers, like the C program of the TapeFlow study.
pub(super) const LOOPS: Kernel = Kernel {
    name: "nn",
    form: Form::Mutated,
    sizes: SIZES,
    inputs,
    program: |_, x, data| loops(|i, j| x[0].index((i, j)), x[1], data[0]),
    by_hand,
};

/// The kernel written with arrays in place of loops over numbers.
pub(super) const ARRAYS: Kernel =
    Kernel { form: Form::Textbook, program: |_, x, data| arrays(x[0], x[1], data[0]), ..LOOPS };

/// The kernel written with loops, with the memory accesses that the tables of the TapeFlow study count: weights are 16
/// bytes apart, because in the tables eight weights cause two cache misses.
pub(super) const MEASURED: Kernel = Kernel {
    form: Form::Measured,
    inputs: |size| {
        let mut inputs = inputs(size);
        let w = &mut inputs.variables[0];
        w.shape.push(2);
        w.numbers = w.numbers.iter().flat_map(|w| [*w, 0.0]).collect();
        inputs
    },
    program: |_, x, data| loops(|i, j| x[0].index((i, j, 0)), x[1], data[0]),
    by_hand: |size, inputs| {
        let [w, b] = [0, 1].map(|k| &inputs.variables[k]);
        let weights = w.numbers.iter().step_by(2).copied().collect();
        let w = Array { shape: vec![size[1], size[0]], numbers: weights };
        let variables = vec![w, b.clone()];
        let inputs = Inputs { variables, data: inputs.data.clone(), seed: inputs.seed.clone() };
        let mut found = by_hand(size, &inputs);
        let of_w = &mut found.gradients[0];
        *of_w = of_w.iter().flat_map(|slope| [*slope, 0.0]).collect();
        found
    },
    ..LOOPS
};

fn loops(w: impl Fn(Var, Var) -> Var, b: Var, pixels: Var) -> Var {
    let labels = b.len();
    let a = Ref::new(b);
    iterations(labels, |i| {
        let sum = Ref::new(a.at(i).get());
        iterations(pixels.len(), |j| sum.add(w(i, j) * (pixels.index(j) / 255.0)));
        a.at(i).set(sum.get());
    });
    let (most, sum) = (Ref::new(a.at(0).get()), Ref::new(0.0));
    iterations(labels, |i| most.max(a.at(i).get()));
    iterations(labels, |i| sum.add((a.at(i).get() - most.get()).exp()));
    most.get() + sum.get().ln() - a.at(LABEL).get()
}

fn arrays(w: Var, b: Var, pixels: Var) -> Var {
    let a = w.dot(pixels / 255.0) + b;
    -a.log_softmax(0).index(LABEL)
}

fn inputs(size: &[usize]) -> Inputs {
    let [pixels, labels] = [size[0], size[1]];
    Inputs {
        variables: vec![
            Array::of(&[labels, pixels], |i| 0.1 * noise(i)),
            Array::of(&[labels], |i| 0.1 * noise(i)),
        ],
        data: vec![Array::of(&[pixels], |j| (255.0 * unit(j)).floor())],
        seed: Array::full(&[], 1.0),
    }
}

/// Computes value and gradient by hand; the tape is the activations of the labels.
fn by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [pixels, labels] = [size[0], size[1]];
    let [w, b] = [0, 1].map(|k| &inputs.variables[k].numbers);
    let (p, seed) = (&inputs.data[0].numbers, inputs.seed.numbers[0]);
    let rows = w.chunks(pixels);
    let product = |row: &[f64]| row.iter().zip(p).map(|(w, p)| w * (p / 255.0)).sum::<f64>();
    let a: Vec<f64> = rows.zip(b).map(|(row, b)| b + product(row)).collect();
    let most = a.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
    let sum: f64 = a.iter().map(|a| (a - most).exp()).sum();
    let of =
        |(i, a): (usize, &f64)| seed * ((a - most).exp() / sum - f64::from(u8::from(i == LABEL)));
    let of_b: Vec<f64> = a.iter().enumerate().map(of).collect();
    let mut of_w = vec![0.0; labels * pixels];
    for (row, ct) in of_w.chunks_mut(pixels).zip(&of_b) {
        row.iter_mut().zip(p).for_each(|(slope, p)| *slope = ct * (p / 255.0));
    }
    let value = vec![most + sum.ln() - a[LABEL]];
    ByHand { value, gradients: vec![of_w, of_b], tape: 8 * labels }
}
