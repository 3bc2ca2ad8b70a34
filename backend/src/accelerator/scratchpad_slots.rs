//! Streams that share a scratchpad: each has its own place, and places may overlap if the streams are not in use at
//! the same time.
//!
//! A stream occupies its place with its first layer. If another stream occupies it, that stream is first sent to
//! memory, or read to its end. So the layout must state which streams may be in use at the same time. If the layout
//! is wrong, the machine waits for ever, which is reported as an error.

use super::arrays::Tape;
use super::machine::Machine;
use super::op::{Entry, Layer};
use super::scratchpad::{InputTile, Moved, Scratchpad, Transfer};
use std::collections::VecDeque;
use tapeloom_ir::Problem;

/// The place of a stream in the scratchpad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The index, in the scratchpad, of the first entry of the stream's place.
    pub at: u64,
    /// The number of 8-byte entries in each half of the stream's place.
    pub half: u64,
}

/// A stream with its place.
struct Stream {
    slot: Slot,
    pad: Scratchpad,
    /// Whether the stream occupies its place now.
    holds: bool,
}

pub(super) struct Pads {
    streams: Vec<Stream>,
    halves: u64,
    /// The address of the next tile. The tiles of all streams follow one another on one tape.
    tape: u64,
    /// The transfers for the engines.
    pub(super) out: VecDeque<Transfer>,
    pub(super) back: VecDeque<Transfer>,
}

impl Pads {
    /// Creates a scratchpad with one stream that has all entries.
    pub(super) fn new(m: &Machine) -> Pads {
        Pads::of(m, &[Slot { at: 0, half: m.capacity() }])
    }

    pub(super) fn of(m: &Machine, slots: &[Slot]) -> Pads {
        let stream = |(n, slot): (usize, &Slot)| Stream {
            slot: *slot,
            pad: Scratchpad::new(n, slot.half, m.halves, m.request),
            holds: false,
        };
        let streams = slots.iter().enumerate().map(stream).collect();
        let tape = Tape::BASE;
        Pads { streams, halves: m.halves, tape, out: VecDeque::new(), back: VecDeque::new() }
    }

    fn stream(&mut self, n: u32) -> Result<&mut Scratchpad, Problem> {
        let missing = || Problem::internal(format!("there is no stream {n}"));
        self.streams.get_mut(n as usize).map(|s| &mut s.pad).ok_or_else(missing)
    }

    /// Moves the transfers that a stream requests to the engines' queues.
    fn gather(&mut self, n: usize) {
        let pad = &mut self.streams[n].pad;
        self.out.extend(pad.out.drain(..));
        self.back.extend(pad.back.drain(..));
    }

    /// Occupies the place of a stream. Returns false if other streams must leave it first.
    fn take(&mut self, n: usize) -> bool {
        let mut free = true;
        let others = 0..self.streams.len();
        let others = others.filter(|o| *o != n && self.streams[*o].holds && self.meet(n, *o));
        for other in others.collect::<Vec<_>>() {
            let stream = &mut self.streams[other];
            stream.pad.leave(&mut self.tape);
            stream.holds = !stream.pad.is_idle();
            free &= !stream.holds;
            self.gather(other);
        }
        self.streams[n].holds = free;
        free
    }

    /// Begins a layer. Returns false if it must wait for another stream to leave its place, or for a free half.
    pub(super) fn begin(&mut self, layer: Layer) -> Result<bool, Problem> {
        let n = layer.stream as usize;
        self.stream(layer.stream)?;
        if !self.streams[n].holds {
            if !self.take(n) {
                return Ok(false);
            }
            self.streams[n].pad.start();
        }
        let begun = self.streams[n].pad.begin(layer, &mut self.tape);
        self.gather(n);
        begun
    }

    /// Ends the layer of a stream.
    pub(super) fn end(&mut self, stream: u32) -> Result<(), Problem> {
        self.stream(stream)?.end()?;
        self.gather(stream as usize);
        Ok(())
    }

    /// Sets the tiles that a stream brings from arrays.
    pub(super) fn set_tiles(&mut self, stream: u32, tiles: Vec<InputTile>) -> Result<(), Problem> {
        self.stream(stream)?.set_tiles(tiles)?;
        self.streams[stream as usize].holds = false;
        Ok(())
    }

    /// Returns the index of an entry in the scratchpad.
    pub(super) fn entry(&mut self, entry: Entry) -> Result<u64, Problem> {
        let within = self.stream(entry.stream)?.entry(entry.offset)?;
        Ok(self.streams[entry.stream as usize].slot.at + within)
    }

    pub(super) fn store(&mut self, entry: Entry) -> Result<(), Problem> {
        self.stream(entry.stream)?.store(entry)
    }

    pub(super) fn load(&mut self, entry: Entry) -> Result<(), Problem> {
        self.stream(entry.stream)?.load(entry)
    }

    pub(super) fn arrived_in_memory(
        &mut self,
        Moved { stream, half }: Moved,
    ) -> Result<(), Problem> {
        self.streams[stream].pad.arrived_in_memory(half)
    }

    pub(super) fn arrived_from_memory(
        &mut self,
        Moved { stream, half }: Moved,
    ) -> Result<(), Problem> {
        self.streams[stream].pad.arrived_from_memory(half)
    }

    /// Ends the forward phase: sends the tiles in use to memory.
    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        for n in 0..self.streams.len() {
            self.streams[n].pad.flush(&mut self.tape)?;
            self.gather(n);
        }
        Ok(())
    }

    /// Begins the reverse phase. Streams whose places overlap no other place request their first tiles.
    pub(super) fn begin_reverse_pass(&mut self) {
        self.streams.iter_mut().for_each(|stream| {
            stream.pad.begin_reverse_pass();
            stream.holds = false;
        });
        for n in 0..self.streams.len() {
            let alone = (0..self.streams.len()).all(|m| m == n || !self.meet(n, m));
            if alone && !self.streams[n].pad.is_idle() {
                (self.streams[n].holds, _) = (true, self.streams[n].pad.start());
                self.gather(n);
            }
        }
    }

    /// Returns whether the places of two streams overlap.
    fn meet(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.streams[a].slot, self.streams[b].slot);
        let end = |slot: Slot| slot.at + slot.half * self.halves;
        a.at < end(b) && b.at < end(a)
    }

    /// Returns the number of tiles on the tape.
    pub(super) fn tiles(&self) -> u64 {
        self.streams.iter().map(|stream| stream.pad.tiles).sum()
    }

    /// Checks, at the end of the run, that every stream's tiles and layers were read.
    pub(super) fn check_empty(&self) -> Result<(), Problem> {
        self.streams.iter().try_for_each(|stream| stream.pad.check_empty())
    }
}
