//! Slices of results, compared with the same operations on sliced operands: values and derivatives must agree, and the
//! program must compute no more than it reads.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom_tests::Agreement;

/// A function of a matrix, an index, and an array of two indices.
type Program = fn(Var, Var, Var) -> Var;

/// A name, a program that slices a result, and the same program with sliced operands.
const PAIRS: &[(&str, Program, Program)] = &[
    (
        "a slice of a chain",
        |x, _, _| (x.sin() * 2.0 + x.square()).slice_axis(0, 3..9),
        |x, _, _| {
            let x = x.slice_axis(0, 3..9);
            x.sin() * 2.0 + x.square()
        },
    ),
    (
        "two indices of a chain",
        |x, i, _| {
            let y = (x.sin() * x).exp();
            y.index(i) - y.index(-1)
        },
        |x, i, _| {
            let y = |x: Var| (x.sin() * x).exp();
            y(x.index(i)) - y(x.index(-1))
        },
    ),
    ("rows", |x, _, rows| x.tanh().take(rows, 0), |x, _, rows| x.take(rows, 0).tanh()),
    ("columns", |x, _, rows| x.tanh().take(rows, 1), |x, _, rows| x.take(rows, 1).tanh()),
    (
        "a box at a dynamic start",
        |x, i, _| x.cos().dynamic_slice(&[i, i + 1], [2, 3]),
        |x, i, _| x.dynamic_slice(&[i, i + 1], [2, 3]).cos(),
    ),
    (
        "a row of a product",
        |x, i, _| x.dot(x.t()).sin().index(i),
        |x, i, _| x.index(i).dot(x.t()).sin(),
    ),
    ("a column of a product", |x, i, _| x.dot(x.t()).t().index(i), |x, i, _| x.dot(x.index(i))),
    ("a sum of a row", |x, i, _| x.exp().sum_axis(1).index(i), |x, i, _| x.index(i).exp().sum()),
    (
        "a row of a broadcast",
        |x, i, _| (x * x.index(0)).sin().index(i),
        |x, i, _| (x.index(i) * x.index(0)).sin(),
    ),
    (
        "a row of a reshaped array",
        |x, i, _| x.sin().reshape([60, 4]).index(i),
        |x, i, _| x.reshape([60, 4]).index(i).sin(),
    ),
    (
        "rows in a loop",
        |x, _, _| {
            let step = move |(k, h): (Var, Var)| h * 0.5 + (x * h).sin().index(k);
            fori_loop(20, step, x.index(0))
        },
        |x, _, _| {
            let step = move |(k, h): (Var, Var)| h * 0.5 + (x.index(k) * h).sin();
            fori_loop(20, step, x.index(0))
        },
    ),
    (
        "a row in a branch in a loop",
        |x, i, _| {
            let step = move |(k, h): (Var, Var)| {
                let table = (x * h).sin();
                let taken = move |h: Var| h * 0.5 + table.index(k);
                cond(h.index(i).gt(0.2), taken, |h: Var| h + 0.1, h)
            };
            fori_loop(20, step, x.index(0))
        },
        |x, i, _| {
            let step = move |(k, h): (Var, Var)| {
                let taken = move |h: Var| h * 0.5 + (x.index(k) * h).sin();
                cond(h.index(i).gt(0.2), taken, |h: Var| h + 0.1, h)
            };
            fori_loop(20, step, x.index(0))
        },
    ),
];

fn matrix() -> Tensor {
    let elements = (0..240).map(|k| f64::from((k * 37) % 101) * 0.01 - 0.3);
    Tensor::from(elements.collect::<Vec<_>>()).reshape(&[20, 12]).unwrap()
}

/// Indices of rows: inside the range, at both ends, and outside (clamped).
const INDICES: [i64; 5] = [4, 0, 19, -3, 400];

