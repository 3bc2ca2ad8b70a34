//! Singular value decomposition by bidiagonal reduction (Golub and Van Loan, section 8.6).

use faer::diag::DiagMut;
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::{MatMut, MatRef, Par, Spec};

use crate::copies::{negate, points_down, set_identity, transpose};
use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::routine::SvdVectors;
use crate::scratch::{Need, Scratch};

/// The numbers of columns of `u` and of rows of `vt`.
fn widths(m: usize, n: usize, vectors: SvdVectors) -> [usize; 2] {
    match vectors {
        SvdVectors::None => [0, 0],
        SvdVectors::Thin => [m.min(n); 2],
        SvdVectors::Full => [m, n],
    }
}

pub(crate) fn need<T: Real>(m: usize, n: usize, vectors: SvdVectors) -> Need {
    if m == 0 || n == 0 {
        return Need::new();
    }
    let wanted = match vectors {
        SvdVectors::None => ComputeSvdVectors::No,
        SvdVectors::Thin => ComputeSvdVectors::Thin,
        SvdVectors::Full => ComputeSvdVectors::Full,
    };
    let stack = svd_scratch::<T>(m, n, wanted, wanted, Par::Seq, Spec::default());
    let [left, _] = widths(m, n, vectors);
    Need::new().array::<T>(m * n).array::<T>(m * left).stack(stack)
}

/// The bases of a decomposition.
pub(crate) struct Bases<'a, T> {
    pub(crate) u: &'a mut [T],
    pub(crate) vt: &'a mut [T],
}

/// `a[m, n] -> s[k]`, and `u`, `vt` where asked for.
pub(crate) fn run<T: Real>(
    [m, n]: [usize; 2],
    vectors: SvdVectors,
    a: &[T],
    s: &mut [T],
    bases: Option<Bases<'_, T>>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let [left, right] = widths(m, n, vectors);
    if m == 0 || n == 0 {
        if let Some(Bases { u, vt }) = bases {
            set_identity(left, u);
            set_identity(n, vt);
        }
        return Ok(());
    }
    let scaling = Scaling::of(largest(a)?);
    let columns = scratch.take::<T>(m * n)?;
    let basis = scratch.take::<T>(m * left)?;
    transpose(m, n, scaling.factor, a, columns);
    let columns = MatRef::from_column_major_slice(columns, m, n);
    let values = DiagMut::from_slice_mut(s);
    let stack = scratch.stack();
    match bases {
        None => {
            svd(columns, values, None, None, Par::Seq, stack, Spec::default())
                .map_err(|_| Failed)?;
        }
        Some(Bases { u, vt }) => {
            // faer leaves a block of a full basis of a long matrix as it was.
            basis.fill(T::zero());
            vt.fill(T::zero());
            // `vt` by rows is `v` by columns.
            svd(
                columns,
                values,
                Some(MatMut::from_column_major_slice_mut(basis, m, left)),
                Some(MatMut::from_column_major_slice_mut(vt, n, right)),
                Par::Seq,
                stack,
                Spec::default(),
            )
            .map_err(|_| Failed)?;
            if !all_finite(basis) || !all_finite(vt) {
                return Err(Failed);
            }
            let k = m.min(n);
            for (j, vector) in basis.chunks_exact_mut(m).enumerate() {
                if points_down(vector) {
                    negate(vector);
                    if j < k {
                        negate(&mut vt[j * n..(j + 1) * n]);
                    }
                }
            }
            for vector in vt.chunks_exact_mut(n).skip(k) {
                if points_down(vector) {
                    negate(vector);
                }
            }
            transpose(left, m, T::one(), basis, u);
        }
    }
    if !all_finite(s) {
        return Err(Failed);
    }
    scaling.undo(s);
    Ok(())
}
