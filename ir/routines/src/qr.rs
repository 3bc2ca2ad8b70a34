//! QR factorisation by Householder reflections (Golub and Van Loan, section 5.2). The diagonal of
//! `r` is not negative, which makes the factors of a matrix of full column rank unique.

use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj,
};
use faer::linalg::qr::no_pivoting::factor::{
    qr_in_place, qr_in_place_scratch, recommended_block_size,
};
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
    let form = apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, width);
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
    transpose(m, n, scaling.factor, a, columns);
    qr_in_place(
        MatMut::from_column_major_slice_mut(columns, m, n),
        MatMut::from_column_major_slice_mut(reflectors, block, k),
        Par::Seq,
        stack,
        Spec::default(),
    );
    set_identity(m, basis);
    apply_block_householder_sequence_on_the_left_in_place_with_conj(
        MatRef::from_column_major_slice(columns, m, n).submatrix(0, 0, m, k),
        MatRef::from_column_major_slice(reflectors, block, k),
        Conj::No,
        MatMut::from_column_major_slice_mut(basis, m, width),
        Par::Seq,
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

#[cfg(test)]
mod tests {
    use crate::checks::{
        Number, ORDERS, SHAPES, call, close, double, identity, multiply, random, turn,
    };
    use crate::routine::Routine;

    #[track_caller]
    fn holds<T: Number>(m: usize, n: usize, full: bool, a: &[T]) {
        let found = call(&Routine::Qr { m, n, full }, &[a]);
        let width = if full { m } else { m.min(n) };
        let (q, r) = (found.double(0), found.double(1));
        let what = format!("{m} x {n}, full: {full}");
        for (place, entry) in r.iter().enumerate() {
            let (i, j) = (place / n, place % n);
            assert!(i <= j || *entry == 0.0, "{what}: {i}, {j}");
            assert!(i != j || *entry >= 0.0, "{what}: {i}");
        }
        close::<T>(16.0, &multiply(m, width, n, &q, &r), &double(a), &what);
        let gram = multiply(width, m, width, &turn(m, width, &q), &q);
        close::<T>(16.0, &gram, &identity(width), &what);
    }

    fn factors<T: Number>() {
        let squares = ORDERS.iter().map(|&n| (n, n));
        for (m, n) in squares.chain(SHAPES) {
            for full in [false, true] {
                let a: Vec<T> = random(m * n, (m + 3 * n) as u64);
                holds(m, n, full, &a);
                // Rank deficient, and the matrix of zeros.
                let product: Vec<T> = (0..m * n)
                    .map(|place| T::of(((place / n % 5 + 1) * (place % n % 7 + 1)) as f64))
                    .collect();
                holds(m, n, full, &product);
                holds(m, n, full, &vec![T::of(0.0); m * n]);
            }
        }
    }

    #[test]
    fn the_product_of_orthogonal_and_triangular_factors_is_the_matrix() {
        factors::<f32>();
        factors::<f64>();
    }
}
