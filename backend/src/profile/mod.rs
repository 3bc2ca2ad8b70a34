//! Profiles: where the time of a compiled program goes.
//!
//! [`instrument`](instrument::instrument) puts timers into the loop program, behind the statements that have enough
//! work. A [`Profile`] is the table of their counts, with the user's lines, which [`Origins`] carry from the equations
//! of the function to the statements.

mod instrument;
pub(crate) mod session;
pub(crate) mod steps;
mod svg;
#[cfg(test)]
mod tests;

pub(crate) use instrument::{Instrumented, instrument};

use crate::loop_ir::timers::Timers;
use crate::loop_ir::{Origins, Timed, TimerId, TimerTotals};
use crate::report::columns::table;
use cranelift_entity::EntityRef;
use instrument::TimedPart;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use tapeloom_ir::Loc;

/// The time, calls and memory traffic of the parts of a compiled program: its loops, contractions and calls of
/// routines. A profile prints as a table, the slowest part first, and can be drawn as a picture ([`Profile::svg`]).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Profile {
    /// The name of the program.
    pub name: String,
    /// The measured parts, in the order of the program; the parts of called functions come last.
    pub rows: Vec<ProfileRow>,
    /// The number of calls of the program that were measured.
    pub calls: u64,
    /// The time that the measured calls spent in machine code.
    pub total: Duration,
}

/// A measured part of a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProfileRow {
    /// The kind and size of the part's largest statement: `for 8 x 100` (a loop and the loop inside it), `contract
    /// 64x64x64` (a product of matrices), or the name of a routine or Rust function.
    pub what: String,
    /// The loops, branches and functions around the part whose statements are measured one by one, outermost first.
    pub within: Vec<String>,
    /// The number of further loops, contractions and calls in the part, which have less work.
    pub smaller: usize,
    /// The names of the primitives that the largest statement computes, in the order of the program.
    pub equations: Vec<&'static str>,
    /// The user's lines of the equations that the largest statement computes, sorted. An equation of a derivative has
    /// the line of the operation that was differentiated.
    pub lines: Vec<ProfileLine>,
    /// The user's lines of the statements that `smaller` counts, sorted.
    pub smaller_lines: Vec<ProfileLine>,
    /// Whether the largest statement computes equations of a reverse pass.
    pub reverse: bool,
    /// The number of times the part has run.
    pub calls: u64,
    /// The time of all runs of the part together.
    pub time: Duration,
    /// The estimated bytes of memory that all runs of the part have read and written. In one run, an element counts
    /// once for reading and once for writing, however often it is accessed.
    pub bytes: u64,
    /// The numbers of the statements in `within`, by which the picture recognizes the parts of one loop.
    around: Vec<usize>,
}

/// A line of the user's source. Displays as `src/main.rs:7`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProfileLine {
    /// The path of the file, as the compiler was given it.
    pub file: &'static str,
    /// The number of the line; 1 is the first.
    pub line: u32,
}

impl fmt::Display for ProfileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Profile {
    /// Returns the profile of `calls` calls of a program, from the counts of its timers.
    pub(crate) fn of(name: &str, of: &Instrumented, timed: &Timed, calls: u64) -> Profile {
        let row = |(id, part): (TimerId, &TimedPart)| {
            let counted = timed.timers.get(id.index()).copied().unwrap_or_default();
            ProfileRow::of(part, of, counted)
        };
        let rows = of.parts.iter().map(row).collect();
        Profile { name: name.to_owned(), rows, calls, total: timed.total }
    }

    /// Returns the part that took the most time; `None` if no part has enough work to be measured.
    pub fn slowest(&self) -> Option<&ProfileRow> {
        self.rows.iter().max_by_key(|row| row.time)
    }

    /// Returns the time that belongs to no measured part of the program: the time before the first part of a call, and
    /// the time of the statements after the last part.
    pub fn rest(&self) -> Duration {
        self.total.saturating_sub(self.rows.iter().map(|row| row.time).sum())
    }

    /// Returns the number of readings of the clock during the calls: one for each run of a part.
    pub fn readings(&self) -> u64 {
        self.rows.iter().map(|row| row.calls).sum()
    }

    /// Draws the profile as an SVG picture: the width of a rectangle is its time, the whole program is at the bottom,
    /// and the parts of a loop stand on the loop. The title of a rectangle is its row of the table.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}

impl ProfileRow {
    fn of(
        part: &TimedPart,
        of: &Instrumented,
        TimerTotals { time, runs }: TimerTotals,
    ) -> ProfileRow {
        let outer = std::iter::successors(part.within, |i| of.around[*i].within);
        let mut around: Vec<usize> = outer.collect();
        around.reverse();
        ProfileRow {
            what: part.what.clone(),
            within: around.iter().map(|i| of.around[*i].what.clone()).collect(),
            smaller: part.smaller,
            equations: primitives(&part.origins),
            lines: lines(&part.origins),
            smaller_lines: lines(&part.smaller_origins),
            reverse: is_reverse(&part.origins),
            calls: runs,
            time,
            bytes: part.bytes.saturating_mul(runs),
            around,
        }
    }

