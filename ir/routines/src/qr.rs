//! QR factorisation by Householder reflections (Golub and Van Loan, section 5.2). The diagonal of `r` is
//! non-negative, which makes the factors of a matrix of full column rank unique.

use crate::householder::{apply, block, factor, scratch as stack};
use crate::real::{Failed, Real, Scaling, largest};
use crate::routine::QrBasis;
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{Rows, clear_lower, negate, set_identity, transpose, transpose_part};

/// Returns the number of columns of `q` that are computed.
fn columns_of_q(m: usize, n: usize, basis: QrBasis) -> usize {
    match basis {
        QrBasis::None => 0,
        QrBasis::Thin | QrBasis::Full => basis.rows_of_r(m, n),
    }
}

pub(crate) fn need<T: Real>(m: usize, n: usize, basis: QrBasis) -> ScratchSize {
    let k = m.min(n);
    if k == 0 {
        return ScratchSize::new();
    }
    let width = columns_of_q(m, n, basis);
    ScratchSize::new()
        .array::<T>(m * n)
        .array::<T>(block(m, n) * k)
        .array::<T>(m * width)
        .stack(stack::<T>(m, n, width))
}

/// Computes `a[m, n] -> q[m, width], r[width, n]`, where `width` is `m` for a full `basis` and `min(m, n)` otherwise.
/// Without `q`, the reflections are never multiplied.
pub(crate) fn run<T: Real>(
    [m, n]: [usize; 2],
    basis: QrBasis,
    a: &[T],
    q: Option<&mut [T]>,
    r: &mut [T],
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let k = m.min(n);
    let width = basis.rows_of_r(m, n);
    if k == 0 {
        if let Some(q) = q {
            set_identity(width, q);
        }
        return Ok(());
    }
    let scaling = Scaling::of(largest(a)?);
    let columns = scratch.take::<T>(m * n)?;
    let factors = scratch.take::<T>(block(m, n) * k)?;
    let product = scratch.take::<T>(m * columns_of_q(m, n, basis))?;
    let stack = scratch.stack();
    transpose(m, n, scaling.factor, a, columns);
    factor(m, n, columns, factors, stack);
    if q.is_some() {
        set_identity(m, product);
        apply([m, n], columns, factors, product, true, stack);
    }
    // `upper` is the first `width` rows of the factored column-major array: `r`, and below its diagonal the
    // reflectors, which are cleared afterwards.
    let upper = Rows { numbers: columns, stride: m };
    transpose_part(n, width, scaling.back, upper, r);
    clear_lower(n, r);
    for (i, row) in r.chunks_exact_mut(n).enumerate().take(k) {
        if row[i] < T::zero() {
            negate(&mut row[i..]);
            if q.is_some() {
                negate(&mut product[i * m..(i + 1) * m]);
            }
        }
    }
    if let Some(q) = q {
        transpose(width, m, T::one(), product, q);
    }
    Ok(())
}
