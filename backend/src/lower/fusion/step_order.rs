//! The items of a block (loops and straight-line code), and the times at which they run.
//!
//! An item is straight-line code or a loop, with the fusion candidates in it. A candidate joins the latest item of its
//! extent that does not run before one of the candidate's operands. If there is none, a new item is inserted. A time is
//! a position in the order of items; times have gaps, so that an item can be inserted between two others.
//!
//! A candidate is placed before its readers are, so it may get a loop of its own although its reader accesses the arrays
//! of the loop before. Therefore neighbouring loops that access a common large array are joined at the end
//! ([`Timeline::join_loops`]).

use crate::lower::graph::NodeId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{OrderedMap, OrderedSet};

/// The largest number of fusion candidates (computed nodes) in one item of straight-line code outside of loops, so that
/// machine code is generated in portions.
pub(crate) const STRAIGHT: usize = 2000;

/// The largest number of folds that share a loop. Each fold has its accumulators in registers for the whole loop, and
/// the time of register allocation grows faster than their number: sums of 200 arrays in one loop took 19 seconds to
/// compile.
pub(crate) const FOLDS: usize = 16;

/// The kind of an item: straight-line code or a loop into which fusion puts computed nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Space {
    /// Straight-line code.
    Straight,
    /// A loop of this extent.
    Loop(usize),
    /// A single fusion candidate that shares its item with no other: an update, a region or a library call.
    Alone,
}

/// Fusion candidates that run in one loop, or together in straight-line code.
pub(crate) struct Item {
    pub(crate) space: Space,
    pub(crate) members: Vec<usize>,
    /// The number of fusion candidates (computed nodes) in the item that fold along the loop.
    pub(crate) folds: usize,
    /// The arrays of more than `cached_elements` elements that the nodes in the item read or compute.
    pub(crate) large: OrderedSet<NodeId>,
    /// The earliest time at which the item may run, because other passes (forward or reverse) must have ended.
    pub(crate) earliest: u64,
    /// The items whose results are complete only after their last iteration, and are read here.
    pub(crate) complete: OrderedSet<usize>,
    /// Whether the item has candidates of forward passes, and of reverse passes.
    pub(crate) phases: [bool; 2],
}

/// The loop that a fusion candidate (a computed node) prefers, and whether it prefers to run early.
#[derive(Default)]
pub(crate) struct Preference {
    /// Whether the fusion candidate folds along the loop. A loop takes at most [`FOLDS`] such candidates.
    pub(crate) folds: bool,
    /// Whether a new loop for the fusion candidate is inserted, if possible, before the loops and straight-line code
    /// that exist already.
    pub(crate) early: bool,
    /// The arrays of more than `cached_elements` elements that the fusion candidate reads or computes. A loop that
    /// accesses one of these arrays is preferred.
    pub(crate) large: SmallVec<[NodeId; 4]>,
    /// The last loop that computes one of the arrays in `large`, for arrays that the fusion candidate reads.
    pub(crate) producer: Option<usize>,
}

/// The items of a block and their times (positions in the order of items).
#[derive(Default)]
pub(crate) struct Timeline {
    pub(crate) items: Vec<Item>,
    pub(crate) times: Vec<u64>,
    all: BTreeMap<u64, usize>,
    of_space: OrderedMap<Space, BTreeMap<u64, usize>>,
}

/// The difference between the times of two items that are appended one after the other, so that many items can be
/// inserted between them later.
const GAP: u64 = 1 << 32;

impl Timeline {
    /// Returns the item for a fusion candidate that may run at time `earliest` or later: an existing item or a new one.
    /// A candidate that accesses arrays too large for the cache joins the last loop if this loop accesses one of these
    /// arrays, or else the loop that computes one of them. Fusing two loops without a common large array gains nothing,
    /// and needs the memory of both loops at once.
    pub(crate) fn place(
        &mut self,
        space: Space,
        earliest: u64,
        outermost: bool,
        preference: &Preference,
    ) -> usize {
        let full = |i: &usize| outermost && self.items[*i].members.len() >= STRAIGHT;
        let found = self.of_space.get(&space).and_then(|same| match space {
            // Straight-line code runs as early as possible, so that loops that use it can be fused.
            // Loops run late, close to the readers of their results.
            Space::Straight => same.range(earliest..).map(|(_, i)| *i).find(|i| !full(i)),
            Space::Loop(_) => {
                let last = same.range(earliest..).next_back().map(|(_, i)| *i);
                let common = |i: &usize| {
                    let (wanted, of) = (&preference.large, &self.items[*i].large);
                    wanted.is_empty() || of.is_empty() || wanted.iter().any(|n| of.contains(n))
                };
                let room = |i: &usize| {
                    let few = self.items[*i].folds < FOLDS || planted(Fault::FoldsShare);
                    !preference.folds || few
                };
                let producer = || preference.producer.filter(|i| self.times[*i] >= earliest);
                last.filter(common).or_else(producer).filter(room)
            }
            Space::Alone => None,
        });
        found.unwrap_or_else(|| {
            self.insert(space, earliest, preference.early && space != Space::Alone)
        })
    }

