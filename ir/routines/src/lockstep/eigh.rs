//! Eigenvalues and eigenvectors of a symmetric matrix by cyclic Jacobi rotations (Golub and Van Loan, section 8.5).

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::{Lanes, Truth};
use crate::lockstep::rotation::{Order, Rotation, SWEEPS, direct, sort};
use crate::real::{Failed, Real, largest};
use crate::scratch::{Scratch, ScratchSize};

/// The buffers of a symmetric eigenvalue decomposition in lockstep (one batch member per vector lane),
/// `a[n, n] -> values[n], vectors[n, n]`. The strict upper triangle of `a` is not read.
pub(super) struct Eigh<'a, T> {
    pub(super) n: usize,
    pub(super) a: &'a [T],
    pub(super) values: &'a mut [T],
    /// The buffer of the eigenvectors, if they are requested.
    pub(super) vectors: Option<&'a mut [T]>,
}

pub(super) fn need(n: usize, vectors: bool) -> ScratchSize {
    grid(n, n).and(grid(1, n)).and(grid(if vectors { n } else { 0 }, n))
}

impl<T: Real> Lockstep<T> for Eigh<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let Eigh { n, a: from, values: values_to, vectors: mut vectors_to } = self;
        let rows = if vectors_to.is_some() { n } else { 0 };
        let mut a = Grid::take(lanes, [n, n], &mut scratch)?;
        let mut values = Grid::take(lanes, [1, n], &mut scratch)?;
        let mut vectors = Grid::take(lanes, [rows, n], &mut scratch)?;
        for mut group in Group::all(members, L::COUNT) {
            group.scale(|member| {
                let mut rows = from[member * n * n..(member + 1) * n * n].chunks_exact(n);
                let row = |most: T, (i, row): (usize, &[T])| {
                    let of_row = largest(&row[..=i])?;
                    Ok(if of_row > most { of_row } else { most })
                };
                rows.by_ref().enumerate().try_fold(T::zero(), row)
            });
            a.load(&group, from, Layout::Rows);
            vectors.set_identity();
            let failed = diagonalize(&mut a, &mut vectors);
            group.fail(failed);
            for j in 0..n {
                values.set(0, j, a.at(j, j));
            }
            sort(Order::Ascending, &mut values, [&mut vectors]);
            for j in 0..n {
                direct(&mut vectors, j);
            }
            values.store(&group, 1, values_to, Layout::Rows, Scale::Undo);
            if let Some(to) = &mut vectors_to {
                vectors.store(&group, n, to, Layout::Rows, Scale::Keep);
            }
        }
        Ok(())
    }
}

/// Makes the lower triangle of `a` diagonal by rotations, and multiplies `vectors` by them from the right.
/// Returns the lanes in which the iteration does not converge.
///
/// The largest entry of `a` is close to one, and an off-diagonal entry below a quarter of an ulp counts as zero.
/// A lane in which all off-diagonal entries count as zero does not change any more while the iteration continues
/// for the other lanes.
#[inline(always)]
fn diagonalize<L: Lanes>(a: &mut Grid<'_, L>, vectors: &mut Grid<'_, L>) -> Truth<L> {
    let n = a.rows;
    let zero = a.zero();
    let negligible = a.splat(L::Number::ULP * L::Number::power_of_two(-2));
    let mut unfinished = zero.less(zero);
    for _ in 0..SWEEPS {
        unfinished = zero.less(zero);
        for q in 1..n {
            for p in 0..q {
                let corner = [a.at(p, p), a.at(q, q), a.at(q, p)];
                let active = negligible.less(corner[2].abs());
                if !active.any() {
                    continue;
                }
                unfinished = unfinished | active;
                let rotation = Rotation::of(corner, active);
                let (x, y) = rotation.turn_diagonal(corner);
                a.set(p, p, x);
                a.set(q, q, y);
                a.set(q, p, active.select(zero, corner[2]));
                for i in 0..n {
                    if i == p || i == q {
                        continue;
                    }
                    // The positions of entries `[i, p]` and `[i, q]` of the symmetric matrix below its diagonal.
                    let [at_p, at_q] = [p, q].map(|j| [i.max(j), i.min(j)]);
                    let (x, y) = rotation.apply(a.at(at_p[0], at_p[1]), a.at(at_q[0], at_q[1]));
                    a.set(at_p[0], at_p[1], x);
                    a.set(at_q[0], at_q[1], y);
                }
                rotation.turn_columns(vectors, p, q);
            }
        }
        if !unfinished.any() {
            break;
        }
    }
    unfinished
}
