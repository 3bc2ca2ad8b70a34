//! The scratchpad of one stream: its layers, its tiles, and their contents.
//!
//! A *layer* is a group of tape entries that is allocated at one time. Layers of the forward phase are placed one
//! after the other in one half of the scratchpad, as long as they fit. If the next layer does not fit, the contents
//! of the half are a *tile*: the tile is streamed to memory while the other half is filled. The reverse phase streams
//! the tiles back, and reads the layers of each tile in order. For a layer of n entries, with halves of `cap`
//! entries:
//!
//! ```text
//! forward   layer(n): if occ + n > cap: stream occ entries out, push them on hist; occ = 0
//!                     head = occ; occ += n                     entry = head + offset
//! reverse   layer(n): if left = 0: pop a tile from hist, stream it in; left = its entries
//!                     left -= n; head = left                   entry = head + offset
//! ```
//!
//! These are the third and fourth pass of the TapeFlow paper. `occ` is the number of entries in use, `left` the number
//! of entries still to read. The state of a half is empty, in use, leaving, coming, or full; an operation that needs
//! another state waits. The reverse phase requests one tile for each half when it begins, and requests the next tile as
//! soon as a half has been read. `hist` has one word for each tile. If all trip counts are constant, `hist` is a
//! function of the program and need not be stored, so it costs nothing here.
//!
//! Layers that are read in the order of their stores ([`Order::Same`]) come loop nest by loop nest: the last nest
//! first, the first tile of a nest first, and the first layer of a tile first.
//!
//! Each stream has its own range of the scratchpad, with its own halves and tiles ([`super::scratchpad_slots`]). A
//! stream may also bring arguments from their arrays. The tiles of such a stream are *fed*, that is set before the
//! stream's first layer, in the order in which they are used.
//!
//! The bits of entries move with the entries: into a half, to memory, back into a half, and out of it. A load
//! compares the bits that it finds with those that the program stored. This detects halves that are used too early,
//! tiles in the wrong order, and wrong offsets.

use super::op::{Entry, Layer, Order};
use std::collections::VecDeque;
use tapeloom_ir::Problem;
use tapeloom_ir::fault::{Fault, planted};

/// The state of one half of a stream's scratchpad entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    /// Tape entries are being stored in this half of the scratchpad.
    Filling,
    /// The contents of this half of the scratchpad, a tile, are being transferred to memory.
    Leaving(Tile),
    /// The contents of this half of the scratchpad, a tile, are being transferred from memory.
    Coming(Tile),
    Full(Tile),
}

/// A tile: the contents of a half of a stream's entries, which are streamed to or from memory together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tile {
    /// The index of the tile's first entry in `Scratchpad::memory`, which holds the entries that are not in the
    /// scratchpad.
    at: u64,
    entries: u64,
    in_array: bool,
    order: Order,
    /// The address of the tile on the tape, assigned when the tile is sent to memory. 0 for tiles of arguments, which
    /// the model treats as one memory row.
    address: u64,
}

/// A half of a stream's scratchpad entries, named by the number of the stream and of the half.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct StreamHalf {
    pub(super) stream: usize,
    pub(super) half: usize,
}

/// A transfer of one half of a stream's scratchpad entries to or from memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Transfer {
    pub(super) moved: StreamHalf,
    pub(super) entries: u64,
    /// Whether the moved entries belong to the tape. Otherwise they belong to the array of an argument.
    pub(super) taped: bool,
    /// One address for each request to memory that the transfer needs.
    pub(super) requests: VecDeque<u64>,
}

/// A tile that a stream brings from the array of an argument: entries of 8 bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InputTile {
    /// The address of each entry in memory.
    pub words: Vec<u64>,
    /// One address in each cache line that must be requested from memory to fill the tile.
    pub lines: VecDeque<u64>,
}

