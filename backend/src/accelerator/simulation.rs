//! Dataflow: operations run as soon as they can.
//!
//! The window holds operations that are known and not finished. One is *ready* when its operands are
//! there and nothing before it stands in its way:
//!
//! * a load waits for stores before it to the same word of 8 bytes, a store for all accesses to it;
//! * a layer waits for the barrier before it, tape operations for their layer, a barrier for the tape
//!   operations of its layer.
//!
//! Of what is ready the oldest is issued first, as long as there are units, ports and banks for it:
//!
//! * arithmetic takes one of 16 units, for one tick where the opcode is pipelined and to its end where it
//!   is not; what takes no time takes no unit;
//! * an access to the cache takes a port: a port has one read and one write under way, and nothing else
//!   until the answer;
//! * an access to the scratchpad takes its bank for one tick.
//!
//! That is section IV of the paper with the window of its authors' simulator. A scan of ten thousand
//! operations in every tick would take hours, so nothing is scanned: an operation counts what it waits
//! for, who finishes counts it down, and what is ready stands in one queue for each resource, oldest
//! first. Time goes from event to event. Operations are taken as the program gives them, and the
//! simulation runs on whenever the window is full, so memory is that of the window and of the tape.
//!
//! The same machine with a window of 1 replays a trace: the misses are those of the program's order.

use super::arrays::{ArrayId, Arrays, RegionId, Tape};
use super::machine::Machine;
use super::memory::{Answer, Memory, Outcome};
use super::op::{Entry, Home, Layer, Op, Token, Work};
use super::opcode::Opcode;
use super::scratchpad::{Scratchpad, not_stored};
use super::statistics::{Counts, Phase, State, Statistics};
use super::stream::Engine;
use super::system::{Route, System};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tapeloom_ir::{OrderedMap, Problem};

/// An operation in the window.
struct Slot {
    sequence: u64,
    site: u32,
    task: Task,
    /// How many it waits for,
    waits: u32,
    /// and who waits for it.
    waiters: Vec<u32>,
    operands: SmallVec<[u64; 3]>,
}

/// What an operation does, once it is known where.
#[derive(Clone, Copy)]
enum Task {
    Compute(Opcode),
    Access { address: u64, write: bool, tape: Option<Entry> },
    Pad { entry: Entry, write: bool },
    Layer(Layer),
    Barrier,
}

/// Ready operations, the oldest first.
type Queue = BinaryHeap<Reverse<(u64, u32)>>;

/// Accesses under way to one word.
#[derive(Default)]
struct Word {
    under_way: u32,
    store: Option<Token>,
    loads: SmallVec<[Token; 2]>,
}

/// How far back the ends of operations are remembered.
const REMEMBERED: usize = 1 << 16;

