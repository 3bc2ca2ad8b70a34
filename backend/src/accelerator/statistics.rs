//! Statistics of a simulated run: counts, traffic, energy and lifetimes.
//!
//! *Traffic* is counted in cache lines, with two metrics. The TapeFlow paper's metric counts lines that are filled
//! and lines of the reverse stream; it leaves out write-backs and the forward stream:
//!
//! ```text
//! paper   fills + ceil(bytes streamed back / line) + lines of arguments streamed
//! full    the same + write-backs + ceil(bytes streamed out / line)
//! ```
//!
//! *Energy* is that of accesses on the chip, without memory. N_cache and N_scratchpad are the numbers of accesses; e(X)
//! for a cache of X bytes and e_s for the scratchpad are the energies in Table III of the TapeFlow paper:
//!
//! ```text
//! E = N_cache e(X) + N_scratchpad e_s
//! ```
//!
//! If a share f of the accesses is on the tape, the gain of a cache of X bytes over one of 32 kB is e(32k) / ((1 - f)
//! e(X) + f e_s). The gain does not depend on times: the paper's "up to 8.2 times" is arithmetic.
//!
//! The *lifetime* of a tape value is the number of ticks from the end of its store to the issue of its load. The
//! lifetime of any other value is the number of ticks from the end of its operation to the issue of the last
//! operation that uses the value.

use std::fmt;

/// The phases of a run: the forward phase computes the function and stores the tape, the reverse phase loads the
/// tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Forward,
    Reverse,
}

/// The number of accesses to one memory (cache or scratchpad) for one purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accesses {
    /// The number of reads, hits included.
    pub loads: u64,
    /// The number of writes, hits included.
    pub stores: u64,
    /// The number of accesses whose line was neither in the cache nor in flight.
    pub misses: u64,
}

impl Accesses {
    /// Returns the number of accesses: reads and writes together.
    pub fn count(self) -> u64 {
        self.loads + self.stores
    }
}

/// Implements field-by-field addition for a struct of counts.
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

/// The counts of the forward or of the reverse phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// The number of ticks (machine cycles) of the phase.
    pub ticks: u64,
    /// The number of computations, whether they took a function unit or have no latency.
    pub operations: u64,
    /// The accesses to the cache that are not to the tape.
    pub others: Accesses,
    /// The accesses to the cache that are to the tape.
    pub tape: Accesses,
    /// The accesses to the scratchpad.
    pub scratchpad: Accesses,
    /// The number of accesses to a cache line that an earlier miss is fetching. Such an access counts as a hit, and
    /// takes a part of the time of a miss.
    pub merged: u64,
    /// The number of loads, from the scratchpad, of arguments that a stream brought from their arrays.
    pub inputs: u64,
    /// The number of cache lines that the streams of arguments fetched from memory.
    pub fetched: u64,
    /// The number of cache lines that the streams of arguments got from the cache instead of memory.
    pub snooped: u64,
    /// The number of changed cache lines that were evicted, and so written to memory.
    pub write_backs: u64,
    /// The number of cache lines that were prefetched into the cache.
    pub prefetched: u64,
    /// The number of 8-byte entries that were streamed between scratchpad and memory.
    pub streamed: u64,
    /// The number of memory requests of the stream engines.
    pub requests: u64,
    /// The number of layers: groups of tape entries for which the scratchpad is allocated at one time.
    pub layers: u64,
    /// The number of executions of blocks that use the tape; a block is an iteration of a loop, or the straight-line
    /// code around loops.
    pub blocks: u64,
    /// The number of operands of operations that are results of operations of the same phase (forward or reverse).
    pub edges: u64,
    /// The number of operands that come from the other phase: loads from the tape, and results that are used across
    /// phases.
    pub crossing: u64,
    /// The sum of the lifetimes, in ticks, of values that are not on the tape. A lifetime is the time from the
    /// definition to the last use.
    pub alive: u64,
    /// The number of values whose lifetimes are summed in `alive`. A use more than 2^16 operations after the definition
    /// does not extend a lifetime.
    pub values: u64,
}

// The macro lists all fields of `Counts`: a field that is missing here is a compile error.
sums!(Counts: ticks operations others tape scratchpad merged inputs fetched snooped write_backs prefetched streamed
    requests layers blocks edges crossing alive values);

impl Counts {
    /// Returns all accesses to the cache, to the tape and to other arrays together.
    pub fn cached(&self) -> Accesses {
        self.others + self.tape
    }

    /// Returns the number of cache lines that memory sent to the cache: misses and prefetches.
    pub fn fills(&self) -> u64 {
        self.cached().misses + self.prefetched
    }

