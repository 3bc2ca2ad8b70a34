//! Streams: how much is moved at once.
//!
//! A tile is whole layers, as many as a stream may have there; while one tile is in use, the other half of its
//! place is drained or filled. The third pass of the paper. Of an input, which nobody stores, a tile has room for
//! the words that so many iterations load.

use super::scratchpad_partition::{Stream, shares};
use super::{Layout, Room, Tile};
use crate::loop_ir::Program;

/// The pass.
pub(super) fn streams(program: &Program, mut layout: Layout, room: &Room) -> Layout {
    let (shares, halves) = (shares(program, &layout, room), room.halves);
    let share = |stream| shares.get(&stream).copied().unwrap_or(0);
    for (id, region) in layout.regions.iter_mut() {
        let iterations = share(Stream::Region(id));
        let layer = region.layer.map(|layer| (iterations / layer.iterations.max(1)).max(1));
        region.tile = layer.map(|length| Tile { length, halves });
    }
    for (id, input) in layout.inputs.iter_mut() {
        let length = share(Stream::Input(id));
        input.tile = (length > 0).then_some(Tile { length, halves });
    }
    layout
}
