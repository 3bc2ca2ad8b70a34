//! `associative_scan` compared with loops: values for every length, derivatives, the work and size of the program, and
//! errors of the combining function.

use std::cell::Cell;
use tapeloom::prelude::*;
use tapeloom_tests::Agreement;

fn numbers(n: usize) -> Tensor {
    (0..n).map(|i| 1.0 + 0.25 * (1.7 * i as f64).sin()).collect()
}

/// Returns the map `x -> a x + b` followed by `x -> c x + d`; such compositions do not commute.
fn then(((a, b), (c, d)): ((Var, Var), (Var, Var))) -> (Var, Var) {
    (a * c, c * b + d)
}

#[test]
fn prefixes_of_every_length_are_those_one_by_one() {
    // From 65 elements on, the scan is computed in blocks; elements before the first whole block are a head. These
    // lengths include heads of one element and heads of a whole block.
    for n in [0, 1, 2, 3, 4, 5, 8, 31, 64, 65, 66, 80, 81, 96, 97, 100, 257, 1000, 1025] {
        let (a, b) = (numbers(n), numbers(n));
        let (p, y) = run(|x| associative_scan(then, x), (&a, &b)).unwrap();
        let recurrence = |(a, b): (Var, Var)| (a.cumprod(0), b.linear_recurrence(a, 0));
        let (p1, y1) = run(recurrence, (&a, &b)).unwrap();
        Agreement::CLOSE.check_all(&[p, y], &[p1, y1]).unwrap();
    }
}

/// A scan of products must agree with `cumprod`, which has derivative rules of its own: values, gradients, Hessians and
/// batches. Thirteen elements are not computed in blocks, seventy are.
#[test]
fn a_running_product_and_its_gradient() {
    for n in [13, 70] {
        let x = numbers(n);
        let scan = |x: Var| associative_scan(|(a, b): (Var, Var)| a * b, x);
        Agreement::CLOSE
            .check(&run(scan, &x).unwrap(), &run(|x: Var| x.cumprod(0), &x).unwrap())
            .unwrap();
        let of = |f: fn(Var) -> Var| run(grad(move |x| f(x).sin().sum()), &x).unwrap();
        Agreement::CLOSE.check(&of(scan), &of(|x| x.cumprod(0))).unwrap();
        let second = |f: fn(Var) -> Var| run(hessian(move |x: Var| f(x).sin().sum()), &x).unwrap();
        Agreement::CLOSE.check(&second(scan), &second(|x| x.cumprod(0))).unwrap();
        let batch = |x: Var| stack(&[x, 0.5 * x], 0);
        let y = run(|x: Var| vmap(scan)(batch(x)), &x).unwrap();
        Agreement::CLOSE.check(&y, &run(|x: Var| batch(x).cumprod(1), &x).unwrap()).unwrap();
    }
}

/// Scans of matrix products, which do not commute, must have the values and gradients of a loop.
#[test]
fn products_of_matrices_in_blocks() {
    const N: usize = 70;
    let x: Tensor = (0..4 * N).map(|i| 0.5 * (1.7 * i as f64).sin()).collect();
    let x = x.reshape(&[N, 2, 2]).unwrap();
    let blocks = |x: Var| associative_scan(|(a, b): (Var, Var)| a.dot(b), x);
    let loop_ = |x: Var| {
        let step = |(y, x): (Var, Var)| {
            let y = y.dot(x);
            (y, y)
        };
        let (_, later) = scan(step, x.index(0), x.slice_axis(0, 1..N));
        concat(&[x.slice_axis(0, 0..1), later], 0)
    };
    Agreement::CLOSE.check(&run(blocks, &x).unwrap(), &run(loop_, &x).unwrap()).unwrap();
    let of = |f: fn(Var) -> Var| run(grad(move |x| f(x).sin().sum()), &x).unwrap();
    Agreement::CLOSE.check(&of(blocks), &of(loop_)).unwrap();
}

