//! Products of arrays with several free and contracted axes, large enough for the matrix library. For every order in
//! which operands and results are read, values and gradients must agree with the interpreter, which does not use the
//! library.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::recorded_values::{differ, weighted};
use tapeloom::prelude::*;

type Program = fn(Vec<Var>) -> Vec<Var>;

/// Programs with the shapes of their arguments. Most extents are equal: a wrong order of axes is then no shape error,
/// so only the comparison of values can detect it.
fn programs() -> Vec<(&'static str, Program, Vec<Vec<usize>>)> {
    let cube = || vec![16, 16, 16];
    vec![
        (
            "rows and terms apart",
            |x| vec![einsum("aibj,ijc->abc", &x)],
            vec![vec![12, 20, 8, 16], vec![20, 16, 40]],
        ),
        (
            "rows and terms of both operands apart",
            |x| vec![einsum("aibj,jcid->acbd", &x)],
            vec![vec![16; 4], vec![16; 4]],
        ),
        (
            "an operand that is computed with its batch axis outermost, and one that another node reads, too",
            |x| {
                let (near, far) = (x[0].expand_dims(1) - x[1], x[0].expand_dims(1) * x[1]);
                let products = [near, far].map(|y| einsum("kij,nkj->nki", &[x[2], y]));
                vec![products[0], products[1], far.sum_axis(2)]
            },
            vec![vec![64, 16], vec![16, 16], vec![16; 3]],
        ),
        (
            "heads of attention, merged",
            |x| vec![einsum("bhqk,bkhd->bqhd", &x)],
            vec![vec![2, 4, 24, 24], vec![2, 24, 4, 24]],
        ),
        ("rows last", |x| vec![einsum("abk,kc->cab", &x)], vec![cube(), vec![16, 16]]),
        (
            "one product, read in one order by two readers",
            |x| {
                let y = einsum("abk,kc->abc", &x);
                vec![y.permute([2, 1, 0]).tanh(), y.permute([2, 1, 0]).sin()]
            },
            vec![cube(), vec![16, 16]],
        ),
        (
            "one product, read in two orders",
            |x| {
                let y = einsum("bik,bkj->bij", &x);
                vec![y.permute([2, 0, 1]), y.permute([0, 2, 1])]
            },
            vec![cube(), cube()],
        ),
        (
            "one product, read in its own order and another",
            |x| {
                let y = einsum("abk,kc->abc", &x);
                vec![y.permute([2, 0, 1]), y]
            },
            vec![cube(), vec![16, 16]],
        ),
        (
            "one operand of two products",
            |x| vec![einsum("aibj,ijc->abc", &x[..2]), einsum("aibj,abd->ijd", &[x[0], x[2]])],
            vec![vec![16; 4], cube(), cube()],
        ),
    ]
}

#[test]
fn in_every_order_of_axes() {
    for (name, program, shapes) in programs() {
        for (dtype, within) in [(Dtype::F64, 1e-12), (Dtype::F32, 1e-4)] {
            let numbers = |shape: &Vec<usize>| {
                let (n, shape) = (shape.iter().product(), shape.clone());
                let wave = move |()| {
                    (arange(n, Dtype::F64) * 1.7).sin().reshape(&shape[..]).convert(dtype)
                };
                run(wave, ()).unwrap()
            };
            let args: Vec<Tensor> = shapes.iter().map(numbers).collect();
            let slopes = move |x: Vec<Var>| grad(move |x| weighted(program(x)))(x);
            let native = [jit(program).call(&args).unwrap(), jit(slopes).call(&args).unwrap()];
            let values = jit(program).interpreted().call(&args).unwrap();
            let want = [values, jit(slopes).interpreted().call(&args).unwrap()];
            assert_eq!(differ(&native.concat(), &want.concat(), within), None, "{name} {dtype}");
        }
    }
}
