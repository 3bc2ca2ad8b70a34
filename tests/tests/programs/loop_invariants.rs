//! Loops whose body computes an invariant value, compared with the same loops with the value computed before the loop.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::Kind;
use tapeloom::prelude::*;

/// A function of an array and of a run-time trip count.
type Program = fn(Var, Var) -> Var;

/// A name, a program that computes an invariant in each iteration, and the same program with the invariant computed
/// before the loop. The trip count is a run-time value.
const PAIRS: &[(&str, Program, Program)] = &[
    (
        "a row of a table of sines",
        |x, n| {
            fori_loop(
                n,
                move |(i, h): (Var, Var)| (h * 0.9 + x.sin().index(i % 3)).tanh(),
                x.index(0),
            )
        },
        |x, n| {
            let table = x.sin();
            fori_loop(
                n,
                move |(i, h): (Var, Var)| (h * 0.9 + table.index(i % 3)).tanh(),
                x.index(0),
            )
        },
    ),
    (
        "a softmax in a loop on a condition",
        |x, n| {
            let start = (n.zeros_like(), x.sum() * 0.0);
            let more = move |(k, _): (Var, Var)| k.lt(n);
            let step = move |(k, h): (Var, Var)| (k + 1, (h + x.softmax(0).index(k % 3)).sin());
            while_loop(more, step, start).1
        },
        |x, n| {
            let start = (n.zeros_like(), x.sum() * 0.0);
            let soft = x.softmax(0);
            let more = move |(k, _): (Var, Var)| k.lt(n);
            let step = move |(k, h): (Var, Var)| (k + 1, (h + soft.index(k % 3)).sin());
            while_loop(more, step, start).1
        },
    ),
    (
        "a product in an inner loop",
        |x, n| {
            let outer = move |(_, h): (Var, Var)| {
                fori_loop(4, move |(j, h): (Var, Var)| h * 0.5 + (x * x.dot(x)).index(j % 3), h)
            };
            fori_loop(n, outer, x.sum())
        },
        |x, n| {
            let scaled = x * x.dot(x);
            let outer = move |(_, h): (Var, Var)| {
                fori_loop(4, move |(j, h): (Var, Var)| h * 0.5 + scaled.index(j % 3), h)
            };
            fori_loop(n, outer, x.sum())
        },
    ),
    (
        "a square root, whose derivative is infinite at 0",
        |x, n| {
            fori_loop(n, move |(_, h): (Var, Var)| h + (x * x.sum()).sqrt().sum(), x.sum() * 0.0)
        },
        |x, n| {
            let root = (x * x.sum()).sqrt().sum();
            fori_loop(n, move |(_, h): (Var, Var)| h + root, x.sum() * 0.0)
        },
    ),
];

const X: [f64; 3] = [0.3, -0.2, 0.9];

#[test]
fn values_and_gradients_are_those_of_the_value_outside() {
    for (name, inside, outside) in PAIRS {
        for n in [1i64, 2, 7] {
            let x = if name.contains("root") { [0.3, 0.2, 0.9] } else { X };
            let of = |f: Program| {
                let f = move |x: Var, n: Var| value_and_grad(move |x: Var| f(x, n))(x);
                run(move |(x, n): (Var, Var)| f(x, n), (x, n)).unwrap()
            };
            let ((y, g), (want_y, want_g)) = (of(*inside), of(*outside));
            let close = |a: &Tensor, b: &Tensor| {
                let pairs = a.to_vec::<f64>().unwrap().into_iter().zip(b.to_vec::<f64>().unwrap());
                pairs.into_iter().all(|(a, b)| (a - b).abs() <= 1e-13 * (1.0 + b.abs()))
            };
            assert!(close(&y, &want_y), "{name}, {n} iterations: {y} and {want_y}");
            assert!(close(&g, &want_g), "{name}, {n} iterations: {g} and {want_g}");
        }
    }
}

/// If a loop runs no iteration, its derivative must be zero, also if the derivative of a hoisted invariant is infinite.
#[test]
fn a_loop_without_an_iteration_has_no_derivative() {
    for (name, inside, _) in PAIRS {
        let g = |x: Var, n: Var| grad(move |x: Var| inside(x, n) - inside(x, n.zeros_like()))(x);
        let g = run(move |(x, n): (Var, Var)| g(x, n), ([0.0; 3], 0i64)).unwrap();
        assert_eq!(g.to_vec::<f64>().unwrap(), [0.0; 3], "{name}");
    }
}

/// In a batch with different trip counts, the member without iterations must have a derivative of zero, and the other
/// member must have the same derivative as alone.
#[test]
fn members_without_an_iteration_have_no_derivative() {
    let (name, inside, _) = PAIRS[3];
    let g = move |(x, n): (Var, Var)| grad(move |x: Var| inside(x, n))(x);
    let x = [[0.0, 0.0, 0.0], [0.3, 0.2, 0.9]];
    let both = run(vmap(g), (x, [0i64, 3])).unwrap();
    let one = run(g, (x[1], 3i64)).unwrap();
    let both = both.to_vec::<f64>().unwrap();
    assert_eq!(both[..3], [0.0; 3], "{name}");
    assert_eq!(both[3..], one.to_vec::<f64>().unwrap()[..], "{name}");
}

