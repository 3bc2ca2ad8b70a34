//! Inputs: arguments that the way back reads in order are streamed from where they lie.
//!
//! A planner that keeps little reads arguments again. They come in an order that loops know beforehand, so
//! nothing has to be copied to be streamed: the engine that brings tiles back brings them, too. It is done for
//! loads that happen in every iteration, whose index is a sum of counters, of an argument that an earlier step
//! has read, where two elements or more are found in each line that is moved, or the cache would move about
//! as many lines: a column of a large matrix is in as many lines as it has elements, which fall on few sets. What a
//! tile has is not moved again: a row that five iterations of an outer loop read comes once, if it fits.
//!
//! ```text
//! serial i10 in 10 {                          a tile: 31 elements of b2 at most, four lines
//!   serial i12 in 784 {
//!     %33: f64 = load b2[783 - i12]
//! ```

use super::access_sites::{Site, Sites};
use super::phase_boundary::turn;
use super::{Input, Layout, Room};
use crate::loop_ir::{IndexId, Place, Program, ScalarId};
use std::hash::Hash;
use tapeloom_ir::OrderedSet;
use tapeloom_ir::analysis::affine::Affine;

/// The pass.
pub(super) fn inputs(program: &Program, mut layout: Layout, room: &Room) -> Layout {
    let (k, sites) = (&program.entry, Sites::of(program));
    let from = turn(program).unwrap_or(0);
    let mut found: Vec<(usize, Input)> = Vec::new();
    for site in sites.all.iter().filter(|s| s.step >= from) {
        let again = sites.touching(site.buffer).any(|s| s.step < site.step);
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
        if Touched::by(program, &input, room)
            .is_some_and(|touched| touched.are_worth(room.half() / input.entries().max(1)))
        {
            layout.inputs.push(input);
        }
    }
    layout
}

/// What an input's iterations read, one behind the other.
#[derive(Clone)]
pub(super) struct Touched {
    /// The elements,
    elements: Vec<i64>,
    /// so many to an iteration,
    entries: usize,
    /// so many to a line,
    line: i64,
    /// and how many lines a cache fetches that has nothing else to do.
    missed: u64,
}

impl Touched {
    /// That of an input; `None` where it has more elements than can be counted, or fewer than are worth a stream.
    pub(super) fn by(program: &Program, input: &Input, room: &Room) -> Option<Touched> {
        let width = program.entry.buffers[input.buffer].ty.dtype.bytes() as u64;
        let (elements, line) = (input.elements()?, (room.line / width.max(1)).max(1) as i64);
        let lines: Vec<i64> = elements.iter().map(|element| element / line).collect();
        let missed = misses(&lines, room);
        let enough = lines.len() as u64 >= room.half();
        enough.then_some(Touched { elements, entries: input.loads.len(), line, missed })
    }

    /// Whether tiles with room for so many iterations are worth a stream: two elements or more are read of each line that is
    /// moved, or the cache would move about as many lines.
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

/// What is moved at once of words that are read in iterations.
pub(crate) struct Cut<T> {
    /// The words, in the order in which they are read first.
    pub(crate) words: Vec<T>,
    /// Of each word that is read the place among these.
    pub(crate) places: Vec<u32>,
}

impl<T: Copy> Cut<T> {
    /// A word of each line that is asked for.
    pub(crate) fn lines(&self, apart: impl Fn(T, T) -> bool) -> impl Iterator<Item = T> {
        self.words.chunk_by(move |a, b| !apart(*a, *b)).map(|part| part[0])
    }
}

/// Cuts what is read in iterations of so many words into tiles of so many words at most. A word that a tile has is not
/// moved again, however many iterations read it; and a tile ends where a line does, if one ends there, so that none is asked
/// for twice.
pub(crate) fn cut<T: Copy + Eq + Hash>(
    all: &[T],
    room: usize,
    entries: usize,
    apart: impl Fn(T, T) -> bool,
) -> Vec<Cut<T>> {
    let (mut tiles, mut rest) = (Vec::new(), all);
    while !rest.is_empty() {
        let (mut words, mut places): (OrderedSet<T>, Vec<u32>) = Default::default();
        let mut end = (0, 0);
        for iteration in rest.chunks(entries.max(1)) {
            let before = words.len();
            places.extend(iteration.iter().map(|word| words.insert_full(*word).0 as u32));
            if words.len() > room && before > 0 {
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
        tiles.push(Cut { words: words.into_iter().collect(), places });
    }
    tiles
}

/// How many lines a cache fetches that has nothing else to do.
fn misses(lines: &[i64], room: &Room) -> u64 {
    let count = (room.cache / room.line.max(1) / room.ways.max(1)).max(1);
    // Of each set its lines, the youngest last.
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
                if set.len() as u64 >= room.ways {
                    set.remove(0);
                }
            }
        }
        set.push(*line);
    }
    missed
}

/// A load that comes by its elements in order: what it gives, which elements, and the stride of the
/// innermost loop.
fn in_order(site: &Site) -> Option<(ScalarId, Affine<IndexId>, i64)> {
    let (value, address) = (site.value?, site.address.clone()?);
    let (_, stride) = address.without(site.loops.last()?.index);
    (site.always && !site.write && stride != 0).then_some((value, address, stride.abs()))
}
