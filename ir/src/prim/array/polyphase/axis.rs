//! One axis of a sum over windows: its possible plans and the work of each.

use super::super::window::Move;
use super::Label;
use crate::fault::{Fault, planted};
use crate::lang::types::gcd;

/// Another way to compute a sum over windows (a plan) replaces the sum as written only if its number of terms is at
/// most this fraction of the terms of the sum as written.
pub(super) const LESS: f64 = 0.75;

/// Matrix products before the sums over windows are chosen only if their number of terms is at most this multiple of
/// the terms of the sum as written.
pub(super) const MORE: f64 = 1.25;

/// One axis of a sum over windows. For result `i` it sums over the pairs of an element index `o` and a tap
/// index `k` with `coefficients[0] o + coefficients[1] k = scale i + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisSum {
    /// The coefficients of the element index and of the tap index, both at least 1.
    pub(super) coefficients: [i64; 2],
    /// The numbers of elements and of taps.
    pub(super) extents: [usize; 2],
    /// The number of results.
    pub(super) results: usize,
    pub(super) scale: i64,
    pub(super) offset: i64,
    /// Whether the tap index `k` counts from the last tap backwards.
    pub(super) reversed: bool,
    /// Whether the result index `i` counts from the last result backwards.
    pub(super) mirrored: bool,
}

/// The plan of a sum over windows along one axis: the axis over which windows move, the groups of results by remainder
/// (the *phases* of a polyphase filter), and the range of results.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisPlan {
    pub(super) line: AxisSum,
    /// Whether windows move along the taps and each result sums over elements; otherwise windows move along the
    /// elements and each result sums over taps.
    pub(super) over_taps: bool,
    /// The greatest common divisor of the two coefficients.
    pub(super) common: i64,
    /// The coefficient of the axis along which windows move, divided by `common`.
    pub(super) phases: i64,
    /// The coefficient of the summed axis, divided by `common`.
    pub(super) step: i64,
    /// The divisor of the index at which windows read; 1 except for a sum that stays as written.
    pub(super) divisor: i64,
    /// The offset of the first computed result, divided by `common`.
    pub(super) first: i64,
    /// The number of computed results. If `common` is not 1, the results between them are 0.
    pub(super) count: usize,
}

/// A range `from..to` of remainders of a result's offset divided by the number of phases. Each result with such a
/// remainder is a sum of `terms` terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remainders {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) terms: usize,
}

impl AxisSum {
    /// Returns the sum, along one axis, over the positions (taps) within a window whose movement along the axis is `m`.
    /// The axis has `elements` elements and the window `taps` taps. Returns `None` if the scale or the step of `m`, or
    /// an extent, is 0.
    pub(super) fn of(m: &Move, elements: usize, taps: usize) -> Option<AxisSum> {
        // The coefficients of an `AxisSum` are positive. So results with a negative scale are counted from the last
        // one, and so are taps with a positive step.
        let (mirrored, reversed) = (m.scale < 0, m.step > 0);
        let last = |on: bool, by: i64, n: usize| if on { by * (n as i64 - 1) } else { 0 };
        let line = AxisSum {
            coefficients: [m.divisor as i64, m.step.abs()],
            extents: [elements, taps],
            results: m.extent,
            scale: m.scale.abs(),
            offset: m.offset
                + last(reversed, m.step, taps.max(1))
                + last(mirrored, m.scale, m.extent.max(1)),
            reversed,
            mirrored,
        };
        let proper = m.scale != 0 && m.step != 0 && elements > 0 && taps > 0 && m.extent > 0;
        proper.then_some(line)
    }

    /// Returns the axis of a sum over the windows of the move `m`, with one result for each tap: windows and taps
    /// have the same role in the index `(scale o + step k + offset) / divisor`.
    pub(super) fn of_places(m: &Move, elements: usize, places: usize) -> Option<AxisSum> {
        let turned = Move { scale: m.step, step: m.scale, extent: places, ..*m };
        AxisSum::of(&turned, elements, m.extent)
    }

