//! Singular value decomposition by bidiagonal reduction (Golub and Van Loan, section 8.6).

use faer::diag::DiagMut;
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::svd::{ComputeSvdVectors, svd, svd_scratch};
use faer::{MatMut, MatRef, Par, Spec};

use crate::householder;
use crate::real::{Failed, Real, Scaling, all_finite, largest};
use crate::routine::SvdVectors;
use crate::scratch::{Scratch, ScratchSize};
use crate::transpose::{negate, points_down, set_identity, transpose};

/// Returns the number of columns of `u` and the number of rows of `vt`, for these vectors of an `m` by `n`
/// matrix.
fn widths(m: usize, n: usize, vectors: SvdVectors) -> [usize; 2] {
    match vectors {
        SvdVectors::None => [0, 0],
        SvdVectors::Thin => [m.min(n); 2],
        SvdVectors::Full => [m, n],
    }
}

/// Returns whether a QR factorisation comes first, because one side is more than 11/6 times as long as the other
/// (Chan, 1982). faer has this step too, but with the factorisation that [`crate::householder`] replaces.
fn is_long(m: usize, n: usize) -> bool {
    6 * m.max(n) > 11 * m.min(n)
}

pub(crate) fn need<T: Real>(m: usize, n: usize, vectors: SvdVectors) -> ScratchSize {
    if m == 0 || n == 0 {
        return ScratchSize::new();
    }
    let wanted = match vectors {
        SvdVectors::None => ComputeSvdVectors::No,
        SvdVectors::Thin => ComputeSvdVectors::Thin,
        SvdVectors::Full => ComputeSvdVectors::Full,
    };
    let stack =
        |m, n| -> StackReq { svd_scratch::<T>(m, n, wanted, wanted, Par::Seq, Spec::default()) };
    let [left, right] = widths(m, n, vectors);
    let need = ScratchSize::new().array::<T>(m * n).array::<T>(m * left);
    if is_long(m, n) {
        let (long, short) = (m.max(n), m.min(n));
        let reflect = householder::scratch::<T>(long, short, left.max(right));
        need.array::<T>(householder::block(long, short) * short)
            .array::<T>(short * short)
            .stack(stack(short, short).or(reflect))
    } else {
        need.stack(stack(m, n))
    }
}

/// The buffers for the singular vectors: the columns of `u` and the rows of `vt`.
pub(crate) struct Bases<'a, T> {
    pub(crate) u: &'a mut [T],
    pub(crate) vt: &'a mut [T],
}

/// Computes the singular values `a[m, n] -> s[k]`, and the vectors `u`, `vt` if their buffers are given.
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
    let (mut u, mut vt) = (None, None);
    if let Some(bases) = bases {
        // Clear the bases: faer leaves one block of a full basis unwritten.
        basis.fill(T::zero());
        bases.vt.fill(T::zero());
        (u, vt) = (Some(bases.u), Some(bases.vt));
    }
    // `vt` in row-major order is `v` in column-major order, so faer writes `v` into the buffer of `vt`.
    let found = u.as_ref().map(|_| &mut *basis).zip(vt.as_deref_mut());
    if !is_long(m, n) {
        transpose(m, n, scaling.factor, a, columns);
        let columns = MatRef::from_column_major_slice(columns, m, n);
        let bases = found.map(|(u, v)| {
            [
                MatMut::from_column_major_slice_mut(u, m, left),
                MatMut::from_column_major_slice_mut(v, n, right),
            ]
        });
        decompose(columns, s, bases, scratch.stack())?;
    } else if m > n {
        transpose(m, n, scaling.factor, a, columns);
        decompose_long([m, n], columns, s, found, scratch)?;
    } else {
        // A wide matrix is decomposed as its long transpose. The row-major numbers of the matrix are the column-major
        // numbers of its transpose, so they are copied in this order, and scaled.
        for (to, &from) in columns.iter_mut().zip(a) {
            *to = from * scaling.factor;
        }
        decompose_long([n, m], columns, s, found.map(|(u, v)| (v, u)), scratch)?;
    }
    if let (Some(u), Some(vt)) = (u, vt) {
        if !all_finite(basis) || !all_finite(vt) {
            return Err(Failed);
        }
        in_order(s, Some([(basis, m), (&mut *vt, n)]));
        choose_signs([m, n], basis, vt);
        transpose(left, m, T::one(), basis, u);
    }
    if !all_finite(s) {
        return Err(Failed);
    }
    in_order(s, None);
    scaling.undo(s);
    Ok(())
}

/// Sorts the singular values `s` in descending order, and reorders the vectors accordingly. This is needed because faer
/// does not sort values that are nearly zero. Each basis is given with the length of its contiguous vectors.
fn in_order<T: Real>(s: &mut [T], mut bases: Option<[(&mut [T], usize); 2]>) {
    for i in 0..s.len() {
        let mut most = i;
        for j in i + 1..s.len() {
            if s[j] > s[most] {
                most = j;
            }
        }
        if most == i {
            continue;
        }
        s.swap(i, most);
        for (basis, length) in bases.iter_mut().flatten() {
            let (first, second) = basis.split_at_mut(most * *length);
            first[i * *length..][..*length].swap_with_slice(&mut second[..*length]);
        }
    }
}

fn decompose<T: Real>(
    a: MatRef<'_, T>,
    s: &mut [T],
    bases: Option<[MatMut<'_, T>; 2]>,
    stack: &mut MemStack,
) -> Result<(), Failed> {
    let (u, v) = match bases {
        None => (None, None),
        Some([u, v]) => (Some(u), Some(v)),
    };
    let s = DiagMut::from_slice_mut(s);
    svd(a, s, u, v, Par::Seq, stack, Spec::default()).map_err(|_| Failed)
}

/// Decomposes `a[m, n]` with `m > n`, stored by columns, by `a = q r`. The left vectors of `a` are `q` times the left
/// vectors of `r`. The bases must contain zeros.
fn decompose_long<T: Real>(
    [m, n]: [usize; 2],
    a: &mut [T],
    s: &mut [T],
    bases: Option<(&mut [T], &mut [T])>,
    mut scratch: Scratch<'_>,
) -> Result<(), Failed> {
    let factors = scratch.take::<T>(householder::block(m, n) * n)?;
    let r = scratch.take::<T>(n * n)?;
    let stack = scratch.stack();
    householder::factor(m, n, a, factors, stack);
    let columns = r.chunks_exact_mut(n).zip(a.chunks_exact(m));
    for (j, (r, a)) in columns.enumerate() {
        r[..=j].copy_from_slice(&a[..=j]);
        r[j + 1..].fill(T::zero());
    }
    let r = MatRef::from_column_major_slice(r, n, n);
    let Some((u, v)) = bases else {
        return decompose(r, s, None, stack);
    };
    let width = u.len() / m;
    let square = [
        MatMut::from_column_major_slice_mut(&mut *u, m, width).submatrix_mut(0, 0, n, n),
        MatMut::from_column_major_slice_mut(v, n, n),
    ];
    decompose(r, s, Some(square), stack)?;
    for j in n..width {
        u[j * m + j] = T::one();
    }
    householder::apply([m, n], a, factors, u, false, stack);
    Ok(())
}

/// Makes the largest component of each left vector (column of `u`) positive, and changes the sign of the
/// corresponding row of `vt` with it. A row of `vt` without a column of `u` is made positive by its own largest
/// component.
fn choose_signs<T: Real>([m, n]: [usize; 2], u: &mut [T], vt: &mut [T]) {
    let k = m.min(n);
    for (j, vector) in u.chunks_exact_mut(m).enumerate() {
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
}
