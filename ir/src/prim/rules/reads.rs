//! Reads: which places of an array the rest of a function reads.
//!
//! A derivative that exists for some columns of a result and not for others (vectors of eigenvalues that are equal)
//! is asked for those that are read. A box says which: for each axis ranges of indices, so that every element that is
//! read lies in the box.
//!
//! ```text
//! %1: f64[5], %2: f64[5,5] = eigh{vectors=true} %0
//! %3: f64[5,2] = slice{start=[0,3], limit=[5,5], strides=[1,1]} %2      reads rows 0..5, columns 3..5 of %2
//! ```
//!
//! `transforms::ad::reads` finds them, and [`super::RuleCx::reads`] hands them to rules.

use crate::lang::types::Shape;
use std::ops::Range;

/// More ranges along an axis are replaced by the one range that contains them.
const MOST: usize = 32;

/// Indices along an axis: ascending ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<Range<usize>>);

impl Ranges {
    /// Every index of an axis.
    pub fn all(extent: usize) -> Ranges {
        Ranges::one(0..extent)
    }

    /// The indices of a range.
    pub fn one(range: Range<usize>) -> Ranges {
        Ranges::of(std::iter::once(range))
    }

    /// The indices in any of the ranges; a few more where that takes too many ranges.
    pub fn of(ranges: impl IntoIterator<Item = Range<usize>>) -> Ranges {
        let mut ranges: Vec<Range<usize>> = ranges.into_iter().filter(|r| !r.is_empty()).collect();
        ranges.sort_by_key(|r| r.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        match (joined.first(), joined.last()) {
            (Some(first), Some(last)) if joined.len() > MOST => Ranges::one(first.start..last.end),
            _ => Ranges(joined),
        }
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().cloned()
    }

    /// Whether there is no index.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of indices.
    pub fn len(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    /// Whether every index of an axis is there.
    pub fn is_all(&self, extent: usize) -> bool {
        self.len() == extent
    }

    /// The indices of both.
    pub fn or(&self, other: &Ranges) -> Ranges {
        Ranges::of(self.iter().chain(other.iter()))
    }

    /// The indices that the other does not have.
    pub fn except(&self, other: &Ranges) -> Ranges {
        let mut rest = Vec::new();
        for range in self.iter() {
            let mut from = range.start;
            for hole in other.iter().filter(|hole| hole.end > range.start) {
                rest.push(from..hole.start.min(range.end));
                from = from.max(hole.end);
            }
            rest.push(from..range.end);
        }
        Ranges::of(rest)
    }
}

/// A box of an array: indices along each axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reads(pub Vec<Ranges>);

impl Reads {
    /// The whole array.
    pub fn all(shape: &Shape) -> Reads {
        Reads(shape.iter().map(|extent| Ranges::all(*extent)).collect())
    }

    /// Whether there is no element in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().any(Ranges::is_empty)
    }

    /// A box that contains both.
    pub fn or(&self, other: &Reads) -> Reads {
        Reads(self.0.iter().zip(&other.0).map(|(a, b)| a.or(b)).collect())
    }
}
