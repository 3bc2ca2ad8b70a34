//! Chooses the offset of each stream in the scratchpad, in entries of 8 bytes.
//!
//! Streams that one step (top-level statement) uses together must not overlap. Other streams may share entries, since a
//! step ends before the next one begins. Each stream takes the lowest free offset; a stream for which no offset is free
//! is accessed through the cache. Within a stream, an entry's offset is its index in its layer (the records for which
//! the scratchpad is allocated at one time). This is the fourth pass of the TapeFlow paper.

use super::scratchpad_partition::{Stream, StreamUse, stream_uses};
use super::{Layout, ScratchpadModel};
use crate::loop_ir::Program;

/// Runs the pass `offsets`: sets `scratchpad` of each stream for which a free offset exists.
pub(super) fn offsets(program: &Program, mut layout: Layout, model: &ScratchpadModel) -> Layout {
    let mut placed: Vec<(StreamUse, u64, u64)> = Vec::new();
    for stream_use in stream_uses(program, &layout) {
        let Some(size) = layout.stream_entries(stream_use.stream) else { continue };
        let mut taken: Vec<(u64, u64)> =
            placed.iter().filter(|p| p.0.conflicts_with(&stream_use)).map(|p| (p.1, p.2)).collect();
        taken.sort_unstable();
        let at = taken.into_iter().fold(0, |at, (from, end)| match at + size <= from {
            true => at,
            false => end.max(at),
        });
        let scratchpad = (at + size <= model.entries).then_some(at);
        match stream_use.stream {
            Stream::Region(id) => layout.regions[id].scratchpad = scratchpad,
            Stream::Input(id) => layout.inputs[id].scratchpad = scratchpad,
        }
        if scratchpad.is_some() {
            placed.push((stream_use, at, at + size));
        }
    }
    // Remove streamed arguments without an offset: they are read through the cache, like any other array.
    let inputs = std::mem::take(&mut layout.inputs).into_iter().map(|(_, input)| input);
    layout.inputs = inputs.filter(|input| input.scratchpad.is_some()).collect();
    layout
}

impl Layout {
    /// Returns the number of 8-byte scratchpad entries that all tiles (units of transfer) of a stream take together;
    /// `None` if the stream has no tile.
    pub(super) fn stream_entries(&self, stream: Stream) -> Option<u64> {
        let (iteration, tile, layer) = match stream {
            Stream::Region(id) => {
                let region = &self.regions[id];
                (region.entries(), region.tile?, region.layer?.iterations)
            }
            Stream::Input(id) => (self.inputs[id].entries(), self.inputs[id].tile?, 1),
        };
        Some(iteration * layer * tile.length * tile.parts)
    }
}
