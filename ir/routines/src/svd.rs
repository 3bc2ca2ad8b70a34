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

#[cfg(test)]
mod tests {
    use crate::checks::{
        Number, ORDERS, SHAPES, call, close, double, identity, multiply, random, stable, turn,
    };
    use crate::routine::{Routine, SvdVectors};

    #[track_caller]
    fn upright(rows: usize, width: usize, columns: &[f64]) {
        for j in 0..width {
            let column = columns.iter().skip(j).step_by(width).take(rows);
            let most = column.fold(0.0_f64, |most, &x| if x.abs() > most.abs() { x } else { most });
            assert!(most > 0.0, "column {j}");
        }
    }

    #[track_caller]
    fn holds<T: Number>(m: usize, n: usize, a: &[T]) {
        let k = m.min(n);
        let of = |vectors| Routine::Svd { m, n, vectors };
        let alone = call(&of(SvdVectors::None), &[a]).double(0);
        for vectors in [SvdVectors::Thin, SvdVectors::Full] {
            let what = format!("{m} x {n}, {vectors:?}");
            let found = call(&of(vectors), &[a]);
            let (u, s, vt) = (found.double(0), found.double(1), found.double(2));
            let (left, right) = (u.len() / m, vt.len() / n);
            assert!(s.is_sorted_by(|a, b| a >= b) && s[k - 1] >= 0.0, "{what}: {s:?}");
            close::<T>(stable(m.max(n)), &alone, &s, &what);
            upright(m, left, &u);
            let gram = multiply(left, m, left, &turn(m, left, &u), &u);
            close::<T>(stable(m.max(n)), &gram, &identity(left), &what);
            let gram = multiply(right, n, right, &vt, &turn(right, n, &vt));
            close::<T>(stable(m.max(n)), &gram, &identity(right), &what);
            upright(n, right - k, &turn(right - k, n, &vt[k * n..]));
            let scaled: Vec<f64> =
                (0..m * k).map(|place| u[place / k * left + place % k] * s[place % k]).collect();
            close::<T>(
                stable(m.max(n)),
                &multiply(m, k, n, &scaled, &vt[..k * n]),
                &double(a),
                &what,
            );
        }
    }

    fn decomposes<T: Number>() {
        // Above an order of 128 the method is divide and conquer.
        let squares = ORDERS.into_iter().chain([150]).map(|n| (n, n));
        for (m, n) in squares.chain(SHAPES) {
            holds::<T>(m, n, &random(m * n, (m + 3 * n) as u64));
            // Repeated values and rank one, zero included.
            let entry = |i: usize, j: usize| f64::from(u8::from(i == j));
            let diagonal: Vec<T> = (0..m * n).map(|p| T::of(entry(p / n, p % n))).collect();
            holds(m, n, &diagonal);
            holds(m, n, &vec![T::of(1.0); m * n]);
            holds(m, n, &vec![T::of(0.0); m * n]);
        }
    }

    #[test]
    fn bases_and_values_give_the_matrix_back() {
        decomposes::<f32>();
        decomposes::<f64>();
    }
}
