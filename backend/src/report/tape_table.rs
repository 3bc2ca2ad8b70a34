//! The tape as a table: the values in memory between forward and reverse pass, the source lines that compute and read
//! them, and the values that are recomputed instead.
//!
//! ```text
//! value         bytes  how         made by             read at        region  layer            buffer  place        steps
//! act: f64[10]  80     stored      exp, src/main.rs:7  src/main.rs:7  r0      32 iterations of i2  b11     workspace+0  0-2
//! f64[]                recomputed  sub, src/main.rs:8  src/main.rs:9
//!
//! 80 bytes of 900 in the workspace
//! ```
//!
//! A value is on the tape if an equation of one pass computes it and an equation of a later pass reads it
//! ([`tapeloom_ir::Phase`]). The passes are forward and reverse pass, or, for a derivative of a gradient, the reverse
//! pass and its own reverse pass. A value that one iteration of the reverse pass both computes and reads is
//! workspace, not tape; residuals of loops inside that iteration are tape. Compiler passes that merge equations keep
//! the source line of the first one.
//!
//! Region and layer are those of the [layout](crate::layout) by which the tape would be streamed, on the machine for
//! which the program is compiled or on that of the study. Arrays of one region are interleaved, and a layer is the
//! number of iterations of a loop whose records are in the scratchpad at one time. A value without a layer is
//! accessed through the cache.

use crate::layout::{Layer, Layout};
use crate::report::columns::{escaped, table};
use crate::report::memory_plan::{Plan, Representation, Row, StepWorkspace, TapeInStep};
use crate::report::rematerialized::{READERS, Rematerialized};
use std::fmt;
use std::panic::Location;
use std::sync::LazyLock;
use tapeloom_ir::{Loc, Origin, ROUNDING};

/// The tape: the values in memory between forward and reverse pass. Displays as a table.
#[derive(Clone, Debug)]
pub struct TapePlan<'p> {
    plan: &'p Plan,
    layout: Option<Layout>,
}

impl<'p> TapePlan<'p> {
    /// Returns the table of a program that has no memory plan. The table has no rows.
    pub fn empty() -> TapePlan<'p> {
        static NO_PLAN: LazyLock<Plan> = LazyLock::new(Plan::default);
        TapePlan { plan: &NO_PLAN, layout: None }
    }

    /// Combines a memory plan with the layout by which the program's tape would be streamed.
    pub(crate) fn of(plan: &'p Plan, layout: Option<Layout>) -> TapePlan<'p> {
        TapePlan { plan, layout }
    }

    /// Returns the memory plan's rows of the buffers that the reverse pass reads, results included.
    pub fn rows(&self) -> impl Iterator<Item = &'p Row> {
        self.plan.rows.iter().filter(|row| row.tape)
    }

    /// Returns the memory layout by which the tape would be streamed, if there is one.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// Returns the cells for a buffer's region (its interleaved arrays) and layer (the loop iterations whose records
    /// are in the scratchpad at once); empty if the buffer has none.
    fn streamed(&self, row: &Row) -> [String; 2] {
        let region = self.layout.as_ref().and_then(|l| Some((l, l.region(row.buffer)?)));
        let Some((layout, id)) = region else { return [String::new(), String::new()] };
        let layer = layout.regions[id].layer.map_or(String::new(), |Layer { iterations, of }| {
            let of = of.map_or(String::new(), |index| format!(" of {index}"));
            format!("{iterations} iteration{}{of}", if iterations == 1 { "" } else { "s" })
        });
        [id.to_string(), layer]
    }

    /// Returns the tapes that exist only while one step (top-level statement) runs, such as residuals of loops inside
    /// one iteration of the reverse pass.
    pub fn inside(&self) -> impl Iterator<Item = &'p TapeInStep> {
        self.plan.inside.iter()
    }

    /// Returns the peak of the tape: the largest number of bytes of workspace that residuals take at one time,
    /// including the tapes inside steps. Records of dynamic tapes ([`Plan::tapes`]) are not included.
    pub fn bytes(&self) -> usize {
        self.plan.tape()
    }

    /// Returns the equations whose results the reverse pass recomputes.
    pub fn rematerialized(&self) -> &'p [Rematerialized] {
        &self.plan.rematerialized
    }

    /// Draws the lifetimes and offsets of the workspace as an SVG picture. Steps (top-level statements) run to the
    /// right and memory upward. Each buffer and each step's scratch memory is a rectangle, red for the tape, with its
    /// table row as the title.
    pub fn to_svg(&self) -> String {
        let (wide, high) = (800.0, 400.0);
        let steps = self.plan.steps.max(1) as f64;
        let peak = self.plan.peak.max(1) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-60 -20 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n",
            wide + 80.0,
            high + 60.0
        );
        let mut draw = |[first, last]: [usize; 2],
                        [offset, bytes]: [usize; 2],
                        colour,
                        title: &str| {
            let x = wide * first as f64 / steps;
            let width = wide * (last + 1 - first) as f64 / steps;
            let height = high * bytes as f64 / peak;
            let y = high - high * offset as f64 / peak - height;
            svg += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" fill-opacity=\"0.7\" stroke=\"white\"><title>{}</title></rect>\n",
                escaped(title)
            );
        };
        let [tape_colour, rest] = ["#c0392b", "#95a5a6"];
        for row in &self.plan.rows {
            if let Some(offset) = row.offset() {
                let colour = if row.tape { tape_colour } else { rest };
                let title = row.cells().join(" ");
                draw([row.first, row.last], [offset, row.ty.bytes()], colour, &title);
            }
        }
        // Draw the scratch memory of steps (top-level statements), with the tape inside each step at the bottom.
        for work in &self.plan.workspaces {
            let StepWorkspace { step, offset, bytes } = *work;
            let tape = self.inside().filter(|i| i.step == step).map(|i| i.bytes).sum::<usize>();
            draw(
                [step, step],
                [offset + tape, bytes.saturating_sub(tape)],
                rest,
                &work.cells().join(" "),
            );
            if tape > 0 {
                let title = format!("{tape} bytes of tape inside of step {step}");
                draw([step, step], [offset, tape], tape_colour, &title);
            }
        }
        svg += &format!(
            "<path d=\"M0 0V{high}H{wide}\" fill=\"none\" stroke=\"black\"/>\n<text x=\"{}\" y=\"{}\" text-anchor=\"end\">step {}</text>\n<text x=\"0\" y=\"-6\">{} bytes, of which {} are tape</text>\n</svg>\n",
            wide,
            high + 18.0,
            self.plan.steps,
            self.plan.peak,
            self.bytes()
        );
        svg
    }
}

