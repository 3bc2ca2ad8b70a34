//! Timers: counters of time and runs, one for each measured part of a program.
//!
//! ```text
//! timers 2
//! program @f {
//!   for i0 in 100000 { .. }
//!   lap timer0
//!   serial i1 in 100 {
//!     for i2 in 100000 { .. }
//!     lap timer1                    100 runs
//!   }
//! }
//! ```
//!
//! The statement `lap` reads the clock. It adds the time since the last `lap` of the call, or since the call began, to
//! its timer, and counts one run. So the timers together have all time of a call up to its last `lap`, and each
//! measured part costs one reading of the clock. Programs have timers only on request
//! ([`instrument`](crate::profile::instrument)). A `lap` changes no value. It counts as an ordered effect, so that
//! loops with a `lap` inside are serial.

use cranelift_entity::{EntityRef, entity_impl};
use std::time::{Duration, Instant};

/// The id of a timer. Displays as `timer3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(u32);
entity_impl!(TimerId, "timer");

/// The time and the runs that a timer has counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimerTotals {
    /// The sum of the times of all runs of the measured part.
    pub time: Duration,
    /// The number of runs of the measured part.
    pub runs: u64,
}

/// The times and runs that the timers of one call have counted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timed {
    /// The time and the runs of each timer; the index is the number of the timer.
    pub timers: Vec<TimerTotals>,
    /// The time of the whole call in machine code.
    pub total: Duration,
}

impl Timed {
    /// Adds the counts of another call of the same program.
    pub(crate) fn add(&mut self, other: &Timed) {
        self.timers.resize(self.timers.len().max(other.timers.len()), TimerTotals::default());
        for (all, one) in self.timers.iter_mut().zip(&other.timers) {
            all.time += one.time;
            all.runs += one.runs;
        }
        self.total += other.total;
    }
}

/// The timers of a call that runs.
#[derive(Debug)]
pub(crate) struct Timers {
    first: Instant,
    last: Instant,
    counted: Vec<TimerTotals>,
}

impl Timers {
    /// Returns `count` timers at zero; the first lap begins now.
    pub(crate) fn start(count: usize) -> Timers {
        let (counted, now) = (vec![TimerTotals::default(); count], Instant::now());
        Timers { first: now, last: now, counted }
    }

    /// Adds the time since the last lap, and one run, to a timer. A timer that does not exist counts nothing.
    pub(crate) fn lap(&mut self, timer: TimerId) {
        let now = Instant::now();
        if let Some(counted) = self.counted.get_mut(timer.index()) {
            counted.time += now - self.last;
            counted.runs += 1;
        }
        self.last = now;
    }

    /// Ends the call, and returns its counts.
    pub(crate) fn end(self) -> Timed {
        Timed { total: self.first.elapsed(), timers: self.counted }
    }
}
