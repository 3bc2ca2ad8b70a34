//! Code that runs many times and stands once: values and derivatives of outlined programs are those
//! of the same programs written out.

use tapeloom::prelude::*;
use tapeloom_tests::repeated::{determinant, doubling, rnn, rnn_arguments};

fn close(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-12 * (1.0 + a.abs().max(b.abs())))
}

#[test]
fn rounds_of_a_network_are_those_written_out() {
    let (w, u, x) = rnn_arguments(2, 3).unwrap();
    let written_out = |(w, u, x): (Var, Var, Var)| {
        let h = (0..12).fold(x, |h, _| (h.dot(w) + x.dot(u)).tanh());
        (h * h).mean()
    };
    let (y, g) = run(value_and_grad(rnn(12)), (&w, &u, &x)).unwrap();
    let (y2, g2) = run(value_and_grad(written_out), (&w, &u, &x)).unwrap();
    assert!(close(&y, &y2), "{y} {y2}");
    assert!(close(&g.0, &g2.0) && close(&g.1, &g2.1) && close(&g.2, &g2.2));
}

/// `d det(A) = det(A) tr(A⁻¹ dA)`: the gradient is the matrix of cofactors, so that
/// `A · (∂det)ᵀ = det(A) · 1`.
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
        assert!(close(&product, &scaled), "{product} {scaled}");
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
