//! Hostile inputs: every routine on NaN, infinity, numbers near the ends of the range, zeros, singular
//! matrices, repeated eigenvalues and the smallest sizes, with the expected outcome of each.

use crate::checks::{
    Number, Results, call, close, double, identity, multiply, positive, random, stable, transpose,
};
use tapeloom_routines::{Element, QrBasis, Routine, SvdVectors};

const FLAGS: [bool; 2] = [false, true];

/// Returns every routine with every combination of flags, for square matrices of order `n` and one wide and one
/// tall shape.
pub(crate) fn routines(n: usize) -> Vec<Routine> {
    let mut all = vec![
        Routine::Cholesky { n },
        Routine::TridiagonalSolve { n, columns: 3 },
        Routine::Schur { n },
        Routine::RealFft { rows: 1, n, columns: 1 },
        Routine::InverseRealFft { rows: 1, n, columns: 1 },
    ];
    for flag in FLAGS {
        for lower in FLAGS {
            for unit_diagonal in FLAGS {
                all.push(Routine::TriangularSolve {
                    n,
                    columns: 3,
                    lower,
                    transposed: flag,
                    unit_diagonal,
                });
            }
        }
        all.push(Routine::Eigh { n, vectors: flag });
        all.push(Routine::Eig { n, vectors: flag });
        all.push(Routine::Fft { rows: 1, n, columns: 1, inverse: flag });
    }
    for (m, n) in [(n, n), (n, 2 * n + 1), (2 * n + 1, n)] {
        all.push(Routine::Lu { m, n });
        all.extend(QrBasis::ALL.map(|basis| Routine::Qr { m, n, basis }));
        for vectors in [SvdVectors::None, SvdVectors::Thin, SvdVectors::Full] {
            all.push(Routine::Svd { m, n, vectors });
        }
    }
    all
}

/// Returns the number of entries of half a spectrum of `n` real numbers.
fn half(n: usize) -> usize {
    if n == 0 { 0 } else { n / 2 + 1 }
}

/// Returns operands on which the routine succeeds with ordinary results.
pub(crate) fn benign<T: Number>(routine: &Routine) -> Vec<Vec<T>> {
    let shapes = routine.operands();
    let mut operands: Vec<Vec<T>> = shapes
        .iter()
        .zip(1..)
        .map(|(array, seed)| random(array.shape.iter().product(), seed))
        .collect();
    match *routine {
        Routine::Cholesky { n } => operands[0] = positive(n, 1),
        Routine::TriangularSolve { n, .. } => {
            for (place, entry) in operands[0].iter_mut().enumerate() {
                let diagonal = if place / n == place % n { 2.0 } else { 0.0 };
                *entry = T::of(entry.double() / n as f64 + diagonal);
            }
        }
        Routine::TridiagonalSolve { .. } => {
            for entry in &mut operands[1] {
                *entry = T::of(entry.double() + 4.0);
            }
        }
        _ => {}
    }
    operands
}

/// Returns whether the routine reads the element at index `place` of an operand.
fn reads(routine: &Routine, operand: usize, place: usize) -> bool {
    match *routine {
        Routine::Cholesky { n } | Routine::Eigh { n, .. } => place % n <= place / n,
        Routine::TriangularSolve { n, lower, unit_diagonal, .. } => {
            let (i, j) = (place / n.max(1), place % n.max(1));
            operand == 1 || (i == j && !unit_diagonal) || (i != j && (j < i) == lower)
        }
        Routine::TridiagonalSolve { n, .. } => {
            (operand, place) != (0, 0) && (operand, place) != (2, n - 1)
        }
        Routine::InverseRealFft { rows: 1, n, columns: 1 } => {
            place != half(n) && (n % 2 == 1 || place != 2 * half(n) - 1)
        }
        _ => true,
    }
}

fn run<T: Number>(routine: &Routine, operands: &[Vec<T>]) -> Results<T> {
    let operands: Vec<&[T]> = operands.iter().map(|operand| &operand[..]).collect();
    call(routine, &operands)
}

