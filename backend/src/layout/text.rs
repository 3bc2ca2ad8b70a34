//! The text form of layouts: [`Layout::parse`] reads the output of `Display`.

use super::{Field, Holds, Input, Layer, Layout, Loop, Read, Region, Tile};
use crate::loop_ir::{BufferId, IndexId, ScalarId, TapeId};
use cranelift_entity::{EntityRef, PrimaryMap};
use std::fmt;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::{Kind, Problem};

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Read::Mirrored => "mirrored",
            Read::Same => "in order",
            Read::Otherwise => "otherwise",
            Read::Run => "as the run says",
        })
    }
}

const READS: [Read; 4] = [Read::Mirrored, Read::Same, Read::Otherwise, Read::Run];

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, entries) = (self.width, self.entries());
        match &self.holds {
            Holds::Arrays { fields, records } => {
                writeln!(f, "    record {width} bytes, {records} of them")?;
                writeln!(f, "    read {}", self.read)?;
                for Field { buffer, at, elements, width } in fields {
                    writeln!(f, "    field {buffer} at {at}, {elements} of {width} bytes")?;
                }
            }
            Holds::Tape(tape) => {
                writeln!(f, "    record {width} bytes, those of {tape}")?;
                writeln!(f, "    read {}", self.read)?;
            }
        }
        if let Some(Layer { iterations, of }) = self.layer {
            let of = of.map_or(String::new(), |index| format!(" of {index}"));
            let (s, n) = (plural(iterations), iterations * entries);
            writeln!(f, "    layer {iterations} iteration{s}{of}, {n} entries")?;
        }
        if let Some(Tile { length, parts }) = self.tile {
            writeln!(f, "    tile {length} layer{} in {parts} parts", plural(length))?;
        }
        self.scratchpad.map_or(Ok(()), |at| writeln!(f, "    scratchpad {at}"))
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    array {}", self.buffer)?;
        writeln!(f, "    step {}", self.step)?;
        for Loop { index, extent } in &self.loops {
            writeln!(f, "    loop {index} in {extent}")?;
        }
        for (value, address) in &self.loads {
            writeln!(f, "    load {value} at {address}")?;
        }
        if let Some(Tile { length, parts }) = self.tile {
            writeln!(f, "    tile {length} iteration{} in {parts} parts", plural(length))?;
        }
        self.scratchpad.map_or(Ok(()), |at| writeln!(f, "    scratchpad {at}"))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "layout @{} {{", self.name)?;
        for (id, region) in &self.regions {
            write!(f, "  region {id} {{\n{region}  }}\n")?;
        }
        for (id, input) in &self.inputs {
            write!(f, "  input {id} {{\n{input}  }}\n")?;
        }
        writeln!(f, "}}")
    }
}

/// The lines of a layout's text that are not parsed yet.
struct Lines<'t> {
    lines: Vec<(usize, &'t str)>,
    at: usize,
}

