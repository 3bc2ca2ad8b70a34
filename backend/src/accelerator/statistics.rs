//! Statistics of a run.
//!
//! *Traffic*, in lines, has two metrics. The paper's metric counts lines that are filled and lines of the reverse
//! stream; it leaves out write-backs and the forward stream:
//!
//! ```text
//! paper   fills + ceil(bytes streamed back / line) + lines of arguments streamed
//! full    the same + write-backs + ceil(bytes streamed out / line)
//! ```
//!
//! *Energy* is that of accesses on the chip, with the energies of Table III, without memory:
//!
//! ```text
//! E = N_cache e(X) + N_scratchpad e_s
//! ```
//!
//! If a share f of the accesses is on the tape, the gain of a cache of X bytes over one of 32 kB is e(32k) / ((1 -
//! f) e(X) + f e_s). It does not depend on times: "up to 8.2 times" is arithmetic.
//!
//! The *lifetime* of a tape value is the number of ticks from the end of its store to the issue of its load; of any
//! other value, from the end of its operation to the issue of an operation that uses it.

use std::fmt;

/// The phases of a run: the function with its tape stores, and the reverse pass with its tape loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Forward,
    Reverse,
}

/// The number of accesses of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accesses {
    /// The number of reads.
    pub loads: u64,
    /// The number of writes.
    pub stores: u64,
    /// Accesses that found no line in the cache or in flight.
    pub misses: u64,
}

impl Accesses {
    /// Returns the number of reads and writes.
    pub fn count(self) -> u64 {
        self.loads + self.stores
    }
}

/// Implements field-by-field addition.
macro_rules! sums {
    ($name:ident: $($field:ident)*) => {
        impl std::ops::Add for $name {
            type Output = $name;

            fn add(self, other: $name) -> $name {
                $name { $($field: self.$field + other.$field),* }
            }
        }
    };
}

sums!(Accesses: loads stores misses);

/// The counts of one phase.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// The number of ticks (machine cycles) of the phase.
    pub ticks: u64,
    /// Operations that took a function unit, or that have no latency.
    pub operations: u64,
    /// Accesses to the cache that are not to the tape.
    pub others: Accesses,
    /// Accesses to the cache that are to the tape.
    pub tape: Accesses,
    /// Accesses to the scratchpad.
    pub scratchpad: Accesses,
    /// The number of accesses to cache lines in flight. They count as hits, and take a part of the time of a miss.
    pub merged: u64,
    /// Loads, from the scratchpad, of arguments that a stream brought from their arrays.
    pub inputs: u64,
    /// The number of cache lines that the streams of arguments fetched from memory.
    pub fetched: u64,
    /// The number of cache lines that the streams of arguments got from the cache.
    pub snooped: u64,
    /// The number of changed cache lines that were replaced, and so written to memory.
    pub write_backs: u64,
    /// The number of prefetched cache lines.
    pub prefetched: u64,
    /// The number of 8-byte entries that were streamed between scratchpad and memory.
    pub streamed: u64,
    /// The number of memory requests of the stream engines.
    pub requests: u64,
    /// The number of layers: groups of tape entries that are in the scratchpad together.
    pub layers: u64,
    /// Executions of blocks that use the tape; a block is an iteration of a loop, or the straight-line code around
    /// loops.
    pub blocks: u64,
    /// The number of operands that come from operations of the same phase.
    pub edges: u64,
    /// The number of operands that come from the other phase: loads of the tape, and results that are used across
    /// phases.
    pub crossing: u64,
    /// The sum of the lifetimes, in ticks, of values that are not on the tape, each from its definition to its last use.
    pub alive: u64,
    /// The number of values whose lifetimes `alive` adds. Uses more than 2^16 operations after the definition are not
    /// counted.
    pub values: u64,
}

// All fields of `Counts`; a missing one is a compile error.
sums!(Counts: ticks operations others tape scratchpad merged inputs fetched snooped write_backs prefetched streamed
    requests layers blocks edges crossing alive values);

impl Counts {
    /// Returns all accesses to the cache.
    pub fn cached(&self) -> Accesses {
        self.others + self.tape
    }

