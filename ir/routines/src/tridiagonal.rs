//! Solves with a tridiagonal matrix by Gaussian elimination with partial pivoting, as LAPACK's `gtsv`: an
//! exchange of neighbouring rows fills a second superdiagonal, and multipliers are at most 1 in absolute value.

use crate::real::{Failed, Real, all_finite};
use crate::scratch::{Scratch, ScratchSize};

pub(crate) fn need<T: Real>(n: usize) -> ScratchSize {
    ScratchSize::new().array::<T>(n).array::<T>(n).array::<T>(n)
}

/// Solves a tridiagonal system: `lower[n], diagonal[n], upper[n], b[n, columns] -> x[n, columns]`.
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
    // Check only the entries that are read: `lower[0]` and `upper[n - 1]` lie outside the matrix.
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
            // If the pivot candidates of a column are both zero, the matrix is singular: do not divide here; the
            // division at the end then gives infinity or NaN.
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
