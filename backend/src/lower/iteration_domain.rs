//! Members: what is placed in loops, with the axes it loops over and what it reads.
//!
//! A member is a computed node, or one part of a node that is written in parts (a concatenation is
//! written piece by piece). Its axes are those of its output and those it folds, outermost first:
//!
//! ```text
//! reduce_sum{axes=[0]} of f64[1000,8]   axes: fold 1000, out 8
//! ```
//!
//! Axes of extent 1 are no axes at all.

use super::graph::NodeId;
use smallvec::SmallVec;

/// What runs along an axis of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// An axis of the output.
    Out(usize),
    /// A folded axis: an axis of the operand of a reduction, a contracted pair.
    Fold(usize),
}

/// A loop that a member needs. The index along the output's axis is `start + step * loop index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) runs: Runs,
    pub(crate) start: i64,
    pub(crate) step: i64,
}

impl Axis {
    pub(crate) fn whole(extent: usize, runs: Runs) -> Axis {
        Axis { extent, runs, start: 0, step: 1 }
    }
}

/// Which elements of its node a member computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All.
    Whole,
    /// Of a view: the fill everywhere, before the pieces are written over it.
    Fill,
    /// Of a view: that piece.
    Piece(usize),
}

/// For each axis of an array, the position among the member's axes whose index it is.
pub(crate) type Along = SmallVec<[Option<usize>; 4]>;

/// An array read by a member.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) node: NodeId,
    /// Where.
    pub(crate) at: Along,
}

/// Something to place.
#[derive(Clone, Debug)]
pub(crate) struct FusionCandidate {
    pub(crate) node: NodeId,
    pub(crate) part: Part,
    /// Outermost first.
    pub(crate) axes: SmallVec<[Axis; 4]>,
    /// Axes from here on are unrolled.
    pub(crate) unrolled_from: usize,
    pub(crate) reads: Vec<Read>,
}

impl FusionCandidate {
    /// The position of the first folded axis.
    pub(crate) fn first_fold(&self) -> Option<usize> {
        self.axes.iter().position(|a| matches!(a.runs, Runs::Fold(_)))
    }

    /// The number of elements visited from that axis on.
    pub(crate) fn rest(&self, from: usize) -> usize {
        self.axes[from.min(self.axes.len())..].iter().map(|a| a.extent).product()
    }

    /// Whether results accumulate in memory: there is a loop over outputs inside one over terms.
    pub(crate) fn accumulates_in_memory(&self) -> bool {
        let Some(fold) = self.first_fold() else { return false };
        let looped = self.axes.iter().enumerate().take(self.unrolled_from).skip(fold);
        looped.into_iter().any(|(_, a)| matches!(a.runs, Runs::Out(_)))
    }
}
