//! Loops around a statement, and how far sums of their counters go.
//!
//! A loop may have an extent that is itself such a sum (a triangle).

use crate::loop_ir::IndexId;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;

/// A loop around a statement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// Its counter.
    pub index: IndexId,
    /// How often it runs, which may depend on the counters of loops around it.
    pub extent: Affine<IndexId>,
}

impl Loop {
    /// How many iterations it has, if that is always the same.
    pub(super) fn iterations(&self) -> Option<i64> {
        self.extent.value().filter(|n| *n > 0)
    }
}

/// The least and the most that a sum is while those loops run; inner extents may depend on outer counters.
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
