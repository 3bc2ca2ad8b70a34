//! Chooses layers. A *layer* is the group of records for which the scratchpad is allocated at one time.
//!
//! A layer holds the records of several iterations of a loop: at most the number of iterations that fit into the
//! region's share of the scratchpad (`shares`), and at most `ScratchpadModel::layer` entries of 8 bytes, but at least
//! one record. If possible a layer consists of whole cache lines, since a cache line that belongs to two tiles (units
//! of transfer) is moved twice:
//!
//! ```text
//! records of 3 entries, half of 64: 10 iterations are 30 entries, four lines for 240 bytes
//!                                    8 iterations are 24 entries, three lines for 192
//! ```
//!
//! This is the second pass of the TapeFlow paper. The paper cuts unrolled blocks into layers; a layer here is a
//! number of iterations, so the code is not unrolled and does not grow.

use super::access_sites::Sites;
use super::scratchpad_partition::{LINE, Stream, shares};
use super::{Holds, Layer, Layout, ScratchpadModel};
use crate::loop_ir::Program;

/// Runs the pass `layers`: sets `layer` of each region (array of records) that is to be streamed through the
/// scratchpad.
pub(super) fn layers(program: &Program, mut layout: Layout, model: &ScratchpadModel) -> Layout {
    let (shares, sites) = (shares(program, &layout, model), Sites::of(program));
    for (id, region) in layout.regions.iter_mut() {
        let entries = region.entries().max(1);
        let most = shares.get(&Stream::Region(id)).copied().unwrap_or(0);
        let iterations = most.min((model.layer / entries).max(1));
        let lines = LINE >> entries.trailing_zeros().min(LINE.trailing_zeros());
        let iterations =
            if iterations < lines { iterations } else { iterations - iterations % lines };
        let of = match &region.holds {
            Holds::Arrays { fields, .. } => {
                let stores =
                    fields.iter().flat_map(|f| sites.accessing(f.buffer)).filter(|s| s.write);
                stores.last().and_then(|s| s.loops.last()).map(|l| l.index)
            }
            Holds::Tape(_) => None,
        };
        region.width = region.width.next_multiple_of(if most > 0 { 8 } else { 1 });
        region.layer = (most > 0).then_some(Layer { iterations, of });
    }
    layout
}