/// The layer (group of tape entries) in use: from a `Work::Layer` to the barrier that ends it.
#[derive(Clone, Debug)]
struct Open {
    half: usize,
    /// The index of the layer's first entry in its half of the stream's scratchpad entries.
    head: u64,
    entries: u64,
    /// Per entry of the layer (group of tape entries): the mask of the bits that were stored.
    stored: Vec<u64>,
}

/// The part of the scratchpad that one stream uses: two halves, which are filled and emptied in turn.
pub(super) struct Scratchpad {
    stream: usize,
    capacity: u64,
    /// The size of one memory request of a stream engine, in bytes.
    request: u64,
    /// Whether the stream brings entries of arguments from their arrays, and stores none.
    fed: bool,
    /// For a stream of arguments (`fed`): the cache lines of each tile (contents of a half), with the next tile last.
    lines: Vec<VecDeque<u64>>,
    halves: Vec<(State, Vec<u64>)>,
    /// The index of the half of the scratchpad that is in use.
    current: usize,
    /// The contents of the half in use.
    tile: Option<Tile>,
    /// In the reverse phase, the number of entries of the half in use that are not read yet.
    left: u64,
    open: Option<Open>,
    /// In the forward phase, the tiles (contents of a half each) sent to memory, in the order of their stores. In the
    /// reverse phase, the tiles still to be requested, with the next tile last.
    hist: Vec<Tile>,
    reverse: bool,
    /// The bits of the entries that were sent to memory or are still to be brought.
    memory: Vec<u64>,
    /// The transfers to memory that the engines have not taken yet.
    pub(super) out: VecDeque<Transfer>,
    /// The transfers from memory that the engines have not taken yet.
    pub(super) back: VecDeque<Transfer>,
    /// The number of tiles (contents of a half each) that the forward phase sent to memory.
    pub(super) tiles: u64,
}

impl Scratchpad {
    pub(super) fn new(stream: usize, capacity: u64, halves: u64, request: u64) -> Scratchpad {
        let half = (State::Empty, vec![0; capacity as usize]);
        Scratchpad {
            stream,
            capacity,
            request,
            fed: false,
            lines: Vec::new(),
            halves: vec![half; halves as usize],
            current: 0,
            tile: None,
            left: 0,
            open: None,
            hist: Vec::new(),
            reverse: false,
            memory: Vec::new(),
            out: VecDeque::new(),
            back: VecDeque::new(),
            tiles: 0,
        }
    }

    /// Begins a layer (a group of tape entries). Returns false if the layer must wait: in the forward phase until one
    /// half of the scratchpad is empty, in the reverse phase until the entries of the layer have arrived from memory.
    /// `tape` is the address on the tape at which the contents of the next half are stored; if the call sends a half to
    /// memory, it adds the half's size in bytes to `tape`.
    pub(super) fn begin(&mut self, layer: Layer, tape: &mut u64) -> Result<bool, Problem> {
        let n = layer.entries;
        if let Some(open) = &self.open {
            let message = format!("a layer begins before the one of {} entries ends", open.entries);
            return Err(Problem::internal(message));
        }
        if n == 0 || n > self.capacity {
            let message = format!("a layer has 1 to {} entries, got {n}", self.capacity);
            return Err(Problem::internal(message));
        }
        let head = if self.reverse { self.read(layer)? } else { self.fill(layer, tape) };
        if let Some(head) = head {
            let stored = vec![0; n as usize];
            self.open = Some(Open { half: self.current, head, entries: n, stored });
        }
        Ok(head.is_some())
    }

