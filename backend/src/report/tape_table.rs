//! The tape as a table: what lies in memory between the forward pass and the way back, who made it and who
//! reads it, and what is computed again instead.
//!
//! ```text
//! value         bytes  how         made by             read at        region  layer            buffer  place        steps
//! act: f64[10]  80     stored      exp, src/main.rs:7  src/main.rs:7  r0      32 iterations of i2  b11     workspace+0  0-2
//! f64[]                recomputed  sub, src/main.rs:8  src/main.rs:9
//!
//! 80 bytes of 900 in the workspace
//! ```
//!
//! A value is on the tape if an equation of one pass made it and one of a later pass reads it
//! ([`tapeloom_ir::Phase`]): of the forward pass and the way back, or of that and the way back through it. What a
//! iteration of a loop works out and reads while it is undone is work and no tape; what loops in it leave is. Passes
//! that merge equations keep the line of the first.
//!
//! Region and layer are those of the [layout](crate::layout) by which the tape would be streamed, on the machine
//! that the program is for or that of the study: arrays of one region lie together, and so many iterations of a loop
//! come through its scratchpad at once. What has no layer would come through the cache.

use crate::layout::{Layer, Layout};
use crate::report::columns::table;
use crate::report::memory_plan::{How, Inside, Plan, Row, Works};
use crate::report::rematerialized::{READERS, Rematerialized};
use std::fmt;
use std::panic::Location;
use tapeloom_ir::{Loc, Origin, ROUNDING};

/// What lies in memory between the forward pass and the way back. Shows itself as a table.
#[derive(Clone, Debug)]
pub struct TapePlan<'p> {
    plan: &'p Plan,
    layout: Option<Layout>,
}

impl<'p> TapePlan<'p> {
    /// What a plan keeps, and how it would be laid out.
    pub(crate) fn of(plan: &'p Plan, layout: Option<Layout>) -> TapePlan<'p> {
        TapePlan { plan, layout }
    }

    /// The buffers that the way back reads, results among them.
    pub fn rows(&self) -> impl Iterator<Item = &'p Row> {
        self.plan.rows.iter().filter(|row| row.tape)
    }

    /// How it would be laid out to be streamed.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The region of a row, and its layer.
    fn streamed(&self, row: &Row) -> [String; 2] {
        let region = self.layout.as_ref().and_then(|l| Some((l, l.region(row.buffer)?)));
        let Some((layout, id)) = region else { return [String::new(), String::new()] };
        let layer = layout.regions[id].layer.map_or(String::new(), |Layer { iterations, of }| {
            let of = of.map_or(String::new(), |index| format!(" of {index}"));
            format!("{iterations} iteration{}{of}", if iterations == 1 { "" } else { "s" })
        });
        [id.to_string(), layer]
    }

    /// What lies inside of one step between a forward pass and its way back: while an iteration of a loop is undone,
    /// what loops in it keep.
    pub fn inside(&self) -> impl Iterator<Item = &'p Inside> {
        self.plan.inside.iter()
    }

    /// Bytes of the workspace between a forward pass and the way back, as many as there are at once, those inside
    /// of a step among them; records of loops of which only the run knows the iterations come on top
    /// ([`Plan::tapes`]).
    pub fn bytes(&self) -> usize {
        self.plan.tape()
    }

    /// What is computed again.
    pub fn again(&self) -> &'p [Rematerialized] {
        &self.plan.again
    }

    /// When every buffer of the workspace lives, and where: time to the right, memory upwards, one
    /// rectangle a buffer and one for what a step works in, tape in red. A picture in SVG, with the text of a row over its rectangle.
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
        // What a step works in, the tape of its own iterations at the bottom.
        for work in &self.plan.works {
            let Works { step, offset, bytes } = *work;
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The heads of the table.
const HEADS: [&str; 10] =
    ["value", "bytes", "how", "made by", "read at", "region", "layer", "buffer", "place", "steps"];

/// A line of the table, which may stand for several values.
struct Line {
    /// What they are, how they lie, who makes them, and who reads them.
    about: [String; 4],
    /// Bytes of each; none where it is computed again.
    bytes: Option<usize>,
    /// Region, layer, buffer, place and steps of the first.
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

/// A line of the source.
fn line(at: &Location<'_>) -> String {
    format!("{}:{}", at.file(), at.line())
}

/// Who makes a value.
fn made(what: &str, at: Loc) -> String {
    at.map_or(what.to_owned(), |at| format!("{what}, {}", line(at)))
}

/// Who reads it, each line once.
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
    /// The lines of the table, the largest values first, and what is computed again last.
    fn lines(&self) -> Vec<Line> {
        let own = self.rows().map(|row| {
            let [buffer, _, _, _, place, steps, _] = row.cells();
            let [region, layer] = self.streamed(row);
            (row, [region, layer, buffer, place, steps])
        });
        let inside = self.inside().flat_map(|Inside { step, rows, .. }| {
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
        let again =
            self.again().iter().map(|Rematerialized { what, ty, location, read_at, times }| {
                let made = made(what, *location);
                let about = [ty.to_string(), "recomputed".to_owned(), made, readers(read_at)];
                Line { about, bytes: None, lies: [const { String::new() }; 5], times: *times }
            });
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
            writeln!(f, "the way back reads nothing that the forward pass left in memory")?;
        }
        if !lines.is_empty() {
            let cells = lines.iter().map(Line::cells);
            table(f, &[HEADS.map(String::from)].into_iter().chain(cells).collect::<Vec<_>>())?;
        }
        if self.rows().any(|row| row.how() == How::Rounded) {
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
