//! Index arithmetic: affine forms in loop indices and run-time scalars.
//!
//! An element of an array is named by one [`Affine`] for each axis. A view maps affine forms to affine forms, so a
//! chain of slices, permutations and broadcasts costs nothing at run time: with `y = rev(x)[2:]` for an `x` of `n`
//! elements, the element `y[i]` is `x[n - 3 - i]`.

use crate::loop_ir::{Arg, IndexId, ScalarId};
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine;
use tapeloom_ir::prim::AxisMap;

/// A variable of an affine form. The form multiplies each of its variables by a constant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Term {
    /// A loop index.
    Index(IndexId),
    /// An i64 scalar.
    Scalar(ScalarId),
}

impl Term {
    /// Returns the loop index or scalar of this term as an operand of a loop-IR statement.
    pub(crate) fn arg(self) -> Arg {
        match self {
            Term::Index(i) => Arg::Index(i),
            Term::Scalar(s) => Arg::Scalar(s),
        }
    }
}

/// An i64 that the program computes, as an affine form in loop indices and i64 scalars.
pub(crate) type Affine = affine::Affine<Term>;

/// The index of an array element: one affine form per axis.
pub(crate) type Index = SmallVec<[Affine; 4]>;

/// Returns the loop index `i` if the form is exactly `i` (offset 0, one term with coefficient 1).
pub(crate) fn as_index(a: &Affine) -> Option<IndexId> {
    match (a.offset(), a.terms()) {
        (0, [(Term::Index(i), 1)]) => Some(*i),
        _ => None,
    }
}

/// Returns the index along one axis of a view's operand for an output index, before the division by the divisor of the
/// axis map.
pub(crate) fn affine_index(map: &AxisMap, index: &Index) -> Affine {
    let sum = |sum: Affine, (axis, factor): &(usize, i64)| sum.plus(&index[*axis], *factor);
    map.terms.iter().fold(Affine::default(), sum).moved(map.offset)
}