    /// Allocates the entries of a layer (a group of tape entries) in the forward phase. Returns the index of the
    /// layer's first entry in the half of the scratchpad, or `None` if the half is not free.
    fn fill(&mut self, layer: Layer, tape: &mut u64) -> Option<u64> {
        let Layer { stream: _, entries, in_array, order } = layer;
        let fits = |t: &Tile| {
            let room = t.entries + entries <= self.capacity || planted(Fault::TileOverflow);
            (t.in_array, t.order) == (in_array, order) && room
        };
        if !self.tile.as_ref().is_some_and(fits) {
            self.close(tape);
            if !in_array && self.halves[self.current].0 != State::Empty {
                return None;
            }
        }
        let at = self.memory.len() as u64;
        let tile = self.tile.get_or_insert(Tile { at, entries: 0, in_array, order, address: 0 });
        let head = tile.entries;
        tile.entries += entries;
        if in_array {
            self.memory.resize((tile.at + tile.entries) as usize, 0);
        } else {
            self.halves[self.current].0 = State::Filling;
        }
        Some(head)
    }

    /// Sends the contents of the half in use (a tile) to memory, and uses the next half from now on.
    fn close(&mut self, tape: &mut u64) {
        let Some(mut tile) = self.tile.take() else { return };
        if !tile.in_array {
            tile.address = *tape;
            *tape += 8 * tile.entries;
        }
        self.hist.push(tile);
        if !tile.in_array {
            self.memory.resize((tile.at + tile.entries) as usize, 0);
            self.halves[self.current].0 = State::Leaving(tile);
            let out = self.transfer(self.current, tile);
            self.out.push_back(out);
            self.current = (self.current + 1) % self.halves.len();
        }
    }

    /// Returns, in the reverse phase, the index of the first entry of the next layer (a group of tape entries), or
    /// `None` if the layer has not arrived from memory.
    fn read(&mut self, layer: Layer) -> Result<Option<u64>, Problem> {
        if self.left == 0 {
            let tile = match self.halves[self.current].0 {
                State::Full(tile) => tile,
                State::Coming(tile) if planted(Fault::TileEarly) => tile,
                State::Coming(_) => return Ok(None),
                State::Empty | State::Filling | State::Leaving(_) => {
                    return Err(Problem::internal("a layer is read after the last tile"));
                }
            };
            (self.tile, self.left) = (Some(tile), tile.entries);
        }
        let (Some(tile), Layer { stream: _, entries, in_array, order }) = (self.tile, layer) else {
            return Err(Problem::internal("entries remain without a tile"));
        };
        if (tile.in_array, tile.order) != (in_array, order) || entries > self.left {
            let message = format!("{layer:?} is not in the {} entries left of {tile:?}", self.left);
            return Err(Problem::internal(message));
        }
        self.left -= entries;
        Ok(Some(match order {
            Order::Mirrored => self.left,
            Order::Same { .. } => tile.entries - self.left - entries,
        }))
    }

    /// Ends the layer (group of tape entries) in use when its barrier is reached. Fails if the forward phase has not
    /// stored all entries of the layer.
    pub(super) fn end(&mut self) -> Result<(), Problem> {
        let Some(open) = self.open.take() else {
            return Err(Problem::internal("a barrier ends no layer"));
        };
        if !self.reverse && open.stored.contains(&0) {
            let count = open.stored.iter().filter(|stored| **stored != 0).count();
            let message = format!("a layer of {} entries stores {count}", open.entries);
            return Err(Problem::internal(message));
        }
        if self.reverse && self.left == 0 {
            self.tile = None;
            self.request_tile(open.half);
            self.current = (self.current + 1) % self.halves.len();
        }
        Ok(())
    }

    /// Requests, in the reverse phase, the next tile (contents of a half) from memory, to be stored in the half with
    /// index `half`.
    fn request_tile(&mut self, half: usize) {
        self.halves[half].0 = match self.hist.pop() {
            Some(tile) => {
                let back = self.transfer(half, tile);
                self.back.push_back(back);
                State::Coming(tile)
            }
            None => State::Empty,
        };
    }

    fn transfer(&mut self, half: usize, Tile { entries, address, .. }: Tile) -> Transfer {
        let moved = StreamHalf { stream: self.stream, half };
        let lines = self.lines.pop();
        let taped = lines.is_none();
        let along = || (address..address + 8 * entries).step_by(self.request as usize).collect();
        Transfer { moved, entries, taped, requests: lines.unwrap_or_else(along) }
    }

