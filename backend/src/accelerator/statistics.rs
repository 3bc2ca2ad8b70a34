//! What a run came to.
//!
//! *Traffic* in lines has two metrics. The paper's counts lines that are filled, and what the reverse
//! stream brings; it leaves out lines that are written back and the forward stream:
//!
//! ```text
//! paper   fills + ceil(bytes streamed back / line) + lines of arguments streamed
//! full    the same + write-backs + ceil(bytes streamed out / line)
//! ```
//!
//! *Energy* is that of accesses on the chip, with the energies of Table III; memory is not in it:
//!
//! ```text
//! E = N_cache e(X) + N_scratchpad e_s
//! ```
//!
//! With a share f of the accesses on the tape, the gain of a cache of X bytes over one of 32 kB is
//! e(32k) / ((1 - f) e(X) + f e_s), whatever the times are: "up to 8.2 times" is arithmetic.
//!
//! *Lifetimes* are, of a value of the tape, the ticks from the end of its store to the issue of its load,
//! and of other values the ticks from the end of the operation to the issue of one that takes it.

use std::fmt;

/// The phases of a run: the function with its tape stores, the sweep back with its tape loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Forward,
    Reverse,
}

/// Accesses of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Accesses {
    /// Reads.
    pub loads: u64,
    /// Writes.
    pub stores: u64,
    /// Those of them that found no line in the cache, nor one under way.
    pub misses: u64,
}

impl Accesses {
    /// Reads and writes.
    pub fn count(self) -> u64 {
        self.loads + self.stores
    }
}

/// Sums of counts, field by field.
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

/// What one phase came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Ticks.
    pub ticks: u64,
    /// Operations that took a function unit, or none because they take no time.
    pub operations: u64,
    /// Accesses to the cache that are not of the tape,
    pub others: Accesses,
    /// those to the cache that are,
    pub tape: Accesses,
    /// and those to the scratchpad.
    pub scratchpad: Accesses,
    /// Accesses to lines that were under way: hits in the count, with a part of the time of a miss.
    pub merged: u64,
    /// Loads of arguments from the scratchpad, to which they were streamed from where they lie,
    pub inputs: u64,
    /// the lines that these streams got from memory,
    pub fetched: u64,
    /// and from the cache.
    pub snooped: u64,
    /// Changed lines that others replaced.
    pub write_backs: u64,
    /// Lines fetched ahead.
    pub prefetched: u64,
    /// Entries streamed between scratchpad and memory, and the requests they took.
    pub streamed: u64,
    /// See above.
    pub requests: u64,
    /// Layers.
    pub layers: u64,
    /// How often straight code ran that stores on the tape or reads it: iterations of loops, and what stands around them.
    pub blocks: u64,
    /// Operands that an operation of the same phase gave.
    pub edges: u64,
    /// Operands from the other phase: loads of the tape, and results that were carried over.
    pub crossing: u64,
    /// Lifetimes of values that are not of the tape, each from when it was there to its last use, in all.
    pub alive: u64,
    /// How many values that are. Uses more than 2^16 operations after the value are left out.
    pub values: u64,
}

// A field that is missing does not compile.
sums!(Counts: ticks operations others tape scratchpad merged inputs fetched snooped write_backs prefetched streamed
    requests layers blocks edges crossing alive values);

impl Counts {
    /// Accesses to the cache.
    pub fn cached(&self) -> Accesses {
        self.others + self.tape
    }

    /// Lines that came from memory into the cache.
    pub fn fills(&self) -> u64 {
        self.cached().misses + self.prefetched
    }

    /// Accesses to the tape, wherever it is.
    pub fn taped(&self) -> u64 {
        (self.tape + self.scratchpad).count()
    }
}

/// Energies of a run, in the unit of Table III.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Energy {
    /// As the paper counts.
    pub paper: u64,
    /// With another access to the scratchpad for each entry that is streamed.
    pub with_streams: u64,
    /// With another access to the cache for each line that is filled.
    pub with_fills: u64,
}

impl Energy {
    /// That of two phases, of so much for an access to the cache and to the scratchpad.
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

/// Bytes of what a run holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Arrays that are read and never written.
    pub input: u64,
    /// Arrays that are written.
    pub output: u64,
    /// The tape.
    pub tape: u64,
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// The system and the size of its cache.
    pub system: String,
    /// The forward phase; all of the run where there is one phase ([`Statistics::phases`]),
    pub forward: Counts,
    /// and the reverse one.
    pub reverse: Counts,
    /// Changed lines that were in the cache at the end.
    pub left: u64,
    /// Tiles that were streamed.
    pub tiles: u64,
    /// What it held.
    pub state: State,
    /// What its accesses cost.
    pub energy: Energy,
    /// Bytes of a line.
    pub(super) line: u64,
    /// Ticks from the store of each value of the tape to its load, in order of the loads.
    pub lifetimes: Vec<u64>,
}

impl Statistics {
    /// How many phases are told apart: one where no step of the program reads what was kept without keeping
    /// something itself, as where halves are fused into one loop, or iterations run forward again on the way back.
    pub fn phases(&self) -> usize {
        if self.reverse == Counts::default() { 1 } else { 2 }
    }

    /// What the whole run came to, whatever phases are told apart.
    pub fn whole(&self) -> Counts {
        self.forward + self.reverse
    }

    /// Ticks of both phases.
    pub fn ticks(&self) -> u64 {
        self.forward.ticks + self.reverse.ticks
    }

    /// Lines moved, as the paper counts.
    pub fn paper_lines(&self) -> u64 {
        let fetched = self.forward.fetched + self.reverse.fetched;
        self.forward.fills() + self.reverse.fills() + self.lines(self.reverse.streamed) + fetched
    }

    /// All lines moved; without those that are left in the cache at the end.
    pub fn full_lines(&self) -> u64 {
        let write_backs = self.forward.write_backs + self.reverse.write_backs;
        self.paper_lines() + write_backs + self.lines(self.forward.streamed)
    }

    fn lines(&self, entries: u64) -> u64 {
        (8 * entries).div_ceil(self.line.max(1))
    }

    /// Accesses to the tape among all accesses.
    pub fn tape_share(&self) -> f64 {
        let taped = self.forward.taped() + self.reverse.taped();
        let rest = |c: &Counts| c.others.count() + c.inputs;
        let all = taped + rest(&self.forward) + rest(&self.reverse);
        taped as f64 / all.max(1) as f64
    }

    /// Mean lifetime of values that are not of the tape, in ticks.
    pub fn mean_alive(&self) -> f64 {
        let Counts { alive, values, .. } = self.whole();
        alive as f64 / values.max(1) as f64
    }

    /// Clusters of the lifetimes of the tape, shortest first: at most five, by k-means from the means of
    /// the five quintiles.
    pub fn clusters(&self) -> Vec<Cluster> {
        clusters(&self.lifetimes)
    }
}

/// Values of the tape that live about as long.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cluster {
    /// Their part of all.
    pub fraction: f64,
    /// Their mean lifetime, in ticks.
    pub ticks: f64,
}

/// One-dimensional k-means: clusters of sorted numbers are intervals, whose borders lie halfway between
/// their means.
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

/// Rows of the table: what they are called, and what they count.
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
    /// A table with a column for each phase; of what did not happen there is no row.
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
