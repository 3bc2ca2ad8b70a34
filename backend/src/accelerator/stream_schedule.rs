//! What goes through the scratchpad: the streams of a layout, and how far each of them is.
//!
//! A program comes by its tape element by element; a stream moves layers. So whoever comes by an element asks for
//! its layer, and what has to be opened and closed before is said here. The layout says in which order that is; a
//! program that does otherwise is an error, not a slow run.

use super::op::{Layer as Opened, Order, Token};
use super::scratchpad_slots::Slot;
use crate::layout::{Cut, InputId, Layout, Read, RegionId};
use crate::loop_ir::ScalarId;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{OrderedMap, Problem};

/// What is done to come to a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Move {
    Open(Opened),
    Close,
}

/// Moves, of which there are seldom more than two.
pub(super) type Moves = SmallVec<[Move; 2]>;

struct Stream {
    slot: Slot,
    /// Records of a layer, entries of a record, and records in all.
    iterations: u64,
    entries: u64,
    records: u64,
    read: Read,
    /// Of arguments, which come from where they lie.
    fed: Option<Fed>,
    /// The layer that is open, and the last one that was.
    open: Option<u64>,
    last: Option<u64>,
    /// What ended it.
    ended: Token,
}

/// What a stream of arguments brings.
struct Fed {
    /// Iterations of each load that have been.
    served: Vec<u64>,
    /// Its tiles,
    tiles: Vec<Cut<u64>>,
    /// and the first iteration of each.
    starts: Vec<u64>,
}

/// The streams of a run.
#[derive(Default)]
pub(super) struct Flow {
    streams: Vec<Stream>,
    regions: SecondaryMap<RegionId, Option<u32>>,
    /// Of each load of arguments in a step the stream, and which of its loads it is.
    loads: OrderedMap<(usize, ScalarId), (u32, usize)>,
    pub(super) inputs: Vec<(u32, InputId)>,
}

impl Flow {
    /// The streams of a layout. How the records of a tape are read, and how many there are, the run has said.
    pub(super) fn of(layout: &Layout, said: impl Fn(RegionId) -> Option<(Read, u64)>) -> Flow {
        let mut flow = Flow::default();
        for (id, region) in &layout.regions {
            let read = match region.read {
                Read::Run => said(id),
                read => region.records().map(|records| (read, records)),
            };
            let parts = read.zip(region.layer).zip(region.tile).zip(region.scratchpad);
            let Some(((((read, records), layer), tile), at)) = parts else { continue };
            let (iterations, entries) = (layer.iterations, region.entries());
            let slot = Slot { at, half: iterations * entries * tile.length };
            flow.regions[id] = Some(flow.push(slot, (iterations, entries, records), read, None));
        }
        for (id, input) in &layout.inputs {
            let Some((tile, at)) = input.tile.zip(input.scratchpad) else { continue };
            let slot = Slot { at, half: tile.length * input.entries() };
            let served = vec![0; input.loads.len()];
            let fed = Some(Fed { served, tiles: Vec::new(), starts: Vec::new() });
            let stream = flow.push(slot, (tile.length, input.entries(), 0), Read::Same, fed);
            let loads = input.loads.iter().enumerate();
            flow.loads.extend(loads.map(|(n, (value, _))| ((input.step, *value), (stream, n))));
            flow.inputs.push((stream, id));
        }
        flow
    }

