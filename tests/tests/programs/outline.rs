//! Outlined programs: values and derivatives must equal those of the same programs without outlining.

use tapeloom::Explanation;
use tapeloom::prelude::*;
use tapeloom_tests::Agreement;
use tapeloom_tests::repeated::{determinant, doubling, rnn, rnn_arguments, rnn_written_out};

/// Returns the text of the kernels that are called, and the text of the program that calls them.
fn kernels(explained: &Explanation) -> (String, String) {
    let text = explained.kernels();
    let (callees, entry) = text.split_at(text.find("program @").unwrap());
    (callees.to_owned(), entry.to_owned())
}

fn count(text: &str, what: &str) -> usize {
    text.lines().filter(|l| l.trim_start().starts_with(what)).count()
}

#[test]
fn iterations_of_a_network_are_those_written_out() {
    let (w, u, x) = rnn_arguments(2, 3).unwrap();
    let (y, g) = run(value_and_grad(rnn(12)), (&w, &u, &x)).unwrap();
    let (y2, g2) = run(value_and_grad(rnn_written_out(12)), (&w, &u, &x)).unwrap();
    Agreement::CLOSE.check_all(&[y, g.0, g.1, g.2], &[y2, g2.0, g2.1, g2.2]).unwrap();
}

/// The gradient of the determinant by cofactors is compared by `A · (∂det)ᵀ = det(A) · 1`: since `d det(A) = det(A)
/// tr(A⁻¹ dA)`, it must be the matrix of cofactors.
#[test]
fn a_determinant_by_cofactors_has_the_cofactors_as_gradient() {
    for n in [1, 2, 4, 5] {
        let numbers = (0..n * n).map(|i| (1.0 + i as f64 * i as f64).sin());
        let a = Tensor::new(&[n, n], numbers.collect::<Vec<f64>>()).unwrap();
        let (det, product) = run(
            move |a: Var| {
                let (det, cofactors) = value_and_grad(determinant(n))(a);
                (det, a.dot(cofactors.t()))
            },
            &a,
        )
        .unwrap();
        let scaled = run(move |d: Var| d * eye(n, Dtype::F64), &det).unwrap();
        Agreement::CLOSE.check(&product, &scaled).unwrap();
    }
}

#[test]
fn a_body_that_calls_itself_twice_is_the_body_written_out() {
    let f = |x: f64| x.sin() + 0.1 * x;
    fn twice(levels: usize, f: &dyn Fn(f64) -> f64, x: f64) -> f64 {
        match levels {
            0 => f(x),
            _ => twice(levels - 1, f, twice(levels - 1, f, x).sin()),
        }
    }
    for levels in [0, 1, 5] {
        let y = run(doubling(levels), 0.5).unwrap().item::<f64>().unwrap();
        assert!((y - twice(levels, &f, 0.5)).abs() < 1e-14);
    }
}

/// For any number of iterations of an outlined body, the program must have the same kernels and one call per iteration.
#[test]
fn iterations_of_a_network_are_calls_of_one_kernel() {
    let (w, u, x) = rnn_arguments(2, 3).unwrap();
    let value = |iterations| kernels(&jit(rnn(iterations)).explain((&w, &u, &x)).unwrap());
    let (ten, entry) = value(10);
    assert_eq!(count(&ten, "kernel "), 1);
    assert_eq!(count(&entry, "call k0("), 10);
    for iterations in [100, 1000] {
        let (many, entry) = value(iterations);
        assert_eq!(many, ten);
        assert_eq!(count(&entry, "call k0("), iterations);
    }
    let slope =
        |iterations| kernels(&jit(value_and_grad(rnn(iterations))).explain((&w, &u, &x)).unwrap());
    let (ten, _) = slope(10);
    let (many, entry) = slope(100);
    assert_eq!(many, ten);
    // Expect one kernel for the forward pass and one for the reverse pass. The first and the last iteration of the
    // reverse pass differ from the others, and are inlined.
    assert_eq!(count(&ten, "kernel "), 2, "{ten}");
    assert_eq!(count(&entry, "call "), 198, "{entry}");
}

/// The determinant by cofactors, recursive over sizes, must have one kernel per size, each with calls of the next
/// smaller size.
#[test]
fn a_determinant_by_cofactors_is_a_kernel_a_size() {
    for n in [4, 6, 8, 10] {
        let numbers = (0..n * n).map(|i| (1.0 + i as f64 * i as f64).sin());
        let a = Tensor::new(&[n, n], numbers.collect::<Vec<f64>>()).unwrap();
        let (callees, entry) = kernels(&jit(determinant(n)).explain(&a).unwrap());
        // Expect no kernel for size one, whose body is smaller than a call, nor for size n, which is called only once.
        assert_eq!(count(&callees, "kernel "), n - 2);
        assert_eq!(count(&entry, "call "), n);
        assert_eq!(count(&callees, "call "), (3..n).sum::<usize>());
    }
}

