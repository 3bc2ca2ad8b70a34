//! Index arithmetic: affine forms in loop indices and run-time scalars.
//!
//! An element of an array is named by one [`Affine`] per axis. Views map affine forms to affine
//! forms, so that a chain of slices, permutations and broadcasts costs nothing at run time: with
//! `y = rev(x)[2:]` the element `y[i]` is `x[n - 3 - i]`.

use crate::kernel::{IndexId, ScalarId};
use smallvec::SmallVec;

/// What an affine form is affine in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum Term {
    /// A loop index.
    Index(IndexId),
    /// An i64 scalar.
    Scalar(ScalarId),
}

/// `offset + Σ term * factor`; terms are sorted and no factor is zero, so equal forms are equal
/// values.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Affine {
    pub(crate) offset: i64,
    pub(crate) terms: SmallVec<[(Term, i64); 2]>,
}

/// One affine form per axis of an array.
pub(crate) type Index = SmallVec<[Affine; 4]>;

/// The least and the largest value of something.
pub(crate) type Range = (i64, i64);

impl Affine {
    pub(crate) fn constant(offset: i64) -> Affine {
        Affine { offset, terms: SmallVec::new() }
    }

    pub(crate) fn term(term: Term) -> Affine {
        Affine { offset: 0, terms: SmallVec::from_slice(&[(term, 1)]) }
    }

    pub(crate) fn is_constant(&self) -> bool {
        self.terms.is_empty()
    }

    /// `self * factor + offset`
    pub(crate) fn scale(&self, factor: i64, offset: i64) -> Affine {
        if factor == 0 {
            return Affine::constant(offset);
        }
        let terms = self.terms.iter().map(|(t, f)| (*t, f * factor)).collect();
        Affine { offset: self.offset * factor + offset, terms }
    }

    pub(crate) fn add(&self, other: &Affine) -> Affine {
        let mut terms: SmallVec<[(Term, i64); 2]> = SmallVec::new();
        let (mut a, mut b) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some((s, f)), Some((t, g))) if s == t => {
                    let sum = (*s, f + g);
                    a.next();
                    b.next();
                    sum
                }
                (Some(x), Some(y)) if x.0 < y.0 => {
                    let x = **x;
                    a.next();
                    x
                }
                (Some(x), None) => {
                    let x = **x;
                    a.next();
                    x
                }
                (_, Some(y)) => {
                    let y = **y;
                    b.next();
                    y
                }
                (None, None) => break,
            };
            if next.1 != 0 {
                terms.push(next);
            }
        }
        Affine { offset: self.offset + other.offset, terms }
    }

    /// The only loop index that this is, if it is nothing else.
    pub(crate) fn as_index(&self) -> Option<IndexId> {
        match (self.offset, self.terms.as_slice()) {
            (0, [(Term::Index(i), 1)]) => Some(*i),
            _ => None,
        }
    }

    /// Least and largest value, given those of the terms; saturating.
    pub(crate) fn range(&self, of: &impl Fn(Term) -> Range) -> Range {
        let mut range = (self.offset, self.offset);
        for (t, f) in &self.terms {
            let (lo, hi) = of(*t);
            let (a, b) = (lo.saturating_mul(*f), hi.saturating_mul(*f));
            range = (range.0.saturating_add(a.min(b)), range.1.saturating_add(a.max(b)));
        }
        range
    }

    /// `(quotient, remainder)` by a positive divisor, where the remainder lies in `0..divisor`
    /// whatever the terms are; `None` where it is not affine.
    pub(crate) fn divide(
        &self,
        divisor: i64,
        of: &impl Fn(Term) -> Range,
    ) -> Option<(Affine, Affine)> {
        if divisor == 1 {
            return Some((self.clone(), Affine::default()));
        }
        let mut quotient = Affine::constant(self.offset.div_euclid(divisor));
        let mut remainder = Affine::constant(self.offset.rem_euclid(divisor));
        for (t, f) in &self.terms {
            if f % divisor == 0 {
                quotient.terms.push((*t, f / divisor));
            } else {
                remainder.terms.push((*t, *f));
            }
        }
        let (lo, hi) = remainder.range(of);
        (lo >= 0 && hi < divisor).then_some((quotient, remainder))
    }
}

/// The row-major position of an index.
pub(crate) fn flatten(index: &[Affine], shape: &[usize]) -> Affine {
    let mut flat = Affine::default();
    for (a, extent) in index.iter().zip(shape) {
        flat = flat.scale(*extent as i64, 0).add(a);
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_entity::EntityRef;

    fn i(n: usize) -> Affine {
        Affine::term(Term::Index(IndexId::new(n)))
    }

    #[test]
    fn addition_keeps_terms_sorted_and_drops_zeros() {
        let a = i(1).scale(3, 2).add(&i(0));
        assert_eq!(a, i(0).add(&i(1).scale(3, 2)));
        assert_eq!(a.add(&i(1).scale(-3, 0)), i(0).scale(1, 2));
    }

    #[test]
    fn a_row_major_position_is_taken_apart_again() {
        let extents = |t: Term| match t {
            Term::Index(i) if i.index() == 0 => (0, 7),
            _ => (0, 99),
        };
        let flat = flatten(&[i(0), i(1)], &[8, 100]);
        assert_eq!(flat.divide(100, &extents), Some((i(0), i(1))));
        assert_eq!(flat.divide(50, &extents), None);
        assert_eq!(flat.scale(1, 1).divide(100, &extents), None);
    }
}
