//! The layout of a tape: how saved arrays are grouped into records, how the reverse pass reads them, and how they are
//! moved through a scratchpad.
//!
//! In a loop program every residual is an array of its own, or a field of a dynamic tape's records. The layout of
//! residuals in memory and in the scratchpad of an [accelerator](crate::accelerator) is a separate value: passes
//! compute it, it can be printed and parsed, and the simulated machine obeys it. The program does not refer to it.
//!
//! ```text
//! layout @jit {
//!   region r0 {                          one iteration of i1 stores a record
//!     record 16 bytes, 400 of them
//!     read mirrored                      the reverse pass reads the last record first
//!     field b5 at 0, 1 of 8 bytes        one element of b5,
//!     field b6 at 8, 1 of 8 bytes        and one of b6
//!     layer 8 iterations of i1, 16 entries   the records in one allocation of the scratchpad
//!     tile 2 layers in 2 parts           moved by one stream operation, while the other part is in use
//!     scratchpad 0                       the first entry in the scratchpad
//!   }
//!   input n0 {                           an argument that the reverse pass reads in order, streamed in place
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
//! | `records` | groups arrays that the same blocks fill and that the reverse pass reads in the same order |
//! | `inputs` | streams arguments that the reverse pass reads in order, without a copy |
//! | `layers` | chooses the number of iterations in a layer, within the stream's share of half the scratchpad |
//! | `streams` | chooses the number of layers that are moved at once, in halves that alternate |
//! | `offsets` | chooses scratchpad offsets; streams that are never in use together may share entries |
//!
//! ```
//! use tapeloom_backend::loop_ir;
//! use tapeloom_backend::layout::{Layout, Pipeline, ScratchpadModel};
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
//! let layout = Pipeline::AOS.run(&program, &ScratchpadModel::default())?;
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
//! The passes are those of *TapeFlow* (M. Hakimi and A. Shriraman, CGO 2024), with loops instead of unrolled blocks:
//! a layer is a number of iterations, so the code is not unrolled and does not grow.

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
mod scratchpad_model;
mod scratchpad_partition;
mod stream_inputs;
mod streams;
mod text;

pub use affine::Loop;
pub(crate) use initial_layout::is_kept;
pub use pass::{PASSES, Pass, Pipeline};
pub(crate) use phase_boundary::reverse_pass_start;
pub use scratchpad_model::ScratchpadModel;
pub(crate) use stream_inputs::{StreamTile, cut};

use crate::loop_ir::{BufferId, IndexId, ScalarId, TapeId};
use cranelift_entity::{PrimaryMap, entity_impl};
use tapeloom_ir::analysis::affine::Affine;

/// The id of a region (an array of records) of a layout. Displays as `r3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(u32);
entity_impl!(RegionId, "r");

/// The id of an argument that is streamed through the scratchpad. Displays as `n3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InputId(u32);
entity_impl!(InputId, "n");

/// The layout of a program's residuals (values saved for the reverse pass) in memory and in the scratchpad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The program's name, without `@`.
    pub name: String,
    /// The regions: saved arrays, grouped into records, and dynamic tapes.
    pub regions: PrimaryMap<RegionId, Region>,
    /// The arguments that are streamed to the scratchpad directly from the argument's own memory.
    pub inputs: PrimaryMap<InputId, Input>,
}

/// A region: consecutive records (one iteration's saved values each) in memory, all with the same fields.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// The contents of the records: elements of saved arrays, or the records of a dynamic tape.
    pub holds: Holds,
    /// The size of a record (one iteration's saved values) in bytes; a multiple of 8 if the region is streamed.
    pub width: u64,
    /// The order in which the reverse pass reads the records.
    pub read: Read,
    /// The group of records for which the scratchpad is allocated at one time; `None` if the region is not streamed.
    pub layer: Option<Layer>,
    /// The number of layers (groups of records) that one stream operation moves, and the number of tiles (units of
    /// transfer) that the scratchpad holds at one time; `None` if the region is not streamed.
    pub tile: Option<Tile>,
    /// The index of the region's first 8-byte entry in the scratchpad; `None` if the region is not streamed.
    pub scratchpad: Option<u64>,
}

impl Region {
    /// Returns whether the region is streamed through the scratchpad.
    pub fn is_streamed(&self) -> bool {
        self.scratchpad.is_some()
    }

