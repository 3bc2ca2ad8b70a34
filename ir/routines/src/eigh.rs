//! Eigenvalues and eigenvectors of a symmetric matrix by tridiagonal reduction (Golub and Van Loan,
//! sections 8.3 and 8.4). As in LAPACK's `syevd` with `uplo = 'L'`, the strict upper triangle is
//! not read.

use faer::diag::DiagMut;
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::{MatMut, MatRef, Par, Spec};

use crate::copies::{negate, points_down, transpose, transpose_lower};
use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::scratch::{Need, Scratch};

pub(crate) fn need<T: Real>(n: usize, vectors: bool) -> Need {
    if n == 0 {
        return Need::new();
    }
    let wanted = if vectors { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let stack = self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Spec::default());
    Need::new().array::<T>(n * n).array::<T>(if vectors { n * n } else { 0 }).stack(stack)
}

/// `a[n, n] -> values[n]`, and `vectors[n, n]` where asked for.
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

#[cfg(test)]
mod tests {
    use crate::checks::{
        Number, ORDERS, call, close, double, identity, multiply, random, stable, turn,
    };
    use crate::routine::Routine;

    #[track_caller]
    pub(crate) fn upright(n: usize, width: usize, vectors: &[f64]) {
        for j in 0..width {
            let column = vectors.iter().skip(j).step_by(width).take(n);
            let most = column.fold(0.0_f64, |most, &x| if x.abs() > most.abs() { x } else { most });
            assert!(most > 0.0, "column {j}");
        }
    }

    #[track_caller]
    fn holds<T: Number>(n: usize, mut a: Vec<T>) {
        for i in 0..n {
            for j in 0..i {
                a[j * n + i] = a[i * n + j];
            }
        }
        let whole = double(&a);
        for i in 0..n {
            a[i * n + i + 1..(i + 1) * n].fill(T::NAN);
        }
        let found = call(&Routine::Eigh { n, vectors: true }, &[&a]);
        let (values, vectors) = (found.double(0), found.double(1));
        assert!(values.is_sorted(), "{values:?}");
        upright(n, n, &vectors);
        let gram = multiply(n, n, n, &turn(n, n, &vectors), &vectors);
        close::<T>(stable(n), &gram, &identity(n), &format!("v^T v, n = {n}"));
        let scaled: Vec<f64> =
            vectors.iter().enumerate().map(|(place, x)| x * values[place % n]).collect();
        let product = multiply(n, n, n, &scaled, &turn(n, n, &vectors));
        close::<T>(stable(n), &product, &whole, &format!("v w v^T, n = {n}"));
        let alone = call(&Routine::Eigh { n, vectors: false }, &[&a]).double(0);
        close::<T>(stable(n), &alone, &values, &format!("values alone, n = {n}"));
    }

    fn decomposes<T: Number>() {
        // Above an order of 128 the method is divide and conquer.
        for n in ORDERS.into_iter().chain([150]) {
            holds::<T>(n, random(n * n, n as u64));
            // Repeated values: a projector, the identity, zeros.
            let ones = vec![T::of(1.0 / n as f64); n * n];
            holds(n, ones);
            holds(n, identity(n).into_iter().map(T::of).collect());
            holds(n, vec![T::of(0.0); n * n]);
        }
    }

    #[test]
    fn vectors_and_values_give_the_matrix_back() {
        decomposes::<f32>();
        decomposes::<f64>();
    }
}
