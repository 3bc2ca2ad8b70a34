//! `associative_scan`: prefixes for every length, derivatives, and errors of the combining function.

use std::cell::Cell;
use tapeloom::prelude::*;
use tapeloom_tests::Agreement;

fn numbers(n: usize) -> Tensor {
    (0..n).map(|i| 1.0 + 0.25 * (1.7 * i as f64).sin()).collect()
}

/// Composes the maps `x -> a x + b` and `x -> c x + d`, which do not commute.
fn then(((a, b), (c, d)): ((Var, Var), (Var, Var))) -> (Var, Var) {
    (a * c, c * b + d)
}

#[test]
fn prefixes_of_every_length_are_those_one_by_one() {
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 100] {
        let (a, b) = (numbers(n), numbers(n));
        let (p, y) = run(|x| associative_scan(then, x), (&a, &b)).unwrap();
        let recurrence = |(a, b): (Var, Var)| (a.cumprod(0), b.linear_recurrence(a, 0));
        let (p1, y1) = run(recurrence, (&a, &b)).unwrap();
        Agreement::CLOSE.check_all(&[p, y], &[p1, y1]).unwrap();
    }
}

/// A running product is compared with `cumprod`, which has derivative rules of its own.
#[test]
fn a_running_product_and_its_gradient() {
    let x = numbers(13);
    let scan = |x: Var| associative_scan(|(a, b): (Var, Var)| a * b, x);
    Agreement::CLOSE
        .check(&run(scan, &x).unwrap(), &run(|x: Var| x.cumprod(0), &x).unwrap())
        .unwrap();
    let of = |f: fn(Var) -> Var| run(grad(move |x| (f(x) * f(x)).sum()), &x).unwrap();
    Agreement::CLOSE.check(&of(scan), &of(|x| x.cumprod(0))).unwrap();
    let second = |f: fn(Var) -> Var| run(hessian(move |x: Var| f(x).sin().sum()), &x).unwrap();
    Agreement::CLOSE.check(&second(scan), &second(|x| x.cumprod(0))).unwrap();
    let batch = |x: Var| stack(&[x, 2.0 * x], 0);
    let y = run(|x: Var| vmap(scan)(batch(x)), &x).unwrap();
    Agreement::CLOSE.check(&y, &run(|x: Var| batch(x).cumprod(1), &x).unwrap()).unwrap();
}

/// Captured values are shared, and the program contains the function at most 2 log2 n times.
#[test]
fn the_program_is_logarithmic() {
    let equations = |n: usize| {
        let f = jit(|(w, x): (Var, Var)| associative_scan(|(a, b): (Var, Var)| a.dot(w).dot(b), x));
        let x = Tensor::full(&[n, 2, 2], 0.5).unwrap();
        let explained = f.explain((Tensor::full(&[2, 2], 0.5).unwrap(), x)).unwrap();
        let text = &explained.stages()[0].text;
        assert!(!text.is_empty());
        text.lines().count()
    };
    let (some, many) = (equations(64), equations(4096));
    assert!(many <= 2 * some + 20, "{some} lines for 64, {many} for 4096");
}

/// For n elements, the function is applied at most 2 n times, in 2 log2 n batches.
#[test]
fn uses_are_linear_and_batches_logarithmic() {
    for n in [2, 3, 8, 100, 1024] {
        let batches = Cell::new(0);
        let f = jit(|x: Var| {
            let times = |(a, b): (Var, Var)| {
                batches.set(batches.get() + 1);
                a * b
            };
            associative_scan(times, x)
        });
        let explained = f.explain(numbers(n)).unwrap();
        let inlined = explained.stages().iter().find(|s| s.name == "expand").unwrap();
        let products = inlined.text.lines().filter(|l| l.contains(" = mul "));
        let extent = |line: &str| -> usize {
            let shape = line.split_once("f64[").unwrap().1.split_once(']').unwrap().0;
            shape.parse().unwrap()
        };
        let uses: usize = products.map(extent).sum();
        let log = usize::BITS - (n - 1).leading_zeros();
        assert!(n - 1 <= uses && uses <= 2 * n, "{uses} uses for {n}");
        assert!(batches.get() <= 2 * log, "{} batches for {n}", batches.get());
    }
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