    /// Inserts a new item (a loop or straight-line code) and returns its position in `items`. If `early` is set and a
    /// time is free between `earliest` and the next item, the item runs at that time, otherwise at the end.
    pub(crate) fn insert(&mut self, space: Space, earliest: u64, early: bool) -> usize {
        let end = self.all.last_key_value().map_or(0, |(t, _)| *t) + GAP;
        let after = earliest + u64::from(self.all.contains_key(&earliest));
        let mut time = end;
        if early && let Some((next, _)) = self.all.range(after..).next() {
            let before = self.all.range(..after).next_back().map_or(0, |(t, _)| *t);
            let between = (before + (next - before) / 2).max(after);
            if before < between && between < *next {
                time = between;
            }
        }
        let item = self.items.len();
        self.items.push(Item {
            space,
            members: Vec::new(),
            folds: 0,
            large: OrderedSet::default(),
            earliest: 0,
            complete: OrderedSet::default(),
            phases: [false; 2],
        });
        self.times.push(time);
        self.all.insert(time, item);
        self.of_space.entry(space).or_default().insert(time, item);
        item
    }

    /// Joins loops that run one after the other, have the same trip count and access a common array that is too large for
    /// the cache: the joined loop loads it once, and values that only the second loop reads need no memory.
    ///
    /// ```text
    /// m' = .9 m + .1 g          for i { m', reading m and g }
    /// v' = .999 v + .001 g²     for i { .999 v }                          for i { m', .999 v, v' and p' }
    /// p' = p - m' / √v'         for i { v' and p', reading g and m' }
    /// ```
    pub(crate) fn join_loops(&mut self) {
        // For each item, the item into which it was joined, or itself.
        let mut joined: Vec<usize> = (0..self.items.len()).collect();
        let mut order: Vec<usize> = Vec::with_capacity(self.items.len());
        for mut item in self.all.values().copied().collect::<Vec<_>>() {
            while let Some(before) = order.pop_if(|before| self.may_join(*before, item, &joined)) {
                joined[item] = before;
                self.join(before, item);
                item = before;
            }
            order.push(item);
        }
    }

    /// Returns whether loop `item` may be joined to loop `before`, which runs immediately before it.
    fn may_join(&self, before: usize, item: usize, joined: &[usize]) -> bool {
        let root = |mut i: usize| {
            while joined[i] != i {
                i = joined[i];
            }
            i
        };
        let [first, second] = [before, item].map(|i| &self.items[i]);
        matches!(first.space, Space::Loop(_))
            && first.space == second.space
            && first.phases == second.phases
            && first.folds + second.folds <= FOLDS
            && second.earliest <= self.times[before]
            && !second.complete.iter().any(|i| root(*i) == before)
            && second.large.iter().any(|n| first.large.contains(n))
    }

    /// Moves the fusion candidates of `item` to the item `before`.
    fn join(&mut self, before: usize, item: usize) {
        self.all.remove(&self.times[item]);
        let Item { members, folds, large, earliest, complete, .. } = &mut self.items[item];
        let (members, large) = (std::mem::take(members), std::mem::take(large));
        let (folds, earliest, complete) = (*folds, *earliest, std::mem::take(complete));
        let first = &mut self.items[before];
        first.members.extend(members);
        first.folds += folds;
        first.large.extend(large);
        first.earliest = first.earliest.max(earliest);
        first.complete.extend(complete);
    }

    pub(crate) fn in_order(self) -> Vec<Item> {
        let mut items: Vec<Option<Item>> = self.items.into_iter().map(Some).collect();
        self.all.values().filter_map(|i| items[*i].take()).collect()
    }
}
