//! Offsets: where in the scratchpad each stream has its place.
//!
//! Streams that some step uses together lie apart; others may have the same place, since a step ends before the
//! next one begins. The first place that is free is taken; who finds none comes through the cache. Within its
//! place an entry of a layer has the offset that it has in the layer: the fourth pass of the paper.

use super::scratchpad_partition::{Member, Stream, members};
use super::{Layout, Room};
use crate::loop_ir::Program;

/// The pass.
pub(super) fn offsets(program: &Program, mut layout: Layout, room: &Room) -> Layout {
    let mut placed: Vec<(Member, u64, u64)> = Vec::new();
    for member in members(program, &layout) {
        let Some(size) = layout.place(member.stream) else { continue };
        let mut taken: Vec<(u64, u64)> =
            placed.iter().filter(|p| p.0.meets(&member)).map(|p| (p.1, p.2)).collect();
        taken.sort_unstable();
        let at = taken.into_iter().fold(0, |at, (from, end)| match at + size <= from {
            true => at,
            false => end.max(at),
        });
        let scratchpad = (at + size <= room.entries).then_some(at);
        match member.stream {
            Stream::Region(id) => layout.regions[id].scratchpad = scratchpad,
            Stream::Input(id) => layout.inputs[id].scratchpad = scratchpad,
        }
        if scratchpad.is_some() {
            placed.push((member, at, at + size));
        }
    }
    // Nothing is said of what comes through the cache like all else.
    let inputs = std::mem::take(&mut layout.inputs).into_iter().map(|(_, input)| input);
    layout.inputs = inputs.filter(|input| input.scratchpad.is_some()).collect();
    layout
}

impl Layout {
    /// How many entries a stream has, if it has tiles.
    pub(super) fn place(&self, stream: Stream) -> Option<u64> {
        let (iteration, tile, layer) = match stream {
            Stream::Region(id) => {
                let region = &self.regions[id];
                (region.entries(), region.tile?, region.layer?.iterations)
            }
            Stream::Input(id) => (self.inputs[id].entries(), self.inputs[id].tile?, 1),
        };
        Some(iteration * layer * tile.length * tile.halves)
    }
}
