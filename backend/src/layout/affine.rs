//! The loops around a statement, and the least and greatest value of an affine form of their counters.
//!
//! The extent of a loop may be an affine form of outer counters (a triangular loop nest).

use crate::loop_ir::IndexId;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;

/// A loop around a load, a store or another statement: its counter and its trip count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// The counter of the loop, which runs from 0 to `extent - 1`.
    pub index: IndexId,
    /// The trip count, which may depend on the counters of outer loops.
    pub extent: Affine<IndexId>,
}

impl Loop {
    /// Returns the trip count if it is constant and positive.
    pub(super) fn iterations(&self) -> Option<i64> {
        self.extent.value().filter(|n| *n > 0)
    }
}

/// Returns the least and the greatest value of the affine form `sum` over all iterations of `loops`. The extents of
/// these loops may depend on outer counters. Returns `None` if a bound overflows or is not a constant.
pub(super) fn range(sum: &Affine<IndexId>, loops: &[Loop]) -> Option<Interval> {
    let least = most(&sum.checked_times(-1)?, loops)?.checked_neg()?;
    Some(Interval::new(least, most(sum, loops)?))
}

fn most(sum: &Affine<IndexId>, loops: &[Loop]) -> Option<i64> {
    let mut all = sum.clone();
    for l in loops.iter().rev() {
        let (rest, stride) = all.without(l.index);
        all = rest;
        if stride > 0 {
            let last = l.extent.checked_plus(&Affine::constant(1), -1)?;
            all = all.checked_plus(&last, stride)?;
        }
    }
    all.value()
}
