//! A matrix times a vector, reduced to a scalar.
//!
//! In the version that the TapeFlow study changed (the mutated form), the scalar is the product of twice each element,
//! and only the vector is differentiated. In the textbook form, the scalar is the sum of the elements, and the matrix
//! is differentiated too.
//!
//! Size: the number of rows and of columns.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise};
use tapeloom::prelude::*;

const SIZES: Sizes = Sizes { test: &[5, 6], study: &[400, 400], large: &[8192, 8192] };

/// The kernel as the TapeFlow study changed it (the mutated form): a product of the elements of a vector.
pub(super) const PRODUCT: Kernel = Kernel {
    name: "matdescent",
    form: Form::Mutated,
    sizes: SIZES,
    inputs: |size| {
        let (matrix, vector) = numbers(size);
        Inputs { variables: vec![vector], data: vec![matrix], seed: Array::full(&[], 1.0) }
    },
    program: |_, x, data| product(data[0], x[0]),
    by_hand: product_by_hand,
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: a sum of the elements of a vector.
pub(super) const SUM: Kernel = Kernel {
    name: "matdescent",
    form: Form::Textbook,
    sizes: SIZES,
    inputs: |size| {
        let (matrix, vector) = numbers(size);
        Inputs { variables: vec![matrix, vector], data: vec![], seed: Array::full(&[], 1.0) }
    },
    program: |_, x, _| (2.0 * x[0].dot(x[1])).sum(),
    by_hand: sum_by_hand,
};

fn product(matrix: Var, v: Var) -> Var {
    let s = Ref::new(1.0);
    iterations(matrix.len(), |i| {
        let o = Ref::new(0.0);
        iterations(v.len(), |j| o.add(matrix.index((i, j)) * v.index(j)));
        s.mul(2.0 * o.get());
    });
    s.get()
}

fn numbers(size: &[usize]) -> (Array, Array) {
    let columns = size[1] as f64;
    let matrix = Array::of(size, |i| (0.5 + 0.05 * noise(i)) / columns);
    (matrix, Array::of(&size[1..], |j| 1.0 + 0.1 * noise(j)))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Computes, by hand, value and gradient of the product of twice each element of a matrix-vector product. The tape is
/// the elements and the partial product before each.
fn product_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let (matrix, v) = (&inputs.data[0].numbers, &inputs.variables[0].numbers);
    let (mut s, mut tape) = (1.0, Vec::with_capacity(size[0]));
    for row in matrix.chunks(size[1]) {
        let o = dot(row, v);
        tape.push((o, s));
        s *= 2.0 * o;
    }
    let (mut ct, mut slope) = (inputs.seed.numbers[0], vec![0.0; size[1]]);
    for (row, (o, before)) in matrix.chunks(size[1]).zip(&tape).rev() {
        let of_o = ct * before * 2.0;
        ct *= 2.0 * o;
        slope.iter_mut().zip(row).for_each(|(slope, m)| *slope += of_o * m);
    }
    ByHand { value: vec![s], gradients: vec![slope], tape: 16 * tape.len() }
}

fn sum_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [matrix, v] = [0, 1].map(|k| &inputs.variables[k].numbers);
    let seed = inputs.seed.numbers[0];
    let (mut value, mut of_v) = (0.0, vec![0.0; size[1]]);
    let mut of_matrix = Vec::with_capacity(matrix.len());
    for row in matrix.chunks(size[1]) {
        value += 2.0 * dot(row, v);
        of_v.iter_mut().zip(row).for_each(|(slope, m)| *slope += 2.0 * seed * m);
        of_matrix.extend(v.iter().map(|v| 2.0 * seed * v));
    }
    ByHand { value: vec![value], gradients: vec![of_matrix, of_v], tape: 0 }
}