/// Returns whether the routine has failed: then all results are NaN or, for a Cholesky factor, all numbers of the lower
/// triangle.
fn failed<T: Number>(routine: &Routine, results: &Results<T>) -> bool {
    match *routine {
        Routine::Cholesky { n } => {
            let l = results.double(0);
            let entry = |(place, x): (usize, &f64)| {
                if place % n <= place / n { x.is_nan() } else { *x == 0.0 }
            };
            l.iter().enumerate().all(entry)
        }
        _ => results.failed(),
    }
}

fn same<T: Number>(a: &Results<T>, b: &Results<T>) -> bool {
    a.floats == b.floats && a.indices == b.indices
}

fn not_finite<T: Number>() {
    for routine in [1, 4, 5, 65, 80].into_iter().flat_map(routines) {
        let operands: Vec<Vec<T>> = benign(&routine);
        let usual = run(&routine, &operands);
        assert!(usual.finite(), "{routine:?}");
        for operand in 0..operands.len() {
            let length = operands[operand].len();
            // Spoil every position of a small array, and some positions of a large one, including the first and
            // the last.
            let places = (0..length).step_by(1 + length / 16).chain([length - 1]);
            for place in places {
                for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let mut operands = operands.clone();
                    operands[operand][place] = T::of(value);
                    let results = run(&routine, &operands);
                    let what = format!("{routine:?}, operand {operand}, {place}: {value}");
                    let read = reads(&routine, operand, place);
                    match routine {
                        // Substitution propagates the bad number to later rows, where a division by infinity
                        // gives 0, so not all results are NaN.
                        Routine::TriangularSolve { .. } if read => {
                            assert!(!value.is_nan() || !results.finite(), "{what}");
                        }
                        _ if read => assert!(failed(&routine, &results), "{what}"),
                        _ => assert!(same(&results, &usual), "{what}"),
                    }
                }
            }
        }
    }
}

#[test]
fn nan_and_infinity_where_read_fail_the_member_and_elsewhere_change_nothing() {
    not_finite::<f32>();
    not_finite::<f64>();
}

/// Returns groups of operands to scale by one factor, and for each result the power of that factor by which it
/// then changes.
fn degrees(routine: &Routine) -> Vec<(&'static [usize], Vec<f64>)> {
    match routine {
        Routine::Cholesky { .. } => vec![(&[0], vec![0.5])],
        Routine::TriangularSolve { unit_diagonal: true, .. } => vec![(&[1], vec![1.0])],
        Routine::TriangularSolve { .. } => vec![(&[0], vec![-1.0]), (&[1], vec![1.0])],
        Routine::TridiagonalSolve { .. } => vec![(&[0, 1, 2], vec![-1.0]), (&[3], vec![1.0])],
        // The two LU factors, packed in one result, scale by different powers and are compared separately.
        Routine::Lu { .. } => vec![(&[0], vec![0.0])],
        Routine::Qr { basis: QrBasis::None, .. } => vec![(&[0], vec![1.0])],
        Routine::Qr { .. } => vec![(&[0], vec![0.0, 1.0])],
        Routine::Eigh { .. } => vec![(&[0], vec![1.0, 0.0])],
        Routine::Svd { vectors: SvdVectors::None, .. } => vec![(&[0], vec![1.0])],
        Routine::Svd { .. } => vec![(&[0], vec![0.0, 1.0, 0.0])],
        Routine::Eig { .. } => vec![(&[0], vec![1.0, 1.0, 0.0, 0.0])],
        Routine::Schur { .. } => vec![(&[0], vec![1.0, 0.0])],
        Routine::Fft { .. } | Routine::RealFft { .. } | Routine::InverseRealFft { .. } => {
            vec![(&[0], vec![1.0])]
        }
    }
}

