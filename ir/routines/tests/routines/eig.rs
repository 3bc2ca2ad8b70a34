//! The residuals of eigenvalue decompositions of real matrices must be small.

use crate::checks::{Number, ORDERS, call, close, double, multiply, norm, random, stable};
use tapeloom_routines::Routine;

#[track_caller]
fn holds<T: Number>(n: usize, a: &[T]) {
    let found = call(&Routine::Eig { n, vectors: true }, &[a]);
    let [re, im, v_re, v_im] = [0, 1, 2, 3].map(|place| found.double(place));
    let what = format!("n = {n}");
    let alone = call(&Routine::Eig { n, vectors: false }, &[a]);
    assert_eq!([alone.double(0), alone.double(1)], [re.clone(), im.clone()]);
    // Eigenvectors `v` and eigenvalues `w` must satisfy `a v = v w`; the errors of the real and imaginary parts
    // are relative to `|a| |v|`.
    let a = double(a);
    let scale = norm(&a).max(f64::MIN_POSITIVE);
    let (left_re, left_im) = (multiply(n, n, n, &a, &v_re), multiply(n, n, n, &a, &v_im));
    let product = |place: usize| {
        let j = place % n;
        [v_re[place] * re[j] - v_im[place] * im[j], v_re[place] * im[j] + v_im[place] * re[j]]
    };
    for place in 0..n * n {
        let [x, y] = product(place);
        let error = (left_re[place] - x).abs().max((left_im[place] - y).abs());
        assert!(error <= stable(n) * T::EPSILON * scale, "{what}: {error}");
    }
    for j in 0..n {
        let column: Vec<[f64; 2]> = (0..n).map(|i| [v_re[i * n + j], v_im[i * n + j]]).collect();
        let size = |entry: &[f64; 2]| entry[0].hypot(entry[1]);
        close::<T>(stable(n), &[norm(&column.concat())], &[1.0], &what);
        let most = column.iter().map(size).fold(0.0, f64::max);
        let real = |entry: &&[f64; 2]| entry[1] == 0.0 && entry[0] > 0.0;
        let found = column.iter().filter(real).map(size).fold(0.0, f64::max);
        close::<T>(8.0, &[found], &[most], &what);
        if im[j] > 0.0 {
            assert_eq!((re[j + 1], im[j + 1]), (re[j], -im[j]), "{what}");
            let conjugate = |i: usize| v_im[i * n + j] == -v_im[i * n + j + 1];
            assert!((0..n).all(conjugate), "{what}");
        }
    }
    close::<T>(
        stable(n),
        &[re.iter().sum::<f64>() + 4.0 * scale],
        &[(0..n).map(|i| a[i * n + i]).sum::<f64>() + 4.0 * scale],
        &what,
    );
}

fn decomposes<T: Number>() {
    for n in ORDERS {
        holds::<T>(n, &random(n * n, n as u64));
        holds(n, &vec![T::of(1.0); n * n]);
        holds(n, &vec![T::of(0.0); n * n]);
        // The residuals must also be small for a cyclic shift, whose eigenvalues are the roots of unity, and for a
        // Jordan block, whose eigenvectors are all parallel.
        let entry = |next: bool| T::of(f64::from(u8::from(next)));
        let cycle: Vec<T> =
            (0..n * n).map(|place| entry(place % n == (place / n + 1) % n)).collect();
        holds(n, &cycle);
        let jordan: Vec<T> = (0..n * n).map(|place| entry(place % n == place / n + 1)).collect();
        holds(n, &jordan);
    }
    // The residuals must also be small for sparse matrices, which have many eigenvalues close to zero, some of them
    // conjugate.
    for case in 1..20 {
        let n = 11;
        let places: Vec<f64> = random(n * n, case);
        let mut sparse: Vec<T> = random(n * n, 100 + case);
        for (entry, place) in sparse.iter_mut().zip(places) {
            *entry = if place > 0.75 { *entry } else { T::of(0.0) };
        }
        holds(n, &sparse);
    }
    // The residual must also be small for this matrix: a block with conjugate eigenvalues, beside another eigenvalue
    // that differs from them by less than an epsilon of the norm.
    let e = T::EPSILON;
    let block = [
        [20.0 * e, 0.023, -0.24, 0.1],
        [-0.002 * e, 20.0 * e, -0.056, 0.2],
        [0.0, 0.0, -50.0 * e, 0.3],
        [0.0, 0.0, 0.0, 1.0],
    ];
    holds::<T>(4, &block.concat().into_iter().map(T::of).collect::<Vec<_>>());
}

#[test]
fn the_matrix_multiplies_its_vectors_by_their_values() {
    decomposes::<f32>();
    decomposes::<f64>();
}
