//! The residuals of LU factorisations must be small, also for singular matrices.

use crate::checks::{Number, ORDERS, Results, SHAPES, call, close, double, multiply, random};
use tapeloom_routines::Routine;

/// Checks that `a[permutation] = l u`, and that the exchanges in `pivots` give the permutation.
#[track_caller]
fn holds<T: Number>(m: usize, n: usize, a: &[T], found: &Results<T>) {
    let k = m.min(n);
    let packed = found.double(0);
    let [pivots, permutation] = &found.indices[..] else {
        panic!("two index results");
    };
    let mut rows: Vec<i32> = (0..m as i32).collect();
    for (i, &pivot) in pivots.iter().enumerate() {
        assert!(pivot >= i as i32 && pivot < m as i32, "{pivots:?}");
        rows.swap(i, pivot as usize);
    }
    assert_eq!(&rows, permutation);
    let l = |i: usize, j: usize| match i.cmp(&j) {
        std::cmp::Ordering::Less => 0.0,
        std::cmp::Ordering::Equal => 1.0,
        std::cmp::Ordering::Greater => packed[i * n + j],
    };
    let u = |i: usize, j: usize| if i <= j { packed[i * n + j] } else { 0.0 };
    let l: Vec<f64> = (0..m * k).map(|place| l(place / k, place % k)).collect();
    let u: Vec<f64> = (0..k * n).map(|place| u(place / n, place % n)).collect();
    assert!(l.iter().all(|entry| entry.abs() <= 1.0 + 1e-6));
    let a = double(a);
    let moved: Vec<f64> =
        permutation.iter().flat_map(|&row| a[row as usize * n..][..n].to_vec()).collect();
    close::<T>(16.0, &multiply(m, k, n, &l, &u), &moved, &format!("l u, {m} x {n}"));
}

fn factors<T: Number>() {
    let squares = ORDERS.iter().map(|&n| (n, n));
    for (m, n) in squares.chain(SHAPES) {
        let a: Vec<T> = random(m * n, (m + 7 * n) as u64);
        holds(m, n, &a, &call(&Routine::Lu { m, n }, &[&a]));
    }
}

#[test]
fn the_product_of_the_factors_is_the_matrix_with_its_rows_exchanged() {
    factors::<f32>();
    factors::<f64>();
}

fn singular<T: Number>() {
    for (m, n) in [(2, 2), (5, 5), (40, 40), (65, 65), (40, 60), (60, 40)] {
        // Singular matrices must be factored without infinities: first a random one with a column of zeros, then one of
        // rank one, whose pivots after the first must be near 0.
        let mut columns: Vec<T> = random(m * n, 9);
        columns.iter_mut().skip(n / 2).step_by(n).for_each(|x| *x = T::of(0.0));
        let found = call(&Routine::Lu { m, n }, &[&columns]);
        assert!(found.finite(), "{m} x {n}");
        holds(m, n, &columns, &found);
        let product: Vec<T> = (0..m * n)
            .map(|place| T::of(((place / n % 5 + 1) * (place % n % 7 + 1)) as f64))
            .collect();
        let found = call(&Routine::Lu { m, n }, &[&product]);
        holds(m, n, &product, &found);
        let packed = found.double(0);
        let diagonal: Vec<f64> = (1..m.min(n)).map(|i| packed[i * n + i]).collect();
        assert!(diagonal.iter().all(|x| x.abs() < 1e-5), "{diagonal:?}");
    }
}

#[test]
fn a_singular_matrix_has_its_factors() {
    singular::<f32>();
    singular::<f64>();
}
