//! Regions: what gives several results at once, or has an effect, or both.
//!
//! A call of a function that is compiled once is one. In the graph a region is its results
//! (`NodeKind::Result`), in the trees a step of its own.
//!
//! A region with an ordered effect runs though nobody reads its results, and such regions run in the
//! order of the program: steps of their own are placed behind what is there (`Timeline::insert`), and
//! `check` looks at the order in the end.

use crate::kernel::KernelId;
use cranelift_entity::entity_impl;

/// A region of a graph. Displays as `r3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RegionId(u32);
entity_impl!(RegionId, "r");

/// A region.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) kind: RegionKind,
    /// Number of its results.
    pub(crate) results: usize,
    /// Whether it has an ordered effect.
    pub(crate) ordered: bool,
}

/// What a region does.
#[derive(Clone, Debug)]
pub(crate) enum RegionKind {
    /// Calls a function that is compiled once.
    Call(KernelId),
    /// Reports its operand to whoever listens; it has no result.
    Probe(u32),
}