impl<'t> Lines<'t> {
    /// If the next line begins with the word `word`, consumes the line and returns the rest of it.
    fn take(&mut self, word: &str) -> Option<&'t str> {
        let (_, line) = self.lines.get(self.at)?;
        let rest = match line.strip_prefix(word)? {
            "" => "",
            rest => rest.strip_prefix(' ')?,
        };
        self.at += 1;
        Some(rest)
    }

    fn need(&mut self, word: &str) -> Result<&'t str, Problem> {
        self.take(word).ok_or_else(|| self.expected(&format!("`{word} ..`")))
    }

    /// Returns a parse error: the next line is not `what`, which was expected.
    fn expected(&self, what: &str) -> Problem {
        let found = self.lines.get(self.at).map_or((0, "the end"), |l| *l);
        wrong(found, what)
    }

    /// Returns a parse error: the line that was consumed last is not `what`, which was expected.
    fn before(&self, what: &str) -> Problem {
        wrong(self.lines.get(self.at.wrapping_sub(1)).map_or((0, "nothing"), |l| *l), what)
    }

    /// Matches `rest`, the previous line after its first word, against a form such as `* bytes, * of them`, and
    /// returns the words at the `*`.
    fn words<const N: usize>(&self, rest: &'t str, form: &str) -> Result<[&'t str; N], Problem> {
        let (found, words) = (rest.split(' '), form.split(' '));
        let mut all = [""; N];
        let mut n = 0;
        if rest.split(' ').count() != form.split(' ').count() {
            return Err(self.before(form));
        }
        for (found, word) in found.zip(words) {
            let (found, word) = (found.trim_end_matches(','), word.trim_end_matches(','));
            // `iteration*` also matches the plural `iterations`.
            let plural = |one: &str| found == one || found.strip_suffix('s') == Some(one);
            match word {
                "*" => {
                    all[n] = found;
                    n += 1;
                }
                _ if found == word || word.strip_suffix('*').is_some_and(plural) => {}
                _ => return Err(self.before(form)),
            }
        }
        Ok(all)
    }

    fn number(&self, word: &str) -> Result<u64, Problem> {
        word.parse().map_err(|_| self.before("a number"))
    }

    fn id<E: EntityRef>(&self, word: &str, letter: char) -> Result<E, Problem> {
        let n = word.strip_prefix(letter).and_then(|n| n.parse::<u32>().ok());
        n.map(|n| E::new(n as usize)).ok_or_else(|| self.before(&format!("a name like {letter}3")))
    }

    fn sum(&self, text: &str) -> Result<Affine<IndexId>, Problem> {
        let mut all = Affine::default();
        for part in text.replace(" - ", " + -").split(" + ") {
            let signed =
                |n: &str| n.parse::<i64>().map_err(|_| self.before("a sum like `i0*8 + 1`"));
            let term = match part.split_once('*') {
                Some((index, stride)) => Affine::atom(self.id(index, 'i')?).times(signed(stride)?),
                None if part.starts_with('i') => Affine::atom(self.id(part, 'i')?),
                None => Affine::constant(signed(part)?),
            };
            all = all.checked_plus(&term, 1).ok_or_else(|| self.before("smaller numbers"))?;
        }
        Ok(all)
    }

    fn tile(&mut self, what: &str) -> Result<Option<Tile>, Problem> {
        let Some(rest) = self.take("tile") else { return Ok(None) };
        let [length, parts] = self.words(rest, &format!("* {what}* in * parts"))?;
        Ok(Some(Tile { length: self.number(length)?, parts: self.number(parts)? }))
    }

    fn scratchpad(&mut self) -> Result<Option<u64>, Problem> {
        let at = self.take("scratchpad");
        at.map(|at| self.number(at)).transpose()
    }

    fn region(&mut self) -> Result<Region, Problem> {
        let record = self.need("record")?;
        let read = self.need("read")?;
        let read = READS.into_iter().find(|r| r.to_string() == read);
        let read =
            read.ok_or_else(|| self.before("mirrored, in order, otherwise, or as the run says"))?;
        let (width, holds) = if let Ok([width, tape]) = self.words(record, "* bytes, those of *") {
            (width, Holds::Tape(self.id::<TapeId>(tape, 't')?))
        } else {
            let [width, records] = self.words(record, "* bytes, * of them")?;
            let mut fields = Vec::new();
            while let Some(rest) = self.take("field") {
                let [buffer, at, elements, width] = self.words(rest, "* at * * of * bytes")?;
                fields.push(Field {
                    buffer: self.id::<BufferId>(buffer, 'b')?,
                    at: self.number(at)?,
                    elements: self.number(elements)?,
                    width: self.number(width)?,
                });
            }
            (width, Holds::Arrays { fields, records: self.number(records)? })
        };
        let mut region = Region::of(holds, self.number(width)?, read);
        if let Some(rest) = self.take("layer") {
            let (iterations, of, entries) = match self.words(rest, "* iteration* of * * entries") {
                Ok([iterations, of, entries]) => {
                    (iterations, Some(self.id::<IndexId>(of, 'i')?), entries)
                }
                Err(_) => {
                    let [iterations, entries] = self.words(rest, "* iteration* * entries")?;
                    (iterations, None, entries)
                }
            };
            let layer = Layer { iterations: self.number(iterations)?, of };
            if layer.iterations.checked_mul(region.entries()) != Some(self.number(entries)?) {
                return Err(self.before("as many entries as the iterations have"));
            }
            region.layer = Some(layer);
        }
        (region.tile, region.scratchpad) = (self.tile("layer")?, self.scratchpad()?);
        Ok(region)
    }

    fn input(&mut self) -> Result<Input, Problem> {
        let array = self.need("array")?;
        let buffer = self.id::<BufferId>(array, 'b')?;
        let step = self.need("step")?;
        let step = self.number(step)? as usize;
        let (mut loops, mut loads) = (Vec::new(), Vec::new());
        while let Some(rest) = self.take("loop") {
            let (index, extent) =
                rest.split_once(" in ").ok_or_else(|| self.before("`i0 in 8`"))?;
            loops.push(Loop { index: self.id::<IndexId>(index, 'i')?, extent: self.sum(extent)? });
        }
        while let Some(rest) = self.take("load") {
            let (value, at) = rest.split_once(" at ").ok_or_else(|| self.before("`%3 at i0`"))?;
            loads.push((self.id::<ScalarId>(value, '%')?, self.sum(at)?));
        }
        let (tile, scratchpad) = (self.tile("iteration")?, self.scratchpad()?);
        Ok(Input { buffer, step, loops, loads, tile, scratchpad })
    }
}

fn wrong((line, found): (usize, &str), what: &str) -> Problem {
    let message = format!("text of a layout, line {line}: expected {what}, found `{found}`");
    Problem::new(Kind::Parse, message, "")
}

impl Layout {
    /// Parses a layout from its printed text.
    ///
    /// # Errors
    /// [`Kind::Parse`] with the line that cannot be parsed.
    pub fn parse(text: &str) -> Result<Layout, Problem> {
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        let mut lines =
            Lines { lines: lines.filter(|(_, line)| !line.is_empty()).collect(), at: 0 };
        let name = lines.need("layout")?;
        let name = name.strip_prefix('@').and_then(|n| n.strip_suffix(" {"));
        let name = name.ok_or_else(|| lines.before("`layout @name {`"))?.to_owned();
        let (mut regions, mut inputs) = (PrimaryMap::new(), PrimaryMap::new());
        while let Some(rest) = lines.take("region") {
            if rest != format!("r{} {{", regions.len()) {
                return Err(lines.before(&format!("`region r{} {{`", regions.len())));
            }
            regions.push(lines.region()?);
            lines.need("}")?;
        }
        while let Some(rest) = lines.take("input") {
            if rest != format!("n{} {{", inputs.len()) {
                return Err(lines.before(&format!("`input n{} {{`", inputs.len())));
            }
            inputs.push(lines.input()?);
            lines.need("}")?;
        }
        lines.need("}")?;
        match lines.at == lines.lines.len() {
            true => Ok(Layout { name, regions, inputs }),
            false => Err(lines.expected("the end")),
        }
    }
}
