//! QR factorisation by Householder reflections (Golub and Van Loan, section 5.2). The diagonal of
//! `r` is not negative, which makes the factors of a matrix of full column rank unique.

use faer::dyn_stack::MemStack;
use faer::linalg::householder::{
    apply_block_householder_on_the_left_in_place_scratch,
    apply_block_householder_on_the_left_in_place_with_conj,
};
use faer::linalg::qr::no_pivoting::factor::{
    qr_in_place, qr_in_place_scratch, recommended_block_size,
};
use faer::prelude::ReborrowMut;
use faer::{Conj, MatMut, MatRef, Par, Spec};

use crate::copies::{Rows, clear_lower, negate, set_identity, transpose, transpose_part};
use crate::real::{Failed, Real, Scaling, largest};
use crate::scratch::{Need, Scratch};

pub(crate) fn need<T: Real>(m: usize, n: usize, full: bool) -> Need {
    let k = m.min(n);
    if k == 0 {
        return Need::new();
    }
    let width = if full { m } else { k };
    let block = recommended_block_size::<T>(m, n);
    let factor = qr_in_place_scratch::<T>(m, n, block, Par::Seq, Spec::default());
    let form = apply_block_householder_on_the_left_in_place_scratch::<T>(m, block, width);
    Need::new().array::<T>(m * n).array::<T>(block * k).array::<T>(m * width).stack(factor.or(form))
}

/// `a[m, n] -> q[m, width], r[width, n]`, where `width` is `m` if `full` and `min(m, n)` otherwise.
pub(crate) fn run<T: Real>(
    m: usize,
    n: usize,
    full: bool,
    a: &[T],
    [q, r]: [&mut [T]; 2],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let k = m.min(n);
    let width = if full { m } else { k };
    if k == 0 {
        set_identity(width, q);
        return Ok(());
    }
    let scaling = Scaling::of(largest(a)?);
    let block = recommended_block_size::<T>(m, n);
    let columns = scratch.take::<T>(m * n)?;
    let reflectors = scratch.take::<T>(block * k)?;
    let basis = scratch.take::<T>(m * width)?;
    let stack = scratch.stack();
    set_identity(m, basis);
    transpose(m, n, scaling.factor, a, columns);
    qr_in_place(
        MatMut::from_column_major_slice_mut(columns, m, n),
        MatMut::from_column_major_slice_mut(reflectors, block, k),
        Par::Seq,
        stack,
        Spec::default(),
    );
    form_basis(
        MatRef::from_column_major_slice(columns, m, n),
        MatRef::from_column_major_slice(reflectors, block, k),
        MatMut::from_column_major_slice_mut(basis, m, width),
        stack,
    );
    // The first `width` rows of the column-major array, the reflectors below the diagonal included.
    let upper = Rows { numbers: columns, stride: m };
    transpose_part(n, width, scaling.back, upper, r);
    clear_lower(n, r);
    for (i, row) in r.chunks_exact_mut(n).enumerate().take(k) {
        if row[i] < T::zero() {
            negate(&mut row[i..]);
            negate(&mut basis[i * m..(i + 1) * m]);
        }
    }
    transpose(width, m, T::one(), basis, q);
    Ok(())
}

/// Overwrites the identity in `basis[m, width]` with the product of the reflections, the last block
/// first: block `j..` then meets columns of the identity left of `j`, which it leaves as they are.
fn form_basis<T: Real>(
    vectors: MatRef<'_, T>,
    factors: MatRef<'_, T>,
    mut basis: MatMut<'_, T>,
    stack: &mut MemStack,
) {
    let (m, width) = (basis.nrows(), basis.ncols());
    let (block, k) = (factors.nrows(), factors.ncols());
    for j in (0..k).step_by(block).rev() {
        let size = block.min(k - j);
        apply_block_householder_on_the_left_in_place_with_conj(
            vectors.submatrix(j, j, m - j, size),
            factors.submatrix(0, j, size, size),
            Conj::No,
            basis.rb_mut().submatrix_mut(j, j, m - j, width - j),
            Par::Seq,
            stack,
        );
    }
}
