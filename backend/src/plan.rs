//! The memory plan as a table: what `explain` prints.
//!
//! ```text
//! buffer  what            type         bytes    place          steps  from
//! b2      exp             f64[8,100]   6400     workspace+0    0-1    src/main.rs:7
//! ```

use crate::keeping::Keeping;
use crate::kernel::{BufferId, KernelId, Place, Tape, TapeId};
use crate::tape::{Again, table};
use cranelift_entity::PrimaryMap;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::prim::{PACKED, ROUNDED};
use tapeloom_ir::{ArrayType, Loc};

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
    /// What the rounds of loops keep of which only the run knows how many there are.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// What rounds keep that is as large as what they carry.
    pub keeping: Vec<Keeping>,
    /// What the way back computes again.
    pub again: Vec<Again>,
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
    /// The first line that reads it on the way back, if it holds what the forward pass made.
    pub read_back: Loc,
    /// The names under which values in it are kept for the backward pass.
    pub kept: Vec<Arc<str>>,
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
            How::Packed => PACKED,
            How::Rounded => ROUNDED,
        })
    }
}

impl Row {
    /// How the value lies in it.
    pub fn how(&self) -> How {
        let marked = |mark: &str| self.kept.iter().any(|name| &**name == mark);
        match (marked(PACKED), marked(ROUNDED)) {
            (_, true) => How::Rounded,
            (true, false) => How::Packed,
            (false, false) => How::Stored,
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
            match self.kept.join(", ") {
                names if names.is_empty() => self.primitive.to_owned(),
                names => format!("{}, kept {names}", self.primitive),
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

impl Plan {
    /// What the rounds of loops record of which only the run knows how many there are.
    pub(crate) fn records(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, Tape { record, loc, within }) in &self.tapes {
            let at =
                |loc: &Loc| loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
            write!(f, "{id}: {record} bytes more for each round of the loop{}", at(loc))?;
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