/// The column headings of the printed tape table.
const HEADS: [&str; 10] =
    ["value", "bytes", "how", "made by", "read at", "region", "layer", "buffer", "place", "steps"];

/// A text line of the tape table. It stands for `times` values whose cells `about` are equal.
struct Line {
    /// The cells that are equal for all values of the line: value, representation, computing equation, and source
    /// lines of the reads.
    about: [String; 4],
    /// The number of bytes of one of the values; `None` if the value is recomputed.
    bytes: Option<usize>,
    /// The cells in which the values may differ, filled in for the first value: region, layer, buffer, place and
    /// steps.
    lies: [String; 5],
    times: usize,
}

impl Line {
    fn cells(&self) -> [String; 10] {
        let [value, how, made, read] = self.about.clone();
        let times = self.times;
        let value = if times > 1 { format!("{value}, {times} times") } else { value };
        let bytes = self.bytes.map_or(String::new(), |bytes| (bytes * times).to_string());
        let first = |cell: &String| match cell.is_empty() || times == 1 {
            true => cell.clone(),
            false => format!("{cell}, .."),
        };
        let [region, layer, buffer, place, steps] = self.lies.each_ref().map(first);
        [value, bytes, how, made, read, region, layer, buffer, place, steps]
    }
}

/// Prints a source location as `file:line`.
fn line(at: &Location<'_>) -> String {
    format!("{}:{}", at.file(), at.line())
}

/// Prints the primitive that computes a value, and its source line, as `exp, src/main.rs:7`.
fn made(what: &str, at: Loc) -> String {
    at.map_or(what.to_owned(), |at| format!("{what}, {}", line(at)))
}

/// Prints the source lines that read a value, each line once.
fn readers(all: &[Origin]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for at in all.iter().filter_map(|at| at.loc).map(line) {
        if !lines.contains(&at) {
            lines.push(at);
        }
    }
    if all.len() == READERS {
        lines.truncate(READERS - 1);
        lines.push("..".to_owned());
    }
    lines.join(", ")
}

impl TapePlan<'_> {
    /// Returns the lines of the printed table: values with the most bytes first, recomputed values last.
    fn lines(&self) -> Vec<Line> {
        let own = self.rows().map(|row| {
            let [buffer, _, _, _, place, steps, _] = row.cells();
            let [region, layer] = self.streamed(row);
            (row, [region, layer, buffer, place, steps])
        });
        let inside = self.inside().flat_map(|TapeInStep { step, rows, .. }| {
            let nothing = || String::new();
            let (place, step) = ("inside of a step".to_owned(), step.to_string());
            let lies = [nothing(), nothing(), nothing(), place, step];
            rows.iter().map(move |row| (row, lies.clone()))
        });
        let kept = own.chain(inside).map(|(row, lies)| {
            let how = row.how().to_string();
            let made = made(row.primitive, row.location);
            let about = [row.value(), how, made, readers(&row.read_back)];
            Line { about, bytes: Some(row.ty.bytes()), lies, times: 1 }
        });
        let again = self.rematerialized().iter().map(
            |Rematerialized { what, ty, location, read_at, times }| {
                let made = made(what, *location);
                let about = [ty.to_string(), "recomputed".to_owned(), made, readers(read_at)];
                Line { about, bytes: None, lies: [const { String::new() }; 5], times: *times }
            },
        );
        let mut lines: Vec<Line> = Vec::new();
        for line in kept.chain(again) {
            match lines.iter_mut().find(|other| other.about == line.about) {
                Some(other) => other.times += line.times,
                None => lines.push(line),
            }
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.bytes.map_or(0, |b| b * line.times)));
        lines
    }
}

impl fmt::Display for TapePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        if lines.iter().all(|line| line.bytes.is_none()) {
            writeln!(f, "the reverse pass reads no value that the forward pass saved")?;
        }
        if !lines.is_empty() {
            let cells = lines.iter().map(Line::cells);
            table(f, &[HEADS.map(String::from)].into_iter().chain(cells).collect::<Vec<_>>())?;
        }
        if self.rows().any(|row| row.how() == Representation::Rounded) {
            writeln!(
                f,
                "\nrounded: each number within {ROUNDING:.1e} of itself, if it is between {:.1e} and {:.1e} in size",
                f32::MIN_POSITIVE,
                f32::MAX
            )?;
        }
        writeln!(f, "\n{} bytes of {} in the workspace", self.bytes(), self.plan.peak)?;
        self.plan.records(f)
    }
}
