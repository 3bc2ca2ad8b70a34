//! Fusion candidates: the units that fusion places in loops, with their loop axes and reads.
//!
//! A fusion candidate is a computed node, or one part of a node that is written in parts (a concatenation is written
//! piece by piece). Its axes are the axes of its output and the axes that it folds, outermost first:
//!
//! ```text
//! reduce_sum{axes=[0]} of f64[1000,8]   axes: fold 1000, out 8
//! ```
//!
//! Axes of extent 1 are left out.

use crate::lower::graph::NodeId;
use smallvec::SmallVec;

/// The role of a loop axis of a fusion candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AxisRole {
    /// An axis of the output.
    Out(usize),
    /// A folded axis: an axis of the operand of a reduction, or a contracted pair.
    Fold(usize),
}

/// A loop that a fusion candidate needs. The index along the output's axis is `start + step * i`, where `i` is the loop
/// index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) runs: AxisRole,
    pub(crate) start: i64,
    pub(crate) step: i64,
}

impl Axis {
    pub(crate) fn whole(extent: usize, runs: AxisRole) -> Axis {
        Axis { extent, runs, start: 0, step: 1 }
    }
}

/// The elements of a node that a fusion candidate computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CandidatePart {
    /// All elements.
    Whole,
    /// The elements of a view that no operand provides, as the whole output or a box of it. Pieces may overwrite some
    /// of them afterwards.
    Fill,
    /// The elements of a view that come from one of its operands, by the number of the view's piece.
    Piece(usize),
}

/// For each axis of an array, the axis of the reading node that has the same loop index; `None` if there is none.
pub(crate) type CandidateAxes = SmallVec<[Option<usize>; 4]>;

/// An array that a computed node reads, with the loop index along each of its axes.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) node: NodeId,
    /// For each axis of the array, the axis of the reading node whose loop index is also the index into the array.
    pub(crate) at: CandidateAxes,
}

/// A computed node, or a part of one, to be placed in loops.
#[derive(Clone, Debug)]
pub(crate) struct FusionCandidate {
    pub(crate) node: NodeId,
    pub(crate) part: CandidatePart,
    /// The axes, outermost first.
    pub(crate) axes: SmallVec<[Axis; 4]>,
    /// The position in `axes` from which on all axes are unrolled.
    pub(crate) unrolled_from: usize,
    pub(crate) reads: Vec<Read>,
}

impl FusionCandidate {
    /// Returns the index in `axes` of the first folded axis, if there is one.
    pub(crate) fn first_fold(&self) -> Option<usize> {
        self.axes.iter().position(|a| matches!(a.runs, AxisRole::Fold(_)))
    }

    /// Returns the product of the extents of `axes[from..]`.
    pub(crate) fn rest(&self, from: usize) -> usize {
        self.axes[from.min(self.axes.len())..].iter().map(|a| a.extent).product()
    }

    /// Returns whether results accumulate in memory instead of variables, because a loop over outputs lies inside a
    /// loop over terms.
    pub(crate) fn accumulates_in_memory(&self) -> bool {
        let Some(fold) = self.first_fold() else { return false };
        let looped = self.axes.iter().enumerate().take(self.unrolled_from).skip(fold);
        looped.into_iter().any(|(_, a)| matches!(a.runs, AxisRole::Out(_)))
    }
}
