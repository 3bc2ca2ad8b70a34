//! Copies between row-major arrays and the column-major arrays that faer is fast on.
//!
//! A transposing copy of whole rows touches one cache line per element on the other side. These copies use
//! tiles of 8 x 8 numbers, which are read and written by rows of eight.

use crate::real::{Failed, Real, all_finite};

const TILE: usize = 8;

/// A view of rows of numbers; row `i` begins at element `i * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T> {
    pub(crate) numbers: &'a [T],
    pub(crate) stride: usize,
}

/// Writes `to[j, i] = factor from[i, j]` for `from[rows, columns]`, both row-major. So it converts a row-major
/// array to column-major order, and back if `rows` and `columns` are exchanged.
pub(crate) fn transpose<T: Real>(rows: usize, columns: usize, factor: T, from: &[T], to: &mut [T]) {
    let from = Rows { numbers: from, stride: columns };
    transpose_part(rows, columns, factor, from, to);
}

/// Transposes the first `rows` rows and `columns` columns of a larger array.
pub(crate) fn transpose_part<T: Real>(
    rows: usize,
    columns: usize,
    factor: T,
    from: Rows<'_, T>,
    to: &mut [T],
) {
    for i in (0..rows).step_by(TILE) {
        for j in (0..columns).step_by(TILE) {
            tile([rows, columns], [i, j], factor, from, to);
        }
    }
}

/// Transposes the tiles (8 x 8 numbers) of `from[n, n]` that touch the lower triangle, and multiplies them by `factor`.
/// Entries of `to` in other tiles are unchanged.
pub(crate) fn transpose_lower<T: Real>(n: usize, factor: T, from: &[T], to: &mut [T]) {
    let from = Rows { numbers: from, stride: n };
    for i in (0..n).step_by(TILE) {
        for j in (0..=i).step_by(TILE) {
            tile([n, n], [i, j], factor, from, to);
        }
    }
}

/// Transposes the tiles (8 x 8 numbers) of `from[n, n]` that touch the upper triangle. Entries of `to` in other tiles
/// are unchanged.
pub(crate) fn transpose_upper<T: Real>(n: usize, from: &[T], to: &mut [T]) {
    let from = Rows { numbers: from, stride: n };
    for i in (0..n).step_by(TILE) {
        for j in (i..n).step_by(TILE) {
            tile([n, n], [i, j], T::one(), from, to);
        }
    }
}

/// Transposes one tile (at most 8 x 8 numbers), which starts at row `i` and column `j`.
#[inline]
fn tile<T: Real>(
    [rows, columns]: [usize; 2],
    [i, j]: [usize; 2],
    factor: T,
    from: Rows<'_, T>,
    to: &mut [T],
) {
    if i + TILE <= rows && j + TILE <= columns {
        let mut held = [[T::zero(); TILE]; TILE];
        for (r, held) in held.iter_mut().enumerate() {
            let start = (i + r) * from.stride + j;
            held.copy_from_slice(&from.numbers[start..start + TILE]);
        }
        for c in 0..TILE {
            let start = (j + c) * rows + i;
            for (to, held) in to[start..start + TILE].iter_mut().zip(&held) {
                *to = held[c] * factor;
            }
        }
    } else {
        for r in i..rows.min(i + TILE) {
            for c in j..columns.min(j + TILE) {
                to[c * rows + r] = from.numbers[r * from.stride + c] * factor;
            }
        }
    }
}

/// Writes the identity matrix into a square or rectangular array of `width` columns.
pub(crate) fn set_identity<T: Real>(width: usize, a: &mut [T]) {
    a.fill(T::zero());
    for (i, row) in a.chunks_exact_mut(width.max(1)).enumerate().take(width) {
        row[i] = T::one();
    }
}

/// Returns whether the vector's component of largest absolute value (the first of several) is negative, so that
/// the vector must be negated.
pub(crate) fn points_down<T: Real>(vector: &[T]) -> bool {
    let mut most = T::zero();
    for &component in vector {
        if component.abs() > most.abs() {
            most = component;
        }
    }
    most < T::zero()
}

/// Changes the sign of every component of a vector.
pub(crate) fn negate<T: Real>(vector: &mut [T]) {
    vector.iter_mut().for_each(|component| *component = -*component);
}

/// Checks that all entries on and below the diagonal of `a[n, n]` are finite; fails otherwise.
pub(crate) fn finite_lower<T: Real>(n: usize, a: &[T]) -> Result<(), Failed> {
    let mut rows = a.chunks_exact(n.max(1)).enumerate();
    let finite = rows.all(|(i, row)| all_finite(&row[..=i]));
    finite.then_some(()).ok_or(Failed)
}

/// Writes zeros above the diagonal of `a[n, n]`.
pub(crate) fn clear_upper<T: Real>(n: usize, a: &mut [T]) {
    for (i, row) in a.chunks_exact_mut(n.max(1)).enumerate() {
        row[i + 1..].fill(T::zero());
    }
}

/// Writes zeros below the diagonal of an array of `width` columns, row-major.
pub(crate) fn clear_lower<T: Real>(width: usize, a: &mut [T]) {
    for (i, row) in a.chunks_exact_mut(width.max(1)).enumerate() {
        row[..i.min(width)].fill(T::zero());
    }
}
