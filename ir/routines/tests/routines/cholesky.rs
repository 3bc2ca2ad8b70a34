//! The residuals of Cholesky factorisations must be small, and matrices without a factor must fail.

use crate::checks::{Number, ORDERS, call, close, double, multiply, positive, transpose};
use tapeloom_routines::Routine;

fn factors<T: Number>() {
    for n in ORDERS {
        let mut a: Vec<T> = positive(n, n as u64);
        let whole = double(&a);
        // The routine must not read elements above the diagonal.
        for i in 0..n {
            a[i * n + i + 1..(i + 1) * n].fill(T::NAN);
        }
        let l = call(&Routine::Cholesky { n }, &[&a]).double(0);
        for (place, entry) in l.iter().enumerate() {
            assert!(place % n <= place / n || *entry == 0.0, "{n}: {place}");
        }
        let product = multiply(n, n, n, &l, &transpose(n, n, &l));
        close::<T>(8.0, &product, &whole, &format!("l l^T, n = {n}"));
    }
}

#[test]
fn the_factor_times_its_transpose_is_the_matrix() {
    factors::<f32>();
    factors::<f64>();
}

fn indefinite<T: Number>() {
    for n in [1, 2, 4, 9, 65] {
        for row in [0, n / 2, n - 1] {
            let mut a: Vec<T> = positive(n, 3);
            a[row * n + row] = T::of(-1.0);
            let l = call(&Routine::Cholesky { n }, &[&a]).double(0);
            for (place, entry) in l.iter().enumerate() {
                let below = place % n <= place / n;
                assert!(if below { entry.is_nan() } else { *entry == 0.0 }, "{n}, {row}");
            }
        }
    }
}

#[test]
fn indefinite_matrices_give_nan_in_the_lower_triangle() {
    indefinite::<f32>();
    indefinite::<f64>();
}
