//! Real Schur form `a = z t z^T` (Golub and Van Loan, section 7.4): a reduction to Hessenberg form
//! by faer, then the QR iteration of this crate.

use faer::linalg::evd::hessenberg::{hessenberg_in_place, hessenberg_in_place_scratch};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_right_in_place_scratch,
    apply_block_householder_sequence_on_the_right_in_place_with_conj,
};
use faer::linalg::qr::no_pivoting::factor::recommended_block_size;
use faer::{Conj, MatMut, MatRef, Par, Spec};

use crate::qr_iteration::{Columns, iterate};
use crate::real::{Failed, Real, Scaling, largest};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{negate, points_down, set_identity, transpose};

/// Returns the block size of the reduction to Hessenberg form; `None` for a matrix of order 2 or less, which has
/// that form already.
fn block<T: Real>(n: usize) -> Option<usize> {
    (n > 2).then(|| recommended_block_size::<T>(n - 1, n - 1))
}

pub(crate) fn need_reduce<T: Real>(n: usize) -> ScratchSize {
    match block::<T>(n) {
        None => ScratchSize::new(),
        Some(block) => {
            let reduce = hessenberg_in_place_scratch::<T>(n, block, Par::Seq, Spec::default());
            let form = apply_block_householder_sequence_on_the_right_in_place_scratch::<T>(
                n - 1,
                block,
                n - 1,
            );
            ScratchSize::new().array::<T>(block * (n - 1)).stack(reduce.or(form))
        }
    }
}

pub(crate) fn need<T: Real>(n: usize) -> ScratchSize {
    ScratchSize::new().array::<T>(n * n).array::<T>(n * n).and(need_reduce::<T>(n))
}

/// Computes the Schur form `t[n, n]` of `a[n, n]` and its orthogonal basis `z[n, n]`.
pub(crate) fn run<T: Real>(
    n: usize,
    a: &[T],
    [t, z]: [&mut [T]; 2],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let scaling = Scaling::of(largest(a)?);
    let form = scratch.take::<T>(n * n)?;
    let basis = scratch.take::<T>(n * n)?;
    transpose(n, n, scaling.factor, a, form);
    reduce(n, form, basis, scratch)?;
    for j in 0..n {
        let vector = &mut basis[j * n..(j + 1) * n];
        if points_down(vector) {
            // Changing the signs of row `j` and column `j` of `t` together keeps `a = z t z^T` when column `j` of
            // `z` changes its sign.
            negate(vector);
            negate(&mut form[j * n..(j + 1) * n]);
            form.iter_mut().skip(j).step_by(n).for_each(|entry| *entry = -*entry);
        }
    }
    transpose(n, n, scaling.back, form, t);
    transpose(n, n, T::one(), basis, z);
    Ok(())
}

/// Overwrites `form`, stored by columns, with its Schur form, and `basis` with the orthogonal transformation.
pub(crate) fn reduce<T: Real>(
    n: usize,
    form: &mut [T],
    basis: &mut [T],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    set_identity(n, basis);
    if let Some(block) = block::<T>(n) {
        let reflectors = scratch.take::<T>(block * (n - 1))?;
        let stack = scratch.stack();
        hessenberg_in_place(
            MatMut::from_column_major_slice_mut(form, n, n),
            MatMut::from_column_major_slice_mut(reflectors, block, n - 1),
            Par::Seq,
            stack,
            Spec::default(),
        );
        apply_block_householder_sequence_on_the_right_in_place_with_conj(
            MatRef::from_column_major_slice(form, n, n).submatrix(1, 0, n - 1, n - 1),
            MatRef::from_column_major_slice(reflectors, block, n - 1),
            Conj::No,
            MatMut::from_column_major_slice_mut(basis, n, n).submatrix_mut(1, 1, n - 1, n - 1),
            Par::Seq,
            stack,
        );
        for (j, column) in form.chunks_exact_mut(n).enumerate() {
            column[(j + 2).min(n)..].fill(T::zero());
        }
    }
    let mut form = Columns { n, numbers: form };
    let mut basis = Columns { n, numbers: basis };
    iterate(&mut form, &mut basis)
}
