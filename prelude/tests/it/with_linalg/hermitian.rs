//! Eigenvalues and eigenvectors of Hermitian matrices: equations that they satisfy, batches, derivatives.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::complex::hermitian;
use tapeloom::prelude::*;

/// Returns a real diagonal matrix.
fn diagonal(numbers: &[f64]) -> Complex<Tensor> {
    let d = run(|x: Var| x.diag(0), numbers).unwrap();
    Complex { im: d.zeros_like(), re: d }
}

fn adjoint(z: Complex) -> Complex {
    z.conj().map(Var::matrix_transpose)
}

/// Returns four numbers: the largest elements of `H V - V diag(w)` (relative to the largest eigenvalue), of `Vᴴ V - 1`,
/// and of the imaginary part of each vector's largest component; and the largest decrease of `w`.
fn defects(h: Complex) -> Var {
    let (w, v) = h.eigh();
    let moved = h.matmul(v) - v * w.expand_dims(-2);
    let scale = w.abs().max();
    let unit = adjoint(v).matmul(v) - eye(w.len(), w.dtype());
    let top = v.abs().argmax(0).eq(iota(v.shape(), 0, Dtype::I64));
    let turned = select(top, v.im.abs() + (v.re.abs() - v.re), 0.0);
    let falls = (w - w.cummax(0)).abs().max();
    stack(
        &[
            moved.abs().max() / select(scale.gt(0.0), scale, 1.0),
            unit.abs().max(),
            turned.max(),
            falls,
        ],
        0,
    )
}

#[test]
fn eigenvectors_are_unitary_and_diagonalize() {
    let ones: Vec<f64> = vec![1.0; 6];
    let mut all: Vec<Complex<Tensor>> = (1..8).map(|n| hermitian(n, 1.0)).collect();
    all.extend([hermitian(5, 1e300), hermitian(5, 1e-300), diagonal(&ones), diagonal(&[0.0; 3])]);
    all.extend([diagonal(&[f64::MAX, 1.0]), diagonal(&[f64::MAX, -f64::MAX, 0.0])]);
    all.extend([diagonal(&[2.0, -1.0, 2.0, -1.0]), diagonal(&[1.0, 1e-200, -1e-200])]);
    // A matrix with two eigenvalues of multiplicity three, and a matrix that has zeros in its columns.
    let turned = |h: Complex| {
        let v = h.eigh().1;
        (v * constant([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])).matmul(adjoint(v))
    };
    all.push(run(turned, hermitian(6, 1.0)).unwrap());
    all.push(run(|h: Complex| h.map(|x| x.tril(1).triu(-1)), hermitian(6, 1.0)).unwrap());
    for h in all {
        let n = h.re.shape()[0];
        let errors = jit(defects).call(&h).unwrap().to_vec::<f64>().unwrap();
        assert!(errors.iter().all(|e| *e <= 2e-15 * (2 + n) as f64), "{n}: {errors:?} for {h}");
        // A Hermitian matrix of order n corresponds to a real symmetric matrix of order 2n, which must have each of the
        // eigenvalues twice.
        let both = |h: Complex| {
            let rows = |x: Var, y: Var| concat(&[x, y], -1);
            let real = concat(&[rows(h.re, -h.im), rows(h.im, h.re)], -2);
            stack(&[h.eigvalsh(), linalg::eigvalsh(real).slice_step(0, .., 2)], 0)
        };
        let w = run(both, &h).unwrap().to_vec::<f64>().unwrap();
        let size = w.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        assert!((0..n).all(|i| (w[i] - w[n + i]).abs() <= 1e-14 * size), "{w:?}");
        let single = |h: Complex| defects(h.map(|x| x.convert(Dtype::F32)));
        if size < 1e30 && size > 1e-30 {
            let errors = run(single, &h).unwrap().to_vec::<f32>().unwrap();
            assert!(errors.iter().all(|e| *e <= 1e-6 * (2 + n) as f32), "{n}: {errors:?}");
        }
    }
}

#[test]
fn members_of_a_batch_are_decomposed_alone() {
    let three = |h: Complex| {
        let bad = h.map(|x| x * f64::NAN);
        let batch = Complex::stack(&[h, bad, h * 2.0], 0);
        let (w, v) = batch.eigh();
        let (one, of_one) = h.eigh();
        (w.index(0) - one, (v.index(2) - of_one).abs(), w.index(2) - 2.0 * one, w.index(1))
    };
    let (w, v, twice, bad) = run(three, hermitian(4, 1.0)).unwrap();
    assert!(w.numbers().chain(v.numbers()).chain(twice.numbers()).all(|x| x == 0.0));
    assert!(bad.numbers().all(f64::is_nan));
    let none = Complex { re: Tensor::from([[0.0; 0]; 0]), im: Tensor::from([[0.0; 0]; 0]) };
    let (w, v) = run(|h: Complex| h.eigh(), none).unwrap();
    assert_eq!((w.shape(), v.re.shape()), (&[0][..], &[0, 0][..]));
}

