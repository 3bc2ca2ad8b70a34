//! Draws a profile as a picture in the manner of flame graphs.
//!
//! The picture follows *The flame graph* by Brendan Gregg (Communications of the ACM 59(6), 2016).

use super::{Profile, ProfileRow, milliseconds, share};
use crate::report::columns::escaped;
use std::time::Duration;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 22.0;
/// The width of a letter, in units of the picture. Names are cut to the width of their rectangles by this width.
const LETTER: f64 = 6.5;

/// A rectangle of the picture, which stands for the whole program, a loop, or a measured part.
struct Frame<'p> {
    name: &'p str,
    title: String,
    time: Duration,
    reverse: bool,
    inside: Vec<Frame<'p>>,
}

pub(super) fn draw(profile: &Profile) -> String {
    let (name, total) = (&profile.name, profile.total);
    let title = format!("@{name}: {} ms", milliseconds(total));
    let rows: Vec<&ProfileRow> = profile.rows.iter().collect();
    let inside = frames(&rows, 0, total);
    let whole = Frame { name, title, time: total, reverse: false, inside };
    let high = HEIGHT * whole.depth() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {high}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n"
    );
    let scale = WIDTH / total.as_secs_f64().max(1e-9);
    whole.draw(0.0, high - HEIGHT, scale, &mut svg);
    svg + "</svg>\n"
}

/// Returns the frames of the parts `rows`, which all lie in the same `depth` outermost loops. Adjacent parts in the
/// same loop at the next depth are drawn inside one frame for that loop.
fn frames<'p>(rows: &[&'p ProfileRow], depth: usize, total: Duration) -> Vec<Frame<'p>> {
    let outer = |row: &ProfileRow| row.around.get(depth).copied();
    let mut all = Vec::new();
    for group in rows.chunk_by(|a, b| outer(a).is_some() && outer(a) == outer(b)) {
        let row = group[0];
        if outer(row).is_none() {
            let [share, ms, calls, mb, rate, part, equations, lines] = row.cells(total);
            let title = format!(
                "{part}: {ms} ms, {share}, calls: {calls}, {mb} MB, {rate} GB/s: {equations}; {lines}"
            );
            let (name, time, reverse) = (&row.what, row.time, row.reverse);
            all.push(Frame { name, title, time, reverse, inside: Vec::new() });
            continue;
        }
        let (name, time) = (&row.within[depth], group.iter().map(|row| row.time).sum());
        let title = format!("{name}: {} ms, {}", milliseconds(time), share(time, total));
        let reverse = group.iter().all(|row| row.reverse);
        all.push(Frame { name, title, time, reverse, inside: frames(group, depth + 1, total) });
    }
    all
}

impl Frame<'_> {
    fn depth(&self) -> usize {
        1 + self.inside.iter().map(Frame::depth).max().unwrap_or(0)
    }

    /// Draws the frame with its left edge at `x` and its upper edge at `y`, and above it the frames of the parts
    /// inside.
    fn draw(&self, x: f64, y: f64, scale: f64, svg: &mut String) {
        let width = scale * self.time.as_secs_f64();
        let colour = match (self.inside.is_empty(), self.reverse) {
            (false, _) => "#bdc3c7",
            (true, false) => "#e67e22",
            (true, true) => "#c0392b",
        };
        let letters = (width / LETTER) as usize;
        let name: String = self.name.chars().take(letters.saturating_sub(1)).collect();
        *svg += &format!(
            "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" \
             height=\"{HEIGHT}\" fill=\"{colour}\" stroke=\"white\"/><text x=\"{:.2}\" \
             y=\"{:.1}\">{}</text></g>\n",
            escaped(&self.title),
            x + 3.0,
            y + HEIGHT - 7.0,
            escaped(&name)
        );
        let mut x = x;
        for frame in &self.inside {
            frame.draw(x, y - HEIGHT, scale, svg);
            x += scale * frame.time.as_secs_f64();
        }
    }
}