    /// Returns the number of cache lines that memory sent to the cache: misses and prefetches.
    pub fn fills(&self) -> u64 {
        self.cached().misses + self.prefetched
    }

    /// Returns the number of accesses to the tape, in the cache or the scratchpad.
    pub fn taped(&self) -> u64 {
        (self.tape + self.scratchpad).count()
    }
}

/// Energies of a run, in the unit of Table III.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Energy {
    /// The energy as the paper counts it.
    pub paper: u64,
    /// The paper's energy, plus one scratchpad access for each entry that a stream moves.
    pub with_streams: u64,
    /// The paper's energy, plus one cache access for each filled cache line.
    pub with_fills: u64,
}

impl Energy {
    /// Returns the energies of two phases, given the energies of an access to the cache and to the scratchpad.
    pub(super) fn of(phases: &[Counts; 2], cache: u64, scratchpad: u64) -> Energy {
        let both = |count: fn(&Counts) -> u64| phases.iter().map(count).sum::<u64>();
        let paper = both(|c| c.cached().count() + c.snooped) * cache
            + both(|c| c.scratchpad.count() + c.inputs) * scratchpad;
        Energy {
            paper,
            with_streams: paper + both(|c| c.streamed + c.inputs) * scratchpad,
            with_fills: paper + both(Counts::fills) * cache,
        }
    }
}

/// The memory of a run in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Bytes of arrays that are only read.
    pub input: u64,
    /// Bytes of arrays that are written.
    pub output: u64,
    /// Bytes of the tape.
    pub tape: u64,
}

/// The statistics of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// The name of the system, with the size of its cache.
    pub system: String,
    /// The counts of the forward phase, or of the whole run if there is only one phase ([`Statistics::phases`]).
    pub forward: Counts,
    /// The counts of the reverse phase.
    pub reverse: Counts,
    /// The number of changed cache lines that were still to be written back at the end of the run.
    pub left: u64,
    /// The number of streamed tiles: contents of a half of the scratchpad.
    pub tiles: u64,
    /// The memory of the run.
    pub state: State,
    /// The energies of the run.
    pub energy: Energy,
    /// The bytes of a cache line.
    pub(super) line: u64,
    /// The lifetime in ticks of each tape value, in the order of the loads.
    pub lifetimes: Vec<u64>,
}

impl Statistics {
    /// Returns the number of phases. There is one phase if no step of the program reads kept values without keeping
    /// values itself: for example, if both halves are fused into one loop, or the reverse pass recomputes
    /// iterations.
    pub fn phases(&self) -> usize {
        if self.reverse == Counts::default() { 1 } else { 2 }
    }

    /// Returns the counts of the whole run, whether it has one phase or two.
    pub fn whole(&self) -> Counts {
        self.forward + self.reverse
    }

    /// Returns the ticks of both phases.
    pub fn ticks(&self) -> u64 {
        self.forward.ticks + self.reverse.ticks
    }

    /// Returns the number of cache lines moved from memory, as the paper counts them (without write-backs).
    pub fn paper_lines(&self) -> u64 {
        let fetched = self.forward.fetched + self.reverse.fetched;
        self.forward.fills() + self.reverse.fills() + self.lines(self.reverse.streamed) + fetched
    }

    /// Returns the number of all moved lines, without those that are in the cache at the end.
    pub fn full_lines(&self) -> u64 {
        let write_backs = self.forward.write_backs + self.reverse.write_backs;
        self.paper_lines() + write_backs + self.lines(self.forward.streamed)
    }

    fn lines(&self, entries: u64) -> u64 {
        (8 * entries).div_ceil(self.line.max(1))
    }

    /// Returns the fraction, from 0 to 1, of tape accesses among all memory accesses of the run.
    pub fn tape_share(&self) -> f64 {
        let taped = self.forward.taped() + self.reverse.taped();
        let rest = |c: &Counts| c.others.count() + c.inputs;
        let all = taped + rest(&self.forward) + rest(&self.reverse);
        taped as f64 / all.max(1) as f64
    }

    /// Returns the mean lifetime, in ticks, of values that are not on the tape.
    pub fn mean_alive(&self) -> f64 {
        let Counts { alive, values, .. } = self.whole();
        alive as f64 / values.max(1) as f64
    }

