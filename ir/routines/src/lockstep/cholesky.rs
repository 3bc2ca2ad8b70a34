//! Cholesky factorisation column by column (Golub and Van Loan, section 4.2), in the operation order of
//! unrolled programs, so that both have the same bits.

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::{Lanes, Truth};
use crate::real::{Failed, Real};
use crate::scratch::{Scratch, ScratchSize};

/// The buffers of a Cholesky factorisation in lockstep (one batch member per vector lane), `a[n, n] -> l[n, n]`.
/// The strict upper triangle of `a` is not read.
pub(super) struct Cholesky<'a, T> {
    pub(super) n: usize,
    pub(super) a: &'a [T],
    pub(super) l: &'a mut [T],
}

pub(super) fn need(n: usize) -> ScratchSize {
    grid(n, n)
}

impl<T: Real> Lockstep<T> for Cholesky<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let n = self.n;
        let mut a = Grid::take(lanes, [n, n], &mut scratch)?;
        for group in Group::all(members, L::COUNT) {
            a.load(&group, self.a, Layout::Rows);
            let positive = factor(&mut a);
            for i in 0..n {
                for j in 0..n {
                    let x = positive.select(a.at(i, j), a.splat(T::NAN));
                    a.set(i, j, if j <= i { x } else { a.zero() });
                }
            }
            a.store(&group, n, self.l, Layout::Rows, Scale::Keep);
        }
        Ok(())
    }
}

/// Factors `a` in place: `l[j, j] = sqrt(s)` and `l[i, j] = s (1 / l[j, j])`, each with `s = a[i, j] - sum_k l[i,
/// k] l[j, k]`, summed from the first term (k = 0) to the last (k = j - 1). Returns the lanes in which all pivots
/// are positive and finite.
#[inline(always)]
fn factor<L: Lanes>(a: &mut Grid<'_, L>) -> Truth<L> {
    let (zero, one) = (a.zero(), a.one());
    let infinity = one / zero;
    let mut positive = zero.less(one);
    for j in 0..a.rows {
        let rest = |a: &Grid<'_, L>, i: usize| {
            let mut sum = a.at(i, j);
            for k in 0..j {
                sum = sum - a.at(i, k) * a.at(j, k);
            }
            sum
        };
        let pivot = rest(a, j);
        positive = positive & zero.less(pivot) & pivot.less(infinity);
        let root = pivot.root();
        let reciprocal = one / root;
        a.set(j, j, root);
        for i in j + 1..a.rows {
            a.set(i, j, rest(a, i) * reciprocal);
        }
    }
    positive
}
