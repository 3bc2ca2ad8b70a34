//! LU factorisation with partial pivoting (Golub and Van Loan, section 3.4), packed as in LAPACK's
//! `getrf` and JAX's `lax.linalg.lu`.

use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::{MatMut, Par, Spec};

use crate::real::{Failed, Real, all_finite};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::transpose;

pub(crate) fn need<T: Real>(m: usize, n: usize) -> ScratchSize {
    let stack = lu_in_place_scratch::<u32, T>(m, n, Par::Seq, Spec::default());
    ScratchSize::new().array::<T>(m * n).array::<u32>(m).array::<u32>(m).stack(stack)
}

/// The result buffers of an LU factorisation; `Routine::Lu` defines their contents.
pub(crate) struct Results<'a, T> {
    pub(crate) packed: &'a mut [T],
    pub(crate) pivots: &'a mut [i32],
    pub(crate) permutation: &'a mut [i32],
}

/// Computes the LU factorisation `packed[m, n], pivots[k], permutation[m]` of `a[m, n]`.
pub(crate) fn run<T: Real>(
    m: usize,
    n: usize,
    a: &[T],
    results: Results<'_, T>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let Results { packed, pivots, permutation } = results;
    count_up(permutation);
    if m == 0 || n == 0 {
        return Ok(());
    }
    if !all_finite(a) {
        return Err(Failed);
    }
    let columns = scratch.take::<T>(m * n)?;
    let order = scratch.take::<u32>(m)?;
    let places = scratch.take::<u32>(m)?;
    transpose(m, n, T::one(), a, columns);
    lu_in_place(
        MatMut::from_column_major_slice_mut(columns, m, n),
        order,
        places,
        Par::Seq,
        scratch.stack(),
        Spec::default(),
    );
    transpose(n, m, T::one(), columns, packed);
    let regular = |i: usize| packed[i * n + i].divides();
    if all_finite(packed) && (0..m.min(n)).all(regular) {
        // faer returns the final order of the rows; compute the exchange of each step from it: step `i` moved to
        // position `i` the row that is at this position in the final order. `permutation` holds the rows in the order
        // after the steps so far, `places` the position of each row.
        for (place, row) in (0..).zip(places.iter_mut()) {
            *row = place;
        }
        for (i, pivot) in pivots.iter_mut().enumerate() {
            let place = places[order[i] as usize];
            *pivot = place as i32;
            let moved = permutation[i];
            permutation.swap(i, place as usize);
            places[moved as usize] = place;
        }
    } else {
        // faer multiplies by the reciprocal of a pivot, which turns zeros into NaN if the pivot is zero. So a matrix
        // with a zero pivot is factored again, by `eliminate`.
        packed.copy_from_slice(a);
        count_up(permutation);
        eliminate(n, packed, pivots, permutation);
    }
    Ok(())
}

fn count_up(permutation: &mut [i32]) {
    for (place, row) in (0..).zip(permutation) {
        *row = place;
    }
}

/// Factors `a[m, n]` row by row, with true divisions instead of reciprocals. A column that is zero on and below
/// the diagonal is left unchanged, and its pivot is zero.
fn eliminate<T: Real>(n: usize, a: &mut [T], pivots: &mut [i32], permutation: &mut [i32]) {
    let m = permutation.len();
    for (j, exchanged) in pivots.iter_mut().enumerate() {
        let mut pivot = j;
        for i in j..m {
            if a[i * n + j].abs() > a[pivot * n + j].abs() {
                pivot = i;
            }
        }
        *exchanged = pivot as i32;
        if pivot != j {
            permutation.swap(j, pivot);
            let (above, below) = a.split_at_mut(pivot * n);
            above[j * n..(j + 1) * n].swap_with_slice(&mut below[..n]);
        }
        let (above, below) = a.split_at_mut((j + 1) * n);
        let upper = &above[j * n..];
        if upper[j] == T::zero() {
            continue;
        }
        for row in below.chunks_exact_mut(n) {
            let multiplier = row[j] / upper[j];
            row[j] = multiplier;
            if multiplier != T::zero() {
                for (entry, &upper) in row[j + 1..].iter_mut().zip(&upper[j + 1..]) {
                    *entry -= multiplier * upper;
                }
            }
        }
    }
}