/// A program that runs on a machine.
///
/// ```
/// use tapeloom_backend::accelerator::*;
/// let mut arrays = Arrays::bump(Arrays::BASE, 0, 0);
/// let (x, y) = (arrays.push("x", 16, 8), arrays.push("y", 16, 8));
/// let tape = Tape::at(Tape::BASE);
/// let machine = Machine::cal();
/// let mut run = Simulation::new(&machine, System::ENZYME, &arrays, &tape)?;
/// // y[i] = 2 x[i]
/// for i in 0..16 {
///     let load = run.push(&Op { site: 0, work: Work::Load(x, i), operands: &[] })?;
///     let twice = run.push(&Op { site: 1, work: Work::Compute(Opcode::Mul), operands: &[load] })?;
///     run.push(&Op { site: 2, work: Work::Store(y, i), operands: &[twice] })?;
/// }
/// let statistics = run.finish()?;
/// assert_eq!(statistics.forward.others, Accesses { loads: 16, stores: 16, misses: 4 });
/// # Ok::<(), tapeloom_ir::Problem>(())
/// ```
pub struct Simulation<'a> {
    m: &'a Machine,
    system: System,
    arrays: &'a Arrays,
    tape: &'a Tape,
    now: u64,
    memory: Memory,
    pad: Scratchpad,
    out: Engine,
    back: Engine,
    slots: Vec<Slot>,
    free: Vec<u32>,
    sequence: u64,
    /// What ends when.
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Operations that take no time, and are ready.
    instant: Vec<u32>,
    units: Queue,
    reads: Queue,
    writes: Queue,
    banks: Vec<Queue>,
    /// A layer that is ready, if there is room.
    asking: Option<u32>,
    /// Units that are busy beyond their tick; ports with a read, and with a write under way.
    busy: u64,
    reading: u64,
    writing: u64,
    /// Since this tick began: units taken, requests taken by ports that do not block.
    started: u64,
    requested: u64,
    /// Of each bank, the tick after that in which it was used last.
    used: Vec<u64>,
    /// Whether something is ready that the next tick may have room for.
    again: bool,
    words: OrderedMap<u64, Word>,
    /// Where an operation of the program runs once at a time: those that run, with those that wait.
    sites: OrderedMap<u32, Queue>,
    /// What the next operation waits for before it is known.
    gate: SmallVec<[Token; 3]>,
    /// The last layer or barrier, and the tape operations since.
    layer: Token,
    members: Vec<Token>,
    /// Of each entry of the tape the end of its store, and its bits where the cache has it.
    stores: Vec<(u64, u64)>,
    ends: Vec<u64>,
    phase: Phase,
    /// The tick and the sequence with which the phase began.
    began: (u64, u64),
    counts: [Counts; 2],
    written: SecondaryMap<ArrayId, bool>,
    lifetimes: Vec<u64>,
}

