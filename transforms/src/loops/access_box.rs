//! Areas: boxes in an array (ranges of indices along each axis) that iterations of a loop read or write, and tests
//! whether two areas overlap.
//!
//! ```text
//! x[8 i + j, 2] with a constant i, and with the iteration number j in 0..=7:
//!     axis 0: base 8 i, range 0..=7; axis 1: base 0, range 2..=2
//! ```
//!
//! Along each axis, an area has a base, an affine form that no iteration changes, and a range of offsets from
//! the base.

use super::integer_facts::{Symbol, ValueFacts};
use tapeloom_ir::ValueId;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;

/// The range of indices that an area covers along one axis: a base, and offsets from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AxisRange {
    /// The base, an affine form that has the same value in all iterations.
    pub(super) base: Affine<Symbol>,
    /// The smallest offset from the base, inclusive.
    pub(super) least: i64,
    /// The largest offset from the base, inclusive.
    pub(super) most: i64,
}

impl AxisRange {
    pub(super) fn whole(extent: usize) -> AxisRange {
        AxisRange { base: Affine::default(), least: 0, most: extent as i64 - 1 }
    }

    /// Returns a range that contains the `size` indices from `start` on, in every iteration; the whole axis if these
    /// indices are not known to lie within the axis. `same` returns whether the elements of a value are the same in all
    /// iterations.
    pub(super) fn of(
        known: &ValueFacts<'_>,
        start: &Affine<Symbol>,
        size: usize,
        extent: usize,
        same: impl Fn(ValueId) -> bool,
    ) -> AxisRange {
        let (base, moves) = start.partition(|(v, _)| same(v));
        let moves = known.range_of(&moves).plus(Interval::new(0, size as i128 - 1));
        let inside = Interval::below(extent);
        let ends = (i64::try_from(moves.least), i64::try_from(moves.most));
        match (known.range_of(&base).plus(moves).within(inside), ends) {
            (true, (Ok(least), Ok(most))) => AxisRange { base, least, most },
            _ => AxisRange::whole(extent),
        }
    }

    /// Returns the number of indices in the range.
    pub(super) fn size(&self) -> usize {
        let size = (self.most - self.least + 1).max(0);
        usize::try_from(size).unwrap_or(usize::MAX)
    }

    /// Returns the first index of the range, as an affine form.
    pub(super) fn start(&self) -> Affine<Symbol> {
        self.base.clone().moved(self.least)
    }

    /// Returns a range that contains this range and `other`; the smallest such range if the two bases are equal.
    fn or(&self, other: &AxisRange, known: &ValueFacts<'_>, extent: usize) -> AxisRange {
        if self.base == other.base {
            let (least, most) = (self.least.min(other.least), self.most.max(other.most));
            return AxisRange { base: self.base.clone(), least, most };
        }
        let both = self.range(known).join(other.range(known));
        let both = both.meet(Interval::below(extent));
        AxisRange { base: Affine::default(), least: both.least as i64, most: both.most as i64 }
    }

    /// Returns an interval that contains all indices of the range.
    fn range(&self, known: &ValueFacts<'_>) -> Interval {
        known.range_of(&self.base).plus(Interval::new(self.least, self.most))
    }

    fn is_disjoint(&self, other: &AxisRange, known: &ValueFacts<'_>) -> bool {
        let Some(away) = self.base.checked_plus(&other.base, -1) else { return false };
        let away = known.range_of(&away);
        let below = away.most + i128::from(self.most) < i128::from(other.least);
        below || away.least + i128::from(self.least) > i128::from(other.most)
    }

    fn holds(&self, other: &AxisRange) -> bool {
        self.base == other.base && self.least <= other.least && other.most <= self.most
    }
}

/// A box in an array: one range for each axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Area(pub(super) Vec<AxisRange>);

impl Area {
    pub(super) fn elements(&self) -> usize {
        self.0.iter().map(AxisRange::size).product()
    }

    /// Returns an area that contains this area and `other`, in an array with these `extents`.
    pub(super) fn or(&self, other: &Area, known: &ValueFacts<'_>, extents: &[usize]) -> Area {
        let pairs = self.0.iter().zip(&other.0).zip(extents);
        Area(pairs.map(|((a, b), extent)| a.or(b, known, *extent)).collect())
    }

    /// Returns whether this area in any iteration is known to be disjoint from `other` in any iteration.
    pub(super) fn is_disjoint(&self, other: &Area, known: &ValueFacts<'_>) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a.is_disjoint(b, known))
    }

    pub(super) fn holds(&self, other: &Area) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a.holds(b))
    }
}