/// The combining function is traced at most three times, and the program has as many lines for 5000 elements as for
/// 100. Values that the function captures are shared.
#[test]
fn the_program_does_not_grow() {
    let equations = |n: usize| {
        let traces = Cell::new(0);
        let f = jit(|(w, x): (Var, Var)| {
            let joined = |(a, b): (Var, Var)| {
                traces.set(traces.get() + 1);
                a.dot(w).dot(b)
            };
            associative_scan(joined, x)
        });
        let x = Tensor::full(&[n, 2, 2], 0.5).unwrap();
        let explained = f.explain((Tensor::full(&[2, 2], 0.5).unwrap(), x)).unwrap();
        assert!(traces.get() <= 3, "{} traces for {n}", traces.get());
        let text = &explained.stages()[0].text;
        assert!(!text.is_empty());
        text.lines().count()
    };
    let (some, many) = (equations(100), equations(5000));
    assert_eq!(some, many);
}

/// A scan of n elements applies the function about n times for up to 64 elements, and about 2 n times for more. The
/// test counts work, and the function is so expensive that other work hardly counts.
#[test]
fn uses_are_linear() {
    fn dear(a: Var, b: Var) -> Var {
        (0..20).fold(a * b, |y, _| y.sin())
    }
    for n in [3, 64, 65, 100, 1024] {
        let x = numbers(n);
        let work = |f: fn(Var) -> Var| jit(f).explain(&x).unwrap().work().unwrap();
        let batch = work(|x| dear(x, x));
        let scan = work(|x| associative_scan(|(a, b): (Var, Var)| dear(a, b), x));
        let uses = scan as f64 / batch as f64;
        let most = if n <= 64 { 1.0 } else { 2.0 };
        assert!(uses > 0.6 * most && uses < 1.05 * most, "{n} elements: {uses} n uses");
    }
}

/// A long sum of f32 must have a rounding error at least 5 times smaller in blocks than in a loop that adds one element
/// after the other.
#[test]
fn rounding_errors_grow_with_the_root() {
    let n = 40_000;
    let x: Vec<f32> = (0..n).map(|i| 0.1 + 0.01 * (0.7 * i as f32).sin()).collect();
    let mut exact = 0.0;
    let sums: Vec<f64> = x
        .iter()
        .map(|x| {
            exact += f64::from(*x);
            exact
        })
        .collect();
    let error = |f: fn(Var) -> Var| {
        let y = run(f, Tensor::from(x.clone())).unwrap().to_vec::<f32>().unwrap();
        y.iter().zip(&sums).map(|(y, s)| (f64::from(*y) / s - 1.0).abs()).fold(0.0, f64::max)
    };
    let blocks = error(|x| associative_scan(|(a, b): (Var, Var)| a + b, x));
    let row = error(|x| {
        let step = |(s, x): (Var, Var)| (s + x, s + x);
        scan(step, zeros([], Dtype::F32), x).1
    });
    assert!(blocks < 2e-6 && blocks < row / 5.0, "{blocks} in blocks, {row} in a row");
}

#[test]
fn wrong_sequences_and_functions_are_told() {
    let problem = |e: tapeloom::Error| e.to_string();
    let x = numbers(4);
    let mul = |(a, b): (Var, Var)| a * b;
    let scalar = problem(run(|x: Var| associative_scan(mul, x), 1.0).unwrap_err());
    assert!(scalar.contains("`associative_scan` goes over a scalar"), "{scalar}");
    assert!(scalar.contains("associative_scan.rs"), "{scalar}");
    let lengths = problem(run(|x| associative_scan(then, x), (&x, numbers(3))).unwrap_err());
    assert!(
        lengths.contains("`associative_scan` goes over arrays of 4 and of 3 elements"),
        "{lengths}"
    );
    let grows = |x: Var| associative_scan(|(a, b): (Var, Var)| stack(&[a, b], 0), x);
    let grows = problem(run(grows, &x).unwrap_err());
    let says = "`result` of the function given to `associative_scan` is f64[2], and its arguments have f64[] there";
    assert!(grows.contains(says), "{grows}");
    assert_eq!(grows.matches("associative_scan` is").count(), 1, "{grows}");
    let inner = |x: Var| associative_scan(|(a, b): (Var, Var)| a.dot(b.reshape([7])), x);
    let inner = problem(run(inner, &x).unwrap_err());
    assert!(
        inner.contains("programs/associative_scan.rs") && !inner.contains("prelude/src"),
        "{inner}"
    );
}