/// Tests that inputs times `2^exponent` give the ordinary results times a power of that factor. Above order 128
/// the method is divide and conquer, whose thresholds in faer are not relative to the input.
fn scaled<T: Number>(exponent: i32) {
    let factor = 2_f64.powi(exponent);
    for routine in [1, 4, 65, 80, 150].into_iter().flat_map(routines) {
        let operands: Vec<Vec<T>> = benign(&routine);
        let usual = run(&routine, &operands);
        for (which, powers) in degrees(&routine) {
            let mut operands = operands.clone();
            for &operand in which {
                for entry in &mut operands[operand] {
                    *entry = T::of(entry.double() * factor);
                }
            }
            let results = run(&routine, &operands);
            assert_eq!(results.indices, usual.indices, "{routine:?}");
            for (place, power) in powers.into_iter().enumerate().take(results.floats.len()) {
                let mut found = results.double(place);
                if let Routine::Lu { n, .. } = routine {
                    for (place, entry) in found.iter_mut().enumerate() {
                        *entry /= if place / n <= place % n { factor } else { 1.0 };
                    }
                } else {
                    let scale = factor.powf(power);
                    found.iter_mut().for_each(|entry| *entry /= scale);
                }
                let what = format!("{routine:?}, 2^{exponent}, result {place}");
                close::<T>(1e3, &found, &usual.double(place), &what);
            }
        }
    }
}

#[test]
fn huge_and_tiny_inputs_scale_the_results() {
    // Scale by powers of two near 1e30 and 1e-30 for f32, near 1e300 and 1e-300 for f64.
    scaled::<f32>(99);
    scaled::<f32>(-99);
    scaled::<f64>(996);
    scaled::<f64>(-996);
    // Scale by powers of two so moderate that no square overflows or underflows.
    scaled::<f32>(-17);
    scaled::<f64>(-40);
}

/// Tests operands of zeros: factors and values must be zero, bases orthonormal, and singular systems and Cholesky
/// factorisations must fail.
fn zeros<T: Number>() {
    for routine in [1, 4, 65].into_iter().flat_map(routines) {
        let mut operands: Vec<Vec<T>> = benign(&routine);
        operands.iter_mut().for_each(|operand| operand.fill(T::of(0.0)));
        let results = run(&routine, &operands);
        let zero = |place: usize| results.double(place).iter().all(|x| *x == 0.0);
        let what = format!("{routine:?}");
        match routine {
            Routine::Cholesky { .. } => assert!(failed(&routine, &results), "{what}"),
            Routine::TriangularSolve { unit_diagonal: false, .. }
            | Routine::TridiagonalSolve { .. } => assert!(results.failed(), "{what}"),
            Routine::Lu { m, n } => {
                let counts = |length: usize| (0..length as i32).collect::<Vec<_>>();
                assert!(zero(0), "{what}");
                assert_eq!(results.indices, [counts(m.min(n)), counts(m)], "{what}");
            }
            Routine::Qr { m: _, n: _, basis: QrBasis::None } => assert!(zero(0), "{what}"),
            Routine::Qr { m, n, basis } => {
                assert!(zero(1), "{what}");
                orthonormal::<T>(m, basis.rows_of_r(m, n), &results.double(0), &what);
            }
            Routine::Eigh { n, vectors } => {
                assert!(zero(0), "{what}");
                if vectors {
                    orthonormal::<T>(n, n, &results.double(1), &what);
                }
            }
            Routine::Svd { m, n, vectors } => {
                if vectors == SvdVectors::None {
                    assert!(zero(0), "{what}");
                } else {
                    assert!(zero(1), "{what}");
                    let (u, vt) = (results.double(0), results.double(2));
                    let (left, right) = (u.len() / m, vt.len() / n);
                    orthonormal::<T>(m, left, &u, &what);
                    orthonormal::<T>(n, right, &transpose(right, n, &vt), &what);
                }
            }
            Routine::Eig { n, vectors } => {
                assert!(zero(0) && zero(1), "{what}");
                if vectors {
                    assert_eq!(results.double(2), identity(n), "{what}");
                    assert!(zero(3), "{what}");
                }
            }
            Routine::Schur { n } => {
                assert!(zero(0), "{what}");
                assert_eq!(results.double(1), identity(n), "{what}");
            }
            Routine::TriangularSolve { unit_diagonal: true, .. }
            | Routine::Fft { .. }
            | Routine::RealFft { .. }
            | Routine::InverseRealFft { .. } => assert!(zero(0), "{what}"),
        }
    }
}

#[track_caller]
fn orthonormal<T: Number>(m: usize, n: usize, q: &[f64], what: &str) {
    let gram = multiply(n, m, n, &transpose(m, n, q), q);
    close::<T>(stable(m), &gram, &identity(n), what);
}