    /// Returns the cell that names the part: the loops and functions around it, its own kind, and the number of smaller
    /// statements.
    fn part(&self) -> String {
        let mut path = self.within.clone();
        path.push(self.what.clone());
        let path = path.join(" > ");
        if self.smaller > 0 { format!("{path} + {} smaller", self.smaller) } else { path }
    }

    /// Returns the cells of the part's row of the printed table; `total` is the time of all parts.
    fn cells(&self, total: Duration) -> [String; 8] {
        [
            share(self.time, total),
            milliseconds(self.time),
            self.calls.to_string(),
            format!("{:.1}", self.bytes as f64 / 1e6),
            format!("{:.1}", self.bytes as f64 / self.time.as_nanos().max(1) as f64),
            self.part(),
            first_words(self.equations.iter().map(ToString::to_string)),
            self.sources(),
        ]
    }

    /// Returns the table cell with the user's source lines.
    fn sources(&self) -> String {
        let mut cell = first_words(self.lines.iter().map(ToString::to_string));
        if self.reverse {
            cell += " (reverse)";
        }
        if !self.smaller_lines.is_empty() {
            let smaller = first_words(self.smaller_lines.iter().map(ToString::to_string));
            cell = format!("{cell}; smaller: {smaller}");
        }
        cell
    }
}

/// Returns the names of the primitives of the equations `origins`, each once.
fn primitives(origins: &Origins) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for computed in origins.iter() {
        if !names.contains(&computed.primitive) {
            names.push(computed.primitive);
        }
    }
    names
}

/// Returns the user's source lines of the equations `origins`, sorted.
fn lines(origins: &Origins) -> Vec<ProfileLine> {
    let line = |loc: Loc| loc.map(|l| ProfileLine { file: l.file(), line: l.line() });
    let all: BTreeSet<ProfileLine> = origins.iter().filter_map(|c| line(c.origin.loc)).collect();
    all.into_iter().collect()
}

/// Returns the user's source lines of the equations `origins` as text, at most the first few.
pub(crate) fn lines_of(origins: &Origins) -> String {
    first_words(lines(origins).iter().map(ToString::to_string))
}

fn is_reverse(origins: &Origins) -> bool {
    origins.iter().any(|computed| computed.origin.phase.order > 0)
}

/// Prints the program and the parts that its timers measure.
impl fmt::Display for Instrumented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program)?;
        for (id, part) in &self.parts {
            let row = ProfileRow::of(part, self, TimerTotals { runs: 1, ..TimerTotals::default() });
            let ProfileRow { equations, bytes, .. } = &row;
            writeln!(f, "{id}: {}: {}, {bytes} bytes", row.part(), equations.join(", "))?;
        }
        Ok(())
    }
}

/// The largest number of names, or of source lines, that a table cell lists.
const SHOWN: usize = 4;

/// Returns the first `SHOWN` words of a list, and if there are more words, the text `3 more` with their number.
fn first_words(words: impl ExactSizeIterator<Item = String>) -> String {
    let more = words.len().saturating_sub(SHOWN);
    let mut shown: Vec<String> = words.take(SHOWN).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

fn share(time: Duration, total: Duration) -> String {
    format!("{:.1} %", 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-9))
}

/// Measures the time that one reading of the clock takes, including the call of the timer's function.
fn reading() -> Duration {
    let times = 1000;
    let mut timers = Timers::start(1);
    (0..times).for_each(|_| timers.lap(TimerId::new(0)));
    timers.end().total / times
}

/// Prints the table, the slowest part first.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.calls == 1 { "" } else { "s" };
        writeln!(f, "@{}: {} ms in {} call{s}", self.name, milliseconds(self.total), self.calls)?;
        let heads = ["time", "ms", "calls", "MB", "GB/s", "part", "equations", "lines"];
        let mut rows: Vec<&ProfileRow> = self.rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.time));
        let mut lines = vec![heads.map(String::from)];
        lines.extend(rows.iter().map(|row| row.cells(self.total)));
        let mut rest = [const { String::new() }; 8];
        (rest[0], rest[1]) = (share(self.rest(), self.total), milliseconds(self.rest()));
        "(rest)".clone_into(&mut rest[5]);
        lines.push(rest);
        table(f, &lines)?;
        if self.rows.iter().any(|row| row.smaller > 0) {
            writeln!(
                f,
                "smaller: loops and calls of less than some 2 microseconds, counted with a neighbour"
            )?;
        }
        let (readings, clock) = (self.readings(), reading());
        let spent = clock.saturating_mul(u32::try_from(readings).unwrap_or(u32::MAX));
        writeln!(
            f,
            "the clock was read {readings} times, which took about {} of the time",
            share(spent, self.total)
        )
    }
}
