//! Comparison with the tables of the TapeFlow paper's authors: cache misses, cache lines moved and speed of each
//! kernel, with counts that explain a difference.
//!
//! For a figure that differs too much, the table shows the accesses to the cache and to the tape in each pass, ours
//! divided by theirs. The machine is the same for all kernels and was fixed beforehand.

use super::raw::raw;
use super::runs::{Run, Runs};
use super::study::Study;
use crate::Failure;
use std::fmt;
use tapeloom::accelerator::{Counts, System};

/// Kernels whose time is modelled most accurately. For these, the speedup may differ less from the TapeFlow authors'.
const NEAR: [&str; 4] = ["mttkrp", "somier", "lenet", "pathfinder"];

/// A kernel's figures, with a 2-way cache of 32 kB and streams that cost no time, compared with the TapeFlow authors'
/// tables.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The name of the kernel.
    pub kernel: &'static str,
    /// The ratio of our misses to the TapeFlow authors': without streams, and with streams.
    pub misses: [f64; 2],
    /// The factor by which streams reduce the cache lines moved: ours, the TapeFlow authors'.
    pub lines: [f64; 2],
    /// The speedup by streams: ours, the TapeFlow authors'.
    pub faster: [f64; 2],
    /// The ratio of our accesses to the TapeFlow authors', outside the tape and to the tape, each in the forward and
    /// the reverse pass.
    pub accesses: [[f64; 2]; 2],
}

impl Row {
    /// Returns whether misses, cache lines and speedup are near enough to the TapeFlow authors' figures. Of the misses,
    /// only those of the run without streams are compared; the misses of the run with streams count among the cache
    /// lines that it moves.
    pub fn inside(&self) -> [bool; 3] {
        let near = |x: f64, y: f64, within: f64| (x / y - 1.0).abs() <= within;
        let speed = if NEAR.contains(&self.kernel) { 0.15 } else { 0.25 };
        [
            near(self.misses[0], 1.0, 0.1),
            near(self.lines[0], self.lines[1], 0.1),
            near(self.faster[0], self.faster[1], speed),
        ]
    }
}

/// Runs the simulations of these kernels, and compares them with the TapeFlow authors' tables.
///
/// # Errors
/// The errors of the compiler and the simulator.
pub fn acceptance(runs: &mut Runs, studies: &[Study]) -> Result<Vec<Row>, Failure> {
    studies.iter().map(|study| row(runs, study)).collect()
}

fn row(runs: &mut Runs, study: &Study) -> Result<Row, Failure> {
    const CACHE: u64 = 32 << 10;
    let raw = raw(study.name, CACHE).ok_or("no such table")?;
    let a = runs.get(study, Run::of(System::ENZYME, CACHE))?;
    let b = runs.get(study, Run::of(System::TFLOW_IDEAL, CACHE))?;
    let ratio = |a: u64, b: u64| a as f64 / b.max(1) as f64;
    let misses = |ours: [&Counts; 2], theirs: &[[u64; 3]; 2]| {
        ratio(ours.iter().map(|c| c.fills()).sum(), theirs[0][1] + theirs[1][1])
    };
    let phases = [&a.forward, &a.reverse];
    let accesses = [0, 1].map(|phase| {
        let theirs = raw.taped()[phase];
        [
            ratio(phases[phase].others.count(), raw.enzyme[phase][0] - theirs),
            ratio(phases[phase].taped(), theirs),
        ]
    });
    Ok(Row {
        kernel: study.name,
        misses: [misses(phases, &raw.enzyme), misses([&b.forward, &b.reverse], &raw.tflow)],
        lines: [ratio(a.paper_lines(), b.paper_lines()), ratio(raw.lines[0], raw.lines[1])],
        faster: [ratio(a.ticks(), b.ticks()), raw.faster()[2]],
        accesses,
    })
}

/// A comparison of two tapes on streams: the smallest tape, with streamed arguments, and the tape of the TapeFlow
/// study. Cotangents are accumulated in the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct Smallest {
    /// The name of the kernel.
    pub kernel: &'static str,
    /// Bytes of the two tapes: the smallest, and that of the TapeFlow study.
    pub bytes: [u64; 2],
    /// Cache lines moved: with the smallest tape, and with the tape of the TapeFlow study.
    pub lines: [u64; 2],
    /// Ticks (clock cycles): with the smallest tape, and with the tape of the TapeFlow study.
    pub ticks: [u64; 2],
}

