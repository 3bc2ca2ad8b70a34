//! The layout of a tape: which kept arrays lie together, how they are read back, and how they move.
//!
//! What reverse mode keeps are arrays, or records of tapes, each by itself. How they lie in memory and how
//! they come through the scratchpad of an [accelerator](crate::accelerator) is another thing, and here it is
//! a value: made by passes, printed, parsed, and obeyed by the machine. The program holds nothing of it.
//!
//! ```text
//! layout @jit {
//!   region r0 {                          one iteration of i1 stores a record
//!     record 16 bytes, 400 of them
//!     read mirrored                      the way back reads the last record first
//!     field b5 at 0, 1 of 8 bytes        one element of b5,
//!     field b6 at 8, 1 of 8 bytes        and one of b6
//!     layer 8 iterations of i1, 16 entries   what one allocation of the scratchpad holds
//!     tile 2 layers in 2 parts           what one stream operation moves, while the other part is in use
//!     scratchpad 0                       where its entries lie there
//!   }
//!   input n0 {                           an argument that the way back reads in order, from where it lies
//!     array b1
//!     step 4
//!     loop i2 in 400
//!     loop i4 in 400
//!     load %35 at i2*-400 + i4*-1 + 159999
//!     tile 15 iterations in 2 parts
//!     scratchpad 4
//!   }
//! }
//! ```
//!
//! | pass | |
//! |---|---|
//! | `group_records` | arrays that the same blocks fill, and the way back reads alike, become one |
//! | `stream_inputs` | arguments that the way back reads in order are streamed from where they lie |
//! | `layers` | so many iterations of a loop fill what they may have of half the scratchpad |
//! | `streams` | so many layers are moved at once, in halves that take turns |
//! | `offsets` | where in the scratchpad; streams that are never in use together share their place |
//!
//! ```
//! use tapeloom_backend::loop_ir;
//! use tapeloom_backend::layout::{Layout, Pipeline, Room};
//! let program = loop_ir::parse("program @f {
//!   workspace 128
//!   buffer b0: f64[8] input 0
//!   buffer b1: f64[8] output 0
//!   buffer b2: f64[8] workspace 0 kept tape
//!   buffer b3: f64[8] workspace 64 kept tape
//!   for i0 in 8 {
//!     %0: f64 = load b0[i0]
//!     store b2[i0], %0
//!     %1: f64 = neg %0
//!     store b3[i0], %1
//!   }
//!   for i1 in 8 {
//!     %2: f64 = load b2[i1*-1 + 7]
//!     %3: f64 = load b3[i1*-1 + 7]
//!     %4: f64 = mul %2, %3
//!     store b1[i1*-1 + 7], %4
//!   }
//! }", &|_| None)?;
//! let layout = Pipeline::AOS.run(&program, &Room::default())?;
//! let text = "layout @f {
//!   region r0 {
//!     record 16 bytes, 8 of them
//!     read mirrored
//!     field b2 at 0, 1 of 8 bytes
//!     field b3 at 8, 1 of 8 bytes
//!   }
//! }
//! ";
//! assert_eq!(layout.to_string(), text);
//! assert_eq!(Layout::parse(text)?, layout);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```
//!
//! The passes are those of *TapeFlow* (M. Hakimi and A. Shriraman, CGO 2024), with loops in the place of
//! unrolled blocks: a layer is some iterations, without code for them.

mod access_order;
mod access_sites;
mod affine;
mod check;
mod group_records;
mod initial_layout;
mod layers;
mod offsets;
mod pass;
mod phase_boundary;
mod room;
mod scratchpad_partition;
mod stream_inputs;
mod streams;
mod text;

pub use affine::Loop;
pub(crate) use initial_layout::is_kept;
pub use pass::{PASSES, Pass, Pipeline};
pub(crate) use phase_boundary::turn;
pub use room::Room;
pub(crate) use stream_inputs::{Cut, cut};

use crate::loop_ir::{BufferId, IndexId, ScalarId, TapeId};
use cranelift_entity::{PrimaryMap, entity_impl};
use tapeloom_ir::analysis::affine::Affine;

/// A region of a layout. Displays as `r3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(u32);
entity_impl!(RegionId, "r");

/// An argument that is streamed. Displays as `n3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputId(u32);
entity_impl!(InputId, "n");

/// How what a program keeps lies, and moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The program's name, without `@`.
    pub name: String,
    /// What it keeps.
    pub regions: PrimaryMap<RegionId, Region>,
    /// What is streamed from where it lies.
    pub inputs: PrimaryMap<InputId, Input>,
}

