//! Index arithmetic: affine forms in loop indices and run-time scalars.
//!
//! An element of an array is named by one [`Affine`] per axis. Views map affine forms to affine
//! forms, so that a chain of slices, permutations and broadcasts costs nothing at run time: with
//! `y = rev(x)[2:]` the element `y[i]` is `x[n - 3 - i]`.

use crate::loop_ir::{Arg, IndexId, ScalarId};
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine;

/// What an affine form is affine in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Term {
    /// A loop index.
    Index(IndexId),
    /// An i64 scalar.
    Scalar(ScalarId),
}

impl Term {
    /// The term as an operand.
    pub(crate) fn arg(self) -> Arg {
        match self {
            Term::Index(i) => Arg::Index(i),
            Term::Scalar(s) => Arg::Scalar(s),
        }
    }
}

/// An i64 that the program computes.
pub(crate) type Affine = affine::Affine<Term>;

/// One affine form per axis of an array.
pub(crate) type Index = SmallVec<[Affine; 4]>;

/// The only loop index that a form is, if it is nothing else.
pub(crate) fn as_index(a: &Affine) -> Option<IndexId> {
    match (a.offset(), a.terms()) {
        (0, [(Term::Index(i), 1)]) => Some(*i),
        _ => None,
    }
}