    /// Returns clusters of the lifetimes of tape values, shortest first: at most five, by k-means that starts from
    /// the means of the five quintiles.
    pub fn clusters(&self) -> Vec<Cluster> {
        clusters(&self.lifetimes)
    }
}

/// Tape values with similar lifetimes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cluster {
    /// The fraction of all tape values that are in this cluster.
    pub fraction: f64,
    /// The mean lifetime of the cluster's values, in ticks.
    pub ticks: f64,
}

/// Runs one-dimensional k-means. Clusters of sorted numbers are intervals whose borders are halfway between their
/// means.
fn clusters(lifetimes: &[u64]) -> Vec<Cluster> {
    let mut sorted = lifetimes.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let mut cuts: Vec<usize> = (0..=5).map(|i| i * n / 5).collect();
    loop {
        cuts.dedup();
        let means: Vec<f64> = cuts.windows(2).map(|c| mean(&sorted[c[0]..c[1]])).collect();
        let border = |m: &[f64]| sorted.partition_point(|x| (*x as f64) < (m[0] + m[1]) / 2.0);
        let inner = means.windows(2).map(border);
        let next: Vec<usize> = [0].into_iter().chain(inner).chain([n]).collect();
        if next == cuts || n == 0 {
            let sizes = cuts.windows(2).map(|c| (c[1] - c[0]) as f64 / n as f64);
            let clusters = sizes.zip(means);
            return clusters.map(|(fraction, ticks)| Cluster { fraction, ticks }).collect();
        }
        cuts = next;
    }
}

type Count = fn(&Counts) -> u64;

/// The rows of the printed table of statistics: a title, and the count of a phase that the row prints.
const ROWS: [(&str, Count); 18] = [
    ("ticks", |c| c.ticks),
    ("operations", |c| c.operations),
    ("loads", |c| c.others.loads),
    ("stores", |c| c.others.stores),
    ("misses", |c| c.others.misses),
    ("tape loads", |c| c.tape.loads),
    ("tape stores", |c| c.tape.stores),
    ("tape misses", |c| c.tape.misses),
    ("write-backs", |c| c.write_backs),
    ("prefetched lines", |c| c.prefetched),
    ("scratchpad loads", |c| c.scratchpad.loads),
    ("scratchpad stores", |c| c.scratchpad.stores),
    ("loads of inputs", |c| c.inputs),
    ("lines of inputs", |c| c.fetched),
    ("from the cache", |c| c.snooped),
    ("streamed entries", |c| c.streamed),
    ("stream requests", |c| c.requests),
    ("layers", |c| c.layers),
];

impl fmt::Display for Statistics {
    /// Prints a table with one column per phase. Rows of zeros are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let titles = if self.phases() == 1 { &["all"][..] } else { &["forward", "reverse"] };
        write!(f, "{:18}", self.system)?;
        titles.iter().try_for_each(|title| write!(f, " {title:>10}"))?;
        for (name, count) in ROWS {
            let columns = [count(&self.forward), count(&self.reverse)];
            if columns != [0, 0] {
                write!(f, "\n{name:18}")?;
                columns[..titles.len()].iter().try_for_each(|n| write!(f, " {n:10}"))?;
            }
        }
        let (paper, full) = (self.paper_lines(), self.full_lines());
        writeln!(
            f,
            "\nlines moved: {full}, as the paper counts {paper}; left to write: {}",
            self.left
        )?;
        let State { input, output, tape } = self.state;
        writeln!(f, "bytes: input {input}, output {output}, tape {tape}")?;
        writeln!(f, "energy: {}", self.energy.paper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lifetimes: &[u64], expected: &[(f64, f64)]) {
        let found: Vec<_> = clusters(lifetimes).iter().map(|c| (c.fraction, c.ticks)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lifetimes_that_are_alike_are_a_cluster() {
        check(&[], &[]);
        check(&[7], &[(1.0, 7.0)]);
        check(&[3; 10], &[(1.0, 3.0)]);
        check(
            &[100, 1, 102, 3, 2, 1000, 1, 98, 3, 2],
            &[(0.2, 1.0), (0.2, 2.0), (0.2, 3.0), (0.3, 100.0), (0.1, 1000.0)],
        );
    }
}
