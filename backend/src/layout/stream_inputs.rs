//! Streams arguments that the reverse pass reads in order directly from their own memory to the scratchpad.
//!
//! If the planner saves few residuals, the reverse pass reads arguments again. Their order is known from the loops,
//! so the engine that moves tiles of the tape can move the arguments, too, without a copy. The pass streams loads of
//! arguments that an earlier step has read, if the load happens in every iteration and its index is an affine form of
//! loop counters. Streaming must pay: either at least two elements are read of each moved cache line, or the cache
//! would move about as many lines (each element of a column of a large matrix is in a cache line of its own, and
//! these lines fall on few sets of the cache). An element that the tile already contains is not moved again: a row
//! that five iterations of an outer loop read is moved once, if it fits.
//!
//! ```text
//! serial i10 in 10 {                          a tile: 31 elements of b2 at most, four lines
//!   serial i12 in 784 {
//!     %33: f64 = load b2[783 - i12]
//! ```

use super::access_sites::{Site, Sites};
use super::phase_boundary::reverse_pass_start;
use super::{Input, Layout, ScratchpadModel};
use crate::loop_ir::{IndexId, Place, Program, ScalarId};
use std::hash::Hash;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::analysis::affine::Affine;

/// Runs the pass `inputs`: adds to the layout the arguments for which streaming pays (`are_worth`).
pub(super) fn inputs(program: &Program, mut layout: Layout, model: &ScratchpadModel) -> Layout {
    let (k, sites) = (&program.entry, Sites::of(program));
    let from = reverse_pass_start(program).unwrap_or(0);
    let mut found: Vec<(usize, Input)> = Vec::new();
    for site in sites.all.iter().filter(|s| s.step >= from) {
        let again = sites.accessing(site.buffer).any(|s| s.step < site.step);
        if !again || !matches!(k.buffers[site.buffer].place, Place::Input(_)) {
            continue;
        }
        let Some((value, address, stride)) = in_order(site) else { continue };
        let with = found.iter_mut().find(|(block, input)| {
            let near = |(_, other): &(_, Affine<IndexId>)| {
                let apart = address.checked_plus(other, -1).and_then(|d| d.value());
                apart.is_some_and(|d| d.abs() < stride)
            };
            (*block, input.buffer) == (site.block, site.buffer) && input.loads.iter().all(near)
        });
        match with {
            Some((_, input)) if input.loads.iter().any(|l| l.1 == address) => {}
            Some((_, input)) => input.loads.push((value, address)),
            None => {
                let (buffer, step, loops) = (site.buffer, site.step, site.loops.clone());
                let loads = vec![(value, address)];
                found.push((
                    site.block,
                    Input { buffer, step, loops, loads, tile: None, scratchpad: None },
                ));
            }
        }
    }
    for (_, input) in found {
        if ArgumentReads::by(program, &input, model)
            .is_some_and(|touched| touched.are_worth(model.part_entries() / input.entries().max(1)))
        {
            layout.inputs.push(input);
        }
    }
    layout
}

/// The elements of a streamed argument that the loads of all iterations read, in the order of the reads.
#[derive(Clone)]
pub(super) struct ArgumentReads {
    /// The indices in the argument of the elements that are read, one index for each read.
    elements: Vec<i64>,
    /// The number of reads of the argument in one iteration of the innermost loop.
    entries: usize,
    /// The number of elements of the argument in a cache line.
    line: i64,
    /// The number of cache lines that the cache would fetch if it served only the reads of this argument.
    missed: u64,
}

impl ArgumentReads {
    /// Returns the elements that the loads of a streamed argument read; `None` if the indices cannot be evaluated, or
    /// if there are fewer reads than entries in one part of the scratchpad.
    pub(super) fn by(
        program: &Program,
        input: &Input,
        model: &ScratchpadModel,
    ) -> Option<ArgumentReads> {
        let width = program.entry.buffers[input.buffer].ty.dtype.bytes() as u64;
        let (elements, line) = (input.elements()?, (model.line / width.max(1)).max(1) as i64);
        let lines: Vec<i64> = elements.iter().map(|element| element / line).collect();
        let missed = misses(&lines, model);
        let enough = lines.len() as u64 >= model.part_entries();
        enough.then_some(ArgumentReads { elements, entries: input.loads.len(), line, missed })
    }

