//! One axis of a sum over windows: how it can be taken, and the work of each way.

use super::super::window::Move;
use super::Label;
use crate::fault::{Fault, planted};
use crate::lang::types::gcd;

/// A plan other than the sum as it is written is taken if it needs at most this part of the work.
pub(super) const LESS: f64 = 0.75;

/// Products of matrices come first if they need at most this multiple of the work of the sum as it is written.
pub(super) const MORE: f64 = 1.25;

/// One axis of a sum over windows: `elements o + taps k = scale i + offset` for results `i`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisSum {
    /// The coefficients of elements and of taps, both at least 1; their numbers, and that of results.
    pub(super) coefficients: [i64; 2],
    pub(super) extents: [usize; 2],
    pub(super) results: usize,
    pub(super) scale: i64,
    pub(super) offset: i64,
    /// The taps are counted from the last one on.
    pub(super) reversed: bool,
    /// The results are counted from the last one on.
    pub(super) mirrored: bool,
}

/// How the sum along an axis is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct AxisPlan {
    pub(super) line: AxisSum,
    /// Windows are over the taps, and the sum over elements.
    pub(super) over_taps: bool,
    /// The common divisor of both coefficients.
    pub(super) common: i64,
    /// Both coefficients divided by it: that along which windows move, and that which is summed.
    pub(super) phases: i64,
    pub(super) step: i64,
    /// What places of windows are divided by; 1 but for a sum that stays as it is written.
    pub(super) divisor: i64,
    /// Where results begin, over the common divisor; how many there are before they are spread.
    pub(super) first: i64,
    pub(super) count: usize,
}

/// Remainders with equal numbers of terms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remainders {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) terms: usize,
}

impl AxisSum {
    /// The axis of a move whose sum is over its taps; none if the move stands still or has no results.
    pub(super) fn of(m: &Move, elements: usize, taps: usize) -> Option<AxisSum> {
        // Results may go with the elements or against them, and so may taps.
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

    /// The same, if a sum is over the windows and its results are the places: `(scale o + step k + offset) / divisor` has
    /// both in it alike.
    pub(super) fn of_places(m: &Move, elements: usize, places: usize) -> Option<AxisSum> {
        let turned = Move { scale: m.step, step: m.scale, extent: places, ..*m };
        AxisSum::of(&turned, elements, m.extent)
    }

    /// The plan with windows over the elements, or over the taps; none if there are no results. If both coefficients,
    /// without their common divisor, are larger than 1, windows over the elements stay as they are written, and there are
    /// none over the taps.
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
            // The first multiple that is no less, and the last that is no more.
            let (first, last) = (-(-self.offset).div_euclid(common), last.div_euclid(common));
            (first, usize::try_from(last - first + 1).ok().filter(|n| *n > 0)?)
        };
        Some(AxisPlan { line: self, over_taps, common, phases, step, divisor: 1, first, count })
    }

    /// The plan with the fewest terms.
    pub(super) fn best(self) -> Option<AxisPlan> {
        let (over_elements, over_taps) = (self.plan(false), self.plan(true));
        match (over_elements, over_taps) {
            // Windows as they were written stay, unless others are worth it; remainders cost more than they count.
            (Some(a), Some(b)) => {
                let worth = if a.phases == 1 { LESS } else { 1.0 };
                Some(if b.work() <= worth * a.work() { b } else { a })
            }
            (a, b) => a.or(b),
        }
    }
}

impl AxisPlan {
    /// The number of terms of all results, including results that are cut off in the end.
    pub(super) fn work(&self) -> f64 {
        let summed = self.line.extents[usize::from(!self.over_taps)] as f64;
        self.count as f64 * summed / self.phases as f64
    }

    /// Whether it is the sum as it was written.
    pub(super) fn is_plain(&self) -> bool {
        self.phases == 1 && self.common == 1 && !self.over_taps
    }

    /// The labels of the axis along which windows move and of the axis that is summed.
    pub(super) fn labels(&self, axis: usize) -> [Label; 2] {
        let both = [Label::Element(axis), Label::Tap(axis)];
        if self.over_taps { [both[1], both[0]] } else { both }
    }

    /// The extent of the axis that is summed.
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

    /// The first place of results, and how many places there are.
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

    /// Whether windows go against the order of the terms, if terms are in the order of taps. They are, so that sums keep the
    /// bits of those that were written.
    pub(super) fn ascends(&self) -> bool {
        self.over_taps == self.line.reversed
    }

    /// How windows move from one result to the next.
    pub(super) fn scale(&self) -> i64 {
        if self.phases == 1 && self.common == 1 { self.line.scale } else { 1 }
    }

    /// Whether one element gives a result, so that there are no windows.
    pub(super) fn shifts(&self, group: &Remainders) -> bool {
        group.terms == 1 && self.scale() == 1 && self.divisor == 1
    }
}
