//! Library functions of arrays of few elements, and loop bodies with many functions: they run in vectors, with the bits of
//! the interpreter.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::{Target, prelude::*};
use tapeloom_backend::{LaneCode, LaneLoop};
use tapeloom_ir::Isa;

type Pair = (Var, Var);
type Program = fn(Var) -> Var;

const PROGRAMS: [(&str, Program); 5] = [
    ("sine", |x| fori_loop(20, |(_, x): Pair| x.sin(), x)),
    ("log-sum-exp", |x| fori_loop(20, |(_, x): Pair| 1.1 * x - x.logsumexp(), x)),
    ("slope", |x| {
        fori_loop(20, |(_, x): Pair| x + 0.1 * (0.3 * (x + 0.05 * x.cos()).cos() - x), x)
    }),
    ("rotated", |x| fori_loop(20, |(_, x): Pair| 0.5 * x.tanh().roll(1, 0) + x.index(0), x)),
    ("f32", |x| {
        let x = x.convert(Dtype::F32);
        fori_loop(20, |(_, x): Pair| x.exp().ln() * 0.9, x).convert(Dtype::F64)
    }),
];

fn numbers(n: usize) -> Tensor {
    (0..n).map(|i| 0.3 + 0.1 * i as f64).collect()
}

#[test]
fn carries_of_few_elements_run_in_vectors() {
    if Isa::of_machine() == Isa::Baseline {
        return;
    }
    for n in 4..=9 {
        for (name, f) in PROGRAMS {
            let explained = jit(f).explain(numbers(n)).unwrap();
            let in_vectors = |l: &LaneLoop| {
                let all = l.header.contains(&format!("in {n} lanes"));
                all && matches!(l.code, LaneCode::Simd(_)) && l.one_by_one.is_empty()
            };
            let loops = &explained.vectors().loops;
            assert!(loops.iter().any(in_vectors), "{name} of {n}: {}", explained.vectors());
        }
    }
}

#[test]
fn carries_of_few_elements_have_the_bits_of_the_interpreter() {
    for n in 1..=17 {
        for (name, f) in PROGRAMS {
            let x = numbers(n);
            let all = move |x: Var| (f(x), grad(move |x: Var| f(x).sum())(x));
            let want: (Tensor, Tensor) = jit(all).on(Target::Interpreter).call(&x).unwrap();
            assert_eq!(jit(all).call(&x).unwrap(), want, "{name} of {n} elements");
        }
    }
}

/// Regression: a body of 400 functions must compile for vectors of 512 bits. With AVX2, its constants do not fit in
/// registers.
#[test]
fn long_bodies_run_in_vectors() {
    if Isa::of_machine() != Isa::Avx512 {
        return;
    }
    let f = |x: Var| (0..400).fold(x, |x, i| (x * (1.0 + 0.001 * f64::from(i))).sin());
    let x = numbers(100);
    let explained = jit(f).explain(&x).unwrap();
    let all = |code| matches!(code, LaneCode::Simd(_));
    assert!(explained.vectors().loops.iter().all(|l| all(l.code)), "{}", explained.vectors());
    assert_eq!(jit(f).call(&x).unwrap(), jit(f).on(Target::Interpreter).call(&x).unwrap());
}