#[test]
fn zeros_have_a_stated_outcome() {
    zeros::<f32>();
    zeros::<f64>();
}

/// Tests the matrix of ones: it has rank one, and all its eigenvalues but one must be zero up to rounding.
fn singular<T: Number>() {
    for n in [2, 4, 65, 80] {
        let ones = vec![T::of(1.0); n * n];
        let root = (n as f64).sqrt();
        for routine in routines(n) {
            let square = routine.operands().iter().all(|array| array.shape == [n, n]);
            let operands = vec![ones.clone()];
            let results = || run(&routine, &operands);
            let what = format!("{routine:?}");
            match routine {
                Routine::Cholesky { .. } => assert!(failed(&routine, &results()), "{what}"),
                Routine::Lu { .. } if square => {
                    let mut wanted = vec![0.0; n * n];
                    for i in 0..n {
                        (wanted[i], wanted[i * n]) = (1.0, 1.0);
                    }
                    assert_eq!(results().double(0), wanted, "{what}");
                }
                Routine::Qr { basis, .. } if square => {
                    let r = results().double(if basis == QrBasis::None { 0 } else { 1 });
                    let mut wanted = vec![0.0; n * n];
                    wanted[..n].fill(root);
                    close::<T>(stable(n), &r, &wanted, &what);
                }
                Routine::Eigh { vectors, .. } => {
                    let found = results();
                    let mut wanted = vec![0.0; n];
                    wanted[n - 1] = n as f64;
                    close::<T>(stable(n), &found.double(0), &wanted, &what);
                    if vectors {
                        // The eigenvector of the largest eigenvalue is unique: all components are equal.
                        let vector: Vec<f64> =
                            found.double(1).into_iter().skip(n - 1).step_by(n).collect();
                        close::<T>(stable(n), &vector, &vec![1.0 / root; n], &what);
                    }
                }
                Routine::Svd { vectors, .. } if square => {
                    let s = results().double(usize::from(vectors != SvdVectors::None));
                    let mut wanted = vec![0.0; n];
                    wanted[0] = n as f64;
                    close::<T>(stable(n), &s, &wanted, &what);
                }
                Routine::Eig { .. } | Routine::Schur { .. } => {
                    assert!(results().finite(), "{what}");
                }
                Routine::TriangularSolve {
                    lower,
                    transposed,
                    unit_diagonal: false,
                    columns,
                    ..
                } => {
                    // Put one zero on the diagonal, in the row that the substitution solves last.
                    let last = if lower != transposed { n - 1 } else { 0 };
                    let mut t = ones.clone();
                    t[last * n + last] = T::of(0.0);
                    let b = random(n * columns, 5);
                    let x = run(&routine, &[t, b]).double(0);
                    for (place, x) in x.iter().enumerate() {
                        assert_eq!(x.is_finite(), place / columns != last, "{what}: {place}");
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn singular_matrices_have_a_stated_outcome() {
    singular::<f32>();
    singular::<f64>();
}

/// Tests the identity matrix: all eigenvalues and singular values must be one.
fn repeated<T: Number>() {
    // The orders stay below 128: above it, divide and conquer returns the vectors in another order. The tests of
    // residuals include an order above 128.
    for n in [1, 4, 65, 80] {
        let one = identity(n);
        let operands: Vec<Vec<T>> = vec![one.iter().copied().map(T::of).collect()];
        let alike = |routine: Routine, wanted: &[&[f64]]| {
            let results = run(&routine, &operands);
            for (place, wanted) in wanted.iter().enumerate() {
                close::<T>(stable(n), &results.double(place), wanted, &format!("{routine:?}"));
            }
        };
        let ones = vec![1.0; n];
        let zero = vec![0.0; n];
        let none = vec![0.0; n * n];
        alike(Routine::Cholesky { n }, &[&one]);
        alike(Routine::Lu { m: n, n }, &[&one]);
        alike(Routine::Qr { m: n, n, basis: QrBasis::None }, &[&one]);
        for basis in [QrBasis::Thin, QrBasis::Full] {
            alike(Routine::Qr { m: n, n, basis }, &[&one, &one]);
        }
        alike(Routine::Eigh { n, vectors: true }, &[&ones, &one]);
        alike(Routine::Eig { n, vectors: true }, &[&ones, &zero, &one, &none]);
        alike(Routine::Schur { n }, &[&one, &one]);
        for vectors in [SvdVectors::Thin, SvdVectors::Full] {
            alike(Routine::Svd { m: n, n, vectors }, &[&one, &ones, &one]);
        }
    }
}

#[test]
fn repeated_eigenvalues_have_a_stated_outcome() {
    repeated::<f32>();
    repeated::<f64>();
}

/// Tests arrays without rows, columns or right-hand sides: orthogonal bases must be the identity, and all other
/// results empty.
fn empty<T: Number>() {
    let mut all = routines(0);
    for (m, n) in [(0, 3), (3, 0)] {
        all.push(Routine::Lu { m, n });
        all.extend(QrBasis::ALL.map(|basis| Routine::Qr { m, n, basis }));
        for vectors in [SvdVectors::None, SvdVectors::Thin, SvdVectors::Full] {
            all.push(Routine::Svd { m, n, vectors });
        }
    }
    for n in [0, 1, 4, 65] {
        all.push(Routine::TridiagonalSolve { n, columns: 0 });
        for flag in FLAGS {
            all.push(Routine::TriangularSolve {
                n,
                columns: 0,
                lower: flag,
                transposed: false,
                unit_diagonal: !flag,
            });
        }
    }
    for routine in all {
        let results = run::<T>(&routine, &benign(&routine));
        let arrays = routine.results();
        let floats = arrays.iter().filter(|array| array.element == Element::Float);
        for (place, array) in floats.enumerate() {
            let found = results.double(place);
            if let ([m, n], false) = (&array.shape[..], found.is_empty()) {
                assert_eq!(m, n, "{routine:?}");
                assert_eq!(found, identity(*n), "{routine:?}");
            }
        }
        let rows: Vec<i32> = (0..3).collect();
        assert!(results.indices.iter().all(|indices| rows.starts_with(indices)), "{routine:?}");
    }
}

#[test]
fn empty_arrays_give_identities_and_nothing() {
    empty::<f32>();
    empty::<f64>();
}

/// Tests 1 x 1 matrices of the number `x` against the closed form, for example `q = sign x` and `r = |x|`.
fn single<T: Number>() {
    for x in [3.0, -2.0] {
        let is = |routine: Routine, wanted: &[f64]| {
            let results = run::<T>(&routine, &[vec![T::of(x)]]);
            let found: Vec<f64> =
                (0..results.floats.len()).flat_map(|place| results.double(place)).collect();
            close::<T>(2.0, &found, wanted, &format!("{routine:?}"));
        };
        let n = 1;
        if x > 0.0 {
            is(Routine::Cholesky { n }, &[x.sqrt()]);
        }
        is(Routine::Lu { m: n, n }, &[x]);
        is(Routine::Qr { m: n, n, basis: QrBasis::Full }, &[x.signum(), x.abs()]);
        is(Routine::Eigh { n, vectors: true }, &[x, 1.0]);
        let vectors = SvdVectors::Full;
        is(Routine::Svd { m: n, n, vectors }, &[1.0, x.abs(), x.signum()]);
        is(Routine::Eig { n, vectors: true }, &[x, 0.0, 1.0, 0.0]);
        is(Routine::Schur { n }, &[x, 1.0]);
        is(Routine::RealFft { rows: 1, n, columns: 1 }, &[x, 0.0]);
    }
}

#[test]
fn one_number_is_factored() {
    single::<f32>();
    single::<f64>();
}

#[test]
fn operands_in_double_precision_are_exact() {
    // Tests the generator and the conversion that the other tests use.
    let numbers: Vec<f64> = random(1000, 1);
    assert!(numbers.iter().all(|x| x.abs() < 1.0));
    let singles: Vec<f32> = random(1000, 1);
    assert!(numbers.iter().zip(double(&singles)).all(|(a, b)| (a - b).abs() < 1e-7));
}
