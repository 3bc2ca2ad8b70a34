//! Issues operations: the oldest ready operation starts first, if a function unit, cache port or scratchpad bank is
//! free.
//!
//! * Arithmetic takes one of `Machine::units` function units (16): for one tick if the opcode is pipelined, otherwise
//!   until it ends. An operation without latency takes no unit.
//! * An access to the cache takes a port. A blocking port has at most one read and one write in flight, and accepts
//!   nothing else until they are answered.
//! * An access to the scratchpad takes its bank for one tick.
//! * A layer (a request for scratchpad entries) waits for its half of the scratchpad. A barrier, which ends a layer,
//!   takes one tick.
//!
//! The simulator of the TapeFlow paper's authors (gem5-SALAM) has the same rules, but scans a window of ten thousand
//! operations in every tick. Here, ready operations wait in one queue for each resource, oldest first, and time
//! advances from event to event. A test checks that the queues and the scan give the same number of ticks.

use super::arrays::Tape;
use super::instruction_window::{AccessKind, Task, Window};
use super::machine::Machine;
use super::memory::{Answer, Memory, Outcome};
use super::op::{Entry, EntryIdentity, Token};
use super::scratchpad::not_stored;
use super::scratchpad_slots::Pads;
use super::statistics::{Counts, Phase};
use super::stream::Engine;
use super::system::Route;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{OrderedMap, Problem};

/// Ready operations that wait for a resource, oldest first: the sequence number and the window slot of each.
type Queue = BinaryHeap<Reverse<(u64, u32)>>;

/// The number of most recent operations for whose values the statistics track lifetimes.
const REMEMBERED: usize = 1 << 16;

/// The lifetime of an operation's result, for the statistics.
#[derive(Clone, Copy, Default)]
struct Value {
    /// The tick of the result's last use so far; the tick of its definition if no operation has used it.
    until: u64,
    /// Whether an operation has used the result.
    used: bool,
}

/// The state of the machine: operations in flight, and the resources that they use.
pub(super) struct Issue<'a> {
    m: &'a Machine,
    route: Route,
    tape: &'a Tape,
    pub(super) now: u64,
    pub(super) window: Window,
    pub(super) memory: Memory,
    pub(super) pad: Pads,
    out: Engine,
    back: Engine,
    /// The ends of running operations: tick, sequence number, and window slot.
    events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// The window slots of operations that became ready, and that are not yet in the queue of their resource.
    ready: Vec<u32>,
    units: Queue,
    reads: Queue,
    writes: Queue,
    banks: Vec<Queue>,
    /// The window slots of ready requests for layers (groups of tape entries) that wait for space in the scratchpad.
    waiting_layers: Vec<u32>,
    /// The number of function units that are busy beyond this tick.
    busy: u64,
    /// The number of unfinished reads of the cache.
    reading: u64,
    /// The number of unfinished writes of the cache.
    writing: u64,
    /// The number of function units that operations have occupied in this tick.
    started: u64,
    /// The number of requests in this tick to cache ports that do not block.
    requested: u64,
    /// Per bank of the scratchpad: the first tick in which it is free again.
    used: Vec<u64>,
    /// Whether a ready operation that waits could start in the next tick. If so, `advance` must not jump to a later
    /// event.
    again: bool,
    /// For machines that run at most one instance of an operation at a time (`strict`): the statement numbers (`site`)
    /// of the running operations, each with the instances that wait.
    sites: OrderedMap<u32, Queue>,
    /// Per tape entry: the tick in which its store ended, and the stored bits; `None` if the entry was not stored
    /// yet.
    stores: Vec<Option<(u64, u64)>>,
    /// Per tape address that the program computed (`AccessKind::Kept`): the tick in which the last store to it ended.
    kept: OrderedMap<u64, u64>,
    /// The lifetimes of the results of the last `REMEMBERED` operations: the result of operation n is at index n modulo
    /// `REMEMBERED`.
    values: Vec<Value>,
    pub(super) phase: Phase,
    pub(super) counts: [Counts; 2],
    pub(super) lifetimes: Vec<u64>,
}

