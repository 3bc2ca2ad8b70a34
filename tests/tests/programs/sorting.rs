//! Sorts by the library function that machine code calls, compared with the interpreters, which run a loop program.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::Target;
use tapeloom::accelerator::Machine;
use tapeloom::prelude::*;
use tapeloom_backend::loop_ir;
use tapeloom_tests::{Agreement, Elements};

/// Returns `n` numbers with ties, nan, both zeros and infinities.
fn numbers(n: usize) -> Tensor {
    let special = [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
    let mut state = n as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    (0..n)
        .map(|_| match next() % 8 {
            0 => special[next() as usize % 5],
            1 | 2 => (next() % 20) as f64 - 10.0,
            _ => next() as f64 / 1e6 - 500.0,
        })
        .collect()
}

fn bits(x: &Tensor) -> Vec<u64> {
    (0..x.elements()).map(|i| x.at(i).bits).collect()
}

#[test]
fn engines_agree_on_orders_of_every_dtype() {
    let all = |x: Var| {
        let (y, places) = x.top_k(x.len().min(3));
        (x.sort(0), x.argsort(0), x.argsort_descending(0), y, places)
    };
    for n in [0, 1, 2, 30, 100, 1500] {
        for dtype in
            [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32, Dtype::U64, Dtype::U32, Dtype::Bool]
        {
            let of = |x: Var| match dtype {
                Dtype::F64 => x,
                Dtype::Bool => x.gt(0.0),
                _ => x.nan_to_num().convert(dtype),
            };
            let x = run(of, numbers(n)).unwrap();
            let native = jit(all).call(&x).unwrap();
            for engine in [
                jit(all).interpreted(),
                jit(all).on(Target::Interpreter),
                jit(all).on(Target::Accelerator(Machine::cal())),
            ] {
                let other = engine.call(&x).unwrap();
                for (a, b) in [
                    (&native.0, &other.0),
                    (&native.1, &other.1),
                    (&native.2, &other.2),
                    (&native.3, &other.3),
                    (&native.4, &other.4),
                ] {
                    assert_eq!(bits(a), bits(b), "{n} {dtype}");
                }
            }
        }
    }
}

#[test]
fn orders_along_axes_and_in_batches_are_those_of_their_rows() {
    let x = numbers(6 * 40).reshape(&[6, 40]).unwrap();
    let each = |x: Var, f: &dyn Fn(Var) -> Var| {
        let rows: Vec<Var> = (0..6).map(|k| f(x.index(k))).collect();
        stack(&rows, 0)
    };
    let places = |f: fn(Var) -> Var| run(f, &x).unwrap().to_vec::<i64>().unwrap();
    let rows = places(|x| stack(&(0..6).map(|k| x.index(k).argsort(0)).collect::<Vec<_>>(), 0));
    assert_eq!(places(|x| x.argsort(1)), rows);
    assert_eq!(places(|x| x.t().argsort(0).t()), rows);
    assert_eq!(places(|x| vmap(|x: Var| x.argsort(0))(x)), rows);
    let few = run(move |x: Var| (vmap(|x: Var| x.top_k(4))(x), x.top_k(4)), &x).unwrap();
    assert_eq!(few.0.1, few.1.1);
    let by_rows = run(move |x: Var| each(x, &|x| x.top_k(4).1), &x).unwrap();
    assert_eq!(few.1.1, by_rows);
}

/// `top_k` must equal the first k elements of a full descending sort, and so must its derivatives and indices.
#[test]
fn the_largest_few_have_the_derivatives_of_a_whole_order() {
    let x: Tensor = (0..200).map(|i| (1.3 * i as f64).sin()).collect();
    for k in [0, 1, 7, 24, 25, 26, 199, 200] {
        let few = move |x: Var| x.top_k(k).0.powi(3).sum();
        let whole = move |x: Var| x.sort_descending(0).slice_axis(0, ..k).powi(3).sum();
        let (y, dy) = run(value_and_grad(few), &x).unwrap();
        let (z, dz) = run(value_and_grad(whole), &x).unwrap();
        Agreement::CLOSE.check_all(&[y, dy], &[z, dz]).unwrap();
        let places = run(
            move |x: Var| {
                (x.top_k(k).1, x.argsort_descending(0).slice_axis(0, ..k).convert(Dtype::I32))
            },
            &x,
        )
        .unwrap();
        assert_eq!(places.0, places.1);
    }
}

/// Machine code must call the sort function: the text of the program names it, and parses.
#[test]
fn programs_name_the_function_that_sorts() {
    let kernels = jit(|x: Var| x.top_k(3)).explain(numbers(50)).unwrap().kernels();
    let argsort = "argsort{key=f64, rows=1, n=50, columns=1, first=3, descending=true}";
    assert!(kernels.contains(argsort), "{kernels}");
    let program = loop_ir::parse(&kernels, &|_| None).unwrap();
    assert_eq!(program.to_string(), kernels);
    loop_ir::check(&program).unwrap();
    // The verifier must refuse a call if the sizes of its memory differ from the sizes that the function accesses.
    for (right, wrong) in
        [("n=50", "n=51"), ("first=3", "first=4"), ("rows=1", "rows=2"), ("key=f64", "key=i64")]
    {
        let text = kernels.replace(right, wrong);
        let program = loop_ir::parse(&text, &|_| None).unwrap();
        let refused = loop_ir::check(&program).unwrap_err();
        assert!(refused.message.contains("the memory is not that of argsort"), "{refused:?}");
    }
}