impl Smallest {
    /// Returns whether the smallest tape moves no more cache lines and takes no more ticks than the TapeFlow study's
    /// tape, within 1 %.
    pub fn holds(&self) -> [bool; 2] {
        [self.lines, self.ticks].map(|[few, all]| 100 * few <= 101 * all)
    }
}

/// The placement of arrays in memory, for the two compared tapes: the smallest tape, and the tape of the TapeFlow
/// study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayPlacement {
    /// The placement of arrays for each side of the comparison: adjacent for the TapeFlow study's tape, 37 cache lines
    /// apart for the smallest tape.
    Own,
    /// Adjacent arrays for both tapes.
    Behind,
    /// The gap between arrays, of eight tried on each side, that moves the fewest lines, so that array sizes do not
    /// decide which arrays conflict in the cache.
    Best,
}

impl ArrayPlacement {
    /// All placements with their descriptions.
    pub const ALL: [(ArrayPlacement, &str); 3] = [
        (ArrayPlacement::Own, "the study's one after the other, ours 37 lines apart"),
        (ArrayPlacement::Behind, "one after the other"),
        (ArrayPlacement::Best, "with the fewest conflicts"),
    ];

    /// Returns the gaps between arrays, in bytes, to try for a run.
    fn gaps(self, run: &Run) -> Vec<u64> {
        const TRIED: u64 = 8;
        match self {
            ArrayPlacement::Own => vec![run.gap],
            ArrayPlacement::Behind => vec![0],
            ArrayPlacement::Best => (0..TRIED).map(|n| n * run.cache / run.ways / TRIED).collect(),
        }
    }
}

/// Compares, for each kernel, the smallest tape with the tape of the TapeFlow study.
///
/// # Errors
/// The errors of the compiler and the simulator.
pub fn smallest(
    runs: &mut Runs,
    studies: &[Study],
    places: ArrayPlacement,
) -> Result<Vec<Smallest>, Failure> {
    const CACHE: u64 = 32 << 10;
    let [few, all] = [Run::smallest(CACHE), Run::of(System::TFLOW, CACHE)];
    let mut best = |study: &Study, run: Run| {
        let place = |gap: u64| runs.get(study, Run { gap, ..run });
        let all = places.gaps(&run).into_iter().map(place).collect::<Result<Vec<_>, _>>()?;
        all.into_iter().min_by_key(|s| s.paper_lines()).ok_or_else(|| Failure::from("no gap"))
    };
    let mut of = |study: &Study| -> Result<Smallest, Failure> {
        let both = [best(study, few)?, best(study, all)?];
        Ok(Smallest {
            kernel: study.name,
            bytes: both.each_ref().map(|s| s.state.tape),
            lines: both.each_ref().map(|s| s.paper_lines()),
            ticks: both.each_ref().map(|s| s.ticks()),
        })
    };
    studies.iter().map(&mut of).collect()
}

impl fmt::Display for Smallest {
    /// Prints the comparison as a line of a table. An asterisk marks a figure of the smallest tape that is larger than
    /// that of the TapeFlow study's tape.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lines, ticks] = self.holds().map(|holds| if holds { ' ' } else { '*' });
        let Smallest { kernel, bytes, lines: [a, b], ticks: [c, d] } = self;
        let [few, all] = bytes;
        write!(f, "{kernel:12} {few:8} {all:8}  {a:7} {b:7}{lines}  {c:7} {d:7}{ticks}")
    }
}

impl fmt::Display for Row {
    /// Prints the comparison as a line of a table: the figures, their tolerances, and the accesses if a figure is not
    /// within its tolerance.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.inside();
        let mark = |i: usize| if inside[i] { ' ' } else { '*' };
        write!(
            f,
            "{:12} {:5.2} {:5.2}{} {:6.2} {:6.2}{} {:6.2} {:6.2}{}",
            self.kernel,
            self.misses[0],
            self.misses[1],
            mark(0),
            self.lines[0],
            self.lines[1],
            mark(1),
            self.faster[0],
            self.faster[1],
            mark(2)
        )?;
        let [[a, b], [c, d]] = self.accesses;
        write!(f, "  {a:5.2} {b:5.2} {c:5.2} {d:5.2}")
    }
}
