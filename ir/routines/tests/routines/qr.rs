//! The residuals of QR factorisations must be small, and their bases orthogonal.

use crate::checks::{
    Number, ORDERS, SHAPES, call, close, difficult, double, identity, multiply, random, transpose,
};
use tapeloom_routines::{QrBasis, Routine};

#[track_caller]
fn holds<T: Number>(m: usize, n: usize, basis: QrBasis, a: &[T]) {
    let found = call(&Routine::Qr { m, n, basis }, &[a]);
    let width = basis.rows_of_r(m, n);
    let (q, r) = (found.double(0), found.double(1));
    let what = format!("{m} x {n}, basis: {basis}");
    if basis == QrBasis::Thin {
        let alone = call(&Routine::Qr { m, n, basis: QrBasis::None }, &[a]).double(0);
        assert_eq!(alone, r, "{what}");
    }
    for (place, entry) in r.iter().enumerate() {
        let (i, j) = (place / n, place % n);
        assert!(i <= j || *entry == 0.0, "{what}: {i}, {j}");
        assert!(i != j || *entry >= 0.0, "{what}: {i}");
    }
    close::<T>(16.0, &multiply(m, width, n, &q, &r), &double(a), &what);
    let gram = multiply(width, m, width, &transpose(m, width, &q), &q);
    close::<T>(16.0, &gram, &identity(width), &what);
}

fn factors<T: Number>() {
    let squares = ORDERS.iter().map(|&n| (n, n));
    for (m, n) in squares.chain(SHAPES) {
        for basis in [QrBasis::Thin, QrBasis::Full] {
            let a: Vec<T> = random(m * n, (m + 3 * n) as u64);
            holds(m, n, basis, &a);
            // The residuals must also be small for a matrix of rank one and for the matrix of zeros.
            let product: Vec<T> = (0..m * n)
                .map(|place| T::of(((place / n % 5 + 1) * (place % n % 7 + 1)) as f64))
                .collect();
            holds(m, n, basis, &product);
            holds(m, n, basis, &vec![T::of(0.0); m * n]);
            difficult(m, n).iter().for_each(|a: &Vec<T>| holds(m, n, basis, a));
        }
    }
}

#[test]
fn the_product_of_orthogonal_and_triangular_factors_is_the_matrix() {
    factors::<f32>();
    factors::<f64>();
}

/// Tests that `a = q r` holds for matrices whose last columns differ from the first ones by only `distance`:
/// faer's own factorisation drops such columns.
fn almost_dependent<T: Number>(m: usize, distance: f64) {
    let n = 6;
    let mut a: Vec<T> = random(m * n, 2);
    for row in a.chunks_exact_mut(n) {
        for j in n / 2..n {
            row[j] = T::of(row[j - n / 2].double() + distance * row[j].double());
        }
    }
    for basis in [QrBasis::Thin, QrBasis::Full] {
        holds(m, n, basis, &a);
    }
    let r = call(&Routine::Qr { m, n, basis: QrBasis::Thin }, &[&a]).double(1);
    let length = (m as f64 / 3.0).sqrt();
    for i in n / 2..n {
        let ratio = r[i * n + i] / (distance * length);
        assert!((0.5..1.5).contains(&ratio), "{i}: {ratio}");
    }
}

#[test]
fn columns_that_almost_depend_on_others_are_kept() {
    almost_dependent::<f32>(1000, 1e-3);
    almost_dependent::<f64>(1000, 1e-12);
}
