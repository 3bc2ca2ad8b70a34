//! The simulated memory system: the cache, misses in flight, and the channel to memory.
//!
//! A cache hit takes `hit` ticks. A miss takes `miss` picoseconds more, after the channel has transferred all earlier
//! requests at `burst` picoseconds per cache line, and ends at the start of the next tick. An access to a line that
//! is being fetched waits for that line. Lines to be written back are queued. They are written while the channel is
//! idle, or before the next read if the queue holds more than `write_buffers` lines.
//!
//! Memory consists of banks of rows. The last row used in a bank is open. The latency of a miss depends on it:
//!
//! ```text
//! the row is open             miss - row_opens
//! none is open in the bank    miss
//! another one is              miss + row_opens        it is closed first
//! ```
//!
//! The minimal time that a memory row stays open, and refreshes, are not modelled; they take some per cent of the
//! time.

use super::cache::{Cache, Found};
use super::machine::Machine;
use std::collections::VecDeque;

/// The channel between the cache and memory. All its times are in picoseconds.
struct Channel {
    /// The time from which the channel is free, in picoseconds.
    free: u64,
    /// The cache lines that are queued for writing: the time at which each was queued, in picoseconds, and its
    /// address.
    waiting: VecDeque<(u64, u64)>,
    /// Per memory bank: the number of its open row; `None` before the first access.
    open: Vec<Option<u64>>,
}

impl Channel {
    fn new(m: &Machine) -> Channel {
        let open = vec![None; m.row_banks as usize];
        Channel { free: 0, waiting: VecDeque::new(), open }
    }

    /// Opens the memory row of an address, which closes another open row of the bank. Returns the latency in
    /// picoseconds of a cache line in the row.
    fn open(&mut self, m: &Machine, address: u64) -> u64 {
        let Some(row) = address.checked_div(m.row) else { return m.miss };
        match self.open[(row % m.row_banks) as usize].replace(row) {
            None => m.miss,
            Some(open) if open == row => m.miss - m.row_opens,
            Some(_) => m.miss + m.row_opens,
        }
    }

    /// Writes the queued lines that can be written before `now` (in picoseconds), and more lines until at most
    /// `write_buffers` are queued.
    fn drain_writes(&mut self, m: &Machine, now: u64) {
        while let Some((put, address)) = self.waiting.front() {
            let (end, address) = (self.free.max(*put) + m.burst, *address);
            if end > now && self.waiting.len() as u64 <= m.write_buffers {
                break;
            }
            self.free = end;
            self.waiting.pop_front();
            self.open(m, address);
        }
    }

    /// Reads the cache line of an address from memory. Returns the time at which the line arrives, in picoseconds.
    fn read(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        self.drain_writes(m, now);
        let start = self.free.max(now);
        self.free = start + m.burst;
        start + self.open(m, address)
    }

    /// Queues the cache line of an address for writing to memory at the time `now`, in picoseconds.
    fn write(&mut self, m: &Machine, now: u64, address: u64) {
        self.waiting.push_back((now, address));
        self.drain_writes(m, now);
    }
}

/// A cache line that is on its way from memory to the cache.
struct Fill {
    line: u64,
    /// The tick in which the cache line arrives.
    there: u64,
    /// The number of accesses that wait for the cache line, including the access that missed.
    targets: u64,
}

/// The result of an access to the cache, if the cache accepted the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The tick in which the access ends.
    pub(super) done: u64,
    pub(super) outcome: Outcome,
    /// If the access also prefetched a cache line: whether another line was written back for the prefetched line.
    /// Otherwise `None`.
    pub(super) prefetched: Option<bool>,
}

/// The outcome of an access to the cache, if the cache accepted the access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Hit,
    /// The access waits for its cache line, which an earlier miss has already requested.
    Merged,
    Miss {
        write_back: bool,
    },
}

pub(super) struct Memory {
    cache: Cache,
    channel: Channel,
    fills: Vec<Fill>,
}

impl Memory {
    pub(super) fn new(m: &Machine) -> Memory {
        let cache = Cache::new(m.cache / m.line, m.ways);
        Memory { cache, channel: Channel::new(m), fills: Vec::new() }
    }

    /// Reads or writes an address through the cache. If `ahead` is given, also prefetches the cache line at this
    /// distance in lines. Returns `None`, without any change, if `mshrs` misses are in flight or `targets` accesses
    /// wait for the line.
    pub(super) fn access(
        &mut self,
        m: &Machine,
        now: u64,
        address: u64,
        write: bool,
        ahead: Option<i64>,
    ) -> Option<Answer> {
        self.fills.retain(|fill| fill.there > now);
        let line = address / m.line;
        let (done, outcome) = if self.cache.has(line) {
            let mut under_way = self.fills.iter_mut().filter(|_| m.targets > 0);
            let (done, outcome) = match under_way.find(|fill| fill.line == line) {
                None => (now + m.hit, Outcome::Hit),
                Some(fill) if fill.targets == m.targets => return None,
                Some(fill) => {
                    fill.targets += 1;
                    (fill.there.max(now + m.hit), Outcome::Merged)
                }
            };
            self.cache.access(line, write);
            (done, outcome)
        } else {
            let (there, write_back) = self.fetch(m, now, line, write, 1)?;
            (there, Outcome::Miss { write_back })
        };
        let prefetched = ahead.and_then(|step| {
            let next = line.checked_add_signed(step).filter(|next| !self.cache.has(*next))?;
            Some(self.fetch(m, now, next, false, 0)?.1)
        });
        Some(Answer { done, outcome, prefetched })
    }

    /// Fetches a cache line that is not in the cache. Returns the tick in which the line arrives, and whether another
    /// line was written back; `None` if `mshrs` misses are in flight.
    fn fetch(
        &mut self,
        m: &Machine,
        now: u64,
        line: u64,
        write: bool,
        targets: u64,
    ) -> Option<(u64, bool)> {
        if self.fills.len() as u64 == m.mshrs {
            return None;
        }
        let there = self.request(m, now, line * m.line);
        self.fills.push(Fill { line, there, targets });
        let Found::Miss { write_back } = self.cache.access(line, write) else {
            return Some((there, false));
        };
        if let Some(changed) = write_back {
            self.channel.write(m, now * m.tick, changed * m.line);
        }
        Some((there, write_back.is_some()))
    }

    /// Returns whether the cache line of an address is in the cache.
    pub(super) fn has(&self, m: &Machine, address: u64) -> bool {
        self.cache.has(address / m.line)
    }

    /// Reads an address from memory, past the cache. Returns the tick in which the read ends.
    pub(super) fn request(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        let comes = self.channel.read(m, now * m.tick, address);
        (comes + m.hit * m.tick).div_ceil(m.tick)
    }

    /// Writes an address to memory, past the cache. Returns the tick in which the write ends.
    pub(super) fn write(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        self.channel.write(m, now * m.tick, address);
        now + m.missed()
    }

    /// Returns the number of changed cache lines that are not written back to memory yet.
    pub(super) fn changed(&self) -> u64 {
        self.cache.changed()
    }
}
