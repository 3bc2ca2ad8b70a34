//! QR factorisation by Householder reflections, column by column (Golub and Van Loan, section 5.2).

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::Lanes;
use crate::real::{Failed, Real, largest};
use crate::routine::QrBasis;
use crate::scratch::{Scratch, ScratchSize};

/// The buffers of a QR factorisation in lockstep (one batch member per vector lane),
/// `a[m, n] -> q[m, width], r[width, n]`, where `width` is `m` or `min(m, n)`; `q` is `None` if it is not computed.
pub(super) struct Qr<'a, T> {
    pub(super) shape: [usize; 2],
    pub(super) basis: QrBasis,
    pub(super) a: &'a [T],
    pub(super) q: Option<&'a mut [T]>,
    pub(super) r: &'a mut [T],
}

/// Returns the numbers of rows and columns of `q` that are computed.
fn shape_of_q([m, n]: [usize; 2], basis: QrBasis) -> [usize; 2] {
    match basis {
        QrBasis::None => [0, 0],
        QrBasis::Thin | QrBasis::Full => [m, basis.rows_of_r(m, n)],
    }
}

pub(super) fn need([m, n]: [usize; 2], basis: QrBasis) -> ScratchSize {
    let [rows, columns] = shape_of_q([m, n], basis);
    grid(m, n).and(grid(rows, columns)).and(grid(1, m.min(n)))
}

impl<T: Real> Lockstep<T> for Qr<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let ([m, n], mut basis) = (self.shape, self.q);
        let width = self.basis.rows_of_r(m, n);
        let mut a = Grid::take(lanes, [m, n], &mut scratch)?;
        let mut q = Grid::take(lanes, shape_of_q([m, n], self.basis), &mut scratch)?;
        let mut taus = Grid::take(lanes, [1, m.min(n)], &mut scratch)?;
        for mut group in Group::all(members, L::COUNT) {
            group.scale(|member| largest(&self.a[member * m * n..(member + 1) * m * n]));
            a.load(&group, self.a, Layout::Rows);
            factor(&mut a, &mut taus);
            if basis.is_some() {
                multiply(&a, &taus, &mut q);
            }
            direct(&mut a, &mut q);
            a.store(&group, width, self.r, Layout::Rows, Scale::Undo);
            if let Some(basis) = &mut basis {
                q.store(&group, m, basis, Layout::Rows, Scale::Keep);
            }
        }
        Ok(())
    }
}

/// Factors `a` in place by Householder reflections: afterwards `r` is on and above the diagonal, and below it are
/// the vectors `v` of the reflections `h = I - tau v v^T`, without their first element, a one. For a column `x`
/// from the diagonal on,
///
/// ```text
/// h x = beta e1,   beta = -sign(x1) |x|,   tau = (beta - x1) / beta,   v = x / (x1 - beta) but for v1 = 1
/// ```
///
/// and `tau = 0` if `x` is already a multiple of `e1`.
#[inline(always)]
pub(super) fn factor<L: Lanes>(a: &mut Grid<'_, L>, taus: &mut Grid<'_, L>) {
    let (m, n) = (a.rows, a.columns);
    let (zero, one) = (a.zero(), a.one());
    // If a column's largest entry is below `small`, squares of its entries underflow, so they are computed from
    // the scaled column.
    let range = L::Number::FACTOR_EXPONENT;
    let small = a.splat(L::Number::power_of_two(-range * 2 / 5));
    let [up, down] = [1, -1].map(|sign| a.splat(L::Number::power_of_two(sign * range * 5 / 6)));
    for j in 0..m.min(n) {
        let mut most = zero;
        for i in j..m {
            let size = a.at(i, j).abs();
            most = size.greater(most).select(size, most);
        }
        let is_small = most.less(small);
        let (up, down) = (is_small.select(up, one), is_small.select(down, one));
        let first = a.at(j, j) * up;
        let mut squares = zero;
        for i in j + 1..m {
            let x = a.at(i, j) * up;
            a.set(i, j, x);
            squares = squares + x * x;
        }
        let reflects = squares.greater(zero);
        let length = (first * first + squares).root();
        let beta = first.less(zero).select(length, -length);
        let tau = reflects.select((beta - first) / beta, zero);
        let reciprocal = reflects.select(one / (first - beta), zero);
        a.set(j, j, reflects.select(beta, first) * down);
        taus.set(0, j, tau);
        for i in j + 1..m {
            a.set(i, j, a.at(i, j) * reciprocal);
        }
        for column in j + 1..n {
            let mut product = a.at(j, column);
            for i in j + 1..m {
                product = product + a.at(i, j) * a.at(i, column);
            }
            let product = product * tau;
            a.set(j, column, a.at(j, column) - product);
            for i in j + 1..m {
                a.set(i, column, a.at(i, column) - a.at(i, j) * product);
            }
        }
    }
}

/// Writes the first columns of the product of the reflections of a factored `a` into `q`.
#[inline(always)]
pub(super) fn multiply<L: Lanes>(a: &Grid<'_, L>, taus: &Grid<'_, L>, q: &mut Grid<'_, L>) {
    q.set_identity();
    for j in (0..a.rows.min(a.columns)).rev() {
        // The reflections applied so far have not changed the columns before `j`: they are still columns of the
        // identity.
        for column in j..q.columns {
            let mut product = q.at(j, column);
            for i in j + 1..a.rows {
                product = product + a.at(i, j) * q.at(i, column);
            }
            let product = product * taus.at(0, j);
            q.set(j, column, q.at(j, column) - product);
            for i in j + 1..a.rows {
                q.set(i, column, q.at(i, column) - a.at(i, j) * product);
            }
        }
    }
}

/// Writes zeros over the reflections below the diagonal of `r`, and makes its diagonal non-negative: `q r = (q d)
/// (d r)` for a diagonal `d` of signs.
#[inline(always)]
pub(super) fn direct<L: Lanes>(r: &mut Grid<'_, L>, q: &mut Grid<'_, L>) {
    for j in 0..r.rows.min(r.columns) {
        for i in j + 1..r.rows {
            r.set(i, j, r.zero());
        }
        let negative = r.at(j, j).less(r.zero());
        for column in j..r.columns {
            r.set(j, column, r.at(j, column).negated_where(negative));
        }
        for i in 0..q.rows {
            q.set(i, j, q.at(i, j).negated_where(negative));
        }
    }
}
