//! A tensor times two matrices: A_ij = Σ_kl B_ikl C_kj D_lj, with respect to all three.
//!
//! Both forms are the same function, written with loops and with arrays.
//!
//! Size: the extents of i, k, l, j.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::prelude::*;

const SIZES: Sizes = Sizes { test: &[2, 3, 4, 5], study: &[8, 8, 8, 8], large: &[96, 96, 96, 32] };

/// The kernel written with loops over numbers, like the C program of the TapeFlow study.
pub(super) const LOOPS: Kernel = Kernel {
    name: "mttkrp",
    form: Form::Mutated,
    sizes: SIZES,
    inputs,
    program: |_, x, _| loops(x[0], x[1], x[2]),
    by_hand,
};

/// The kernel written with arrays, as one `einsum`.
pub(super) const ARRAYS: Kernel = Kernel {
    form: Form::Textbook,
    program: |_, x, _| einsum("ikl,kj,lj->ij", &[x[0], x[1], x[2]]),
    ..LOOPS
};

fn loops(b: Var, c: Var, d: Var) -> Var {
    let [of_i, of_k, of_l, of_j] = [b.shape()[0], b.shape()[1], b.shape()[2], c.shape()[1]];
    let a = Ref::new(zeros([of_i, of_j], Dtype::F64));
    iterations(of_i, |i| {
        iterations(of_k, |k| {
            iterations(of_l, |l| {
                iterations(of_j, |j| {
                    a.at((i, j)).add(b.index((i, k, l)) * d.index((l, j)) * c.index((k, j)));
                });
            });
        });
    });
    a.get()
}

fn inputs(size: &[usize]) -> Inputs {
    let [i, k, l, j] = [0, 1, 2, 3].map(|axis| size[axis]);
    let array = |shape: &[usize]| Array::of(shape, |i| 0.5 + noise(i));
    Inputs {
        variables: vec![array(&[i, k, l]), array(&[k, j]), array(&[l, j])],
        data: vec![],
        seed: Array::of(&[i, j], unit),
    }
}

fn by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [of_i, of_k, of_l, of_j] = [0, 1, 2, 3].map(|axis| size[axis]);
    let [b, c, d] = [0, 1, 2].map(|k| &inputs.variables[k].numbers);
    let seed = &inputs.seed.numbers;
    let mut a = vec![0.0; of_i * of_j];
    let [mut of_b, mut of_c, mut of_d] = [b, c, d].map(|x| vec![0.0; x.len()]);
    for i in 0..of_i {
        let ct = &seed[i * of_j..][..of_j];
        for k in 0..of_k {
            let (c, of_c) = (&c[k * of_j..][..of_j], &mut of_c[k * of_j..][..of_j]);
            for l in 0..of_l {
                let (d, of_d) = (&d[l * of_j..][..of_j], &mut of_d[l * of_j..][..of_j]);
                let at = (i * of_k + k) * of_l + l;
                let (b, mut of_b_here) = (b[at], 0.0);
                for j in 0..of_j {
                    a[i * of_j + j] += b * d[j] * c[j];
                    of_b_here += ct[j] * d[j] * c[j];
                    of_c[j] += ct[j] * b * d[j];
                    of_d[j] += ct[j] * b * c[j];
                }
                of_b[at] = of_b_here;
            }
        }
    }
    ByHand { value: a, gradients: vec![of_b, of_c, of_d], tape: 0 }
}
