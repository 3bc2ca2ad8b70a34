//! Branches and loops: errors for invalid arguments, captures, and trees.
#![allow(clippy::panic, reason = "tests")]

use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

fn refused<A: Tree<Var>, B: Tree<Var>>(f: impl Fn(A) -> B, args: impl Args<A>) -> Error {
    match jit(f).call(args) {
        Err(error) => error,
        Ok(_) => panic!("nothing was refused"),
    }
}

#[track_caller]
fn says(error: &Error, kind: Kind, words: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for word in words.iter().chain(&["prelude/tests/it/control.rs"]) {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[test]
fn a_carry_keeps_its_type() {
    let wider = |x: Var| fori_loop(3, |(_, c): (Var, Var)| c.broadcast_to([2]), x);
    says(&refused(wider, 1.0), Kind::Shape, &["`carry` starts as f64[]", "f64[2]"]);
    let single = |x: Var| scan(|(c, x): (Var, Var)| (c.convert(Dtype::F32), x), x.sum(), x).0;
    says(&refused(single, [1.0, 2.0]), Kind::Dtype, &["`carry` starts as f64[]", "f32[]"]);
    let longer = |x: Var| {
        let more = |(_, c): (Var, Vec<Var>)| [c.clone(), c].concat();
        fori_loop(3, more, vec![x])
    };
    says(&refused(longer, 1.0), Kind::Arguments, &["an iteration changes the carry"]);
}

#[test]
fn elements_have_an_extent_in_common() {
    let uneven = |(x, y): (Var, Var)| map(|(x, y): (Var, Var)| x + y, (x, y));
    says(&refused(uneven, ([1.0, 2.0], [1.0])), Kind::Shape, &["of 2 and of 1 elements"]);
    says(&refused(|x: Var| map(|x: Var| x, x), 1.0), Kind::Shape, &["goes over a scalar"]);
    let none = |x: Var| scan(|(c, ()): (Var, ())| (c, c), x, ()).0;
    says(&refused(none, 1.0), Kind::Shape, &["no array to go over"]);
}

#[test]
fn branches_give_the_same() {
    let shapes = |x: Var| cond(x.gt(0.0), |x: Var| x.broadcast_to([2]), |x: Var| x, x);
    says(&refused(shapes, 1.0), Kind::Shape, &["`result` is f64[] in one branch and f64[2]"]);
    let forms = |x: Var| cond(x.gt(0.0), |x: Var| vec![x], |x: Var| vec![x, x], x)[0];
    says(&refused(forms, 1.0), Kind::Arguments, &["branches differ"]);
    let many = |x: Var| cond(x.gt(0.0), |x: Var| x, |x: Var| -x, x);
    says(&refused(many, [1.0, 2.0]), Kind::Shape, &["`cond` takes a condition", "bool[2]"]);
    let number = |i: Var| cond(i, |i: Var| i, |i: Var| -i, i);
    says(&refused(number, 1i64), Kind::Dtype, &["`cond` takes a condition", "i64[]", "`switch`"]);
    let pick = |i: Var| switch(i, [&|i: Var| i, &|i: Var| i], i);
    says(&refused(pick, true), Kind::Dtype, &["`switch` takes the number of a branch", "bool[]"]);
    says(&refused(pick, 1.5), Kind::Dtype, &["`switch`", "f64[]", "convert it"]);
    says(&refused(pick, [1i64]), Kind::Shape, &["`switch`", "i64[1]"]);
}

/// The use of a value that escaped from its trace must be reported, even as a condition or as a trip count.
#[test]
fn escaped_conditions_and_trip_counts_are_errors() {
    let (three, yes) = (Tensor::from(3i64), Tensor::from(true));
    let (n, yes) = (constant(&three), constant(&yes));
    let counted = move |x: Var| fori_loop(n, |(_, x): (Var, Var)| x * 2.0, x);
    says(&refused(counted, 1.0), Kind::Escaped, &["outside any trace"]);
    let chosen = move |x: Var| cond(yes, |x: Var| x, |x: Var| -x, x);
    says(&refused(chosen, 1.0), Kind::Escaped, &["outside any trace"]);
}

#[test]
fn errors_inside_are_told_once() {
    let inside = |x: Var| fori_loop(3, |(_, c): (Var, Var)| c.dot(c).reshape([7]), x);
    let text = refused(inside, [1.0, 2.0]).to_string();
    assert_eq!(text.matches("error[").count(), 1, "{text}");
}

#[test]
fn closures_capture_values() -> Result<(), Error> {
    // The sum of w_i over the iterations of a loop with a branch; the branch uses w, k and the iteration number.
    let f = |(w, k): (Var, Var)| {
        let iteration = |(i, (s, n)): (Var, (Var, Var))| {
            let y = cond(n.lt(2.0), |s: Var| s + k * w.index(0), |s: Var| s * k + w.index(1), s);
            (y + i.convert(Dtype::F64), n + 1.0)
        };
        fori_loop(4, iteration, (w.sum() * 0.0, w.sum() * 0.0)).0
    };
    let (w, k) = ([0.5, -1.5], 2.0);
    // The values of s after the four iterations: 0 + 2·0.5 + 0 = 1, 1 + 2·0.5 + 1 = 3, 3·2 - 1.5 + 2 = 6.5, and
    // 6.5·2 - 1.5 + 3 = 14.5.
    let (y, (dw, dk)) = jit(value_and_grad(f)).call((w, k))?;
    assert_eq!(y.item::<f64>()?, 14.5);
    assert_eq!(dw, Tensor::from([16.0, 3.0]));
    assert_eq!(dk.item::<f64>()?, 16.5);
    let many = jit(vmap(move |k: Var| f((constant(w), k))));
    assert_eq!(many.call([2.0, 2.0])?, Tensor::from([14.5, 14.5]));
    Ok(())
}

#[test]
fn conditions_are_single_truth_values_and_counts_single_integers() {
    let many = |x: Var| while_loop(|x: Var| x.lt(10.0), |x: Var| x * 2.0, x);
    says(&refused(many, [1.0, 2.0]), Kind::Shape, &["a single bool", "bool[2]"]);
    let number = |x: Var| while_loop(|x: Var| x, |x: Var| x * 2.0, x);
    says(&refused(number, 1.0), Kind::Dtype, &["a single bool", "f64[]"]);
    let wider = |x: Var| while_loop(|x: Var| x.sum().lt(9.0), |x: Var| concat(&[x, x], 0), x);
    says(&refused(wider, [1.0]), Kind::Shape, &["`carry` starts as f64[1]", "f64[2]"]);
    let twice = |n: Var| fori_loop(n, |(_, x): (Var, Var)| x * 2.0, n.zeros_like());
    says(&refused(twice, 2.5), Kind::Dtype, &["a number of iterations, a single i64", "f64[]"]);
    says(&refused(twice, [1i64]), Kind::Shape, &["a number of iterations, a single i64", "i64[1]"]);
}

/// Condition and body use captures, some of them in common, and the carry is a tree.
#[test]
fn conditions_and_bodies_share_captures() {
    let f = |(x, a, b, limit): (Var, Var, Var, Var)| {
        let below = |(x, n): (Var, Var)| (x + b).lt(limit) & n.lt(50);
        let (x, n) = while_loop(below, |(x, n)| (a * x + b, n + 1), (x, constant(0i64)));
        (x, n)
    };
    let host = |mut x: f64, a: f64, b: f64, limit: f64| {
        let mut n = 0i64;
        while x + b < limit && n < 50 {
            (x, n) = (a * x + b, n + 1);
        }
        (x, n)
    };
    let jit = jit(f);
    for (x, a, b, limit) in [(1.0, 1.5, 0.25, 100.0), (1.0, 1.5, 0.25, 0.0), (1.0, 0.5, 0.5, 9.0)] {
        let (y, n) = jit.call((x, a, b, limit)).unwrap();
        assert_eq!((y.item::<f64>().unwrap(), n.item::<i64>().unwrap()), host(x, a, b, limit));
    }
}

/// One program serves zero, one and a million iterations, and the derivative of a million iterations exists.
#[test]
fn numbers_of_iterations_do_not_recompile() {
    let power = |(a, n): (Var, Var)| fori_loop(n, |(_, y): (Var, Var)| y * a, a.ones_like());
    let slope = jit(move |(a, n): (Var, Var)| value_and_grad(|a| power((a, n)))(a));
    for n in [0i64, 1, 1_000_000, -5, 7] {
        let (y, dy) = slope.call((1.000001, n)).unwrap();
        let iterations = n.max(0) as i32;
        let (want, exact) = (1.000001f64.powi(iterations), 1.000001f64.powi(iterations - 1));
        let (y, dy) = (y.item::<f64>().unwrap(), dy.item::<f64>().unwrap());
        assert!(
            (y - want).abs() < 1e-9
                && (dy / (f64::from(iterations) * exact).max(1e-300) - 1.0).abs() < 1e-9
                || iterations == 0 && dy == 0.0,
            "{n}: {y} {dy}"
        );
    }
    assert_eq!(slope.programs(), 1);
    let until = |(x, limit): (Var, Var)| while_loop(|x: Var| x.lt(limit), |x: Var| x * 1.00001, x);
    let f = jit(move |(x, limit): (Var, Var)| value_and_grad(|x| until((x, limit)))(x));
    for (limit, iterations) in [(0.5, 0), (1.0001, 10), (22026.0, 999_996)] {
        let (y, dy) = f.call((1.0, limit)).unwrap();
        // The loop multiplies x by 1.00001 per iteration, so with x = 1 its value and its derivative are equal.
        let dy = dy.item::<f64>().unwrap();
        assert!((y.item::<f64>().unwrap() / dy - 1.0).abs() < 1e-9);
        assert!(
            (dy.ln() / 1.00001f64.ln() - f64::from(iterations)).abs() < 8.0,
            "{dy} of {iterations}"
        );
    }
    assert_eq!(f.programs(), 1);
}

/// For a branch that only some batch members take, and that contains a loop, the batched gradient must equal the
/// gradient of each member. The loop is directly in the branch, in an inner branch that all members take, in a called
/// function, or in an outer loop.
#[test]
fn a_batch_of_branches_shares_a_tape() {
    fn grow(x: Var) -> Var {
        while_loop(|x: Var| x.lt(10.0), |x: Var| x * x + 1.0, x)
    }
    let inside: [fn((Var, Var)) -> Var; 4] = [
        |(_, x)| grow(x),
        |(q, x)| cond(q.gt(0.0), grow, |x: Var| x.sin(), x),
        |(_, x)| outline(grow)(x),
        |(q, x)| fori_loop(q.convert(Dtype::I64), |(_, x): (Var, Var)| grow(x * 0.1), x),
    ];
    for inner in inside {
        let f = move |(p, q, x): (Var, Var, Var)| {
            cond(p.gt(0.0), move |x: Var| inner((q, x)), |x: Var| x * 2.0, x)
        };
        let slope = move |(p, q, x): (Var, Var, Var)| grad(move |x: Var| f((p, q, x)))(x);
        let bend = move |(p, q, x): (Var, Var, Var)| grad(move |x: Var| slope((p, q, x)))(x);
        let all: [&dyn Fn((Var, Var, Var)) -> Var; 2] = [&slope, &bend];
        for of in all {
            let batch = |(ps, q, x): (Var, Var, Var)| vmap(move |p: Var| of((p, q, x)))(ps);
            for q in [3.0, -1.0] {
                for ps in [vec![1.0, -1.0, 2.0], vec![-1.0, -2.0], Vec::new()] {
                    let one = |p: &f64| {
                        jit(|x: (Var, Var, Var)| of(x)).call((*p, q, 1.5)).unwrap().item::<f64>()
                    };
                    let want: Vec<f64> = ps.iter().map(|p| one(p).unwrap()).collect();
                    for f in [jit(batch), jit(batch).interpreted()] {
                        let found = f.call((&ps, q, 1.5)).unwrap().to_vec::<f64>().unwrap();
                        let far =
                            found.iter().zip(&want).map(|(a, b)| (a - b).abs() / (1.0 + b.abs()));
                        assert!(far.fold(0.0, f64::max) < 1e-12, "{found:?} {want:?}");
                    }
                }
            }
        }
    }
}

/// Returns two as a run-time value, unknown to the compiler.
fn twice() -> Var {
    let two = Tensor::from(2i64);
    constant(&two)
}

/// A branch that saves tapes of nested loops can be batched, even if only tangents are batched.
#[test]
fn branches_with_loops_in_loops_have_second_derivatives() {
    type F = fn(Var) -> Var;
    let iterations: [F; 3] = [
        |x| fori_loop(twice(), |(_, s): (Var, Var)| s.sin() * x, x),
        |x| while_loop(|s: Var| s.sum().lt(9.0), |s: Var| s * x + 1.0, x),
        |x| {
            let state = Ref::new(x);
            fori_loop(twice(), |(_, ()): (Var, ())| state.mul(x.sin()), ());
            state.get()
        },
    ];
    for inner in iterations {
        let outer: [Box<dyn Fn(Var) -> Var>; 3] = [
            Box::new(move |x| fori_loop(2, |(_, s): (Var, Var)| inner(s + x), x)),
            Box::new(move |x| fori_loop(twice(), |(_, s): (Var, Var)| inner(s + x), x)),
            Box::new(move |x| {
                scan(|(s, _): (Var, Var)| (inner(s + x), s), x, arange(2, Dtype::F64)).0
            }),
        ];
        for outer in &outer {
            let f = |x: Var| cond(x.sum().gt(0.0), |x: Var| outer(x), |x: Var| x * x, x).sum();
            let x = [0.5, 0.25];
            let whole = jit(hessian(f)).call(x).unwrap().to_vec::<f64>().unwrap();
            let rows = |i: usize| {
                let along = Tensor::from([0, 1].map(|k| f64::from(u8::from(k == i))));
                jit(hvp(f)).call((x, along)).unwrap().to_vec::<f64>().unwrap()
            };
            let want = [rows(0), rows(1)].concat();
            let far = whole.iter().zip(&want).map(|(a, b)| (a - b).abs() / (1.0 + b.abs()));
            assert!(far.fold(0.0, f64::max) < 1e-9, "{whole:?} {want:?}");
        }
    }
}
