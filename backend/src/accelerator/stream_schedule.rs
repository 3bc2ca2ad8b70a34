//! The progress of each stream of a layout: which layer is in the scratchpad, and which comes next.
//!
//! A program accesses its tape element by element. A stream moves layers (groups of records for which the scratchpad is
//! allocated at one time). For each access, this module returns which layers to close and to open first. The layout
//! states the order of layers; a program that deviates from that order is reported as an error, and not simulated as a
//! slow run.

use super::op::{Layer as Opened, Order, Token};
use super::scratchpad_slots::Slot;
use crate::layout::{InputId, Layout, Read, RegionId, StreamTile};
use crate::loop_ir::ScalarId;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{OrderedMap, Problem};

/// A change of the layer (group of tape records) that a stream has in the scratchpad: closes the layer in use, or opens
/// the next layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    Open(Opened),
    Close,
}

/// A list of changes of the layer (group of tape records) in the scratchpad; seldom more than two, so two are stored
/// inline.
pub(super) type Moves = SmallVec<[Move; 2]>;

struct Stream {
    slot: Slot,
    /// The number of records in a layer (the records for which the scratchpad is allocated at one time).
    iterations: u64,
    /// The number of 8-byte scratchpad entries that a record (one iteration's residuals) takes.
    entries: u64,
    /// The number of records (one iteration's residuals each) of the stream in the whole run.
    records: u64,
    read: Read,
    /// The tiles (units of transfer) that a stream of arguments brings from their arrays; `None` for a stream of the
    /// tape.
    fed: Option<StreamedTiles>,
    /// The number of the layer (group of tape records) in use, which has begun and which no barrier has ended.
    open: Option<u64>,
    /// The number of the layer (group of tape records) that was in use last.
    last: Option<u64>,
    /// The token of the barrier that ended the stream's last layer, for which later streams with an overlapping
    /// scratchpad range wait.
    ended: Token,
}

/// The tiles (words that one stream operation moves) of an argument that is streamed from its array.
struct StreamedTiles {
    /// Per load of the argument: the number of its executions so far.
    served: Vec<u64>,
    /// The tiles (units of transfer) of the argument, in the order in which they are used.
    tiles: Vec<StreamTile<u64>>,
    /// Per tile (unit of transfer): the first iteration whose loads read the tile. An iteration executes each load of
    /// the argument once.
    starts: Vec<u64>,
}

/// The streams of a run, and the stream to which each access belongs.
#[derive(Default)]
pub(super) struct StreamSchedule {
    streams: Vec<Stream>,
    regions: SecondaryMap<RegionId, Option<u32>>,
    /// Per step (top-level statement) and load of an argument: the number of the stream, and the index of the load
    /// among the stream's loads.
    loads: OrderedMap<(usize, ScalarId), (u32, usize)>,
    pub(super) inputs: Vec<(u32, InputId)>,
}

impl StreamSchedule {
    /// Creates the streams of a layout. For a dynamic tape, `observed_order` returns in which order the residuals of
    /// the iterations (records) are read, and the number of these records.
    pub(super) fn of(
        layout: &Layout,
        observed_order: impl Fn(RegionId) -> Option<(Read, u64)>,
    ) -> StreamSchedule {
        let mut schedule = StreamSchedule::default();
        for (id, region) in &layout.regions {
            let read = match region.read {
                Read::Run => observed_order(id),
                read => region.records().map(|records| (read, records)),
            };
            let parts = read.zip(region.layer).zip(region.tile).zip(region.scratchpad);
            let Some(((((read, records), layer), tile), at)) = parts else { continue };
            let (iterations, entries) = (layer.iterations, region.entries());
            let slot = Slot { at, half: iterations * entries * tile.length };
            schedule.regions[id] =
                Some(schedule.push(slot, (iterations, entries, records), read, None));
        }
        for (id, input) in &layout.inputs {
            let Some((tile, at)) = input.tile.zip(input.scratchpad) else { continue };
            let slot = Slot { at, half: tile.length * input.entries() };
            let served = vec![0; input.loads.len()];
            let fed = Some(StreamedTiles { served, tiles: Vec::new(), starts: Vec::new() });
            let stream = schedule.push(slot, (tile.length, input.entries(), 0), Read::Same, fed);
            let loads = input.loads.iter().enumerate();
            schedule.loads.extend(loads.map(|(n, (value, _))| ((input.step, *value), (stream, n))));
            schedule.inputs.push((stream, id));
        }
        schedule
    }