#[test]
fn eigenvectors_have_derivatives_of_every_order() {
    check_grads(|h: Complex| h.eigh(), hermitian(3, 0.5), 3).unwrap();
    check_grads(|h: Complex| h.eigvalsh(), hermitian(2, 0.5), 4).unwrap();
    // Derivatives must be right for functions of the eigenvalues alone, and of eigenvalues and vectors.
    check_grads(|h: Complex| h.eigvalsh().sin(), hermitian(3, 0.5), 3).unwrap();
    let evolved = |h: Complex| {
        let (w, v) = h.eigh();
        let hermitian = (h + adjoint(h)) * 0.5;
        let series = (hermitian * Complex::new(0.0, -1.0)).expm();
        (v * Complex::from_polar(1.0, -w)).matmul(adjoint(v)) - series
    };
    let h = hermitian(3, 0.5);
    check_grads(|h: Complex| evolved(h).abs2().sum() + h.eigh().0.powi(3).sum(), &h, 3).unwrap();
    assert!(run(|h: Complex| evolved(h).abs().max(), &h).unwrap().item::<f64>().unwrap() < 1e-14);
    let hessian = |(h, dh): (Complex, Complex)| {
        let f = |h: Complex| evolved(h).index((0, 1)).re;
        jvp(grad(f))((h, dh)).1.abs().max()
    };
    let second = run(hessian, (&h, hermitian(3, 0.25))).unwrap().item::<f64>().unwrap();
    assert!(second < 1e-12, "{second}");
    // This matrix has two distinct eigenvalues, with indices 0 and 1, and two equal ones, with indices 2 and 3.
    // Functions of the distinct ones must have derivatives.
    let levels = |h: Complex| {
        let v = h.eigh().1.map(Var::stop_gradient);
        (v * constant([-1.0, 0.5, 2.0, 2.0])).matmul(adjoint(v))
    };
    let h = run(levels, hermitian(4, 1.0)).unwrap();
    check_grads(|h: Complex| h.eigh_range(..2), &h, 2).unwrap();
    check_grads(|h: Complex| h.eigh_range(1..2).1.abs2(), &h, 2).unwrap();
    // Derivatives must also be right in a batch and in a loop.
    let many = |h: Complex| {
        let batch = Complex::stack(&[h, h * 0.5 + eye(3, Dtype::F64)], 0);
        vmap(|h: Complex| h.eigh().1.abs2())(batch)
    };
    check_grads(many, hermitian(3, 0.5), 2).unwrap();
    let iterated =
        |h: Complex| fori_loop(2, |(_, h): (Var, Complex)| h + h.eigh().1 * 0.1, h).abs2().sum();
    check_grads(iterated, hermitian(3, 0.5), 2).unwrap();
}

#[test]
fn derivatives_at_equal_eigenvalues_are_right_or_nan() {
    let h = diagonal(&[1.0, 2.0, 1.0]);
    let dh = hermitian(3, 1.0);
    // The matrix has the eigenvalues 1, 1, 2. The derivatives of the equal ones along `dh` must add up to the trace of
    // their block of `dh`.
    let moved = |(h, dh): (Complex, Complex)| jvp(|h: Complex| h.eigvalsh())((h, dh)).1;
    let dw = run(moved, (&h, &dh)).unwrap().to_vec::<f64>().unwrap();
    let element = |i: usize| dh.re.get::<f64>(&[i, i]).unwrap();
    assert!((dw[0] + dw[1] - element(0) - element(2)).abs() < 1e-14, "{dw:?}");
    assert!((dw[2] - element(1)).abs() < 1e-14, "{dw:?}");
    let slope = run(grad(|h: Complex| h.eigh().0.powi(3).sum()), &h).unwrap();
    let wanted = [3.0, 0.0, 0.0, 0.0, 12.0, 0.0, 0.0, 0.0, 3.0];
    assert!(slope.re.numbers().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-14), "{slope}");
    assert!(slope.im.numbers().all(|x| x.abs() < 1e-14), "{slope}");
    // The eigenvectors of the equal eigenvalues have no derivative, so it must be nan. The third vector has one.
    let turned = |(h, dh): (Complex, Complex)| jvp(|h: Complex| h.eigh().1)((h, dh)).1;
    let dv = run(turned, (&h, &dh)).unwrap().re.to_vec::<f64>().unwrap();
    for (k, x) in dv.iter().enumerate() {
        assert_eq!(x.is_nan(), k % 3 < 2, "{dv:?}");
    }
    let squares = |h: Complex| h.eigh().1.abs2().square().sum();
    assert!(run(grad(squares), &h).unwrap().re.numbers().any(f64::is_nan));
    // The second derivative of a function of the eigenvalues reads all eigenvectors, so here it must be nan.
    let cubes = |h: Complex| h.eigvalsh().powi(3).sum();
    let second = |(h, dh): (Complex, Complex)| jvp(grad(cubes))((h, dh)).1;
    assert!(run(second, (&h, &dh)).unwrap().re.numbers().any(f64::is_nan));
}
