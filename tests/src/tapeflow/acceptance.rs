//! Ours beside the authors' tables: misses, lines and speed of each kernel, and what explains a difference.
//!
//! What a figure outside its band is due to is counted: accesses to the cache and to the tape of each phase,
//! ours over theirs. The machine is the same for all kernels and was fixed before.

use super::raw::raw;
use super::runs::{Run, Runs};
use super::study::Study;
use crate::Failure;
use std::fmt;
use tapeloom::accelerator::{Counts, System};

/// Kernels of which time is modelled best.
const NEAR: [&str; 4] = ["mttkrp", "somier", "lenet", "pathfinder"];

/// A kernel with a cache of 32 kB in two ways, streams free of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Which.
    pub kernel: &'static str,
    /// Misses through the cache and with streams, ours over theirs.
    pub misses: [f64; 2],
    /// How many times fewer lines streams move: ours, theirs.
    pub lines: [f64; 2],
    /// How many times faster they are: ours, theirs.
    pub faster: [f64; 2],
    /// Accesses that are not of the tape, and those that are, forward and backward: ours over theirs.
    pub accesses: [[f64; 2]; 2],
}

impl Row {
    /// Whether misses (through the cache: those of streams are among the lines), lines and speed are within
    /// their bands.
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

/// The comparison of some kernels.
///
/// # Errors
/// What the compiler and the machine say.
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

/// The smallest tape with arguments streamed from where they lie, over the study's tape on streams, with cotangents
/// added in the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct Smallest {
    /// Which kernel.
    pub kernel: &'static str,
    /// Bytes of tape, lines moved and ticks: of the smallest tape, and of the study's.
    pub bytes: [u64; 2],
    /// See above.
    pub lines: [u64; 2],
    /// See above.
    pub ticks: [u64; 2],
}

impl Smallest {
    /// Whether lines and ticks are no more, within a hundredth.
    pub fn holds(&self) -> [bool; 2] {
        [self.lines, self.ticks].map(|[few, all]| 100 * few <= 101 * all)
    }
}

/// Where arrays lie, on either side of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// Each system has its own: one behind the other for the study's, 37 lines apart for ours.
    Own,
    /// One behind the other on both sides.
    Behind,
    /// With the gap between them of eight with which the side moves the fewest lines, so that sizes do not decide which
    /// arrays meet in the cache.
    Best,
}

impl Places {
    /// All, and what they are called.
    pub const ALL: [(Places, &str); 3] = [
        (Places::Own, "the study's one behind the other, ours 37 lines apart"),
        (Places::Behind, "one behind the other"),
        (Places::Best, "where they meet least"),
    ];

    /// The gaps that a run is tried with.
    fn gaps(self, run: &Run) -> Vec<u64> {
        const TRIED: u64 = 8;
        match self {
            Places::Own => vec![run.gap],
            Places::Behind => vec![0],
            Places::Best => (0..TRIED).map(|n| n * run.cache / run.ways / TRIED).collect(),
        }
    }
}

/// The comparison of the smallest tapes with the study's.
///
/// # Errors
/// What the compiler and the machine say.
pub fn smallest(
    runs: &mut Runs,
    studies: &[Study],
    places: Places,
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
    /// A line of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [lines, ticks] = self.holds().map(|holds| if holds { ' ' } else { '*' });
        let Smallest { kernel, bytes, lines: [a, b], ticks: [c, d] } = self;
        let [few, all] = bytes;
        write!(f, "{kernel:12} {few:8} {all:8}  {a:7} {b:7}{lines}  {c:7} {d:7}{ticks}")
    }
}

impl fmt::Display for Row {
    /// A line of the table: figures, bands, and accesses where a figure is outside.
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
