//! The residuals of symmetric eigenvalue decompositions must be small, also with repeated eigenvalues.

use crate::checks::{
    Number, ORDERS, call, close, difficult, double, identity, multiply, random, stable, transpose,
};
use tapeloom_routines::Routine;

#[track_caller]
fn upright(n: usize, width: usize, vectors: &[f64]) {
    for j in 0..width {
        let column = vectors.iter().skip(j).step_by(width).take(n);
        let most = column.fold(0.0_f64, |most, &x| if x.abs() > most.abs() { x } else { most });
        assert!(most > 0.0, "column {j}");
    }
}

#[track_caller]
fn holds<T: Number>(n: usize, mut a: Vec<T>) {
    for i in 0..n {
        for j in 0..i {
            a[j * n + i] = a[i * n + j];
        }
    }
    let whole = double(&a);
    for i in 0..n {
        a[i * n + i + 1..(i + 1) * n].fill(T::NAN);
    }
    let found = call(&Routine::Eigh { n, vectors: true }, &[&a]);
    let (values, vectors) = (found.double(0), found.double(1));
    assert!(values.is_sorted(), "{values:?}");
    upright(n, n, &vectors);
    let gram = multiply(n, n, n, &transpose(n, n, &vectors), &vectors);
    close::<T>(stable(n), &gram, &identity(n), &format!("v^T v, n = {n}"));
    let scaled: Vec<f64> =
        vectors.iter().enumerate().map(|(place, x)| x * values[place % n]).collect();
    let product = multiply(n, n, n, &scaled, &transpose(n, n, &vectors));
    close::<T>(stable(n), &product, &whole, &format!("v w v^T, n = {n}"));
    let alone = call(&Routine::Eigh { n, vectors: false }, &[&a]).double(0);
    close::<T>(stable(n), &alone, &values, &format!("values alone, n = {n}"));
}

fn decomposes<T: Number>() {
    // Order 150 tests divide and conquer, faer's method above order 128.
    for n in ORDERS.into_iter().chain([150]) {
        holds::<T>(n, random(n * n, n as u64));
        // The residuals must also be small for matrices with repeated eigenvalues: a projector, the identity and zeros.
        let ones = vec![T::of(1.0 / n as f64); n * n];
        holds(n, ones);
        holds(n, identity(n).into_iter().map(T::of).collect());
        holds(n, vec![T::of(0.0); n * n]);
        difficult(n, n).into_iter().for_each(|a: Vec<T>| holds(n, a));
    }
}

#[test]
fn vectors_and_values_give_the_matrix_back() {
    decomposes::<f32>();
    decomposes::<f64>();
}
