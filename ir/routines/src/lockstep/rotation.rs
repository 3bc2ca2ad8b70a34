//! Jacobi rotations in lockstep, and the steps that follow them: sorting the values, and choosing the signs of
//! the vectors.

use crate::lockstep::grid::Grid;
use crate::lockstep::pack::{Lanes, Pack, Truth};
use rustfft::num_traits::{One, Zero};

/// The number of sweeps over all pairs of columns after which the iteration fails. Four to eight are usual.
pub(super) const SWEEPS: usize = 40;

/// A plane rotation per lane that makes two rows or columns orthogonal; in lanes where they are orthogonal already, the
/// rotation is not applied.
#[derive(Clone, Copy)]
pub(super) struct Rotation<L: Lanes> {
    active: Truth<L>,
    cosine: Pack<L>,
    sine: Pack<L>,
    tangent: Pack<L>,
}

impl<L: Lanes> Rotation<L> {
    /// Returns the rotation by the smaller of the angles that make `[[p, r], [r, q]]` diagonal (Rutishauser,
    /// 1966):
    ///
    /// ```text
    /// h = q - p,   y = sign(h) 2 r,   w = |h| + sqrt(h^2 + y^2),   tan = y / w,   cos = w / |w, y|,   sin = y / |w, y|
    /// ```
    #[inline(always)]
    pub(super) fn of([p, q, r]: [Pack<L>; 3], active: Truth<L>) -> Self {
        let [zero, one] = [L::Number::zero(), L::Number::one()].map(|x| Pack::of(p.lanes, x));
        let h = q - p;
        let y = (r + r).negated_where(h.less(zero));
        let w = h.abs() + (h * h + y * y).root();
        let reciprocal = one / (w * w + y * y).root();
        Rotation { active, cosine: w * reciprocal, sine: y * reciprocal, tangent: y / w }
    }

    /// Returns the rotated pair `(cos x - sin y, sin x + cos y)`; in lanes that are not active `x` and `y`
    /// unchanged, bit by bit.
    #[inline(always)]
    pub(super) fn apply(self, x: Pack<L>, y: Pack<L>) -> (Pack<L>, Pack<L>) {
        let Rotation { active, cosine, sine, tangent: _ } = self;
        (active.select(cosine * x - sine * y, x), active.select(sine * x + cosine * y, y))
    }

    /// Returns the diagonal `(p, q)` of the 2 x 2 matrix after the rotation: `(p - tan r, q + tan r)`.
    #[inline(always)]
    pub(super) fn turn_diagonal(self, [p, q, r]: [Pack<L>; 3]) -> (Pack<L>, Pack<L>) {
        let change = self.tangent * r;
        (self.active.select(p - change, p), self.active.select(q + change, q))
    }

    /// Applies the rotation to columns `p` and `q` of `a`.
    #[inline(always)]
    pub(super) fn turn_columns(self, a: &mut Grid<'_, L>, p: usize, q: usize) {
        for i in 0..a.rows {
            let (x, y) = self.apply(a.at(i, p), a.at(i, q));
            a.set(i, p, x);
            a.set(i, q, y);
        }
    }
}

/// The order of sorted singular values or eigenvalues.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Ascending,
    Descending,
}

/// Sorts a row of values in each lane, and reorders the columns of the matrices accordingly. Equal values stay in their
/// order.
#[inline(always)]
pub(super) fn sort<L: Lanes, const N: usize>(
    order: Order,
    values: &mut Grid<'_, L>,
    mut columns: [&mut Grid<'_, L>; N],
) {
    for end in (1..values.columns).rev() {
        for j in 0..end {
            let (x, y) = (values.at(0, j), values.at(0, j + 1));
            let exchanged = match order {
                Order::Ascending => y.less(x),
                Order::Descending => x.less(y),
            };
            values.exchange([0, j], [0, j + 1], exchanged);
            for a in &mut columns {
                for i in 0..a.rows {
                    a.exchange([i, j], [i, j + 1], exchanged);
                }
            }
        }
    }
}

/// Makes the component of largest absolute value of a column (the first of several) positive in each lane.
/// Returns the lanes in which the sign of the column was changed.
#[inline(always)]
pub(super) fn direct<L: Lanes>(a: &mut Grid<'_, L>, column: usize) -> Truth<L> {
    let mut most = a.zero();
    for i in 0..a.rows {
        let x = a.at(i, column);
        most = most.abs().less(x.abs()).select(x, most);
    }
    let down = most.less(a.zero());
    negate_column(a, column, down);
    down
}

/// Changes the signs of a column in the lanes where `which` is true.
#[inline(always)]
pub(super) fn negate_column<L: Lanes>(a: &mut Grid<'_, L>, column: usize, which: Truth<L>) {
    for i in 0..a.rows {
        a.set(i, column, a.at(i, column).negated_where(which));
    }
}
