//! Reads: the elements of an array that the rest of a function reads, as boxes.
//!
//! The derivative of a result may exist for some columns and not for others (eigenvectors of equal eigenvalues). The
//! rule of such an equation computes only the columns that are read. A box holds, for each axis, ranges of indices;
//! every element that is read lies in the box.
//!
//! ```text
//! %1: f64[5], %2: f64[5,5] = eigh{vectors=true} %0
//! %3: f64[5,2] = slice{start=[0,3], limit=[5,5], strides=[1,1]} %2      reads rows 0..5, columns 3..5 of %2
//! ```
//!
//! `transforms::ad::reads` computes the boxes, and [`super::RuleCx::reads`] passes them to rules.

use crate::lang::types::Shape;
use std::ops::Range;

/// The largest number of ranges along an axis. A longer list is replaced by the smallest range that
/// contains all of them.
const MOST: usize = 32;

/// Indices along an axis, as ascending ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges(Vec<Range<usize>>);

impl Ranges {
    /// Returns the set of all indices of an axis of this extent.
    pub fn all(extent: usize) -> Ranges {
        Ranges::one(0..extent)
    }

    /// Returns the set of the indices in one range.
    pub fn one(range: Range<usize>) -> Ranges {
        Ranges::of(std::iter::once(range))
    }

    /// Returns the union of the ranges. A union of more than `MOST` ranges is widened to the one range
    /// from the first to the last index.
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

    /// Iterates over the ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().cloned()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of indices in all ranges together.
    pub fn len(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    /// Returns whether the set contains every index of an axis of this extent.
    pub fn is_all(&self, extent: usize) -> bool {
        self.len() == extent
    }

    /// Returns the union of this set and `other`, widened to one range if it has more than `MOST`
    /// ranges.
    pub fn or(&self, other: &Ranges) -> Ranges {
        Ranges::of(self.iter().chain(other.iter()))
    }

    /// Returns the indices of this set that are not in `other` (set difference).
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

/// A box in an array: a set of indices along each axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reads(pub Vec<Ranges>);

impl Reads {
    /// Returns the box of the whole array.
    pub fn all(shape: &Shape) -> Reads {
        Reads(shape.iter().map(|extent| Ranges::all(*extent)).collect())
    }

    /// Returns whether the box contains no element.
    pub fn is_empty(&self) -> bool {
        self.0.iter().any(Ranges::is_empty)
    }

    /// Returns a box that contains both boxes.
    pub fn or(&self, other: &Reads) -> Reads {
        Reads(self.0.iter().zip(&other.0).map(|(a, b)| a.or(b)).collect())
    }
}
