//! Solves with a triangular matrix by substitution row by row (Golub and Van Loan, section 3.1), in the
//! operation order of unrolled programs, so that both have the same bits.

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::Lanes;
use crate::real::{Failed, Real};
use crate::scratch::{Scratch, ScratchSize};
use crate::triangular::Triangle;

/// The buffers of a triangular solve in lockstep (one batch member per vector lane),
/// `t[n, n], b[n] -> x[n]`, for one right-hand side. Several right-hand sides fill the vector registers
/// without lockstep.
pub(super) struct Solve<'a, T> {
    pub(super) n: usize,
    pub(super) triangle: Triangle,
    pub(super) t: &'a [T],
    pub(super) b: &'a [T],
    pub(super) x: &'a mut [T],
}

pub(super) fn need(n: usize) -> ScratchSize {
    grid(n, n).and(grid(1, n))
}

impl<T: Real> Lockstep<T> for Solve<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let Solve { n, triangle, t: t_from, b: b_from, x: x_to } = self;
        let mut t = Grid::take(lanes, [n, n], &mut scratch)?;
        let mut x = Grid::take(lanes, [1, n], &mut scratch)?;
        for group in Group::all(members, L::COUNT) {
            t.load(&group, t_from, Layout::Rows);
            x.load(&group, b_from, Layout::Rows);
            substitute(triangle, &t, &mut x);
            x.store(&group, 1, x_to, Layout::Rows, Scale::Keep);
        }
        Ok(())
    }
}

/// Solves in place in `x`: `x[i] = (b[i] - sum_j t[i, j] x[j]) / t[i, i]` over the rows `j` that are solved
/// already. Reads one triangle of `t`.
#[inline(always)]
fn substitute<L: Lanes>(triangle: Triangle, t: &Grid<'_, L>, x: &mut Grid<'_, L>) {
    let n = x.columns;
    let forward = triangle.lower != triangle.transposed;
    for step in 0..n {
        let i = if forward { step } else { n - 1 - step };
        let mut rest = x.at(0, i);
        for j in if forward { 0..i } else { i + 1..n } {
            let entry = if triangle.transposed { t.at(j, i) } else { t.at(i, j) };
            rest = rest - entry * x.at(0, j);
        }
        x.set(0, i, if triangle.unit_diagonal { rest } else { rest / t.at(i, i) });
    }
}