    /// Returns, for the entry at `offset` in the layer (group of tape entries) in use, the half and the entry's index
    /// in the half.
    pub(super) fn find(&self, offset: u64) -> Result<(usize, u64), Problem> {
        let Some(open) = &self.open else {
            return Err(Problem::internal("the tape is used outside a layer"));
        };
        let within = open.head + offset;
        if offset >= open.entries || within >= self.capacity {
            let (n, capacity) = (open.entries, self.capacity);
            return Err(Problem::internal(format!(
                "offset {offset} of a layer of {n} entries is entry {within} of a half of {capacity}"
            )));
        }
        Ok((open.half, within))
    }

    /// Returns, for the entry at `offset` in the layer (group of tape entries) in use, its index among all scratchpad
    /// entries of the stream.
    pub(super) fn entry(&self, offset: u64) -> Result<u64, Problem> {
        let (half, within) = self.find(offset)?;
        Ok(half as u64 * self.capacity + within)
    }

    /// Stores a value in the layer (group of tape entries) in use. Fails if the value's bytes were stored already.
    pub(super) fn store(&mut self, entry: Entry) -> Result<(), Problem> {
        let (half, within) = self.find(entry.offset)?;
        let (Some(open), Some(tile)) = (&mut self.open, self.tile) else {
            return Err(Problem::internal("the tape is used outside a layer"));
        };
        let (stored, mask) = (&mut open.stored[entry.offset as usize], entry.mask());
        if self.reverse || *stored & mask != 0 {
            let offset = entry.offset;
            let message =
                format!("offset {offset} is stored a second time, or in the reverse phase");
            return Err(Problem::internal(message));
        }
        *stored |= mask;
        let (state, words) = &mut self.halves[half];
        let word = match tile.in_array {
            true => &mut self.memory[tile.at as usize + within as usize],
            false if *state == State::Filling => &mut words[within as usize],
            false => {
                let message = format!("half {half} is {state:?} and stored to");
                return Err(Problem::internal(message));
            }
        };
        *word = *word & !mask | entry.word_bits();
        Ok(())
    }

    /// Loads a value from the layer (group of tape entries) in use. Fails if the loaded bits differ from the bits that
    /// the program stored.
    pub(super) fn load(&self, entry: Entry) -> Result<(), Problem> {
        let (half, within) = self.find(entry.offset)?;
        let (state, words) = &self.halves[half];
        let found = words[within as usize] & entry.mask();
        if !matches!(state, State::Full(_)) || found != entry.word_bits() {
            let place = format!("entry {within} of half {half}, {state:?}");
            return Err(not_stored(found, entry.word_bits(), &place));
        }
        Ok(())
    }

    /// Completes the transfer of a half's contents to memory, and marks the half as empty.
    pub(super) fn arrived_in_memory(&mut self, half: usize) -> Result<(), Problem> {
        let (state, words) = &mut self.halves[half];
        let State::Leaving(tile) = *state else {
            return Err(Problem::internal(format!(
                "half {half} is {state:?} and arrives in memory"
            )));
        };
        let (at, entries) = (tile.at as usize, tile.entries as usize);
        self.memory[at..at + entries].copy_from_slice(&words[..entries]);
        *state = State::Empty;
        Ok(())
    }

    /// Completes the transfer of a tile (contents of a half) from memory, and marks the half as full.
    pub(super) fn arrived_from_memory(&mut self, half: usize) -> Result<(), Problem> {
        let (state, words) = &mut self.halves[half];
        let State::Coming(tile) = *state else {
            return Err(Problem::internal(format!(
                "half {half} is {state:?} and comes from memory"
            )));
        };
        let (at, entries) = (tile.at as usize, tile.entries as usize);
        words[..entries].copy_from_slice(&self.memory[at..at + entries]);
        *state = State::Full(tile);
        Ok(())
    }

