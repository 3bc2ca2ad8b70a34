//! Chooses tiles. A *tile* is the data that one stream operation moves between memory and the scratchpad.
//!
//! A tile of a region consists of as many whole layers as the stream's share of half the scratchpad holds. While one
//! tile is in use, the other half of the stream's entries is drained or filled. An input, which is only read, has no
//! layers: the length of its tile is its share in iterations. This is the third pass of the TapeFlow paper.

use super::scratchpad_partition::{Stream, shares};
use super::{Layout, ScratchpadModel, Tile};
use crate::loop_ir::Program;

/// Runs the pass `streams`: sets the tile (the data that one stream operation moves) of each streamed region and input.
pub(super) fn streams(program: &Program, mut layout: Layout, model: &ScratchpadModel) -> Layout {
    let (shares, parts) = (shares(program, &layout, model), model.parts);
    let share = |stream| shares.get(&stream).copied().unwrap_or(0);
    for (id, region) in layout.regions.iter_mut() {
        let iterations = share(Stream::Region(id));
        let layer = region.layer.map(|layer| (iterations / layer.iterations.max(1)).max(1));
        region.tile = layer.map(|length| Tile { length, parts });
    }
    for (id, input) in layout.inputs.iter_mut() {
        let length = share(Stream::Input(id));
        input.tile = (length > 0).then_some(Tile { length, parts });
    }
    layout
}
