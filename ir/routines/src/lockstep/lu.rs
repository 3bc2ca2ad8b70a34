//! LU factorisation with partial pivoting, row by row (Golub and Van Loan, section 3.4), in the operation order
//! of unrolled programs, so that both have the same bits.

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::Lanes;
use crate::lu::Results;
use crate::real::{Failed, Real, all_finite};
use crate::scratch::{Scratch, ScratchSize};

/// The buffers of an LU factorisation in lockstep (one batch member per vector lane),
/// `a[m, n] -> packed[m, n], pivots[k], permutation[m]`.
pub(super) struct Lu<'a, T> {
    pub(super) shape: [usize; 2],
    pub(super) a: &'a [T],
    pub(super) results: Results<'a, T>,
}

pub(super) fn need([m, n]: [usize; 2]) -> ScratchSize {
    grid(m, n).and(grid(1, m.min(n))).and(grid(1, m))
}

impl<T: Real> Lockstep<T> for Lu<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let [m, n] = self.shape;
        let mut a = Grid::take(lanes, [m, n], &mut scratch)?;
        let mut pivots = Grid::take(lanes, [1, m.min(n)], &mut scratch)?;
        let mut permutation = Grid::take(lanes, [1, m], &mut scratch)?;
        for mut group in Group::all(members, L::COUNT) {
            group.check(|member| all_finite(&self.a[member * m * n..(member + 1) * m * n]));
            a.load(&group, self.a, Layout::Rows);
            eliminate(&mut a, &mut pivots, &mut permutation);
            a.store(&group, m, self.results.packed, Layout::Rows, Scale::Keep);
            pivots.store_indices(&group, self.results.pivots);
            permutation.store_indices(&group, self.results.permutation);
        }
        Ok(())
    }
}

/// Factors `a` in place: eliminates the elements below the diagonal, column by column. The pivot of column `j` is its
/// largest element on or below the diagonal, the first of several. Its row is exchanged with row `j` before the
/// elimination. A column of zeros is left unchanged.
#[inline(always)]
fn eliminate<L: Lanes>(
    a: &mut Grid<'_, L>,
    pivots: &mut Grid<'_, L>,
    permutation: &mut Grid<'_, L>,
) {
    let (m, n) = (a.rows, a.columns);
    let least = a.splat(L::Number::TINY * L::Number::ULP);
    for i in 0..m {
        permutation.set(0, i, a.index(i));
    }
    for j in 0..m.min(n) {
        let (mut most, mut pivot) = (a.at(j, j).abs(), a.index(j));
        for i in j + 1..m {
            let size = a.at(i, j).abs();
            let more = most.less(size);
            most = more.select(size, most);
            pivot = more.select(a.index(i), pivot);
        }
        pivots.set(0, j, pivot);
        for i in j + 1..m {
            // `pivot` holds row numbers as floats; comparing with the neighbouring numbers selects the lanes in
            // which row `i` has the pivot.
            let here = pivot.less(a.index(i + 1)) & a.index(i - 1).less(pivot);
            if here.any() {
                for column in 0..n {
                    a.exchange([j, column], [i, column], here);
                }
                permutation.exchange([0, j], [0, i], here);
            }
        }
        let divisor = a.at(j, j);
        let is_zero = divisor.abs().less(least);
        for i in j + 1..m {
            let multiplier = is_zero.select(a.at(i, j), a.at(i, j) / divisor);
            a.set(i, j, multiplier);
            for column in j + 1..n {
                a.set(i, column, a.at(i, column) - multiplier * a.at(j, column));
            }
        }
    }
}