/// A function that calls itself twice per level, over 26 levels: the number of kernels must be linear in the levels,
/// although the number of calls is exponential.
#[test]
fn a_body_that_calls_itself_twice_is_a_kernel_a_level() {
    let explained = jit(doubling(26)).explain(0.5).unwrap();
    let (callees, _) = kernels(&explained);
    assert_eq!(count(&callees, "kernel "), 25);
    assert!(explained.workspace_bytes() < 64 * 100, "{}", explained.workspace_bytes());
    let plan = explained.memory_plan();
    assert!(plan.contains("compiled once, as k24 (134217727 equations, 2 times)"), "{plan}");
    assert!(plan.contains("inlined (268435455 equations, 1 times)"), "{plan}");
}

/// Callers that read different scalars or small results of a call must share one kernel; a caller that does not need a
/// third of the work must get a kernel of its own.
#[test]
fn callers_share_a_kernel_whatever_results_they_read() {
    let program = |masks: &'static [[bool; 3]]| {
        move |(x, w): (Var, Var)| {
            let step = outline(|(x, w): (Var, Var)| {
                let y = x.dot(w).tanh();
                (y.index(0) * 2.0, (y * y).sum(), x.dot(w * w).sin().sum())
            });
            let mut sum = x.sum();
            for mask in masks {
                let (a, b, c) = step((x * sum, w));
                let terms = [a, b, c].into_iter().zip(mask).filter(|(_, on)| **on);
                sum = terms.fold(sum, |sum, (term, _)| sum + term);
            }
            sum
        }
    };
    let (x, w) = (Tensor::from([0.5; 16]), Tensor::from([[0.1; 16]; 16]));
    let of = |masks| kernels(&jit(program(masks)).explain((&x, &w)).unwrap()).0;
    let light = of(&[[true; 3], [true, false, true], [false, true, true], [true; 3]]);
    assert_eq!(count(&light, "kernel "), 1, "{light}");
    let heavy = of(&[[true; 3], [true; 3], [true, true, false], [true, true, false]]);
    assert_eq!(count(&heavy, "kernel "), 2, "{heavy}");
}

/// Operands of calls: rows of a matrix must be read in place, columns are copied, and a column used twice is copied
/// once. The program overwrites one result of a call and returns others. Values are compared with a computation by
/// hand.
#[test]
fn operands_and_results_of_calls() {
    let f = |(a, s): (Var, Var)| {
        let step = outline(|(x, y): (Var, Var)| {
            let z = (x * y).sin() + x.cos() * y;
            (z * z + x).tanh()
        });
        let column = a.t().index(1);
        let (p, q) = (step((a.index(2), column)), step((a.index(0), column)));
        let r = step((p, q));
        (r.at(0).set(s), step((r, q)), column)
    };
    let a = Tensor::from([[0.5, 1.0, 2.0], [1.5, -1.0, 0.25], [0.125, 3.0, -0.5]]);
    let (callees, entry) = kernels(&jit(f).explain((&a, 7.0)).unwrap());
    assert_eq!((count(&callees, "kernel "), count(&entry, "call ")), (1, 4), "{entry}");
    for row in ["(b0[6; 3], ", "(b0[0; 3], "] {
        assert_eq!(entry.matches(row).count(), 1, "{entry}");
    }
    let (r, last, column) = run(f, (&a, 7.0)).unwrap();
    let step = |x: &[f64], y: &[f64]| -> Vec<f64> {
        let z = x.iter().zip(y).map(|(x, y)| (x * y).sin() + x.cos() * y);
        z.zip(x).map(|(z, x)| (z * z + x).tanh()).collect()
    };
    let c = [1.0, -1.0, 3.0];
    let (p, q) = (step(&[0.125, 3.0, -0.5], &c), step(&[0.5, 1.0, 2.0], &c));
    let mut want = step(&p, &q);
    let same = |got: &Tensor, want: &[f64]| {
        Agreement::CLOSE.check(got, &Tensor::from(want.to_vec())).is_ok()
    };
    assert!(same(&last, &step(&want, &q)), "{last}");
    want[0] = 7.0;
    assert!(same(&r, &want) && same(&column, &c), "{r} {column}");
}
