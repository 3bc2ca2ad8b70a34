//! The tape as a table: what lies in memory between the forward pass and the way back, who made it and who
//! reads it, and what is computed again instead.
//!
//! ```text
//! buffer  what       type      bytes  how     region  layer         place        steps  made at        read at
//! b11     the carry  f64[100]  800    stored  r0      32 rounds i2  workspace+0  0-2    src/main.rs:7  src/main.rs:7
//!
//! computed again
//! what  type   times  at
//! sub   f64[]  1      src/main.rs:8
//!
//! 800 bytes of 900 in the workspace
//! ```
//!
//! A value is on the tape if an equation of the forward pass made it and one of reverse mode reads it
//! ([`tapeloom_ir::Spot`]). Passes that merge equations keep the line of the first.
//!
//! Region and layer are those of the [layout](crate::layout) by which the tape would be streamed, on the machine
//! that the program is for or that of the study: arrays of one region lie together, and so many rounds of a loop
//! come through its scratchpad at once. What has no layer would come through the cache.

use crate::accelerator::Setup;
use crate::compile::Report;
use crate::layout::{Layer, Layout, Pipeline, Room};
use crate::plan::{How, Plan, Row};
use crate::target::Target;
use std::fmt;
use tapeloom_ir::{FuncId, Loc, Module, OrderedMap, OrderedSet, ROUNDING, Type};

/// What the way back computes again at one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Again {
    /// The primitive.
    pub what: &'static str,
    /// What it gives.
    pub ty: Type,
    /// The line.
    pub location: Loc,
    /// In how many places of the program.
    pub times: usize,
}

/// What a program computes again, each primitive of each line once.
pub(crate) fn again(module: &Module, function: FuncId) -> Vec<Again> {
    let mut found: OrderedMap<(&'static str, Type, Loc), usize> = OrderedMap::default();
    let (mut seen, mut open) = (OrderedSet::default(), vec![function]);
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let f = module.function(id);
        for (i, e) in f.equations.iter().enumerate() {
            open.extend(e.op.regions().iter().filter(|r| r.role.runs()).map(|r| r.function));
            let at = f.location(i).filter(|at| at.again);
            if let (Some(at), Some(y)) = (at, e.outputs.first()) {
                *found.entry((e.op.name(), f.types[*y].clone(), Some(at))).or_default() += 1;
            }
        }
    }
    let again = |((what, ty, location), times)| Again { what, ty, location, times };
    found.into_iter().map(again).collect()
}

/// What lies in memory between the forward pass and the way back. Shows itself as a table.
#[derive(Clone, Debug)]
pub struct TapePlan<'p> {
    plan: &'p Plan,
    layout: Option<Layout>,
}

impl Report {
    /// What lies in memory between the forward pass and the way back.
    pub fn tape(&self) -> TapePlan<'_> {
        let room = match &self.target {
            Target::Accelerator(machine) => Setup::from(machine.clone()).room(),
            Target::Native(_) | Target::Interpreter => Room::default(),
        };
        let layout = Pipeline::TFLOW.run(&self.program, &room).ok();
        TapePlan { plan: &self.plan, layout }
    }
}

impl<'p> TapePlan<'p> {
    /// The buffers that the way back reads, results among them.
    pub fn rows(&self) -> impl Iterator<Item = &'p Row> {
        self.plan.rows.iter().filter(|row| row.read_back.is_some())
    }

    /// How it would be laid out to be streamed.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The region of a row, and its layer.
    fn streamed(&self, row: &Row) -> [String; 2] {
        let region = self.layout.as_ref().and_then(|l| Some((l, l.region(row.buffer)?)));
        let Some((layout, id)) = region else { return [String::new(), String::new()] };
        let layer = layout.regions[id].layer.map_or(String::new(), |Layer { rounds, of }| {
            let of = of.map_or(String::new(), |index| format!(" {index}"));
            format!("{rounds} rounds{of}")
        });
        [id.to_string(), layer]
    }

    /// Bytes of the workspace that the way back reads, as many as there are at once; records of loops of
    /// which only the run knows the rounds come on top ([`Plan::tapes`]).
    pub fn bytes(&self) -> usize {
        let rows = || self.rows().filter(|row| row.is_workspace());
        // There are most where one begins.
        let at = |step: usize| rows().filter(move |row| row.first <= step && step <= row.last);
        let bytes = |step: usize| at(step).map(|row| row.ty.bytes()).sum();
        rows().map(|row| bytes(row.first)).max().unwrap_or(0)
    }

    /// What is computed again.
    pub fn again(&self) -> &'p [Again] {
        &self.plan.again
    }

    /// When every buffer of the workspace lives, and where: time to the right, memory upwards, one
    /// rectangle a buffer, tape in red. A picture in SVG, with the text of a row over its rectangle.
    pub fn to_svg(&self) -> String {
        let (wide, high) = (800.0, 400.0);
        let steps = self.plan.steps.max(1) as f64;
        let peak = self.plan.peak.max(1) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-60 -20 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n",
            wide + 80.0,
            high + 60.0
        );
        let rows = self.plan.rows.iter().filter_map(|row| Some((row, row.offset()?)));
        for (row, offset) in rows {
            let x = wide * row.first as f64 / steps;
            let width = wide * (row.last + 1 - row.first) as f64 / steps;
            let height = high * row.ty.bytes() as f64 / peak;
            let y = high - high * offset as f64 / peak - height;
            let colour = if row.read_back.is_some() { "#c0392b" } else { "#95a5a6" };
            let title = row.cells().join(" ");
            svg += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" fill-opacity=\"0.7\" stroke=\"white\"><title>{}</title></rect>\n",
                escaped(&title)
            );
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

impl fmt::Display for TapePlan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |loc: Loc| loc.map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
        let heads = [
            "buffer", "what", "type", "bytes", "how", "region", "layer", "place", "steps",
            "made at", "read at",
        ];
        let mut lines = vec![heads.map(String::from)];
        for row in self.rows() {
            let [buffer, what, ty, bytes, place, steps, made] = row.cells();
            let how = row.how().to_string();
            let [region, layer] = self.streamed(row);
            let read = at(row.read_back);
            lines.push([buffer, what, ty, bytes, how, region, layer, place, steps, made, read]);
        }
        match lines.len() {
            1 => writeln!(f, "the way back reads nothing that the forward pass left in memory")?,
            _ => table(f, &lines)?,
        }
        if self.rows().any(|row| row.how() == How::Rounded) {
            writeln!(
                f,
                "\nrounded: each number within {ROUNDING:.1e} of itself, if it is between {:.1e} and {:.1e} in size",
                f32::MIN_POSITIVE,
                f32::MAX
            )?;
        }
        if !self.again().is_empty() {
            writeln!(f, "\ncomputed again")?;
            let mut lines = vec![["what", "type", "times", "at"].map(String::from)];
            for Again { what, ty, location, times } in self.again() {
                lines.push([what.to_string(), ty.to_string(), times.to_string(), at(*location)]);
            }
            table(f, &lines)?;
        }
        writeln!(f, "\n{} bytes of {} in the workspace", self.bytes(), self.plan.peak)?;
        self.plan.records(f)
    }
}

/// Lines of cells, in columns.
pub(crate) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    lines: &[[String; N]],
) -> fmt::Result {
    let width = |i: usize| lines.iter().map(|line| line[i].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(widths).map(|(cell, w)| format!("{cell:w$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}