    fn push(
        &mut self,
        slot: Slot,
        (iterations, entries, records): (u64, u64, u64),
        read: Read,
        fed: Option<Fed>,
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

    /// The stream of a region.
    pub(super) fn region(&self, region: RegionId) -> Option<u32> {
        self.regions[region]
    }

    /// How many records the streams of regions have.
    pub(super) fn records(&self, stream: u32) -> u64 {
        self.streams[stream as usize].records
    }

    /// A load of an argument happens in a step: its stream, the layer, and the offset there.
    pub(super) fn load(&mut self, step: usize, value: ScalarId) -> Option<(u32, u64, u64)> {
        let (stream, n) = *self.loads.get(&(step, value))?;
        let s = &mut self.streams[stream as usize];
        let Fed { served, tiles, starts } = s.fed.as_mut()?;
        served[n] += 1;
        let iteration = served[n] - 1;
        let tile = starts.partition_point(|start| *start <= iteration).checked_sub(1)?;
        let read = (iteration - starts[tile]) * s.entries + n as u64;
        let place = tiles.get(tile)?.places.get(read as usize)?;
        let place = if planted(Fault::TileAgain) { read } else { u64::from(*place) };
        Some((stream, tile as u64, place))
    }

    /// An argument is about to be read: how many words a tile has at most.
    pub(super) fn room(&self, stream: u32) -> usize {
        self.streams[stream as usize].slot.half as usize
    }

    /// In these tiles.
    pub(super) fn feed(&mut self, stream: u32, tiles: Vec<Cut<u64>>) {
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

    /// The layer of a record and the offset of its first entry there.
    pub(super) fn layer(&self, stream: u32, record: u64) -> (u64, u64) {
        let s = &self.streams[stream as usize];
        (record / s.iterations, record % s.iterations * s.entries)
    }

    /// What comes before an access to a layer.
    pub(super) fn to(&mut self, stream: u32, layer: u64, reverse: bool) -> Result<Moves, Problem> {
        let s = &mut self.streams[stream as usize];
        match s.open == Some(layer) {
            true => Ok(Moves::new()),
            false => s.towards(stream, Some(layer), reverse),
        }
    }

    /// What comes at the end of a step: layers end, and what the reverse phase has begun to read it reads to
    /// the end; `all` of it at the end of the run.
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

    /// The reverse phase begins.
    pub(super) fn turn(&mut self) {
        self.streams.iter_mut().for_each(|s| s.last = None);
    }

    /// A layer of a stream has ended.
    pub(super) fn ended(&mut self, stream: u32, by: Token) {
        self.streams[stream as usize].ended = by;
    }

    /// What the first layer of a stream waits for: the ends of those that have been in its place.
    pub(super) fn before(&self, stream: u32, halves: u64) -> SmallVec<[Token; 4]> {
        let end = |slot: Slot| slot.at + slot.half * halves;
        let mine = self.streams[stream as usize].slot;
        let meets = |s: &&Stream| s.slot.at < end(mine) && mine.at < end(s.slot);
        self.streams.iter().filter(meets).map(|s| s.ended).collect()
    }
}

impl Stream {
    /// How many layers there are.
    fn layers(&self) -> u64 {
        match &self.fed {
            Some(fed) => fed.tiles.len() as u64,
            None => self.records.div_ceil(self.iterations),
        }
    }

    /// How many entries a layer has.
    fn entries_of(&self, layer: u64) -> u64 {
        match &self.fed {
            Some(fed) => fed.tiles[layer as usize].words.len() as u64,
            None => (self.records - layer * self.iterations).min(self.iterations) * self.entries,
        }
    }

    /// From the layer that is open to that one, or to the end.
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
        // Layers by the order in which they come.
        let back = !stored && self.read == Read::Mirrored;
        let number = |layer: u64| if back { all.wrapping_sub(layer + 1) } else { layer };
        let next = self.last.map_or(0, |last| number(last) + 1);
        let end = match layer {
            Some(layer) => number(layer),
            None if stored => return Ok(moves),
            None => all,
        };
        // Whoever stores leaves none out.
        if end < next || stored && end > next || layer.is_some() && end >= all {
            let (read, last) = (self.read, self.last);
            return Err(Problem::internal(format!(
                "the layout says that layers are read {read}, and {layer:?} of {all} comes behind {last:?}"
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
            let (entries, lies) = (self.entries_of(at), self.fed.is_some());
            moves.push(Move::Open(Opened { stream, entries, lies, order }));
            self.last = Some(at);
            match layer == Some(at) {
                true => self.open = layer,
                false => moves.push(Move::Close),
            }
        }
        Ok(moves)
    }
}