    /// Returns the number of accesses to the tape, through the cache and in the scratchpad.
    pub fn taped(&self) -> u64 {
        (self.tape + self.scratchpad).count()
    }
}

/// Energies of a run, in the unit of Table III of the TapeFlow paper (assumed to be 0.1 pJ).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Energy {
    /// The energy as the TapeFlow paper counts it: accesses of the cache and of the scratchpad.
    pub paper: u64,
    /// The energy as the TapeFlow paper counts it, plus one scratchpad access for each entry that a stream moves.
    pub with_streams: u64,
    /// The energy as the TapeFlow paper counts it, plus one cache access for each cache line that was filled from
    /// memory.
    pub with_fills: u64,
}

impl Energy {
    /// Returns the energies of a run, given the counts of its two phases and the energy of one access to the cache
    /// and to the scratchpad.
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

/// The sizes in bytes of the memory that a run uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Bytes of arrays that the program only reads.
    pub input: u64,
    /// Bytes of arrays that the program writes.
    pub output: u64,
    /// Bytes of the tape, all its entries together.
    pub tape: u64,
}

/// The statistics of a simulated run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// The name of the system, with the size of its cache: `Enzyme_32k`.
    pub system: String,
    /// The counts of the forward phase, or of the whole run if it has only one phase ([`Statistics::phases`]).
    pub forward: Counts,
    /// The counts of the reverse phase; all zero if the run has one phase.
    pub reverse: Counts,
    /// The number of changed cache lines that were still to be written back at the end of the run.
    pub left: u64,
    /// The number of tiles that were streamed to memory; a tile is the contents of a half of a stream's scratchpad
    /// entries.
    pub tiles: u64,
    /// The sizes of the arrays and of the tape.
    pub state: State,
    /// The energies of the run, counted in three ways.
    pub energy: Energy,
    /// The size of a cache line in bytes.
    pub(super) line: u64,
    /// The lifetime in ticks of each tape value, in the order in which the values are loaded.
    pub lifetimes: Vec<u64>,
}

impl Statistics {
    /// Returns the number of phases, 1 or 2. The second phase begins with the first step (top-level statement of the
    /// program) that reads kept values (values saved for the reverse pass) and keeps none. Without such a step, as in a
    /// loop that fuses both passes, the run has one phase.
    pub fn phases(&self) -> usize {
        if self.reverse == Counts::default() { 1 } else { 2 }
    }

    /// Returns the sum of the counts of the forward and of the reverse phase.
    pub fn whole(&self) -> Counts {
        self.forward + self.reverse
    }

    /// Returns the number of ticks of the whole run.
    pub fn ticks(&self) -> u64 {
        self.forward.ticks + self.reverse.ticks
    }

    /// Returns the number of cache lines moved from memory, as the TapeFlow paper counts them (without write-backs).
    pub fn paper_lines(&self) -> u64 {
        let fetched = self.forward.fetched + self.reverse.fetched;
        self.forward.fills() + self.reverse.fills() + self.lines(self.reverse.streamed) + fetched
    }

    /// Returns the number of cache lines moved in both directions; changed lines that are still in the cache at the
    /// end are not counted.
    pub fn full_lines(&self) -> u64 {
        let write_backs = self.forward.write_backs + self.reverse.write_backs;
        self.paper_lines() + write_backs + self.lines(self.forward.streamed)
    }

    fn lines(&self, entries: u64) -> u64 {
        (8 * entries).div_ceil(self.line.max(1))
    }

    /// Returns the fraction, from 0 to 1, of accesses to the tape among all accesses to cache and scratchpad.
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

    /// Returns clusters of tape values with similar lifetimes, shortest lifetimes first: at most five clusters, by
    /// k-means that starts from the means of the five quintiles.
    pub fn clusters(&self) -> Vec<Cluster> {
        clusters(&self.lifetimes)
    }
}

/// A cluster: tape values with similar lifetimes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cluster {
    /// The fraction, from 0 to 1, of all tape values that are in this cluster.
    pub fraction: f64,
    /// The mean lifetime of the cluster's values, in ticks.
    pub ticks: f64,
}

/// Clusters lifetimes by one-dimensional k-means: clusters of sorted numbers are intervals whose borders are halfway
/// between the means of neighbouring clusters.
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

/// The rows of the printed table of statistics: a title, and the count that the row prints for each phase.
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
    /// Prints a table with one column for the forward and one for the reverse phase. Rows in which all counts are zero
    /// are left out.
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
            "\nlines moved: {full}, by the paper's count {paper}; left to write: {}",
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
