//! Copies between row-major arrays and the column-major ones that faer is fast on.
//!
//! A transposing copy that walks whole rows touches one cache line per element on the other side.
//! These copies go by tiles of 8 x 8 numbers, which are read and written by rows of eight.

use crate::real::{Failed, Real};

const TILE: usize = 8;

/// `to[j, i] = factor from[i, j]` for `from[rows, columns]`, both row-major: a row-major array
/// becomes column-major, or a column-major one of `columns` by `rows` row-major.
pub(crate) fn transpose<T: Real>(rows: usize, columns: usize, factor: T, from: &[T], to: &mut [T]) {
    for i in (0..rows).step_by(TILE) {
        for j in (0..columns).step_by(TILE) {
            tile(rows, columns, i, j, factor, from, to);
        }
    }
}

/// [`transpose`] of those tiles of `from[n, n]` that reach the lower triangle. The entries above
/// the diagonal of the others stay as they were.
pub(crate) fn transpose_lower<T: Real>(n: usize, factor: T, from: &[T], to: &mut [T]) {
    for i in (0..n).step_by(TILE) {
        for j in (0..=i).step_by(TILE) {
            tile(n, n, i, j, factor, from, to);
        }
    }
}

/// [`transpose`] of those tiles of `from[n, n]` that reach the upper triangle.
pub(crate) fn transpose_upper<T: Real>(n: usize, from: &[T], to: &mut [T]) {
    for i in (0..n).step_by(TILE) {
        for j in (i..n).step_by(TILE) {
            tile(n, n, i, j, T::one(), from, to);
        }
    }
}

/// One tile of [`transpose`], from row `i` and column `j` on.
#[inline]
fn tile<T: Real>(
    rows: usize,
    columns: usize,
    i: usize,
    j: usize,
    factor: T,
    from: &[T],
    to: &mut [T],
) {
    if i + TILE <= rows && j + TILE <= columns {
        let mut held = [[T::zero(); TILE]; TILE];
        for (r, held) in held.iter_mut().enumerate() {
            let start = (i + r) * columns + j;
            held.copy_from_slice(&from[start..start + TILE]);
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
                to[c * rows + r] = from[r * columns + c] * factor;
            }
        }
    }
}

/// Fails where an entry on or below the diagonal of `a[n, n]` is not finite.
pub(crate) fn finite_lower<T: Real>(n: usize, a: &[T]) -> Result<(), Failed> {
    let rows = a.chunks_exact(n.max(1)).enumerate();
    let finite = |(i, row): (usize, &[T])| crate::real::all_finite(&row[..=i]);
    rows.map(finite).all(|finite| finite).then_some(()).ok_or(Failed)
}

/// Writes zeros above the diagonal of `a[n, n]`.
pub(crate) fn clear_upper<T: Real>(n: usize, a: &mut [T]) {
    for (i, row) in a.chunks_exact_mut(n.max(1)).enumerate() {
        row[i + 1..].fill(T::zero());
    }
}
