//! The memory plan as a table: what `explain` prints.
//!
//! ```text
//! buffer  what            type         bytes    place          steps  from
//! b2      exp             f64[8,100]   6400     workspace+0    0-1    src/main.rs:7
//! ```

use crate::loop_ir::{BufferId, Kernel, KernelId, Place, Tape, TapeId};
use crate::passes::Hoisted;
use crate::report::columns::table;
use crate::report::loop_tape_warnings::Keeping;
use crate::report::rematerialized::Rematerialized;
use cranelift_entity::PrimaryMap;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, Loc, Origin};

/// Where every value that needs memory lies, and when.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Results first, then the workspace.
    pub rows: Vec<Row>,
    /// Number of steps of the program.
    pub steps: usize,
    /// Bytes of workspace: the exact peak beside arguments and results.
    pub peak: usize,
    /// The functions that were asked to be compiled once.
    pub calls: Vec<CallRow>,
    /// What the iterations of loops keep of which only the run knows how many there are.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// What iterations keep that is as large as what they carry.
    pub keeping: Vec<Keeping>,
    /// What the way back computes again.
    pub again: Vec<Rematerialized>,
    /// What lies between a forward pass and its way back while one step runs: in an iteration of a loop, in a branch,
    /// in a function that is called.
    pub inside: Vec<Inside>,
    /// What steps work in that run functions, beside the buffers that they read and write.
    pub works: Vec<Works>,
}

/// Memory in which a step works while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Works {
    /// The step.
    pub step: usize,
    /// Where in the workspace it begins.
    pub offset: usize,
    /// Bytes.
    pub bytes: usize,
}

/// What lies in the memory of one step between a forward pass and its way back that are both in it.
#[derive(Clone, Debug)]
pub struct Inside {
    /// The step.
    pub step: usize,
    /// Bytes, as many as there are at once.
    pub bytes: usize,
    /// The buffers, those of steps of steps among them.
    pub rows: Vec<Row>,
}

/// A function that was asked to be compiled once, and what became of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its equations, with those of what it calls.
    pub equations: usize,
    /// How often it would be written out.
    pub sites: usize,
    /// What it is compiled to; `None` where its calls are inlined.
    pub kernel: Option<KernelId>,
}

/// A buffer of the plan.
#[derive(Clone, Debug)]
pub struct Row {
    /// The buffer.
    pub buffer: BufferId,
    /// What it holds.
    pub ty: ArrayType,
    /// Where it is.
    pub place: Place,
    /// The first step that writes it.
    pub first: usize,
    /// The last step that reads or writes it.
    pub last: usize,
    /// The primitive whose output it holds (the first, where several write it in turn).
    pub primitive: &'static str,
    /// The user's line.
    pub location: Loc,
    /// Whether it lies between a forward pass, which makes it, and the way back, which reads it.
    pub tape: bool,
    /// What reads it in the reverse pass.
    pub read_back: Vec<Origin>,
    /// Why values in it are kept for the reverse pass.
    pub kept: Vec<Mark>,
    /// The names that the user gave to values in it.
    pub names: Vec<Arc<str>>,
}

/// How a value lies in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// As it is.
    Stored,
    /// In fewer bytes.
    Packed,
    /// In fewer bytes, as other numbers near to its own ([`ROUNDING`](tapeloom_ir::ROUNDING)).
    Rounded,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            How::Stored => "stored",
            How::Packed => "packed",
            How::Rounded => "rounded",
        })
    }
}

impl Row {
    /// Whether it takes memory between a forward pass and the way back: results are there anyway.
    pub fn is_tape(&self) -> bool {
        self.tape && self.is_workspace()
    }

    /// How the value lies in it.
    pub fn how(&self) -> How {
        let marked = |mark: Mark| self.kept.contains(&mark);
        match (marked(Mark::Packed), marked(Mark::Rounded)) {
            (_, true) => How::Rounded,
            (true, false) => How::Packed,
            (false, false) => How::Stored,
        }
    }

    /// What it is: its type, under the names that it has.
    pub fn value(&self) -> String {
        match self.names.join(", ") {
            names if names.is_empty() => self.ty.to_string(),
            names => format!("{names}: {}", self.ty),
        }
    }

    /// Whether it lies in the workspace.
    pub fn is_workspace(&self) -> bool {
        self.offset().is_some()
    }