    /// Returns whether it pays to stream an argument in tiles of `iterations` iterations. Either the loads read at
    /// least two elements for each cache line that the stream moves, or a cache alone would fetch at least 15/16 as
    /// many lines as the stream.
    pub(super) fn are_worth(&self, iterations: u64) -> bool {
        let iterations = usize::try_from(iterations).unwrap_or(usize::MAX);
        let apart = |a: i64, b: i64| a / self.line != b / self.line;
        let tiles =
            cut(&self.elements, iterations.saturating_mul(self.entries), self.entries, apart);
        let moved: u64 = tiles.iter().map(|tile| tile.lines(apart).count() as u64).sum();
        let read = self.elements.len() as u64;
        iterations > 0 && (2 * moved <= read || 15 * moved <= 16 * self.missed)
    }
}

/// A tile cut from a sequence of reads: the distinct words (elements) that one stream operation moves.
pub(crate) struct StreamTile<T> {
    /// The distinct words of the tile, in the order of their first reads.
    pub(crate) words: Vec<T>,
    /// For each read, the index of its word in `words`.
    pub(crate) places: Vec<u32>,
}

impl<T: Copy> StreamTile<T> {
    /// Returns one word of each cache line that the tile fetches; `apart` says whether two words are in different
    /// cache lines.
    pub(crate) fn lines(&self, apart: impl Fn(T, T) -> bool) -> impl Iterator<Item = T> {
        self.words.chunk_by(move |a, b| !apart(*a, *b)).map(|part| part[0])
    }
}

/// Cuts a sequence of reads, `entries` for each iteration, into tiles of at most `most` distinct words. A word that
/// the tile already contains is not moved again, however many iterations read it. If a cache line ends inside a tile,
/// the tile ends at the last such line end, so that no cache line is fetched twice.
pub(crate) fn cut<T: Copy + Eq + Hash>(
    all: &[T],
    most: usize,
    entries: usize,
    apart: impl Fn(T, T) -> bool,
) -> Vec<StreamTile<T>> {
    let (mut tiles, mut rest) = (Vec::new(), all);
    while !rest.is_empty() {
        let (mut words, mut places): (OrderedSet<T>, Vec<u32>) = Default::default();
        let mut end = (0, 0);
        for iteration in rest.chunks(entries.max(1)) {
            let before = words.len();
            places.extend(iteration.iter().map(|word| words.insert_full(*word).0 as u32));
            if words.len() > most && before > 0 {
                words.truncate(before);
                places.truncate(places.len() - iteration.len());
                break;
            }
            let read = places.len();
            if read == rest.len() || apart(rest[read - 1], rest[read]) {
                end = (read, words.len());
            }
        }
        if end.0 > 0 {
            places.truncate(end.0);
            words.truncate(end.1);
        }
        rest = &rest[places.len()..];
        tiles.push(StreamTile { words: words.into_iter().collect(), places });
    }
    tiles
}

/// Returns the number of cache lines that the modelled cache fetches if it serves only these reads; `lines` is the
/// number of the cache line of each read.
fn misses(lines: &[i64], model: &ScratchpadModel) -> u64 {
    let count = (model.cache / model.line.max(1) / model.associativity.max(1)).max(1);
    // The cache lines in each set of the cache, the most recently used line last.
    let mut sets: Vec<Vec<i64>> = vec![Vec::new(); count as usize];
    let mut missed = 0;
    for line in lines {
        let set = &mut sets[line.rem_euclid(count as i64) as usize];
        match set.iter().position(|l| l == line) {
            Some(at) => {
                set.remove(at);
            }
            None => {
                missed += 1;
                if set.len() as u64 >= model.associativity {
                    set.remove(0);
                }
            }
        }
        set.push(*line);
    }
    missed
}

/// Returns the scalar that a load defines, its element index as an affine form, and the absolute stride of the
/// innermost loop; `None` if the load may be skipped, its index is unknown or its stride is 0.
fn in_order(site: &Site) -> Option<(ScalarId, Affine<IndexId>, i64)> {
    let (value, address) = (site.value?, site.address.clone()?);
    let (_, stride) = address.without(site.loops.last()?.index);
    (site.always && !site.write && stride != 0).then_some((value, address, stride.abs()))
}