/// After the passes, the loop's body must contain no sine: the invariant is computed before the loop.
#[test]
fn the_invariant_is_in_front_of_the_loop() {
    let (_, inside, _) = PAIRS[0];
    let e = jit(move |(x, n): (Var, Var)| inside(x, n)).explain((X, 7i64)).unwrap();
    let text = &e.stages().iter().rev().find(|s| !s.text.is_empty()).unwrap().text;
    let (bodies, entry) = text.rsplit_once("\nfunc ").unwrap();
    assert!(!bodies.contains("= sin ") && entry.contains("= sin "), "{text}");
}

/// Each of 64 functions calls the next one twice, so there are 2⁶³ paths of calls. The cost of a call must be computed
/// once per function, or this test would not end.
#[test]
fn the_price_of_calls_takes_one_visit_of_each_function() {
    use std::fmt::Write;
    let mut text =
        "func @f0(%0: f64[]) -> (f64[]) {\n  %1: f64[] = sin %0\n  return %1\n}\n".to_owned();
    for n in 1..64 {
        let call = format!("call{{function=@f{}, outline=true}}", n - 1);
        writeln!(
            text,
            "func @f{n}(%0: f64[]) -> (f64[]) {{\n  %1: f64[] = {call} %0\n  %2: f64[] = {call} %1\n  return %2\n}}"
        )
        .unwrap();
    }
    text += "func @body(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = call{function=@f63, outline=true} %0
  %3: f64[] = add %1, %2
  return %3
}
func @loops(%0: f64[], %1: f64[]) -> (f64[]) {
  %2: f64[] = loop{body=@body, trip=9, direction=up, takes=[const,carry0]} %0, %1
  return %2
}
";
    let mut m = tapeloom_ir::parse_module(&text).unwrap();
    let (f, _) = m.iter().last().unwrap();
    let g = tapeloom_transforms::by_name("hoist_invariants").unwrap().apply(&mut m, f).unwrap();
    let moved = &m.function(g).equations[0];
    assert_eq!(moved.op.name(), "call", "{moved:?}");
}

/// Returns the counted work of `f` for an argument f64[n, n].
fn work(n: usize, f: impl Fn(Var) -> Var + Clone + 'static) -> u64 {
    let x = Tensor::full(&[n, n], 0.5).unwrap();
    jit(f).explain(x).unwrap().work().unwrap()
}

#[test]
fn a_product_is_computed_once_however_few_rows_an_inner_loop_reads() {
    let (n, outer) = (128, 40);
    let nested = move |x: Var| {
        let inner = move |h: Var| {
            fori_loop(2, move |(j, h): (Var, Var)| h * 0.5 + x.dot(x.sin()).index(j), h)
        };
        fori_loop(outer, move |(_, h): (Var, Var)| inner(h), x.index(0))
    };
    let product = (n * n * n) as u64;
    assert!(work(n, nested) < 3 * product / 2, "{}", work(n, nested));
    // A single loop that reads two rows of a product must compute only two rows.
    let single =
        |x: Var| fori_loop(2, move |(j, h): (Var, Var)| h + x.dot(x.sin()).index(j), x.index(0));
    assert!(work(n, single) < product / 4, "{}", work(n, single));
    // A loop that reads half of the rows must read them from one product, computed before the loop in blocks.
    let half =
        |x: Var| fori_loop(64, move |(j, h): (Var, Var)| h + x.dot(x.sin()).index(j), x.index(0));
    assert!(work(n, half) >= product, "{}", work(n, half));
}

#[test]
fn the_work_of_branches_is_that_of_one() {
    let branches = |x: Var| {
        let positive = x.index([0, 0]).gt(0.0);
        cond(positive, |x: Var| x.sin(), |x: Var| x.cos(), x)
    };
    let one = work(40, |x: Var| x.sin());
    let both = work(40, branches);
    assert!(both >= one && 4 * both < 5 * one, "{both} beside {one}");
}

/// The result of a host function is saved and never recomputed. If a loop's body calls the function, directly or in a
/// callee, on values that no iteration changes, the call is hoisted. If a budget is too small for the result, the error
/// must name the type of the result without an axis of iterations, and the line in the body.
#[test]
fn a_budget_names_the_invariant_that_does_not_fit() {
    fn table(a: Var) -> Var {
        let a = a.stop_gradient();
        callback("table", a, a.array_type(), |x: Tensor| Ok(x))
    }
    let given: Program = |a, _| {
        let step = move |(_, h): (Var, Var)| table(a).dot(h).tanh();
        fori_loop(4, step, a.index(0)).sum()
    };
    let computed: Program = |a, _| {
        let step = move |(_, h): (Var, Var)| {
            let w = table(a);
            w.dot(w).sin().dot(h).tanh()
        };
        fori_loop(4, step, a.index(0)).sum()
    };
    let a = Tensor::full(&[40, 40], 0.01).unwrap();
    for (f, name) in [(given, "callback"), (computed, "sin")] {
        let within = |bytes| {
            let g = checkpoint(move |a: Var| f(a, a), Policy::Bytes(bytes));
            jit(grad(g)).call(&a)
        };
        let refused = within(1000).unwrap_err();
        assert_eq!(refused.kind(), Kind::Budget, "{refused}");
        let text = refused.to_string();
        let named = format!("12800 bytes are f64[40,40], {name} at ");
        let (_, place) = text.split_once(&named).unwrap();
        assert!(place.split(',').next().unwrap().contains("loop_invariants.rs:"), "{text}");
        let (_, least) = text.split_once("at least ").unwrap();
        let least: u64 = least.split(' ').next().unwrap().parse().unwrap();
        let _ = within(least).unwrap();
    }
}