    fn push(
        &mut self,
        slot: Slot,
        (iterations, entries, records): (u64, u64, u64),
        read: Read,
        fed: Option<StreamedTiles>,
    ) -> u32 {
        let (open, last, ended) = (None, None, Token::READY);
        self.streams.push(Stream {
            slot,
            iterations,
            entries,
            records,
            read,
            fed,
            open,
            last,
            ended,
        });
        self.streams.len() as u32 - 1
    }

    pub(super) fn slots(&self) -> Vec<Slot> {
        self.streams.iter().map(|s| s.slot).collect()
    }

    /// Returns the number of the stream that moves the records of a region (an array of records); `None` if the region
    /// is not streamed.
    pub(super) fn region(&self, region: RegionId) -> Option<u32> {
        self.regions[region]
    }

    /// Returns the number of records (one iteration's residuals each) that a stream of the tape moves; 0 for a stream
    /// of an argument.
    pub(super) fn records(&self, stream: u32) -> u64 {
        self.streams[stream as usize].records
    }

    /// Counts an execution of a load of an argument. Returns the load's stream, the layer (group of entries in the
    /// scratchpad), and the offset of the element in the layer; `None` if the argument is not streamed.
    pub(super) fn load(&mut self, step: usize, value: ScalarId) -> Option<(u32, u64, u64)> {
        let (stream, n) = *self.loads.get(&(step, value))?;
        let s = &mut self.streams[stream as usize];
        let StreamedTiles { served, tiles, starts } = s.fed.as_mut()?;
        served[n] += 1;
        let iteration = served[n] - 1;
        let tile = starts.partition_point(|start| *start <= iteration).checked_sub(1)?;
        let read = (iteration - starts[tile]) * s.entries + n as u64;
        let place = tiles.get(tile)?.places.get(read as usize)?;
        let place = if planted(Fault::TileAgain) { read } else { u64::from(*place) };
        Some((stream, tile as u64, place))
    }

    /// Returns the largest number of 8-byte words that a tile (unit of transfer) of the stream may have: half of the
    /// stream's scratchpad entries.
    pub(super) fn tile_words(&self, stream: u32) -> usize {
        self.streams[stream as usize].slot.half as usize
    }

    /// Sets the tiles (words that one stream operation moves) of a stream that brings an argument from its array.
    pub(super) fn set_tiles(&mut self, stream: u32, tiles: Vec<StreamTile<u64>>) {
        let s = &mut self.streams[stream as usize];
        let Some(fed) = &mut s.fed else { return };
        let mut end = 0;
        fed.starts = tiles
            .iter()
            .map(|tile| {
                let start = end;
                end += tile.places.len() as u64 / s.entries.max(1);
                start
            })
            .collect();
        fed.tiles = tiles;
    }

    /// Returns the number of the layer (group of records in the scratchpad) that contains a record, and the offset in
    /// the layer of the record's first entry, in entries of 8 bytes.
    pub(super) fn layer(&self, stream: u32, record: u64) -> (u64, u64) {
        let s = &self.streams[stream as usize];
        (record / s.iterations, record % s.iterations * s.entries)
    }

    /// Returns the layers (groups of entries in the scratchpad) to end and to begin before an access to the layer with
    /// number `layer`.
    pub(super) fn to(&mut self, stream: u32, layer: u64, reverse: bool) -> Result<Moves, Problem> {
        let s = &mut self.streams[stream as usize];
        match s.open == Some(layer) {
            true => Ok(Moves::new()),
            false => s.towards(stream, Some(layer), reverse),
        }
    }

