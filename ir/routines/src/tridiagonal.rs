//! Solves with a tridiagonal matrix by Gaussian elimination with partial pivoting, as LAPACK's
//! `gtsv`: an exchange of neighbouring rows fills a second superdiagonal, and multipliers stay at
//! most 1 in absolute value.

use crate::real::{Failed, Real, all_finite};
use crate::scratch::{Need, Scratch};

pub(crate) fn need<T: Real>(n: usize) -> Need {
    Need::new().array::<T>(n).array::<T>(n).array::<T>(n)
}

/// `lower[n], diagonal[n], upper[n], b[n, columns] -> x[n, columns]`.
pub(crate) fn run<T: Real>(
    n: usize,
    columns: usize,
    [lower, diagonal, upper, b]: [&[T]; 4],
    x: &mut [T],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    if n == 0 {
        return Ok(());
    }
    // The first entry below and the last above the diagonal lie outside the matrix.
    let read = [&lower[1..], diagonal, &upper[..n - 1], b];
    if !read.iter().all(|values| all_finite(values)) {
        return Err(Failed);
    }
    let d = scratch.take::<T>(n)?;
    let u = scratch.take::<T>(n)?;
    let second = scratch.take::<T>(n)?;
    d.copy_from_slice(diagonal);
    u[..n - 1].copy_from_slice(&upper[..n - 1]);
    u[n - 1] = T::zero();
    second.fill(T::zero());
    x.copy_from_slice(b);

    for i in 0..n - 1 {
        let (above, below) = x[i * columns..(i + 2) * columns].split_at_mut(columns);
        let low = lower[i + 1];
        if d[i].abs() >= low.abs() {
            // A column of zeros is singular; the division at the end tells.
            let multiplier = if low == T::zero() { low } else { low / d[i] };
            d[i + 1] -= multiplier * u[i];
            for (below, above) in below.iter_mut().zip(above) {
                *below -= multiplier * *above;
            }
        } else {
            let multiplier = d[i] / low;
            d[i] = low;
            let next = d[i + 1];
            d[i + 1] = u[i] - multiplier * next;
            u[i] = next;
            second[i] = u[i + 1];
            u[i + 1] = -multiplier * u[i + 1];
            for (below, above) in below.iter_mut().zip(above) {
                let old = *above;
                *above = *below;
                *below = old - multiplier * *below;
            }
        }
    }
    for i in (0..n).rev() {
        let (rows, solved) = x.split_at_mut((i + 1) * columns);
        let row = &mut rows[i * columns..];
        let mut subtract = |entry: T, solved: &[T]| {
            for (x, &solved) in row.iter_mut().zip(solved) {
                *x -= entry * solved;
            }
        };
        if i + 1 < n {
            subtract(u[i], &solved[..columns]);
        }
        if i + 2 < n && second[i] != T::zero() {
            subtract(second[i], &solved[columns..2 * columns]);
        }
        row.iter_mut().for_each(|x| *x /= d[i]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::checks::{Number, ORDERS, call, close, double, multiply, random};
    use crate::routine::Routine;

    fn solves<T: Number>() {
        for n in ORDERS {
            for columns in [1, 5] {
                // Small diagonals make rows change places; a random matrix is nonsingular.
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
                    // The residual of a stable elimination is small beside |a| |x|.
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
}
