//! The residuals of singular value decompositions must be small, also with repeated values.

use crate::checks::{
    Number, ORDERS, SHAPES, call, close, difficult, double, identity, multiply, random, stable,
    transpose,
};
use tapeloom_routines::{Routine, SvdVectors};

#[track_caller]
fn upright(rows: usize, width: usize, columns: &[f64]) {
    for j in 0..width {
        let column = columns.iter().skip(j).step_by(width).take(rows);
        let most = column.fold(0.0_f64, |most, &x| if x.abs() > most.abs() { x } else { most });
        assert!(most > 0.0, "column {j}");
    }
}

#[track_caller]
fn holds<T: Number>(m: usize, n: usize, a: &[T]) {
    let k = m.min(n);
    let of = |vectors| Routine::Svd { m, n, vectors };
    let alone = call(&of(SvdVectors::None), &[a]).double(0);
    for vectors in [SvdVectors::Thin, SvdVectors::Full] {
        let what = format!("{m} x {n}, {vectors:?}");
        let found = call(&of(vectors), &[a]);
        let (u, s, vt) = (found.double(0), found.double(1), found.double(2));
        let (left, right) = (u.len() / m, vt.len() / n);
        assert!(s.is_sorted_by(|a, b| a >= b) && s[k - 1] >= 0.0, "{what}: {s:?}");
        close::<T>(stable(m.max(n)), &alone, &s, &what);
        upright(m, left, &u);
        let gram = multiply(left, m, left, &transpose(m, left, &u), &u);
        close::<T>(stable(m.max(n)), &gram, &identity(left), &what);
        let gram = multiply(right, n, right, &vt, &transpose(right, n, &vt));
        close::<T>(stable(m.max(n)), &gram, &identity(right), &what);
        upright(n, right - k, &transpose(right - k, n, &vt[k * n..]));
        let scaled: Vec<f64> =
            (0..m * k).map(|place| u[place / k * left + place % k] * s[place % k]).collect();
        close::<T>(stable(m.max(n)), &multiply(m, k, n, &scaled, &vt[..k * n]), &double(a), &what);
    }
}

fn decomposes<T: Number>() {
    // Order 150 tests divide and conquer, faer's method above order 128.
    let squares = ORDERS.into_iter().chain([150]).map(|n| (n, n));
    for (m, n) in squares.chain(SHAPES) {
        holds::<T>(m, n, &random(m * n, (m + 3 * n) as u64));
        // The residuals must also be small for the identity (repeated singular values), a matrix of rank one, and
        // zeros.
        let entry = |i: usize, j: usize| f64::from(u8::from(i == j));
        let diagonal: Vec<T> = (0..m * n).map(|p| T::of(entry(p / n, p % n))).collect();
        holds(m, n, &diagonal);
        holds(m, n, &vec![T::of(1.0); m * n]);
        holds(m, n, &vec![T::of(0.0); m * n]);
        difficult(m, n).iter().for_each(|a: &Vec<T>| holds(m, n, a));
    }
}

#[test]
fn bases_and_values_give_the_matrix_back() {
    decomposes::<f32>();
    decomposes::<f64>();
}

/// Tests that `a = u diag(s) vt` holds for long and wide matrices whose last columns differ from the first ones
/// by only `distance`.
fn almost_dependent<T: Number>(distance: f64) {
    let (m, n) = (400, 6);
    let mut a: Vec<T> = random(m * n, 2);
    for row in a.chunks_exact_mut(n) {
        for j in n / 2..n {
            row[j] = T::of(row[j - n / 2].double() + distance * row[j].double());
        }
    }
    holds(m, n, &a);
    let wide: Vec<T> = transpose(m, n, &double(&a)).into_iter().map(T::of).collect();
    holds(n, m, &wide);
}

#[test]
fn columns_that_almost_depend_on_others_are_kept() {
    almost_dependent::<f32>(1e-3);
    almost_dependent::<f64>(1e-12);
}
