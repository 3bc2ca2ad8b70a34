//! Line charts as SVG, for the pictures of the book.
//!
//! Coordinates are rounded to a tenth of a pixel, so that the last bits of a number do not change a picture.

/// A chart of two axes under construction. Marks are drawn in the order of the calls.
pub(super) struct Chart {
    /// The size of the plotted area in pixels.
    size: [f64; 2],
    x: [f64; 2],
    y: [f64; 2],
    marks: String,
    legend: Vec<(&'static str, &'static str)>,
}

impl Chart {
    /// Returns an empty chart of 600 by 240 pixels whose axes show these ranges.
    pub(super) fn new(x: [f64; 2], y: [f64; 2]) -> Chart {
        Chart { size: [600.0, 240.0], x, y, marks: String::new(), legend: Vec::new() }
    }

    /// Sets the size of the plotted area in pixels; marks are drawn after that.
    #[must_use]
    pub(super) fn size(self, size: [f64; 2]) -> Chart {
        Chart { size, ..self }
    }

    /// Draws the polyline through `points`, and adds its name to the legend.
    #[must_use]
    pub(super) fn line(
        self,
        name: &'static str,
        colour: &'static str,
        points: &[(f64, f64)],
    ) -> Chart {
        let mark = format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>\n",
            self.path(points)
        );
        self.named(name, colour, &mark)
    }

    /// Draws a dot at each of `points`, and adds their name to the legend.
    #[must_use]
    pub(super) fn dots(
        self,
        name: &'static str,
        colour: &'static str,
        points: &[(f64, f64)],
    ) -> Chart {
        let mut mark = String::new();
        for p in points {
            let [x, y] = self.pixel(*p);
            mark += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>\n");
        }
        self.named(name, colour, &mark)
    }

    /// Fills the area between two functions of x, given as `(x, lower, upper)`, and adds its name to the legend.
    #[must_use]
    pub(super) fn band(
        self,
        name: &'static str,
        colour: &'static str,
        points: &[(f64, f64, f64)],
    ) -> Chart {
        let upper = points.iter().map(|(x, _, high)| (*x, *high));
        let lower = points.iter().rev().map(|(x, low, _)| (*x, *low));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        let mark = format!("<polygon points=\"{}\" fill=\"{colour}\"/>\n", self.path(&outline));
        self.named(name, colour, &mark)
    }

    /// Fills rectangles, given as `[left, bottom, right, top]`, and adds their name to the legend.
    #[must_use]
    pub(super) fn cells(
        self,
        name: &'static str,
        colour: &'static str,
        cells: &[[f64; 4]],
    ) -> Chart {
        let mut path = String::new();
        for [left, bottom, right, top] in cells {
            let ([left, bottom], [right, top]) =
                (self.pixel((*left, *bottom)), self.pixel((*right, *top)));
            path += &format!("M{left:.1} {bottom:.1}H{right:.1}V{top:.1}H{left:.1}");
        }
        self.named(name, colour, &format!("<path d=\"{path}\" fill=\"{colour}\"/>\n"))
    }

    fn named(mut self, name: &'static str, colour: &'static str, mark: &str) -> Chart {
        self.marks += mark;
        if !name.is_empty() {
            self.legend.push((name, colour));
        }
        self
    }

    fn pixel(&self, (x, y): (f64, f64)) -> [f64; 2] {
        let share = |v: f64, [from, to]: [f64; 2]| (v - from) / (to - from);
        [self.size[0] * share(x, self.x), self.size[1] * (1.0 - share(y, self.y))]
    }

    fn path(&self, points: &[(f64, f64)]) -> String {
        let points = points.iter().map(|p| self.pixel(*p));
        points.map(|[x, y]| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    }

    /// Returns the picture, with the names of its axes and with numbers at these places of the axes.
    pub(super) fn svg(&self, names: [&str; 2], ticks: [&[f64]; 2]) -> String {
        let [width, height] = self.size;
        let (right, bottom) = (width + 64.0, height + 64.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-50 -24 {right} {bottom}\" \
             width=\"{right}\" height=\"{bottom}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect x=\"-50\" y=\"-24\" width=\"{right}\" height=\"{bottom}\" fill=\"white\"/>\n\
             <clipPath id=\"area\"><rect width=\"{width}\" height=\"{height}\"/></clipPath>\n\
             <g clip-path=\"url(#area)\">\n{}</g>\n\
             <path d=\"M0 0V{height}H{width}\" fill=\"none\" stroke=\"black\"/>\n",
            self.marks
        );
        for at in ticks[0] {
            let [x, _] = self.pixel((*at, self.y[0]));
            svg += &format!(
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{at}</text>\n",
                height + 16.0
            );
        }
        for at in ticks[1] {
            let [_, y] = self.pixel((self.x[0], *at));
            svg +=
                &format!("<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>\n", y + 4.0);
        }
        svg += &format!(
            "<text x=\"{width}\" y=\"{}\" text-anchor=\"end\">{}</text>\n<text x=\"-44\" y=\"-10\">{}</text>\n",
            height + 34.0,
            names[0],
            names[1]
        );
        let mut x = 0.2 * width;
        for (name, colour) in &self.legend {
            svg += &format!(
                "<rect x=\"{x}\" y=\"-18\" width=\"14\" height=\"8\" fill=\"{colour}\"/>\n\
                 <text x=\"{}\" y=\"-10\">{name}</text>\n",
                x + 18.0
            );
            x += 40.0 + 6.6 * name.chars().count() as f64;
        }
        svg + "</svg>\n"
    }
}