#[test]
fn values_and_derivatives_are_those_of_operands_that_are_read_first() {
    let (x, rows) = (matrix(), Tensor::from([7i64, 2]));
    for (name, behind, before) in PAIRS {
        for i in INDICES {
            let of = |f: Program| {
                let f = move |x, i, rows| {
                    let f = move |x: Var| f(x, i, rows);
                    let loss = move |x: Var| f(x).square().sum();
                    let along = jvp(f)((x, x.cos())).1;
                    (f(x), grad(loss)(x), along, jvp(grad(loss))((x, x.cos())).1)
                };
                let f = jit(move |(x, i, rows): (Var, Var, Var)| f(x, i, rows));
                let compiled = f.call((&x, i, &rows)).unwrap();
                (compiled, f.interpreted().call((&x, i, &rows)).unwrap())
            };
            let ((got, interpreted), (want, _)) = (of(*behind), of(*before));
            for got in [got, interpreted] {
                let pairs =
                    [(got.0, &want.0), (got.1, &want.1), (got.2, &want.2), (got.3, &want.3)];
                for (got, want) in pairs {
                    let at_place = |e| format!("{name} at {i}: {e}");
                    Agreement::CLOSE.check(&got, want).map_err(at_place).unwrap();
                }
            }
        }
    }
}

/// In a batch over the index, each member must read its own row.
#[test]
fn batches_read_at_their_own_places() {
    let (x, rows) = (matrix(), Tensor::from([7i64, 2]));
    for (name, behind, _) in PAIRS {
        let f = |i: Var, (x, rows): (Var, Var)| behind(x, i, rows);
        let all = move |(x, i, rows): (Var, Var, Var)| vmap(move |i: Var| f(i, (x, rows)))(i);
        let all = run(all, (&x, Tensor::from(INDICES), &rows)).unwrap().to_vec::<f64>().unwrap();
        let one = |i: i64| run(move |(x, i, rows)| behind(x, i, rows), (&x, i, &rows)).unwrap();
        let each: Vec<f64> =
            INDICES.iter().flat_map(|i| one(*i).to_vec::<f64>().unwrap()).collect();
        assert_eq!(all.len(), each.len());
        for (got, want) in all.iter().zip(&each) {
            assert!((got - want).abs() <= 1e-13 * (1.0 + want.abs()), "{name}: {got} and {want}");
        }
    }
}

/// No sine, cosine, exponential or tanh may be computed for the whole table, neither in the value nor in the gradient.
#[test]
fn no_more_is_computed_than_is_read() {
    let (x, rows) = (matrix(), Tensor::from([7i64, 2]));
    for (name, behind, _) in PAIRS {
        let f = move |(x, i, rows): (Var, Var, Var)| {
            value_and_grad(move |x: Var| behind(x, i, rows).sum())(x)
        };
        let e = jit(f).explain((&x, 4i64, &rows)).unwrap();
        let last = e.stages().iter().rev().find(|s| !s.text.is_empty()).unwrap();
        for line in last.text.lines() {
            let dear = ["= sin ", "= cos ", "= exp ", "= tanh "].iter().any(|f| line.contains(f));
            let whole = ["[20,12]", "[20,20]", "[60,4]"].iter().any(|ty| line.contains(ty));
            assert!(!(dear && whole), "{name}: {line}");
        }
    }
}

/// The derivative of an unread element must be zero, also if the derivative of the operation is infinite there (√x at
/// 0).
#[test]
fn elements_that_are_not_read_have_a_derivative_of_zero() {
    let x = Tensor::from((0..32).map(f64::from).collect::<Vec<_>>());
    let g = run(grad(|x: Var| x.sqrt().index(4)), &x).unwrap().to_vec::<f64>().unwrap();
    assert_eq!((g[0], g[4]), (0.0, 0.25));
}

/// Every second element of a row, and every third, are loaded in vectors. The last element that is loaded is the last
/// one of the array, and the number of elements fills a whole number of vectors or not.
#[test]
fn elements_with_a_stride_are_loaded_in_vectors() {
    for dtype in [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32] {
        for step in [2, 3] {
            for first in [0, 1] {
                for taken in [8, 31, 64, 1000] {
                    let n = first + step * (taken - 1) + 1;
                    let all: Vec<f64> = (0..n).map(|i| (i % 97) as f64).collect();
                    let some: Vec<f64> = all.iter().skip(first).step_by(step).copied().collect();
                    let x = run(move |x: Var| x.convert(dtype), all).unwrap();
                    let double = move |x: Var| {
                        let y = x.slice_step(0, first.., step);
                        (y + y).convert(Dtype::F64)
                    };
                    let got = jit(double).call(x).unwrap();
                    let want: Vec<f64> = some.iter().map(|x| 2.0 * x).collect();
                    assert_eq!(
                        got.to_vec::<f64>().unwrap(),
                        want,
                        "{dtype} {step} {first} {taken}"
                    );
                }
            }
        }
    }
}