    /// Returns the plan with windows along the taps (if `over_taps`) or along the elements; `None` if there are
    /// no results. If both coefficients are larger than 1 after division by `common`, the plan along the elements
    /// is the sum as written, and there is no plan along the taps.
    pub(super) fn plan(self, over_taps: bool) -> Option<AxisPlan> {
        let [windowed, summed] = match over_taps {
            true => [self.coefficients[1], self.coefficients[0]],
            false => self.coefficients,
        };
        let common = gcd(windowed, summed);
        let (phases, step) = (windowed / common, summed / common);
        if phases != 1 && step != 1 {
            let (divisor, step) = (windowed, summed);
            let (first, count) = (self.offset, self.results);
            let plan = AxisPlan {
                line: self,
                over_taps,
                common: 1,
                phases: 1,
                step,
                divisor,
                first,
                count,
            };
            return (!over_taps).then_some(plan);
        }
        let (first, count) = if phases == 1 && common == 1 {
            (self.offset, self.results)
        } else {
            let last = self.offset + self.scale * (self.results as i64 - 1);
            // `first` is the smallest multiple of `common` that is not below the first result, and `last` the
            // largest that is not above the last result, both divided by `common`.
            let (first, last) = (-(-self.offset).div_euclid(common), last.div_euclid(common));
            (first, usize::try_from(last - first + 1).ok().filter(|n| *n > 0)?)
        };
        Some(AxisPlan { line: self, over_taps, common, phases, step, divisor: 1, first, count })
    }

    /// Returns one of two plans for the sum: each result sums over the taps, or each result sums over the elements.
    /// Chooses the plan with fewer terms to add, but prefers a sum over taps without phases. Returns `None` if neither
    /// plan exists.
    pub(super) fn best(self) -> Option<AxisPlan> {
        let (over_elements, over_taps) = (self.plan(false), self.plan(true));
        match (over_elements, over_taps) {
            // If the plan along the elements has no remainders, it is preferred, because groups of remainders cost more
            // time than their number of terms suggests. The plan along the taps is then chosen only if it has at most
            // the fraction `LESS` of the terms.
            (Some(a), Some(b)) => {
                let worth = if a.phases == 1 { LESS } else { 1.0 };
                Some(if b.work() <= worth * a.work() { b } else { a })
            }
            (a, b) => a.or(b),
        }
    }
}

impl AxisPlan {
    /// Returns the number of terms of all computed results together, including results that are cut off at the
    /// end.
    pub(super) fn work(&self) -> f64 {
        let summed = self.line.extents[usize::from(!self.over_taps)] as f64;
        self.count as f64 * summed / self.phases as f64
    }

    /// Returns whether the plan does not divide the sum along this axis into phases, and so does not change the loop
    /// over it.
    pub(super) fn is_plain(&self) -> bool {
        self.phases == 1 && self.common == 1 && !self.over_taps
    }

    /// Returns the label of the axis along which windows move and the label of the summed axis, for the window
    /// axis `axis`.
    pub(super) fn labels(&self, axis: usize) -> [Label; 2] {
        let both = [Label::Element(axis), Label::Tap(axis)];
        if self.over_taps { [both[1], both[0]] } else { both }
    }

    /// Returns the extent of the summed axis: the number of elements or of taps.
    pub(super) fn summed(&self) -> usize {
        self.line.extents[usize::from(!self.over_taps)]
    }

    pub(super) fn groups(&self) -> Vec<Remainders> {
        let (n, phases) = (self.summed(), self.phases as usize);
        let (terms, more) = (n / phases, n % phases);
        if planted(Fault::PaddedTap) && phases > 1 {
            return vec![Remainders { from: 0, to: phases, terms: n.div_ceil(phases) }];
        }
        let both = [
            Remainders { from: 0, to: more, terms: terms + 1 },
            Remainders { from: more, to: phases, terms },
        ];
        let mut kept: Vec<Remainders> =
            both.into_iter().filter(|g| g.from < g.to && g.terms > 0).collect();
        if planted(Fault::RemainderLeftOut) && kept.len() > 1 {
            kept.pop();
        }
        kept
    }

    /// Returns the first position of results and the number of positions. A *position* is the offset of a result
    /// divided by `phases` and rounded down.
    pub(super) fn places(&self) -> (i64, usize) {
        let last = self.first + self.count as i64 - 1;
        match self.phases {
            1 => (self.first, self.count),
            n => {
                let first = self.first.div_euclid(n);
                (first, (last.div_euclid(n) - first + 1) as usize)
            }
        }
    }

    /// Returns whether windows must move opposite to the terms for the terms to be in the order of the taps. The
    /// sum adds terms in that order so that it has the same bits as the sum as written.
    pub(super) fn ascends(&self) -> bool {
        self.over_taps == self.line.reversed
    }

    /// Returns the step of the windows from one position of results to the next.
    pub(super) fn scale(&self) -> i64 {
        if self.phases == 1 && self.common == 1 { self.line.scale } else { 1 }
    }

    /// Returns whether each result of the group has one term at its own position, so that a shift of the array
    /// replaces the windows.
    pub(super) fn shifts(&self, group: &Remainders) -> bool {
        group.terms == 1 && self.scale() == 1 && self.divisor == 1
    }
}
