//! Solves with a triangular matrix by substitution (Golub and Van Loan, section 3.1).

use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_unit_lower_triangular_in_place,
    solve_unit_upper_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{MatMut, MatRef, Par};

use crate::real::{Failed, Real};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::transpose;

/// The largest order for which plain substitution is faster than faer's blocked solve.
const SMALL: usize = 8;

/// The flags of a triangular solve: which triangle is read, whether it is transposed, and whether its diagonal is
/// ones.
#[derive(Clone, Copy)]
pub(crate) struct Triangle {
    pub(crate) lower: bool,
    pub(crate) transposed: bool,
    pub(crate) unit_diagonal: bool,
}

pub(crate) fn need<T: Real>(n: usize, columns: usize) -> ScratchSize {
    ScratchSize::new().array::<T>(n * columns)
}

/// Solves a triangular system `t[n, n], b[n, columns] -> x[n, columns]`. A NaN or an infinity propagates through
/// the substitution; it does not make the batch member fail.
pub(crate) fn run<T: Real>(
    n: usize,
    columns: usize,
    triangle: Triangle,
    [t, b]: [&[T]; 2],
    x: &mut [T],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    // faer multiplies by reciprocals of the diagonal. These overflow for the smallest numbers, lose digits for
    // the largest, and for zero do not distinguish 0/0 from 1/0: use `substitute` then.
    let extreme = !triangle.unit_diagonal && (0..n).any(|i| !t[i * n + i].divides());
    if extreme || n <= SMALL {
        x.copy_from_slice(b);
        substitute(n, columns, triangle, t, x);
        return Ok(());
    }
    // A single right-hand side has the same layout in row-major and column-major order, so it is not transposed.
    if columns == 1 {
        x.copy_from_slice(b);
        blocked(n, columns, triangle, t, x);
    } else {
        let turned = scratch.take::<T>(n * columns)?;
        transpose(n, columns, T::one(), b, turned);
        blocked(n, columns, triangle, t, turned);
        transpose(columns, n, T::one(), turned, x);
    }
    Ok(())
}

/// Solves with faer's blocked method, in place in `x`, which is column-major.
fn blocked<T: Real>(n: usize, columns: usize, triangle: Triangle, t: &[T], x: &mut [T]) {
    let x = MatMut::from_column_major_slice_mut(x, n, columns);
    let t = MatRef::from_row_major_slice(t, n, n);
    let t = if triangle.transposed { t.transpose() } else { t };
    match (triangle.lower != triangle.transposed, triangle.unit_diagonal) {
        (true, false) => solve_lower_triangular_in_place(t, x, Par::Seq),
        (true, true) => solve_unit_lower_triangular_in_place(t, x, Par::Seq),
        (false, false) => solve_upper_triangular_in_place(t, x, Par::Seq),
        (false, true) => solve_unit_upper_triangular_in_place(t, x, Par::Seq),
    }
}

/// Solves in place in `x`, which is row-major, row by row: `x[i] = (b[i] - sum_j t[i, j] x[j]) / t[i, i]` over
/// the rows `j` that are solved already.
fn substitute<T: Real>(n: usize, columns: usize, triangle: Triangle, t: &[T], x: &mut [T]) {
    let forward = triangle.lower != triangle.transposed;
    for step in 0..n {
        let i = if forward { step } else { n - 1 - step };
        // The rows that are solved already are those above row `i` (forward substitution) or those below it.
        let (row, solved, first) = if forward {
            let (solved, rest) = x.split_at_mut(i * columns);
            (&mut rest[..columns], &*solved, 0)
        } else {
            let (rest, solved) = x.split_at_mut((i + 1) * columns);
            (&mut rest[i * columns..], &*solved, i + 1)
        };
        for (offset, before) in solved.chunks_exact(columns.max(1)).enumerate() {
            let j = first + offset;
            let entry = if triangle.transposed { t[j * n + i] } else { t[i * n + j] };
            for (x, &before) in row.iter_mut().zip(before) {
                *x -= entry * before;
            }
        }
        if !triangle.unit_diagonal {
            let pivot = t[i * n + i];
            row.iter_mut().for_each(|x| *x /= pivot);
        }
    }
}
