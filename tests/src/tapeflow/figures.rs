//! The figures of the TapeFlow paper, plotted from our measurements: a bar for each kernel and system.

use super::claims::{CLAIMS, Outcome, Record};
use super::runs::Runs;
use crate::Failure;
use std::fmt::Write;

/// A figure of the TapeFlow paper, plotted from our measurements.
pub struct Figure {
    /// The number of the figure in the TapeFlow paper.
    pub number: usize,
    /// The title of the figure.
    pub title: &'static str,
    /// The numbers of the claims whose records are plotted as bars.
    claims: &'static [usize],
}

macro_rules! figures {
    ($($number:literal $title:literal $($claim:literal)+;)*) => {
        /// All figures of the TapeFlow paper that are plotted.
        pub const FIGURES: &[Figure] =
            &[$(Figure { number: $number, title: $title, claims: &[$($claim),+] },)*];
    };
}

figures! {
    2 "state with the tape over state without" 1;
    6 "tape among accesses, and both phases over the forward one" 2;
    7 "lifetimes of the tape over those of other values" 3;
    10 "backward phase: speed over a cache of 32 kB" 4;
    11 "forward phase: speed over a cache of 32 kB" 5;
    12 "lines moved: without streams over with" 7 8 9 10;
    13 "lines that layouts save" 11;
    14 "energy: a cache of 32 kB over streams" 12 13;
    15 "points of time and energy that streams improve" 15;
    16 "lines moved with scratchpads of all sizes" 17;
    17 "pathfinder, unrolled further and further" 18;
    18 "everything unrolled" 19;
}

const COLOURS: [&str; 6] = ["#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b7791f", "#718096"];
const BAR: usize = 14;
const WIDTH: usize = 420;

impl Figure {
    /// Measures the claims of the figure, and returns the figure as SVG.
    ///
    /// # Errors
    /// The errors of the compiler and the simulator.
    pub fn svg(&self, runs: &mut Runs) -> Result<String, Failure> {
        let mut records = Vec::new();
        for claim in CLAIMS.iter().filter(|claim| self.claims.contains(&claim.number)) {
            let Outcome { records: found, .. } = (claim.measure)(runs)?;
            records.extend(found);
        }
        Ok(self.drawn(&records)?)
    }

    fn drawn(&self, records: &[Record]) -> Result<String, std::fmt::Error> {
        let mut systems: Vec<&str> = Vec::new();
        for record in records {
            if !systems.contains(&record.system.as_str()) {
                systems.push(&record.system);
            }
        }
        let most = records.iter().map(|r| r.value).fold(f64::MIN_POSITIVE, f64::max);
        let height = 50 + BAR * (records.len() + systems.len());
        let mut svg = String::new();
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">"
        )?;
        let title = format!("Figure {}: {}", self.number, self.title);
        writeln!(svg, "<text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>")?;
        let mut y = 36;
        for (n, system) in systems.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            writeln!(svg, "<text x=\"10\" y=\"{}\" fill=\"{colour}\">{system}</text>", y + 10)?;
            y += BAR;
            for record in records.iter().filter(|r| r.system == *system) {
                let width = (record.value / most).max(0.0) * WIDTH as f64;
                let (top, text) = (y + 2, y + 11);
                writeln!(svg, "<text x=\"20\" y=\"{text}\">{}</text>", record.kernel)?;
                writeln!(
                    svg,
                    "<rect x=\"110\" y=\"{top}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\"/>"
                )?;
                let beside = record.raw.map_or(String::new(), |raw| format!(" (authors {raw:.2})"));
                let at = 114.0 + width;
                writeln!(
                    svg,
                    "<text x=\"{at:.1}\" y=\"{text}\">{:.2}{beside}</text>",
                    record.value
                )?;
                y += BAR;
            }
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }
}
