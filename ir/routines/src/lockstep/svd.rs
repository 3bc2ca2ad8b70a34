//! Singular value decomposition by one-sided Jacobi rotations (Hestenes, 1958; Golub and Van Loan, section 8.6.3).
//!
//! Rotations from the right make the columns of `a` orthogonal, `b = a v`. The lengths of the columns of `b`
//! are the singular values. In descending order, `b = u diag(s)` is also the QR factorisation of `b`. Computed
//! in this way, `u` is orthogonal to the last digit for all values, and has columns also where values are zero,
//! and beyond the last value.

use crate::lockstep::Lockstep;
use crate::lockstep::grid::{Grid, Group, Layout, Scale, need as grid};
use crate::lockstep::pack::{Lanes, Pack, Truth};
use crate::lockstep::qr;
use crate::lockstep::rotation::{Order, Rotation, SWEEPS, direct, negate_column, sort};
use crate::real::{Failed, Real, largest};
use crate::scratch::{Scratch, ScratchSize};
use crate::svd::Bases;

/// The buffers of a singular value decomposition in lockstep (one batch member per vector lane),
/// `a[m, n] -> s[k]`, and `u[m, left], vt[right, n]`. A wide matrix is decomposed as its long transpose.
pub(super) struct Svd<'a, T> {
    pub(super) shape: [usize; 2],
    /// The number of vectors of the longer side: columns of `u` if `m >= n`, otherwise rows of `vt`.
    pub(super) width: usize,
    pub(super) a: &'a [T],
    pub(super) s: &'a mut [T],
    /// The buffers of `u` and `vt`, if vectors are requested.
    pub(super) bases: Option<Bases<'a, T>>,
}

pub(super) fn need([m, n]: [usize; 2], width: usize, vectors: bool) -> ScratchSize {
    let (long, short) = (m.max(n), m.min(n));
    let values = grid(long, short).and(grid(1, short));
    if vectors {
        values.and(grid(short, short)).and(grid(long, width)).and(grid(1, short))
    } else {
        values
    }
}

impl<T: Real> Lockstep<T> for Svd<'_, T> {
    #[inline(always)]
    fn run<L: Lanes<Number = T>>(
        self,
        lanes: L,
        members: usize,
        mut scratch: Scratch<'_>,
    ) -> Result<(), Failed> {
        let Svd { shape: [m, n], width, a, s: s_to, mut bases } = self;
        let (long, short) = (m.max(n), m.min(n));
        let [rows_of_u, rows_of_v] = if bases.is_some() { [long, short] } else { [0; 2] };
        let mut b = Grid::take(lanes, [long, short], &mut scratch)?;
        let mut s = Grid::take(lanes, [1, short], &mut scratch)?;
        let mut v = Grid::take(lanes, [rows_of_v, short], &mut scratch)?;
        let mut u = Grid::take(lanes, [rows_of_u, width], &mut scratch)?;
        let mut taus = Grid::take(lanes, [usize::from(bases.is_some()), short], &mut scratch)?;
        let raise = b.splat(T::power_of_two(T::FACTOR_EXPONENT / 5));
        let lower = b.splat(T::power_of_two(-T::FACTOR_EXPONENT / 5));
        for mut group in Group::all(members, L::COUNT) {
            group.scale(|member| largest(&a[member * m * n..(member + 1) * m * n]));
            b.load(&group, a, if m < n { Layout::Columns } else { Layout::Rows });
            for i in 0..long {
                for j in 0..short {
                    b.set(i, j, b.at(i, j) * raise);
                }
            }
            v.set_identity();
            group.fail(make_orthogonal(&mut b, &mut v));
            for j in 0..short {
                s.set(0, j, product(&b, j, j));
            }
            sort(Order::Descending, &mut s, [&mut b, &mut v]);
            for j in 0..short {
                s.set(0, j, s.at(0, j).root() * lower);
            }
            s.store(&group, 1, s_to, Layout::Rows, Scale::Undo);
            let Some(Bases { u: u_to, vt: vt_to }) = &mut bases else { continue };
            qr::factor(&mut b, &mut taus);
            qr::multiply(&b, &taus, &mut u);
            qr::direct(&mut b, &mut u);
            let (left, right) = if m < n { (&mut v, &mut u) } else { (&mut u, &mut v) };
            for j in 0..short {
                let down = direct(left, j);
                negate_column(right, j, down);
            }
            for j in short..width {
                direct(&mut u, j);
            }
            let (left, right) = if m < n { (&v, &u) } else { (&u, &v) };
            left.store(&group, m, u_to, Layout::Rows, Scale::Keep);
            right.store(&group, n, vt_to, Layout::Columns, Scale::Keep);
        }
        Ok(())
    }
}

/// Returns the scalar product of columns `p` and `q` of `b`.
#[inline(always)]
fn product<L: Lanes>(b: &Grid<'_, L>, p: usize, q: usize) -> Pack<L> {
    let mut sum = b.zero();
    for i in 0..b.rows {
        sum = sum + b.at(i, p) * b.at(i, q);
    }
    sum
}

/// Makes the columns of `b` orthogonal by rotations, and multiplies `v` from the right by the rotations. Returns
/// the lanes in which the iteration does not converge.
///
/// Columns `x`, `y` count as orthogonal if `|x y| <= 4 ulp |x| |y|`, about the error of the product, so small
/// singular values of columns with different lengths have correct digits too. The entries of `b` are so large
/// that the squares of these products are normal numbers, unless a column is negligible compared with the
/// longest.
#[inline(always)]
fn make_orthogonal<L: Lanes>(b: &mut Grid<'_, L>, v: &mut Grid<'_, L>) -> Truth<L> {
    let zero = b.zero();
    let nothing = b.splat(L::Number::power_of_two(-L::Number::FACTOR_EXPONENT / 3));
    let tolerance = b.splat(L::Number::ULP * L::Number::power_of_two(2));
    let mut unfinished = zero.less(zero);
    for _ in 0..SWEEPS {
        unfinished = zero.less(zero);
        for q in 1..b.columns {
            for p in 0..q {
                let (pp, qq, pq) = (product(b, p, p), product(b, q, q), product(b, p, q));
                let active = ((tolerance * pp) * (tolerance * qq)).less(pq * pq)
                    & nothing.less(pp)
                    & nothing.less(qq);
                if !active.any() {
                    continue;
                }
                unfinished = unfinished | active;
                let rotation = Rotation::of([pp, qq, pq], active);
                rotation.turn_columns(b, p, q);
                rotation.turn_columns(v, p, q);
            }
        }
        if !unfinished.any() {
            break;
        }
    }
    unfinished
}
