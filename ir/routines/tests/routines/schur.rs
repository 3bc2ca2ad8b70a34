//! The residuals of real Schur forms must be small, and their blocks in standard form.

use crate::checks::{
    Number, ORDERS, call, close, double, identity, multiply, random, stable, transpose,
};
use tapeloom_routines::Routine;

#[track_caller]
fn holds<T: Number>(n: usize, a: &[T]) {
    let found = call(&Routine::Schur { n }, &[a]);
    let (t, z) = (found.double(0), found.double(1));
    for i in 0..n {
        for j in 0..i {
            if j + 1 < i {
                assert_eq!(t[i * n + j], 0.0, "n = {n}: {i}, {j}");
            } else if t[i * n + j] != 0.0 {
                // A 2 x 2 block with conjugate eigenvalues must be in standard form: equal diagonal entries,
                // off-diagonal entries of opposite signs.
                assert_eq!(t[i * n + i], t[j * n + j], "n = {n}: {i}");
                let (low, high) = (t[i * n + j], t[j * n + i]);
                assert!(low.signum() == -high.signum(), "n = {n}: {low}, {high}");
                assert!(j == 0 || t[j * n + j - 1] == 0.0, "n = {n}: {i}");
            }
        }
    }
    let what = format!("n = {n}");
    let gram = multiply(n, n, n, &transpose(n, n, &z), &z);
    close::<T>(stable(n), &gram, &identity(n), &what);
    let product = multiply(n, n, n, &multiply(n, n, n, &z, &t), &transpose(n, n, &z));
    close::<T>(stable(n), &product, &double(a), &what);
}

fn decomposes<T: Number>() {
    for n in ORDERS {
        holds::<T>(n, &random(n * n, n as u64));
        holds(n, &vec![T::of(1.0); n * n]);
        holds(n, &vec![T::of(0.0); n * n]);
        // The residuals must also be small for a cyclic shift, which QR iterations without shifts do not change, and
        // for a Jordan block.
        let next = |i: usize, j: usize| u8::from(j == (i + 1) % n);
        let cycle: Vec<T> =
            (0..n * n).map(|place| T::of(f64::from(next(place / n, place % n)))).collect();
        holds(n, &cycle);
        let above = |i: usize, j: usize| f64::from(u8::from(j == i + 1));
        let jordan: Vec<T> = (0..n * n).map(|place| T::of(above(place / n, place % n))).collect();
        holds(n, &jordan);
        let turned: Vec<T> = (0..n * n).map(|place| T::of(above(place % n, place / n))).collect();
        holds(n, &turned);
    }
}

#[test]
fn the_form_in_its_basis_is_the_matrix() {
    decomposes::<f32>();
    decomposes::<f64>();
}
