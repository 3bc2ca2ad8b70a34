//! `flush_subnormals`: no carry is subnormal, on any engine, and all other values of a loop keep their bits.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Target, accelerator::Machine};

type Pair = (Var, Var);
type Program = fn(Var) -> Var;

/// Loops of one argument of 3 elements, whose results are carries that decay into the subnormal numbers.
const PROGRAMS: [(&str, Program); 9] = [
    ("product", |x| fori_loop(800, |(_, h): Pair| 0.4 * h, 1e4 * x)),
    ("gradient", |x| {
        let last = |x: Var| fori_loop(800, |(_, h): Pair| 0.4 * h.sin(), x).sum();
        grad(last)(1e-3 * x)
    }),
    ("forward mode", |x| {
        let last = |x: Var| fori_loop(800, |(_, h): Pair| 0.4 * h, x);
        jvp(last)((x, ones([3], Dtype::F64))).1
    }),
    ("f32", |x| {
        let x = x.convert(Dtype::F32);
        fori_loop(107, |(_, h): Pair| 0.4 * h, 1e4 * x).convert(Dtype::F64)
    }),
    ("row", |x| {
        let step = |(i, h): Pair| h.at(i % 3).set(h.index(i % 3) * 1e-105);
        fori_loop(8, step, x)
    }),
    ("branch", |x| {
        let halved = |h: Var| cond(h.sum().gt(1.0), |h: Var| h - 1.0, |h: Var| 0.4 * h, h);
        fori_loop(800, move |(_, h): Pair| halved(h), x)
    }),
    ("nested", |x| {
        let inner = |h: Var| fori_loop(40, |(_, h): Pair| 0.4 * h, h);
        fori_loop(20, move |(_, h): Pair| inner(h) * 1.5, 1e4 * x)
    }),
    ("unknown trip count", |x| {
        let more = |(k, _): Pair| k.lt(800);
        while_loop(more, |(k, h): Pair| (k + 1, 0.4 * h), (constant(0i64), 1e4 * x)).1
    }),
    ("batch", |x| vmap(|x: Var| fori_loop(800, |(_, h): Pair| 0.4 * h, 1e4 * x))(x)),
];

fn is_subnormal(x: f64) -> bool {
    x.is_subnormal() || (x as f32).is_subnormal() && f64::from(x as f32) == x
}

#[test]
fn no_carry_is_subnormal() {
    let x = Tensor::from([0.5, 1.0, 1.5]);
    for (name, f) in PROGRAMS {
        let plain = jit(f).call(&x).unwrap().to_vec::<f64>().unwrap();
        assert!(plain.into_iter().any(is_subnormal), "{name}: the program is no case");
        let flushed = jit(f).flush_subnormals().call(&x).unwrap();
        let numbers = flushed.to_vec::<f64>().unwrap();
        assert!(!numbers.iter().any(|x| is_subnormal(*x)), "{name}: {numbers:?}");
        let relaxed = jit(f).relaxed().flush_subnormals().call(&x).unwrap();
        assert!(!relaxed.to_vec::<f64>().unwrap().into_iter().any(is_subnormal), "{name}");
        let engines = [
            jit(f).interpreted(),
            jit(f).on(Target::Interpreter),
            jit(f).on(Target::Accelerator(Machine::cal())),
        ];
        for engine in engines {
            assert_eq!(engine.flush_subnormals().call(&x).unwrap(), flushed, "{name}");
        }
    }
}

/// Elements that an iteration does not compute, initial values, and results that are not carried must keep their bits.
#[test]
fn other_numbers_stay() {
    let tiny = Tensor::from([1e-310, 2e-310, 3e-310]);
    let kept: [Program; 3] = [
        |x| fori_loop(2, |(_, h): Pair| h.at(0).set(h.index(1) * 1e200), x),
        |x| fori_loop(0, |(_, h): Pair| 2.0 * h, x),
        |x| scan(|(h, x): Pair| (h, x), x.index(0), x).1,
    ];
    for (i, f) in kept.into_iter().enumerate() {
        let flushed = jit(f).flush_subnormals();
        assert_eq!(flushed.call(&tiny).unwrap(), jit(f).call(&tiny).unwrap(), "{i}");
    }
}

/// A carry that is updated in place changes in one element per iteration. Only this element may be tested for a
/// subnormal number, not the whole array.
#[test]
fn an_update_in_place_stays_one() {
    let f = |x: Var| fori_loop(5, |(i, h): Pair| h.at(i).set(0.4 * h.index(i)), x);
    let x = Tensor::full(&[1000], 1.0).unwrap();
    let text = jit(f).flush_subnormals().explain(&x).unwrap().to_string();
    let comparisons = |ty: &str| text.contains(&format!("{ty} = lt"));
    assert_eq!((comparisons("bool[]"), comparisons("bool[1000]")), (true, false), "{text}");
}
