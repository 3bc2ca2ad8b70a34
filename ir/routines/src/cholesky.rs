//! Cholesky factorisation `a = l l^T` of a symmetric positive definite matrix (Golub and Van Loan,
//! section 4.2). As in LAPACK's `potrf` with `uplo = 'L'`, the strict upper triangle is not read.

use faer::linalg::cholesky::llt::factor::{
    LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::{MatMut, Par, Spec};

use crate::real::{Failed, Real};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{clear_upper, finite_lower, transpose_lower, transpose_upper};

pub(crate) fn need<T: Real>(n: usize) -> ScratchSize {
    let stack = cholesky_in_place_scratch::<T>(n, Par::Seq, Spec::default());
    ScratchSize::new().array::<T>(n * n).stack(stack)
}

/// Computes `a[n, n] -> l[n, n]`. If `a` is not positive definite or not finite, `l` is NaN on and below the
/// diagonal and zero above, so a product with a triangular mask still shows the failure.
pub(crate) fn run<T: Real>(n: usize, a: &[T], l: &mut [T], scratch: Scratch<'_>) {
    if factor(n, a, l, scratch).is_err() {
        l.fill(T::NAN);
    }
    clear_upper(n, l);
}

fn factor<T: Real>(n: usize, a: &[T], l: &mut [T], mut scratch: Scratch<'_>) -> Result<(), Failed> {
    finite_lower(n, a)?;
    let columns = scratch.take::<T>(n * n)?;
    transpose_lower(n, T::one(), a, columns);
    cholesky_in_place(
        MatMut::from_column_major_slice_mut(columns, n, n),
        LltRegularization::default(),
        Par::Seq,
        scratch.stack(),
        Spec::default(),
    )
    .map_err(|_| Failed)?;
    // The column-major factor, read in row-major order, is an upper triangle, so transpose its upper triangle.
    transpose_upper(n, columns, l);
    let positive = |row: usize| l[row * n + row].finite();
    (0..n).all(positive).then_some(()).ok_or(Failed)
}
