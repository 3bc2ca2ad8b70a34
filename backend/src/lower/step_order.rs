//! The items of a block, and when they run.
//!
//! An item is straight-line code or a loop, with the members that are in it. A member joins the item of
//! its own extent that runs latest of those that do not run before what it reads; if there is none, a
//! new one is put where it fits. Times have gaps, so that an item can come between others.

use super::graph::NodeId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use tapeloom_ir::{OrderedMap, OrderedSet};

/// Straight-line steps have at most this many members, so that machine code comes in portions.
pub(crate) const STRAIGHT: usize = 2000;

/// Folds that share a loop. Each holds its accumulators in registers for the whole loop, and the time of register
/// allocation grows faster than their number: sums of 200 arrays in one loop took 19 seconds to compile.
pub(crate) const FOLDS: usize = 16;

/// What an item is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Space {
    /// Straight-line code.
    Straight,
    /// A loop.
    Loop(usize),
    /// One member that shares with nobody.
    Alone,
}

/// What runs together.
pub(crate) struct Item {
    pub(crate) space: Space,
    pub(crate) members: Vec<usize>,
    /// The number of members that fold along the loop.
    pub(crate) folds: usize,
    /// The arrays that they read and compute, of those that do not stay in the cache.
    pub(crate) large: OrderedSet<NodeId>,
}

/// Which loop a member prefers, and whether it prefers to run early.
#[derive(Default)]
pub(crate) struct Preference {
    /// The member folds along the loop, which takes at most [`FOLDS`] such members.
    pub(crate) folds: bool,
    /// A new loop runs ahead of what is there already.
    pub(crate) early: bool,
    /// A loop that works in one of these arrays, which do not stay in the cache.
    pub(crate) large: SmallVec<[NodeId; 4]>,
    /// The item that computes one of them.
    pub(crate) producer: Option<usize>,
}

/// The items of a block and when they run.
#[derive(Default)]
pub(crate) struct Timeline {
    pub(crate) items: Vec<Item>,
    pub(crate) times: Vec<u64>,
    all: BTreeMap<u64, usize>,
    of_space: OrderedMap<Space, BTreeMap<u64, usize>>,
}

/// Room between items.
const GAP: u64 = 1 << 32;

impl Timeline {
    /// The item for a member that may run at `earliest` or later. One that works in large arrays joins the last loop if that
    /// works in one of them, or the loop of its producer: two loops that have none in common gain nothing from being one,
    /// which needs the memory of both at once.
    pub(crate) fn place(
        &mut self,
        space: Space,
        earliest: u64,
        outermost: bool,
        preference: &Preference,
    ) -> usize {
        let full = |i: &usize| outermost && self.items[*i].members.len() >= STRAIGHT;
        let found = self.of_space.get(&space).and_then(|same| match space {
            // Straight-line code runs as early as it can, so that loops that need it can be joined;
            // loops run late, close to whoever reads what they make.
            Space::Straight => same.range(earliest..).map(|(_, i)| *i).find(|i| !full(i)),
            Space::Loop(_) => {
                let last = same.range(earliest..).next_back().map(|(_, i)| *i);
                let common = |i: &usize| {
                    let (wanted, of) = (&preference.large, &self.items[*i].large);
                    wanted.is_empty() || of.is_empty() || wanted.iter().any(|n| of.contains(n))
                };
                let room = |i: &usize| !preference.folds || self.items[*i].folds < FOLDS;
                let producer = || preference.producer.filter(|i| self.times[*i] >= earliest);
                last.filter(common).or_else(producer).filter(room)
            }
            Space::Alone => None,
        });
        found.unwrap_or_else(|| {
            self.insert(space, earliest, preference.early && space != Space::Alone)
        })
    }

    /// A new item: right after `earliest` where that is wanted and there is room, else at the end.
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
        });
        self.times.push(time);
        self.all.insert(time, item);
        self.of_space.entry(space).or_default().insert(time, item);
        item
    }

    pub(crate) fn in_order(self) -> Vec<Item> {
        let mut items: Vec<Option<Item>> = self.items.into_iter().map(Some).collect();
        self.all.values().filter_map(|i| items[*i].take()).collect()
    }
}
