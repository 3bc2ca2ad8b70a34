//! QR factorisation by Householder reflections (Golub and Van Loan, section 5.2). The diagonal of `r` is
//! non-negative, which makes the factors of a matrix of full column rank unique.

use crate::householder::{apply, block, factor, scratch as stack};
use crate::real::{Failed, Real, Scaling, largest};
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{Rows, clear_lower, negate, set_identity, transpose, transpose_part};

pub(crate) fn need<T: Real>(m: usize, n: usize, full: bool) -> ScratchSize {
    let k = m.min(n);
    if k == 0 {
        return ScratchSize::new();
    }
    let width = if full { m } else { k };
    ScratchSize::new()
        .array::<T>(m * n)
        .array::<T>(block(m, n) * k)
        .array::<T>(m * width)
        .stack(stack::<T>(m, n, width))
}

/// Computes `a[m, n] -> q[m, width], r[width, n]`, where `width` is `m` if `full` and `min(m, n)` otherwise.
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
    let columns = scratch.take::<T>(m * n)?;
    let factors = scratch.take::<T>(block(m, n) * k)?;
    let basis = scratch.take::<T>(m * width)?;
    let stack = scratch.stack();
    transpose(m, n, scaling.factor, a, columns);
    factor(m, n, columns, factors, stack);
    set_identity(m, basis);
    apply([m, n], columns, factors, basis, true, stack);
    // `upper` is the first `width` rows of the factored column-major array: `r`, and below its diagonal the
    // reflectors, which are cleared afterwards.
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