    /// Where in the workspace it lies.
    pub fn offset(&self) -> Option<usize> {
        match self.place {
            Place::Workspace(offset) => Some(offset),
            Place::Input(_) | Place::Output(_) | Place::Given { .. } | Place::Record { .. } => None,
        }
    }

    /// Its line of the table.
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            self.buffer.to_string(),
            {
                let named = self.names.iter().map(|name| Mark::Named(name.clone()));
                let marks = named.chain(self.kept.iter().cloned()).map(|mark| mark.to_string());
                match marks.collect::<Vec<_>>() {
                    marks if marks.is_empty() => self.primitive.to_owned(),
                    marks => format!("{}, kept {}", self.primitive, marks.join(", ")),
                }
            },
            self.ty.to_string(),
            self.ty.bytes().to_string(),
            match self.place {
                Place::Input(i) => format!("input {i}"),
                Place::Workspace(offset) => format!("workspace+{offset}"),
                place @ (Place::Output(_) | Place::Given { .. } | Place::Record { .. }) => {
                    place.to_string()
                }
            },
            format!("{}-{}", self.first, self.last),
            self.location.map_or(String::new(), |l| format!("{}:{}", l.file(), l.line())),
        ]
    }
}

impl Works {
    /// Its line of the table.
    pub(crate) fn cells(&self) -> [String; 7] {
        let Works { step, offset, bytes } = *self;
        let [buffer, ty, line] = [const { String::new() }; 3];
        let (what, place) = ("inside of a step".to_owned(), format!("workspace+{offset}"));
        [buffer, what, ty, bytes.to_string(), place, format!("{step}-{step}"), line]
    }
}

impl Plan {
    /// Adds what steps compute ahead of their loops.
    pub(crate) fn ahead(&mut self, kernel: &Kernel, made: &[Hoisted]) {
        for Hoisted { buffer, step, what } in made {
            let of = &kernel.buffers[*buffer];
            self.rows.push(Row {
                buffer: *buffer,
                ty: of.ty.clone(),
                place: of.place,
                first: *step,
                last: *step,
                primitive: what,
                location: None,
                tape: false,
                read_back: Vec::new(),
                kept: Vec::new(),
                names: Vec::new(),
            });
        }
        self.peak = self.peak.max(kernel.workspace);
    }

    /// Bytes of the workspace between a forward pass and the way back, as many as there are at once.
    pub fn tape(&self) -> usize {
        let rows = || self.rows.iter().filter(|row| row.is_tape());
        let at = |step: usize| {
            let alive = rows().filter(|row| row.first <= step && step <= row.last);
            let inside = self.inside.iter().filter(|inside| inside.step == step);
            let own: usize = alive.map(|row| row.ty.bytes()).sum();
            own + inside.map(|inside| inside.bytes).sum::<usize>()
        };
        // There are most where one begins, or while a step has some of its own.
        let steps = rows().map(|row| row.first).chain(self.inside.iter().map(|i| i.step));
        steps.map(at).max().unwrap_or(0)
    }

    /// What the iterations of loops record of which only the run knows how many there are.
    pub(crate) fn records(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, Tape { record, loc, within }) in &self.tapes {
            let at =
                |loc: &Loc| loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
            write!(f, "{id}: {record} bytes more for each iteration of the loop{}", at(loc))?;
            for outer in within {
                write!(f, ", in each of that{}", at(outer))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["buffer", "what", "type", "bytes", "place", "steps", "from"];
        let mut lines = vec![heads.map(String::from)];
        lines.extend(self.rows.iter().map(Row::cells));
        lines.extend(self.works.iter().map(Works::cells));
        table(f, &lines)?;
        let s = if self.steps == 1 { "" } else { "s" };
        writeln!(f, "{} step{s}, workspace of {} bytes", self.steps, self.peak)?;
        self.records(f)?;
        for keeping in &self.keeping {
            writeln!(f, "{keeping}")?;
        }
        for CallRow { name, equations, sites, kernel } in &self.calls {
            let kept = kernel.map_or("inlined".to_owned(), |k| format!("compiled once, as {k}"));
            writeln!(f, "@{name}: {kept} ({equations} equations, {sites} times)")?;
        }
        Ok(())
    }
}
