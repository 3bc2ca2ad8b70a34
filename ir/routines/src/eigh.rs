//! Eigenvalues and eigenvectors of a symmetric matrix by tridiagonal reduction (Golub and Van Loan,
//! sections 8.3 and 8.4). As in LAPACK's `syevd` with `uplo = 'L'`, the strict upper triangle is
//! not read.

use faer::diag::DiagMut;
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par, Spec};

use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{negate, points_down, transpose, transpose_lower};

pub(crate) fn need<T: Real>(n: usize, vectors: bool) -> ScratchSize {
    if n == 0 {
        return ScratchSize::new();
    }
    let wanted = if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let stack = self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Spec::default());
    ScratchSize::new().array::<T>(n * n).array::<T>(if vectors { n * n } else { 0 }).stack(stack)
}

/// Computes the eigenvalues `values[n]` of the symmetric `a[n, n]`, and the eigenvectors `vectors[n, n]` if that
/// buffer is given.
pub(crate) fn run<T: Real>(
    n: usize,
    a: &[T],
    values: &mut [T],
    vectors: Option<&mut [T]>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    if n == 0 {
        return Ok(());
    }
    let mut most = T::zero();
    for (i, row) in a.chunks_exact(n).enumerate() {
        let most_of_row = largest(&row[..=i])?;
        if most_of_row > most {
            most = most_of_row;
        }
    }
    let scaling = Scaling::of(most);
    let columns = scratch.take::<T>(n * n)?;
    let basis = scratch.take::<T>(if vectors.is_some() { n * n } else { 0 })?;
    transpose_lower(n, scaling.factor, a, columns);
    self_adjoint_evd(
        MatRef::from_column_major_slice(columns, n, n),
        DiagMut::from_slice_mut(values),
        vectors.is_some().then(|| MatMut::from_column_major_slice_mut(basis, n, n)),
        Par::Seq,
        scratch.stack(),
        Spec::default(),
    )
    .map_err(|_| Failed)?;
    if !all_finite(values) || !all_finite(basis) {
        return Err(Failed);
    }
    scaling.undo(values);
    if let Some(vectors) = vectors {
        for vector in basis.chunks_exact_mut(n) {
            if points_down(vector) {
                negate(vector);
            }
        }
        transpose(n, n, T::one(), basis, vectors);
    }
    Ok(())
}
