//! The residuals of tridiagonal solves must be small, also with exchanges of rows; a singular matrix must give infinities or NaN.

use crate::checks::{Number, ORDERS, call, close, double, multiply, random};
use tapeloom_routines::Routine;

fn solves<T: Number>() {
    for n in ORDERS {
        for columns in [1, 5] {
            // A small diagonal forces exchanges of rows; a random tridiagonal matrix is nonsingular.
            for diagonal in [0.01, 4.0] {
                let mut lower: Vec<T> = random(n, 1);
                let mut upper: Vec<T> = random(n, 2);
                let d: Vec<T> = random(n, 3);
                let d: Vec<T> = d.iter().map(|x| T::of(x.double() * diagonal)).collect();
                let b: Vec<T> = random(n * columns, 4);
                let mut a = vec![0.0; n * n];
                for i in 0..n {
                    a[i * n + i] = d[i].double();
                    if i > 0 {
                        a[i * n + i - 1] = lower[i].double();
                        a[(i - 1) * n + i] = upper[i - 1].double();
                    }
                }
                lower[0] = T::NAN;
                upper[n - 1] = T::NAN;
                let routine = Routine::TridiagonalSolve { n, columns };
                let x = call(&routine, &[&lower, &d, &upper, &b]).double(0);
                // The residual of a stable elimination must be small compared with |a| |x|, the norm of the matrix
                // times that of the solution.
                let product = multiply(n, n, columns, &a, &x);
                let scale = crate::checks::norm(&x).max(1.0);
                let scaled = |v: &[f64]| v.iter().map(|v| v / scale).collect::<Vec<_>>();
                let mut found = scaled(&product);
                let mut wanted = scaled(&double(&b));
                found.push(4.0);
                wanted.push(4.0);
                close::<T>(8.0, &found, &wanted, &format!("n = {n}, {diagonal}"));
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
fn rows_change_places_where_the_diagonal_is_zero() {
    let zeros = [0.0_f64; 4];
    let ones = [1.0_f64; 4];
    let b = [1.0_f64, 2.0, 3.0, 4.0];
    let routine = Routine::TridiagonalSolve { n: 4, columns: 1 };
    let x = call(&routine, &[&ones, &zeros, &ones, &b]).double(0);
    assert_eq!(x, [-2.0, 1.0, 4.0, 2.0]);
}

#[test]
fn a_singular_matrix_divides_by_zero() {
    let zeros = [0.0_f64; 3];
    let b = [1.0_f64, 0.0, -1.0];
    let routine = Routine::TridiagonalSolve { n: 3, columns: 1 };
    let x = call(&routine, &[&zeros, &zeros, &zeros, &b]).double(0);
    assert!(x.iter().all(|x| !x.is_finite()), "{x:?}");
}
