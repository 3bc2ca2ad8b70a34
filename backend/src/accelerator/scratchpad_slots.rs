//! Streams that share a scratchpad. Each stream has its own range of entries; ranges may overlap if the streams are
//! not in use at the same time.
//!
//! A stream occupies its range with its first layer. If another stream occupies entries of the range, that stream is
//! first sent to memory, or read to its end. So the layout must state which streams may be in use at the same time.
//! If the layout is wrong, the machine waits for ever, which is reported as an error.

use super::arrays::Tape;
use super::machine::Machine;
use super::op::{Entry, Layer};
use super::scratchpad::{InputTile, Scratchpad, StreamHalf, Transfer};
use std::collections::VecDeque;
use tapeloom_ir::Problem;

/// The range of scratchpad entries of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The index, in the scratchpad, of the first entry of the stream's range.
    pub at: u64,
    /// The number of 8-byte entries in each half of the stream's range.
    pub half: u64,
}

/// A stream with its range of the scratchpad.
struct Stream {
    slot: Slot,
    pad: Scratchpad,
    /// Whether the stream occupies its range at present.
    holds: bool,
}

pub(super) struct Pads {
    streams: Vec<Stream>,
    halves: u64,
    /// The address on the tape to which the next tile (contents of a half) is sent. The tiles of all streams follow
    /// one another on one tape.
    tape: u64,
    /// The transfers to memory that wait for the stream engines.
    pub(super) out: VecDeque<Transfer>,
    /// The transfers from memory that wait for the stream engines.
    pub(super) back: VecDeque<Transfer>,
}

impl Pads {
    /// Creates a scratchpad whose entries all belong to one stream.
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

    /// Moves the transfers that stream `n` requests to the queues `out` and `back` of the engines.
    fn gather(&mut self, n: usize) {
        let pad = &mut self.streams[n].pad;
        self.out.extend(pad.out.drain(..));
        self.back.extend(pad.back.drain(..));
    }

    /// Occupies the scratchpad range of stream `n`. Returns false if streams with overlapping ranges must leave their
    /// ranges first.
    fn take(&mut self, n: usize) -> bool {
        let mut free = true;
        let others = 0..self.streams.len();
        let others = others.filter(|o| *o != n && self.streams[*o].holds && self.overlap(n, *o));
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

    /// Begins a layer (a group of tape entries) of a stream. Returns false if the layer must wait: until another stream
    /// no longer uses an overlapping range of the scratchpad, or until a half of the stream's own range is free.
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

    /// Ends the layer (group of tape entries) in use of the stream with number `stream`.
    pub(super) fn end(&mut self, stream: u32) -> Result<(), Problem> {
        self.stream(stream)?.end()?;
        self.gather(stream as usize);
        Ok(())
    }

    /// Sets the tiles (contents of a half each) that a stream brings from the array of an argument.
    pub(super) fn set_tiles(&mut self, stream: u32, tiles: Vec<InputTile>) -> Result<(), Problem> {
        self.stream(stream)?.set_tiles(tiles)?;
        self.streams[stream as usize].holds = false;
        Ok(())
    }

    /// Returns the index, among all entries of the scratchpad, of a tape entry in the layer (group of tape entries)
    /// that its stream has in use.
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
        StreamHalf { stream, half }: StreamHalf,
    ) -> Result<(), Problem> {
        self.streams[stream].pad.arrived_in_memory(half)
    }

    pub(super) fn arrived_from_memory(
        &mut self,
        StreamHalf { stream, half }: StreamHalf,
    ) -> Result<(), Problem> {
        self.streams[stream].pad.arrived_from_memory(half)
    }

    /// Ends the forward phase: all streams send the contents of their halves in use to memory.
    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        for n in 0..self.streams.len() {
            self.streams[n].pad.flush(&mut self.tape)?;
            self.gather(n);
        }
        Ok(())
    }

    /// Begins the reverse phase. Streams whose ranges overlap no other range request their first entries from memory.
    pub(super) fn begin_reverse_pass(&mut self) {
        self.streams.iter_mut().for_each(|stream| {
            stream.pad.begin_reverse_pass();
            stream.holds = false;
        });
        for n in 0..self.streams.len() {
            let alone = (0..self.streams.len()).all(|m| m == n || !self.overlap(n, m));
            if alone && !self.streams[n].pad.is_idle() {
                (self.streams[n].holds, _) = (true, self.streams[n].pad.start());
                self.gather(n);
            }
        }
    }

    /// Returns whether the scratchpad ranges of two streams overlap.
    fn overlap(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.streams[a].slot, self.streams[b].slot);
        let end = |slot: Slot| slot.at + slot.half * self.halves;
        a.at < end(b) && b.at < end(a)
    }

    /// Returns the number of tiles (contents of a half each) that all streams sent to memory in the forward phase.
    pub(super) fn tiles(&self) -> u64 {
        self.streams.iter().map(|stream| stream.pad.tiles).sum()
    }

    /// Checks, at the end of the run, that the tiles (contents of a half each) of every stream were brought back and
    /// read to the end.
    pub(super) fn check_empty(&self) -> Result<(), Problem> {
        self.streams.iter().try_for_each(|stream| stream.pad.check_empty())
    }
}
