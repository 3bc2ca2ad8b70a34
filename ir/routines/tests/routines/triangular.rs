//! The residuals of triangular solves must be small, with every combination of flags; also zeros on the diagonal.

use crate::checks::{Number, ORDERS, call, close, double, multiply, random};
use tapeloom_routines::Routine;

#[derive(Clone, Copy)]
struct Triangle {
    lower: bool,
    transposed: bool,
    unit_diagonal: bool,
}

const FLAGS: [bool; 2] = [false, true];

fn all_triangles() -> impl Iterator<Item = Triangle> {
    FLAGS.into_iter().flat_map(|lower| {
        FLAGS.into_iter().flat_map(move |transposed| {
            FLAGS.into_iter().map(move |unit_diagonal| Triangle {
                lower,
                transposed,
                unit_diagonal,
            })
        })
    })
}

fn routine(n: usize, columns: usize, triangle: Triangle) -> Routine {
    Routine::TriangularSolve {
        n,
        columns,
        lower: triangle.lower,
        transposed: triangle.transposed,
        unit_diagonal: triangle.unit_diagonal,
    }
}

/// Returns the full matrix of the system that the flags describe.
fn whole(n: usize, triangle: Triangle, t: &[f64]) -> Vec<f64> {
    let entry = |i: usize, j: usize| {
        let (i, j) = if triangle.transposed { (j, i) } else { (i, j) };
        if i == j && triangle.unit_diagonal {
            1.0
        } else if i == j || (j < i) == triangle.lower {
            t[i * n + j]
        } else {
            0.0
        }
    };
    (0..n * n).map(|place| entry(place / n, place % n)).collect()
}

fn solves<T: Number>() {
    for n in ORDERS {
        for columns in [1, 3, 17] {
            for triangle in all_triangles() {
                let mut t: Vec<T> = random(n * n, 5);
                // Off-diagonal entries of about 1/n keep the solution about as large as `b`, so its error is easy to
                // bound.
                for (place, entry) in t.iter_mut().enumerate() {
                    let (i, j) = (place / n, place % n);
                    let read =
                        if i == j { !triangle.unit_diagonal } else { (j < i) == triangle.lower };
                    *entry = match (read, i == j) {
                        (false, _) => T::NAN,
                        (true, true) => T::of(entry.double() + 2.0),
                        (true, false) => T::of(entry.double() / n as f64),
                    };
                }
                let b: Vec<T> = random(n * columns, 6);
                let x = call(&routine(n, columns, triangle), &[&t, &b]).double(0);
                let product = multiply(n, n, columns, &whole(n, triangle, &double(&t)), &x);
                close::<T>(8.0, &product, &double(&b), &format!("t x, n = {n}"));
            }
        }
    }
}

#[test]
fn the_matrix_times_the_solution_is_the_right_hand_side() {
    solves::<f32>();
    solves::<f64>();
}

#[test]
fn a_zero_on_the_diagonal_divides() {
    let triangle = Triangle { lower: true, transposed: false, unit_diagonal: false };
    for n in [2, 40] {
        let mut t = vec![0.0_f64; n * n];
        for i in 0..n {
            t[i * n + i] = 2.0;
        }
        t[0] = 0.0;
        let mut b = vec![1.0; n];
        let x = call(&routine(n, 1, triangle), &[&t, &b]).double(0);
        assert_eq!(x[0], f64::INFINITY);
        b[0] = 0.0;
        let x = call(&routine(n, 1, triangle), &[&t, &b]).double(0);
        assert!(x[0].is_nan());
        // A subnormal pivot has no finite reciprocal, but the division by it must be exact.
        t[0] = 5e-324;
        b[0] = 1e-323;
        let x = call(&routine(n, 1, triangle), &[&t, &b]).double(0);
        assert_eq!(x[..2], [2.0, 0.5]);
    }
}
