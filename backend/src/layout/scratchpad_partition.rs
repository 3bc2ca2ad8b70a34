//! Divides the scratchpad among streams: all streams that one step (top-level statement) uses must together fit in half
//! of the scratchpad.
//!
//! The streams of outer loops move once in many iterations, so each of them gets one record. The streams of the
//! innermost loops of a step share the remaining entries, and each of them gets entries for an equal number of
//! iterations. If there are too few entries, the largest input is dropped first, and regions after all inputs; dropped
//! streams are accessed through the cache.

use super::access_sites::{Site, Sites};
use super::stream_inputs::ArgumentReads;
use super::{Holds, InputId, Layout, Read, RegionId, ScratchpadModel};
use crate::loop_ir::Program;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;

/// A stream of a layout: a region (an array of records) or an argument that moves through the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stream {
    Region(RegionId),
    Input(InputId),
}

/// The number of scratchpad entries that a stream needs in each iteration, and the steps (top-level statements) that
/// use it.
#[derive(Clone, Debug)]
pub(super) struct StreamUse {
    pub(super) stream: Stream,
    /// The number of 8-byte scratchpad entries that one iteration needs.
    entries: u64,
    /// The number of loops around the most deeply nested access of the stream.
    depth: usize,
    /// The indices of the steps (top-level statements) that use the stream; empty if all steps use it.
    steps: Vec<usize>,
}

impl StreamUse {
    /// Returns whether at least one step (top-level statement) uses both this stream and `other`, so that their
    /// scratchpad ranges must not overlap.
    pub(super) fn conflicts_with(&self, other: &StreamUse) -> bool {
        self.steps.is_empty()
            || other.steps.is_empty()
            || self.steps.iter().any(|step| other.steps.contains(step))
    }
}

/// The number of 8-byte entries in a cache line of 64 bytes. A region (an array of records) with fewer entries in all
/// its records is not streamed.
pub(super) const LINE: u64 = 8;

/// Returns the regions (arrays of records) and arguments of a layout that may be streamed, each with the number of
/// scratchpad entries that it needs.
pub(super) fn stream_uses(program: &Program, layout: &Layout) -> Vec<StreamUse> {
    let sites = Sites::of(program);
    let mut all = Vec::new();
    for (id, region) in layout.regions.iter().filter(|(_, r)| r.read != Read::Otherwise) {
        let stream = Stream::Region(id);
        let (depth, steps) = match &region.holds {
            Holds::Arrays { fields, records } => {
                if records * region.entries() < LINE {
                    continue;
                }
                let of: Vec<&Site> =
                    fields.iter().flat_map(|f| sites.accessing(f.buffer)).collect();
                let depth = of.iter().map(|s| s.loops.len()).max().unwrap_or(0);
                let mut steps: Vec<usize> = of.iter().map(|s| s.step).collect();
                steps.dedup();
                (depth, steps)
            }
            Holds::Tape(tape) => {
                let of = sites.records.iter().filter(|(t, _)| t == tape);
                (of.map(|(_, depth)| *depth).max().unwrap_or(0), Vec::new())
            }
        };
        all.push(StreamUse { stream, entries: region.entries(), depth, steps });
    }
    for (id, input) in &layout.inputs {
        let (entries, depth, steps) = (input.entries(), input.loops.len(), vec![input.step]);
        all.push(StreamUse { stream: Stream::Input(id), entries, depth, steps });
    }
    all
}

/// Divides half of the scratchpad among the streams. Returns, for each stream, the number of iterations whose records
/// (or, for an argument, whose loaded elements) fit into the stream's part. The number is 0 if the stream does not fit.
pub(super) fn shares(
    program: &Program,
    layout: &Layout,
    model: &ScratchpadModel,
) -> BTreeMap<Stream, u64> {
    let mut stream_uses = stream_uses(program, layout);
    let touched: SecondaryMap<InputId, Option<ArgumentReads>> = layout
        .inputs
        .iter()
        .map(|(id, input)| (id, ArgumentReads::by(program, input, model)))
        .collect();
    loop {
        let mut shares = BTreeMap::new();
        for stream_use in &stream_uses {
            let together: Vec<&StreamUse> =
                stream_uses.iter().filter(|m| m.conflicts_with(stream_use)).collect();
            let iterations = iterations(stream_use, &together, model.part_entries());
            let worth = match stream_use.stream {
                Stream::Region(_) => true,
                Stream::Input(id) => touched[id].as_ref().is_some_and(|t| t.are_worth(iterations)),
            };
            shares.insert(stream_use.stream, if worth { iterations } else { 0 });
        }
        let none = |m: &&StreamUse| shares[&m.stream] == 0;
        let last = stream_uses
            .iter()
            .filter(none)
            .max_by_key(|m| (matches!(m.stream, Stream::Input(_)), m.entries));
        let Some(stream) = last.map(|m| m.stream) else { return shares };
        stream_uses.retain(|m| m.stream != stream);
    }
}

/// Returns the number of iterations whose entries fit into a stream's part, if half of the scratchpad (`half` entries
/// of 8 bytes) is divided among the streams `together`, which include the stream itself.
fn iterations(stream_use: &StreamUse, together: &[&StreamUse], half: u64) -> u64 {
    let deepest = together.iter().map(|m| m.depth).max().unwrap_or(0);
    let sum = |deep: bool| -> u64 {
        together.iter().filter(|m| (m.depth == deepest) == deep).map(|m| m.entries).sum()
    };
    match half.checked_sub(sum(false)) {
        None => 0,
        Some(left) if stream_use.depth == deepest => left / sum(true).max(1),
        Some(_) => 1,
    }
}