    /// Returns the number of records in the region; `None` for a dynamic tape, whose length is known only at run time.
    pub fn records(&self) -> Option<u64> {
        match &self.holds {
            Holds::Arrays { records, .. } => Some(*records),
            Holds::Tape(_) => None,
        }
    }

    /// Returns the number of scratchpad entries (8 bytes each) that one record takes.
    pub fn entries(&self) -> u64 {
        self.width.div_ceil(8)
    }
}

/// The contents of a region: saved arrays, or the records of a dynamic tape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Holds {
    /// Saved arrays, in a known number of records. Each record holds some consecutive elements (a field) of each array.
    Arrays {
        /// The fields of each record, one for each saved array.
        fields: Vec<Field>,
        /// The number of records of the region.
        records: u64,
    },
    /// The records (one iteration's residuals each) of a dynamic tape. The number of records is known only at run time.
    Tape(TapeId),
}

/// A field of a record: some consecutive elements of one saved array.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Field {
    /// The saved array of which the record has elements.
    pub buffer: BufferId,
    /// The offset of the field in its record, in bytes.
    pub at: u64,
    /// The number of consecutive elements of the array in one record.
    pub elements: u64,
    /// The size of one element of the array on the tape, in bytes.
    pub width: u64,
}

/// The order in which the reverse pass reads the records of a region, relative to the order in which the forward pass
/// stored them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Read {
    /// The records are read in reverse order (last in, first out), since the reverse pass runs the loop backward.
    Mirrored,
    /// The records are read in the order in which they were stored (first in, first out).
    Same,
    /// The records are read in another or an unknown order, or some record more than once. So they are read through the
    /// cache.
    Otherwise,
    /// The order in which a dynamic tape is read is known only at run time, because the program loads the record
    /// numbers from memory.
    Run,
}

/// A layer: the group of records for which the scratchpad is allocated at one time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layer {
    /// The number of loop iterations whose records form the layer; each iteration stores one record.
    pub iterations: u64,
    /// The loop whose iterations store the records; `None` for a dynamic tape.
    pub of: Option<IndexId>,
}

/// A tile: the data that one stream operation moves between memory and the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// The length of a tile. For a region, the number of layers. For an input, the number of iterations whose loads
    /// fill the tile. An element that the tile already contains takes no further entry.
    pub length: u64,
    /// The number of tiles of this stream that the scratchpad holds at the same time: one in use, the others being
    /// filled or drained.
    pub parts: u64,
}

/// An argument of the program that the reverse pass reads in order. The argument is streamed to the scratchpad
/// directly from its own memory, without a copy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Input {
    /// The buffer of the argument.
    pub buffer: BufferId,
    /// The index of the step (top-level statement of the program) that reads the argument.
    pub step: usize,
    /// The loops around the argument's loads, outer ones first.
    pub loops: Vec<Loop>,
    /// The loads of the argument: the scalar that each load defines, and the element index that it reads as an affine
    /// form of loop counters. A tile holds an element once, even if several loads read it.
    pub loads: Vec<(ScalarId, Affine<IndexId>)>,
    /// The number of iterations whose loads fill a tile (the data that one stream operation moves), and the number of
    /// tiles that the scratchpad holds at one time; `None` until the pass `streams` has run.
    pub tile: Option<Tile>,
    /// The index of the input's first 8-byte entry in the scratchpad; `None` until the pass `offsets` has run.
    pub scratchpad: Option<u64>,
}

impl Input {
    /// Returns the number of loads in one iteration: the scratchpad entries of 8 bytes that an iteration takes at
    /// most.
    pub fn entries(&self) -> u64 {
        self.loads.len() as u64
    }

    /// Returns the indices of the elements that the loads of all iterations read, in the order of the reads; `None`
    /// if a loop extent or an address cannot be evaluated.
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
    /// Returns the region that has a field for the saved array `buffer`, if there is one.
    pub fn region(&self, buffer: BufferId) -> Option<RegionId> {
        let holds = |region: &Region| match &region.holds {
            Holds::Arrays { fields, .. } => fields.iter().any(|f| f.buffer == buffer),
            Holds::Tape(_) => false,
        };
        self.regions.iter().find(|(_, region)| holds(region)).map(|(id, _)| id)
    }

    /// Returns the region that holds the records of a dynamic tape, if there is one.
    pub fn tape(&self, tape: TapeId) -> Option<RegionId> {
        let is = |region: &Region| region.holds == Holds::Tape(tape);
        self.regions.iter().find(|(_, region)| is(region)).map(|(id, _)| id)
    }
}