    /// Returns the changes of layers (groups of entries in the scratchpad) of a stream at the end of a step (top-level
    /// statement): the layer in use is ended, and a stream that the reverse phase has begun to read is read to its end.
    /// If `all` (at the end of the run), streams that were not begun are read, too.
    pub(super) fn end(&mut self, stream: u32, reverse: bool, all: bool) -> Result<Moves, Problem> {
        let s = &mut self.streams[stream as usize];
        if s.last.is_none() && !all {
            return Ok(Moves::new());
        }
        s.towards(stream, None, reverse)
    }

    pub(super) fn count(&self) -> u32 {
        self.streams.len() as u32
    }

    /// Begins the reverse phase, in which no layer (group of tape records) has been in use yet.
    pub(super) fn begin_reverse_pass(&mut self) {
        self.streams.iter_mut().for_each(|s| s.last = None);
    }

    /// Sets the token of the barrier that has ended the layer (group of tape records) in use of a stream.
    pub(super) fn ended(&mut self, stream: u32, by: Token) {
        self.streams[stream as usize].ended = by;
    }

    /// Returns the tokens for which the first layer (group of tape records) of a stream waits: the last barriers of
    /// streams with overlapping scratchpad ranges.
    pub(super) fn before(&self, stream: u32, halves: u64) -> SmallVec<[Token; 4]> {
        let end = |slot: Slot| slot.at + slot.half * halves;
        let mine = self.streams[stream as usize].slot;
        let meets = |s: &&Stream| s.slot.at < end(mine) && mine.at < end(s.slot);
        self.streams.iter().filter(meets).map(|s| s.ended).collect()
    }
}

impl Stream {
    /// Returns the number of layers (groups of records, or tiles of an argument) that the forward or the reverse phase
    /// uses in the whole run.
    fn layers(&self) -> u64 {
        match &self.fed {
            Some(fed) => fed.tiles.len() as u64,
            None => self.records.div_ceil(self.iterations),
        }
    }

    /// Returns the number of 8-byte scratchpad entries of a layer (group of tape records); the last layer may be
    /// shorter.
    fn entries_of(&self, layer: u64) -> u64 {
        match &self.fed {
            Some(fed) => fed.tiles[layer as usize].words.len() as u64,
            None => (self.records - layer * self.iterations).min(self.iterations) * self.entries,
        }
    }

    /// Returns the layers (groups of entries in the scratchpad) to end and to begin in order to come from the layer in
    /// use to `layer`; `None` is the end of the stream.
    fn towards(
        &mut self,
        stream: u32,
        layer: Option<u64>,
        reverse: bool,
    ) -> Result<Moves, Problem> {
        let (all, mut moves) = (self.layers(), Moves::new());
        let stored = !reverse && self.fed.is_none();
        if self.open.take().is_some() {
            moves.push(Move::Close);
        }
        // If the reverse phase reads the layers (groups of tape records) in the opposite order of their stores
        // (`back`), `number` counts from the last layer.
        let back = !stored && self.read == Read::Mirrored;
        let number = |layer: u64| if back { all.wrapping_sub(layer + 1) } else { layer };
        let next = self.last.map_or(0, |last| number(last) + 1);
        let end = match layer {
            Some(layer) => number(layer),
            None if stored => return Ok(moves),
            None => all,
        };
        // Report a layer (group of tape records) that comes too early or too late. The forward phase stores every layer
        // and must skip none.
        if end < next || stored && end > next || layer.is_some() && end >= all {
            let (read, last) = (self.read, self.last);
            return Err(Problem::internal(format!(
                "the layout says that layers are read {read}, and {layer:?} of {all} follows \
                 {last:?}"
            )));
        }
        for n in next..=end.min(all.wrapping_sub(1)) {
            if all == 0 {
                break;
            }
            let at = number(n);
            let order = match self.read {
                Read::Mirrored => Order::Mirrored,
                Read::Same | Read::Otherwise | Read::Run => Order::Same { nest: 0 },
            };
            let (entries, in_array) = (self.entries_of(at), self.fed.is_some());
            moves.push(Move::Open(Opened { stream, entries, in_array, order }));
            self.last = Some(at);
            match layer == Some(at) {
                true => self.open = layer,
                false => moves.push(Move::Close),
            }
        }
        Ok(moves)
    }
}