    /// Ends the forward phase: sends the contents of the half in use to memory. Fails if a layer (group of tape
    /// entries) has not ended.
    pub(super) fn flush(&mut self, tape: &mut u64) -> Result<(), Problem> {
        if let Some(open) = &self.open {
            let message = format!("the phase ends in a layer of {} entries", open.entries);
            return Err(Problem::internal(message));
        }
        self.leave(tape);
        Ok(())
    }

    /// Sets the tiles (contents of a half each) that the stream brings from the array of an argument, in the order of
    /// their use.
    pub(super) fn set_tiles(&mut self, tiles: Vec<InputTile>) -> Result<(), Problem> {
        if !self.is_idle() || !self.memory.is_empty() && !self.fed {
            return Err(Problem::internal("a stream is fed before it has ended"));
        }
        (self.fed, self.reverse, self.current) = (true, true, 0);
        self.memory.clear();
        for InputTile { words, lines } in tiles {
            let (at, entries) = (self.memory.len() as u64, words.len() as u64);
            self.memory.extend(words);
            let order = Order::Same { nest: 0 };
            self.hist.push(Tile { at, entries, in_array: true, order, address: 0 });
            self.lines.push(lines);
        }
        self.hist.reverse();
        self.lines.reverse();
        Ok(())
    }

    /// Returns whether all halves are empty, no layer (group of tape entries) is in use, no transfer is under way, and
    /// no tile (contents of a half) is still to come.
    pub(super) fn is_idle(&self) -> bool {
        let empty = self.halves.iter().all(|(state, _)| *state == State::Empty);
        empty
            && self.open.is_none()
            && self.tile.is_none()
            && (!self.reverse || self.hist.is_empty())
    }

    /// If no layer (group of tape entries) is in use in the forward phase, sends the contents of the half in use to
    /// memory, so that another stream can use the scratchpad entries.
    pub(super) fn leave(&mut self, tape: &mut u64) {
        if self.open.is_none() && !self.reverse {
            self.close(tape);
        }
    }

    /// Begins the reverse phase. All tiles (contents of a half each) are in memory already.
    pub(super) fn begin_reverse_pass(&mut self) {
        if self.fed {
            return;
        }
        self.reverse = true;
        self.tiles = self.hist.len() as u64;
        // Order the tiles (contents of a half each) so that popping from the end gives the reading order: reverse the
        // tiles of each loop nest that is read in the order of its stores.
        for nest in self.hist.chunk_by_mut(|a, b| a.order == b.order) {
            match nest[0].order {
                Order::Mirrored => {}
                Order::Same { .. } if planted(Fault::TileOrder) => {}
                Order::Same { .. } => nest.reverse(),
            }
        }
        self.current = 0;
    }

    /// Requests the first tiles (contents of a half each) of the reverse phase from memory, one for each half.
    pub(super) fn start(&mut self) {
        if self.reverse {
            (0..self.halves.len()).for_each(|half| self.request_tile(half));
        }
    }

    /// Checks, at the end of the reverse phase, that all tiles (contents of a half each) were brought back and read to
    /// the end.
    pub(super) fn check_empty(&self) -> Result<(), Problem> {
        let inside = self.halves.iter().filter(|(state, _)| *state != State::Empty).count();
        if self.left > 0 || !self.hist.is_empty() || inside > 0 {
            let (tiles, left) = (self.hist.len() + inside, self.left);
            let message = format!("{tiles} tiles were not read to the end, {left} entries of one");
            return Err(Problem::internal(message));
        }
        Ok(())
    }
}

/// Creates the error of a tape load that finds the bits `found` where the program stored `bits`.
pub(super) fn not_stored(found: u64, bits: u64, what: &str) -> Problem {
    let message = format!("a tape load finds {found:#x} where {bits:#x} was stored ({what})");
    Problem::internal(message)
}