impl<'a> Issue<'a> {
    pub(super) fn new(m: &'a Machine, route: Route, tape: &'a Tape) -> Result<Issue<'a>, Problem> {
        let mut stores = Vec::new();
        let entries = usize::try_from(tape.entries()).unwrap_or(usize::MAX);
        if stores.try_reserve(entries).is_err() {
            return Err(crate::no_memory("the simulated tape", entries.saturating_mul(24)));
        }
        stores.resize(entries, None);
        Ok(Issue {
            m,
            route,
            tape,
            now: 0,
            window: Window::new(m.window),
            memory: Memory::new(m),
            pad: Pads::new(m),
            out: Engine::default(),
            back: Engine::default(),
            events: BinaryHeap::new(),
            ready: Vec::new(),
            units: Queue::new(),
            reads: Queue::new(),
            writes: Queue::new(),
            banks: vec![Queue::new(); m.banks as usize],
            waiting_layers: Vec::new(),
            busy: 0,
            reading: 0,
            writing: 0,
            started: 0,
            requested: 0,
            used: vec![0; m.banks as usize],
            again: false,
            sites: OrderedMap::default(),
            stores,
            kept: OrderedMap::default(),
            values: vec![Value::default(); REMEMBERED],
            phase: Phase::Forward,
            counts: [Counts::default(); 2],
            lifetimes: Vec::new(),
        })
    }

    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.counts[self.phase as usize]
    }

    /// Runs the machine until the window has a free slot, and adds an operation.
    pub(super) fn push(
        &mut self,
        site: u32,
        task: Task,
        operands: &[Token],
    ) -> Result<Token, Problem> {
        while !self.window.is_open() {
            self.issue()?;
            if !self.window.is_open() {
                self.advance()?;
            }
        }
        let (token, ready) = self.window.admit(site, task, operands);
        if ready {
            self.ready.push(token.slot);
            self.queue_ready()?;
        }
        Ok(token)
    }

    /// Runs the machine until all operations have finished.
    pub(super) fn drain(&mut self) -> Result<(), Problem> {
        loop {
            self.issue()?;
            if self.window.under_way() == 0 {
                return Ok(());
            }
            self.advance()?;
        }
    }

    /// Streams the contents of the scratchpad to memory, and waits until they have arrived.
    pub(super) fn flush(&mut self) -> Result<(), Problem> {
        self.pad.flush()?;
        self.stream()?;
        while let Some(tick) = self.out.next_event(self.m, &self.pad.out) {
            self.now = self.now.max(tick);
            self.stream()?;
        }
        Ok(())
    }

    /// Begins the reverse phase: from now on, events are counted in the statistics of the reverse phase, and streams
    /// bring tape entries back to the scratchpad.
    pub(super) fn begin_reverse_pass(&mut self) -> Result<(), Problem> {
        self.phase = Phase::Reverse;
        self.pad.begin_reverse_pass();
        self.stream()
    }

    fn ideal(&self) -> bool {
        self.route == Route::Scratchpad { ideal: true }
    }

    /// Queues ready operations by the resource that each needs, and finishes operations without latency in this tick.
    fn queue_ready(&mut self) -> Result<(), Problem> {
        loop {
            while let Some(id) = self.ready.pop() {
                self.queue(id)?;
            }
            if !self.begin_layers()? {
                return Ok(());
            }
        }
    }

    /// Adds a ready operation to the queue of the resource that it needs; an operation without latency is finished at
    /// once.
    fn queue(&mut self, id: u32) -> Result<(), Problem> {
        let slot = self.window.slot(id);
        let turn = Reverse((slot.sequence, id));
        match slot.task {
            Task::Compute(opcode) if self.m.latencies[opcode] == 0 => return self.instant(id),
            Task::Compute(_) => self.units.push(turn),
            Task::Access { write: false, .. } => self.reads.push(turn),
            Task::Access { write: true, .. } => self.writes.push(turn),
            Task::Scratchpad { entry, write } => {
                let remark = write && matches!(entry.identity, EntryIdentity::Array(..));
                if remark || self.ideal() {
                    self.pad_access(entry, write, self.now)?;
                    return self.instant(id);
                }
                let bank = self.pad.entry(entry)? % self.m.banks;
                self.banks[bank as usize].push(turn);
            }
            Task::Layer(_) => self.waiting_layers.push(id),
            Task::Barrier(_) if self.ideal() => return self.instant(id),
            Task::Barrier(_) => self.start(id, self.now + self.m.barrier),
        }
        Ok(())
    }

    /// Performs and finishes an operation without latency in this tick.
    fn instant(&mut self, id: u32) -> Result<(), Problem> {
        self.count_uses(id);
        self.finish(id)
    }

    /// Begins the ready layers (groups of tape entries) for which the scratchpad has space. Returns whether any layer
    /// began.
    fn begin_layers(&mut self) -> Result<bool, Problem> {
        let mut any = false;
        for id in std::mem::take(&mut self.waiting_layers) {
            let Task::Layer(layer) = self.window.slot(id).task else { continue };
            let begun = self.pad.begin(layer)?;
            // Run the stream engines before the second attempt: if streams take no time, the half of the scratchpad
            // that is being sent to memory becomes free at once.
            self.stream()?;
            if begun || self.pad.begin(layer)? {
                self.finish(id)?;
                any = true;
            } else {
                self.waiting_layers.push(id);
            }
        }
        Ok(any)
    }

    /// Starts memory requests of the two stream engines, and completes the transfers whose last request has ended.
    fn stream(&mut self) -> Result<(), Problem> {
        if let Route::Cache { .. } = self.route {
            return Ok(());
        }
        let (m, now, memory) = (self.m, self.now, &mut self.memory);
        let waiting = |pad: &Pads| -> u64 {
            let taped = pad.out.iter().chain(&pad.back).filter(|t| t.taped);
            taped.map(|transfer| transfer.entries).sum()
        };
        let (before, mut fetched, mut snooped) = (waiting(&self.pad), 0, 0);
        let requests = if self.route == (Route::Scratchpad { ideal: true }) {
            while let Some(transfer) = self.pad.out.pop_front() {
                self.pad.arrived_in_memory(transfer.moved)?;
            }
            while let Some(transfer) = self.pad.back.pop_front() {
                fetched += if transfer.taped { 0 } else { transfer.requests.len() as u64 };
                self.pad.arrived_from_memory(transfer.moved)?;
            }
            0
        } else {
            let write = |address, _| memory.write(m, now, address);
            let out = self.out.start(m, now, &mut self.pad.out, write);
            let bring = |address, taped: bool| {
                if !taped && memory.has(m, address) {
                    snooped += 1;
                    return now + m.hit;
                }
                fetched += u64::from(!taped);
                memory.request(m, now, address)
            };
            out + self.back.start(m, now, &mut self.pad.back, bring)
        };
        let streamed = before - waiting(&self.pad);
        let counts = self.counts();
        counts.requests += requests;
        counts.streamed += streamed;
        (counts.fetched, counts.snooped) = (counts.fetched + fetched, counts.snooped + snooped);
        while let Some(moved) = self.out.arrived(now) {
            self.pad.arrived_in_memory(moved)?;
        }
        while let Some(moved) = self.back.arrived(now) {
            self.pad.arrived_from_memory(moved)?;
        }
        Ok(())
    }

    /// Starts all ready operations whose resource is free in this tick.
    fn issue(&mut self) -> Result<(), Problem> {
        self.again = false;
        self.stream()?;
        self.queue_ready()?;
        self.issue_computations();
        self.issue_accesses()?;
        self.issue_banks()
    }

    /// Starts accesses to the scratchpad whose bank is free in this tick.
    fn issue_banks(&mut self) -> Result<(), Problem> {
        if let Route::Cache { .. } = self.route {
            return Ok(());
        }
        for bank in 0..self.banks.len() {
            while self.used[bank] <= self.now
                && let Some(Reverse((_, id))) = self.banks[bank].pop()
            {
                self.used[bank] = self.now + u64::from(!planted(Fault::BankTwice));
                let done = self.now + self.m.scratchpad;
                if let Task::Scratchpad { entry, write } = self.window.slot(id).task {
                    self.pad_access(entry, write, done)?;
                }
                self.start(id, done);
            }
            self.again |= !self.banks[bank].is_empty();
        }
        Ok(())
    }

    fn issue_computations(&mut self) {
        while self.busy + self.started < self.m.units {
            let Some(Reverse((sequence, id))) = self.units.pop() else { return };
            let slot = self.window.slot(id);
            let Task::Compute(opcode) = slot.task else { continue };
            if self.m.strict == 1 {
                if let Some(queue) = self.sites.get_mut(&slot.site) {
                    queue.push(Reverse((sequence, id)));
                    continue;
                }
                self.sites.insert(slot.site, Queue::new());
            }
            match opcode.pipelined() {
                true => self.started += 1,
                false => self.busy += 1,
            }
            self.start(id, self.now + self.m.latencies[opcode]);
        }
        self.again |= self.started > 0 && !self.units.is_empty();
    }

    /// Starts accesses to the cache, the oldest first, while ports are free.
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
            // Choose the older access. `Reverse` inverts the order, so the older access is the maximum.
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

    /// Starts an access to the cache. Returns false if the access must wait: `mshrs` misses are in flight already, or
    /// `targets` accesses wait for its cache line.
    fn access(&mut self, id: u32) -> Result<bool, Problem> {
        let Task::Access { address, write, kind } = self.window.slot(id).task else {
            return Err(Problem::internal("a task that is no access uses a port"));
        };
        let taped = !matches!(kind, AccessKind::Other);
        let ahead = match self.route {
            Route::Cache { prefetch: true, .. } if taped => Some(match self.phase {
                Phase::Forward => 1,
                Phase::Reverse => -1,
            }),
            Route::Cache { .. } | Route::Scratchpad { .. } => None,
        };
        let answer = self.memory.access(self.m, self.now, address, write, ahead);
        let Some(Answer { done, outcome, prefetched }) = answer else { return Ok(false) };
        let counts = self.counts();
        match outcome {
            Outcome::Hit => {}
            Outcome::Merged => counts.merged += 1,
            Outcome::Miss { write_back } => {
                let kind = if taped { &mut counts.tape } else { &mut counts.others };
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
        match kind {
            AccessKind::Other => {}
            AccessKind::Kept if write => {
                self.kept.insert(address, done);
            }
            AccessKind::Kept => {
                let stored = self.kept.get(&address).copied();
                self.lifetimes.extend(stored.map(|stored| self.now.saturating_sub(stored)));
            }
            AccessKind::Entry(entry) => self.record_entry(entry, write, done)?,
        }
        self.start(id, done);
        Ok(true)
    }

    /// Performs a load or store of the scratchpad entry `entry` that ends in tick `done`.
    fn pad_access(&mut self, entry: Entry, write: bool, done: u64) -> Result<(), Problem> {
        match write {
            true => self.pad.store(entry)?,
            false => self.pad.load(entry)?,
        }
        self.record_entry(entry, write, done)
    }

    /// For a store, records the tick `done` and the bits of the tape entry. For a load, compares the bits with the
    /// stored bits, and adds the ticks since the store to `lifetimes`.
    fn record_entry(&mut self, entry: Entry, write: bool, done: u64) -> Result<(), Problem> {
        let EntryIdentity::Tape(region, value, execution) = entry.identity else { return Ok(()) };
        let number = self.tape.number(region, value, execution);
        let Some(store) = number.and_then(|n| self.stores.get_mut(n as usize)) else {
            return Err(Problem::internal(format!("{entry:?} is not of the tape")));
        };
        if write {
            *store = Some((done, entry.bits));
            return Ok(());
        }
        let Some((stored, bits)) = *store else {
            return Err(Problem::internal(format!("{:?} was never stored", entry.identity)));
        };
        self.lifetimes.push(self.now.saturating_sub(stored));
        match bits == entry.bits {
            true => Ok(()),
            false => Err(not_stored(bits, entry.bits, &format!("{:?}", entry.identity))),
        }
    }

    /// Starts the operation in window slot `id`, which ends in tick `done`.
    fn start(&mut self, id: u32, done: u64) {
        self.count_uses(id);
        self.events.push(Reverse((done, self.window.slot(id).sequence, id)));
    }

    /// Counts the uses of an operation's operands: extends the lifetimes of the operands to this tick.
    fn count_uses(&mut self, id: u32) {
        let counts = &mut self.counts[self.phase as usize];
        for operand in &self.window.slot(id).operands {
            let age = self.window.sequence.checked_sub(*operand);
            if *operand > 0 && age.is_some_and(|age| age < REMEMBERED as u64) {
                let value = &mut self.values[*operand as usize % REMEMBERED];
                counts.values += u64::from(!value.used);
                counts.alive += self.now.saturating_sub(value.until);
                *value = Value { until: self.now.max(value.until), used: true };
            }
        }
    }

    /// Finishes an operation: releases its function unit or port, and marks as ready the operations that waited only
    /// for this operation.
    fn finish(&mut self, id: u32) -> Result<(), Problem> {
        let number = self.window.slot(id).sequence as usize % REMEMBERED;
        self.values[number] = Value { until: self.now, used: false };
        let (site, task) = self.window.finish(id, &mut self.ready);
        match task {
            Task::Compute(opcode) if self.m.latencies[opcode] > 0 => {
                self.busy -= u64::from(!opcode.pipelined());
                if self.m.strict == 1 {
                    self.units.extend(self.sites.swap_remove(&site).into_iter().flatten());
                }
            }
            Task::Compute(_) | Task::Scratchpad { .. } | Task::Layer(_) => {}
            Task::Access { write: true, .. } => self.writing -= 1,
            Task::Access { write: false, .. } => self.reading -= 1,
            Task::Barrier(stream) => self.pad.end(stream)?,
        }
        Ok(())
    }

    /// Advances the clock to the next tick in which something can happen, and finishes the operations that end in that
    /// tick.
    fn advance(&mut self) -> Result<(), Problem> {
        let again = self.again.then_some(self.now + 1);
        let ends = self.events.peek().map(|Reverse((tick, ..))| *tick);
        let out = self.out.next_event(self.m, &self.pad.out);
        let back = self.back.next_event(self.m, &self.pad.back);
        let Some(next) = [again, ends, out, back].into_iter().flatten().min() else {
            let (now, count) = (self.now, self.window.under_way());
            let message = format!("{count} operations wait forever at tick {now}");
            return Err(Problem::internal(message));
        };
        if next > self.now {
            (self.now, self.started, self.requested) = (next, 0, 0);
        }
        while let Some(Reverse((tick, _, id))) = self.events.peek().copied()
            && tick <= self.now
        {
            self.events.pop();
            self.finish(id)?;
        }
        self.stream()?;
        self.queue_ready()
    }
}