/// Records of one kind, one behind the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// Of which arrays, or which tape.
    pub holds: Holds,
    /// Bytes of a record; of one that is streamed whole entries of 8.
    pub width: u64,
    /// How the way back reads them.
    pub read: Read,
    /// Of one that is streamed, what the scratchpad is asked for at once,
    pub layer: Option<Layer>,
    /// what is moved at once,
    pub tile: Option<Tile>,
    /// and its first entry there.
    pub scratchpad: Option<u64>,
}

impl Region {
    /// Whether it goes through the scratchpad.
    pub fn is_streamed(&self) -> bool {
        self.scratchpad.is_some()
    }

    /// How many records there are, if the program says it.
    pub fn records(&self) -> Option<u64> {
        match &self.holds {
            Holds::Arrays { records, .. } => Some(*records),
            Holds::Tape(_) => None,
        }
    }

    /// Entries of 8 bytes of a record.
    pub fn entries(&self) -> u64 {
        self.width.div_ceil(8)
    }
}

/// What a region is made of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Holds {
    /// Arrays that the program keeps, each with its part of every record.
    Arrays {
        /// Which.
        fields: Vec<Field>,
        /// How many records there are.
        records: u64,
    },
    /// The records of a tape, of which only the run knows how many there are.
    Tape(TapeId),
}

/// The part of a record that is of one array.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// Which array.
    pub buffer: BufferId,
    /// Its first byte in the record.
    pub at: u64,
    /// So many of its elements, one behind the other.
    pub elements: u64,
    /// Bytes of each.
    pub width: u64,
}

/// In which order the way back reads records.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Read {
    /// The last one first: loops that are turned round. Last in, first out.
    Mirrored,
    /// As they were stored. First in, first out.
    Same,
    /// Otherwise, more than once, or not by a loop of which that is known: through the cache.
    Otherwise,
    /// Where a record of a tape lies is a number in memory; so the run says.
    Run,
}

/// What is allocated in the scratchpad at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layer {
    /// So many records,
    pub iterations: u64,
    /// which iterations of this loop store; of a tape, one for each.
    pub of: Option<IndexId>,
}

/// What is moved at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// So many layers of a region; of an input the words that so many iterations load, those that a tile has
    /// already aside,
    pub length: u64,
    /// with room for so many tiles.
    pub halves: u64,
}

/// An argument that the way back reads in order, and that is streamed from where it lies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    /// Which.
    pub buffer: BufferId,
    /// In which step of the program.
    pub step: usize,
    /// The loops around its loads, outer ones first.
    pub loops: Vec<Loop>,
    /// The loads, and which element each reads in an iteration. One that reads what an earlier one reads has it.
    pub loads: Vec<(ScalarId, Affine<IndexId>)>,
    /// What is moved at once,
    pub tile: Option<Tile>,
    /// and where in the scratchpad to.
    pub scratchpad: Option<u64>,
}

impl Input {
    /// Elements of an iteration.
    pub fn entries(&self) -> u64 {
        self.loads.len() as u64
    }

    /// Which elements the iterations read, one behind the other; `None` where that is more than can be counted.
    pub fn elements(&self) -> Option<Vec<i64>> {
        let (mut all, mut at) = (Vec::new(), Vec::new());
        self.nest(0, &mut at, &mut all)?;
        Some(all)
    }

    fn nest(&self, depth: usize, at: &mut Vec<(IndexId, i64)>, all: &mut Vec<i64>) -> Option<()> {
        let here = |sum: &Affine<IndexId>| {
            sum.at(|index| at.iter().find(|(i, _)| *i == index).map(|(_, iteration)| *iteration))
        };
        let Some(l) = self.loops.get(depth) else {
            for (_, address) in &self.loads {
                all.push(here(address)?);
            }
            return Some(());
        };
        for iteration in 0..here(&l.extent)? {
            at.push((l.index, iteration));
            self.nest(depth + 1, at, all)?;
            at.pop();
        }
        Some(())
    }
}

impl Layout {
    /// The region of a kept array.
    pub fn region(&self, buffer: BufferId) -> Option<RegionId> {
        let holds = |region: &Region| match &region.holds {
            Holds::Arrays { fields, .. } => fields.iter().any(|f| f.buffer == buffer),
            Holds::Tape(_) => false,
        };
        self.regions.iter().find(|(_, region)| holds(region)).map(|(id, _)| id)
    }

    /// The region of the records of a tape.
    pub fn tape(&self, tape: TapeId) -> Option<RegionId> {
        let is = |region: &Region| region.holds == Holds::Tape(tape);
        self.regions.iter().find(|(_, region)| is(region)).map(|(id, _)| id)
    }
}