impl<'a> Simulation<'a> {
    /// A machine before its first tick.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Target`] where the machine cannot be.
    pub fn new(
        m: &'a Machine,
        system: System,
        arrays: &'a Arrays,
        tape: &'a Tape,
    ) -> Result<Simulation<'a>, Problem> {
        m.check()?;
        let slot = |_| Slot {
            sequence: u64::MAX,
            site: 0,
            task: Task::Barrier,
            waits: 0,
            waiters: Vec::new(),
            operands: SmallVec::new(),
        };
        Ok(Simulation {
            m,
            system,
            arrays,
            tape,
            now: 0,
            memory: Memory::new(m),
            pad: Scratchpad::new(m.capacity(), m.halves),
            out: Engine::default(),
            back: Engine::default(),
            slots: (0..m.window).map(slot).collect(),
            free: (0..m.window as u32).rev().collect(),
            sequence: 0,
            events: BinaryHeap::new(),
            instant: Vec::new(),
            units: Queue::new(),
            reads: Queue::new(),
            writes: Queue::new(),
            banks: vec![Queue::new(); m.banks as usize],
            asking: None,
            busy: 0,
            reading: 0,
            writing: 0,
            started: 0,
            requested: 0,
            used: vec![0; m.banks as usize],
            again: false,
            words: OrderedMap::default(),
            sites: OrderedMap::default(),
            gate: SmallVec::new(),
            layer: Token::READY,
            members: Vec::new(),
            stores: vec![(0, 0); tape.entries() as usize],
            ends: vec![0; REMEMBERED],
            phase: Phase::Forward,
            began: (0, 1),
            counts: [Counts::default(); 2],
            written: SecondaryMap::new(),
            lifetimes: Vec::new(),
        })
    }

    /// The next operation of the program.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Internal`] where the program names what does not exist, uses the tape otherwise than in
    /// layers, or loads from it what was not stored.
    pub fn push(&mut self, op: &Op<'_>) -> Result<Token, Problem> {
        let Some(task) = self.task(op.work)? else {
            if op.work == Work::Branch {
                self.gate.extend_from_slice(op.operands);
            }
            return Ok(Token::READY);
        };
        while self.free.is_empty() || self.gated() {
            self.issue()?;
            if self.free.is_empty() || self.gated() {
                self.advance()?;
            }
        }
        self.sequence += 1;
        let Some(id) = self.free.pop() else {
            return Err(Problem::internal("the window is full and has room"));
        };
        let token = Token { slot: id, sequence: self.sequence };
        let phase = &mut self.counts[self.phase as usize];
        for operand in op.operands.iter().filter(|t| **t != Token::READY) {
            match operand.sequence >= self.began.1 {
                true => phase.edges += 1,
                false => phase.crossing += 1,
            }
        }
        let slot = &mut self.slots[id as usize];
        (slot.sequence, slot.site, slot.task, slot.waits) = (token.sequence, op.site, task, 0);
        slot.operands = op.operands.iter().map(|t| t.sequence).collect();
        for operand in op.operands {
            self.wait(id, *operand);
        }
        match task {
            Task::Compute(_) => {}
            Task::Access { address, write, tape: _ } => self.order(token, address / 8, write),
            Task::Pad { .. } => {
                self.wait(id, self.layer);
                self.members.push(token);
            }
            Task::Layer(_) => {
                self.wait(id, self.layer);
                self.layer = token;
            }
            Task::Barrier => {
                self.wait(id, self.layer);
                for member in std::mem::take(&mut self.members) {
                    self.wait(id, member);
                }
                self.layer = token;
            }
        }
        if self.slots[id as usize].waits == 0 {
            self.make_ready(id)?;
            self.settle()?;
        }
        Ok(token)
    }

    /// What an operation is on this system; `None` if nothing.
    fn task(&mut self, work: Work) -> Result<Option<Task>, Problem> {
        let cached = matches!(self.system.tape, Route::Cache { .. });
        let task = match work {
            Work::Compute(opcode) => {
                self.count(|c| c.operations += 1);
                Task::Compute(opcode)
            }
            Work::Load(array, element) => {
                let address = self.address(array, element)?;
                self.count(|c| c.others.loads += 1);
                Task::Access { address, write: false, tape: None }
            }
            Work::Store(array, element) => {
                let address = self.address(array, element)?;
                self.written[array] = true;
                self.count(|c| c.others.stores += 1);
                Task::Access { address, write: true, tape: None }
            }
            Work::TapeStore(entry) | Work::TapeLoad(entry) => {
                let write = matches!(work, Work::TapeStore(_));
                let phase = if write { Phase::Forward } else { Phase::Reverse };
                if phase != self.phase {
                    let message = format!("{work:?} in the phase {:?}", self.phase);
                    return Err(Problem::internal(message));
                }
                let address = self.tape_address(entry.home)?;
                if !(write && matches!(entry.home, Home::Array(..))) {
                    self.count(|c| {
                        let place = if cached { &mut c.tape } else { &mut c.scratchpad };
                        place.stores += u64::from(write);
                        place.loads += u64::from(!write);
                        c.crossing += u64::from(!write);
                    });
                } else if cached {
                    return Ok(None);
                }
                match cached {
                    true => Task::Access { address, write, tape: Some(entry) },
                    false => Task::Pad { entry, write },
                }
            }
            Work::Layer(layer) => {
                self.count(|c| c.layers += 1);
                if cached {
                    return Ok(None);
                }
                Task::Layer(layer)
            }
            Work::Barrier if cached => return Ok(None),
            Work::Barrier => Task::Barrier,
            Work::Branch => return Ok(None),
        };
        Ok(Some(task))
    }

    fn count(&mut self, f: impl FnOnce(&mut Counts)) {
        f(&mut self.counts[self.phase as usize]);
    }

    fn address(&self, array: ArrayId, element: u64) -> Result<u64, Problem> {
        let missing = || Problem::internal(format!("{array} has no element {element}"));
        self.arrays.address(array, element).ok_or_else(missing)
    }

    /// Where an entry lies in memory; 0 where nobody asks.
    fn tape_address(&self, home: Home) -> Result<u64, Problem> {
        match (home, self.system.tape) {
            (Home::Array(array, element), _) => self.address(array, element),
            (Home::Tape(region, value, execution), Route::Cache { layout, prefetch: _ }) => {
                let entry = (region, value, execution);
                let address = self.tape.address(entry, layout, self.m.line);
                address.ok_or_else(|| Self::missing(region, value, execution))
            }
            (Home::Tape(region, value, execution), Route::Scratchpad { .. }) => {
                self.number(region, value, execution)?;
                Ok(0)
            }
        }
    }

    fn number(&self, region: RegionId, value: u64, execution: u64) -> Result<usize, Problem> {
        let number = self.tape.number(region, value, execution);
        Ok(number.ok_or_else(|| Self::missing(region, value, execution))? as usize)
    }

    fn missing(region: RegionId, value: u64, execution: u64) -> Problem {
        Problem::internal(format!("{region} has no value {value} of execution {execution}"))
    }

    fn in_flight(&self, token: Token) -> bool {
        self.slots.get(token.slot as usize).is_some_and(|slot| slot.sequence == token.sequence)
    }

    fn gated(&mut self) -> bool {
        let mut gate = std::mem::take(&mut self.gate);
        gate.retain(|token| self.in_flight(*token));
        self.gate = gate;
        !self.gate.is_empty()
    }

    /// A slot waits for an operation, if that is not finished.
    fn wait(&mut self, id: u32, token: Token) {
        if self.in_flight(token) {
            self.slots[token.slot as usize].waiters.push(id);
            self.slots[id as usize].waits += 1;
        }
    }

    /// An access waits for those before it that touch the same word.
    fn order(&mut self, token: Token, word: u64, write: bool) {
        let entry = self.words.entry(word).or_default();
        entry.under_way += 1;
        let store = entry.store;
        let mut loads = SmallVec::new();
        if write {
            entry.store = Some(token);
            loads = std::mem::take(&mut entry.loads);
        } else {
            if entry.loads.len() > 2 * entry.under_way as usize {
                let slots = &self.slots;
                entry.loads.retain(|t| slots[t.slot as usize].sequence == t.sequence);
            }
            entry.loads.push(token);
        }
        for before in store.into_iter().chain(loads) {
            self.wait(token.slot, before);
        }
    }

    /// An operation waits for nothing but its turn.
    fn make_ready(&mut self, id: u32) -> Result<(), Problem> {
        let slot = &self.slots[id as usize];
        let turn = Reverse((slot.sequence, id));
        match slot.task {
            Task::Compute(opcode) if self.m.latencies[opcode] == 0 => self.instant.push(id),
            Task::Compute(_) => self.units.push(turn),
            Task::Access { write: false, .. } => self.reads.push(turn),
            Task::Access { write: true, .. } => self.writes.push(turn),
            Task::Pad { entry, write } => {
                let remark = write && matches!(entry.home, Home::Array(..));
                if remark || self.system.tape == (Route::Scratchpad { ideal: true }) {
                    self.instant.push(id);
                } else {
                    let bank = self.pad.entry(entry.offset)? % self.m.banks;
                    self.banks[bank as usize].push(turn);
                }
            }
            Task::Layer(_) => self.asking = Some(id),
            Task::Barrier => match self.system.tape {
                Route::Scratchpad { ideal: true } => self.instant.push(id),
                Route::Scratchpad { ideal: false } | Route::Cache { .. } => {
                    self.start(id, self.now + self.m.barrier);
                }
            },
        }
        Ok(())
    }

    /// Finishes what takes no time, and what that makes ready.
    fn settle(&mut self) -> Result<(), Problem> {
        loop {
            while let Some(id) = self.instant.pop() {
                self.issued(id);
                if let Task::Pad { entry, write } = self.slots[id as usize].task {
                    self.pad_access(entry, write, self.now)?;
                }
                self.finish_slot(id)?;
            }
            if !self.ask()? {
                return Ok(());
            }
        }
    }

    /// Begins the layer that is ready, if there is room: whether it did.
    fn ask(&mut self) -> Result<bool, Problem> {
        let Some(id) = self.asking else { return Ok(false) };
        let Task::Layer(layer) = self.slots[id as usize].task else { return Ok(false) };
        let begun = self.pad.begin(layer)?;
        self.stream()?;
        if begun || self.pad.begin(layer)? {
            self.asking = None;
            self.finish_slot(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Starts what the stream engines have to do, and takes what has arrived.
    fn stream(&mut self) -> Result<(), Problem> {
        let (m, now, memory) = (self.m, self.now, &mut self.memory);
        let counts = &mut self.counts[self.phase as usize];
        if self.system.tape == (Route::Scratchpad { ideal: true }) {
            while let Some(transfer) = self.pad.out.pop_front() {
                counts.streamed += transfer.entries;
                self.pad.left(transfer.half)?;
            }
            while let Some(transfer) = self.pad.back.pop_front() {
                counts.streamed += transfer.entries;
                self.pad.came(transfer.half)?;
            }
            return Ok(());
        }
        let waiting = |pad: &Scratchpad| -> u64 {
            pad.out.iter().chain(&pad.back).map(|transfer| transfer.entries).sum()
        };
        let before = waiting(&self.pad);
        counts.requests += self.out.start(m, now, &mut self.pad.out, || memory.write(m, now));
        counts.requests += self.back.start(m, now, &mut self.pad.back, || memory.request(m, now));
        counts.streamed += before - waiting(&self.pad);
        while let Some(half) = self.out.arrived(now) {
            self.pad.left(half)?;
        }
        while let Some(half) = self.back.arrived(now) {
            self.pad.came(half)?;
        }
        Ok(())
    }

    /// Issues what has room in this tick.
    fn issue(&mut self) -> Result<(), Problem> {
        self.again = false;
        self.stream()?;
        self.settle()?;
        while self.busy + self.started < self.m.units {
            let Some(Reverse((sequence, id))) = self.units.pop() else { break };
            let slot = &self.slots[id as usize];
            if self.m.strict == 1
                && let Some(queue) = self.sites.get_mut(&slot.site)
            {
                queue.push(Reverse((sequence, id)));
                continue;
            }
            let Task::Compute(opcode) = slot.task else { continue };
            if self.m.strict == 1 {
                self.sites.insert(slot.site, Queue::new());
            }
            match opcode.pipelined() {
                true => self.started += 1,
                false => self.busy += 1,
            }
            self.start(id, self.now + self.m.latencies[opcode]);
        }
        self.again |= self.started > 0 && !self.units.is_empty();
        self.issue_accesses()?;
        for bank in 0..self.banks.len() {
            if self.used[bank] <= self.now
                && let Some(Reverse((_, id))) = self.banks[bank].pop()
            {
                self.used[bank] = self.now + 1;
                let done = self.now + self.m.scratchpad;
                if let Task::Pad { entry, write } = self.slots[id as usize].task {
                    self.pad_access(entry, write, done)?;
                }
                self.start(id, done);
            }
            self.again |= !self.banks[bank].is_empty();
        }
        Ok(())
    }

    /// Gives the ports of the cache what they can take.
    fn issue_accesses(&mut self) -> Result<(), Problem> {
        loop {
            let (read, write) = (self.reads.peek(), self.writes.peek());
            let room = match self.m.blocking {
                0 => {
                    let room = self.requested < self.m.ports;
                    self.again |= !room && read.or(write).is_some();
                    (room, room)
                }
                _ => (self.reading < self.m.ports, self.writing < self.m.ports),
            };
            // The older one first: the order is reversed.
            let id = match (read.filter(|_| room.0), write.filter(|_| room.1)) {
                (None, None) => return Ok(()),
                (Some(Reverse((_, id))), None) | (None, Some(Reverse((_, id)))) => *id,
                (Some(a), Some(b)) => a.max(b).0.1,
            };
            if !self.access(id)? {
                self.again = true;
                return Ok(());
            }
        }
    }

    /// An access to the cache: whether there was room behind the ports.
    fn access(&mut self, id: u32) -> Result<bool, Problem> {
        let Task::Access { address, write, tape } = self.slots[id as usize].task else {
            return Err(Problem::internal("what is no access takes a port"));
        };
        let ahead = match self.system.tape {
            Route::Cache { prefetch: true, .. } if tape.is_some() => Some(match self.phase {
                Phase::Forward => 1,
                Phase::Reverse => -1,
            }),
            Route::Cache { .. } | Route::Scratchpad { .. } => None,
        };
        let answer = self.memory.access(self.m, self.now, address, write, ahead);
        let Some(Answer { done, outcome, prefetched }) = answer else { return Ok(false) };
        let counts = &mut self.counts[self.phase as usize];
        let kind = if tape.is_some() { &mut counts.tape } else { &mut counts.others };
        match outcome {
            Outcome::Hit => {}
            Outcome::Merged => counts.merged += 1,
            Outcome::Miss { write_back } => {
                kind.misses += 1;
                counts.write_backs += u64::from(write_back);
            }
        }
        if let Some(write_back) = prefetched {
            counts.prefetched += 1;
            counts.write_backs += u64::from(write_back);
        }
        let (queue, under_way) = match write {
            true => (&mut self.writes, &mut self.writing),
            false => (&mut self.reads, &mut self.reading),
        };
        queue.pop();
        *under_way += 1;
        self.requested += 1;
        if let Some(Entry { home: Home::Tape(region, value, execution), offset: _, bits }) = tape {
            let number = self.number(region, value, execution)?;
            self.remember(number, bits, write, done)?;
        }
        self.start(id, done);
        Ok(true)
    }

    /// An access to the scratchpad, which ends with that tick.
    fn pad_access(&mut self, entry: Entry, write: bool, done: u64) -> Result<(), Problem> {
        let Entry { home, offset, bits } = entry;
        match write {
            true => self.pad.store(offset, bits)?,
            false => self.pad.load(offset, bits)?,
        }
        let Home::Tape(region, value, execution) = home else { return Ok(()) };
        let number = self.number(region, value, execution)?;
        self.remember(number, bits, write, done)
    }

    /// A value is stored, with the end of that tick, or loaded in this one.
    fn remember(
        &mut self,
        number: usize,
        bits: u64,
        write: bool,
        done: u64,
    ) -> Result<(), Problem> {
        if write {
            self.stores[number] = (done, bits);
            return Ok(());
        }
        let (stored, found) = self.stores[number];
        self.lifetimes.push(self.now - stored);
        match found == bits {
            true => Ok(()),
            false => Err(not_stored(found, bits, &format!("entry {number} of the tape"))),
        }
    }

    /// An operation is issued, and will be finished with that tick.
    fn start(&mut self, id: u32, done: u64) {
        self.issued(id);
        self.events.push(Reverse((done, self.slots[id as usize].sequence, id)));
    }

    /// How long its operands lived.
    fn issued(&mut self, id: u32) {
        let counts = &mut self.counts[self.phase as usize];
        for operand in &self.slots[id as usize].operands {
            if *operand > 0 && self.sequence - operand < REMEMBERED as u64 {
                counts.alive += self.now - self.ends[*operand as usize % REMEMBERED];
                counts.uses += 1;
            }
        }
    }

    /// An operation is finished: what waited for it may be ready.
    fn finish_slot(&mut self, id: u32) -> Result<(), Problem> {
        let slot = &mut self.slots[id as usize];
        let (site, task) = (slot.site, slot.task);
        self.ends[slot.sequence as usize % REMEMBERED] = self.now;
        slot.sequence = u64::MAX;
        let mut waiters = std::mem::take(&mut slot.waiters);
        self.free.push(id);
        match task {
            Task::Compute(opcode) if self.m.latencies[opcode] > 0 => {
                self.busy -= u64::from(!opcode.pipelined());
                if self.m.strict == 1 {
                    self.units.extend(self.sites.swap_remove(&site).into_iter().flatten());
                }
            }
            Task::Compute(_) | Task::Pad { .. } | Task::Layer(_) => {}
            Task::Access { address, write, tape: _ } => {
                match write {
                    true => self.writing -= 1,
                    false => self.reading -= 1,
                }
                if let Some(word) = self.words.get_mut(&(address / 8)) {
                    word.under_way -= 1;
                    if word.under_way == 0 {
                        self.words.swap_remove(&(address / 8));
                    }
                }
            }
            Task::Barrier => self.pad.end()?,
        }
        for waiter in waiters.drain(..) {
            let slot = &mut self.slots[waiter as usize];
            slot.waits -= 1;
            if slot.waits == 0 {
                self.make_ready(waiter)?;
            }
        }
        // The list keeps its memory.
        self.slots[id as usize].waiters = waiters;
        Ok(())
    }

    /// Goes on to the next tick in which something happens.
    fn advance(&mut self) -> Result<(), Problem> {
        let again = self.again.then_some(self.now + 1);
        let ends = self.events.peek().map(|Reverse((tick, ..))| *tick);
        let out = self.out.wakes(self.m, &self.pad.out);
        let back = self.back.wakes(self.m, &self.pad.back);
        let Some(next) = [again, ends, out, back].into_iter().flatten().min() else {
            return Err(Problem::internal(format!(
                "the machine waits for ever at tick {}, with {} operations under way",
                self.now,
                self.slots.len() - self.free.len()
            )));
        };
        if next > self.now {
            (self.now, self.started, self.requested) = (next, 0, 0);
        }
        while let Some(Reverse((tick, _, id))) = self.events.peek().copied()
            && tick <= self.now
        {
            self.events.pop();
            self.finish_slot(id)?;
        }
        self.stream()?;
        self.settle()
    }

    /// Runs until nothing is under way.
    fn drain(&mut self) -> Result<(), Problem> {
        loop {
            self.issue()?;
            if self.free.len() == self.slots.len() {
                return Ok(());
            }
            self.advance()?;
        }
    }

    /// The forward phase ends and the reverse one begins: everything is finished, the scratchpad goes to
    /// memory; the cache stays as it is.
    ///
    /// # Errors
    /// As [`Simulation::push`].
    pub fn reverse(&mut self) -> Result<(), Problem> {
        if self.phase == Phase::Reverse {
            return Err(Problem::internal("the reverse phase begins twice"));
        }
        self.end_phase()?;
        self.phase = Phase::Reverse;
        self.pad.turn();
        self.stream()
    }

    fn end_phase(&mut self) -> Result<(), Problem> {
        self.drain()?;
        if self.phase == Phase::Forward {
            self.pad.flush()?;
            self.stream()?;
            while let Some(tick) = self.out.wakes(self.m, &self.pad.out) {
                self.now = self.now.max(tick);
                self.stream()?;
            }
        }
        self.counts[self.phase as usize].ticks = self.now - self.began.0;
        self.began = (self.now, self.sequence + 1);
        Ok(())
    }

    /// The end of the program.
    ///
    /// # Errors
    /// As [`Simulation::push`], and where the reverse phase leaves a part of the tape.
    pub fn finish(mut self) -> Result<Statistics, Problem> {
        self.end_phase()?;
        if self.phase == Phase::Reverse {
            self.pad.check_empty()?;
        }
        let mut state = State { input: 0, output: 0, tape: 8 * self.tape.entries() };
        for (id, array) in self.arrays.iter() {
            let bytes = array.elements * array.width;
            match self.written[id] {
                true => state.output += bytes,
                false => state.input += bytes,
            }
        }
        let [forward, reverse] = self.counts;
        Ok(Statistics {
            system: self.system.on(self.m),
            forward,
            reverse,
            left: self.memory.changed(),
            tiles: self.pad.tiles,
            state,
            lifetimes: self.lifetimes,
        })
    }
}
