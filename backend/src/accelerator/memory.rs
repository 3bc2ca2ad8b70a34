//! The way to memory: cache, misses under way, and the channel behind them.
//!
//! An access that hits takes `hit` ticks. One that misses takes `miss` picoseconds more, after the
//! channel has moved what was asked for before it, one line in `burst` picoseconds; it ends with the next
//! tick that begins. An access to a line that is still under way waits for it. Lines that are written back
//! are put aside and written while nobody reads, or before the next read where too many wait.
//!
//! Memory is banks of rows, of which each bank has the one open that was used last:
//!
//! ```text
//! the row is open             miss - row_opens
//! none is open in the bank    miss
//! another one is              miss + row_opens        it is closed first
//! ```
//!
//! How long a row has to stay open, and how often all are refreshed, is left out: some per cent of the time.

use super::cache::{Cache, Found};
use super::machine::Machine;
use std::collections::VecDeque;

/// The channel between the machine and its memory, in picoseconds.
struct Channel {
    /// When it is free.
    free: u64,
    /// When each line was put aside to be written, and an address in it.
    waiting: VecDeque<(u64, u64)>,
    /// The row that is open, of each bank.
    open: Vec<Option<u64>>,
}

impl Channel {
    fn new(m: &Machine) -> Channel {
        let open = vec![None; m.row_banks as usize];
        Channel { free: 0, waiting: VecDeque::new(), open }
    }

    /// Opens the row of an address: how long a line of it takes.
    fn open(&mut self, m: &Machine, address: u64) -> u64 {
        let Some(row) = address.checked_div(m.row) else { return m.miss };
        match self.open[(row % m.row_banks) as usize].replace(row) {
            None => m.miss,
            Some(open) if open == row => m.miss - m.row_opens,
            Some(_) => m.miss + m.row_opens,
        }
    }

    /// Writes what can be written before `now`, and what is too much.
    fn settle(&mut self, m: &Machine, now: u64) {
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

    /// Asks for the line of an address: when it is there.
    fn read(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        self.settle(m, now);
        let start = self.free.max(now);
        self.free = start + m.burst;
        start + self.open(m, address)
    }

    /// Puts the line of an address aside to be written.
    fn write(&mut self, m: &Machine, now: u64, address: u64) {
        self.waiting.push_back((now, address));
        self.settle(m, now);
    }
}

/// A line under way.
struct Fill {
    line: u64,
    /// The tick with which it is there.
    there: u64,
    /// How many accesses wait for it.
    targets: u64,
}

/// What an access to the cache comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The tick with which it is done.
    pub(super) done: u64,
    pub(super) outcome: Outcome,
    /// Whether the line behind was fetched, and whether that one wrote another back.
    pub(super) prefetched: Option<bool>,
}

/// How an access found its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Hit,
    /// On its way already.
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

    /// Reads or writes an address; `ahead` is the step to the line that is fetched, too. Nothing happens
    /// where too much is under way.
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

    /// Gets a line that is not there: the tick with which it is, and whether another is written back.
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

    /// Whether the cache has what lies there.
    pub(super) fn has(&self, m: &Machine, address: u64) -> bool {
        self.cache.has(address / m.line)
    }

    /// A read of an address beside the cache: the tick with which it is done.
    pub(super) fn request(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        let comes = self.channel.read(m, now * m.tick, address);
        (comes + m.hit * m.tick).div_ceil(m.tick)
    }

    /// A write to an address beside the cache: the tick with which memory has it.
    pub(super) fn write(&mut self, m: &Machine, now: u64, address: u64) -> u64 {
        self.channel.write(m, now * m.tick, address);
        now + m.missed()
    }

    /// Lines that are still to be written back.
    pub(super) fn changed(&self) -> u64 {
        self.cache.changed()
    }
}
